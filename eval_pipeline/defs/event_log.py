"""Dagster's SQLite storage for a command that computes many partitions at once."""

# Dagster's own opens a connection for every event; a range over a thousand runs has a thousand events per table. Here a
# connection stays open and the events of a table are written together. The files are the same, whoever reads them.

from __future__ import annotations

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
from dagster._core.storage.sqlite_storage import DagsterSqliteStorage
from dagster._serdes import ConfigurableClassData

OPEN_FILES = 8
# To keep what is printed, too, Dagster would start processes of its own for every run, half a second long.
PRINTED_ON_THE_TERMINAL: Final[Mapping[str, Any]] = {
    "module": "dagster._core.storage.noop_compute_log_manager",
    "class": "NoOpComputeLogManager",
    "config": {},
}
OWN_STORAGE = ("storage", "run_storage", "event_log_storage", "schedule_storage", "instance_class")


class OpenEventLog(SqliteEventLogStorage):
    """Keeps its files open, and writes a batch of asset events in one transaction per file."""

    def __init__(self, base_dir: str, inst_data: ConfigurableClassData | None = None) -> None:
        self._engines: dict[str, sa.Engine] = {}
        self._seen_partitions: set[tuple[str, str]] = set()
        super().__init__(base_dir, inst_data)

    @contextmanager
    def _connect(self, shard: str) -> Iterator[sa.Connection]:
        with self._db_lock:
            engine = self._engine(shard)
            if shard not in self._initialized_dbs:
                self._initdb(engine)
                self._initialized_dbs.add(shard)
            with engine.connect() as connection, connection.begin():
                yield connection

    def _engine(self, shard: str) -> sa.Engine:
        if shard not in self._engines:
            while len(self._engines) >= OPEN_FILES:
                self._engines.pop(next(iter(self._engines))).dispose()
            self._engines[shard] = sa.create_engine(
                self.conn_string_for_shard(shard), connect_args={"timeout": SQLITE_BUSY_TIMEOUT_SECONDS}
            )
        return self._engines[shard]

    def has_dynamic_partition(self, partitions_def_name: str, partition_key: str) -> bool:
        """Asked twice for every event about the same few runs; what was there once is not looked up again."""
        named = (partitions_def_name, partition_key)
        if named not in self._seen_partitions and super().has_dynamic_partition(*named):
            self._seen_partitions.add(named)
        return named in self._seen_partitions

    def delete_dynamic_partition(self, partitions_def_name: str, partition_key: str) -> None:
        """A run that is forgotten leaves the partitions."""
        self._seen_partitions.discard((partitions_def_name, partition_key))
        super().delete_dynamic_partition(partitions_def_name, partition_key)

    def store_event_batch(self, events: Sequence[dg.EventLogEntry]) -> None:
        """Dagster falls back to single events when this fails."""
        by_run: dict[str, list[dg.EventLogEntry]] = {}
        for event in events:
            if event.is_dagster_event and event.dagster_event_type in ASSET_EVENTS:
                by_run.setdefault(event.run_id, []).append(event)
            else:
                self.store_event(event)
        for run_id, asset_events in by_run.items():
            self._store_asset_events(run_id, asset_events)

    def _store_asset_events(self, run_id: str, events: Sequence[dg.EventLogEntry]) -> None:
        rows = [self._event_to_row(event) for event in events]
        insert = SqlEventLogStorageTable.insert()
        with self.run_connection(run_id) as connection:
            connection.execute(insert, rows)
        with self.index_transaction() as connection:
            ids = [_inserted_id(connection.execute(insert, row)) for row in rows]
            self._store_asset_event_tags(connection, events, ids)
            latest = {row["asset_key"]: place for place, row in enumerate(rows)}
            for place in latest.values():
                self._store_asset_event(connection, events[place], ids[place])

    def dispose(self) -> None:
        """Close the files."""
        for engine in self._engines.values():
            engine.dispose()
        self._engines.clear()
        super().dispose()


def _inserted_id(result: sa.CursorResult[Any]) -> int:
    key = result.inserted_primary_key
    assert key is not None
    return int(key[0])


class OpenStorage(DagsterSqliteStorage):
    """Dagster's SQLite storage with that event log."""

    def __init__(self, base_dir: str, inst_data: ConfigurableClassData | None = None) -> None:
        super().__init__(base_dir, inst_data)
        self._event_log_storage = OpenEventLog(self._event_log_storage._base_dir)

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData | None, config_value: Any) -> OpenStorage:
        """Made from the configuration that `open_home` writes."""
        return cls(config_value["base_dir"], inst_data)


def open_home(home: Path) -> dg.DagsterInstance:
    """The instance of a home; where one says how it stores its events or what is printed, it keeps to that."""
    said = yaml.safe_load((home / "dagster.yaml").read_text("utf-8")) or {}
    overrides: dict[str, Any] = {}
    if not any(name in said for name in OWN_STORAGE):
        config = {"module": __name__, "class": OpenStorage.__name__, "config": {"base_dir": str(home)}}
        overrides["storage"] = {"custom": config}
    if "compute_logs" not in said:
        overrides["compute_logs"] = PRINTED_ON_THE_TERMINAL
    with _one_at_a_time(home):
        return dg.DagsterInstance.from_ref(InstanceRef.from_dir(str(home), overrides=overrides))


@contextmanager
def _one_at_a_time(home: Path) -> Iterator[None]:
    """Two commands that open a new home at once would both make its tables, and one of them would fail."""
    with (home / "opening.lock").open("a+", encoding="utf-8") as file:
        portalocker.lock(file, portalocker.LockFlags.EXCLUSIVE)
        yield
