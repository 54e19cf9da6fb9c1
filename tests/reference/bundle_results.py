"""Random stored results of one run, and results of a later run that resemble an earlier one's."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from random import Random
from typing import Any

from .bundle_texts import (
    ABSENT,
    BLANK_TEXTS,
    FOLDERS,
    REL_PATHS,
    TEXT_PIECES,
    chance,
    fresh_id,
    pick,
    put,
    render_heading,
    sentence,
    some,
)
from .bundle_world import ARCHIVED_VERSIONS, Chunk, Row, World, source_spans
from .rows import labels, query_id_of

ODD_SCORES: tuple[Any, ...] = (None, "4", True, False, -1, -0.5, 5.001, 6, [], [4], {}, {"score": 4}, 10**12)
SCORES = (0, 1, 2, 3, 4, 5, 5, 5, 0.5, 3.25, 4.999, 5.0)
LATENCY_PARTS = ("total", "folder_selection", "retrieval", "generation", "judge")


def random_results(
    rng: Random, world: World, golden_rows: Sequence[Row], *, version: str | None
) -> list[Row]:
    """Most golden queries and a few unknown ones, in any order."""
    results = [
        random_result(rng, world, golden, version=version) for golden in golden_rows if chance(rng, 0.92)
    ]
    taken = {query_id_of(golden) for golden in golden_rows}
    for _ in range(pick(rng, (3, 0), (1, 1), (1, 3))):
        stranger = {"query_id": fresh_id(rng, "unknown", taken)}
        results.append(random_result(rng, world, stranger, version=version))
    rng.shuffle(results)
    return results


def random_result(rng: Random, world: World, golden: Row, *, version: str | None) -> Row:
    result: Row = {"query_id": query_id_of(golden)}
    chunks = world.chunks[version or ARCHIVED_VERSIONS[0]]
    hits = random_hits(rng, world, chunks, golden)
    put(result, "hits_top_k", hits if hits else rng.choice([ABSENT, None, []]))
    put(result, "answer", pick(rng, (2, ABSENT), (1, None), (1, {}), (16, random_answer(rng, world, golden))))
    put(result, "error", pick(rng, (20, ABSENT), (1, None), (1, "HTTP 500\nupstream"), (1, "d\u00e9lai")))
    put(result, "timed_out", pick(rng, (10, ABSENT), (5, False), (1, True)))
    put(result, "folder_mode", pick(rng, (3, ABSENT), (1, "off"), (3, "on"), (3, "on_with_fallback")))
    put(
        result,
        "selected_folders",
        pick(rng, (1, ABSENT), (1, None), (1, []), (6, some(rng, FOLDERS, most=3))),
    )
    put(result, "judge", pick(rng, (2, ABSENT), (1, {}), (10, random_judge(rng))))
    put(result, "latency_ms", pick(rng, (1, ABSENT), (1, {}), (8, random_latency(rng))))
    put(result, "x_unknown", pick(rng, (8, ABSENT), (1, [None, {"a": 1}])))
    return result


def hit_count(rng: Random) -> int:
    return int(pick(rng, (2, 0), (3, rng.randint(1, 4)), (10, rng.randint(5, 15)), (1, 70)))


def random_hits(rng: Random, world: World, chunks: Sequence[Chunk], golden: Row) -> list[Any]:
    wanted = set(labels(golden, "expected_chunk_ids"))
    promising = [chunk for chunk in [*chunks, *world.labelled] if chunk.chunk_id in wanted]
    start = rng.choice([0, 1, 1, 1])
    hits: list[Any] = []
    for position in range(hit_count(rng)):
        chunk = rng.choice(promising) if promising and chance(rng, 0.12) else rng.choice(chunks)
        if chance(rng, 0.05):
            hits.append(chunk.chunk_id)
            continue
        hits.append(random_hit(rng, chunk, rank=position + start))
    return hits


def random_hit(rng: Random, chunk: Chunk, *, rank: int) -> Row:
    hit: Row = {
        "chunk_id": chunk.chunk_id,
        "doc_id": pick(rng, (15, chunk.doc_id), (1, "other doc")),
    }
    put(hit, "rank", pick(rng, (2, ABSENT), (8, rank), (1, rank * 2 + 3), (1, None)))
    put(hit, "score", pick(rng, (1, ABSENT), (4, round(rng.uniform(-1, 1), 3)), (2, 0.5), (1, None)))
    put(hit, "rel_path", pick(rng, (1, ABSENT), (9, chunk.rel_path), (1, rng.choice(REL_PATHS))))
    deeper = [*chunk.heading, *rng.choice([[], [], ["Details"], ["Details", "More"]])]
    put(hit, "heading_path", render_heading(rng, deeper))
    put(hit, "text", pick(rng, (1, ABSENT), (3, sentence(rng))))
    put(hit, "token_count", pick(rng, (1, ABSENT), (2, rng.randint(0, 500))))
    put(hit, "source_spans", hit_spans(rng, chunk))
    return hit


def hit_spans(rng: Random, chunk: Chunk) -> Any:
    """Mostly the chunk's own; sometimes none, far away, or partly in another document."""
    own = source_spans(rng, chunk)
    elsewhere = [*own, {"doc_id": "other doc", "start": 0, "end": rng.choice([25, 100])}]
    far = [{"start": 1_000_000, "end": 1_000_040}]
    return pick(rng, (1, ABSENT), (1, None), (1, []), (16, own), (1, elsewhere), (1, far))


def random_answer(rng: Random, world: World, golden: Row) -> Row:
    answer: Row = {}
    demanded = labels(golden, "must_contain")
    faithful = " and ".join([*demanded, rng.choice(TEXT_PIECES)])
    text = pick(
        rng,
        (1, ABSENT),
        (1, rng.choice(BLANK_TEXTS)),
        (1, "\u200b"),
        (5, faithful),
        (5, sentence(rng, most=12)),
    )
    put(answer, "text", text)
    put(answer, "grounded", pick(rng, (2, ABSENT), (1, None), (9, True), (3, False)))
    put(answer, "abstained", pick(rng, (3, ABSENT), (1, None), (3, False), (2, True)))
    put(answer, "citations", random_citations(rng, world))
    put(answer, "references", random_references(rng, world, golden))
    return answer


def random_citations(rng: Random, world: World) -> Any:
    known = [chunk.chunk_id for chunk in world.labelled] + [
        chunk.chunk_id for chunk in world.chunks[ARCHIVED_VERSIONS[1]]
    ]
    cited: list[Any] = [{"citation": chunk_id} for chunk_id in some(rng, known, most=4)]
    odd = rng.choice(
        [{"citation": None}, {"citation": ""}, {}, {"citation": "made up"}, {"citation": "gone 0"}]
    )
    return pick(rng, (1, ABSENT), (1, None), (1, []), (8, cited), (2, [*cited, odd]))


def random_references(rng: Random, world: World, golden: Row) -> Any:
    references: list[Row] = []
    for support in labels(golden, "gold_supports"):
        if chance(rng, 0.5):
            reference: Row = {"rel_path": support["rel_path"]}
            put(reference, "heading_path", support.get("heading_path", ABSENT))
            references.append(reference)
    for chunk in some(rng, world.labelled, most=2):
        reference = {"rel_path": chunk.rel_path}
        put(reference, "heading_path", render_heading(rng, chunk.heading))
        put(reference, "chunk_id", pick(rng, (1, ABSENT), (1, chunk.chunk_id)))
        put(reference, "text", pick(rng, (3, ABSENT), (1, sentence(rng))))
        references.append(pick(rng, (6, reference), (1, {}), (1, {"chunk_id": chunk.chunk_id})))
    rng.shuffle(references)
    return pick(rng, (1, ABSENT), (1, []), (8, references))


def random_judge(rng: Random) -> Row:
    judge: Row = {}
    score = pick(rng, (8, rng.choice(SCORES)), (3, rng.choice(ODD_SCORES)))
    groundedness = {"score": score, "supported_claims": ["a"], "unsupported_claims": rng.choice([[], ["b"]])}
    put(judge, "groundedness", pick(rng, (1, ABSENT), (1, {}), (8, groundedness)))
    score = pick(rng, (8, rng.choice(SCORES)), (3, rng.choice(ODD_SCORES)))
    put(judge, "correctness", pick(rng, (2, ABSENT), (8, {"score": score, "reasoning": sentence(rng)})))
    classified = rng.choice([{}, {"abstained": None}, {"abstained": True}, {"abstained": False}])
    put(judge, "abstention", pick(rng, (1, ABSENT), (2, classified)))
    conflict = rng.choice([{}, {"acknowledged": True}, {"acknowledged": True}, {"acknowledged": False}])
    put(judge, "conflict", pick(rng, (1, ABSENT), (2, conflict)))
    tokens = rng.choice([{}, {"prompt": rng.randint(0, 4000)}, {"prompt": 1200, "completion": 37}])
    put(judge, "tokens", pick(rng, (1, ABSENT), (3, tokens)))
    put(judge, "input", pick(rng, (2, ABSENT), (1, {"question": sentence(rng)}), (1, sentence(rng))))
    return judge


def random_latency(rng: Random) -> Row:
    latency: Row = {}
    for part in LATENCY_PARTS:
        measured = rng.choice([rng.randint(0, 5000), round(rng.uniform(0, 900), 3), 0])
        put(latency, part, pick(rng, (2, ABSENT), (1, None), (1, -1), (10, measured)))
    return latency


def similar_results(rng: Random, earlier: Sequence[Row]) -> list[Row]:
    """A later night of the same system: half of the rankings moved a little, a few rows gone."""
    results = [deepcopy(result) for result in earlier if chance(rng, 0.94)]
    for result in results:
        hits = result.get("hits_top_k")
        if not hits or chance(rng, 0.4):
            continue
        change = rng.choice(["swap", "drop first", "shuffle", "promote", "cut"])
        if change == "swap":
            hits[0], hits[-1] = hits[-1], hits[0]
        elif change == "drop first":
            del hits[0]
        elif change == "shuffle":
            rng.shuffle(hits)
        elif change == "promote":
            hits.insert(0, hits.pop(rng.randrange(len(hits))))
        else:
            del hits[len(hits) // 2 :]
    rng.shuffle(results)
    return results
