"""A formula is edited while Dagster's daemon runs: the stale partitions are computed, they alone, and once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.definitions.run_request import InstigatorType
from dagster._core.scheduler.instigation import InstigatorTick, TickStatus
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import ModuleTarget

from eval_pipeline.defs.stale_memory import NOTHING_STALE
from eval_pipeline.formulas.registry import load_registry
from eval_pipeline.planning.status import find_status
from eval_pipeline.settings import Settings, load_settings, shipped_sql
from tests.projects import open_reader, project_of

from .deliveries import CHANGED, compute, deliver_golden, deliver_run, load

LOCATION = "eval_pipeline.definitions"
WATCHED = "stale_metrics"
PATIENCE_SECONDS = 120
FILE = "metrics/reciprocal_rank.sql"
HOME = """
telemetry: {enabled: false}
nux: {enabled: false}
run_queue: {dequeue_interval_seconds: 1}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Two computed runs, of two datasets so that there is nothing to compare, and an empty folder of definitions."""
    environment = {
        "EVAL_PIPELINE_DB": str(tmp_path / "eval.duckdb"),
        "EVAL_PIPELINE_INBOX": str(tmp_path / "inbox"),
        "EVAL_PIPELINE_REPORTS": str(tmp_path / "reports"),
        "EVAL_PIPELINE_CONFIG": str(tmp_path / "eval-pipeline.toml"),
        "EVAL_PIPELINE_SQL": str(tmp_path / "sql"),
        "DAGSTER_HOME": str(tmp_path / "dagster_home"),
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    for folder in ("inbox", "sql/metrics", "dagster_home"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "dagster_home" / "dagster.yaml").write_text(HOME)
    (tmp_path / "eval-pipeline.toml").write_text("[dagster]\nstale_metrics_seconds = 1\n")
    settings = load_settings(environment)
    for day, dataset in enumerate(("kb", "wiki"), start=1):
        deliver_golden(tmp_path / "bundle", dataset=dataset)
        deliver_run(tmp_path / "bundle", f"r{day}", day=day, dataset=dataset)
    load(settings, tmp_path / "bundle")
    compute(settings)
    return settings


def switch_sensors(instance: dg.DagsterInstance) -> str:
    """All others off; returns the selector of the watched one, which is on without being switched on."""
    target = ModuleTarget(LOCATION, attribute=None, working_directory=None, location_name=LOCATION)
    watched = ""
    with WorkspaceProcessContext(instance, target) as process:
        location = process.create_request_context().get_code_location(LOCATION)
        for repository in location.get_repositories().values():
            for sensor in repository.get_sensors():
                if sensor.name == WATCHED:
                    watched = sensor.selector_id
                else:
                    instance.stop_sensor(sensor.get_remote_origin_id(), sensor.selector_id, sensor)
    return watched


@contextmanager
def daemon(log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Dagster's daemon with its code server and runs, in a process group of their own that ends with the block."""
    command = [sys.executable, "-m", "dagster._daemon", "run", "-m", LOCATION]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True
        )
        try:
            yield process
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                pass
            finally:
                end_group(process.pid)
                process.wait()


def end_group(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


def wait_until(condition: Callable[[], bool], process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert process.poll() is None, log.read_text("utf-8")[-4000:]
        assert time.monotonic() < deadline, log.read_text("utf-8")[-4000:]
        time.sleep(0.2)


@pytest.mark.slow
def test_a_formula_edited_under_a_running_daemon_is_computed_for_its_stale_partitions_once(project, tmp_path):
    log = tmp_path / "daemon.log"
    with dg.DagsterInstance.from_config(str(project.dagster_home)) as instance:
        watched = switch_sensors(instance)

        def ticks() -> list[InstigatorTick]:
            # There is no state before the first look.
            found = [
                tick
                for one in instance.all_instigator_state(instigator_type=InstigatorType.SENSOR)
                if one.selector_id == watched
                for tick in instance.get_ticks(one.instigator_origin_id, watched, limit=50)
            ]
            return [tick for tick in found if tick.status != TickStatus.STARTED]

        def n_idle() -> int:
            return sum(
                tick.skip_reason is not None and "under way" not in tick.skip_reason for tick in ticks()
            )

        with daemon(log) as process:
            wait_until(lambda: any(tick.skip_reason == NOTHING_STALE for tick in ticks()), process, log)
            assert instance.get_runs() == []
            edit_the_formula(project)
            wait_until(
                lambda: any(run.status == dg.DagsterRunStatus.SUCCESS for run in instance.get_runs()),
                process,
                log,
            )
            idle = n_idle()
            wait_until(lambda: n_idle() >= idle + 2, process, log)
        assert_exactly_the_stale_cells_ran(instance, project)
        assert {tick.status for tick in ticks()} <= {TickStatus.SKIPPED, TickStatus.SUCCESS}


def edit_the_formula(settings: Settings) -> None:
    text = (shipped_sql() / FILE).read_text("utf-8").replace("cast(1 as double)", "cast(0.5 as double)")
    assert settings.own_sql is not None
    (settings.own_sql / FILE).write_text("-- replaces: reciprocal_rank\n" + text, "utf-8")


def assert_exactly_the_stale_cells_ran(instance: dg.DagsterInstance, settings: Settings) -> None:
    registry = load_registry(settings)
    (run,) = instance.get_runs()
    assert run.job_name == "recompute_stale"
    shown = {
        (".".join(key.path), record.partition_key, record.asset_materialization.tags["dagster/code_version"])
        for key in instance.all_asset_keys()
        if key.path[0] != "sources"
        for record in instance.fetch_materializations(key, limit=50).records
    }
    stale = (CHANGED, "aggregates.run_metrics")
    assert shown == {
        (name, run_id, registry.get(name).fingerprint) for name in stale for run_id in ("r1", "r2")
    }
    n_shown = sum(
        len(instance.fetch_materializations(dg.AssetKey(name.split(".")), limit=50).records) for name in stale
    )
    assert n_shown == len(shown)
    with open_reader(settings.db) as con:
        computed = con.execute(
            "select definition, source, count(*) from ledger.cells where dagster_run_id = ? group by all order by all",
            [run.run_id],
        ).fetchall()
        others = con.execute("select count(*) from ledger.cells where dagster_run_id is null").fetchall()[0][
            0
        ]
        total = con.execute("select count(*) from ledger.cells").fetchall()[0][0]
        first_value = con.execute("select max(mrr) from metrics.reciprocal_rank").fetchall()[0][0]
    assert computed == [("aggregates.run_metrics", CHANGED, 2), (CHANGED, "", 2)]
    assert others == total - 4
    assert first_value == 0.5
    cells = find_status(project_of(settings, registry))["cells"]
    assert cells["stale"] == cells["missing"] == 0
