"""What replacing does to numbers, shown before, and kept after."""

from __future__ import annotations

import json

import pytest

from eval_pipeline.errors import UsageError
from eval_pipeline.planning.apply import pin_older
from eval_pipeline.planning.explain import TERMS, explain_movement
from eval_pipeline.planning.plan import find_plan, select_cells
from eval_pipeline.planning.preview import find_preview
from eval_pipeline.planning.status import find_status
from eval_pipeline.showing.show import show_run
from tests.projects import open_reader, project_of

RANK = "metrics/reciprocal_rank.sql"
WITH_MRR = {"metrics.reciprocal_rank", "aggregates.run_metrics:metrics.reciprocal_rank"}


@pytest.fixture
def world(small_world):
    return small_world


def double_the_rank(world, version=1):
    world.overlay(
        RANK, ("cast(1 as double)", "cast(0.5 as double)"), ("-- version: 1", f"-- version: {version}")
    )


def mrr(world, run_id, as_of=None):
    return show_run(project_of(world.settings, world.registry), run_id, as_of=as_of)["metrics"]["mrr"][
        "value"
    ]


@pytest.mark.slow
def test_a_preview_shows_what_applying_then_stores_and_writes_nothing(world):
    before = {run: mrr(world, run) for run in ("alpha-1", "alpha-2", "beta-2")}
    double_the_rank(world, version=2)
    preview = find_preview(project_of(world.settings, world.registry))["preview"]["mrr"]
    assert {run: preview["runs"][run]["old"] for run in before} == before
    assert {run: mrr(world, run) for run in before} == before
    world.compute(everything=True)
    assert {run: preview["runs"][run]["new"] for run in before} == {run: mrr(world, run) for run in before}
    assert preview["changed_queries"] == 30


def test_a_preview_of_a_sample_says_which_runs_it_looked_at(world):
    double_the_rank(world)
    preview = find_preview(project_of(world.settings, world.registry), sample=2)
    assert preview["sampled_runs"] == ["beta-1", "beta-2"]
    assert set(preview["preview"]["mrr"]["runs"]) == {"beta-1", "beta-2"}


def test_a_preview_counts_queries_that_become_undefined(world):
    world.overlay(RANK, ("-- applies: n_expected > 0", "-- applies: n_expected > 0 and first_rank = 1"))
    found = find_preview(project_of(world.settings, world.registry))["preview"]["mrr"]
    assert found["newly_undefined"] > 0
    assert found["newly_defined"] == 0


def test_the_plan_shows_the_difference_and_warns_of_an_unraised_version(world):
    double_the_rank(world)
    plan = find_plan(project_of(world.settings, world.registry))
    asset = next(one for one in plan["assets"] if one["name"] == "metrics.reciprocal_rank")
    assert "-    case when" in asset["diff"] and "cast(0.5 as double)" in asset["diff"]
    assert "raise `version`" in plan["warnings"][0]
    assert asset["old_fingerprint"] != asset["new_fingerprint"]
    double_the_rank(world, version=2)
    assert find_plan(project_of(world.settings, world.registry))["warnings"] == []


def test_what_a_report_said_before_stays_answerable_by_date_and_by_fingerprint(world):
    old_value = mrr(world, "alpha-1")
    old_meaning = show_run(project_of(world.settings, world.registry), "alpha-1")["formulas"][
        "reciprocal_rank"
    ]["fingerprint"]
    double_the_rank(world)
    world.compute(everything=True, note="halved on purpose")
    new_value = mrr(world, "alpha-1")
    assert new_value == pytest.approx(old_value / 2, abs=1e-4)
    assert mrr(world, "alpha-1", as_of="2026-10-02") == old_value
    assert mrr(world, "alpha-1", as_of=old_meaning) == old_value
    assert mrr(world, "alpha-1", as_of="2026-10-03") == new_value
    with open_reader(world.settings.db) as con:
        rows = con.execute(
            "select value, replaced_because, note from formula_history where run_id = 'alpha-1' and metric = 'mrr' order by valid_from"
        ).fetchall()
    assert rows == [(old_value, "formula", "halved on purpose"), (new_value, None, "halved on purpose")]


def test_asking_for_a_time_before_anything_was_computed_says_when_it_was(world):
    with pytest.raises(UsageError, match="2026-10-02"):
        show_run(project_of(world.settings, world.registry), "alpha-1", as_of="2020-01-01")


def test_computing_the_same_again_leaves_no_history(world):
    world.compute(definitions={"metrics.reciprocal_rank", "aggregates.run_metrics"}, force=True)
    with open_reader(world.settings.db) as con:
        assert con.execute("select count(*) from ledger.aggregate_history").fetchall() == [(0,)]


def test_a_removed_formula_is_not_stale_and_keeps_its_values(world):
    world.own(
        "metrics/passing.sql",
        "-- keys: {passing: hits}\n\nselect run_key, query_key, n_hits as passing from facts.outcomes\n",
    )
    world.compute()
    (world.own_sql / "metrics" / "passing.sql").unlink()
    assert world.plan() == {}
    with open_reader(world.settings.db) as con:
        assert con.execute("select count(*) from formula_history where metric = 'passing'").fetchall() == [
            (5,)
        ]


def test_a_renamed_formula_carries_its_values_and_history_over(world):
    text = "-- keys: {passing: hits}\n\nselect run_key, query_key, n_hits as passing from facts.outcomes\n"
    world.own("metrics/passing.sql", text)
    world.compute()
    (world.own_sql / "metrics" / "passing.sql").unlink()
    world.own("metrics/travelling.sql", "-- was: passing\n" + text)
    assert world.plan() == {}
    assert world.compute().cells == {}
    with open_reader(world.settings.db) as con:
        assert con.execute(
            "select distinct formula from formula_history where metric = 'passing'"
        ).fetchall() == [("metrics.travelling",)]
        assert con.execute("select count(*) from per_query_metrics where metric = 'passing'").fetchall() == [
            (30,)
        ]


def test_older_runs_can_be_left_on_the_old_definition_and_are_marked(world):
    double_the_rank(world)
    selection = select_cells(world.registry, since="2026-09-03")
    assert find_plan(project_of(world.settings, world.registry), selection)["runs"] == [
        "alpha-3",
        "beta-1",
        "beta-2",
    ]
    assert pin_older(project_of(world.settings, world.registry), selection, note="season 1") == 4
    before = mrr(world, "alpha-1")
    world.compute(everything=True)
    assert mrr(world, "alpha-1") == before
    status = find_status(project_of(world.settings, world.registry))
    assert status["cells"]["pinned"] == 4
    assert status["cells"]["stale"] == 0


def test_a_pinned_run_that_is_delivered_anew_is_computed_with_todays_definitions(world):
    double_the_rank(world)
    pin_older(project_of(world.settings, world.registry), select_cells(world.registry, since="2026-09-03"))
    world.write_run(
        "alpha-1", "alpha", {f"q{n}": [f"a{n}"] for n in range(6)}, created_at="2026-09-01T02:00:00Z"
    )
    world.deliver()
    world.compute(definitions=WITH_MRR)
    assert mrr(world, "alpha-1") == 0.5


def test_only_limits_the_plan_to_a_definition_and_what_it_feeds(world):
    double_the_rank(world)
    world.overlay("metrics/hit_at_k.sql", ("first_rank <= $k", "first_rank < $k"))
    plan = find_plan(
        project_of(world.settings, world.registry), select_cells(world.registry, only=["hit_at_k"])
    )
    assert [asset["name"] for asset in plan["assets"]] == ["metrics.hit_at_k", "aggregates.run_metrics"]


def explain(world, *runs, as_of=(None, None)):
    found = explain_movement(project_of(world.settings, world.registry), "mrr", runs, as_of=as_of)
    assert found["total"] == pytest.approx(sum(found[term] for term in TERMS), abs=1e-12)
    return found


def test_a_movement_is_laid_at_the_door_of_what_changed(world):
    assert explain(world, "alpha-1", "alpha-2")["system"] == pytest.approx(
        mrr(world, "alpha-2") - mrr(world, "alpha-1"), abs=1e-4
    )
    double_the_rank(world)
    world.compute(everything=True, definitions=WITH_MRR)
    formula = explain(world, "alpha-1", "alpha-1", as_of=("2026-10-02", None))
    assert formula["formula"] == formula["total"] != 0
    rows = json.loads(json.dumps(world.datasets["alpha"]))
    rows[0]["expected_chunk_ids"] = ["nowhere"]
    world.write_golden("alpha", rows)
    world.deliver()
    world.compute(everything=True, definitions=WITH_MRR)
    labels = explain(world, "alpha-1", "alpha-1", as_of=("2026-10-03", None))
    assert labels["labels"] == labels["total"] != 0
    assert labels["contributors"][0]["query_id"] == "q0"
    world.write_run("alpha-1", "alpha", {f"q{n}": [] for n in range(6)}, created_at="2026-09-01T02:00:00Z")
    world.deliver()
    world.compute(definitions=WITH_MRR)
    data = explain(world, "alpha-1", "alpha-1", as_of=("2026-10-05", None))
    assert data["data"] == data["total"] != 0


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 10))])
def test_the_terms_add_up_on_random_histories(world, seed):
    import random

    chance = random.Random(seed)
    for _ in range(4):
        step = chance.choice(["formula", "labels", "data"])
        if step == "formula":
            (world.folder / "eval-pipeline.toml").write_text(
                f"[formulas.reciprocal_rank]\ncutoff = {chance.randint(1, 6)}\n"
            )
        elif step == "labels":
            rows = json.loads(json.dumps(world.datasets["alpha"]))
            rows[chance.randrange(6)]["expected_chunk_ids"] = [f"x{chance.randrange(4)}"]
            world.write_golden("alpha", rows)
        else:
            hits = {f"q{n}": chance.sample([f"a{n}", f"b{n}", "x0", "x1", "x2"], 4) for n in range(6)}
            world.write_run(
                chance.choice(["alpha-1", "alpha-2"]), "alpha", hits, created_at="2026-09-01T02:00:00Z"
            )
        world.deliver()
        world.compute(everything=True, definitions=WITH_MRR)
    days = [None, *(f"2026-10-{day:02d}" for day in range(2, world.day + 1))]
    for _ in range(6):
        runs = (chance.choice(["alpha-1", "alpha-2"]), chance.choice(["alpha-1", "alpha-2", "alpha-3"]))
        explain(world, *runs, as_of=(chance.choice(days), chance.choice(days)))


def test_only_computes_the_aggregates_of_what_was_named(world):
    double_the_rank(world)
    world.overlay("metrics/hit_at_k.sql", ("first_rank <= $k", "first_rank < $k"))
    selection = select_cells(world.registry, only=["hit@1"])
    world.compute(everything=True, definitions=selection.definitions)
    assert world.plan() == {
        "metrics.reciprocal_rank": {"formula": 5},
        "aggregates.run_metrics": {"parent": 5},
    }
