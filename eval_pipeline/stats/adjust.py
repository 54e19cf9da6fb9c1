"""Adjusting p-values when several questions are asked at once."""

# Holm keeps the chance of even one false alarm: use it for gates. Benjamini–Hochberg keeps the expected share of false
# alarms among the findings: use it where many are looked at. Metrics that measure nearly the same are one family: Simes
# asks whether anything in it moved, and only that question counts among the others. A p-value of None (nothing could be
# tested) stays None and is not counted as a question.

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from eval_pipeline.stats.errors import ImpossibleValue, UnpairedValues

Adjustment = Callable[[Sequence[float | None]], list[float | None]]


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's step-down adjustment, in the order given."""
    known = _known(p_values)
    result: list[float | None] = [None] * len(p_values)
    largest = 0.0
    for rank, (p_value, place) in enumerate(known):
        largest = max(largest, p_value * (len(known) - rank))
        result[place] = min(largest, 1.0)
    return result


def benjamini_hochberg(p_values: Sequence[float | None]) -> list[float | None]:
    """Benjamini and Hochberg's step-up adjustment, in the order given."""
    known = _known(p_values)
    result: list[float | None] = [None] * len(p_values)
    smallest = 1.0
    for rank in range(len(known), 0, -1):
        p_value, place = known[rank - 1]
        smallest = min(smallest, p_value * (len(known) / rank))
        result[place] = smallest
    return result


def simes(p_values: Sequence[float | None]) -> float | None:
    """One p-value for "nothing of this moved", valid also where the questions hang together."""
    known = _known(p_values)
    return min(
        (p_value * (len(known) / rank) for rank, (p_value, _) in enumerate(known, start=1)), default=None
    )


def adjust_by_family(
    p_values: Sequence[float | None], families: Sequence[Hashable], *, across: Adjustment = benjamini_hochberg
) -> list[float | None]:
    """Simes inside every family, `across` over the families; no key is surer than its family, or than by itself."""
    if len(families) != len(p_values):
        raise UnpairedValues(
            f"families has {len(families)} entries for {len(p_values)} p-values; allowed is one family per p-value"
        )
    members: dict[Hashable, list[float | None]] = {}
    for p_value, family in zip(p_values, families, strict=True):
        members.setdefault(family, []).append(p_value)
    adjusted = dict(zip(members, across([simes(one) for one in members.values()]), strict=True))
    return [
        None if p_value is None or (whole := adjusted[family]) is None else max(p_value, whole)
        for p_value, family in zip(p_values, families, strict=True)
    ]


def _known(p_values: Sequence[float | None]) -> list[tuple[float, int]]:
    """The smallest first, each with its place."""
    for place, p_value in enumerate(p_values):
        if p_value is not None and not 0 <= p_value <= 1:
            raise ImpossibleValue(
                f"p-value {place} is {p_value!r}; allowed is a number from 0 to 1, or None where nothing was tested"
            )
    return sorted((p_value, place) for place, p_value in enumerate(p_values) if p_value is not None)
