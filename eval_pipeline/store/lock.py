"""Who may use the store's file, one writer or many readers, until their process ends."""

# DuckDB lets no other process open a file that a writer has open, and a reader keeps writers out. So both ask here
# first. A second lock is the turnstile: a waiting writer holds it, new readers queue behind it, and nobody starves.

from __future__ import annotations

import datetime as dt
import json
import os
import secrets
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import portalocker

from eval_pipeline.errors import StoreBusy

POLL_SECONDS = 0.01
PATIENCE_SECONDS = 60.0
SAY_AFTER_SECONDS = 2.0

Notify = Callable[[str], None]
Clock = Callable[[], dt.datetime]


@contextmanager
def writer_lock(
    db: Path, clock: Clock, *, notify: Notify | None = None, patience: float = PATIENCE_SECONDS
) -> Iterator[None]:
    """Keep everybody else out of the store for the length of the block."""
    with _open(db, "turn") as turn, _open(db, "lock") as lock:
        _acquire(turn, portalocker.LockFlags.EXCLUSIVE, db=db, clock=clock, notify=notify, patience=patience)
        _acquire(lock, portalocker.LockFlags.EXCLUSIVE, db=db, clock=clock, notify=notify, patience=patience)
        portalocker.unlock(turn)
        _erase(lock)
        _write(lock, _signature(clock))
        try:
            yield
        finally:
            _erase(lock)
            portalocker.unlock(lock)


@contextmanager
def reader_lock(
    db: Path, clock: Clock, *, notify: Notify | None = None, patience: float = PATIENCE_SECONDS
) -> Iterator[None]:
    """Keep writers out of the store for the length of the block."""
    with _open(db, "turn") as turn, _open(db, "lock") as lock:
        _acquire(turn, portalocker.LockFlags.SHARED, db=db, clock=clock, notify=notify, patience=patience)
        _acquire(lock, portalocker.LockFlags.SHARED, db=db, clock=clock, notify=notify, patience=patience)
        portalocker.unlock(turn)
        signature = _signature(clock)
        _write(lock, signature)
        try:
            yield
        finally:
            _sign_off(lock, signature)
            portalocker.unlock(lock)


def yield_lock() -> None:
    """Between two batches of one long job: longer than anybody's poll, so that whoever waits gets a turn."""
    time.sleep(3 * POLL_SECONDS)


def holder(db: Path, clock: Clock) -> str | None:
    """Who holds the store, in words, as far as they said; what a dead process said holds no more."""
    found = holders(db)
    if not found:
        return None
    first = min(found, key=lambda one: one.since)
    others = f", and {len(found) - 1} more" if len(found) > 1 else ""
    return f"process {first.pid} ({first.command}), for {first.seconds(clock):.0f} s{others}"


@dataclass(frozen=True)
class Holder:
    """A process that uses the store: the writer, or one of the readers."""

    pid: int
    command: str
    since: float

    def seconds(self, clock: Clock) -> float:
        """For how long."""
        return max(0.0, _timestamp(clock) - self.since)


def holders(db: Path) -> list[Holder]:
    """Everybody who signed the lock, lives, and did not sign off."""
    try:
        lines = _path(db, "lock").read_text("utf-8").splitlines()
    except (OSError, ValueError):
        return []
    found: dict[str, Holder] = {}
    for line in lines:
        try:
            said = json.loads(line)
            one = Holder(said["pid"], said["command"], said["since"])
        except (ValueError, KeyError, TypeError):
            # Somebody is writing it just now.
            continue
        if said.get("done"):
            found.pop(said["id"], None)
        elif _is_alive(one.pid):
            # Earlier versions sign without an id, and by themselves.
            found[said.get("id", "")] = one
    return list(found.values())


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _is_used_here(db: Path) -> bool:
    """Whether a lock file says that this is a store, and was used where it lies."""
    return _path(db, "lock").exists()


def _is_locked_here(db: Path) -> bool:
    """Whether both locks lie beside the store, so that taking them puts nothing there."""
    return _path(db, "lock").exists() and _path(db, "turn").exists()


def _mark_used(db: Path) -> None:
    """Put the lock file there."""
    _open(db, "lock").close()


def _path(db: Path, kind: str) -> Path:
    return db.with_name(f"{db.name}.{kind}")


def _open(db: Path, kind: str) -> IO[str]:
    return _path(db, kind).open("a+", encoding="utf-8")


def _acquire(
    file: IO[str],
    flags: portalocker.LockFlags,
    *,
    db: Path,
    clock: Clock,
    notify: Notify | None,
    patience: float,
) -> None:
    started = time.monotonic()
    said = False
    while True:
        try:
            portalocker.lock(file, flags | portalocker.LockFlags.NON_BLOCKING)
            return
        except (portalocker.AlreadyLocked, portalocker.LockException) as error:
            waited = time.monotonic() - started
            who = holder(db, clock) or "another process"
            if waited > patience:
                raise StoreBusy(
                    f"{db} is in use by {who}; waited {waited:.0f} s. Try again when it has finished."
                ) from error
            if notify and not said and waited > SAY_AFTER_SECONDS:
                notify(f"waiting for {who} to give the store up …")
                said = True
        time.sleep(POLL_SECONDS)


def _timestamp(clock: Clock) -> float:
    return clock().replace(tzinfo=dt.UTC).timestamp()


def _signature(clock: Clock) -> dict[str, object]:
    command = " ".join([Path(sys.argv[0]).name, *sys.argv[1:2]]).strip() or "python"
    return {"pid": os.getpid(), "command": command, "since": _timestamp(clock), "id": secrets.token_hex(8)}


def _write(lock: IO[str], signature: Mapping[str, object]) -> None:
    """A line at the end, in one piece: readers sign side by side."""
    lock.write(json.dumps(signature) + "\n")
    lock.flush()


def _sign_off(lock: IO[str], signature: Mapping[str, object]) -> None:
    """The last reader leaves nothing behind; before that a line says who is done."""
    try:
        portalocker.lock(lock, portalocker.LockFlags.EXCLUSIVE | portalocker.LockFlags.NON_BLOCKING)
    except (portalocker.AlreadyLocked, portalocker.LockException):
        _write(lock, {**signature, "done": True})
    else:
        _erase(lock)


def _erase(lock: IO[str]) -> None:
    lock.seek(0)
    lock.truncate()
    lock.flush()
