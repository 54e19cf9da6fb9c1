"""@formula: how a formula in Python declares what a SQL file says in its header."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def formula(
    *,
    reads: Sequence[str] | Mapping[str, Sequence[str]],
    keys: Mapping[str, str],
    examples: Sequence[str] = (),
    **header: Any,
) -> Callable[[F], F]:
    """Declare a formula: `reads` names the tables that arrive as Polars frames, in the order of the arguments.

    Where it names the columns of each (`{"raw.runs": ["run_key", "suite_time_ms"]}`), only these arrive: less is
    copied, and forgetting other texts of the table leaves the formula as it is.

    The function returns a frame with run_key, query_key (or the columns that `grain` names) and one column per key.
    `parameters` arrive as keyword arguments. `examples` are texts `{given} => {expected}`, as in a SQL header. All of
    it is written out as literals, because the catalogue reads it without running the file.
    """

    def declare(function: F) -> F:
        return function

    return declare
