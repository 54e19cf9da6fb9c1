"""Dagster's PostgreSQL storage for runs of many partitions, as `event_log` is for its files."""

# Dagster's own writes what is planned event by event, three statements for each. Its tables are the same.

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg
import sqlalchemy as sa
from dagster._core.events import ASSET_EVENTS
from dagster._core.storage.config import pg_config
from dagster._core.storage.event_log.schema import SqlEventLogStorageTable
from dagster._serdes import ConfigurableClassData
from dagster_postgres import DagsterPostgresStorage, PostgresEventLogStorage
from dagster_postgres.utils import create_pg_engine, pg_url_from_config

from eval_pipeline.defs.event_log import BATCHES, apart


class OpenPostgresEventLog(PostgresEventLogStorage):  # type: ignore[misc]
    """Writes a batch of asset events in three statements."""

    def store_event_batch(self, events: Sequence[dg.EventLogEntry]) -> None:
        """Dagster falls back to single events when this fails."""
        together = [one for one in events if one.is_dagster_event and one.dagster_event_type in ASSET_EVENTS]
        if together:
            self._store_together(apart(together))
        for event in events:
            if not (event.is_dagster_event and event.dagster_event_type in ASSET_EVENTS):
                self.store_event(event)

    def _store_together(self, events: Sequence[dg.EventLogEntry]) -> None:
        insert = self.prepare_insert_event_batch(events).returning(SqlEventLogStorageTable.c.id)
        with self._connect() as connection:
            ids = [int(row[0]) for row in connection.execute(insert).fetchall()]
        latest = {event.get_dagster_event().asset_key: place for place, event in enumerate(events)}
        with self.index_transaction() as connection:
            self._store_asset_event_tags(connection, events, ids)
            for place in latest.values():
                self._store_asset_event(connection, events[place], ids[place])


def _engine_of(postgres_url: str) -> sa.Engine:
    """Connections that stay open: to open one is what most statements took; a forked process opens its own."""
    engine: sa.Engine = create_pg_engine(
        postgres_url, isolation_level="AUTOCOMMIT", pool_size=1, max_overflow=10, pool_pre_ping=True
    )
    os.register_at_fork(after_in_child=lambda: engine.dispose(close=False))
    return engine


class OpenPostgresStorage(DagsterPostgresStorage):  # type: ignore[misc]
    """Dagster's PostgreSQL storage with that event log; every process that opens it writes in batches."""

    def __init__(self, postgres_url: str, inst_data: ConfigurableClassData | None = None) -> None:
        super().__init__(postgres_url, inst_data=inst_data)
        self._event_log_storage = OpenPostgresEventLog(postgres_url)
        for one in (self._run_storage, self._event_log_storage, self._schedule_storage):
            one._engine = _engine_of(postgres_url)
        os.environ.setdefault(*BATCHES)

    @classmethod
    def config_type(cls) -> Any:
        """What Dagster's own takes."""
        return pg_config()

    @classmethod
    def from_config_value(
        cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]
    ) -> OpenPostgresStorage:
        """Made from the configuration that dagster.yaml holds."""
        return cls(pg_url_from_config(config_value), inst_data)
