"""Scores of others under their own names: as a number or text alone, or with a reason and who said it."""

from __future__ import annotations

import math
import typing
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import pyarrow as pa

from eval_pipeline.bundle.columns import SCORE_COLUMNS
from eval_pipeline.bundle.lines import BadRow
from eval_pipeline.bundle.problems import _id_fault
from eval_pipeline.records import RunScore, Score, Source

Row = dict[str, Any]
SOURCES = typing.get_args(Source)
_FIELDS = frozenset(one.name for one in msgspec.structs.fields(Score))


def _full_scores(row: Row) -> Row:
    """The row with each of its scores as an object; a value that is no finite number is a text, or none."""
    scores = row.get("scores")
    if not isinstance(scores, dict):
        return row
    for name in scores:
        fault = _id_fault(name)
        if fault:
            raise BadRow("scores", f"the name of a score: {fault}")
    return {**row, "scores": {name: _full_score(score) for name, score in scores.items()}}


def _full_score(score: Any) -> Row:
    found = dict(score) if isinstance(score, dict) and _FIELDS & score.keys() else {"value": score}
    if found.get("source") not in (None, *SOURCES):
        raise BadRow("scores[...].source", f"is {found['source']!r}; allowed: {', '.join(SOURCES)}")
    value = found.get("value")
    if isinstance(value, float) and not math.isfinite(value):
        found["value"] = None
    elif isinstance(value, int) and abs(value) > 1 << 1000:
        found["value"] = str(value)
    elif value is not None and not isinstance(value, bool | int | float | str):
        found["value"] = msgspec.json.encode(value).decode()
    return found


def _number_and_label(score: Score | RunScore) -> tuple[float | None, str | None]:
    """What counts of a score, and the text that was delivered beside or instead of a number."""
    if isinstance(score.value, str):
        return None, score.value
    return None if score.value is None else float(score.value), score.label


def score_rows(scores: Mapping[str, Score] | Mapping[str, RunScore] | None, *, result: int) -> Iterable[Row]:
    """A row per score of one result, or of the run with this number."""
    for name, score in (scores or {}).items():
        value, label = _number_and_label(score)
        yield {
            "result": result,
            "name": name,
            "value": value,
            "label": label,
            "text": score.reason,
            **{field: getattr(score, field) for field in ("source", "model", "version")},
        }


def score_table(rows: Iterable[Row]) -> pa.Table:
    """These rows in the columns that the store takes."""
    return pa.Table.from_pylist(list(rows), schema=SCORE_COLUMNS)
