"""Somebody asks for the end while a statement runs that would take a day."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import duckdb
import pytest

from eval_pipeline.store.engine import interruptible

ENDLESS = (
    "select count(*) from (select ring() as rung) as r, range(20000) as a, range(20000) as b, range(100) as c "
    "where a.range * b.range % 7 = c.range + r.rung"
)


class Ended(BaseException):
    """What the program's own handler raises."""


@pytest.fixture(params=[signal.SIGINT, signal.SIGTERM])
def number(request: pytest.FixtureRequest) -> Iterator[signal.Signals]:
    before = signal.getsignal(request.param)
    yield request.param
    signal.signal(request.param, before)


@pytest.fixture
def con(number: signal.Signals) -> Iterator[duckdb.DuckDBPyConnection]:
    """Its function `ring` sends the signal from within the statement."""

    def ring() -> int:
        os.kill(os.getpid(), number)
        return 0

    with duckdb.connect() as connection:
        connection.create_function("ring", ring, [], "integer", side_effects=True)  # type: ignore[arg-type]
        yield connection


def test_the_statement_is_given_up_and_what_the_program_does_then_happens(number, con) -> None:
    def end(*_: object) -> None:
        raise Ended

    signal.signal(number, end)
    with pytest.raises(Ended), interruptible(con):
        con.execute(ENDLESS)
    assert signal.getsignal(number) is end
    assert con.execute("select 1").fetchall() == [(1,)]


def test_a_program_that_only_takes_note_is_interrupted_all_the_same(number, con) -> None:
    noted: list[int] = []
    signal.signal(number, lambda told, _: noted.append(told))
    with pytest.raises(KeyboardInterrupt), interruptible(con):
        con.execute(ENDLESS)
    assert noted == [number]


def test_an_error_of_the_statement_stays_what_it_is(number, con) -> None:
    with pytest.raises(duckdb.CatalogException), interruptible(con):
        con.execute("from nowhere")
