"""A run of Dagster shows exactly the partitions that it computed, each with its own reason and rows."""

from __future__ import annotations

import shutil

import dagster as dg
import pytest

from eval_pipeline.computing.measure import measure
from eval_pipeline.defs.event_log import open_home
from eval_pipeline.defs.jobs import make_jobs
from eval_pipeline.defs.location import build_definitions
from eval_pipeline.defs.resources import StoreResource
from eval_pipeline.defs.sensors import stale_metrics
from eval_pipeline.defs.tags import RANGE_END, RANGE_START
from eval_pipeline.launch import open_instance, run_in_dagster
from tests.projects import open_reader, project_of

from .deliveries import (
    change_a_formula,
    compute,
    copied,
    deliver_golden,
    deliver_run,
    load,
    make_settings,
)
from .ticks import NAMES, Watch, assets, ranges

pytestmark = pytest.mark.usefixtures("few_definitions")
RUNS = [f"r{number:02}" for number in range(1, 12)]
# Applied before, and no neighbours.
FRESH = {"r03", "r06", "r09"}
# Its results came again after the formula had changed, so it is stale for another reason than the others.
AGAIN = "r07"


@pytest.fixture(scope="module")
def eleven(tmp_path_factory, new_home, few_definitions):
    """Eleven computed runs; since then a formula changed and was applied to three of them, and one came again."""
    settings = make_settings(tmp_path_factory.mktemp("eleven"))
    shutil.copytree(new_home, settings.dagster_home)
    root = settings.db.parent / "bundle"
    deliver_golden(root)
    for day, run_id in enumerate(RUNS, start=1):
        deliver_run(root, run_id, day=day)
    load(settings, root)
    run_in_dagster(project_of(settings), reasons=None)
    change_a_formula(settings)
    measure(project_of(settings), reasons=None, run_ids=FRESH)
    load(settings, deliver_run(root, AGAIN, day=7, hits={"q1": ["a"]}))
    return settings


@pytest.fixture
def settings(eleven, tmp_path):
    return copied(eleven, tmp_path)


def shown_by(settings, dagster_run_ids):
    """(table, run) → its metadata."""
    found = {}
    with open_home(settings.dagster_home) as instance:
        for run_id in dagster_run_ids:
            for record in instance.all_logs(run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION):
                event = record.dagster_event.step_materialization_data.materialization
                place = (".".join(event.asset_key.path), event.partition)
                assert place not in found
                found[place] = {name: one.value for name, one in event.metadata.items()}
    return found


def computed_by(settings, dagster_run_ids):
    """(table, run) → its reasons and rows, as the ledger has them."""
    with open_reader(settings.db) as con:
        rows = con.execute(
            "select c.definition, r.run_id, list(distinct c.reason), sum(c.n_rows) from ledger.cells c "
            "join raw.runs r using (run_key) where c.dagster_run_id in (select unnest(?)) group by all",
            [dagster_run_ids],
        ).fetchall()
    return {(definition, run_id): (set(reasons), rows) for definition, run_id, reasons, rows in rows}


def assert_shown_as_computed(settings, dagster_run_ids):
    shown, computed = shown_by(settings, dagster_run_ids), computed_by(settings, dagster_run_ids)
    tables = {place: told for place, told in shown.items() if not place[0].startswith("raw.")}
    assert tables.keys() == computed.keys()
    assert {run_id for _, run_id in computed} == set(RUNS) - FRESH
    words = {"formula": "its formula changed", "parent": "something it reads changed"}
    for place, (reasons, _) in computed.items():
        wanted = {words.get(reason, "results delivered anew") for reason in reasons}
        assert tables[place]["why this partition ran"] in wanted
    # All rows of the run's aggregates, of which those of the changed formula were computed.
    for place in (one for one in tables if one[0] == "aggregates.run_metrics"):
        assert tables[place]["rows"] >= int(computed[place][1]) > 0
    assert {place for place in shown if place[0].startswith("raw.")} == {("raw.results", AGAIN)}


def test_a_command_shows_what_it_computed_and_nothing_of_the_runs_between(settings):
    found = run_in_dagster(project_of(settings), reasons=None)
    assert_shown_as_computed(settings, list(found.dagster_run_ids))
    with open_home(settings.dagster_home) as instance:
        checked = {
            record.dagster_event.event_specific_data.check_name
            for run_id in found.dagster_run_ids
            for record in instance.all_logs(run_id, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION)
        }
    assert {"values_in_range", "every_query_scored_or_listed"} <= checked
    assert "up_to_date" not in checked


def test_the_newest_run_is_the_latest_and_each_has_a_millisecond_of_its_own(settings):
    run_in_dagster(project_of(settings), reasons=None, run_ids=set(RUNS) - FRESH)
    for name in (("metrics", "reciprocal_rank"), ("aggregates", "run_metrics")):
        with open_home(settings.dagster_home) as instance:
            records = instance.fetch_materializations(dg.AssetKey(name), limit=8).records
            latest = instance.get_latest_materialization_event(dg.AssetKey(name))
        times = [int(one.timestamp * 1000) for one in records]
        assert times == sorted(set(times), reverse=True)
        assert [one.partition_key for one in records] == sorted(set(RUNS) - FRESH, reverse=True)
        assert latest.asset_materialization.partition == RUNS[-1]


def test_where_dagsters_own_names_have_moved_the_public_way_shows_the_range(settings, monkeypatch):
    moved = "dagster._core.definitions.source_asset.SYSTEM_METADATA_KEY_SOURCE_ASSET_OBSERVATION"
    monkeypatch.delattr(moved)
    found = run_in_dagster(project_of(settings), reasons=None)
    shown = shown_by(settings, found.dagster_run_ids)
    told = shown["metrics.reciprocal_rank", "r01"]
    assert told == {"why this partition ran": "its formula changed"}
    assert {run_id for name, run_id in shown if name == "metrics.reciprocal_rank"} == set(RUNS)


def test_what_the_sensor_launches_shows_what_was_computed_and_nothing_of_the_runs_between(settings):
    run_in_dagster(project_of(settings), reasons=("results",), run_ids=[AGAIN])
    with open_home(settings.dagster_home) as instance:
        requests, _ = Watch(stale_metrics(make_jobs(), NAMES), instance, StoreResource.of(settings)).tick()
        (request,) = requests
        assert ranges(requests) == [(RUNS[0], RUNS[-1])]
        assert assets(request) == {"metrics.reciprocal_rank", "aggregates.run_metrics"}
        result = (
            build_definitions(project_of(settings))
            .resolve_job_def(request.job_name)
            .execute_in_process(
                instance=instance,
                asset_selection=request.asset_selection,
                tags=dict(request.tags),
                run_config=request.run_config,
            )
        )
        shown, computed = shown_by(settings, [result.run_id]), computed_by(settings, [result.run_id])
        assert shown.keys() == computed.keys()
        assert {run_id for _, run_id in computed} == set(RUNS) - FRESH - {AGAIN}
        status = instance.get_status_by_partition(
            dg.AssetKey(["metrics", "reciprocal_rank"]), RUNS, dg.DynamicPartitionsDefinition(name="eval_run")
        )
    assert {str(one.value) for one in status.values()} == {"MATERIALIZED"}


def test_a_backfill_is_answered_for_every_partition_that_it_waits_for(settings, capfd):
    compute(settings)
    with open_home(settings.dagster_home) as instance:
        key = dg.AssetKey(["metrics", "reciprocal_rank"])
        tags = {
            RANGE_START: "r01",
            RANGE_END: "r03",
            "dagster/backfill": "some",
            "eval_pipeline/only_stale": "true",
        }
        result = (
            build_definitions(project_of(settings))
            .resolve_implicit_global_asset_job_def()
            .execute_in_process(instance=instance, asset_selection=[key], tags=tags)
        )
    assert capfd.readouterr() == ("", "")
    shown = shown_by(settings, [result.run_id])
    assert {run_id for _, run_id in shown} == {"r01", "r02", "r03"}
    assert {told["why this partition ran"] for told in shown.values()} == {
        "asked for, and there was nothing to compute"
    }


def launched(settings, config, *, tags=None):
    """What a run of the launchpad with this configuration computed and shows, table and run."""
    asked = {"ops": {"tables": {"config": config}}}
    with open_home(settings.dagster_home) as instance:
        result = (
            build_definitions(project_of(settings))
            .resolve_job_def("recompute_stale")
            .execute_in_process(
                instance=instance,
                asset_selection=[dg.AssetKey(["metrics", "reciprocal_rank"])],
                tags={RANGE_START: "r01", RANGE_END: "r03", **(tags or {})},
                run_config=asked,
            )
        )
    computed, shown = computed_by(settings, [result.run_id]), shown_by(settings, [result.run_id])
    assert computed.keys() == shown.keys()
    return {run_id for _, run_id in computed}


def test_the_launchpad_asks_for_what_is_stale_and_keeps_a_note_beside_what_is_replaced(settings):
    assert launched(settings, {"only_stale": True, "note": "only two are shown"}) == {"r01", "r02"}
    with open_reader(settings.db) as con:
        notes = con.execute("select distinct note from ledger.cells where note is not null").fetchall()
    assert notes == [("only two are shown",)]


def test_the_launchpad_asks_for_one_reason_alone_and_for_everything_where_it_says_nothing(settings):
    assert launched(settings, {"reasons": ["labels"]}) == set()
    assert launched(settings, {"reasons": ["formula"]}) == {"r01", "r02"}
    assert launched(settings, {}) == {"r01", "r02", "r03"}
    assert launched(settings, {}, tags={"eval_pipeline/only_stale": "true"}) == set()


def test_the_tags_of_a_launch_of_its_own_that_nobody_reads_are_hidden(settings):
    found = run_in_dagster(project_of(settings), reasons=None, note="because")
    with open_instance(settings) as instance:
        tags = instance.get_run_by_id(found.dagster_run_ids[0]).tags
    ours = {name for name in tags if name.startswith("eval_pipeline/")}
    assert ours == {"eval_pipeline/why", "eval_pipeline/note", "eval_pipeline/process"}
