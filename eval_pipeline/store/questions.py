"""A connection that can read the store and nothing else, for as long as is allowed."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import duckdb
from duckdb import StatementType

from eval_pipeline.errors import RefusedError, UsageError
from eval_pipeline.store.engine import interruptible
from eval_pipeline.store.open import Connection
from eval_pipeline.store.project import Project

# A pivot is several statements in one.
QUESTIONS = (
    StatementType.SELECT,
    StatementType.EXPLAIN,
    StatementType.PRAGMA,
    StatementType.CALL,
    StatementType.MULTI,
)
# What begins with one of these writes nothing; DuckDB gives no kind to what stands below an `explain` or in a pivot.
FIRST_WORDS = frozenset(
    ("select", "from", "with", "values", "table", "pivot", "unpivot", "describe", "desc", "show", "summarize")
)
EXPLAINING = ("explain", "analyze", "analyse", "verbose")
BATCH_ROWS = 1000


Answer = tuple[list[str], Iterator[tuple[Any, ...]]]


@contextmanager
def asking_store(project: Project, sql: str, *, timeout: float = 0) -> Iterator[Answer]:
    """Run somebody's SQL without files, network, extensions and settings, for so many seconds at most (0: any).

    Rows come as they are asked for, nothing holds all of them; writers wait for the end of the block.
    """
    with (
        project.read(for_others=True) as store,
        interruptible(store.con),
        _time_limit(store.con, timeout),
    ):
        yield _ask(store.con, sql)


def _ask(con: Connection, sql: str) -> Answer:
    con.execute("set enable_external_access = false")
    con.execute("set lock_configuration = true")
    with _mistakes_are_the_askers():
        statements = con.extract_statements(sql)
        if len(statements) != 1:
            raise UsageError(f"expected one SQL statement, got {len(statements)}: ask one question at a time")
        if not _is_question(statements[0]):
            raise UsageError(
                "this is no question: `query` only reads; `load`, `run` and `forget` change the store"
            )
        cursor = con.execute(statements[0])
        columns = _distinct([column[0] for column in cursor.description or []])
    return columns, _rows(cursor)


def _rows(cursor: Connection) -> Iterator[tuple[Any, ...]]:
    with _mistakes_are_the_askers():
        while rows := cursor.fetchmany(BATCH_ROWS):
            yield from rows


@contextmanager
def _mistakes_are_the_askers() -> Iterator[None]:
    try:
        yield
    except duckdb.InterruptException:
        raise
    except duckdb.OutOfMemoryException as error:
        # With its cause it would count as trouble with the store's disk.
        said = f"this needs more memory than there is ({str(error).splitlines()[0]}): ask for less at a time"
        raise UsageError(said) from None
    except duckdb.Error as error:
        raise UsageError(str(error).strip()) from error


@contextmanager
def _time_limit(con: Connection, seconds: float) -> Iterator[None]:
    """Give up what the block does after so many seconds, also where it waits for a reader of its output; 0: never.

    Only the main thread can be stopped while it waits; elsewhere it is the statement that is given up.
    """
    if not seconds:
        yield
        return
    main = threading.main_thread()
    is_over, is_left = threading.Event(), threading.Event()

    def end() -> None:
        is_over.set()
        con.interrupt()
        if is_main and main.ident:
            signal.pthread_kill(main.ident, signal.SIGALRM)

    def stop(_number: int, _frame: FrameType | None) -> None:
        if not is_left.is_set():
            raise _out_of_time(seconds)

    is_main = threading.current_thread() is main
    before = signal.signal(signal.SIGALRM, stop) if is_main else None
    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    except Exception as error:
        # The statement says that it was interrupted, not by what.
        if is_over.is_set() and not isinstance(error, RefusedError):
            raise _out_of_time(seconds) from None
        raise
    finally:
        is_left.set()
        timer.cancel()
        timer.join()
        if is_main:
            signal.signal(signal.SIGALRM, before)


def _out_of_time(seconds: float) -> RefusedError:
    return RefusedError(
        f"the question took longer than {seconds:g} s and was given up, because nobody can write to the store while "
        "it is read: ask for less, allow more with --timeout SECONDS (0: as long as it takes), or ask a copy that "
        "`eval-pipeline backup TO` makes"
    )


def _is_question(statement: duckdb.Statement) -> bool:
    try:
        kind = statement.type
    except ValueError:
        # A kind of statement that DuckDB's Python has no name for.
        return False
    if kind in (StatementType.EXPLAIN, StatementType.MULTI):
        return _first_word(_words(statement.query)) in FIRST_WORDS
    return kind in QUESTIONS


def _words(sql: str) -> list[str]:
    """The tokens without comments, as DuckDB cuts them, in lower case."""
    cuts = duckdb.tokenize(sql)
    ends = [*(place for place, _ in cuts[1:]), len(sql)]
    return [
        sql[start:end].strip().lower()
        for (start, kind), end in zip(cuts, ends, strict=True)
        if kind != duckdb.token_type.comment
    ]


def _first_word(words: list[str]) -> str:
    """What is asked, below `explain` and its options in parentheses."""
    place = 0
    while place < len(words) and words[place] in EXPLAINING:
        place += 1
    rest = words[place:]
    first = next((word for word in rest if word != "("), "")
    if rest[:1] == ["("] and first not in FIRST_WORDS and ")" in rest:
        return _first_word(rest[rest.index(")") + 1 :])
    return first


def _distinct(names: list[str]) -> list[str]:
    """A column whose name is taken gets a number behind it, so that no value is lost in an object of its row."""
    found: list[str] = []
    for name in names:
        free = name
        number = 1
        while free in found:
            free = f"{name}_{number}"
            number += 1
        found.append(free)
    return found
