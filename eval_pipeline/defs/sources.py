"""What is delivered, as assets: golden sets and archives by version, the parts of runs by run."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg

from eval_pipeline.config import Config
from eval_pipeline.defs.assets import (
    CHUNK_ARCHIVES,
    GOLDEN_SETS,
    JUDGEMENTS,
    RAW_KEYS,
    RESULTS,
    TARGET_RESPONSES,
)
from eval_pipeline.defs.events import Results, _shown_partitions
from eval_pipeline.defs.metadata import _freshness, _name_runs
from eval_pipeline.defs.partitions import (
    EVAL_CHUNKER,
    EVAL_DATASET,
    EVAL_RUN,
    register_runs,
    register_sources,
)
from eval_pipeline.defs.resources import Listener, StoreResource
from eval_pipeline.defs.tags import _wanted
from eval_pipeline.loading.context import LoadReport
from eval_pipeline.loading.inbox import Inbox, WaitingRun, digest, take_in_runs, take_in_sources, waiting_runs
from eval_pipeline.showing.runs import RunPart, run_order, run_parts, unknown_runs
from eval_pipeline.showing.sources import SourceVersion, archives, golden_sets
from eval_pipeline.store.open import Connection
from eval_pipeline.store.project import Store

DATA_VERSION = "dagster/data_version"
IS_OWN_VERSION = "dagster/data_version_is_user_provided"
# Metadata that tells which delivery of a part is shown; the data version is one for all that a step shows.
CONTENT = "content"
NOT_DELIVERED = "not delivered"


@dataclass(frozen=True)
class RawPart:
    """A part of a delivered run; `tables` are what its rows stand in."""

    key: dg.AssetKey
    part: str
    tables: str
    description: str


RAW_PARTS = (
    RawPart(
        RESULTS,
        "results",
        "raw.results, raw.hits, raw.hit_spans, raw.citations, raw.references, raw.runs",
        "What the evaluated system returned, one row per query with its hits, answer and judge scores, as delivered. "
        "Materializing a run loads it from the inbox when it lies there new or changed.",
    ),
    RawPart(
        RAW_KEYS["raw.extraction_cases"],
        "extractions",
        "raw.extraction_cases",
        "Extraction cases with expected and extracted fields, as delivered; most runs have none.",
    ),
    RawPart(
        RAW_KEYS["raw.index_reports"],
        "index_report",
        "raw.index_reports",
        "What the indexer did before the run: documents, chunks, what was skipped and why.",
    ),
    RawPart(
        RAW_KEYS["raw.spot_checks"],
        "judge_spot_check",
        "raw.spot_checks",
        "Answers that were judged a second time, to know how far the judge can be trusted.",
    ),
    RawPart(
        RAW_KEYS["raw.judgements"],
        "judgements",
        "raw.judgements, raw.judge_requests",
        "What judges were asked and answered, every answer as it came; several deliveries stand side by side.",
    ),
)
# The parts that evaluating a suite makes, and of what.
FROM_SUITES = {"results": TARGET_RESPONSES, "judgements": JUDGEMENTS}


def _delivered_assets(listener: Listener, config: Config) -> list[dg.AssetsDefinition]:
    """Sources and raw parts."""
    return [_golden_sets(), _chunk_archives(), _raw_parts(listener, config)]


def _golden_sets() -> dg.AssetsDefinition:
    return _source_asset(
        GOLDEN_SETS,
        golden_sets,
        kind="yaml",
        table="labels.golden_sets",
        partitions=EVAL_DATASET,
        description="The questions of a dataset and what is expected of an answer. Every version is one "
        "materialization; the newest scores.",
    )


def _chunk_archives() -> dg.AssetsDefinition:
    return _source_asset(
        CHUNK_ARCHIVES,
        archives,
        kind="json",
        table="raw.archives",
        partitions=EVAL_CHUNKER,
        description="The chunks that a chunker version made, with their places in the documents. Every state is one "
        "materialization; spans come from the newest, citations resolve against all.",
    )


def _source_asset(
    key: dg.AssetKey,
    versions: Callable[[Connection], Sequence[SourceVersion]],
    *,
    kind: str,
    table: str,
    partitions: dg.PartitionsDefinition,
    description: str,
) -> dg.AssetsDefinition:
    @dg.asset(
        key=key,
        group_name="sources",
        kinds={"duckdb", kind},
        partitions_def=partitions,
        backfill_policy=dg.BackfillPolicy.single_run(),
        metadata={"dagster/table_name": table},
        description=description,
    )
    def compute(context: dg.AssetExecutionContext, store: StoreResource) -> dg.MaterializeResult[None]:
        with store.limited():
            report = take_in_sources(store.project())
        with store.reading() as con:
            return _source_result(context.partition_keys, versions(con), report)

    return compute


def _source_result(
    names: Collection[str], known: Sequence[SourceVersion], report: LoadReport
) -> dg.MaterializeResult[None]:
    found = [version for version in known if version.name in names]
    absent = sorted(set(names) - {version.name for version in found})
    if len(found) == 1:
        metadata = _source_metadata(found[0])
    else:
        metadata = {
            "rows": sum(one.n_rows for one in found),
            "versions": sum(one.n_versions for one in found),
        }
    if absent:
        metadata["not in the store"] = _name_runs(absent)
    if report.quarantined:
        metadata["quarantined"] = report.quarantined
    return dg.MaterializeResult(data_version=dg.DataVersion(_version_of(found)), metadata=metadata)


def _version_of(found: Sequence[SourceVersion]) -> str:
    return found[0].version if len(found) == 1 else digest([one.version for one in found])


def _source_metadata(version: SourceVersion) -> dict[str, Any]:
    """A version of a source in numbers."""
    metadata: dict[str, Any] = {
        "rows": version.n_rows,
        "added": version.difference.added,
        "removed": version.difference.removed,
        "changed": version.difference.changed,
        "versions": version.n_versions,
        "loaded at": version.loaded_at.isoformat(sep=" ", timespec="seconds"),
    }
    return metadata | {f"rows of {dataset}": n_rows for dataset, n_rows in version.details}


def _report_sources(instance: dg.DagsterInstance, con: Connection) -> None:
    """Show the versions that were loaded past Dagster: each one as a materialization that belongs to no run."""
    known = {GOLDEN_SETS: golden_sets(con), CHUNK_ARCHIVES: archives(con)}
    register_sources(
        instance,
        [version.name for version in known[GOLDEN_SETS]],
        [version.name for version in known[CHUNK_ARCHIVES]],
    )
    for key, versions in known.items():
        for version in versions:
            if _shown_version(instance, key, version.name) != version.version:
                instance.report_runless_asset_event(
                    dg.AssetMaterialization(
                        asset_key=key,
                        partition=version.name,
                        metadata=_source_metadata(version),
                        tags={DATA_VERSION: version.version, IS_OWN_VERSION: "true"},
                    )
                )


def _shown_version(instance: dg.DagsterInstance, key: dg.AssetKey, partition: str) -> str | None:
    shown = _last_shown(instance, key, partition)
    return (shown.tags or {}).get(DATA_VERSION) if shown else None


def _shown_content(instance: dg.DagsterInstance, key: dg.AssetKey, run_id: str) -> object:
    shown = _last_shown(instance, key, run_id)
    return shown.metadata[CONTENT].value if shown and CONTENT in shown.metadata else None


def _last_shown(
    instance: dg.DagsterInstance, key: dg.AssetKey, partition: str
) -> dg.AssetMaterialization | None:
    found = instance.fetch_materializations(
        dg.AssetRecordsFilter(asset_key=key, asset_partitions=[partition]), limit=1
    )
    return found.records[0].asset_materialization if found.records else None


def _raw_parts(listener: Listener, config: Config) -> dg.AssetsDefinition:
    @dg.multi_asset(
        name="raw",
        specs=[
            dg.AssetSpec(
                key=part.key,
                group_name="raw",
                kinds={"duckdb", "json"},
                metadata={"dagster/table_name": part.tables},
                description=part.description,
                deps=[FROM_SUITES[part.part]] if config.suites and part.part in FROM_SUITES else [],
                freshness_policy=_freshness(config) if part.key == RESULTS else None,
            )
            for part in RAW_PARTS
        ],
        partitions_def=EVAL_RUN,
        backfill_policy=dg.BackfillPolicy.single_run(),
        can_subset=True,
    )
    def compute(context: dg.AssetExecutionContext, store: StoreResource) -> Results:
        run_ids = list(context.partition_keys)
        with listener.hearing_errors(), store.limited():
            report = take_in_runs(store.project(listener=listener), set(run_ids))
            with store.reading() as con:
                if report.golden_sets or report.archives:
                    _report_sources(context.instance, con)
                found = {part.key: run_parts(con, part.part, run_ids) for part in RAW_PARTS}
                absent = unknown_runs(con, run_ids)
        if absent:
            context.log.warning(f"not in the store: {_name_runs(absent)}")
        for part in RAW_PARTS:
            if part.key in context.selected_asset_keys:
                there = [
                    run_id for run_id in run_ids if run_id not in absent or _wanted(context.run).is_in_full
                ]
                yield from _show_part(context, part.key, there, found[part.key], report)

    return compute


def _parts_version(found: Sequence[RunPart]) -> str:
    """The content hash of a single part, and one for all of several."""
    if len(found) == 1:
        return found[0].content_hash
    return digest([f"{one.run_id} {one.content_hash}" for one in found])


def _show_part(
    context: dg.AssetExecutionContext,
    key: dg.AssetKey,
    run_ids: Sequence[str],
    found: Sequence[RunPart],
    report: LoadReport,
) -> Results:
    """The runs whose part is not shown as the store has it, or where they were asked for by hand all of them."""
    parts = {one.run_id: one for one in found}
    shown = {run_id: _raw_metadata(parts.get(run_id), run_id, report) for run_id in run_ids}
    if not _wanted(context.run).is_in_full:
        seen = context.instance.get_materialized_partitions(key)
        shown = {
            run_id: metadata
            for run_id, metadata in shown.items()
            if run_id not in seen or _shown_content(context.instance, key, run_id) != metadata[CONTENT]
        }
    yield from _shown_partitions(context, key, shown, version=_parts_version(found))


def _raw_metadata(part: RunPart | None, run_id: str, report: LoadReport) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "rows": part.n_rows if part else 0,
        "quarantined": part.n_quarantined if part else 0,
        "deliveries": part.n_deliveries if part else 0,
        CONTENT: part.content_hash if part else NOT_DELIVERED,
    }
    if run_id in report.runs:
        metadata["taken in from the inbox"] = True
    if run_id in report.rejected:
        metadata["rejected"] = True
    return metadata


def report_existing(
    instance: dg.DagsterInstance,
    store: Store,
    inbox: Inbox,
    *,
    may_move: bool,
    most_moves: int | None = None,
) -> list[WaitingRun]:
    """Register runs, datasets and chunker versions, report new versions of sources; returns what waits in the inbox.

    Runs that wait are registered too: whoever launches them must not find them taken out by somebody else.
    """
    waiting = waiting_runs(store.con, inbox)
    register_runs(instance, run_order(store, waiting), may_move=may_move, most_moves=most_moves)
    _report_sources(instance, store.con)
    return waiting
