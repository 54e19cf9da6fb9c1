"""An apply that is killed, and two at once: real processes, and the same tables as if nothing had happened."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator

import pytest
from click.testing import CliRunner

from eval_pipeline.cli.main import cli
from tests.few_definitions import shipping
from tests.prepared import Copy, Prepared
from tests.projects import open_reader

from .conftest import World, copy_of

Row = tuple[object, ...]
RANK = "metrics/reciprocal_rank.sql"
# What differs between two computations of the same thing.
NOT_COMPARED = {"seconds", "computed_at", "valid_from", "valid_to", "dagster_run_id", "first_used_at", "at"}
SCHEMAS = ("facts", "metrics", "aggregates", "ledger")

APPLY = ("apply", "--reason", "halved")


@pytest.fixture
def world(small_world: World) -> Iterator[World]:
    """What is interrupted is the same for few definitions as for all of them."""
    with shipping(small_world.shipped):
        yield small_world


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


Start = Callable[..., Copy]


@pytest.fixture
def start(world: World, prepared: Prepared) -> Start:
    """A function in a process of its own, on the world's store."""

    def call(function: str, *arguments: object, dagster: bool) -> Copy:
        return prepared.start(
            function,
            *arguments,
            folder=world.folder,
            shipped=world.shipped,
            environment=environment(world),
            dagster=dagster,
        )

    return call


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
def applied(tmp_path_factory, small_computed_world):
    """What the store holds once everything was computed without any disturbance."""
    world = copy_of(small_computed_world, tmp_path_factory.mktemp("undisturbed"))
    change(world)
    world.compute(everything=True, note="halved")
    return contents(world)


def kill(start: Start, place: int, *words: str) -> None:
    """Apply until the store is about to hear of the computation with this number, and not further."""
    killed = start("tests.planning.killed_within:apply_until", place, *words, dagster=bool(words))
    assert killed.wait() == -signal.SIGKILL, killed.said


def assert_no_half_run(world: World, old: list[Row], new: list[Row]) -> None:
    between = contents(world)["metrics.reciprocal_rank"]
    for run_key in {row[0] for row in old}:
        rows, before, after = ([row for row in table if row[0] == run_key] for table in (between, old, new))
        assert rows in (before, after)


@pytest.mark.parametrize("place", [1, 3])
def test_what_is_killed_within_a_transaction_is_done_by_the_next(world, start, applied, place):
    """Within the first formula's rows of one dataset, and within those of the other."""
    old, new = contents(world)["metrics.reciprocal_rank"], applied["metrics.reciprocal_rank"]
    change(world)
    kill(start, place)
    assert_no_half_run(world, old, new)
    world.compute(everything=True, note="halved")
    assert contents(world) == applied


@pytest.mark.slow
def test_an_apply_that_is_killed_blocks_nothing_and_the_next_ends_with_the_same_tables(world, start, applied):
    old, new = contents(world)["metrics.reciprocal_rank"], applied["metrics.reciprocal_rank"]
    change(world)
    kill(start, 2, *APPLY)
    assert_no_half_run(world, old, new)
    following = CliRunner().invoke(cli, APPLY, env=environment(world))
    assert following.exit_code == 0, following.output
    assert "waiting" not in following.output
    assert contents(world) == applied
    assert world.plan() == {}


def test_two_applies_at_once_both_succeed_and_keep_every_replaced_value_once(world, start, applied):
    change(world)
    both = [start("tests.prepared:command_line", *APPLY, dagster=True) for _ in range(2)]
    for process in both:
        assert process.wait() == 0, process.said
    assert contents(world) == applied
    replaced = contents(world)["ledger.aggregate_history"]
    assert replaced
    assert len(replaced) == len(set(replaced))
    assert world.plan() == {}
