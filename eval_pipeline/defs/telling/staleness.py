"""Dagster's own stale marks for all partitions of an asset at once."""

# To answer `staleStatusByPartition` Dagster asks the storage for every partition and everything it reads: for the
# aggregates of 10,000 runs, which read some thirty tables, that are 300,000 questions, and no other page is answered
# meanwhile. Here the same is decided from a few statements for each table. The rule is Dagster's
# (CachingStaleStatusResolver); what is not told apart here is asked as before: other kinds of dependencies, and events
# without what they were made of.

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import dagster as dg
import sqlalchemy as sa
from dagster._core.definitions.data_version import (
    DATA_VERSION_TAG,
    SKIP_PARTITION_DATA_VERSION_DEPENDENCY_THRESHOLD,
    CachingStaleStatusResolver,
    DataProvenance,
    StaleStatus,
)
from dagster._core.storage.event_log.schema import SqlEventLogStorageTable
from dagster._core.storage.event_log.sql_event_log import SqlEventLogStorage

MATERIALIZED = dg.DagsterEventType.ASSET_MATERIALIZATION
Statuses = Mapping[str, StaleStatus]
Tags = Mapping[str, str]


def answer_staleness_at_once() -> None:
    """Have this process answer for all partitions from the second question about an asset in one request on."""
    one_by_one = CachingStaleStatusResolver.get_status

    def get_status(
        self: CachingStaleStatusResolver, key: dg.AssetKey, partition_key: str | None = None
    ) -> StaleStatus:
        known = _known(self, key) if partition_key else {}
        found = known.get(partition_key) if partition_key else None
        return found or one_by_one(self, key, partition_key)

    CachingStaleStatusResolver.get_status = get_status  # type: ignore[method-assign]


def _known(resolver: Any, key: dg.AssetKey) -> Statuses:
    """What is known of an asset in this request; a page that asks about one partition does not wait for all."""
    asked: dict[dg.AssetKey, Statuses | None] = resolver.__dict__.setdefault("_asked_at_once", {})
    if key not in asked:
        asked[key] = None
        return {}
    known = asked[key]
    if known is None:
        known = asked[key] = _statuses_of(resolver, key)
    return known


def _statuses_of(resolver: Any, key: dg.AssetKey) -> Statuses:
    """The statuses of what is materialized, as far as they can be told here; what never was, Dagster knows at once."""
    graph, instance = resolver.asset_graph, resolver._instance
    node, storage = graph.get(key), instance.event_log_storage
    if not isinstance(storage, SqlEventLogStorage) or node.is_external or node.is_virtual:
        return {}
    inputs = [_input_of(storage, graph, key, parent, instance) for parent in node.parent_keys]
    known = [one for one in inputs if one is not None]
    if len(known) < len(inputs):
        return {}
    made_of: dict[Any, DataProvenance | None] = {}
    found = {}
    for partition, tags in _latest_tags(storage, key).items():
        # Those of a step are the same for all its partitions.
        same = tuple(tags.items())
        if same not in made_of:
            made_of[same] = DataProvenance.from_tags(tags)
        provenance = made_of[same]
        if provenance is not None:
            is_stale = (
                (node.code_version and node.code_version != provenance.code_version)
                or not provenance.input_data_versions.keys() <= set(node.parent_keys)
                or any(one.has_changed(provenance, partition) for one in known)
            )
            found[partition] = StaleStatus.STALE if is_stale else StaleStatus.FRESH
    return found


@dataclass
class _Input:
    """What an asset reads: the partition of the same name, or where there are `fixed` ones each of these."""

    storage: SqlEventLogStorage
    key: dg.AssetKey
    latest: Mapping[str, int]
    fixed: Sequence[str] | None
    _versions: dict[int | None, Mapping[str, Tags]] = field(default_factory=dict)

    def has_changed(self, provenance: DataProvenance, partition: str) -> bool:
        """Whether it is something else than what the events say that it was."""
        read = [partition] if self.fixed is None else self.fixed
        if read and not provenance.has_input_asset(self.key):
            return True
        cursor = provenance.input_storage_ids.get(self.key)
        return any(
            cursor and self.latest.get(one, 0) > cursor and self._version(one, cursor) != self._version(one)
            for one in read
        )

    def _version(self, partition: str, until: int | None = None) -> str | None:
        if until not in self._versions:
            self._versions[until] = _latest_tags(self.storage, self.key, until)
        return self._versions[until].get(partition, {}).get(DATA_VERSION_TAG)


def _input_of(
    storage: SqlEventLogStorage,
    graph: Any,
    key: dg.AssetKey,
    parent: dg.AssetKey,
    partitions: dg.DagsterInstance,
) -> _Input | None:
    """None where it cannot be told here."""
    node, fixed = graph.get(parent), None
    if node.is_external or node.is_virtual or not node.is_partitioned:
        return None
    mapping = graph.get_partition_mapping(key, parent)
    if isinstance(mapping, dg.AllPartitionMapping):
        fixed = node.partitions_def.get_partition_keys(dynamic_partitions_store=partitions)
        if len(fixed) >= SKIP_PARTITION_DATA_VERSION_DEPENDENCY_THRESHOLD:
            fixed = []
    elif (
        not isinstance(mapping, dg.IdentityPartitionMapping)
        or node.partitions_def != graph.get(key).partitions_def
    ):
        return None
    latest = storage.get_latest_storage_id_by_partition(parent, MATERIALIZED)
    return _Input(storage, parent, latest, fixed)


def _latest_tags(storage: SqlEventLogStorage, key: dg.AssetKey, until: int | None = None) -> dict[str, Tags]:
    """The tags of each partition's latest materialization, or of that up to an event; they are kept in it for good."""
    table = SqlEventLogStorageTable.c
    newest = storage._latest_event_ids_by_partition_subquery(
        key, [MATERIALIZED], before_cursor=until + 1 if until else None
    )
    asked = sa.select(newest.c.partition, table.event).join_from(
        newest, SqlEventLogStorageTable, table.id == newest.c.id
    )
    with storage.index_connection() as connection:
        return {partition: _tags_in(event) for partition, event in connection.execute(asked)}


def _tags_in(event: str) -> Tags:
    data = json.loads(event)["dagster_event"]["event_specific_data"]
    tags: Tags | None = data["materialization"]["tags"]
    return tags or {}
