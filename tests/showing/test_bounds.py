"""What hits that nobody has judged leave open: the bounds of every metric against every judgement there could be."""

from __future__ import annotations

import itertools
import json
import math
from random import Random

import pytest

from eval_pipeline.cli.main import main
from eval_pipeline.formulas.registry import load_registry
from eval_pipeline.showing.show import show_queries, show_run
from tests.bundle_files import compute, load, settings_in, write_golden, write_run
from tests.few_definitions import shipping, write_few
from tests.projects import project_of
from tests.reference.graded import judged_of, rank_scores
from tests.reference.metrics import reciprocal_rank

KS = (1, 3, 5, 10)
NAMES = (
    *("hit_at_k", "reciprocal_rank", "ndcg", "average_precision", "r_precision"),
    *("recall_at_k_chunk", "precision_at_k_chunk", "judged_at_k", "empty_results"),
)
QUERIES = 60


@pytest.fixture(scope="module", autouse=True)
def few(tmp_path_factory):
    """The command line with the definitions of these metrics as the shipped ones."""
    with shipping(
        write_few(
            tmp_path_factory.mktemp("few"), "aggregates.run_metrics", *(f"metrics.{name}" for name in NAMES)
        )
    ):
        yield


def random_row(rng, number):
    """Grades of some ids, in one row of four none; expected are those of at least 1."""
    things = rng.sample("abcdefghij", rng.randint(1, 5))
    grades = {thing: rng.choice([-1, 0, 1, 1, 2, 3]) for thing in things}
    row = {
        "query_id": f"q{number:02}",
        "expected_chunk_ids": [one for one in things if grades[one] >= 1] or ["k"],
    }
    return row if number % 4 == 0 else {**row, "grades": grades}


@pytest.fixture(scope="module")
def golden():
    rng = Random(31)
    return {row["query_id"]: row for row in (random_row(rng, number) for number in range(QUERIES))}


@pytest.fixture(scope="module")
def lists(golden):
    rng = Random(32)
    return {query: [rng.choice("abcdefghijxyz") for _ in range(rng.randint(1, 8))] for query in golden}


@pytest.fixture(scope="module")
def stored(golden, lists, tmp_path_factory):
    folder = tmp_path_factory.mktemp("stored")
    write_golden(folder / "bundle", golden.values())
    rows = [{"query_id": query, "hits_top_k": hits} for query, hits in lists.items()]
    write_run(folder / "bundle", "run-1", rows)
    settings = settings_in(folder)
    load(settings, folder / "bundle")
    compute(settings, load_registry(settings), reasons=None)
    return settings


def scores_of(row, ids):
    """Every metric with bounds, by the reference."""
    scores = rank_scores(ids, judged_of(row), KS)
    found = [name in row["expected_chunk_ids"] for name in ids]
    scores |= {f"hit@{k}": float(any(found[:k])) for k in KS}
    return scores | {"mrr": reciprocal_rank(found, 10)}


def every_judgement(row, ids):
    """The metrics under all judgements of the unjudged hits: not relevant, or as good as the best of the query."""
    known = judged_of(row)
    unknown = sorted(set(ids) - known.labelled)
    best = max([*known.grades.values(), 1])
    for chosen in itertools.chain.from_iterable(
        itertools.combinations(unknown, size) for size in range(len(unknown) + 1)
    ):
        grades = {**row["grades"], **dict.fromkeys(unknown, 0), **dict.fromkeys(chosen, best)}
        expected = [*row["expected_chunk_ids"], *chosen]
        yield scores_of({**row, "grades": grades, "expected_chunk_ids": expected}, ids)


def lines_of(settings):
    return {line["query_id"]: line for line in show_queries(project_of(settings), "run-1")}


def test_bounds_are_the_lowest_and_the_highest_value_of_all_judgements_there_could_be(stored, golden, lists):
    lines = lines_of(stored)
    n_open = 0
    for query, row in golden.items():
        unknown = set(lists[query]) - judged_of(row).labelled
        bounds = lines[query].get("bounds", {})
        if "grades" not in row or not unknown:
            assert bounds == {}
            continue
        worlds = list(every_judgement(row, lists[query]))
        for key, value in lines[query]["metrics"].items():
            values = [world[key] for world in worlds] if key in worlds[0] and value is not None else []
            if values and min(values) < max(values):
                assert bounds[key] == pytest.approx([min(values), max(values)], abs=1e-12), (query, key)
                n_open += 1
            elif key in bounds:
                assert bounds[key] == pytest.approx([value, value], abs=1e-12), (query, key)
    assert n_open > QUERIES


def test_the_bounds_of_a_run_enclose_the_means_of_its_queries(stored):
    lines = lines_of(stored).values()
    report = show_run(project_of(stored), "run-1")
    assert {"hit@5", "mrr", "ndcg@10", "ap@5", "rprec", "recall@5_chunk", "precision@5_chunk"} <= set(
        report["bounds"]
    )
    assert "judged@5" not in report["bounds"]
    for key, bounds in report["bounds"].items():
        ends = [
            line.get("bounds", {}).get(key, [line["metrics"][key]] * 2)
            for line in lines
            if line["metrics"][key] is not None
        ]
        lower, upper = (math.fsum(side) / len(ends) for side in zip(*ends, strict=True))
        assert bounds["lower"] <= lower <= upper <= bounds["upper"]
        assert bounds["lower"] == pytest.approx(lower, abs=1e-4)
        assert bounds["upper"] == pytest.approx(upper, abs=1e-4)
        assert bounds["lower"] <= report["metrics"][key]["value"] <= bounds["upper"]


def test_how_many_unjudged_hits_there_are_is_counted_where_the_metric_looks(stored, golden, lists):
    bounds = show_run(project_of(stored), "run-1")["bounds"]
    for k in KS:
        unjudged = sum(
            len(set(lists[query][:k]) - judged_of(row).labelled)
            for query, row in golden.items()
            if "grades" in row
        )
        assert bounds[f"hit@{k}"]["unjudged"] == unjudged


def test_labels_that_are_complete_leave_nothing_open_and_judged_ones_do_in_every_row(stored, golden, lists):
    stored.config.write_text('[datasets.kb]\nlabels = "complete"\n', "utf-8")
    try:
        assert show_run(project_of(stored), "run-1")["bounds"] == {}
        stored.config.write_text('[datasets.kb]\nlabels = "judged"\n', "utf-8")
        lines = lines_of(stored)
    finally:
        stored.config.unlink()
    ungraded = [query for query, row in golden.items() if "grades" not in row]
    assert ungraded
    for query in ungraded:
        unknown = set(lists[query]) - set(golden[query]["expected_chunk_ids"])
        assert ("bounds" in lines[query]) == bool(unknown)


def test_the_terminal_says_between_what_and_what_a_metric_lies(stored, capsys):
    with pytest.raises(SystemExit):
        main(["show", "run-1", "--no-slices", "--db", str(stored.db)])
    assert "unjudged hits" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["show", "run-1", "--json", "--db", str(stored.db)])
    assert set(json.loads(capsys.readouterr().out)["bounds"]["hit@5"]) == {"lower", "upper", "unjudged"}
