"""Dagster's events in PostgreSQL: the same truth, written in batches. Needs Debian's `postgresql`, and an index of packages."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
import textwrap
from pathlib import Path

import pytest

from eval_pipeline.errors import UsageError
from eval_pipeline.launch import prepare_home

from .deliveries import deliver_golden, deliver_run, load, make_settings

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = """\
telemetry: {{enabled: false}}
storage:
  custom:
    module: eval_pipeline.defs.postgres.storage
    class: OpenPostgresStorage
    config: {{postgres_url: "{url}"}}
"""
RUNS = [f"r{number:02}" for number in range(1, 12)]
PROGRAM = """
import dagster as dg
from pathlib import Path
from eval_pipeline.defs.event_log import open_home
from eval_pipeline.launch import run_in_dagster
from eval_pipeline.settings import Settings
from eval_pipeline.store.project import project_of
PosixPath = Path
settings, runs = {settings!r}, {runs!r}
found = run_in_dagster(project_of(settings), reasons=None)
key, runs_of = dg.AssetKey(["aggregates", "run_metrics"]), dg.DynamicPartitionsDefinition(name="eval_run")
with open_home(settings.dagster_home) as instance:
    records = instance.fetch_materializations(key, limit=100, ascending=True).records
    assert [one.partition_key for one in records] == runs, records
    assert len({{int(one.timestamp * 1000) for one in records}}) == len(runs)
    assert instance.get_latest_materialization_event(key).asset_materialization.partition == runs[-1]
    states = instance.get_status_by_partition(key, runs, runs_of).values()
    assert {{one.value for one in states}} == {{"MATERIALIZED"}}
    (run,) = [one for one in instance.get_runs() if one.job_name == "nightly_evaluation"]
    assert run.status == dg.DagsterRunStatus.SUCCESS
"""


def programs() -> Path:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not found:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    return found[-1].parent


@pytest.fixture
def url():
    """A server of its own; it refuses to run for root."""
    bin_, user = programs(), "postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
    with tempfile.TemporaryDirectory(prefix="pg-") as folder, socket.socket() as free:
        Path(folder).chmod(0o700)
        shutil.chown(folder, user)
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()

        def call(program, *words):
            command = [bin_ / program, "-D", f"{folder}/data", *words]
            subprocess.run(command, check=True, user=user, cwd=folder, stdout=subprocess.DEVNULL)

        call("initdb", "-A", "trust", "-U", "postgres")
        call(
            "pg_ctl",
            "-o",
            f"-p {port} -k {folder} -c listen_addresses=127.0.0.1",
            "-l",
            f"{folder}/log",
            "-w",
            "start",
        )
        try:
            yield f"postgresql://postgres@127.0.0.1:{port}/postgres"
        finally:
            call("pg_ctl", "-m", "immediate", "stop")


@pytest.fixture
def python(tmp_path):
    """An environment with the extra, over that of the tests."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    (packages,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    below = sysconfig.get_path("purelib")
    (packages / "below.pth").write_text(f"import site; site.addsitedir({below!r})\n")
    command = [tmp_path / "venv" / "bin" / "pip", "install", "--quiet", "--no-deps", "--require-hashes", "-r"]
    done = subprocess.run([*command, ROOT / "deploy" / "postgres.lock"], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"the extra cannot be installed: {done.stderr.strip().splitlines()[-1]}")
    return tmp_path / "venv" / "bin" / "python"


@pytest.mark.slow
def test_events_in_postgresql_are_those_of_the_files(tmp_path, url, python):
    settings = make_settings(tmp_path)
    settings.dagster_home.mkdir(exist_ok=True)
    (settings.dagster_home / "dagster.yaml").write_text(SETTINGS.format(url=url))
    deliver_golden(tmp_path / "bundle")
    for day, run_id in enumerate(RUNS, start=1):
        deliver_run(tmp_path / "bundle", run_id, day=day)
    load(settings, tmp_path / "bundle")
    program = textwrap.dedent(PROGRAM.format(settings=settings, runs=RUNS))
    done = subprocess.run([python, "-W", "ignore", "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not (settings.dagster_home / "history").exists()


def test_a_home_in_postgresql_without_the_extra_is_refused_with_the_way_out(tmp_path):
    settings = make_settings(tmp_path)
    settings.dagster_home.mkdir()
    (settings.dagster_home / "dagster.yaml").write_text("storage: {postgres: {postgres_url: elsewhere}}\n")
    with pytest.raises(UsageError, match=r"pip install 'eval-pipeline\[postgres\]'"):
        prepare_home(settings)
