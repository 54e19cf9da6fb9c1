"""[comparison] in eval-pipeline.toml: the options of every comparison."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any, Final

from eval_pipeline.comparing.verdicts import CHOICES, ComparisonOptions
from eval_pipeline.config import Config
from eval_pipeline.errors import InvalidConfig, UnknownName

SIGNIFICANT: Final = 0.05

SHIPPED = ComparisonOptions()
# What each question is about; the decisions say more.
QUESTIONS = {
    "compare_k": "the last rank at which a chunk counts as found",
    "rank_change": "what a query is whose first expected chunk moved: a kind of its own, a win or loss, or a draw",
    "regression_kind": "whether a regression is a mark beside the kind, or a kind of its own",
    "overlap_basis": "across chunkers: the shared characters are a share of the smaller of hit and expected chunk, of "
    "one of them, or of both together",
    "overlap_threshold": "across chunkers: how large that share is at least",
    "delta_scope": "whether deltas are of each run's own aggregates, or over the queries of both runs",
}
WHY = {
    "compare_k": "docs/decisions.md#a3-14",
    "rank_change": "docs/decisions.md#a3-12",
    "regression_kind": "docs/decisions.md#a3-13",
    "overlap_basis": "docs/decisions.md#a3-15",
    "overlap_threshold": "docs/decisions.md#a3-16",
    "delta_scope": "docs/decisions.md#a3-18",
}


def comparison_options(config: Config) -> ComparisonOptions:
    """The shipped reading with what [comparison] changes; a value that is not allowed is refused with what is."""
    known = {field.name for field in fields(ComparisonOptions)}
    for name, value in config.comparison.items():
        if name not in known:
            raise UnknownName("parameter", name, known, hint=f"(of [comparison], in {config.path})")
        _check_type(name, value, config=config)
    try:
        return ComparisonOptions(**config.comparison)
    except InvalidConfig as error:
        raise InvalidConfig(f"{config.path}: [comparison] {error}") from error


def _check_type(name: str, value: Any, *, config: Config) -> None:
    shipped = getattr(SHIPPED, name)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if isinstance(shipped, str) or (is_number and (isinstance(shipped, float) or isinstance(value, int))):
        return
    raise InvalidConfig(
        f"{config.path}: [comparison] {name} is {value!r}; expected something like {shipped!r}"
    )


def _option_notes(options: ComparisonOptions) -> list[str]:
    """What a comparison says about itself when it is read otherwise than shipped."""
    shipped = asdict(SHIPPED)
    changed = [f"{name} = {value}" for name, value in asdict(options).items() if value != shipped[name]]
    if not changed:
        return []
    return [f"this comparison is read with {', '.join(changed)}, as [comparison] in eval-pipeline.toml says"]


def describe_options(options: ComparisonOptions) -> list[dict[str, object]]:
    """Every question with its value, what else there is, and where it was decided."""
    return [
        {
            "name": name,
            "value": value,
            "shipped": getattr(SHIPPED, name),
            "choices": list(CHOICES.get(name, ())),
            "meaning": QUESTIONS[name],
            "why": WHY[name],
        }
        for name, value in asdict(options).items()
    ]
