"""Dagster's SQLite storage for runs of many partitions: the events of a table are written together."""

# Dagster's own opens a connection for every event; a range over a thousand runs has a thousand events per table. Here
# connections stay open, also in the web server and the daemon, and a batch is one transaction per file. The files are
# the same, whoever reads them. Of what only Dagster's index is asked for, the file of a run gets less: the inputs of
# each partition, and a line for each that is planned, would be half of its size.

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import dagster as dg
import portalocker
import sqlalchemy as sa
import yaml
from dagster._core.events import ASSET_EVENTS
from dagster._core.instance.ref import InstanceRef
from dagster._core.storage.event_log.schema import SqlEventLogStorageTable
from dagster._core.storage.event_log.sqlite.sqlite_event_log import SqliteEventLogStorage
from dagster._core.storage.sqlite import SQLITE_BUSY_TIMEOUT_SECONDS
from dagster._core.storage.sqlite_storage import DagsterSqliteStorage, _event_logs_directory
from dagster._serdes import ConfigurableClassData, serialize_value

from eval_pipeline.upkeep.dagster_home import STORAGES

OPEN_FILES = 8
# Of events of 1,400 bytes a page of 4,096 leaves a third empty. The file of a run keeps it: most of its tables and
# indexes are one page each.
INDEX_PAGE_BYTES = 8_192
# Above any range: the order of a batch's events is that of the range only where the whole of it is in one.
BATCHES: Final = ("DAGSTER_EVENT_BATCH_SIZE", "100000")
# To keep what is printed, too, Dagster would start processes of its own for every run, half a second long.
PRINTED_ON_THE_TERMINAL: Final[Mapping[str, Any]] = {
    "module": "dagster._core.storage.noop_compute_log_manager",
    "class": "NoOpComputeLogManager",
    "config": {},
}
INPUTS = "dagster/input_"
SAID_TWICE: Final[Mapping[str, Any]] = {
    "logging_tags": {},
    "message": None,
    "node_handle": None,
    "pid": None,
    "step_handle": None,
    "step_kind_value": None,
}
PLANNED = dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED
SHOWN = (dg.DagsterEventType.ASSET_MATERIALIZATION, dg.DagsterEventType.ASSET_OBSERVATION)


class OpenEventLog(SqliteEventLogStorage):
    """Keeps its files open, and writes a batch of asset events in one transaction per file."""

    def __init__(self, base_dir: str, inst_data: ConfigurableClassData | None = None) -> None:
        self._engines: dict[str, sa.Engine] = {}
        self._process = os.getpid()
        super().__init__(base_dir, inst_data)

    def _initdb(self, engine: sa.Engine, for_index_shard: bool = False) -> None:
        if for_index_shard:
            _say_to_each_connection(engine, f"pragma page_size={INDEX_PAGE_BYTES}")
        super()._initdb(engine, for_index_shard)

    @contextmanager
    def _connect(self, shard: str) -> Iterator[sa.Connection]:
        self._forget_the_parents()
        with self._db_lock:
            engine = self._engine(shard)
            if shard not in self._initialized_dbs:
                self._initdb(engine)
                self._initialized_dbs.add(shard)
            with engine.connect() as connection, connection.begin():
                yield connection

    def _forget_the_parents(self) -> None:
        """A process that was forked must not use the connections of its parent, nor wait for a thread of it."""
        if self._process != os.getpid():
            self._process = os.getpid()
            self._db_lock = threading.Lock()
            for engine in self._engines.values():
                engine.dispose(close=False)
            self._engines.clear()

    def _engine(self, shard: str) -> sa.Engine:
        if shard in self._engines and not Path(self.path_for_shard(shard)).exists():
            # Somebody has taken the file away: `compact --dagster`, or who begins anew.
            self._engines.pop(shard).dispose()
            self._initialized_dbs.discard(shard)
        if shard not in self._engines:
            while len(self._engines) >= OPEN_FILES:
                self._engines.pop(next(iter(self._engines))).dispose()
            self._engines[shard] = _engine_of(self.conn_string_for_shard(shard))
        return self._engines[shard]

    def store_event_batch(self, events: Sequence[dg.EventLogEntry]) -> None:
        """Dagster falls back to single events when this fails."""
        by_run: dict[str, list[dg.EventLogEntry]] = {}
        for event in events:
            if event.is_dagster_event and event.dagster_event_type in ASSET_EVENTS:
                by_run.setdefault(event.run_id, []).append(event)
            else:
                self.store_event(event)
        for run_id, asset_events in by_run.items():
            self._store_asset_events(run_id, apart(asset_events))

    def _store_asset_events(self, run_id: str, events: Sequence[dg.EventLogEntry]) -> None:
        whole, events = events, [_without_what_nobody_reads(event) for event in events]
        rows = [self._event_to_row(event) for event in events]
        latest = {row["asset_key"]: place for place, row in enumerate(rows)}
        insert = SqlEventLogStorageTable.insert()
        with self.run_connection(run_id) as connection:
            told = [
                row | {"event": serialize_value(_told_in_the_run(event))}
                for place, (event, row) in enumerate(zip(whole, rows, strict=True))
                if event.dagster_event_type != PLANNED or place == latest[row["asset_key"]]
            ]
            connection.execute(insert, told)
        with self.index_transaction() as connection:
            ids = [_inserted_id(connection.execute(insert, row)) for row in rows]
            self._store_asset_event_tags(connection, events, ids)
            for place in latest.values():
                self._store_asset_event(connection, events[place], ids[place])

    def dispose(self) -> None:
        """Close the files."""
        for engine in self._engines.values():
            engine.dispose()
        self._engines.clear()
        super().dispose()


def _engine_of(place: str) -> sa.Engine:
    engine = sa.create_engine(place, connect_args={"timeout": SQLITE_BUSY_TIMEOUT_SECONDS})
    # A power cut may take the last events; that a commit waits for the disk costs as much as all the rest.
    _say_to_each_connection(engine, "pragma synchronous=normal")
    return engine


def _say_to_each_connection(engine: sa.Engine, statement: str) -> None:
    sa.event.listen(engine, "connect", lambda connection, _: connection.execute(statement))


def apart(events: Sequence[dg.EventLogEntry]) -> list[dg.EventLogEntry]:
    """The events with a millisecond for each that shows a partition, in order, the last of them now.

    Dagster's page of events keeps one of every millisecond, and takes the last one for the latest.
    """
    shown = [int(event.timestamp * 1000) for event in events if event.dagster_event_type in SHOWN]
    # What was reported with times of its own keeps them.
    if all(before < after for before, after in itertools.pairwise(shown)):
        return list(events)
    n_shown = len(shown)
    now = int(max(event.timestamp for event in events) * 1000)
    found = []
    for event in events:
        if event.dagster_event_type in SHOWN:
            n_shown -= 1
            # In the middle of its millisecond, so that no rounding moves it to the next.
            found.append(event._replace(timestamp=(now - n_shown + 0.5) / 1000))
        else:
            found.append(event)
    return found


def _without_what_nobody_reads(event: dg.EventLogEntry) -> dg.EventLogEntry:
    """The event without what stands in its other fields, too: a page of the file then holds three or four, not two.

    Its sentence is kept as the entry's own; of what is planned it is read in the log of the run alone.
    """
    told = event.get_dagster_event()
    if event.dagster_event_type == PLANNED:
        return event._replace(dagster_event=told._replace(logging_tags={}, message=""))
    slim = told._replace(**SAID_TWICE)
    return event._replace(dagster_event=slim, user_message=event.user_message or told.message or "")


def _told_in_the_run(event: dg.EventLogEntry) -> dg.EventLogEntry:
    """The event without its inputs, which are asked for in the index alone."""
    if event.dagster_event_type != dg.DagsterEventType.ASSET_MATERIALIZATION:
        return event
    event = _without_what_nobody_reads(event)
    told = event.get_dagster_event()
    data = told.step_materialization_data
    one = data.materialization
    tags = {name: value for name, value in (one.tags or {}).items() if not name.startswith(INPUTS)}
    slim = data._replace(materialization=one._replace(tags=tags))
    return event._replace(dagster_event=told._replace(event_specific_data=slim))


def _inserted_id(result: sa.CursorResult[Any]) -> int:
    key = result.inserted_primary_key
    assert key is not None
    return int(key[0])


class OpenStorage(DagsterSqliteStorage):
    """Dagster's SQLite storage with that event log; every process that opens it writes in batches."""

    def __init__(self, base_dir: str, inst_data: ConfigurableClassData | None = None) -> None:
        # Before Dagster's own, which would make the files.
        event_log = OpenEventLog(_event_logs_directory(base_dir))
        super().__init__(base_dir, inst_data)
        self._event_log_storage = event_log
        os.environ.setdefault(*BATCHES)

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData | None, config_value: Any) -> OpenStorage:
        """Made from the configuration that dagster.yaml holds."""
        return cls(config_value["base_dir"], inst_data)


def open_home(home: Path) -> dg.DagsterInstance:
    """The instance of a home; where one says how it stores its events or what is printed, it keeps to that."""
    said = yaml.safe_load((home / "dagster.yaml").read_text("utf-8")) or {}
    overrides: dict[str, Any] = {}
    ours = {"module": __name__, "class": OpenStorage.__name__}
    # What is shipped names the home by a variable, which a command need not have.
    if not any(name in said for name in STORAGES) or _is_ours(said.get("storage"), ours):
        overrides["storage"] = {"custom": {**ours, "config": {"base_dir": str(home)}}}
    if "compute_logs" not in said:
        overrides["compute_logs"] = PRINTED_ON_THE_TERMINAL
    with _one_at_a_time(home):
        return dg.DagsterInstance.from_ref(InstanceRef.from_dir(str(home), overrides=overrides))


def _is_ours(storage: Any, ours: Mapping[str, str]) -> bool:
    custom = storage.get("custom") if isinstance(storage, dict) else None
    return isinstance(custom, dict) and all(custom.get(name) == value for name, value in ours.items())


@contextmanager
def _one_at_a_time(home: Path) -> Iterator[None]:
    """Two commands that open a new home at once would both make its tables, and one of them would fail."""
    with (home / "opening.lock").open("a+", encoding="utf-8") as file:
        portalocker.lock(file, portalocker.LockFlags.EXCLUSIVE)
        yield
