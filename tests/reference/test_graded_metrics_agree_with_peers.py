"""Graded labels beside ir_measures: the same numbers for every query, where both mean the same by construction."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import ir_measures
import pytest
from ir_measures import AP, Judged, P, Qrel, R, Rprec, ScoredDoc, nDCG

from eval_pipeline.formulas.registry import load_registry
from tests.bundle_files import Row, ask, compute, load, settings_in, write_golden, write_run

KS = (1, 3, 5, 10)
QUERIES = 80
RELEVANT_FROM = 2
TOLERANCE = 1e-12
# ir_measures' own name of every key; by a level of relevance where ours has one.
PEERS: dict[str, Any] = {
    **{f"ndcg@{k}": nDCG @ k for k in KS},
    **{f"ap@{k}": AP(rel=RELEVANT_FROM) @ k for k in KS},
    "rprec": Rprec(rel=RELEVANT_FROM),
    **{f"recall@{k}_chunk": R(rel=RELEVANT_FROM) @ k for k in KS},
    **{f"precision@{k}_chunk": P(rel=RELEVANT_FROM) @ k for k in KS},
    **{f"judged@{k}": Judged @ k for k in KS},
}
Values = dict[str, dict[str, float | None]]


@pytest.fixture(scope="module")
def grades() -> dict[str, dict[str, int]]:
    """Every query has something relevant, because peers score a query without as 0 and here it is not scored."""
    rng = Random(21)
    found = {}
    for number in range(QUERIES):
        things = rng.sample(range(40), rng.randint(1, 15))
        found[f"q{number:02}"] = {f"t{thing:02}": rng.choice([0, 0, 1, 1, 2, 3]) for thing in things}
        found[f"q{number:02}"][f"t{things[0]:02}"] = rng.choice([2, 3])
    return found


@pytest.fixture(scope="module")
def delivered() -> dict[str, list[str]]:
    """Every query retrieves something, no thing twice: a run of trec_eval's can say no other."""
    rng = Random(22)
    return {
        f"q{number:02}": [f"t{thing:02}" for thing in rng.sample(range(40), rng.choice((1, 4, 10, 30)))]
        for number in range(QUERIES)
    }


def measured(folder: Path, golden: list[Row], delivered: dict[str, list[str]], toml: str) -> Values:
    folder.mkdir(exist_ok=True)
    write_golden(folder / "bundle", golden)
    write_run(
        folder / "bundle",
        "run-1",
        [{"query_id": query, "hits_top_k": hits} for query, hits in delivered.items()],
    )
    settings = settings_in(folder)
    settings.config.write_text(toml, "utf-8")
    assert load(settings, folder / "bundle").problems == []
    registry = load_registry(settings)
    compute(settings, registry, reasons=None, definitions={registry.keys()[key].name for key in PEERS})
    found: Values = {}
    for query, metric, value in ask(settings, "select query_id, metric, value from per_query_metrics"):
        found.setdefault(query, {})[metric] = value
    return found


def by_ir_measures(grades: dict[str, dict[str, int]], delivered: dict[str, list[str]]) -> Values:
    """Scores that fall strictly, so that the order delivered is the only one there is."""
    qrels = [Qrel(query, thing, grade) for query, found in grades.items() for thing, grade in found.items()]
    run = [
        ScoredDoc(query, thing, float(-place))
        for query, things in delivered.items()
        for place, thing in enumerate(things)
    ]
    found: Values = {}
    for key, measure in PEERS.items():
        for one in ir_measures.iter_calc([measure], qrels, run):
            found.setdefault(one.query_id, {})[key] = one.value
    return found


def test_every_query_has_the_numbers_of_ir_measures(grades, delivered, tmp_path):
    golden = [{"query_id": query, "grades": found} for query, found in grades.items()]
    got = measured(tmp_path / "store", golden, delivered, f"[datasets.kb]\nrelevant_from = {RELEVANT_FROM}\n")
    peer = by_ir_measures(grades, delivered)
    assert got.keys() == peer.keys() == grades.keys()
    for query, values in got.items():
        assert {key: values[key] for key in PEERS} == pytest.approx(peer[query], abs=TOLERANCE), query
    assert len({round(values["ndcg@10"] or 0, 6) for values in got.values()}) > QUERIES / 2


def test_labels_without_grades_are_a_pool_of_grade_one(grades, delivered, tmp_path):
    golden = [{"query_id": query, "expected_chunk_ids": sorted(found)} for query, found in grades.items()]
    got = measured(tmp_path / "store", golden, delivered, "")
    ones = {query: dict.fromkeys(found, RELEVANT_FROM) for query, found in grades.items()}
    peer = by_ir_measures(ones, delivered)
    for query, values in got.items():
        unjudged = {key: None for key in PEERS if key.startswith("judged")}
        assert {key: values.get(key) for key in PEERS} == pytest.approx(peer[query] | unjudged, abs=TOLERANCE)
