"""What a run's parts are by another reading of their definitions, beside the first."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from eval_pipeline.formulas.definition import Definition
from eval_pipeline.formulas.registry import Registry
from eval_pipeline.store.connect import Connection
from eval_pipeline.store.read import RunRow
from eval_pipeline.store.read_parts import computed_rows

EXTRACTION: Final = "metrics.extraction"


def other_readings(con: Connection, registry: Registry, run: RunRow) -> dict[str, dict[str, Any]]:
    """Name → what it is a reading of, and its values; what is read per query stands among the metrics already."""
    found = {}
    for one in registry:
        if one.reading_of is None or not registry.applies_to(one, run.dataset):
            continue
        values = dict(_values(one, computed_rows(con, one.name, run))) if _is_part(one) else {}
        if values:
            found[one.short_name] = {"reading_of": one.reading_of.split(".", 1)[1], "values": values}
    return found


def _is_part(one: Definition) -> bool:
    return one.schema == "aggregates" or one.reading_of == EXTRACTION


def _values(one: Definition, rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, float | None]]:
    """The numbers of the whole run: the row of its own, or the F1 of its cases as it is averaged."""
    if one.reading_of == EXTRACTION:
        f1 = next(key for key, column in one.column_of_key.items() if column == "f1")
        cases = [row[f1] for row in rows if row[f1] is not None]
        if cases:
            yield "macro_f1", round(math.fsum(cases) / len(cases), 4)
            yield "eval_count", len(cases)
        return
    # Of the indexing there is a row per type of document beside the one of the whole run.
    whole = [row for row in rows if row.get("doc_type") is None]
    if len(whole) == 1:
        for key in one.keys:
            if isinstance(whole[0][key], int | float) and not isinstance(whole[0][key], bool):
                yield key, whole[0][key]
