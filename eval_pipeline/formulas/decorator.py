"""A formula in Python declares what a SQL file says in its header; nothing downstream can tell which it was."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class PythonFormula:
    """A function from frames to a frame, and what its author declares of it."""

    function: Callable[..., Any]
    reads: tuple[str, ...]
    header: Mapping[str, Any]
    examples: tuple[str, ...]


def formula(
    *, reads: Sequence[str], keys: Mapping[str, str], examples: Sequence[str] = (), **header: Any
) -> Callable[[Callable[..., Any]], PythonFormula]:
    """Declare a formula: `reads` names the tables that arrive as Polars frames, in the order of the arguments.

    The function returns a frame with run_key, query_key and one column per key. `parameters` arrive as keyword
    arguments. `examples` are texts `{given} => {expected}`, as in a SQL header.
    """

    def declare(function: Callable[..., Any]) -> PythonFormula:
        return PythonFormula(function, tuple(reads), {"keys": dict(keys), **header}, tuple(examples))

    return declare
