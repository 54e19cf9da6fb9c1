"""One query, one stored result, every per-query number of the catalogue (None where it does not apply)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import graded, spans
from .anchors import folder_holds, groups_satisfied, is_multi_hop, matches_any, matches_support
from .readings import Readings, resolve_readings
from .rows import (
    Row,
    abstention_of,
    answer_of,
    has_empty_answer,
    has_error,
    hits_of,
    is_answerable,
    judge_score,
    judged,
    labelled_spans,
    labels,
    spans_of,
    usable_answer,
)

KS = (1, 3, 5, 10)
RECIPROCAL_RANK_CUTOFF = 10
Scores = dict[str, float | None]


@dataclass(frozen=True)
class Case:
    """A golden row beside its stored result, with what is needed to judge them."""

    golden: Row
    result: Row
    config: Row
    archive_states: Sequence[Row]
    readings: Readings
    missing: frozenset[str] = frozenset()
    retrieved: frozenset[str] = frozenset()

    @property
    def hits(self) -> list[Row]:
        return hits_of(self.result, self.readings)

    @property
    def retrieval_excluded(self) -> bool:
        """AX.4: error rows are scored as stored, unless the other reading takes them out."""
        return self.readings["retrieval_error"] == "exclude" and has_error(self.result)

    @property
    def anchored(self) -> bool:
        """A2.1: answerable and with gold supports."""
        return is_answerable(self.golden) and bool(labels(self.golden, "gold_supports"))


def score_query(
    golden_row: Row,
    result: Row,
    *,
    run_config: Row | None,
    archive_states: Sequence[Row],
    readings: Mapping[str, Any] | None = None,
    missing: frozenset[str] = frozenset(),
    retrieved: frozenset[str] = frozenset(),
) -> Scores:
    """Every per-query key; archive states are `{"chunker_version": …, "lines": […]}`, oldest first.

    `missing`: the fields that no hit or answer of the whole run carries, as `missing_fields` finds them.
    `retrieved`: the documents and paths of all hits of the run.
    """
    chosen = resolve_readings(readings)
    case = Case(golden_row, result, run_config or {}, archive_states, chosen, missing, retrieved)
    scores: Scores = {}
    for family in FAMILIES:
        scores.update(family(case))
    return scores


def missing_fields(golden_rows: Sequence[Row], results: Sequence[Row]) -> frozenset[str]:
    """AX.11: which of `documents`, `spans` and `grounded` no hit or answer of a run carries."""
    hits = [hit for result in results for hit in hits_of(result, resolve_readings(None))]
    answers = [answer for answer in map(answer_of, results) if answer is not None]
    chunks = {name for row in golden_rows for name in labels(row, "expected_chunk_ids")}
    is_variant = any("is_variant" in row for row in golden_rows)
    documents = {name for row in golden_rows for name in labels(row, "expected_doc_ids")}
    found = set()
    if hits and not any(spans_of(hit) for hit in hits):
        found.add("spans")
    if answers and all(answer.get("grounded") is None for answer in answers):
        found.add("grounded")
    if not any(map(references_of, answers)) and not all(has_error(result) for result in results):
        found.add("references")
    own = [hit["doc_id"] for hit in hits if hit["doc_id"] != hit["chunk_id"]]
    if documents & (set(own) | {hit["doc_id"] for hit in hits if hit["doc_id"] not in chunks}):
        return frozenset(found)
    means_documents = bool(documents - chunks) if own else not (chunks or is_variant)
    return frozenset(found if means_documents or not hits else found | {"documents"})


def nothing(keys: Sequence[str]) -> Scores:
    return dict.fromkeys(keys)


def at_each_k(name: str, suffix: str = "") -> list[str]:
    return [f"{name}@{k}{suffix}" for k in KS]


def chunk_overlap(case: Case) -> Scores:
    expected = labels(case.golden, "expected_chunk_ids")
    vacuous = not expected and case.readings["s0_vacuous"] == "exclude"
    if vacuous or case.retrieval_excluded or case.golden.get("is_variant"):
        return nothing(["chunk_recall", "chunk_precision", "chunk_f1"])
    retrieved = [hit["chunk_id"] for hit in case.hits]
    return {
        "chunk_recall": spans.chunk_recall(retrieved, expected),
        "chunk_precision": spans.chunk_precision(retrieved, expected),
        "chunk_f1": spans.chunk_f1(retrieved, expected),
    }


def span_overlap(case: Case) -> Scores:
    expected = labelled_spans(labels(case.golden, "ground_truth_spans"))
    vacuous = not expected and case.readings["s0_vacuous"] == "exclude"
    if vacuous or case.retrieval_excluded or "spans" in case.missing:
        return nothing(["span_recall", "span_precision", "span_iou"])
    inverted = case.readings["inverted_spans"]
    retrieved = [span for hit in case.hits for span in spans_of(hit)]
    return {
        "span_recall": spans.span_recall(retrieved, expected, inverted=inverted),
        "span_precision": spans.span_precision(retrieved, expected, inverted=inverted),
        "span_iou": spans.span_iou(retrieved, expected, inverted=inverted),
    }


def anchor_ranking(case: Case) -> Scores:
    if not case.anchored or case.retrieval_excluded:
        return nothing([*at_each_k("recall_any"), *at_each_k("precision"), "mrr_anchor"])
    supports = labels(case.golden, "gold_supports")
    found = [matches_any(hit, supports, case.readings) for hit in case.hits]
    scores: Scores = {f"recall_any@{k}": float(any(found[:k])) for k in KS}
    scores |= {f"precision@{k}": anchor_precision(case, k) for k in KS}
    scores["mrr_anchor"] = reciprocal_rank(found, case.readings["mrr_anchor_cutoff"])
    return scores


def anchor_precision(case: Case, k: int) -> float:
    """S2.8: matching hits among the first k, over k; over what was retrieved under the other reading."""
    supports = labels(case.golden, "gold_supports")
    if case.readings["precision_multi_hop"] == "required_only" and is_multi_hop(case.golden):
        named = {index for group in case.golden["required_support_groups"] for index in group}
        supports = [support for index, support in enumerate(supports) if index in named]
    top = case.hits[:k]
    matching = sum(matches_any(hit, supports, case.readings) for hit in top)
    if case.readings["precision_denominator"] == "retrieved":
        return matching / len(top) if top else 0.0
    return matching / k


def reciprocal_rank(found: Sequence[bool], cutoff: int | None) -> float:
    for rank, is_match in enumerate(found, start=1):
        if is_match and (cutoff is None or rank <= cutoff):
            return 1 / rank
    return 0.0


def anchor_groups(case: Case) -> Scores:
    if not case.anchored or not is_multi_hop(case.golden) or case.retrieval_excluded:
        return nothing(at_each_k("recall_all"))
    groups = case.golden["required_support_groups"]
    scores: Scores = {}
    for k in KS:
        retrieved = {
            index
            for index, support in enumerate(case.golden["gold_supports"])
            if any(matches_support(hit, support, case.readings) for hit in case.hits[:k])
        }
        scores[f"recall_all@{k}"] = float(groups_satisfied(groups, retrieved, case.readings))
    return scores


def scope_miss(case: Case) -> Scores:
    """S2.9, A2.13: every gold support outside the selected folders; the fallback does not undo it."""
    mode = case.result.get("folder_mode")
    mode = case.config.get("folder_mode") if mode is None else mode
    selected = case.result.get("selected_folders")
    if mode not in ("on", "on_with_fallback") or selected is None or not case.anchored:
        return {"scope_miss_rate": None}
    supports = labels(case.golden, "gold_supports")
    reached = any(
        folder_holds(folder, support.get("rel_path")) for folder in selected for support in supports
    )
    return {"scope_miss_rate": float(not reached)}


def references_of(answer: Row) -> list[Row]:
    return answer.get("references") or []


def attribution(case: Case) -> Scores:
    """S2.10, A2.14: an error, or a row without an answer, attributes nothing."""
    answer = answer_of(case.result)
    answered_only = case.readings["attribution_rows"] == "answered"
    if not case.anchored or "references" in case.missing:
        return {"attribution_hit_rate": None}
    if answer is None and answered_only and not has_error(case.result):
        return {"attribution_hit_rate": None}
    if answer is None or has_error(case.result) or (answered_only and abstention_of(case.result)):
        return {"attribution_hit_rate": 0.0}
    supports = labels(case.golden, "gold_supports")
    hit = any(matches_any(reference, supports, case.readings) for reference in references_of(answer))
    return {"attribution_hit_rate": float(hit)}


def recency_conflict(case: Case) -> Scores:
    supports = labels(case.golden, "gold_supports")
    rule = case.golden.get("recency_conflict_rule")
    answer = usable_answer(case.result)
    if case.golden.get("category") != "recency/conflict" or rule is None or not supports or answer is None:
        return {"recency_conflict_ok": None}
    if rule == "cite_newer":
        return {"recency_conflict_ok": cites_newer(answer, supports, case.readings)}
    cited = cites_every_note(answer, supports, case.readings)
    if rule == "acknowledge_both":
        acknowledged = judged(case.result, "conflict").get("acknowledged")
        if not isinstance(acknowledged, bool):
            return {"recency_conflict_ok": None}
        cited = cited and acknowledged
    return {"recency_conflict_ok": float(cited)}


def cites_newer(answer: Row, supports: list[Row], readings: Readings) -> float | None:
    newer = [support for support in supports if support.get("recency") == "newer"]
    if not newer:
        return None
    return float(any(matches_any(reference, newer, readings) for reference in references_of(answer)))


def cites_every_note(answer: Row, supports: list[Row], readings: Readings) -> bool:
    """A2.11: a note is a distinct path; it is cited when a reference matches one of its supports."""
    for path in {support.get("rel_path") for support in supports}:
        note = [support for support in supports if support.get("rel_path") == path]
        if not any(matches_any(reference, note, readings) for reference in references_of(answer)):
            return False
    return True


def judge_scores(case: Case) -> Scores:
    grounded, answer = judge_score(case.result, "groundedness"), answer_of(case.result)
    claims = answer is not None and abstention_of(case.result) is not True
    if (
        grounded is not None
        and claims
        and not any((answer or {}).get(f) for f in ("citations", "references"))
    ):
        grounded = min(grounded, 4.0)
    return {
        "judge_groundedness": grounded,
        "judge_correctness": judge_score(case.result, "correctness"),
    }


def abstention(case: Case) -> Scores:
    """S2.21, S2.23: unanswerable queries with a known abstention; the two are each other's complement."""
    abstained = abstention_of(case.result)
    if is_answerable(case.golden) or has_error(case.result) or abstained is None:
        return nothing(["abstention_accuracy", "hallucination_rate_unanswerable"])
    return {
        "abstention_accuracy": float(abstained),
        "hallucination_rate_unanswerable": float(not abstained),
    }


def failures(case: Case) -> Scores:
    empty = has_empty_answer(case.result)
    return {
        "error_rate": float(has_error(case.result) or empty),
        "timeout_rate": float(case.result.get("timed_out") is True),
        "empty_response_rate": float(empty),
    }


def expected_chunk_ranking(case: Case) -> Scores:
    expected = labels(case.golden, "expected_chunk_ids")
    if not expected or case.retrieval_excluded:
        return nothing([*at_each_k("hit"), "mrr"])
    found = [hit["chunk_id"] in expected for hit in case.hits]
    scores: Scores = {f"hit@{k}": float(any(found[:k])) for k in KS}
    scores["mrr"] = reciprocal_rank(found, RECIPROCAL_RANK_CUTOFF)
    return scores


def expected_document_recall(case: Case) -> Scores:
    expected = set(labels(case.golden, "expected_doc_ids"))
    if not expected or case.retrieval_excluded or "documents" in case.missing:
        return nothing(at_each_k("recall", "_doc"))
    return {
        f"recall@{k}_doc": len(expected & {hit["doc_id"] for hit in case.hits[:k]}) / len(expected)
        for k in KS
    }


def citation_coverage(case: Case) -> Scores:
    """S3.5, A3.5, A3.6: of a grounded answer, every citation names a chunk of some known archive state."""
    answer = usable_answer(case.result)
    states = case.archive_states
    if case.readings["citation_scope"] == "run_version":
        version = case.config.get("chunker_version")
        states = [state for state in states if state["chunker_version"] == version]
    if answer is None or answer.get("grounded") is not True:
        return {"citation_coverage": None}
    citations = answer.get("citations") or []
    paths = [entry.get("path") for entry in citations]
    if "" in paths or not (states or (citations and all(path in case.retrieved for path in paths))):
        return {"citation_coverage": None}
    if not citations:
        return {"citation_coverage": float(case.readings["empty_citations"] == "vacuous")}
    lines = [line for state in states for line in state["lines"]]
    known = {line["chunk_id"] for line in lines}
    documents = case.retrieved.union(*({line["doc_id"], line.get("rel_path")} for line in lines))
    resolved = [
        entry.get("citation") in known or (path is not None and path in documents)
        for entry, path in zip(citations, paths, strict=True)
    ]
    return {"citation_coverage": float(all(resolved))}


def answer_strings(case: Case) -> Scores:
    """S3.6, A3.8, A3.9: everything demanded is in the text and nothing forbidden is."""
    answer = usable_answer(case.result)
    demanded = [text for text in labels(case.golden, "must_contain") if text]
    forbidden = [text for text in labels(case.golden, "forbidden") if text]
    unlabelled = not demanded and not forbidden
    if answer is None or (unlabelled and case.readings["unlabelled_groundedness"] == "exclude"):
        return {"groundedness": None}
    fold: Callable[[str], str] = str.casefold if case.readings["string_match"] == "casefold" else str
    said = fold(answer.get("text") or "")
    kept = all(fold(text) in said for text in demanded)
    clean = not any(fold(text) in said for text in forbidden)
    return {"groundedness": float(kept and clean)}


def graded_ranking(case: Case) -> Scores:
    ids = [hit["chunk_id"] for hit in case.hits]
    known = graded.judged_of(case.golden)
    scores = graded.rank_scores(ids, known, KS, gain=case.readings["gain"])
    scores |= graded.judged_shares(ids, known, KS)
    return nothing(list(scores)) if case.retrieval_excluded else scores


def shares_most(hit: Sequence[spans.Span], chunk: Sequence[spans.Span], share: float) -> bool:
    """Whether enough of the smaller of hit and expected chunk is in both."""
    documents = {span.doc_id for span in chunk}
    held = {place for place in spans.characters(hit) if place[0] in documents}
    wanted = spans.characters(chunk)
    return bool(held and wanted) and len(held & wanted) / min(len(held), len(wanted)) >= share


def span_ranking(case: Case) -> Scores:
    wanted = [
        span for span in labelled_spans(labels(case.golden, "ground_truth_spans")) if span.end > span.start
    ]
    chunks = case.golden.get("chunk_spans", {}).values()
    has_labels = wanted or any(spans.characters(chunk) for chunk in chunks)
    if not has_labels or case.retrieval_excluded or "spans" in case.missing:
        return nothing([*at_each_k("hit", "_span"), "mrr_span"])
    share = case.readings["share"]
    found = [
        any(graded.covers(spans_of(hit), span, share) for span in wanted)
        or any(shares_most(spans_of(hit), chunk, share) for chunk in chunks)
        for hit in case.hits
    ]
    scores: Scores = {f"hit@{k}_span": float(any(found[:k])) for k in KS}
    scores["mrr_span"] = reciprocal_rank(found, RECIPROCAL_RANK_CUTOFF)
    return scores


def empty_result(case: Case) -> Scores:
    return {"empty_result_rate": float(not case.hits)}


def refusal(case: Case) -> Scores:
    """S3.8, A3.10: a query labelled with no document should get `grounded: false`."""
    if case.golden.get("expected_doc_ids") != [] or "grounded" in case.missing:
        return {"refusal_correctness": None}
    answer = usable_answer(case.result)
    if answer is None:
        return {"refusal_correctness": 0.0 if case.readings["refusal_no_answer"] == "zero" else None}
    return {"refusal_correctness": float(answer.get("grounded") is False)}


FAMILIES: tuple[Callable[[Case], Scores], ...] = (
    chunk_overlap,
    span_overlap,
    anchor_ranking,
    anchor_groups,
    scope_miss,
    attribution,
    recency_conflict,
    judge_scores,
    abstention,
    failures,
    expected_chunk_ranking,
    expected_document_recall,
    citation_coverage,
    answer_strings,
    empty_result,
    refusal,
    graded_ranking,
    span_ranking,
)

METRIC_KEYS: tuple[str, ...] = (
    "chunk_recall",
    "chunk_precision",
    "chunk_f1",
    "span_recall",
    "span_precision",
    "span_iou",
    *at_each_k("recall_any"),
    *at_each_k("precision"),
    "mrr_anchor",
    *at_each_k("recall_all"),
    "scope_miss_rate",
    "attribution_hit_rate",
    "recency_conflict_ok",
    "judge_groundedness",
    "judge_correctness",
    "abstention_accuracy",
    "hallucination_rate_unanswerable",
    "error_rate",
    "timeout_rate",
    "empty_response_rate",
    *at_each_k("hit"),
    "mrr",
    *at_each_k("recall", "_doc"),
    "citation_coverage",
    "groundedness",
    "empty_result_rate",
    "refusal_correctness",
    *at_each_k("ndcg"),
    *at_each_k("ap"),
    "rprec",
    *at_each_k("recall", "_chunk"),
    *at_each_k("precision", "_chunk"),
    *at_each_k("judged"),
    *at_each_k("hit", "_span"),
    "mrr_span",
)
