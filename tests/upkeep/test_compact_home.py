"""`compact --dagster`: the home gets small, and nobody is shown anything else."""

from __future__ import annotations

import datetime as dt
import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import dagster as dg
import pytest

from eval_pipeline.cli.main import main
from eval_pipeline.defs.event_log import open_home
from eval_pipeline.errors import UsageError
from eval_pipeline.settings import utc_now
from eval_pipeline.upkeep.compact_home import compact_home

pytestmark = pytest.mark.needs_process
RUNS = [f"r{number}" for number in range(6)]
PARTITIONS = dg.DynamicPartitionsDefinition(name="eval_run")
KEY = dg.AssetKey("probe")
QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


def execute(instance, first, last, *, rows=1, fails=False):
    @dg.asset(key=KEY, partitions_def=PARTITIONS, backfill_policy=dg.BackfillPolicy.single_run())
    def probe() -> dg.MaterializeResult[None]:
        if fails:
            raise ValueError("broken")
        return dg.MaterializeResult(metadata={"rows": rows, "seconds": 0.5})

    @dg.asset_check(asset=KEY)
    def check() -> dg.AssetCheckResult:
        return dg.AssetCheckResult(passed=rows == 1)

    definitions = dg.Definitions(assets=[probe], asset_checks=[check], jobs=[dg.define_asset_job("job")])
    job = definitions.resolve_job_def("job")
    tags = {"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last}
    return job.execute_in_process(instance=instance, tags=tags, run_config=QUIET, raise_on_error=False).run_id


@pytest.fixture(scope="module")
def used(tmp_path_factory, new_home):
    """Everything computed, most of it once more with other rows, and then the last two failed."""
    home = Path(shutil.copytree(new_home, tmp_path_factory.mktemp("used") / "home"))
    with open_home(home) as instance:
        instance.add_dynamic_partitions("eval_run", RUNS)
        execute(instance, RUNS[0], RUNS[5])
        execute(instance, RUNS[0], RUNS[3], rows=2)
        execute(instance, RUNS[4], RUNS[5], fails=True)
        what_is_shown(instance)
    return home


@pytest.fixture
def home(used, tmp_path):
    return Path(shutil.copytree(used, tmp_path / "home"))


def what_is_shown(instance):
    latest = {
        run: instance.fetch_materializations(
            dg.AssetRecordsFilter(KEY, asset_partitions=[run]), limit=1
        ).records[0]
        for run in RUNS
    }
    return {
        "partitions": instance.get_status_by_partition(KEY, RUNS, PARTITIONS),
        "rows": {run: record.asset_materialization.metadata["rows"].value for run, record in latest.items()},
        "at": {run: (record.timestamp, record.run_id) for run, record in latest.items()},
        "runs": {run.run_id: run.status for run in instance.get_runs()},
        "check": instance.event_log_storage.get_asset_check_execution_history(
            dg.AssetCheckKey(KEY, "check"), 1
        )[0].status,
    }


def forget_what_was_counted(home):
    """Dagster keeps the state of partitions beside the events; without it they are counted anew."""
    with closing(sqlite3.connect(home / "history" / "runs" / "index.db")) as con, con:
        con.execute("update asset_keys set cached_status_data = null")


def next_week():
    return utc_now() + dt.timedelta(days=8)


def test_runs_partitions_and_their_latest_numbers_are_shown_as_before(home):
    with open_home(home) as instance:
        before = what_is_shown(instance)
    done = compact_home(home, now=next_week(), days=7)
    forget_what_was_counted(home)
    with open_home(home) as instance:
        assert what_is_shown(instance) == before
        assert len(instance.fetch_materializations(KEY, limit=100).records) == len(RUNS)
        execute(instance, RUNS[4], RUNS[5])
        after = what_is_shown(instance)["partitions"]
    assert (done.runs, set(after.values())) == (3, {before["partitions"][RUNS[0]]})
    assert done.bytes_after < done.bytes_before


def test_a_run_that_ended_lately_keeps_its_log(home):
    done = compact_home(home, now=utc_now(), days=7)
    assert done.runs == 0
    with open_home(home) as instance:
        assert all(instance.all_logs(run.run_id) for run in instance.get_runs())


def test_a_run_under_way_loses_nothing(home):
    with open_home(home) as instance:
        (run, *_) = instance.get_runs()
        with closing(sqlite3.connect(home / "history" / "runs.db")) as con, con:
            con.execute("update runs set status = 'STARTED' where run_id = ?", [run.run_id])
        logged = len(instance.all_logs(run.run_id))
        compact_home(home, now=next_week(), days=0)
        assert len(instance.all_logs(run.run_id)) == logged
        forget_what_was_counted(home)
        assert {
            one.value for one in instance.get_status_by_partition(KEY, RUNS[4:], PARTITIONS).values()
        } == {"IN_PROGRESS"}


def test_a_second_time_there_is_nothing_left_to_remove(home):
    compact_home(home, now=next_week(), days=7)
    done = compact_home(home, now=next_week(), days=7)
    assert (done.runs, done.events, done.bytes_after) == (0, 0, done.bytes_before)


def test_a_home_without_events_in_files_is_refused(tmp_path):
    with pytest.raises(UsageError, match="nothing to compact"):
        compact_home(tmp_path, now=utc_now(), days=7)


def test_the_command_says_what_became_smaller(home, monkeypatch, capsys, empty_store):
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    monkeypatch.setenv("EVAL_PIPELINE_DB", str(empty_store))
    with pytest.raises(SystemExit) as left:
        main(["compact", "--dagster", "--json"])
    document = json.loads(capsys.readouterr().out)
    assert left.value.code in (0, None)
    of_home = document["dagster"]
    assert of_home["bytes_before"] >= of_home["bytes_after"] > 0
    assert (document["format"], document["tables"] > 0, of_home["runs"]) == (1, True, 0)
