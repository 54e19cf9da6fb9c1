"""A formula is changed and its history backfilled in the web interface: one run, exactly what was asked, in run order."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.defs.events import WHY_IT_RAN
from eval_pipeline.defs.processes import PROCESS_TAG
from tests.called import EXAMPLE, call, demo_once

from .served import Served, serving, until
from .test_kills_in_mid_backfill import environment_in

ASSETS = FORMULA, AGGREGATES = ("metrics.reciprocal_rank", "aggregates.run_metrics")
CHANGED = '\n[formulas.reciprocal_rank]\ncutoff = 3\n\n[dagster]\nstale_metrics = "plan"\n'
COMPUTED = ("nightly-2026-09-07", "nightly-2026-09-08", "nightly-2026-09-09")
PATIENCE = 300.0
MOST_TRIES = 8
EVENTS = """query($k: AssetKeyInput!) {assetOrError(assetKey: $k) {... on Asset {
    assetMaterializations(limit: 100) {
        timestamp partition runId metadataEntries {label ... on TextMetadataEntry {text}}}}}}"""
STATUSES = """query($k: AssetKeyInput!) {assetNodeOrError(assetKey: $k) {... on AssetNode {
    assetPartitionStatuses {... on DefaultPartitionStatuses {failedPartitions materializedPartitions}}}}}"""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example with another formula, which three of its runs are computed with already."""
    folder = tmp_path_factory.mktemp("changed")
    shutil.copytree(demo_once(tmp_path_factory) / EXAMPLE, folder, dirs_exist_ok=True)
    (folder / "inbox").mkdir(exist_ok=True)
    with (folder / "eval-pipeline.toml").open("a", encoding="utf-8") as settings:
        settings.write(CHANGED)
    code, printed, _ = call(["run", "--all", *COMPUTED], folder)
    assert code == 0, printed
    return folder


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[Served]:
    with serving(environment_in(folder), folder) as found:
        until(lambda: found.is_healthy, "everything answers", seconds=PATIENCE)
        yield found


def key(asset: str) -> dict[str, Sequence[str]]:
    return {"path": asset.split(".")}


def events(served: Served, asset: str) -> list[dict[str, Any]]:
    """The newest first, as the page of events has them."""
    return list(served.graphql(EVENTS, k=key(asset))["assetOrError"]["assetMaterializations"])


def statuses(served: Served, asset: str) -> dict[str, list[str]]:
    return dict(served.graphql(STATUSES, k=key(asset))["assetNodeOrError"]["assetPartitionStatuses"])


def test_a_backfill_of_what_a_changed_formula_made_stale_is_one_run_of_exactly_these_partitions(served):
    stale = [run for run in served.partitions(FORMULA) if run not in COMPUTED]
    backfill = served.start_backfill(ASSETS, stale, only_stale="true")
    until(lambda: served.has_ended(backfill), "the backfill ends", seconds=PATIENCE)
    assert served.backfills()[backfill] == "COMPLETED_SUCCESS"
    (run,) = (id_ for id_, one in served.runs().items() if one.tags.get("dagster/backfill") == backfill)
    for asset in ASSETS:
        everything = events(served, asset)
        shown = [one for one in everything if one["runId"] == run]
        assert [one["partition"] for one in shown] == stale[::-1], "each once, the newest run is the latest"
        assert everything[0]["partition"] == stale[-1]
        assert len({one["timestamp"] for one in shown}) == len(stale), "a millisecond for each"
        assert {why(one) for one in shown} <= {"its formula changed", "something it reads changed"}


def why(event: dict[str, Any]) -> str:
    return next(str(one["text"]) for one in event["metadataEntries"] if one["label"] == WHY_IT_RAN)


def process_of(served: Served, backfill: str) -> int | None:
    """The process that executes the backfill's run, as soon as it says so itself."""
    said = [run.tags[PROCESS_TAG] for run in served.runs_of(backfill) if PROCESS_TAG in run.tags]
    return int(said[0].split(":")[1]) if said else None


def kill_a_backfill(served: Served, partitions: Sequence[str]) -> bool:
    """Whether its run was killed before it was done."""
    backfill = served.start_backfill(ASSETS, partitions)
    until(lambda: process_of(served, backfill) is not None, "a run says its process", seconds=PATIENCE)
    with suppress(ProcessLookupError):
        os.kill(process_of(served, backfill) or 0, signal.SIGKILL)
    until(lambda: served.has_ended(backfill), "the backfill ends", seconds=PATIENCE)
    return [run.status for run in served.runs_of(backfill)] == ["FAILURE"]


def test_a_killed_run_leaves_its_partitions_failed_until_they_are_computed_again(served):
    runs = served.partitions(AGGREGATES)
    assert any(kill_a_backfill(served, runs) for _ in range(MOST_TRIES)), "a run is killed in time"
    assert sorted(statuses(served, AGGREGATES)["failedPartitions"]) == sorted(runs)
    backfill = served.start_backfill(ASSETS, statuses(served, AGGREGATES)["failedPartitions"])
    until(lambda: served.has_ended(backfill), "the backfill of what failed ends", seconds=PATIENCE)
    assert statuses(served, AGGREGATES)["failedPartitions"] == []
