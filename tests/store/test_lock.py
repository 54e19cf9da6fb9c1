"""Writers exclude everybody, readers share, nobody starves, and a process that dies lets go."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest

from eval_pipeline.errors import StoreBusy
from eval_pipeline.settings import utc_now
from eval_pipeline.store import lock
from eval_pipeline.store.lock import holder, holders, reader_lock, writer_lock

pytestmark = pytest.mark.needs_process

HOLD = """
import sys
from pathlib import Path
from eval_pipeline.settings import utc_now
from eval_pipeline.store import lock
sys.argv[0] = "holder"
with getattr(lock, sys.argv[2])(Path(sys.argv[1]), utc_now):
    print("held", flush=True)
    sys.stdin.readline()
print("let go", flush=True)
"""

KEEP_READING = """
import sys
from pathlib import Path
from eval_pipeline.settings import utc_now
from eval_pipeline.store.lock import reader_lock
print("reading", flush=True)
while True:
    with reader_lock(Path(sys.argv[1]), utc_now):
        sum(range(20_000))
"""

SOON = {"patience": 0.0}
LONG_ENOUGH = {"patience": 50.0}


@pytest.fixture
def db(tmp_path):
    return tmp_path / "e.duckdb"


@contextmanager
def process(program, *arguments):
    child = subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield child
    finally:
        child.kill()
        child.wait()
        child.stdin.close()
        child.stdout.close()


@contextmanager
def held_elsewhere(db, kind):
    with process(HOLD, db, kind) as child:
        assert child.stdout.readline() == "held\n"
        yield child


def let_go(child):
    child.stdin.write("\n")
    child.stdin.flush()
    assert child.stdout.readline() == "let go\n"


@pytest.mark.parametrize("mine", [writer_lock, reader_lock])
def test_a_writer_keeps_everybody_else_out_until_it_lets_go(db, mine):
    with held_elsewhere(db, "writer_lock") as child:
        with pytest.raises(StoreBusy), mine(db, utc_now, **SOON):
            pass
        let_go(child)
        with mine(db, utc_now, **SOON):
            pass


def test_readers_share_and_keep_writers_out(db):
    with held_elsewhere(db, "reader_lock") as first, held_elsewhere(db, "reader_lock") as second:
        with reader_lock(db, utc_now, **SOON):
            pass
        let_go(first)
        with pytest.raises(StoreBusy), writer_lock(db, utc_now, **SOON):
            pass
        let_go(second)
        with writer_lock(db, utc_now, **SOON):
            pass


def test_two_threads_of_one_process_exclude_each_other_too(db):
    refused = []

    def try_to_write():
        try:
            with writer_lock(db, utc_now, **SOON):
                pass
        except StoreBusy as busy:
            refused.append(busy)

    with writer_lock(db, utc_now):
        thread = threading.Thread(target=try_to_write)
        thread.start()
        thread.join()
    assert len(refused) == 1


@pytest.mark.parametrize("kind", ["writer_lock", "reader_lock"])
def test_a_killed_holder_blocks_nobody(db, kind):
    with held_elsewhere(db, kind) as child:
        child.kill()
        child.wait()
        with writer_lock(db, utc_now, **SOON):
            pass


@pytest.mark.parametrize("kind", ["writer_lock", "reader_lock"])
def test_the_holder_is_named_by_process_and_command(db, kind):
    with held_elsewhere(db, kind) as child:
        with (
            pytest.raises(StoreBusy, match=rf"process {child.pid} \(holder .*\), for \d+ s") as caught,
            writer_lock(db, utc_now, **SOON),
        ):
            pass
        assert str(db) in str(caught.value)
        assert "Try again" in str(caught.value)


def test_who_waits_is_told_once_for_whom(db, monkeypatch):
    monkeypatch.setattr(lock, "SAY_AFTER_SECONDS", -1.0)
    said = []
    with (
        held_elsewhere(db, "writer_lock") as child,
        pytest.raises(StoreBusy),
        writer_lock(db, utc_now, patience=0.1, notify=said.append),
    ):
        pass
    assert len(said) == 1
    assert f"process {child.pid}" in said[0]


def test_nobody_is_named_once_the_writer_is_done_or_dead(db):
    with writer_lock(db, utc_now):
        assert f"process {os.getpid()}" in (holder(db, utc_now) or "")
    assert holder(db, utc_now) is None
    with held_elsewhere(db, "writer_lock") as child:
        child.kill()
        child.wait()
        assert holder(db, utc_now) is None


def test_of_many_readers_those_are_named_that_still_read(db):
    with held_elsewhere(db, "reader_lock") as first, held_elsewhere(db, "reader_lock") as second:
        with reader_lock(db, utc_now):
            pass
        assert {one.pid for one in holders(db)} == {first.pid, second.pid}
        let_go(first)
        with pytest.raises(StoreBusy, match=f"process {second.pid} "), writer_lock(db, utc_now, **SOON):
            pass
        let_go(second)
    assert holders(db) == []


def test_readers_that_come_and_go_leave_nothing_behind(db):
    for _ in range(20):
        with reader_lock(db, utc_now):
            pass
    assert db.with_name(db.name + ".lock").stat().st_size == 0


def test_new_readers_queue_behind_a_waiting_writer(db):
    with held_elsewhere(db, "reader_lock") as reading, process(HOLD, db, "writer_lock") as waiting:
        while not queue_stands(db):
            pass
        let_go(reading)
        assert waiting.stdout.readline() == "held\n"
        let_go(waiting)
        with reader_lock(db, utc_now, **LONG_ENOUGH):
            pass


def queue_stands(db):
    """Whether a reader that comes now has to wait."""
    try:
        with reader_lock(db, utc_now, **SOON):
            return False
    except StoreBusy:
        return True


def test_readers_that_never_pause_do_not_starve_a_writer(db):
    with process(KEEP_READING, db) as one, process(KEEP_READING, db) as other:
        assert (one.stdout.readline(), other.stdout.readline()) == ("reading\n", "reading\n")
        for _ in range(5):
            with writer_lock(db, utc_now, **LONG_ENOUGH):
                pass
        assert (one.poll(), other.poll()) == (None, None)
