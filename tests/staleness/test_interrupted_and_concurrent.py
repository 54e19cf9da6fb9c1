"""An apply that is killed, and two at once: real processes, and the same tables as if nothing had happened."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap

import pytest
from click.testing import CliRunner

from eval_pipeline.cli.main import cli
from eval_pipeline.store.connect import open_reader

from .conftest import World, copy_of

Row = tuple[object, ...]
RANK = "metrics/reciprocal_rank.sql"
# What differs between two computations of the same thing.
NOT_COMPARED = {"seconds", "computed_at", "valid_from", "valid_to", "dagster_run_id", "first_used_at", "at"}
SCHEMAS = ("facts", "metrics", "aggregates", "ledger")

KILLED = textwrap.dedent(
    """
    import os, signal, sys
    from eval_pipeline.pipeline import measure

    record, waiting = measure.record_cells, [int(sys.argv.pop(1))]

    def record_or_die(*args, **kwargs):
        waiting[0] -= 1
        if not waiting[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        record(*args, **kwargs)

    measure.record_cells = record_or_die
    """
)
THROUGH_DAGSTER = "from eval_pipeline.cli.main import main\nmain()\n"
WITHOUT_DAGSTER = textwrap.dedent(
    """
    import datetime as dt
    from eval_pipeline.formulas.registry import load_registry
    from eval_pipeline.settings import load_settings

    settings = load_settings()
    now = dt.datetime.now(dt.UTC).replace(tzinfo=None)
    measure.measure(settings, load_registry(settings), now=now, reasons=None, note="halved")
    """
)


def change(world: World) -> None:
    world.overlay(RANK, ("cast(1 as double)", "cast(0.5 as double)"), ("-- version: 1", "-- version: 2"))


def environment(world: World) -> dict[str, str]:
    return {
        **os.environ,
        "EVAL_PIPELINE_DB": str(world.settings.db),
        "EVAL_PIPELINE_CONFIG": str(world.settings.config),
        "EVAL_PIPELINE_SQL": str(world.own_sql),
        "EVAL_PIPELINE_INBOX": str(world.folder / "inbox"),
        "DAGSTER_HOME": str(world.folder / "dagster_home"),
    }


def start_apply(world: World, *program: str) -> subprocess.Popen[str]:
    command = [sys.executable, *(program or ("-m", "eval_pipeline")), "apply", "--reason", "halved"]
    return subprocess.Popen(
        command,
        env=environment(world),
        cwd=world.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> None:
    try:
        printed, _ = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 0, printed


def contents(world: World) -> dict[str, list[Row]]:
    """Every derived row, and the ledger with its history, but for what clocks and chance say."""
    found = {}
    with open_reader(world.settings.db) as con:
        for schema, table in con.execute(
            "select schema_name, table_name from duckdb_tables() where list_contains(?, schema_name)",
            [list(SCHEMAS)],
        ).fetchall():
            columns = [
                name
                for name, *_ in con.execute(f'describe {schema}."{table}"').fetchall()
                if name not in NOT_COMPARED
            ]
            chosen = ", ".join(f'"{name}"' for name in columns)
            found[f"{schema}.{table}"] = con.execute(
                f'select {chosen} from {schema}."{table}" order by all'
            ).fetchall()
    return found


@pytest.fixture(scope="module")
def applied(tmp_path_factory, computed_world):
    """What the store holds once everything was computed without any disturbance."""
    world = copy_of(computed_world, tmp_path_factory.mktemp("undisturbed"))
    change(world)
    world.compute(everything=True, note="halved")
    return contents(world)


def kill(world: World, program: str, place: int) -> None:
    """Run the program until the store is about to hear of the computation with this number, and not further."""
    killed = start_apply(world, "-c", KILLED + program, str(place))
    killed.communicate(timeout=120)
    assert killed.returncode == -signal.SIGKILL


def assert_no_half_run(world: World, old: list[Row], new: list[Row]) -> None:
    between = contents(world)["metrics.reciprocal_rank"]
    for run_key in {row[0] for row in old}:
        rows, before, after = ([row for row in table if row[0] == run_key] for table in (between, old, new))
        assert rows in (before, after)


@pytest.mark.parametrize("place", [1, 3])
def test_what_is_killed_within_a_transaction_is_done_by_the_next(world, applied, place):
    """Within the first formula's rows of one dataset, and within those of the other."""
    old, new = contents(world)["metrics.reciprocal_rank"], applied["metrics.reciprocal_rank"]
    change(world)
    kill(world, WITHOUT_DAGSTER, place)
    assert_no_half_run(world, old, new)
    world.compute(everything=True, note="halved")
    assert contents(world) == applied


def test_an_apply_that_is_killed_blocks_nothing_and_the_next_ends_with_the_same_tables(world, applied):
    old, new = contents(world)["metrics.reciprocal_rank"], applied["metrics.reciprocal_rank"]
    change(world)
    kill(world, THROUGH_DAGSTER, 2)
    assert_no_half_run(world, old, new)
    following = CliRunner().invoke(cli, ["apply", "--reason", "halved"], env=environment(world))
    assert following.exit_code == 0, following.output
    assert "waiting" not in following.output
    assert contents(world) == applied
    assert world.plan() == {}


def test_two_applies_at_once_both_succeed_and_keep_every_replaced_value_once(world, applied):
    change(world)
    both = [start_apply(world), start_apply(world)]
    for process in both:
        finish(process)
    assert contents(world) == applied
    replaced = contents(world)["ledger.aggregate_history"]
    assert replaced
    assert len(replaced) == len(set(replaced))
    assert world.plan() == {}
