"""Runs that are left on an older definition on purpose: marked wherever they appear, and given up again."""

from __future__ import annotations

import pytest

from eval_pipeline.comparing.compare import compare
from eval_pipeline.errors import UnknownName
from eval_pipeline.planning.apply import pin_older, pin_rest, release_pins
from eval_pipeline.planning.plan import find_plan, select_cells
from eval_pipeline.planning.status import find_status
from eval_pipeline.showing.show import show_run
from tests.projects import open_reader, project_of

from .conftest import copy_of

RANK = "metrics/reciprocal_rank.sql"
HALVED = (("cast(1 as double)", "cast(0.5 as double)"), ("-- version: 1", "-- version: 2"))


@pytest.fixture
def world(small_world):
    return small_world


@pytest.fixture(scope="module")
def pinned_once(small_computed_world, tmp_path_factory):
    """The formula changed; alpha-1 and alpha-2 stay, the others follow."""
    world = copy_of(small_computed_world, tmp_path_factory.mktemp("pinned"))
    world.overlay(RANK, *HALVED)
    pin_older(
        project_of(world.settings, world.registry),
        select_cells(world.registry, since="2026-09-03"),
        note="season 1",
    )
    world.compute(everything=True)
    return world


@pytest.fixture
def pinned(pinned_once, tmp_path):
    """A copy of its own for every test."""
    return copy_of(pinned_once, tmp_path)


def mrr(world, run_id):
    return show_run(project_of(world.settings, world.registry), run_id)["metrics"]["mrr"]["value"]


def test_a_pinned_value_is_marked_when_its_run_is_shown(pinned):
    states = show_run(project_of(pinned.settings, pinned.registry), "alpha-1")["states"]
    assert {"table": "metrics.reciprocal_rank", "state": "pinned", "reason": "formula"} in states
    states = show_run(project_of(pinned.settings, pinned.registry), "alpha-3")["states"]
    assert [one for one in states if one["table"].startswith("metrics.")] == []


def test_a_comparison_says_which_side_is_pinned_and_that_the_definitions_differ(pinned):
    warnings = compare(project_of(pinned.settings, pinned.registry), "alpha-2", "alpha-3")["warnings"]
    versions = "reciprocal_rank (version 1 in alpha-2, version 2 in alpha-3)"
    assert any(
        text.startswith(f"values computed under different definitions: {versions}") for text in warnings
    )
    assert any("on purpose for alpha-2: reciprocal_rank (formula)" in text for text in warnings)
    assert not any("run --all" in text for text in warnings)
    assert not any("on purpose for alpha-3" in text for text in warnings)


def test_two_pinned_runs_are_alike_and_still_said_to_be_pinned(pinned):
    warnings = compare(project_of(pinned.settings, pinned.registry), "alpha-1", "alpha-2")["warnings"]
    assert not any("different definitions" in text for text in warnings)
    assert any("on purpose for alpha-1" in text for text in warnings)
    assert any("on purpose for alpha-2" in text for text in warnings)


def test_the_view_of_runs_counts_pinned_tables(pinned):
    with open_reader(pinned.settings.db) as con:
        counted = dict(con.execute("select run_id, pinned_tables from runs").fetchall())
    assert counted == {"alpha-1": 2, "alpha-2": 2, "alpha-3": 0, "beta-1": 0, "beta-2": 0}


def test_pins_that_are_given_up_are_stale_again_and_computed(pinned):
    before = mrr(pinned, "alpha-1")
    selection = select_cells(pinned.registry, with_pinned=True, runs=["alpha-1"])
    plan = find_plan(project_of(pinned.settings, pinned.registry), selection)
    assert plan["runs"] == ["alpha-1"]
    assert release_pins(project_of(pinned.settings, pinned.registry), selection) == 2
    pinned.compute(everything=True)
    assert mrr(pinned, "alpha-1") == pytest.approx(before / 2, abs=1e-4)
    assert find_status(project_of(pinned.settings, pinned.registry))["cells"]["pinned"] == 2


def test_the_rest_can_be_pinned_where_runs_were_named(world):
    world.overlay(RANK, *HALVED)
    selection = select_cells(world.registry, runs=["beta-1"])
    assert pin_rest(project_of(world.settings, world.registry), selection) == 8
    assert {name: sum(found.values()) for name, found in world.plan().items()} == {
        "metrics.reciprocal_rank": 1,
        "aggregates.run_metrics": 1,
    }


def test_facts_are_not_pinned_and_a_new_formula_rests_on_todays(world):
    world.overlay(
        "facts/document_ranks.sql", ("    counts.n_expected,", "    counts.n_expected + 1 as n_expected,")
    )
    pin_older(project_of(world.settings, world.registry), select_cells(world.registry, since="2026-10-01"))
    before = show_run(project_of(world.settings, world.registry), "alpha-1")["metrics"]["recall@1_doc"]
    world.own(
        "metrics/expected.sql",
        "-- keys: {expected: documents}\n\nselect run_key, query_key, n_expected as expected from facts.document_ranks\n",
    )
    world.compute(everything=True)
    assert world.plan() == {}
    shown = show_run(project_of(world.settings, world.registry), "alpha-1")["metrics"]
    assert shown["recall@1_doc"] == before
    assert shown["expected"]["value"] == 2


def test_a_run_that_is_not_there_is_named(world):
    with pytest.raises(UnknownName, match="alpha-9"):
        find_plan(project_of(world.settings, world.registry), select_cells(world.registry, runs=["alpha-9"]))
