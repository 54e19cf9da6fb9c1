"""Random golden rows over a world."""

from __future__ import annotations

from random import Random

from .bundle_texts import (
    ABSENT,
    FOLDERS,
    HEADINGS,
    TEXT_PIECES,
    chance,
    fresh_id,
    pick,
    put,
    render_heading,
    sentence,
    some,
)
from .bundle_world import Chunk, Row, World, cut_span

CATEGORIES = ("factual", "reasoning", "multi_hop", "recency/conflict", "general", "adversarial")
RULES = ("cite_newer", "acknowledge_both", "cite_both")
TAGS = ("work", "personal", "code", "health", "a|b", "\u65e5\u672c", "Work", "it's")


def random_golden_rows(rng: Random, world: World, *, queries: int) -> list[Row]:
    taken: set[str] = set()
    return [random_golden_row(rng, world, taken=taken) for _ in range(queries)]


def random_golden_row(rng: Random, world: World, *, taken: set[str]) -> Row:
    row: Row = {pick(rng, (4, "query_id"), (1, "id")): fresh_id(rng, "q", taken)}
    put(row, pick(rng, (4, "query"), (1, "question")), pick(rng, (1, ABSENT), (8, sentence(rng))))
    put(row, "lang", pick(rng, (3, ABSENT), (1, "en"), (1, "ja")))
    put(row, "group", pick(rng, (2, ABSENT), (1, "group 1"), (1, "group 2")))
    targets = some(rng, world.labelled, most=4)
    add_chunk_labels(rng, row, targets)
    add_answer_labels(rng, row)
    add_supports(rng, row, targets)
    put(row, "ground_truth_spans", random_truth_spans(rng, targets))
    add_slice_labels(rng, row)
    add_grades(Random(str(row)), row, [*targets, *some(Random(repr(row)), world.labelled, most=4)])
    put(row, "x_unknown", pick(rng, (6, ABSENT), (1, {"nested": ["kept", None]}), (1, "kept")))
    return row


def add_chunk_labels(rng: Random, row: Row, targets: list[Chunk]) -> None:
    chunk_ids = [chunk.chunk_id for chunk in targets]
    doc_ids = [chunk.doc_id for chunk in targets]
    stale = ["never seen", *chunk_ids]
    put(
        row,
        "expected_chunk_ids",
        pick(
            rng,
            (1, ABSENT),
            (1, None),
            (1, []),
            (8, chunk_ids),
            (1, [*chunk_ids, *chunk_ids[:1]]),
            (1, stale),
        ),
    )
    put(
        row,
        "expected_doc_ids",
        pick(
            rng,
            (2, ABSENT),
            (1, None),
            (3, []),
            (8, doc_ids),
            (1, [*doc_ids, "other doc"]),
            (1, ["other doc"]),
        ),
    )
    put(row, "expected_chunk_spans", pick(rng, (6, ABSENT), (1, {}), (2, frozen_spans(rng, targets))))


def add_grades(rng: Random, row: Row, chunks: list[Chunk]) -> None:
    """Of chance of its own, so that it moves nothing else."""
    grades = {chunk.chunk_id: rng.choice([-1, 0, 0, 1, 1, 2, 3]) for chunk in chunks}
    put(
        row,
        "grades",
        pick(rng, (6, ABSENT), (1, None), (1, {}), (5, grades), (1, {**grades, "never seen": 2})),
    )


def frozen_spans(rng: Random, targets: list[Chunk]) -> Row:
    """Spans written into the row: of some of the chunks, sometimes moved, sometimes of no length."""
    frozen: Row = {"not expected": [{"doc_id": "elsewhere", "start": 0, "end": 5}]}
    for chunk in targets:
        if chance(rng, 0.3):
            continue
        shift = rng.choice([0, 0, 25, 50, 100_000])
        ranges = pick(
            rng, (6, cut_span(rng, chunk.start + shift, chunk.end + shift)), (1, [(chunk.start, chunk.start)])
        )
        frozen[chunk.chunk_id] = [
            {"doc_id": chunk.doc_id, "start": start, "end": end} for start, end in ranges
        ]
    return frozen


def add_answer_labels(rng: Random, row: Row) -> None:
    demanded, forbidden = some(rng, TEXT_PIECES, most=2), some(rng, TEXT_PIECES, most=2)
    put(row, "must_contain", pick(rng, (3, ABSENT), (1, None), (1, []), (5, demanded)))
    put(row, "forbidden", pick(rng, (4, ABSENT), (1, None), (1, []), (3, forbidden)))
    put(row, "answerable", pick(rng, (6, ABSENT), (1, None), (5, True), (3, False)))


def add_supports(rng: Random, row: Row, targets: list[Chunk]) -> None:
    supports = [random_support(rng, chunk) for chunk in targets]
    if chance(rng, 0.25):
        supports = pick(rng, (1, ABSENT), (1, None), (1, []))
    put(row, "gold_supports", supports)
    count = len(supports) if isinstance(supports, list) else 0
    groups = [some(rng, range(count), most=3) for _ in range(rng.randint(1, 3))] if count else []
    put(row, "required_support_groups", pick(rng, (2, ABSENT), (1, []), (4, groups)))
    put(row, "multi_hop", pick(rng, (3, ABSENT), (1, False), (3, True)))
    put(row, "recency_conflict_rule", pick(rng, (2, ABSENT), *((1, rule) for rule in RULES)))


def random_support(rng: Random, chunk: Chunk) -> Row:
    heading = chunk.heading[: rng.randint(0, len(chunk.heading))]
    support: Row = {"rel_path": chunk.rel_path}
    put(support, "heading_path", render_heading(rng, pick(rng, (5, heading), (1, rng.choice(HEADINGS)))))
    put(support, "snippets", pick(rng, (3, ABSENT), (1, []), (2, some(rng, TEXT_PIECES, most=2))))
    put(support, "recency", pick(rng, (2, ABSENT), (2, "newer"), (2, "older")))
    return support


def random_truth_spans(rng: Random, targets: list[Chunk]) -> object:
    spans = [
        {"doc_id": chunk.doc_id, "start": start, "end": end}
        for chunk in targets
        for start, end in cut_span(rng, max(0, chunk.start - rng.choice([0, 0, 10, 50])), chunk.end)
    ]
    without_length = [{"doc_id": chunk.doc_id, "start": chunk.start, "end": chunk.start} for chunk in targets]
    return pick(rng, (3, ABSENT), (1, None), (1, []), (1, without_length), (7, spans))


def add_slice_labels(rng: Random, row: Row) -> None:
    put(row, "category", pick(rng, (1, ABSENT), *((1, category) for category in CATEGORIES)))
    if row.get("recency_conflict_rule") and chance(rng, 0.6):
        row["category"] = "recency/conflict"
    put(row, "difficulty", pick(rng, (1, ABSENT), (1, None), (1, "easy"), (1, "medium"), (1, "hard")))
    put(row, "tags", pick(rng, (2, ABSENT), (1, []), (6, some(rng, TAGS, most=4))))
    vaults = some(rng, ("personal", "work"), most=3)
    field = pick(rng, (3, "vault"), (2, "vaults"))
    put(row, field, pick(rng, (1, ABSENT), (4, vaults if field == "vaults" else vaults[0])))
    put(row, "folders", pick(rng, (4, ABSENT), (1, []), (1, some(rng, FOLDERS, most=2))))
