"""A store that was computed elsewhere is shown in Dagster as it is: computed, by partition, and up to date or not."""

from __future__ import annotations

import datetime as dt

import dagster as dg
import pytest
from dagster._core.definitions.data_version import CachingStaleStatusResolver
from dagster._core.loader import LoadingContextForTest

from eval_pipeline.defs.location import build_definitions
from eval_pipeline.defs.sources import RAW_PARTS
from eval_pipeline.defs.telling.existing import SHOW_EXISTING, show_existing
from eval_pipeline.formulas.registry import load_registry
from eval_pipeline.launch import open_instance, run_in_dagster, show_what_was_computed
from tests.projects import project_of

from .deliveries import CHANGED, change_a_formula, copied

pytestmark = pytest.mark.usefixtures("few_definitions")
RANK = dg.AssetKey(["metrics", "reciprocal_rank"])
RUN_METRICS = dg.AssetKey(["aggregates", "run_metrics"])
RUNS = ["r1", "r2", "r3"]


@pytest.fixture
def computed(three_computed, tmp_path):
    return copied(three_computed, tmp_path)


def shown(settings, instance, *, newest=None):
    with project_of(settings, load_registry(settings)).read() as store:
        return show_existing(instance, store, settings, newest=newest)


def events_of(instance, key):
    found = instance.fetch_materializations(key, limit=100).records
    return {one.partition_key: one for one in found}


def test_every_cell_is_shown_at_the_time_when_it_was_computed_and_the_newest_run_is_the_latest(
    computed, instance
):
    assert shown(computed, instance) > 3 * 4
    for key in (RANK, RUN_METRICS, *(part.key for part in RAW_PARTS)):
        assert instance.get_materialized_partitions(key) == set(RUNS)
    found = events_of(instance, RUN_METRICS)
    assert instance.get_latest_materialization_event(RUN_METRICS).asset_materialization.partition == "r3"
    times = [found[run_id].timestamp for run_id in RUNS]
    assert times == sorted(set(times)) and times[-1] - times[0] < 60
    metadata = found["r2"].asset_materialization.metadata
    assert metadata["mrr"].value == 0.75
    assert metadata["why this partition ran"].value.startswith("it did not")
    assert shown(computed, instance) == 0


def stale_marks(settings, instance, key):
    graph = build_definitions(project_of(settings)).resolve_asset_graph()
    resolver = CachingStaleStatusResolver(instance, graph, LoadingContextForTest(instance))
    return [resolver.get_status(key, run_id).value for run_id in RUNS]


def test_what_is_shown_and_up_to_date_is_fresh_to_dagster_and_stale_once_its_formula_changed(
    computed, instance
):
    shown(computed, instance)
    for key in (RANK, RUN_METRICS):
        assert stale_marks(computed, instance, key) == ["FRESH"] * 3
    change_a_formula(computed)
    assert stale_marks(computed, instance, RANK) == ["STALE"] * 3


def test_a_home_of_files_keeps_the_times_at_which_cells_were_computed(computed):
    with open_instance(computed) as instance:
        shown(computed, instance)
        found = events_of(instance, RANK)
    with project_of(computed).read() as store:
        rows = store.con.execute(
            "select r.run_id, c.computed_at from ledger.cells c join raw.runs r using (run_key) where c.definition = ?",
            ["metrics.reciprocal_rank"],
        ).fetchall()
    expected = {run_id: at.replace(tzinfo=dt.UTC).timestamp() for run_id, at in rows}
    assert expected.keys() == set(RUNS)
    # Cells of one computation carry one time: then each has a millisecond more than the one before.
    assert {one: found[one].timestamp for one in RUNS} == pytest.approx(expected, abs=0.01)


def test_the_newest_runs_are_shown_at_once_and_the_rest_on_demand(computed, instance):
    shown(computed, instance, newest=2)
    assert instance.get_materialized_partitions(RANK) == {"r2", "r3"}
    job = build_definitions(project_of(computed)).resolve_job_def(SHOW_EXISTING)
    assert job.execute_in_process(instance=instance).success
    assert instance.get_materialized_partitions(RANK) == set(RUNS)


def test_what_was_made_by_another_version_of_a_formula_is_shown_as_made_by_that(computed, instance):
    before = load_registry(computed).definitions[CHANGED].fingerprint
    change_a_formula(computed)
    shown(computed, instance)
    tags = events_of(instance, RANK)["r1"].asset_materialization.tags
    assert tags["dagster/code_version"] == before != load_registry(computed).definitions[CHANGED].fingerprint


def answer(settings, table):
    key = dg.AssetCheckKey(dg.AssetKey(table.split(".")), "up_to_date")
    with open_instance(settings) as instance:
        history = instance.event_log_storage.get_asset_check_execution_history(key, limit=20)
    return [one.event.dagster_event.event_specific_data.passed for one in history]


def test_ui_and_commands_answer_whether_tables_are_up_to_date_each_time_the_answer_is_another(computed):
    show_what_was_computed(project_of(computed))
    assert (answer(computed, CHANGED), answer(computed, "metrics.hit_at_k")) == ([True], [True])
    change_a_formula(computed)
    show_what_was_computed(project_of(computed))
    run_in_dagster(project_of(computed), reasons=("missing",))
    assert (answer(computed, CHANGED), answer(computed, "metrics.hit_at_k")) == ([False, True], [True])
    run_in_dagster(project_of(computed), reasons=None)
    assert answer(computed, CHANGED) == [True, False, True]
