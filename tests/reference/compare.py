"""Two runs side by side: kinds, ranks, regressions, causes, and what holds when the chunkers differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .arithmetic import mean, rounded
from .metrics import KS, RECIPROCAL_RANK_CUTOFF
from .readings import Readings, resolve_readings
from .rows import Row, has_error, hits_of, labelled_spans, labels, query_id_of, spans_of
from .runs import ScoredQuery, aggregate, score_queries
from .spans import Span, characters

CAUSES = (
    ("chunker_version", "chunker version diff"),
    ("embedding_model", "embedding diff"),
    ("prompt_version", "prompt diff"),
)
KINDS = ("win", "loss", "draw", "rank_up", "rank_down", "not_applicable", "not_comparable")
NOTE_SEPARATOR = "; "


class StrictVersionRefused(ValueError):
    """Strict mode, and the two runs are not known to share one chunker version (S3.20, A3.21)."""


@dataclass(frozen=True)
class Expectation:
    """What one query expects: its distinct chunk ids, their known spans, and the documents that count."""

    chunk_ids: list[str]
    spans: dict[str, list[Span]]
    doc_ids: set[str]
    exact: bool
    readings: Readings
    is_placed: bool = True

    @property
    def comparable(self) -> bool:
        return self.exact or (bool(self.spans) and self.is_placed)


@dataclass(frozen=True)
class Side:
    """One run's stored results with its numbers."""

    run: Row
    queries: dict[str, ScoredQuery]


def compare(
    run_a: Row,
    run_b: Row,
    *,
    golden_rows: Sequence[Row],
    results_a: Sequence[Row],
    results_b: Sequence[Row],
    archives: Sequence[Row],
    scored_by: tuple[Sequence[Row], Sequence[Row]] | None = None,
    strict_chunker_version: bool = False,
    readings: Mapping[str, Any] | None = None,
) -> Row:
    """The document of `compare A B --format json`, without `warnings` and `significance`."""
    chosen = resolve_readings(readings)
    if run_a["dataset"] != run_b["dataset"]:
        raise ValueError(f"runs of two datasets: {run_a['dataset']!r} and {run_b['dataset']!r}")
    exact = versions_match(run_a, run_b)
    if strict_chunker_version and not exact:
        raise StrictVersionRefused(f"{run_a['run_id']!r} and {run_b['run_id']!r} differ in chunker_version")
    is_told_apart = False
    if config_value(run_a, "chunker_version") is None and config_value(run_b, "chunker_version") is None:
        paired_ids = {str(row["query_id"]) for row in results_a} & {str(row["query_id"]) for row in results_b}
        asked = [golden for golden in golden_rows if query_id_of(golden) in paired_ids]
        if not all(
            any(spans_of(hit) for hit in every_hit(rows)) for rows in (results_a, results_b)
        ) or not any(
            known_spans(chunk_id, golden, archives)
            for golden in asked
            for chunk_id in labels(golden, "expected_chunk_ids")
        ):
            exact = ids_are_alike(results_a, results_b, golden_rows)
            is_told_apart = not exact
    rows_a, rows_b = scored_by or (golden_rows, golden_rows)
    a = side_of(run_a, results_a, golden_rows=rows_a, archives=archives, readings=chosen)
    b = side_of(run_b, results_b, golden_rows=rows_b, archives=archives, readings=chosen)
    expectations = {
        query_id_of(golden): expectation_of(
            {**golden, "expected_chunk_spans": None} if is_told_apart else golden,
            archives=[] if is_told_apart else archives,
            exact=exact,
            readings=chosen,
        )
        for golden in golden_rows
    }
    paired = [query_id for query_id in expectations if query_id in a.queries and query_id in b.queries]
    if not exact:
        a, b = (with_spans_of_inventories(side, archives) for side in (a, b))
        for query_id in paired:
            hits = [hit for side in (a, b) for hit in bare_hits_written_out(side.queries[query_id].result)]
            expected = expectations[query_id]
            is_placed = all(
                spans_of(hit) for hit in hits if hit["doc_id"] in {*expected.doc_ids, hit["chunk_id"]}
            )
            expectations[query_id] = replace(expected, is_placed=is_placed)
    causes = causes_of(run_a, run_b)
    per_query = [
        compare_query(query_id, expectations[query_id], a=a, b=b, causes=causes) for query_id in paired
    ]
    aggregate_a, aggregate_b = aggregates_of(a, b, paired=paired, readings=chosen)
    mode = "exact" if exact else "fallback_doc_span"
    return {
        "format": 1,
        "run_a": run_a["run_id"],
        "run_b": run_b["run_id"],
        "aggregate_a": aggregate_a,
        "aggregate_b": aggregate_b,
        "deltas": {"chunker_version_match": mode, **deltas_of(aggregate_a, aggregate_b, chosen)},
        "per_query": per_query,
        "counts": counts_of(per_query),
        "causes": causes,
        "only_in_a": sorted(query_id for query_id in a.queries if query_id not in b.queries),
        "only_in_b": sorted(query_id for query_id in b.queries if query_id not in a.queries),
        "fallback_metrics": None if exact else fallback_metrics(expectations, a=a, b=b, readings=chosen),
    }


def side_of(
    run: Row,
    results: Sequence[Row],
    *,
    golden_rows: Sequence[Row],
    archives: Sequence[Row],
    readings: Readings,
) -> Side:
    scored = score_queries(golden_rows, results, run=run, archives=archives, readings=readings)
    return Side(run, {query.query_id: query for query in scored})


def config_value(run: Row, key: str) -> Any:
    return (run.get("config") or {}).get(key)


def versions_match(run_a: Row, run_b: Row) -> bool:
    """A3.21: a version missing on one side is no match; of two missing ones see `ids_are_alike`."""
    version_a, version_b = config_value(run_a, "chunker_version"), config_value(run_b, "chunker_version")
    return version_a is not None and version_a == version_b


def every_hit(results: Sequence[Row]) -> list[Row]:
    return [
        {"chunk_id": hit, "doc_id": hit} if isinstance(hit, str) else hit
        for result in results
        for hit in result.get("hits_top_k") or []
    ]


def ids_are_alike(results_a: Sequence[Row], results_b: Sequence[Row], golden_rows: Sequence[Row]) -> bool:
    """A3.21, no version on either side: half of the fewer ids are shared, or labels name ids of both."""
    ids_a, ids_b = ({hit["chunk_id"] for hit in every_hit(rows)} for rows in (results_a, results_b))
    named = {chunk_id for golden in golden_rows for chunk_id in labels(golden, "expected_chunk_ids")}
    is_half = len(ids_a & ids_b) * 2 >= min(len(ids_a), len(ids_b))
    return is_half or not named or bool(ids_a & named and ids_b & named)


def causes_of(run_a: Row, run_b: Row) -> list[str]:
    return [cause for key, cause in CAUSES if config_value(run_a, key) != config_value(run_b, key)]


def aggregates_of(
    a: Side, b: Side, *, paired: Sequence[str], readings: Readings
) -> tuple[dict[str, float | None], dict[str, float | None]]:
    """A3.18: each run's own aggregate, or both over the common queries."""
    documents = []
    for side in (a, b):
        queries = list(side.queries.values())
        if readings["delta_scope"] == "common":
            queries = [side.queries[query_id] for query_id in paired]
        documents.append({key: entry["value"] for key, entry in aggregate(queries, readings).items()})
    return documents[0], documents[1]


def deltas_of(
    old: Mapping[str, float | None], new: Mapping[str, float | None], readings: Readings
) -> dict[str, float | None]:
    """A3.19: the difference of the rounded values, rounded; null when either is null."""
    deltas: dict[str, float | None] = {}
    for key, before in old.items():
        after = new[key]
        deltas[key] = None if before is None or after is None else rounded(after - before, readings)
    return deltas


def known_spans(chunk_id: str, golden: Row, archives: Sequence[Row]) -> list[Span]:
    """A3.20: the frozen spans, else those of the newest state of every archive that has the chunk."""
    frozen = (golden.get("expected_chunk_spans") or {}).get(chunk_id)
    if frozen is not None:
        return labelled_spans(frozen)
    newest = {state["chunker_version"]: state["lines"] for state in archives}
    return [
        span
        for lines in newest.values()
        for line in lines
        if line["chunk_id"] == chunk_id
        for span in spans_of(line)
    ]


def bare_hits_written_out(result: Row) -> list[Row]:
    return [
        {"chunk_id": hit, "doc_id": hit} if isinstance(hit, str) else hit
        for hit in result.get("hits_top_k") or []
    ]


def with_spans_of_inventories(side: Side, archives: Sequence[Row]) -> Side:
    """Hits without spans have those of their chunk in the newest inventory of their own run's chunker."""
    newest = {state["chunker_version"]: state["lines"] for state in archives}
    listed = {line["chunk_id"]: line for line in newest.get(config_value(side.run, "chunker_version"), ())}
    queries = {}
    for query_id, query in side.queries.items():
        hits = [
            {**hit, **{key: listed[hit["chunk_id"]].get(key) for key in ("doc_id", "source_spans")}}
            if not spans_of(hit) and hit["chunk_id"] in listed
            else hit
            for hit in bare_hits_written_out(query.result)
        ]
        queries[query_id] = replace(query, result={**query.result, "hits_top_k": hits})
    return replace(side, queries=queries)


def expectation_of(golden: Row, *, archives: Sequence[Row], exact: bool, readings: Readings) -> Expectation:
    chunk_ids = sorted(set(labels(golden, "expected_chunk_ids")))
    spans = {chunk_id: known_spans(chunk_id, golden, archives) for chunk_id in chunk_ids}
    spans = {chunk_id: own for chunk_id, own in spans.items() if own}
    stated = golden.get("expected_doc_ids")
    if stated is None:
        stated = [span.doc_id for own in spans.values() for span in own]
    return Expectation(chunk_ids, spans, set(stated), exact, readings)


def matches_chunk(hit: Row, chunk_id: str, expected: Expectation) -> bool:
    """Equal versions: the same chunk. Otherwise its document, and enough of its characters (S3.18)."""
    if expected.exact:
        return bool(hit["chunk_id"] == chunk_id)
    if hit["doc_id"] not in expected.doc_ids or chunk_id not in expected.spans:
        return False
    hit_characters = characters(spans_of(hit))
    chunk_characters = characters(expected.spans[chunk_id])
    shared = {place for place in hit_characters & chunk_characters if place[0] == hit["doc_id"]}
    if not shared:
        return False
    basis = {
        "min": min(len(hit_characters), len(chunk_characters)),
        "expected": len(chunk_characters),
        "hit": len(hit_characters),
        "iou": len(hit_characters | chunk_characters),
    }[expected.readings["overlap_basis"]]
    return bool(len(shared) / basis >= expected.readings["overlap_threshold"])


def rank_of(result: Row, chunk_ids: Sequence[str], *, expected: Expectation, cutoff: int) -> int | None:
    """The first position, up to the cutoff, that holds one of the chunks."""
    for rank, hit in enumerate(hits_of(result, expected.readings), start=1):
        if rank <= cutoff and any(matches_chunk(hit, chunk_id, expected) for chunk_id in chunk_ids):
            return rank
    return None


def compare_query(query_id: str, expected: Expectation, *, a: Side, b: Side, causes: Sequence[str]) -> Row:
    result_a, result_b = a.queries[query_id].result, b.queries[query_id].result
    cutoff = expected.readings["compare_k"]
    judgeable = bool(expected.chunk_ids) and expected.comparable
    rank_a = rank_b = None
    regressed: list[str] = []
    if judgeable:
        rank_a = rank_of(result_a, expected.chunk_ids, expected=expected, cutoff=cutoff)
        rank_b = rank_of(result_b, expected.chunk_ids, expected=expected, cutoff=cutoff)
        regressed = [
            chunk_id
            for chunk_id in expected.chunk_ids
            if rank_of(result_a, [chunk_id], expected=expected, cutoff=cutoff) is not None
            and rank_of(result_b, [chunk_id], expected=expected, cutoff=cutoff) is None
        ]
    errors = [f"error in {name}" for name, result in (("a", result_a), ("b", result_b)) if has_error(result)]
    return {
        "query_id": query_id,
        "kind": kind_of(expected, rank_a, rank_b, regressed=regressed),
        "regression": bool(regressed),
        "regressed_chunk_ids": regressed,
        "a_hit_rank": rank_a,
        "b_hit_rank": rank_b,
        "note": NOTE_SEPARATOR.join([*causes, *errors]) or None,
    }


def kind_of(
    expected: Expectation, rank_a: int | None, rank_b: int | None, *, regressed: Sequence[str]
) -> str:
    """S3.13 to S3.15 with A3.12: a change of rank has kinds of its own; both missed is a draw."""
    if not expected.chunk_ids:
        return "not_applicable"
    if not expected.comparable:
        return "not_comparable"
    if regressed and expected.readings["regression_kind"] == "exclusive":
        return "regression"
    if rank_a == rank_b:
        return "draw"
    if rank_a is None:
        return "win"
    if rank_b is None:
        return "loss"
    return kind_of_rank_change(rank_a, rank_b, expected.readings)


def kind_of_rank_change(rank_a: int, rank_b: int, readings: Readings) -> str:
    improved = rank_b < rank_a
    if readings["rank_change"] == "win_loss":
        return "win" if improved else "loss"
    if readings["rank_change"] == "draw":
        return "draw"
    return "rank_up" if improved else "rank_down"


def counts_of(per_query: Sequence[Row]) -> dict[str, int]:
    counts = {kind: sum(row["kind"] == kind for row in per_query) for kind in KINDS}
    counts["regressions"] = sum(row["regression"] for row in per_query)
    return counts


def fallback_metrics(expectations: Mapping[str, Expectation], *, a: Side, b: Side, readings: Readings) -> Row:
    """A3.17: hit@k and MRR of both runs by document and span, over the comparable queries."""
    usable = [
        query_id
        for query_id, expected in expectations.items()
        if expected.spans and expected.is_placed and query_id in a.queries and query_id in b.queries
    ]
    documents = []
    for side in (a, b):
        ranks = [
            rank_of(
                side.queries[query_id].result,
                expectations[query_id].chunk_ids,
                expected=expectations[query_id],
                cutoff=RECIPROCAL_RANK_CUTOFF,
            )
            for query_id in usable
        ]
        documents.append(rank_means(ranks, readings))
    return {
        "a": {**documents[0], "n": len(usable)},
        "b": {**documents[1], "n": len(usable)},
        "deltas": deltas_of(documents[0], documents[1], readings),
    }


def rank_means(ranks: Sequence[int | None], readings: Readings) -> dict[str, float | None]:
    document: dict[str, float | None] = {}
    for k in KS:
        found = [float(rank is not None and rank <= k) for rank in ranks]
        document[f"hit@{k}"] = rounded(mean(found), readings)
    reciprocal = [0.0 if rank is None else 1 / rank for rank in ranks]
    document["mrr"] = rounded(mean(reciprocal), readings)
    return document
