from __future__ import annotations

import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import tarfile
import textwrap
import uuid
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import dagster as dg
import pytest
from dagster._core.errors import DagsterExecutionInterruptedError
from dagster._core.storage.local_compute_log_manager import LocalComputeLogManager
from dagster._core.storage.noop_compute_log_manager import NoOpComputeLogManager

from eval_pipeline.computing.ledger import NEW_DATA_REASONS
from eval_pipeline.defs import assets, resources
from eval_pipeline.defs.event_log import open_home
from eval_pipeline.defs.jobs import NIGHTLY_EVALUATION, QUIET
from eval_pipeline.defs.launches import shown_runs
from eval_pipeline.defs.location import build_definitions
from eval_pipeline.defs.partitions import registered_runs
from eval_pipeline.defs.processes import PROCESS_TAG, fail_dead_runs, this_process
from eval_pipeline.defs.sources import RAW_PARTS
from eval_pipeline.errors import StoreBusy, StoreMissing, UsageError
from eval_pipeline.launch import prepare_home, run_in_dagster, ui_environment
from eval_pipeline.serving.servers import serve
from eval_pipeline.settings import load_settings, utc_now
from tests.projects import open_reader, open_writer, project_of

from .deliveries import (
    CHANGED,
    GOLDEN,
    change_a_formula,
    compute,
    copied,
    deliver_golden,
    deliver_run,
    load,
    make_settings,
)

pytestmark = pytest.mark.usefixtures("few_definitions")

ENVIRONMENT = ("DAGSTER_EVENT_BATCH_SIZE", "DAGSTER_EMIT_PARTITION_SUBSET_IN_PLANNED_EVENTS", "DAGSTER_HOME")
STORES = Path(__file__).resolve().parents[1] / "stores"


@pytest.fixture
def project(tmp_path, new_home):
    """Nothing delivered yet."""
    shutil.copytree(new_home, tmp_path / "dagster_home")
    return make_settings(tmp_path)


def loaded(folder, home, *days):
    shutil.copytree(home, folder / "dagster_home")
    deliver_golden(folder / "bundle")
    for day in days:
        deliver_run(folder / "bundle", f"r{day}", day=day)
    settings = make_settings(folder)
    load(settings, folder / "bundle")
    return settings


@pytest.fixture(scope="module")
def one_loaded(tmp_path_factory, new_home, few_definitions):
    return loaded(tmp_path_factory.mktemp("one"), new_home, 1)


@pytest.fixture
def one_run(one_loaded, tmp_path):
    """r1 is loaded and nothing is computed, in a copy of its own."""
    return copied(one_loaded, tmp_path)


@pytest.fixture(scope="module")
def launched(tmp_path_factory, new_home, few_definitions):
    """r2, r3 and r4 as the first launch leaves them, to be looked at."""
    settings = loaded(tmp_path_factory.mktemp("launched"), new_home, 2, 3, 4)
    seen: list[tuple[int, int]] = []
    found = run_in_dagster(
        project_of(settings),
        reasons=NEW_DATA_REASONS,
        progress=lambda done, total: seen.append((done, total)),
    )
    return SimpleNamespace(settings=settings, found=found, progress=seen)


@pytest.fixture
def after_launch(launched, tmp_path):
    """The same in a copy of its own, to be gone on with."""
    return copied(launched.settings, tmp_path)


def latest(instance, name, partition):
    wanted = dg.AssetRecordsFilter(dg.AssetKey(name.split(".")), asset_partitions=[partition])
    (record,) = instance.fetch_materializations(wanted, limit=1).records
    return record


def test_a_launch_computes_what_is_missing_and_leaves_a_run_with_its_events(launched):
    found = launched.found
    assert found.computed.runs == ("r2", "r3", "r4")
    assert found.computed.cells[CHANGED] == 3
    assert found.failed_checks == ()
    with open_home(launched.settings.dagster_home) as instance:
        (run,) = instance.get_runs()
        assert (run.run_id,) == found.dagster_run_ids
        assert (run.job_name, run.status) == ("nightly_evaluation", dg.DagsterRunStatus.SUCCESS)
        assert registered_runs(instance) == ["r2", "r3", "r4"]
        assert shown_runs(instance) == {"r2", "r3", "r4"}
        assert latest(instance, CHANGED, "r2").run_id == run.run_id
        assert latest(instance, "sources.golden_sets", "kb").partition_key == "kb"


def test_a_second_launch_has_nothing_to_do(after_launch):
    found = run_in_dagster(project_of(after_launch), reasons=NEW_DATA_REASONS)
    assert (found.n_cells, found.dagster_run_ids) == (0, ())


def test_only_the_named_runs_are_computed(one_run):
    load(one_run, deliver_run(one_run.db.parent / "bundle", "r2", day=2))
    found = run_in_dagster(
        project_of(one_run), run_ids=["r2"], reasons=NEW_DATA_REASONS, definitions=[CHANGED]
    )
    assert found.computed.runs == ("r2",)


def test_a_stale_formula_is_left_unless_every_reason_counts(after_launch):
    change_a_formula(after_launch)
    assert run_in_dagster(project_of(after_launch), reasons=NEW_DATA_REASONS).n_cells == 0
    found = run_in_dagster(project_of(after_launch), reasons=None)
    assert set(found.computed.cells) == {CHANGED, "aggregates.run_metrics"}


def test_what_was_computed_past_dagster_is_shown_by_nobody_and_computed_again_by_nobody(one_run):
    compute(one_run)
    assert run_in_dagster(project_of(one_run), reasons=NEW_DATA_REASONS).dagster_run_ids == ()


def test_an_older_run_that_is_loaded_later_stands_before_the_others(after_launch, tmp_path):
    load(after_launch, deliver_run(tmp_path / "bundle", "r1", day=1))
    found = run_in_dagster(project_of(after_launch), reasons=NEW_DATA_REASONS)
    assert found.computed.runs == ("r1",)
    with open_home(after_launch.dagster_home) as instance:
        assert registered_runs(instance) == ["r1", "r2", "r3", "r4"]


def test_each_version_of_a_golden_set_is_one_materialization_with_its_hash(after_launch, tmp_path):
    settings = after_launch
    run_in_dagster(project_of(settings), reasons=NEW_DATA_REASONS)
    deliver_golden(tmp_path / "bundle", [GOLDEN[0], {**GOLDEN[1], "tags": ["new"]}])
    load(settings, tmp_path / "bundle")
    run_in_dagster(project_of(settings), reasons=NEW_DATA_REASONS)
    with open_reader(settings.db) as con:
        hashes = [
            row[0]
            for row in con.sql("select content_hash from labels.golden_sets order by golden_key").fetchall()
        ]
    with open_home(settings.dagster_home) as instance:
        records = instance.fetch_materializations(
            dg.AssetKey(["sources", "golden_sets"]), limit=5, ascending=True
        )
        events = [record.asset_materialization for record in records.records]
    assert [event.tags["dagster/data_version"] for event in events] == hashes
    assert [event.metadata["changed"].value for event in events] == [0, 1]


def test_progress_goes_up_to_the_number_of_cells(launched):
    seen = launched.progress
    with open_reader(launched.settings.db) as con:
        cells = con.sql("select count(*) from ledger.cells").fetchall()[0][0]
    assert seen[-1] == (cells, cells)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_a_broken_formula_is_told_after_everything_else_was_computed(one_run, tmp_path):
    settings = one_run
    own = tmp_path / "mine" / "metrics"
    own.mkdir(parents=True)
    (own / "broken_one.sql").write_text(
        '-- keys: {broken: "Reads a column that is not there"}\n'
        "select run_key, query_key, no_such_column as broken from facts.chunk_ranks\n"
    )
    found = run_in_dagster(project_of(replace(settings, own_sql=tmp_path / "mine")), reasons=NEW_DATA_REASONS)
    assert "no_such_column" in found.failed["metrics.broken_one"]
    with open_reader(settings.db) as con:
        assert con.sql(f"select count(*) from {CHANGED}").fetchall() == [(2,)]
    with open_home(settings.dagster_home) as instance:
        (run,) = instance.get_runs()
        assert run.status == dg.DagsterRunStatus.FAILURE


def test_an_interrupt_ends_the_command_and_not_just_one_run(one_run, monkeypatch):
    def interrupt(*_, **__):
        raise DagsterExecutionInterruptedError

    monkeypatch.setattr(assets, "measure", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_in_dagster(project_of(one_run), reasons=NEW_DATA_REASONS)
    with open_home(one_run.dagster_home) as instance:
        (run,) = instance.get_runs()
        assert run.status == dg.DagsterRunStatus.FAILURE


def test_a_failing_check_is_in_the_summary(one_run):
    with open_writer(one_run.db) as con:
        con.execute("delete from raw.results where row_no = 1")
    failed = "\n".join(
        run_in_dagster(project_of(one_run), reasons=NEW_DATA_REASONS, definitions=[CHANGED]).failed_checks
    )
    assert ("raw/results: every_row_accounted_for: r1: 2 results were delivered") in failed


def test_nothing_is_said_on_the_terminal_and_the_environment_stays_as_it_was(one_run, capfd):
    before = {name: os.environ.get(name) for name in ENVIRONMENT}
    run_in_dagster(project_of(one_run), reasons=NEW_DATA_REASONS)
    assert capfd.readouterr() == ("", "")
    assert {name: os.environ.get(name) for name in ENVIRONMENT} == before


def test_a_store_that_is_not_there_is_said_before_anything_runs(project):
    with pytest.raises(StoreMissing, match="eval-pipeline load"):
        run_in_dagster(project_of(project), reasons=NEW_DATA_REASONS)


def test_dagsters_own_storage_reads_what_was_written_in_batches(after_launch, launched):
    found = launched.found
    key = dg.AssetKey(CHANGED.split("."))
    (after_launch.dagster_home / "dagster.yaml").write_text("telemetry:\n  enabled: false\n")
    with dg.DagsterInstance.from_config(str(after_launch.dagster_home)) as instance:
        assert instance.get_materialized_partitions(key) == {"r2", "r3", "r4"}
        event = instance.get_latest_materialization_event(key)
        assert event.asset_materialization.partition in {"r2", "r3", "r4"}
        logged = instance.get_records_for_run(found.dagster_run_ids[0]).records
        kinds = [record.event_log_entry.dagster_event_type for record in logged]
        (record,) = instance.get_asset_records([key])
    assert kinds.count(dg.DagsterEventType.RUN_SUCCESS) == 1
    shown = [kind for kind in kinds if kind == dg.DagsterEventType.ASSET_MATERIALIZATION]
    assert len(shown) == 3 * (len(found.computed.cells) + len(RAW_PARTS))
    assert record.asset_entry.last_run_id == found.dagster_run_ids[0]


@pytest.fixture
def ended_process():
    """Which process it was, for one that has ended."""
    end, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(told, this_process().encode())
        os._exit(0)
    os.waitpid(pid, 0)
    return SimpleNamespace(signature=os.read(end, 1000).decode(), pid=pid)


def started_run(instance, process):
    run = dg.DagsterRun(
        "nightly_evaluation",
        run_id=str(uuid.uuid4()),
        tags={PROCESS_TAG: process} if process else {},
        status=dg.DagsterRunStatus.STARTED,
    )
    instance.add_run(run)
    return run.run_id


def test_a_run_whose_process_is_gone_is_marked_as_failed_and_a_living_one_is_not(instance, ended_process):
    dead = started_run(instance, ended_process.signature)
    living = started_run(instance, this_process())
    unsigned = started_run(instance, None)
    assert fail_dead_runs(instance, now=utc_now()) == [dead]
    statuses = {run.run_id: run.status for run in instance.get_runs()}
    assert statuses[dead] == dg.DagsterRunStatus.FAILURE
    assert statuses[living] == statuses[unsigned] == dg.DagsterRunStatus.STARTED


def test_a_process_that_got_the_number_of_a_dead_one_does_not_keep_its_run_alive(instance):
    host, pid, _ = this_process().split(":", 2)
    run_id = started_run(instance, f"{host}:{pid}:some other start")
    assert fail_dead_runs(instance, now=utc_now()) == [run_id]


@pytest.mark.slow
def test_the_next_command_cleans_up_after_one_that_was_killed_and_computes_the_rest(
    one_run, few_files, tmp_path
):
    settings = one_run
    program = textwrap.dedent(
        """
        import os, signal
        from eval_pipeline import launch
        from eval_pipeline.defs import assets
        from eval_pipeline.formulas import registry
        from eval_pipeline.store.project import project_of
        from tests_settings import few_files, settings

        registry.PACKAGE, registry.shipped_sql = few_files, lambda: few_files
        assets.measure = lambda *a, **k: os.kill(os.getpid(), signal.SIGKILL)
        launch.run_in_dagster(project_of(settings), reasons=("missing", "results"))
        """
    )
    helper = tmp_path / "tests_settings.py"
    helper.write_text(
        f"from pathlib import Path\nfrom eval_pipeline.settings import Settings\nPosixPath = Path\n"
        f"settings, few_files = {settings!r}, {few_files!r}\n"
    )
    killed = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": str(tmp_path)}, check=False
    )
    assert killed.returncode < 0
    with open_home(settings.dagster_home) as instance:
        (run,) = instance.get_runs()
        assert run.status == dg.DagsterRunStatus.STARTED
    assert run_in_dagster(project_of(settings), reasons=NEW_DATA_REASONS).computed.runs == ("r1",)
    with open_home(settings.dagster_home) as instance:
        assert instance.get_run_by_id(run.run_id).status == dg.DagsterRunStatus.FAILURE


def _broken(place):
    place.write_bytes(place.read_bytes()[:4096] + b"x" * 8192)


def _full(place, when="true"):
    """A disk that is full when an event is noted."""
    with closing(sqlite3.connect(place)) as con, con:
        con.execute(
            f"create trigger full before insert on event_logs when {when} "
            "begin select raise(abort, 'database or disk is full'); end"
        )


NO_ROOM = "(DAGSTER_HOME) cannot be written: "
HOME_FAULTS = {
    "broken runs": (lambda home: _broken(home / "history/runs.db"), "history/runs.db is broken (", "move it away"),
    "broken schedules": (
        lambda home: _broken(home / "schedules/schedules.db"), "schedules/schedules.db is broken (", "move it away"
    ),
    "broken events": (
        lambda home: _broken(home / "history/runs/index.db"), "history/runs/index.db is broken (", "move it away"
    ),
    "no folder": (
        lambda home: (shutil.rmtree(home / "history"), (home / "history").touch()), NO_ROOM, "make it a folder"
    ),
    "full": (lambda home: _full(home / "history/runs/index.db"), NO_ROOM, "make room"),
    "full in a step": (
        lambda home: _full(home / "history/runs/index.db", "new.dagster_event_type = 'ASSET_MATERIALIZATION'"),
        NO_ROOM,
        "make room",
    ),
    "no yaml": (lambda home: (home / "dagster.yaml").write_text("a: ["), "dagster.yaml is not YAML", "correct it"),
    "no text": (lambda home: (home / "dagster.yaml").write_bytes(b"a: \xff"), "dagster.yaml is not YAML", "correct it"),
    "empty": (lambda home: (home / "history/runs/index.db").write_bytes(b""), "index.db is broken (empty)", "move it away"),
    "a setting that nobody knows": (
        lambda home: (home / "dagster.yaml").write_text("telemetry:\n  enablel: false\n"),
        "dagster.yaml has settings that Dagster does not know",
        "correct it",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HOME_FAULTS)
def test_broken_files_of_dagster_are_named_and_computing_goes_on(after_launch, name):
    deliver_run(after_launch.inbox, "late", day=9)
    load(after_launch, after_launch.inbox)
    spoil, fault, way_out = HOME_FAULTS[name]
    spoil(after_launch.dagster_home)
    said: list[str] = []
    found = run_in_dagster(project_of(after_launch, notify=said.append), reasons=NEW_DATA_REASONS)
    assert "late" in found.computed.runs
    (line,) = [line for line in said if line.startswith("Dagster is not told what is computed: ")]
    assert str(after_launch.dagster_home) in line
    assert fault in line
    assert way_out in line
    assert run_in_dagster(project_of(after_launch, notify=said.append), reasons=NEW_DATA_REASONS).n_cells == 0


def test_what_is_moved_away_is_begun_anew(after_launch):
    _broken(after_launch.dagster_home / "history/runs.db")
    (after_launch.dagster_home / "history/runs.db").rename(after_launch.dagster_home / "runs.db.broken")
    deliver_run(after_launch.inbox, "late", day=9)
    load(after_launch, after_launch.inbox)
    said: list[str] = []
    assert (
        "late"
        in run_in_dagster(
            project_of(after_launch, notify=said.append), reasons=NEW_DATA_REASONS
        ).computed.runs
    )
    assert said == []


def test_the_home_is_made_with_the_shipped_settings_and_never_overwritten(tmp_path):
    settings = make_settings(tmp_path / "elsewhere")
    prepare_home(settings)
    config = settings.dagster_home / "dagster.yaml"
    assert "telemetry" in config.read_text()
    config.write_text("telemetry:\n  enabled: false\n# mine\n")
    prepare_home(settings)
    assert config.read_text().endswith("# mine\n")


def test_a_home_with_the_settings_of_the_last_release_gets_those_that_are_shipped_now(tmp_path):
    settings = make_settings(tmp_path)
    with tarfile.open(STORES / "0.1.0.tar.xz") as packed:
        before = packed.extractfile("store/dagster_home/dagster.yaml").read()
    settings.dagster_home.mkdir()
    (settings.dagster_home / "dagster.yaml").write_bytes(before)
    prepare_home(settings)
    shipped = Path(__file__).resolve().parents[2] / "dagster_home" / "dagster.yaml"
    assert (settings.dagster_home / "dagster.yaml").read_bytes() == shipped.read_bytes() != before


def test_what_is_printed_is_captured_only_where_the_home_says_so(new_home, tmp_path):
    home = Path(shutil.copytree(new_home, tmp_path / "home"))
    with open_home(home) as instance:
        assert isinstance(instance.compute_log_manager, NoOpComputeLogManager)
    captured = "compute_logs:\n  module: dagster._core.storage.local_compute_log_manager\n  class: LocalComputeLogManager\n  config:\n    base_dir: logs\n"
    (home / "dagster.yaml").write_text((home / "dagster.yaml").read_text() + captured)
    with open_home(home) as instance:
        assert isinstance(instance.compute_log_manager, LocalComputeLogManager)


def test_the_web_interface_sees_the_settings_of_the_command(tmp_path):
    settings = replace(make_settings(tmp_path), own_sql=tmp_path / "mine")
    settings.own_sql.mkdir()
    settings.config.touch()
    environment = ui_environment(settings, {"PATH": "/bin", "EVAL_PIPELINE_DB": "elsewhere"})
    assert load_settings(environment) == settings
    assert environment["PATH"] == "/bin"


def test_the_web_interface_does_not_name_a_file_of_settings_that_nobody_named(tmp_path):
    environment = ui_environment(make_settings(tmp_path), {})
    assert not {"EVAL_PIPELINE_CONFIG", "EVAL_PIPELINE_SQL"} & set(environment)


def test_a_port_that_is_taken_is_refused_by_name(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=str(port)):
            serve(project_of(make_settings(tmp_path)), port, started=lambda _: None)


def refused_once(monkeypatch):
    """The first to compute finds the store held by somebody else."""
    compute = assets.measure
    refusals = [StoreBusy("in use by process 7 (eval-pipeline query), for 61 s")]

    def refused(*given, **named):
        if refusals:
            raise refusals.pop()
        return compute(*given, **named)

    monkeypatch.setattr(assets, "measure", refused)
    monkeypatch.setattr(resources, "RETRY_SECONDS", 0.0)


def test_a_run_of_the_night_that_the_store_refuses_tries_again(one_run, monkeypatch):
    refused_once(monkeypatch)
    with open_home(one_run.dagster_home) as instance:
        instance.add_dynamic_partitions("eval_run", ["r1"])
        night = build_definitions(project_of(one_run)).resolve_job_def(NIGHTLY_EVALUATION)
        range_tags = {"dagster/asset_partition_range_start": "r1", "dagster/asset_partition_range_end": "r1"}
        done = night.execute_in_process(
            instance=instance, tags=range_tags, run_config=QUIET, raise_on_error=False
        )
    assert done.success
    assert sum(event.is_step_up_for_retry for event in done.all_events) == 1


def test_an_hour_of_the_schedule_that_the_store_refuses_is_tried_again(one_run):
    with open_home(one_run.dagster_home) as instance:
        assert instance.scheduler.max_tick_retries == 3


def test_a_command_that_the_store_refuses_says_so_at_once(one_run, monkeypatch):
    refused_once(monkeypatch)
    with pytest.raises(StoreBusy, match="process 7"):
        run_in_dagster(project_of(one_run), reasons=None)
