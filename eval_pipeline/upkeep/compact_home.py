"""Dagster's home without logs of runs that ended long ago, and without events that were replaced."""

# Only what nobody is shown any more goes: runs keep their status, every partition its latest materialization and, where
# it failed, what says so. An event counts by its number in the index, so the highest one is never given away.

from __future__ import annotations

import datetime as dt
import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval_pipeline.errors import UsageError

INDEX = "index.db"
# Whoever writes meanwhile has done so after this long; servers may stay up.
PATIENCE_SECONDS = 60.0
ROWS_AT_ONCE = 5_000
# Of an event of 1,400 bytes a page of the size that Dagster begins with would hold two, and leave a quarter empty.
PAGE_BYTES, LARGE_BYTES = 8_192, 10_000_000
# What stands in the event's other fields, too, and what only its process had a use for.
SAID_TWICE = ("logging_tags", "message", "pid", "solid_handle", "step_handle", "step_kind_value")
ABOUT_ITS_RUN = ("seconds", "why this partition ran")


@dataclass(frozen=True)
class CompactedHome:
    """What came of it: bytes of the whole home, runs whose logs are gone, events that are."""

    bytes_before: int
    bytes_after: int
    runs: int
    events: int


def check_home(home: Path) -> None:
    """Raise where Dagster keeps no events in files."""
    if not all(path.is_file() for path in _files_of(home)):
        raise UsageError(
            f"{home} (DAGSTER_HOME) holds no events in files: nothing to compact there. Where Dagster keeps them in a "
            "database, that has means of its own"
        )


def _files_of(home: Path) -> tuple[Path, Path]:
    return home / "history" / "runs" / INDEX, home / "history" / "runs.db"


def compact_home(home: Path, *, now: dt.datetime, days: float) -> CompactedHome:
    """Remove the logs of runs that ended more than `days` ago, and from the index what was replaced since."""
    check_home(home)
    index, history = _files_of(home)
    before = _bytes_of(home)
    ended, long_ended = _ended_runs(history, now.replace(tzinfo=dt.UTC).timestamp() - days * 86_400)
    with _opened(index) as con:
        n_events = _remove_replaced(con, ended)
        _slim(con, long_ended)
    with _opened(index) as con:
        _shrink(con, has_larger_pages=index.stat().st_size > LARGE_BYTES)
    n_runs = sum(_remove_log(home, run_id) for run_id in long_ended)
    return CompactedHome(before, _bytes_of(home), n_runs, n_events)


def _bytes_of(home: Path) -> int:
    return sum(path.stat().st_size for path in home.rglob("*") if path.is_file())


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, timeout=PATIENCE_SECONDS, isolation_level=None)) as con:
        yield con


def _ended_runs(history: Path, cutoff: float) -> tuple[list[str], list[str]]:
    """All runs that ended, and those that did so long ago."""
    with _opened(history) as con:
        rows = con.execute(
            "select run_id, coalesce(end_time, unixepoch(update_timestamp)) from runs "
            "where status in ('SUCCESS', 'FAILURE', 'CANCELED')"
        ).fetchall()
    return [run_id for run_id, _ in rows], [run_id for run_id, at in rows if at is not None and at < cutoff]


def _remove_replaced(con: sqlite3.Connection, ended: list[str]) -> int:
    """A transaction for each asset: servers write between them."""
    _name_runs(con, "ended", ended)
    con.execute("create temp table gone (id integer primary key)")
    assets = [key for (key,) in con.execute("select asset_key from asset_keys").fetchall()]
    return sum(_remove_of(con, key) for key in assets)


def _name_runs(con: sqlite3.Connection, table: str, run_ids: list[str]) -> None:
    con.execute(f"create temp table {table} (run_id text primary key)")
    con.executemany(f"insert or ignore into {table} values (?)", [(run_id,) for run_id in run_ids])


def _remove_of(con: sqlite3.Connection, asset_key: str) -> int:
    con.execute("begin immediate")
    con.execute("delete from gone")
    con.execute(_REPLACED, {"asset": asset_key})
    con.execute(_ASKED_BEFORE, {"asset": asset_key})
    con.execute(
        "delete from asset_check_executions where asset_key = ? and evaluation_event_storage_id in gone",
        [asset_key],
    )
    con.execute("delete from asset_event_tags where event_id in gone")
    n_events = con.execute("delete from event_logs where id in gone").rowcount
    con.execute("commit")
    return n_events


# Materializations that a newer one of the same partition replaced, and plans that came to something. One with the data
# version of the newest stays: by it Dagster sees that nothing has changed for whoever read it.
_VERSION = '$.dagster_event.event_specific_data.materialization.tags."dagster/data_version"'
_REPLACED = f"""
insert or ignore into gone
with own as (
    select id, run_id, dagster_event_type as kind, partition, event,
        max(id) over (partition by partition) as last,
        max(case when dagster_event_type = 'ASSET_MATERIALIZATION' then id end) over (partition by partition) as newest
    from event_logs
    where asset_key = :asset and dagster_event_type in ('ASSET_MATERIALIZATION', 'ASSET_MATERIALIZATION_PLANNED')
)
select own.id from own left join event_logs as new on new.id = own.newest
where own.id < last and own.id < (select max(id) from event_logs)
    and (own.run_id = '' or own.run_id in ended)
    and (
        kind = 'ASSET_MATERIALIZATION_PLANNED'
        or (own.id < newest and own.event ->> '{_VERSION}' is not new.event ->> '{_VERSION}')
    )
"""
# Answers of checks that were asked again since.
_ASKED_BEFORE = """
insert or ignore into gone
with own as (
    select evaluation_event_storage_id as id, run_id,
        max(id) over (partition by check_name, partition) as last, id as place
    from asset_check_executions where asset_key = :asset
)
select id from own
where id is not null and place < last and (run_id = '' or run_id in ended) and id < (select max(id) from event_logs)
"""


def _slim(con: sqlite3.Connection, run_ids: list[str]) -> None:
    """What is left of runs that ended long ago, without what it says twice or of the run alone."""
    _name_runs(con, "long_ended", run_ids)
    after = 0
    while True:
        rows = con.execute(
            "select id, event from event_logs where id > ? and dagster_event_type = 'ASSET_MATERIALIZATION' "
            "and event like '{\"__class__\": %' and run_id in long_ended order by id limit ?",
            [after, ROWS_AT_ONCE],
        ).fetchall()
        if not rows:
            return
        after = rows[-1][0]
        con.execute("begin immediate")
        con.executemany(
            "update event_logs set event = ? where id = ?", [(_slimmed(event), key) for key, event in rows]
        )
        # The tags stand in the event; Dagster looks for them here only in what is new.
        con.executemany("delete from asset_event_tags where event_id = ?", [(key,) for key, _ in rows])
        con.execute("commit")


def _slimmed(text: str) -> str:
    event: dict[str, Any] = json.loads(text)
    told = event["dagster_event"]
    made = told["event_specific_data"]["materialization"]
    made["metadata_entries"] = [
        one for one in made.get("metadata_entries", ()) if one["label"] not in ABOUT_ITS_RUN
    ]
    # A page of Dagster's wants a sentence; the event has it once more.
    event["user_message"] = event.get("user_message") or told.get("message") or ""
    event["dagster_event"] = {name: value for name, value in told.items() if name not in SAID_TWICE}
    event.pop("message", None)
    return json.dumps(event, separators=(",", ":"))


def _shrink(con: sqlite3.Connection, *, has_larger_pages: bool) -> None:
    if has_larger_pages:
        # It needs the file for oneself; where servers have it open, pages stay as they are.
        with suppress(sqlite3.OperationalError):
            con.execute("pragma journal_mode = delete").fetchall()
        con.execute(f"pragma page_size = {PAGE_BYTES}").fetchall()
    for statement in ("vacuum", "pragma journal_mode = wal", "pragma wal_checkpoint(truncate)"):
        con.execute(statement).fetchall()


def _remove_log(home: Path, run_id: str) -> bool:
    """The file of a run's events, and what was printed; whether there was one."""
    file = home / "history" / "runs" / f"{run_id}.db"
    was_there = file.exists()
    for path in (file, file.with_name(file.name + "-wal"), file.with_name(file.name + "-shm")):
        path.unlink(missing_ok=True)
    with suppress(OSError):
        shutil.rmtree(home / "storage" / run_id)
    return was_there
