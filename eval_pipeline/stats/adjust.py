"""Adjusting p-values when several questions are asked at once."""

# Holm keeps the chance of even one false alarm: use it for gates. Benjamini–Hochberg keeps the expected share of false
# alarms among the findings: use it for slices, where many are looked at. A p-value of None (nothing could be tested)
# stays None and is not counted as a question.

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from eval_pipeline.stats.errors import ImpossibleValue


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's step-down adjustment, in the order given."""
    known, places = _known(p_values)
    order = np.argsort(known, kind="stable")
    factors = np.arange(known.size, 0, -1)
    stepped = np.maximum.accumulate(known[order] * factors)
    return _put_back(stepped, places[order], len(p_values))


def benjamini_hochberg(p_values: Sequence[float | None]) -> list[float | None]:
    """Benjamini and Hochberg's step-up adjustment, in the order given."""
    known, places = _known(p_values)
    order = np.argsort(known, kind="stable")
    factors = known.size / np.arange(1, known.size + 1)
    stepped = np.minimum.accumulate((known[order] * factors)[::-1])[::-1]
    return _put_back(stepped, places[order], len(p_values))


def _known(p_values: Sequence[float | None]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.intp]]:
    for place, p_value in enumerate(p_values):
        if p_value is not None and not 0 <= p_value <= 1:
            raise ImpossibleValue(
                f"p-value {place} is {p_value!r}; allowed is a number from 0 to 1, or None where nothing was tested"
            )
    places = np.array([i for i, p in enumerate(p_values) if p is not None], dtype=np.intp)
    return np.array([p for p in p_values if p is not None], dtype=np.float64), places


def _put_back(
    adjusted: npt.NDArray[np.float64], places: npt.NDArray[np.intp], length: int
) -> list[float | None]:
    result: list[float | None] = [None] * length
    for place, p_value in zip(places.tolist(), adjusted.tolist(), strict=True):
        result[place] = min(p_value, 1.0)
    return result
