"""The definitions that can be read, for commands that only show what is stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING

from eval_pipeline.errors import DefinitionError, EvalPipelineError
from eval_pipeline.settings import Settings

if TYPE_CHECKING:
    from eval_pipeline.formulas.registry import Registry

Say = Callable[[str], None]


def readable_definitions(settings: Settings, say: Say) -> Callable[[], Registry]:
    """Read when somebody first needs them; those that cannot be read are told and left out."""

    @cache
    def definitions() -> Registry:
        from eval_pipeline.formulas.registry import load_registry

        broken: dict[str, DefinitionError] = {}
        try:
            registry = load_registry(settings, broken=broken)
        except EvalPipelineError as error:
            raise error from None  # Raised while the store is open, it is still no fault of its file.
        if broken:
            _tell(broken, say)
        return registry

    return definitions


def _tell(broken: Mapping[str, DefinitionError], say: Say) -> None:
    """Every error once; what only reads a table that is left out is counted."""
    own = {name: error for name, error in broken.items() if not isinstance(error.__cause__, DefinitionError)}
    for error in own.values():
        say(f"error: {error}")
    readers = f", with {len(broken) - len(own)} that read them" if len(broken) > len(own) else ""
    say(
        f"Left out: {', '.join(own)}{readers}. Everything else is shown; `plan` and `run` go on when that is mended."
    )
