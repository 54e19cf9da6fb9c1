"""The queries of two runs, those that moved first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from eval_pipeline.report.markup import Child, Html, data_text, join, tag
from eval_pipeline.report.material import PairMaterial, QueryRow, QueryTexts
from eval_pipeline.report.movements import moved_queries
from eval_pipeline.report.numbers import NOTHING, rank
from eval_pipeline.report.parts import Column, badge
from eval_pipeline.report.queries import (
    QueryEntry,
    QueryTable,
    found_ranks,
    labelled_text,
    query_table,
    sides,
)

MOODS = {"win": "good", "rank_up": "good", "loss": "bad", "rank_down": "bad", "regression": "bad"}

Entry = Mapping[str, Any]


def pair_query_table(material: PairMaterial, *, room: int) -> Html:
    """The table, in so many bytes: what moved farthest stands first, what did not move stands last."""
    document = material.document
    moved = moved_queries(document)
    moved_ids = {entry["query_id"] for entry in moved}
    rest = [entry for entry in document["per_query"] if entry["query_id"] not in moved_ids]
    columns = [
        Column("question"),
        Column("kind"),
        Column("rank in a", is_number=True),
        Column("rank in b", is_number=True),
        Column("change of 1/rank", is_number=True),
        Column("category"),
    ]
    return query_table(
        QueryTable(
            name="pair-queries",
            caption="The farthest moves first. Rank: where the first expected chunk stands.",
            columns=columns,
            entries=[
                _entry(entry, material, has_moved=entry["query_id"] in moved_ids) for entry in (*moved, *rest)
            ],
            mark="regressions only",
        ),
        room=room,
    )


def _entry(entry: Entry, material: PairMaterial, *, has_moved: bool) -> QueryEntry:
    a, b = (rows.get(entry["query_id"]) for rows in material.queries)
    row = b or a
    texts = material.texts.get(entry["query_id"]) if has_moved else None
    note = _own_note(entry, material.document["causes"])
    move = _reciprocal(entry["b_hit_rank"]) - _reciprocal(entry["a_hit_rank"])
    cells: list[Child] = [
        join(
            badge(entry["kind"].replace("_", " "), MOODS.get(entry["kind"])),
            join(" ", badge("regression", "bad"))
            if entry["regression"] and entry["kind"] != "regression"
            else None,
            tag("div", note, class_="note") if note else None,
        ),
        rank(entry["a_hit_rank"]),
        rank(entry["b_hit_rank"]),
        f"{move:+.2f}".replace("-", "−") if move else NOTHING,
        data_text(row.category, most=60) if row and row.category else None,
    ]
    keys = [
        entry["kind"],
        entry["a_hit_rank"],
        entry["b_hit_rank"],
        round(move, 6),
        row.category if row else None,
    ]
    return QueryEntry(
        query_id=entry["query_id"],
        question=row.question if row and material.with_text else None,
        kind=entry["kind"],
        is_marked=entry["regression"],
        cells=cells,
        keys=keys,
        detail=lambda with_text: (
            _detail(entry, a, b, texts, with_text=with_text and material.with_text) if texts else None
        ),
        has_detail=texts is not None,
    )


def _own_note(entry: Entry, causes: Sequence[str]) -> str:
    """What the note says beyond what holds for all queries."""
    said = (entry["note"] or "").split("; ")
    return "; ".join(one for one in said if one not in causes)


def _reciprocal(place: int | None) -> float:
    return 0.0 if place is None else 1 / place


def _detail(
    entry: Entry, a: QueryRow | None, b: QueryRow | None, texts: QueryTexts, *, with_text: bool
) -> Html:
    answers = (
        [
            labelled_text(f"{what} of {name}", text)
            for name, row in (("a", a), ("b", b))
            if row is not None
            for what, text in (("Error", row.error), ("Answer", row.answer))
        ]
        if with_text
        else []
    )
    regressed = (
        labelled_text("Found by a and not by b", ", ".join(entry["regressed_chunk_ids"]))
        if entry["regressed_chunk_ids"]
        else None
    )
    return sides(
        texts,
        headings=["Retrieved by a", "Retrieved by b"],
        matched=[found_ranks(entry["a_hit_rank"]), found_ranks(entry["b_hit_rank"])],
        with_text=with_text,
        below=[regressed, *answers],
    )
