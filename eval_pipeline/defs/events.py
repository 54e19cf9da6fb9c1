"""What a step shows: one event for each partition that it computed, saying what is true of that one."""

# Of a range Dagster shows every partition, and has no public way of leaving one out; what it says of each partition by
# itself takes the square of their number. So the output is marked as one whose events were made already, and they are
# made here, in order, from a first one that Dagster fills with its tags (code version, data versions of what was read).
# None of the names for that are public: where one has moved, the public way shows the whole range.

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import dagster as dg

WHY_IT_RAN = "why this partition ran"
NOTHING_TO_COMPUTE = "asked for, and there was nothing to compute"

Metadata = Mapping[str, Any]
Results = Iterator[dg.MaterializeResult[None] | dg.DagsterEvent]


def _shown_partitions(
    context: dg.AssetExecutionContext,
    key: dg.AssetKey,
    by_partition: Mapping[str, Metadata],
    *,
    version: str | None,
) -> Results:
    """The result of one asset of the step: these partitions and no others, each with its metadata.

    Without a version there is no result: what failed of the asset is not there.
    """
    try:
        events, made_already = _made_here(context, key, by_partition, version=version)
    except (ImportError, AttributeError, TypeError):
        if version is not None:
            for partition, metadata in by_partition.items():
                context.add_asset_metadata(metadata, key, partition)
            yield dg.MaterializeResult(asset_key=key, data_version=dg.DataVersion(version))
        return
    yield from events
    if version is not None:
        yield dg.MaterializeResult(asset_key=key, metadata=made_already)


def _made_here(
    context: dg.AssetExecutionContext,
    key: dg.AssetKey,
    by_partition: Mapping[str, Metadata],
    *,
    version: str | None,
) -> tuple[list[dg.DagsterEvent], Metadata]:
    """The events of the partitions, as one batch, and what a result says for Dagster to make none."""
    from dagster._core.definitions.source_asset import SYSTEM_METADATA_KEY_SOURCE_ASSET_OBSERVATION
    from dagster._core.events import DagsterEventBatchMetadata

    step = context.get_step_execution_context()
    if version is not None:
        context.set_data_version(key, dg.DataVersion(version))
    tags = _tags_of_dagster(context, key, next(iter(by_partition))) if by_partition else {}
    batch = str(uuid.uuid4())
    last = len(by_partition) - 1
    events = [
        dg.DagsterEvent.asset_materialization(
            step,
            dg.AssetMaterialization(key, partition=partition, metadata=metadata, tags=tags),
            DagsterEventBatchMetadata(batch, place == last),
        )
        for place, (partition, metadata) in enumerate(by_partition.items())
    ]
    return events, {SYSTEM_METADATA_KEY_SOURCE_ASSET_OBSERVATION: True}


def _tags_of_dagster(
    context: dg.AssetExecutionContext, key: dg.AssetKey, partition: str
) -> Mapping[str, str]:
    """What Dagster would write on the materialization of a partition; the same for all of a step."""
    from dagster._core.definitions.assets.definition.asset_spec import AssetExecutionType
    from dagster._core.execution.plan.execute_step import _get_output_asset_events

    step = context.get_step_execution_context()
    name = context.assets_def.get_output_name_for_asset_key(key)
    (event,) = _get_output_asset_events(
        key,
        [partition],
        dg.Output(None, output_name=name),
        step.op_def.output_def_named(name),
        {},
        step,
        AssetExecutionType.MATERIALIZATION,
    )
    return event.tags or {}
