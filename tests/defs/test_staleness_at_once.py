"""Dagster's stale marks of all partitions at once are those that it gives one by one, from few statements."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.definitions.data_version import CachingStaleStatusResolver
from dagster._core.loader import LoadingContextForTest

from eval_pipeline.defs.event_log import open_home
from eval_pipeline.defs.telling.staleness import answer_staleness_at_once

RUNS = dg.DynamicPartitionsDefinition(name="eval_run")
NAMES = [f"r{number}" for number in range(9)]
SOURCES = dg.StaticPartitionsDefinition(["s1", "s2"])
QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
LABELS, PARENT, OTHER, CHILD = (dg.AssetKey(name) for name in ("labels", "parent", "other", "child"))


def definitions(*, version="1", data="a", code="1", reads=(PARENT, OTHER, LABELS)):
    """A child of two tables and of all labels; `data` is what the tables come out as, `code` the child's version."""
    once = dg.BackfillPolicy.single_run()

    def table(key, partitions):
        @dg.asset(key=key, partitions_def=partitions, backfill_policy=once, code_version=version)
        def made() -> dg.MaterializeResult[None]:
            return dg.MaterializeResult(data_version=dg.DataVersion(data))

        return made

    deps = [
        dg.AssetDep(key, partition_mapping=dg.AllPartitionMapping()) if key == LABELS else dg.AssetDep(key)
        for key in reads
    ]

    @dg.asset(key=CHILD, partitions_def=RUNS, backfill_policy=once, code_version=code, deps=deps)
    def child() -> dg.MaterializeResult[None]:
        return dg.MaterializeResult(data_version=dg.DataVersion("c"))

    return dg.Definitions(assets=[table(LABELS, SOURCES), table(PARENT, RUNS), table(OTHER, RUNS), child])


def make(instance, made, key, first, last):
    job = made.resolve_implicit_global_asset_job_def()
    tags = {"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last}
    job.get_subset(asset_selection=frozenset([key])).execute_in_process(
        instance=instance, tags=tags, run_config=QUIET
    )


@pytest.fixture(scope="module")
def instance(tmp_path_factory, new_home):
    """The child was made of r0 to r7; later its parents were made again, some of them as something else."""
    home = Path(shutil.copytree(new_home, tmp_path_factory.mktemp("stale") / "home"))
    with open_home(home) as opened:
        opened.add_dynamic_partitions("eval_run", NAMES)
        first = definitions()
        make(opened, first, LABELS, "s1", "s2")
        for key in (PARENT, OTHER, CHILD):
            make(opened, first, key, "r0", "r7")
        make(opened, first, PARENT, "r0", "r1")
        make(opened, definitions(data="b"), PARENT, "r2", "r3")
        make(opened, definitions(data="b"), OTHER, "r8", "r8")
        make(opened, definitions(code="2"), CHILD, "r7", "r7")
        # As `compact --dagster` leaves it: what an event says is not looked up beside it.
        with closing(sqlite3.connect(home / "history" / "runs" / "index.db")) as con, con:
            con.execute("delete from asset_event_tags")
        yield opened


def statuses(instance, made, key=CHILD, names=NAMES):
    resolver = CachingStaleStatusResolver(
        instance, made.resolve_asset_graph(), LoadingContextForTest(instance)
    )
    return {name: resolver.get_status(key, name).value for name in names}


@pytest.mark.parametrize(
    "made",
    [
        definitions(),
        definitions(code="2"),
        definitions(reads=(PARENT, LABELS)),
        definitions(reads=(PARENT,)),
    ],
    ids=["as it was", "another formula", "reads less", "reads no labels"],
)
def test_the_stale_marks_of_all_partitions_are_those_of_each(instance, made, monkeypatch):
    keys = (CHILD, PARENT, OTHER)
    one_by_one = {key: statuses(instance, made, key) for key in keys}
    monkeypatch.setattr(CachingStaleStatusResolver, "get_status", CachingStaleStatusResolver.get_status)
    answer_staleness_at_once()
    assert {key: statuses(instance, made, key) for key in keys} == one_by_one


def test_what_was_made_again_as_something_else_is_stale_and_a_new_formula_makes_all_of_it_stale(
    instance, monkeypatch
):
    monkeypatch.setattr(CachingStaleStatusResolver, "get_status", CachingStaleStatusResolver.get_status)
    answer_staleness_at_once()
    found = statuses(instance, definitions())
    assert [name for name in NAMES if found[name] == "STALE"] == ["r2", "r3", "r7"]
    assert found["r8"] == "MISSING"
    assert [name for name, one in statuses(instance, definitions(code="2")).items() if one == "FRESH"] == [
        "r7"
    ]


def test_the_number_of_statements_does_not_grow_with_that_of_partitions(instance, monkeypatch):
    monkeypatch.setattr(CachingStaleStatusResolver, "get_status", CachingStaleStatusResolver.get_status)
    answer_staleness_at_once()
    asked = []
    log = instance.event_log_storage
    connected = log.index_connection
    monkeypatch.setattr(log, "index_connection", lambda: asked.append("index") or connected())

    def n_asked(names):
        asked.clear()
        statuses(instance, definitions(), names=names)
        return len(asked)

    assert n_asked(NAMES[:3]) == n_asked(NAMES[:8])
