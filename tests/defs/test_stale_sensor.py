"""The sensor stale_metrics: exactly what is stale, once, and never against somebody else's choice."""

from __future__ import annotations

import shutil
from dataclasses import replace

import dagster as dg
import pytest

from eval_pipeline.config import load_config
from eval_pipeline.defs import launches, sensors
from eval_pipeline.defs.jobs import make_jobs
from eval_pipeline.defs.location import build_definitions
from eval_pipeline.defs.processes import fail_dead_runs
from eval_pipeline.defs.resources import StoreResource
from eval_pipeline.defs.sensors import stale_metrics
from eval_pipeline.defs.stale_memory import NOTHING_STALE
from eval_pipeline.errors import InvalidConfig
from eval_pipeline.formulas.lock_file import FILE
from eval_pipeline.formulas.registry import load_registry
from eval_pipeline.planning.plan import find_plan, select_cells
from eval_pipeline.settings import utc_now
from tests.few_definitions import shipping
from tests.projects import open_writer, project_of
from tests.versions import of_version

from .deliveries import CHANGED, change_a_formula, compute, copied
from .ticks import NAMES, Watch, assets, ranges, record

pytestmark = pytest.mark.usefixtures("few_definitions")
STALE = {CHANGED, "aggregates.run_metrics"}
NOBODY = "somewhere:1:0"


def watch_of(settings, instance):
    return Watch(stale_metrics(make_jobs(), NAMES), instance, StoreResource.of(settings))


@pytest.fixture
def computed(three_computed, tmp_path):
    """Three runs in one dataset, computed; the second and third are never compared here."""
    return copied(three_computed, tmp_path)


@pytest.fixture
def watch(computed, instance, monkeypatch):
    monkeypatch.setattr(sensors, "comparison_launches", lambda *_: [])
    return watch_of(computed, instance)


def carry_out(settings, instance, requests):
    for request in requests:
        record(instance, request)
    compute(settings)


def test_nothing_is_launched_while_what_is_stale_is_being_computed(watch, computed, instance):
    change_a_formula(computed)
    (request,), _ = watch.tick()
    record(instance, request, dg.DagsterRunStatus.STARTED)
    assert watch.tick() == ([], "1 runs are under way")
    assert watch.tick() == ([], "1 runs are under way")


def test_what_a_dead_run_left_is_launched_once_more_however_often_the_dead_are_looked_for(
    watch, computed, instance, monkeypatch
):
    change_a_formula(computed)
    (request,), _ = watch.tick()
    tagged = replace_tags(request, {"eval_pipeline/process": NOBODY})
    monkeypatch.setattr("socket.gethostname", lambda: "somewhere")
    record(instance, tagged, dg.DagsterRunStatus.STARTED)
    assert len(fail_dead_runs(instance, now=utc_now())) == 1
    assert fail_dead_runs(instance, now=utc_now()) == []
    (again,), _ = watch.tick()
    (and_again,), _ = watch.tick()
    assert again.run_key == and_again.run_key != request.run_key
    assert ranges([again]) == [("r1", "r3")]
    carry_out(computed, instance, [again])
    assert watch.tick() == ([], NOTHING_STALE)


def replace_tags(request, tags):
    return dg.RunRequest(request.run_key, job_name=request.job_name, tags={**request.tags, **tags})


def test_a_tick_launches_no_more_than_its_limit_and_the_next_ones_go_on(
    watch, computed, instance, monkeypatch
):
    monkeypatch.setattr(launches, "RUN_COST", -10_000)
    monkeypatch.setattr(sensors, "LAUNCHES_PER_TICK", 2)
    change_a_formula(computed)
    first, _ = watch.tick()
    assert ranges(first) == [("r1", "r1"), ("r2", "r2")]
    for request in first:
        record(instance, request)
    compute(computed, CHANGED)
    rest, _ = watch.tick()
    assert len(rest) == 2
    carry_out(computed, instance, rest)
    assert watch.tick() == ([], NOTHING_STALE)


def test_two_locations_with_different_definitions_do_not_undo_each_others_work(watch, computed, instance):
    other_settings = replace(computed, config=computed.config.with_name("other.toml"))
    other = watch_of(other_settings, instance)
    assert watch.tick() == ([], NOTHING_STALE)
    change_a_formula(other_settings)
    requests, _ = other.tick()
    assert assets(requests[0]) == STALE
    carry_out(other_settings, instance, requests)
    assert other.tick() == ([], NOTHING_STALE)
    for _ in range(3):
        requests, reason = watch.tick()
        assert requests == []
        assert "6 cells were computed with other definitions" in reason
        assert other.tick()[0] == []
    change_a_formula(computed, 3)
    requests, _ = watch.tick()
    assert assets(requests[0]) == STALE
    carry_out(computed, instance, requests)
    assert watch.tick() == ([], NOTHING_STALE)
    assert "other definitions" in other.tick()[1]


def test_a_change_that_is_taken_back_by_removing_the_file_is_launched(watch, computed, instance):
    change_a_formula(computed)
    carry_out(computed, instance, watch.tick()[0])
    assert watch.tick() == ([], NOTHING_STALE)
    computed.config.unlink()
    (request,), _ = watch.tick()
    assert assets(request) == STALE


def test_after_an_upgrade_the_sensor_only_plans_and_somebody_applies(
    watch, computed, instance, few_files, tmp_path
):
    assert watch.tick() == ([], NOTHING_STALE)
    shipped = tmp_path / "shipped"
    shutil.copytree(few_files, shipped)
    formula = shipped / "metrics" / "reciprocal_rank.sql"
    formula.write_text(formula.read_text("utf-8").replace("cast(1 as double)", "cast(2 as double)"), "utf-8")
    with of_version("9.0.0"), shipping(shipped):
        moved = load_registry(computed).definitions[CHANGED]
        (shipped / FILE).write_text(f"{CHANGED} 1 {moved.written_fingerprint}\n", "utf-8")
        for _ in range(2):
            requests, said = watch.tick()
            assert requests == []
            assert "6 cells are stale because 9.0.0 replaced an earlier version" in said
            assert "eval-pipeline apply" in said
        computed.config.write_text("[formulas.hit_at_k]\nks = [1]\n")
        (request,), _ = watch.tick()
        assert assets(request) == {"metrics.hit_at_k", "aggregates.run_metrics"}
        assert "upgrade" not in request.tags[".dagster/eval_pipeline.reasons"]
        compute(computed)
        assert watch.tick() == ([], NOTHING_STALE)


def test_told_to_plan_only_the_sensor_says_what_it_would_launch_and_launches_nothing(
    watch, computed, instance
):
    parameters = "[formulas.reciprocal_rank]\ncutoff = 2\n"
    computed.config.write_text(parameters + '[dagster]\nstale_metrics = "plan"\n')
    requests, said = watch.tick()
    assert requests == []
    assert "would compute 6 cells of 3 runs" in said
    assert CHANGED in said
    assert "r1 … r3" in said
    assert watch.tick() == ([], said)
    computed.config.write_text(parameters + '[dagster]\nstale_metrics = "launch"\n')
    (request,), _ = watch.tick()
    assert assets(request) == STALE


@pytest.fixture
def slow_watch(watch, computed):
    """What is computed here took 250 seconds per run and formula when it was."""
    with open_writer(computed.db) as con:
        con.execute("update ledger.cells set seconds = 250 where definition = ?", [CHANGED])
        con.execute("update ledger.cells set seconds = 0 where definition <> ?", [CHANGED])
    return watch


def test_what_would_take_longer_than_the_ceiling_is_only_planned_and_says_how_long(
    slow_watch, computed, instance
):
    change_a_formula(computed)
    for _ in range(2):
        requests, said = slow_watch.tick()
        assert requests == []
        assert "about 750 s, more than [dagster] stale_metrics_most_seconds = 600" in said
        assert "would compute 6 cells of 3 runs" in said
        assert "eval-pipeline plan" in said and "eval-pipeline apply" in said
    text = computed.config.read_text() + "[dagster]\nstale_metrics_most_seconds = 750\n"
    computed.config.write_text(text)
    (request,), _ = slow_watch.tick()
    assert assets(request) == STALE


def test_what_the_sensor_predicts_is_what_the_plan_predicts(slow_watch, computed):
    change_a_formula(computed)
    _, said = slow_watch.tick()
    registry = load_registry(computed)
    plan = find_plan(project_of(computed, registry), select_cells(registry, only=[CHANGED]))
    assert f"about {plan['estimated_seconds']:.1f} s" in said


def test_where_nothing_was_ever_computed_there_is_nothing_to_predict_by_and_it_is_launched(
    three_loaded, tmp_path, instance
):
    settings = copied(three_loaded, tmp_path)
    settings.config.write_text("[dagster]\nstale_metrics_most_seconds = 1\n")
    requests, _ = watch_of(settings, instance).tick()
    assert ranges(requests) == [("r1", "r3")]


def test_a_new_table_is_taken_to_cost_what_the_measured_ones_cost(slow_watch, computed, instance):
    """Of the four tables one took 250 s per run and three nothing; the aggregate's cells of two formulas count apart."""
    with open_writer(computed.db) as con:
        kinds = con.sql("select count(distinct (definition, source)) from ledger.cells").fetchall()[0][0]
        con.execute("delete from ledger.cells where definition = 'metrics.hit_at_k'")
        con.execute("delete from ledger.cells where source = 'metrics.hit_at_k'")
    computed.config.write_text("[dagster]\nstale_metrics_most_seconds = 1\n")
    _, said = slow_watch.tick()
    expected = 2 * 3 * 250 / (kinds - 2)
    assert f"about {expected:,.0f} s" in said


def answers(instance, table):
    """What the check says of the table now, and how often it said something."""
    key = dg.AssetCheckKey(dg.AssetKey(table.split(".")), "up_to_date")
    found = instance.event_log_storage.get_asset_check_execution_history(key, limit=20)
    evaluation = found[0].event.dagster_event.event_specific_data
    return evaluation, len(found)


def test_the_check_up_to_date_says_what_is_stale_how_long_it_takes_and_by_which_command(
    slow_watch, computed, instance
):
    slow_watch.tick()
    assert answers(instance, CHANGED)[0].passed and answers(instance, "metrics.hit_at_k")[0].passed
    change_a_formula(computed)
    slow_watch.tick()
    slow_watch.tick()
    said, times = answers(instance, CHANGED)
    assert (said.passed, said.severity, times) == (False, dg.AssetCheckSeverity.WARN, 2)
    assert said.description == (
        "3 of 3 runs to compute: its formula changed; about 750.0 s: "
        f"`eval-pipeline plan --only {CHANGED}` shows it, `eval-pipeline apply --only {CHANGED}` does it"
    )
    assert answers(instance, "aggregates.run_metrics")[0].description.startswith(
        "3 of 3 runs to compute: something it reads changed"
    )
    assert answers(instance, "metrics.hit_at_k")[1] == 1
    compute(computed)
    slow_watch.tick()
    assert answers(instance, CHANGED)[0].passed


def test_the_check_up_to_date_can_be_asked_by_hand_and_is_in_no_run_of_a_job(computed, instance):
    change_a_formula(computed)
    definitions = build_definitions(project_of(computed))
    keys = {
        dg.AssetCheckKey(dg.AssetKey(name.split(".")), "up_to_date") for name in (CHANGED, "metrics.hit_at_k")
    }
    result = (
        definitions.resolve_implicit_global_asset_job_def()
        .get_subset(asset_check_selection=keys, asset_selection=frozenset())
        .execute_in_process(instance=instance)
    )
    found = {check.asset_key.path[1]: check.passed for check in result.get_asset_check_evaluations()}
    assert found == {"reciprocal_rank": False, "hit_at_k": True}
    (request,), _ = watch_of(computed, instance).tick()
    assert {key.name for key in request.asset_check_keys} == {
        "values_in_range",
        "every_query_scored_or_listed",
    }
    for job in ("nightly_evaluation", "recompute_stale"):
        steps = {node.name for node in definitions.resolve_job_def(job).nodes}
        assert "values_in_range" in steps and "up_to_date" not in steps


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ('stale_metrics = "off"', '"launch"'),
        ("stale_metrics_seconds = 0", "whole number"),
        ("stale_metrics_seconds = true", "whole number"),
        ("stale_metrics_most_seconds = 0", "whole number"),
        ("sensor = 1", "stale_metrics_seconds"),
        ('nightly = "25:00"', "02:00"),
        ("nightly = 2", "02:00"),
        ('timezone = "Mars/Olympus"', "Europe/Berlin"),
        ("fresh_within_hours = 0", "hours above 0"),
        ("fresh_within_hours = nan", "hours above 0"),
        ("fresh_within_hours = true", "hours above 0"),
    ],
)
def test_a_table_for_dagster_that_cannot_be_meant_is_refused(tmp_path, entry, said):
    path = tmp_path / "eval-pipeline.toml"
    path.write_text(f"[dagster]\n{entry}\n")
    with pytest.raises(InvalidConfig, match=said):
        load_config(path)
