"""The product beside pytrec_eval and ir_measures: the same numbers, and where the definitions differ on purpose."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import ir_measures
import pytest
import pytrec_eval
from ir_measures import RR, P, Qrel, R, ScoredDoc, SetF, SetP, SetR, Success

from eval_pipeline.formulas.registry import load_registry
from eval_pipeline.showing.show import show_run
from tests.bundle_files import Row, ask, compute, load, settings_in, write_golden, write_run
from tests.projects import project_of

KS = (1, 3, 5, 10)
LABELLED = 60
# What pytrec_eval and ir_measures call the product's keys; chunks, documents and files of a hit are one to one here.
PYTREC = {
    **{f"hit@{k}": f"success_{k}" for k in KS},
    **{f"recall_any@{k}": f"success_{k}" for k in KS},
    **{f"recall@{k}_doc": f"recall_{k}" for k in KS},
    **{f"precision@{k}": f"P_{k}" for k in KS},
    "mrr_anchor": "recip_rank",
    "chunk_precision": "set_P",
    "chunk_recall": "set_recall",
    "chunk_f1": "set_F",
}
IR_MEASURES = {
    **{f"hit@{k}": Success @ k for k in KS},
    **{f"recall@{k}_doc": R @ k for k in KS},
    **{f"precision@{k}": P @ k for k in KS},
    "mrr": RR @ 10,
    "mrr_anchor": RR,
    "chunk_precision": SetP,
    "chunk_recall": SetR,
    "chunk_f1": SetF,
}

Scores = Mapping[str, Mapping[str, float]]
Labels = Mapping[str, set[str]]


def golden_row(query_id: str, relevant: set[str]) -> Row:
    """A thing is relevant as a chunk, as a document and as a file."""
    things = sorted(relevant)
    return {
        "query_id": query_id,
        "expected_chunk_ids": things,
        "expected_doc_ids": [f"document of {thing}" for thing in things],
        "gold_supports": [{"rel_path": f"{thing}.md", "heading_path": ""} for thing in things],
    }


def hit(thing: str, **others: Any) -> Row:
    return {"chunk_id": thing, "doc_id": f"document of {thing}", "rel_path": f"{thing}.md", **others}


def ranked(scores: Mapping[str, float]) -> list[Row]:
    """As a retriever delivers: the best score first."""
    return [hit(thing, score=score) for thing, score in sorted(scores.items(), key=lambda item: -item[1])]


def measured(folder: Path, labels: Labels, delivered: Mapping[str, list[Row]]) -> dict[str, dict[str, Any]]:
    """Query → metric → value, from a bundle through the store to the public view."""
    write_golden(folder / "bundle", [golden_row(query, relevant) for query, relevant in labels.items()])
    results = [{"query_id": query, "hits_top_k": hits} for query, hits in delivered.items()]
    write_run(folder / "bundle", "run-1", results)
    settings = settings_in(folder)
    assert load(settings, folder / "bundle").problems == []
    registry = load_registry(settings)
    names = {registry.keys()[key].name for key in (*PYTREC, *IR_MEASURES)}
    compute(settings, registry, reasons=None, definitions=names)
    found: dict[str, dict[str, Any]] = {}
    for query, metric, value in ask(settings, "select query_id, metric, value from per_query_metrics"):
        found.setdefault(query, {})[metric] = value
    return found


def by_pytrec(labels: Labels, scores: Scores) -> dict[str, dict[str, float]]:
    """trec_eval's numbers; a run names each query and each document once."""
    qrels = {query: dict.fromkeys(relevant, 1) for query, relevant in labels.items()}
    cut = ",".join(map(str, KS))
    measures = {f"{name}.{cut}" for name in ("success", "recall", "P")}
    evaluator = pytrec_eval.RelevanceEvaluator(
        qrels, measures | {"recip_rank", "set_P", "set_recall", "set_F"}
    )
    return evaluator.evaluate({query: dict(documents) for query, documents in scores.items()})


@pytest.fixture(scope="module")
def labels() -> dict[str, set[str]]:
    rng = Random(11)
    return {
        f"q{n:02}": {f"t{rng.randrange(30):02}" for _ in range(rng.randint(1, 5))} for n in range(LABELLED)
    }


@pytest.fixture(scope="module")
def scores() -> dict[str, dict[str, float]]:
    """No two scores of a query are equal; some queries find nothing relevant, some return few hits, some many."""
    rng = Random(12)

    def one_query() -> dict[str, float]:
        size = rng.choice((1, 4, 10, 25))
        things, values = rng.sample(range(30), size), rng.sample(range(1, 1000), size)
        return {f"t{thing:02}": value / 1000 for thing, value in zip(things, values, strict=True)}

    return {f"q{n:02}": one_query() for n in range(LABELLED)}


@pytest.fixture(scope="module")
def found(
    labels: Labels, scores: Scores, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, Any]]:
    delivered = {query: ranked(documents) for query, documents in scores.items()}
    return measured(tmp_path_factory.mktemp("agreement"), labels, delivered)


def test_without_ties_every_query_has_the_numbers_of_pytrec_eval(
    labels: Labels, scores: Scores, found: Mapping[str, Mapping[str, Any]]
) -> None:
    peer = by_pytrec(labels, scores)
    assert peer.keys() == found.keys() == labels.keys()
    for query, values in found.items():
        wanted = {key: peer[query][name] for key, name in PYTREC.items()}
        assert {key: values[key] for key in PYTREC} == pytest.approx(wanted, abs=1e-9)
    assert 0 < sum(values["hit@10"] for values in found.values()) < LABELLED


def test_the_reciprocal_rank_with_its_cut_off_is_that_of_pytrec_eval_over_the_first_ten(
    labels: Labels, scores: Scores, found: Mapping[str, Mapping[str, Any]]
) -> None:
    first_ten = {
        query: dict(sorted(documents.items(), key=lambda item: -item[1])[:10])
        for query, documents in scores.items()
    }
    peer = by_pytrec(labels, first_ten)
    assert {query: values["mrr"] for query, values in found.items()} == pytest.approx(
        {query: values["recip_rank"] for query, values in peer.items()}, abs=1e-9
    )
    assert any(values["mrr"] < values["mrr_anchor"] for values in found.values())


def test_without_ties_every_query_has_the_numbers_of_ir_measures(
    labels: Labels, scores: Scores, found: Mapping[str, Mapping[str, Any]]
) -> None:
    qrels = [Qrel(query, thing, 1) for query, relevant in labels.items() for thing in relevant]
    run = [
        ScoredDoc(query, thing, score)
        for query, documents in scores.items()
        for thing, score in documents.items()
    ]
    for key, measure in IR_MEASURES.items():
        peer = {one.query_id: one.value for one in ir_measures.iter_calc([measure], qrels, run)}
        assert {query: values[key] for query, values in found.items()} == pytest.approx(peer, abs=1e-9), key


# ------------------------------------------------------------------ where the definitions differ on purpose

DIFFERENT: dict[str, list[Row]] = {
    "tie": [hit("a", score=0.5), hit("b", score=0.5)],
    "order": [hit("a", score=0.1, rank=2), hit("b", score=0.9, rank=1)],
    "nothing": [],
    "late": [hit("b", score=3), hit("b", score=2), hit("a", score=1)],
    "twice": [hit("a", score=3), hit("a", score=2), hit("b", score=1)],
}


@pytest.fixture(scope="module")
def store_of_differences(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is relevant is always `a`; one more query has no result at all."""
    return tmp_path_factory.mktemp("differences")


@pytest.fixture(scope="module")
def own(store_of_differences: Path) -> dict[str, dict[str, Any]]:
    return measured(store_of_differences, {query: {"a"} for query in (*DIFFERENT, "missing")}, DIFFERENT)


def peer_of(**scores: Mapping[str, float]) -> dict[str, dict[str, float]]:
    return by_pytrec({query: {"a"} for query in (*DIFFERENT, "missing")}, scores)


def test_among_equal_scores_the_stored_order_wins_where_trec_eval_takes_the_last_id_first(
    own: Mapping[str, Mapping[str, Any]],
) -> None:
    peer = peer_of(tie={"a": 0.5, "b": 0.5})["tie"]
    assert (own["tie"]["mrr_anchor"], own["tie"]["precision@1"]) == (1, 1)
    assert (peer["recip_rank"], peer["P_1"]) == (0.5, 0)


def test_the_place_in_the_list_wins_over_score_and_rank_where_trec_eval_sorts_by_score(
    own: Mapping[str, Mapping[str, Any]],
) -> None:
    assert own["order"]["mrr"] == 1
    assert peer_of(order={"a": 0.1, "b": 0.9})["order"]["recip_rank"] == 0.5


def test_a_query_without_a_result_is_listed_as_missing_where_peers_drop_it_or_count_it_as_a_miss(
    own: Mapping[str, Mapping[str, Any]], store_of_differences: Path
) -> None:
    assert "missing" not in own
    settings = settings_in(store_of_differences)
    shown = show_run(project_of(settings), "run-1")
    assert (shown["total_queries"], shown["missing_query_ids"]) == (len(DIFFERENT), ["missing"])
    assert "missing" not in peer_of(tie={"a": 1.0})
    found = ir_measures.iter_calc(
        [RR], [Qrel("tie", "a", 1), Qrel("missing", "a", 1)], [ScoredDoc("tie", "a", 1)]
    )
    assert {one.query_id: one.value for one in found} == {"tie": 1, "missing": 0}


def test_an_empty_list_of_hits_is_a_miss_though_no_line_of_a_trec_run_can_say_so(
    own: Mapping[str, Mapping[str, Any]],
) -> None:
    assert [own["nothing"][key] for key in ("hit@10", "mrr", "recall@10_doc", "precision@1")] == [0] * 4


def test_a_hit_that_comes_twice_keeps_both_places_where_a_trec_run_can_hold_it_only_once(
    own: Mapping[str, Mapping[str, Any]],
) -> None:
    peer = peer_of(late={"b": 3.0, "a": 1.0}, twice={"a": 3.0, "b": 1.0})
    assert own["late"]["mrr"] == pytest.approx(1 / 3)
    assert peer["late"]["recip_rank"] == 0.5
    assert own["twice"]["precision@3"] == pytest.approx(2 / 3)
    assert peer["twice"]["P_3"] == pytest.approx(1 / 3)
    assert own["twice"]["recall@3_doc"] == own["twice"]["hit@3"] == 1
