"""What a change would turn round, said before it is made: gates, comparisons, the order of runs."""

from __future__ import annotations

import datetime as dt

import pytest

from eval_pipeline.comparing.gate import gate
from eval_pipeline.comparing.pairs import find_pairs, store_comparisons
from eval_pipeline.planning.preview import find_preview
from eval_pipeline.report.plan import as_markdown, verdict_sentences
from tests.projects import open_reader, project_of, store_with

from .conftest import copy_of

RANK = "metrics/reciprocal_rank.sql"
CONFIG = {"chunker_version": "v1"}
GATED = """
[baselines]
alpha = "alpha-1"
[gate]
defaults = false
[[gate.rules]]
metric = "mrr"
at_least = 0.5
"""


@pytest.fixture
def world(small_world):
    return small_world


@pytest.fixture(scope="module")
def gated_once(small_computed_world, tmp_path_factory):
    """alpha-2 is held against alpha-1: its MRR has to reach a half, and does."""
    world = copy_of(small_computed_world, tmp_path_factory.mktemp("gated"))
    hits = {f"q{n}": ["x", f"a{n}"] if n % 2 else [f"a{n}"] for n in range(6)}
    world.write_run("alpha-2", "alpha", hits, created_at="2026-09-02T02:00:00Z")
    (world.folder / "eval-pipeline.toml").write_text(GATED)
    world.deliver()
    world.compute()
    return world


@pytest.fixture
def gated(gated_once, tmp_path):
    """A copy of its own for every test."""
    return copy_of(gated_once, tmp_path)


def verdict(world, candidate):
    return gate(project_of(world.settings, world.registry), candidate, "alpha-1")["verdict"]


@pytest.mark.slow
def test_the_gate_that_applying_would_turn_round_is_named_before_and_nothing_is_written(gated):
    assert verdict(gated, "alpha-2") == "pass"
    gated.overlay(RANK, ("cast(1 as double)", "cast(0.25 as double)"))
    verdicts = find_preview(project_of(gated.settings, gated.registry))["verdicts"]
    flip = next(flip for flip in verdicts["flips"] if flip["kind"] == "gate" and flip["run_b"] == "alpha-2")
    assert (flip["run_a"], flip["old"], flip["new"]) == ("alpha-1", "pass", "fail")
    assert verdict(gated, "alpha-2") == "pass"
    gated.compute(everything=True)
    assert verdict(gated, "alpha-2") == flip["new"]


@pytest.mark.slow
def test_what_a_preview_says_of_every_gate_is_what_the_gate_says_after_applying(gated):
    before = {run: verdict(gated, run) for run in ("alpha-2", "alpha-3")}
    gated.overlay(RANK, ("cast(1 as double)", "cast(0.9 as double)"))
    found = find_preview(project_of(gated.settings, gated.registry))["verdicts"]
    said = {flip["run_b"]: flip["new"] for flip in found["flips"] if flip["kind"] == "gate"}
    gated.compute(everything=True)
    assert {run: said.get(run, old) for run, old in before.items()} == {
        run: verdict(gated, run) for run in before
    }


def test_a_change_that_turns_nothing_round_says_how_many_pairs_were_looked_at(gated):
    gated.overlay(RANK, ("cast(1 as double)", "cast(0.999 as double)"))
    plan = find_preview(project_of(gated.settings, gated.registry))
    assert plan["verdicts"]["flips"] == []
    with open_reader(gated.settings.db) as con:
        n_pairs = len(find_pairs(store_with(con, gated.registry)))
    assert plan["verdicts"]["pairs"] == plan["verdicts"]["of"] == n_pairs > 0
    assert f"No verdict turns round in {n_pairs} pairs of runs." in as_markdown(plan)


def test_a_comparison_whose_difference_is_not_shown_any_more_is_named(world):
    """Twelve queries that all got better are a shown difference; under a formula that is always 0 they are none."""
    rows = [{"query_id": f"p{n}", "expected_chunk_ids": [f"a{n}"]} for n in range(12)]
    world.write_golden("gamma", rows)
    world.write_archive("gamma", "v1", [f"a{n}" for n in range(12)])
    late, early = ({f"p{n}": [*found, f"a{n}"] for n in range(12)} for found in (["x", "y", "z"], []))
    world.write_run("gamma-1", "gamma", late, created_at="2026-09-01T02:00:00Z", config=CONFIG)
    world.write_run("gamma-2", "gamma", early, created_at="2026-09-02T02:00:00Z", config=CONFIG)
    world.deliver()
    world.compute()
    pairs = [("gamma-1", "gamma-2")]
    store_comparisons(project_of(world.settings, world.registry, now=dt.datetime(2026, 11, 1)), pairs)
    world.overlay(RANK, ("cast(1 as double)", "cast(0 as double)"))
    plan = find_preview(project_of(world.settings, world.registry))
    flips = [flip for flip in plan["verdicts"]["flips"] if flip["kind"] == "comparison"]
    assert [(flip["run_a"], flip["run_b"], flip["metric"]) for flip in flips] == [
        ("gamma-1", "gamma-2", "mrr")
    ]
    assert (flips[0]["old"], flips[0]["new"]) == ("better", "not shown")
    assert "mrr from gamma-1 to gamma-2: better → no significant change" in list(verdict_sentences(plan))


def test_a_sample_judges_only_pairs_whose_runs_it_looked_at(gated):
    gated.overlay(RANK, ("cast(1 as double)", "cast(0.25 as double)"))
    verdicts = find_preview(project_of(gated.settings, gated.registry), sample=1)["verdicts"]
    assert verdicts == {"pairs": 0, "of": 0, "flips": []}


def test_the_order_of_runs_turns_round_within_a_suite_only(world):
    """alpha-1 stands before beta-1 in time too, but nobody compares their numbers."""
    world.overlay(RANK, ("cast(1 as double) / first_rank", "cast(first_rank as double)"))
    found = find_preview(project_of(world.settings, world.registry))["preview"]["mrr"]
    assert ["alpha-1", "alpha-2"] in found["order_flips"]
    for first, second in found["order_flips"]:
        assert first.partition("-")[0] == second.partition("-")[0]


def test_rows_of_extraction_are_cases_and_others_queries(world):
    world.overlay(RANK, ("cast(1 as double)", "cast(0.25 as double)"))
    assert (
        find_preview(project_of(world.settings, world.registry), sample=1)["preview"]["mrr"]["unit"]
        == "queries"
    )
