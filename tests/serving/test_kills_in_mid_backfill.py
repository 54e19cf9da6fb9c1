"""Web server, daemon and code server killed in mid-backfill: everything ends, and the next night is computed."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from eval_pipeline.demo import BUNDLE_FOLDER
from tests.called import EXAMPLE, demo_once

from .served import SERVERS, Served, commands_below, is_alive, serving, until

ASSETS = ("facts.chunk_ranks", "metrics.reciprocal_rank", "aggregates.run_metrics")
NEXT = "nightly-2026-09-21"
# How long is measured in bench/servers_killed.py; here it only must come to an end.
PATIENCE = 300.0

pytestmark = pytest.mark.slow


def environment_in(folder: Path) -> dict[str, str]:
    return {
        "EVAL_PIPELINE_DB": str(folder / "data" / "eval.duckdb"),
        "EVAL_PIPELINE_INBOX": str(folder / "inbox"),
        "EVAL_PIPELINE_REPORTS": str(folder / "reports"),
        "DAGSTER_HOME": str(folder / "dagster_home"),
    }


def example_in(folder: Path, factory: pytest.TempPathFactory) -> Path:
    shutil.copytree(demo_once(factory) / EXAMPLE, folder, dirs_exist_ok=True)
    (folder / "inbox").mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return example_in(tmp_path_factory.mktemp("served"), tmp_path_factory)


@pytest.fixture(scope="module")
def served(project: Path) -> Iterator[Served]:
    with serving(environment_in(project), project) as found:
        until(lambda: found.is_healthy, "everything answers", seconds=PATIENCE)
        yield found


def lay_into_the_inbox(folder: Path) -> None:
    """The next night: delivered like the last one; its run.json comes last."""
    night = folder / "inbox" / "runs" / NEXT
    shutil.copytree(BUNDLE_FOLDER / "runs" / "nightly-2026-09-18", night)
    said = json.loads((night / "run.json").read_text("utf-8"))
    (night / "run.json").write_text(
        json.dumps(said | {"run_id": NEXT, "created_at": "2026-09-21T02:00:00Z", "night": "2026-09-21"})
    )


@pytest.mark.parametrize("name", SERVERS)
def test_what_is_killed_in_mid_backfill_comes_back_and_the_backfill_ends(served, name):
    backfill = served.start_backfill(ASSETS, served.partitions(ASSETS[1]))
    until(lambda: bool(served.runs_of(backfill)), "a run is launched", seconds=PATIENCE)
    under_way = [run_id for run_id, run in served.runs().items() if run.is_under_way]
    served.kill(name)
    until(lambda: served.has_ended(backfill, under_way), f"the end with {name} killed", seconds=PATIENCE)
    until(lambda: served.is_healthy, "everything answers again", seconds=PATIENCE)
    assert served.processes().keys() == SERVERS.keys()


def test_after_all_kills_the_next_night_is_computed_from_the_inbox(served, project):
    lay_into_the_inbox(project)
    until(lambda: NEXT in served.partitions(ASSETS[2]), "the night is taken in", seconds=PATIENCE)

    def is_computed() -> bool:
        nightly = [run for run in served.runs().values() if run.job == "nightly_evaluation"]
        return any(run.status == "SUCCESS" and NEXT in run.tags.values() for run in nightly)

    until(is_computed, "the night is computed", seconds=PATIENCE)


def test_no_line_for_every_partition_stands_on_the_terminal(served):
    assert "DEBUG" not in served.errors.read_text("utf-8")


def test_ctrl_c_while_something_is_computed_says_that_it_stopped_and_no_more(tmp_path, tmp_path_factory):
    # A home of its own: the servers of the other tests are still up.
    project = example_in(tmp_path, tmp_path_factory)
    with serving(environment_in(project), project, command="ui") as served:
        backfill = served.start_backfill(ASSETS, served.partitions(ASSETS[1]))
        until(
            lambda: any(run.status == "STARTED" for run in served.runs_of(backfill)),
            "a run is under way",
            seconds=PATIENCE,
        )
        served.process.send_signal(signal.SIGINT)
        assert served.process.wait(timeout=30) == 130
        said = served.errors.read_text("utf-8")
        assert said.endswith("stopped\n")
        assert "Traceback" not in said
        assert "error" not in said


def test_no_server_outlives_the_command_however_it_ends(project):
    with serving(environment_in(project), project, command="ui") as served:
        pids = commands_below(served.process.pid)
        assert len(pids) >= len(SERVERS)
        os.kill(served.process.pid, signal.SIGKILL)
        until(lambda: not any(is_alive(pid) for pid in pids), "all servers are gone", seconds=PATIENCE)
