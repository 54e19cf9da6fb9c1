"""The queries of one run, those with something to look at first."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from eval_pipeline.report.families import chosen
from eval_pipeline.report.markup import Child, Html, data_text
from eval_pipeline.report.material import QueryRow, QueryTexts, RunMaterial
from eval_pipeline.report.numbers import NOTHING, rank
from eval_pipeline.report.parts import Column, badge, breakable_name
from eval_pipeline.report.queries import (
    QueryEntry,
    QueryTable,
    found_ranks,
    labelled_text,
    query_table,
    sides,
)

SHOWN_METRICS: Final = ("recall@5_doc", "groundedness", "citation_coverage", "judge_correctness")
MOST_METRICS: Final = 5
ZERO_IS_BAD: Final = ("groundedness", "citation_coverage", "refusal_correctness", "abstention_accuracy")
LATE: Final = 5

FAILED, MISSED, LATE_HIT, ANSWER, FINE, UNLABELLED = (
    "failed",
    "not found",
    f"found after {LATE}",
    "answer to check",
    "found",
    "no expected chunk",
)
ORDER: Final = (FAILED, MISSED, ANSWER, LATE_HIT, UNLABELLED, FINE)

Values = Mapping[str, float | None]


def run_query_table(material: RunMaterial, *, room: int) -> Html:
    """The table, in so many bytes; `kind` says how the query went."""
    defined = [key for key, entry in material.document["metrics"].items() if entry["n"]]
    metrics = chosen(SHOWN_METRICS, defined, most=MOST_METRICS)
    entries = [_entry(row, material, metrics) for row in material.queries]
    entries.sort(key=lambda entry: ORDER.index(entry.kind))
    columns = [
        Column("question"),
        Column("kind"),
        Column("rank", is_number=True),
        *(Column(breakable_name(key), is_number=True) for key in metrics),
        Column("category"),
    ]
    return query_table(
        QueryTable(
            name="run-queries",
            caption="Queries with something to look at first. Rank: where the first expected chunk stands.",
            columns=columns,
            entries=entries,
            mark="failed only",
        ),
        room=room,
    )


def kind_of(row: QueryRow, values: Values) -> str:
    """How the query went, in one word."""
    if row.is_failed:
        return FAILED
    if row.n_expected and row.first_rank is None:
        return MISSED
    if any(values.get(key) == 0 for key in ZERO_IS_BAD):
        return ANSWER
    if not row.n_expected:
        return UNLABELLED
    return LATE_HIT if row.first_rank is not None and row.first_rank > LATE else FINE


def _entry(row: QueryRow, material: RunMaterial, metrics: list[str]) -> QueryEntry:
    values = {key: _finite(value) for key, value in material.values.get(row.query_id, {}).items()}
    kind = kind_of(row, values)
    mood = {FAILED: "bad", MISSED: "bad", FINE: "good"}.get(kind)
    cells: list[Child] = [
        badge(kind, mood),
        rank(row.first_rank),
        *(_number(values.get(key)) for key in metrics),
        data_text(row.category, most=60) if row.category else None,
    ]
    keys: list[float | str | None] = [
        kind,
        row.first_rank,
        *(values.get(key) for key in metrics),
        row.category,
    ]
    return QueryEntry(
        query_id=row.query_id,
        question=row.question if material.with_text else None,
        kind=kind,
        is_marked=row.is_failed,
        cells=cells,
        keys=keys,
        detail=lambda with_text: _detail(row, material, with_text=with_text and material.with_text),
    )


def _finite(value: float | None) -> float | None:
    """A formula of one's own may yield what is no number."""
    return value if value is not None and math.isfinite(value) else None


def _number(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.2f}"


def _detail(row: QueryRow, material: RunMaterial, *, with_text: bool) -> Html | None:
    texts = material.texts.get(row.query_id, QueryTexts(hits=[()]))
    below = [labelled_text("Error", row.error), labelled_text("Answer", row.answer)] if with_text else None
    return sides(
        texts,
        headings=["Retrieved"],
        matched=[found_ranks(row.first_rank)],
        with_text=with_text,
        below=below,
    )
