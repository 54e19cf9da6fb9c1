from __future__ import annotations

import json
import shutil
from dataclasses import replace

import dagster as dg
import pytest

from eval_pipeline.config import Config, load_config
from eval_pipeline.defs.jobs import make_jobs
from eval_pipeline.defs.launches import MOST_ATTEMPTS, plan_launches
from eval_pipeline.defs.partitions import registered_runs
from eval_pipeline.defs.resources import StoreResource
from eval_pipeline.defs.schedule import nightly
from eval_pipeline.defs.sensors import new_comparisons, new_runs, stale_metrics
from eval_pipeline.defs.tags import HIDDEN_ONLY_STALE, HIDDEN_REASONS, LAUNCH
from eval_pipeline.errors import InvalidConfig
from eval_pipeline.loading.inbox import look_into, take_in_runs, take_in_sources
from eval_pipeline.report.pages.writing import publish_pages
from eval_pipeline.settings import load_settings
from tests.projects import project_of

from .deliveries import (
    CHANGED,
    GOLDEN,
    change_a_formula,
    compute,
    copied,
    deliver_golden,
    deliver_run,
    make_settings,
)
from .ticks import NAMES, Watch, assets, ranges, record

pytestmark = pytest.mark.usefixtures("few_definitions")


@pytest.fixture
def inbox_watch(instance, store):
    return Watch(new_runs(make_jobs(), NAMES), instance, store)


@pytest.fixture
def stale_watch(instance, store):
    return Watch(stale_metrics(make_jobs(), NAMES), instance, store)


@pytest.fixture(scope="module")
def golden_taken_in(tmp_path_factory, few_definitions):
    settings = make_settings(tmp_path_factory.mktemp("golden"))
    deliver_golden(settings.inbox)
    take_in_sources(project_of(settings))
    return settings


@pytest.fixture
def golden_inbox(golden_taken_in, settings):
    """An inbox whose golden set was taken in."""
    copied(golden_taken_in, settings.db.parent)
    return settings.inbox


def take_in(settings, instance, requests):
    """Carry requests out past Dagster, and leave their records."""
    for request in requests:
        record(instance, request)
    take_in_sources(project_of(settings))
    take_in_runs(project_of(settings), set(look_into(settings.inbox).runs))


def take_in_and_compute(settings, instance, requests):
    take_in(settings, instance, requests)
    compute(settings)


@pytest.mark.parametrize("name", ["EVAL_PIPELINE_CONFIG", "EVAL_PIPELINE_SQL"])
def test_a_sensor_launches_nothing_while_the_settings_name_what_is_not_there_and_says_so(
    three_loaded, tmp_path, instance, name
):
    place = tmp_path / "late" / "mount"
    copied(three_loaded, tmp_path)
    named = load_settings({name: str(place), "EVAL_PIPELINE_DB": str(tmp_path / "eval.duckdb")})
    settings = replace(named, inbox=tmp_path / "inbox", dagster_home=tmp_path / "dagster_home")
    store, jobs = StoreResource.of(settings), make_jobs()
    sensors = (new_runs(jobs, NAMES), stale_metrics(jobs, NAMES), new_comparisons(jobs))
    for sensor in sensors:
        requests, reason = Watch(sensor, instance, store).tick()
        assert not requests
        assert f"nothing is launched: {name} names {place}" in reason
    with dg.DagsterInstance.local_temp(str(tmp_path)) as local:
        context = dg.build_schedule_context(instance=local, resources={"store": store})
        assert str(place) in nightly(jobs, NAMES, Config())(context).skip_message
    if name == "EVAL_PIPELINE_CONFIG":
        place.parent.mkdir()
        place.touch()
    else:
        place.mkdir(parents=True)
    requests, _ = Watch(new_runs(jobs, NAMES), instance, store).tick()
    assert ranges(requests) == [("r1", "r3")]


def test_a_missing_inbox_is_said_in_every_tick(three_computed, settings, instance, store):
    copied(three_computed, settings.db.parent)
    shutil.rmtree(settings.inbox, ignore_errors=True)
    watch = Watch(new_runs(make_jobs(), NAMES), instance, store)
    for _ in range(2):
        requests, reason = watch.tick()
        assert not requests
        assert reason.endswith(f"there is no inbox at {settings.inbox}")


def test_no_inbox_and_no_store_are_nothing_to_do(inbox_watch, settings):
    assert inbox_watch.tick() == ([], f"{settings.inbox} (the inbox) is not there and there is no store yet")
    assert not settings.db.exists()


def test_an_empty_inbox_and_no_store_are_nothing_to_do(inbox_watch, settings):
    settings.inbox.mkdir()
    requests, reason = inbox_watch.tick()
    assert not requests
    assert "empty" in reason
    assert not settings.db.exists()


def test_sources_go_first_and_the_runs_follow_in_one_range_in_run_order(inbox_watch, settings, instance):
    deliver_golden(settings.inbox)
    deliver_run(settings.inbox, "b-late", day=3)
    deliver_run(settings.inbox, "c-early", day=1)
    deliver_run(settings.inbox, "a-middle", day=2)
    sources, _ = inbox_watch.tick()
    assert [(request.job_name, request.partition_key) for request in sources] == [("new_golden_sets", "kb")]
    assert registered_runs(instance) == ["c-early", "a-middle", "b-late"]
    record(instance, sources[0])
    take_in_sources(project_of(settings))
    requests, _ = inbox_watch.tick()
    assert ranges(requests) == [("c-early", "b-late")]
    assert requests[0].job_name == "nightly_evaluation"
    assert {"raw.results", "metrics.hit_at_k", "aggregates.run_metrics"} <= assets(requests[0])
    assert requests[0].tags[HIDDEN_ONLY_STALE] == "true"
    assert requests[0].tags[HIDDEN_REASONS] == "missing,results"


def test_a_folder_without_run_json_is_not_looked_at(inbox_watch, golden_inbox, instance):
    deliver_run(golden_inbox, "unfinished", complete=False)
    requests, _ = inbox_watch.tick()
    assert not requests
    assert registered_runs(instance) == []


def test_what_was_launched_and_computed_is_not_launched_again(inbox_watch, golden_inbox, settings, instance):
    deliver_run(golden_inbox, "r1")
    first, _ = inbox_watch.tick()
    assert len(first) == 1
    take_in_and_compute(settings, instance, first)
    assert inbox_watch.tick() == ([], "everything delivered is computed")
    assert inbox_watch.tick() == ([], "nothing has changed since the last look")


def test_a_second_tick_before_the_run_has_started_asks_under_the_same_key(
    inbox_watch, three_loaded, settings
):
    copied(three_loaded, settings.db.parent)
    first, _ = inbox_watch.tick()
    second, _ = inbox_watch.tick()
    assert [request.run_key for request in first] == [request.run_key for request in second]


def test_nothing_is_launched_while_a_run_is_under_way(inbox_watch, three_loaded, settings, instance):
    copied(three_loaded, settings.db.parent)
    (request,), _ = inbox_watch.tick()
    record(instance, request, dg.DagsterRunStatus.STARTED)
    deliver_run(settings.inbox, "r4", day=4)
    assert inbox_watch.tick() == ([], "1 runs are under way")


def test_a_redelivery_is_launched_again_and_only_that_run(inbox_watch, golden_inbox, settings, instance):
    for day in (1, 2, 3):
        deliver_run(golden_inbox, f"r{day}", day=day)
    take_in_and_compute(settings, instance, inbox_watch.tick()[0])
    assert inbox_watch.tick()[0] == []
    deliver_run(golden_inbox, "r2", day=2, hits={"q1": ["x"], "q2": ["b"]})
    requests, _ = inbox_watch.tick()
    assert ranges(requests) == [("r2", "r2")]


def test_the_same_bytes_delivered_again_launch_nothing(inbox_watch, golden_inbox, settings, instance):
    folder = deliver_run(golden_inbox, "r1")
    take_in_and_compute(settings, instance, inbox_watch.tick()[0])
    assert inbox_watch.tick()[0] == []
    content = (folder / "results.jsonl").read_bytes()
    shutil.rmtree(folder)
    deliver_run(golden_inbox, "r1")
    (folder / "results.jsonl").write_bytes(content)
    assert inbox_watch.tick() == ([], "everything delivered is computed")


def test_runs_that_the_command_line_loaded_are_picked_up(inbox_watch, three_loaded, settings):
    copied(three_loaded, settings.db.parent)
    requests, _ = inbox_watch.tick()
    assert ranges(requests) == [("r1", "r3")]


def test_an_older_run_that_comes_late_takes_its_place_in_the_order(
    inbox_watch, three_computed, settings, instance
):
    copied(three_computed, settings.db.parent)
    inbox_watch.tick()
    deliver_run(settings.inbox, "r0", day=1)
    (settings.inbox / "runs/r0/run.json").write_text(
        json.dumps({"run_id": "r0", "dataset": "kb", "created_at": "2026-08-01T00:00:00Z"})
    )
    requests, _ = inbox_watch.tick()
    assert registered_runs(instance) == ["r0", "r1", "r2", "r3"]
    assert ranges(requests) == [("r0", "r0")]


def test_a_changed_golden_set_is_taken_in_and_shows_what_changed(inbox_watch, settings, instance):
    deliver_golden(settings.inbox)
    deliver_run(settings.inbox, "r1")
    take_in(settings, instance, inbox_watch.tick()[0])
    take_in_and_compute(settings, instance, inbox_watch.tick()[0])
    changed = [{**GOLDEN[0], "expected_chunk_ids": ["z"]}, GOLDEN[1], {"query_id": "q3", "query": "three?"}]
    deliver_golden(settings.inbox, changed)
    requests, _ = inbox_watch.tick()
    assert [request.partition_key for request in requests] == ["kb"]
    take_in(settings, instance, requests)
    inbox_watch.tick()
    records = instance.fetch_materializations(dg.AssetKey(["sources", "golden_sets"]), limit=5).records
    assert len(records) == 2
    metadata = records[0].asset_materialization.metadata
    assert [metadata[name].value for name in ("rows", "added", "removed", "changed")] == [3, 1, 0, 1]


def test_broken_input_is_tried_once_and_not_forever(inbox_watch, golden_inbox, settings, instance):
    folder = deliver_run(golden_inbox, "r1")
    (folder / "results.jsonl").write_text('{"query_id": "q1"')
    requests, _ = inbox_watch.tick()
    assert ranges(requests) == [("r1", "r1")]
    take_in(settings, instance, requests)
    assert inbox_watch.tick()[0] == []
    deliver_run(golden_inbox, "r1")
    assert ranges(inbox_watch.tick()[0]) == [("r1", "r1")]


def test_work_that_keeps_failing_is_given_up(inbox_watch, three_loaded, settings, instance):
    copied(three_loaded, settings.db.parent)
    keys = []
    for _ in range(MOST_ATTEMPTS):
        (request,), _ = inbox_watch.tick()
        keys.append(request.run_key)
        record(instance, request, dg.DagsterRunStatus.FAILURE)
    assert len(set(keys)) == MOST_ATTEMPTS
    assert inbox_watch.tick()[0] == []


def test_a_stale_formula_is_launched_for_exactly_its_tables_and_runs(
    stale_watch, three_computed, settings, instance
):
    copied(three_computed, settings.db.parent)
    assert stale_watch.tick()[0] == []
    change_a_formula(settings)
    (request,), _ = stale_watch.tick()
    assert assets(request) == {CHANGED, "aggregates.run_metrics"}
    assert ranges([request]) == [("r1", "r3")]
    assert request.job_name == "recompute_stale"
    record(instance, request)
    assert stale_watch.tick()[0] == []


def test_a_formula_that_changes_back_and_forth_is_launched_each_time(
    stale_watch, three_computed, settings, instance
):
    copied(three_computed, settings.db.parent)
    keys = set()
    for cutoff in (2, 3, 2):
        change_a_formula(settings, cutoff)
        (request,), _ = stale_watch.tick()
        keys.add(request.tags[LAUNCH])
        record(instance, request)
        compute(settings)
    assert len(keys) == 3


def test_runs_far_apart_are_launched_apart_and_near_ones_together():
    order = [f"r{number:03}" for number in range(1, 201)]
    wanted = dict.fromkeys(("r001", "r003", "r200"), frozenset({"facts.chunk_ranks"}))
    words = dict.fromkeys(wanted, "some")
    launches = plan_launches(wanted, order, states=words, why=words)
    assert [(one.first, one.last) for one in launches] == [("r001", "r003"), ("r200", "r200")]


def test_a_few_new_runs_do_not_drag_all_tables_over_the_old_ones():
    order = [f"r{number:03}" for number in range(1, 301)]
    everything = frozenset(f"metrics.m{number}" for number in range(40))
    wanted = dict.fromkeys(order, frozenset({"metrics.m1"})) | dict.fromkeys(order[-3:], everything)
    words = dict.fromkeys(wanted, "some")
    launches = plan_launches(wanted, order, states=words, why=words)
    assert [(one.first, one.last, len(one.assets)) for one in launches] == [
        ("r001", "r297", 1),
        ("r298", "r300", 40),
    ]


def test_the_nightly_schedule_takes_sources_in_and_launches_what_arrived(settings, store, tmp_path):
    deliver_golden(settings.inbox)
    deliver_run(settings.inbox, "r1", day=1)
    deliver_run(settings.inbox, "r2", day=2)
    schedule = nightly(make_jobs(), NAMES, Config())
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:

        def tick():
            return schedule(dg.build_schedule_context(instance=instance, resources={"store": store}))

        (request,) = tick()
        assert ranges([request]) == [("r1", "r2")]
        take_in(settings, instance, [dg.RunRequest(job_name="nightly_evaluation", tags=request.tags)])
        compute(settings)
        # What is computed ends in pages; once these are written nothing is left to do.
        (ending,) = tick()
        assert ending.job_name == "publish_pages"
        publish_pages(project_of(settings))
        assert tick().skip_message == "everything delivered is computed"


@pytest.mark.parametrize(
    ("entries", "cron", "zone"),
    [
        ("", "0 2 * * *", "UTC"),
        ('nightly = "05:30"', "30 5 * * *", "UTC"),
        ('nightly = "30 1 * * 1-5"\ntimezone = "Europe/Berlin"', "30 1 * * 1-5", "Europe/Berlin"),
    ],
)
def test_the_hour_of_the_nightly_schedule_stands_in_the_configuration(tmp_path, entries, cron, zone):
    path = tmp_path / "eval-pipeline.toml"
    path.write_text(f"[dagster]\n{entries}\n")
    schedule = nightly(make_jobs(), NAMES, load_config(path))
    assert (schedule.cron_schedule, schedule.execution_timezone) == (cron, zone)


def test_an_hour_that_never_comes_is_refused_in_the_words_of_the_configuration(tmp_path):
    path = tmp_path / "eval-pipeline.toml"
    path.write_text('[dagster]\nnightly = "61 2 * * *"\n')
    with pytest.raises(InvalidConfig, match=r"nightly is '61 2 \* \* \*'"):
        nightly(make_jobs(), NAMES, load_config(path))
