"""A later version in which shipped definitions mean something else, or are new."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest

import eval_pipeline
from eval_pipeline.comparing.pairs import PAIRS, find_pairs, store_comparisons
from eval_pipeline.computing.ledger import DATA_REASONS, DEFINITION_REASONS
from eval_pipeline.computing.measure import measure
from eval_pipeline.formulas.lock_file import FILE
from eval_pipeline.planning.plan import find_plan, select_cells
from eval_pipeline.planning.preview import find_preview
from eval_pipeline.planning.status import find_status
from tests.bundle_files import ask
from tests.called import call
from tests.few_definitions import shipping
from tests.projects import open_reader, project_of, store_with
from tests.versions import of_version

VERSION, LATER = eval_pipeline.__version__, "9.0.0"
BECAUSE = f"{LATER} replaced {VERSION}"
RANK = "metrics.reciprocal_rank"
MINE = "-- keys: {mine: hits}\n-- scale: count\n\nselect run_key, query_key, n_hits as mine from facts.outcomes\n"
ROUNDED_OTHERWISE = ("'{:.4f}'", "'{:.3f}'")
NOTED = "-- keys: {n: hits}\n\nselect run_key, query_key, n_hits as n from facts.outcomes\n"
PARAMETERS = "[formulas.reciprocal_rank]\ncutoff = 2\n"


@pytest.fixture
def world(small_world):
    """Computed by this version; what is called within runs as the later one."""
    with of_version(LATER):
        yield small_world


def released(world, relative, *changes):
    """The same store under a release that ships this file otherwise, or is the first to ship it."""
    shipped = world.folder / "shipped"
    if world.shipped != shipped:
        shutil.copytree(world.shipped, shipped)
    path = shipped / relative
    text = path.read_text("utf-8") if path.is_file() else ""
    for old, new in changes:
        assert old in text or not text, relative
        text = text.replace(old, new) if text else new
    path.write_text(text, "utf-8")
    found = replace(world, shipped=shipped, registries={})
    lines = [f"{one.name} {one.header.version} {one.written_fingerprint}\n" for one in found.registry]
    (shipped / FILE).write_text("".join(lines), "utf-8")
    return found


def with_another_rank(world):
    return released(world, "metrics/reciprocal_rank.sql", ("cast(1 as double)", "cast(2 as double)"))


def because(world):
    return {
        asset["name"]: asset["because"]
        for asset in find_plan(project_of(world.settings, world.registry))["assets"]
    }


def test_what_a_release_made_stale_says_so_and_so_does_what_rests_on_it(world):
    later = with_another_rank(world)
    assert because(later) == {RANK: BECAUSE, "aggregates.run_metrics": BECAUSE, PAIRS: None}
    assert list(find_plan(project_of(later.settings, later.registry))["assets"][0])[-1] == "because"
    with shipping(later.shipped):
        code, out, _ = call(["plan", "--db", str(later.settings.db)], later.folder, apart=True)
        _, text, _ = call(
            ["plan", "--format", "md", "--db", str(later.settings.db)], later.folder, apart=True
        )
    assert code == 0
    for said in (out, text):
        assert f"{RANK}, aggregates.run_metrics: because {BECAUSE}." in " ".join(said.split())


def test_what_somebody_changed_themselves_is_not_the_releases_doing(world):
    (world.folder / "eval-pipeline.toml").write_text(PARAMETERS)
    assert set(because(released(world, "metrics/hit_at_k.sql")).values()) == {None}
    (world.folder / "eval-pipeline.toml").unlink()
    world.overlay("metrics/reciprocal_rank.sql", ("cast(1 as double)", "cast(3 as double)"))
    assert set(because(world).values()) == {None}


def test_a_helper_that_a_release_ships_otherwise_is_its_doing_behind_a_formula_of_ones_own_too(world):
    with of_version(VERSION):
        world.own(
            "metrics/mine.sql", MINE.replace("n_hits as mine", "rounded(cast(n_hits as double)) as mine")
        )
        world.compute(everything=True)
    later = released(world, "functions/rounded.sql", ROUNDED_OTHERWISE)
    assert because(later)["metrics.mine"] == BECAUSE
    later.own(
        "metrics/mine.sql", MINE.replace("n_hits as mine", "rounded(cast(n_hits + 1 as double)) as mine")
    )
    assert because(later)["metrics.mine"] is None


def test_a_release_is_known_behind_parameters_that_were_set_all_along(world):
    (world.folder / "eval-pipeline.toml").write_text(PARAMETERS)
    with of_version(VERSION):
        world.compute(everything=True)
    later = with_another_rank(world)
    assert because(later)[RANK] == BECAUSE


def test_corrected_labels_are_no_upgrade(world):
    rows = json.loads(json.dumps(world.datasets["alpha"]))
    rows[0]["expected_chunk_ids"] = ["x0"]
    world.write_golden("alpha", rows)
    world.deliver()
    assert set(because(world).values()) == {None}


def test_what_the_later_version_computed_itself_is_not_stale_because_of_it(world):
    later = with_another_rank(world)
    later.compute(everything=True)
    assert later.plan() == {}
    other = released(later, "metrics/reciprocal_rank.sql", ("cast(2 as double)", "cast(3 as double)"))
    assert because(other)[RANK] is None


def test_reasons_without_the_upgrade_leave_its_cells_and_compute_the_rest(world):
    later = with_another_rank(world)
    later.own("metrics/mine.sql", MINE)
    done = measure(
        project_of(later.settings, later.registry, now=later.tomorrow()),
        reasons=DATA_REASONS | DEFINITION_REASONS,
    )
    assert done.cells == {"metrics.mine": 5, "aggregates.run_metrics": 5}
    assert later.plan() == {RANK: {"formula": 5}, "aggregates.run_metrics": {"parent": 5}}
    assert later.compute(everything=True).cells == {RANK: 5, "aggregates.run_metrics": 5}


NEW = "metrics.mine"
NEWS = {"name": NEW, "runs": 5}


def with_a_new_formula(world):
    return released(world, "metrics/mine.sql", ("", MINE))


def document(world, **selection):
    return find_plan(project_of(world.settings, world.registry), select_cells(world.registry, **selection))


def computed_for(world, name=NEW):
    sql = "select distinct run_id from ledger.cells join raw.runs using (run_key) where ? in (definition, source)"
    return sorted(run_id for (run_id,) in ask(world.settings, sql, name))


def another_run(world, run_id="alpha-4"):
    world.write_run(run_id, "alpha", {"q0": ["a0"]})
    world.deliver()


def test_a_new_shipped_formula_is_offered_for_older_runs_and_due_for_none_of_them(world):
    later = with_a_new_formula(world)
    for _ in range(2):
        plan = document(later)
        assert (later.plan(), plan["offered"]) == ({}, [NEWS])
        assert list(plan)[-3:] == ["offered", "usd", "judged_runs"]
        tables = [
            one
            for one in find_status(project_of(later.settings, later.registry))["assets"]
            if one["name"] != PAIRS
        ]
        assert {(one["stale"], one["missing"]) for one in tables} == {(0, 0)}
        assert later.compute(everything=True).cells == {}


def test_it_is_computed_for_new_runs(world):
    later = with_a_new_formula(world)
    another_run(later)
    assert later.compute().cells[NEW] == 1
    assert computed_for(later) == ["alpha-4"]
    another_run(later, "alpha-5")
    assert document(later)["offered"] == [NEWS]
    assert later.plan()[NEW] == {"missing": 1}


def test_it_is_computed_for_a_run_that_an_older_version_took_in_and_did_not_compute(world):
    with of_version(VERSION):
        another_run(world)
    later = with_a_new_formula(world)
    assert later.plan()[NEW] == {"missing": 1}
    later.compute(definitions={"facts.outcomes"})
    assert later.plan()[NEW] == {"missing": 1}


@pytest.mark.slow
def test_by_its_name_it_is_planned_and_computed_for_every_run(world):
    later = with_a_new_formula(world)
    assert document(later, only=["mine"], runs=["alpha-1"])["assets"][0]["reasons"] == {"missing": 1}
    with shipping(later.shipped):
        named = call(["plan", "--db", str(later.settings.db)], later.folder)[1]
        assert "`eval-pipeline apply --only metrics.mine`" in " ".join(named.split())
        code, said, _ = call(
            ["apply", "--only", NEW, "--runs", "alpha-1", "--db", str(later.settings.db)], later.folder
        )
        assert (code, "Computed 2 cells of 1 run." in said) == (0, True), said
        assert computed_for(later) == ["alpha-1"]
        call(["apply", "--only", "mine", "--db", str(later.settings.db)], later.folder)
    assert len(computed_for(later)) == 5
    assert document(later)["offered"] == []


@pytest.mark.slow
def test_applying_an_upgrade_leaves_what_is_new_to_be_asked_for(world):
    later = with_a_new_formula(with_another_rank(world))
    with shipping(later.shipped):
        code, said, _ = call(["apply", "--db", str(later.settings.db)], later.folder)
    assert code == 0, said
    assert computed_for(later) == []
    assert document(later)["offered"] == [NEWS]
    assert later.plan() == {}


def test_a_new_fact_is_computed_where_a_formula_that_reads_it_is(world):
    later = released(world, "facts/mine.sql", ("", NOTED))
    later = released(
        later,
        "metrics/reciprocal_rank.sql",
        ("from facts.chunk_ranks", "from facts.chunk_ranks semi join facts.mine using (run_key, query_key)"),
    )
    assert later.plan()["facts.mine"] == {"missing": 5}
    assert document(later)["offered"] == []
    assert "mrr" in find_preview(project_of(later.settings, later.registry))["preview"]
    assert later.compute(everything=True).cells["facts.mine"] == 5
    assert later.plan() == {}


def test_a_formula_of_ones_own_is_due_for_history_in_every_version(world):
    another_run(world)
    world.compute()
    world.own("metrics/mine.sql", MINE)
    assert world.plan()[NEW] == {"missing": 6}


def test_the_same_version_finds_a_shipped_formula_due_that_was_added_to_it(world):
    with of_version(VERSION):
        assert with_a_new_formula(world).plan()[NEW] == {"missing": 5}


def test_pairs_of_runs_do_not_wait_for_what_is_only_offered(world):
    with of_version(VERSION):
        pairs = [(one.run_a, one.run_b) for one in find(world)]
        store_comparisons(project_of(world.settings, world.registry, now=world.tomorrow()), pairs)
    assert pairs
    assert {one.reason for one in find(world)} == {None}
    assert {one.reason for one in find(with_a_new_formula(world))} == {None}


def find(world):
    with open_reader(world.settings.db) as con:
        return find_pairs(store_with(con, world.registry))
