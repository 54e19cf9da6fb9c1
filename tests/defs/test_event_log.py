"""What Dagster notes of runs of many partitions: which failed, in which order, whoever opens the home meanwhile."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path

import dagster as dg
import pytest

from eval_pipeline.defs.event_log import OpenEventLog, open_home
from eval_pipeline.defs.tags import RANGE_END, RANGE_START

RUNS = [f"r{number:02}" for number in range(25)]
PARTITIONS = dg.DynamicPartitionsDefinition(name="eval_run")
KEY = dg.AssetKey("probe")


@pytest.fixture
def home(new_home, tmp_path, monkeypatch):
    """A home as it is shipped, with a range of runs, opened as Dagster's own processes do."""
    home = Path(shutil.copytree(new_home, tmp_path / "home"))
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    with opened(home) as instance:
        instance.add_dynamic_partitions("eval_run", RUNS)
    return home


def opened(home):
    return dg.DagsterInstance.from_config(str(home))


def execute(instance, *, fails=False, partitions=RUNS):
    @dg.asset(key=KEY, partitions_def=PARTITIONS, backfill_policy=dg.BackfillPolicy.single_run())
    def probe() -> None:
        if fails:
            raise ValueError("broken")

    return (
        dg.Definitions(assets=[probe], jobs=[dg.define_asset_job("job", selection=[KEY])])
        .resolve_job_def("job")
        .execute_in_process(
            instance=instance,
            tags={RANGE_START: partitions[0], RANGE_END: partitions[-1]},
            run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
            raise_on_error=False,
        )
    )


def partitions_by_status(instance):
    found: dict[str, list[str]] = {}
    for partition, status in instance.get_status_by_partition(KEY, RUNS, PARTITIONS).items():
        found.setdefault(str(status.value) if status else "", []).append(partition)
    return found


def shown(instance):
    records = instance.fetch_materializations(KEY, limit=1000, ascending=True).records
    return [(int(one.timestamp * 1000), one.partition_key) for one in records]


def test_servers_that_know_nothing_but_the_home_write_in_batches(home):
    with opened(home) as instance:
        assert isinstance(instance.event_log_storage, OpenEventLog)
        assert int(os.environ["DAGSTER_EVENT_BATCH_SIZE"]) > 10_000


def test_partitions_of_a_range_that_failed_are_failed_until_they_are_computed(home):
    with opened(home) as instance:
        assert not execute(instance, fails=True).success
        assert partitions_by_status(instance) == {"FAILED": RUNS}
        execute(instance, partitions=RUNS[:5])
        assert partitions_by_status(instance) == {"MATERIALIZED": RUNS[:5], "FAILED": RUNS[5:]}


def test_every_materialization_has_a_millisecond_of_its_own_and_the_last_is_the_latest(home):
    with opened(home) as instance:
        execute(instance)
        times = [at for at, _ in shown(instance)]
        latest = instance.get_latest_materialization_event(KEY)
    assert len(times) == len(RUNS)
    assert times == sorted(set(times))
    assert int(latest.timestamp * 1000) == times[-1]


def test_the_log_of_a_run_says_in_sentences_what_was_planned_and_what_was_made(home):
    with opened(home) as instance:
        said = [one.message for one in instance.all_logs(execute(instance).run_id)]
    assert said.count('job intends to materialize asset ["probe"]') == 1
    assert said.count("Materialized value probe.") == len(RUNS)


def test_a_partition_that_another_process_takes_out_is_gone_for_everybody(home):
    with opened(home) as instance, opened(home) as another:
        execute(instance)
        another.delete_dynamic_partition("eval_run", RUNS[3])
        assert not instance.has_dynamic_partition("eval_run", RUNS[3])
        assert instance.get_dynamic_partitions("eval_run") == [one for one in RUNS if one != RUNS[3]]


def test_threads_and_a_forked_process_write_beside_each_other(home):
    with open_home(home) as instance:
        execute(instance)
        child = os.fork()
        if child == 0:
            instance.add_dynamic_partitions("eval_run", ["forked"])
            os._exit(0)
        threads = [
            threading.Thread(
                target=instance.add_dynamic_partitions, args=("eval_run", [f"of thread {number}"])
            )
            for number in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert os.waitpid(child, 0)[1] == 0
        added = {"forked", *(f"of thread {number}" for number in range(4))}
        assert added < set(instance.get_dynamic_partitions("eval_run"))


def test_a_run_whose_file_was_taken_away_is_shown_without_its_log(home):
    with opened(home) as instance:
        run_id = execute(instance).run_id
        for path in (home / "history" / "runs").glob(f"{run_id}.db*"):
            path.unlink()
        assert instance.all_logs(run_id) == []
        assert instance.get_run_by_id(run_id).status == dg.DagsterRunStatus.SUCCESS
        assert len(shown(instance)) == len(RUNS)
