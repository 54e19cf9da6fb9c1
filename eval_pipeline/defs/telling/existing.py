"""Cells that were computed past this Dagster are shown in it, without a run."""

import datetime as dt
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import dagster as dg
from dagster._core.definitions.data_version import (
    UNKNOWN_DATA_VERSION,
    get_input_data_version_tag,
    get_input_event_pointer_tag,
)
from dagster._core.events import (
    DagsterEvent,
    DagsterEventBatchMetadata,
    DagsterEventType,
    StepMaterializationData,
)
from dagster._core.instance import RUNLESS_JOB_NAME, RUNLESS_RUN_ID
from pydantic import Field

from eval_pipeline.comparing.pairs import BETWEEN, find_pairs, pair_of, partition_of
from eval_pipeline.comparing.stored import stored_pairs
from eval_pipeline.computing.progress import KnownCell, known_cells
from eval_pipeline.defs.assets import _dependencies, _figures_of, computed_definitions, key_of
from eval_pipeline.defs.comparisons import COMPARED, _seen_from
from eval_pipeline.defs.events import WHY_IT_RAN
from eval_pipeline.defs.metadata import _headline_keys, _run_metadata
from eval_pipeline.defs.partitions import EVAL_COMPARISON, EVAL_RUN, register_comparisons, registered_runs
from eval_pipeline.defs.processes import runs_under_way
from eval_pipeline.defs.resources import StoreResource
from eval_pipeline.defs.sources import DATA_VERSION, IS_OWN_VERSION, RAW_PARTS, _raw_metadata, report_existing
from eval_pipeline.formulas.definition import Definition
from eval_pipeline.formulas.registry import ALL_FORMULAS
from eval_pipeline.loading.context import LoadReport
from eval_pipeline.loading.inbox import look_into
from eval_pipeline.settings import Settings
from eval_pipeline.showing.runs import delivery_times, part_headlines, run_parts, run_summaries
from eval_pipeline.store.project import Store

# So many runs are shown at once: a few seconds. The job show_existing shows the rest to whoever asks for it.
NEWEST: Final = 400
SHOW_EXISTING: Final = "show_existing"
COMPUTED_ELSEWHERE: Final = "it did not: it was computed elsewhere, and is shown here"
CODE_VERSION: Final = "dagster/code_version"
# Whether Dagster is to be told of a partition of an asset.
IsMissing = Callable[[dg.AssetKey, str], bool]
STEP: Final = dt.timedelta(milliseconds=1)


@dataclass(frozen=True)
class Shown:
    """One partition of an asset as the store has it, and since when; `reads` what it is up to date with."""

    key: dg.AssetKey
    partition: str
    metadata: Mapping[str, Any]
    tags: Mapping[str, str]
    at: dt.datetime
    reads: Sequence[dg.AssetKey] = ()


def show_existing(
    instance: dg.DagsterInstance, store: Store, settings: Settings, *, newest: int | None = NEWEST
) -> int:
    """Register everything, and report what Dagster has no event of, for the newest runs and pairs; returns how many."""
    may_move = not runs_under_way(instance)
    waiting = report_existing(instance, store, look_into(settings.inbox), may_move=may_move)
    waits = {run.run_id for run in waiting}
    order = [run_id for run_id in registered_runs(instance) if run_id not in waits]
    run_ids = order[-newest:] if newest else order
    missing = _Missing(instance)
    return (
        _report(instance, _raw_parts(store, run_ids, missing))
        + _report(instance, _cells(store, run_ids, missing))
        + _report(instance, _pairs(instance, store, newest, missing, may_move=may_move))
    )


def _show_anew(
    instance: dg.DagsterInstance, store: Store, settings: Settings, run_ids: Sequence[str], *, why: str
) -> int:
    """Report everything of these runs as it stands now, with the pairs whose later run they are; returns how much."""
    report_existing(instance, store, look_into(settings.inbox), may_move=not runs_under_way(instance))
    ours = set(run_ids)

    def is_ours(_key: dg.AssetKey, partition: str) -> bool:
        return partition in ours or partition.rpartition(BETWEEN)[2] in ours

    return (
        _report(instance, _raw_parts(store, run_ids, is_ours))
        + _report(instance, _cells(store, run_ids, is_ours, why))
        + _report(instance, _pairs(instance, store, NEWEST, is_ours, why, may_move=False))
    )


class _Missing:
    """What Dagster has no event of; each asset is asked about once."""

    def __init__(self, instance: dg.DagsterInstance) -> None:
        self._instance = instance
        self._known: dict[dg.AssetKey, set[str]] = {}

    def __call__(self, key: dg.AssetKey, partition: str) -> bool:
        if key not in self._known:
            self._known[key] = set(self._instance.get_materialized_partitions(key))
        return partition not in self._known[key]


def _raw_parts(store: Store, run_ids: Sequence[str], missing: IsMissing) -> Iterable[Shown]:
    delivered = delivery_times(store.con, run_ids)
    nothing = LoadReport()
    for part in RAW_PARTS:
        lacking = [run_id for run_id in run_ids if run_id in delivered and missing(part.key, run_id)]
        found = {one.run_id: one for one in run_parts(store.con, part.part, lacking)} if lacking else {}
        for run_id in lacking:
            metadata = _raw_metadata(found.get(run_id), run_id, nothing)
            yield Shown(part.key, run_id, metadata, {}, delivered[run_id])


def _cells(
    store: Store, run_ids: Sequence[str], missing: IsMissing, why: str = COMPUTED_ELSEWHERE
) -> Iterable[Shown]:
    registry = store.definitions()
    computed = {one.name: one for one in computed_definitions(registry)}
    lacking = [
        cell
        for cell in known_cells(store, run_ids)
        if cell.definition in computed and missing(key_of(cell.definition), cell.run_id)
    ]
    of_runs = {cell.run_id for cell in lacking if ALL_FORMULAS in computed[cell.definition].reads}
    summaries = run_summaries(store, of_runs, _headline_keys(registry)) if of_runs else {}
    parts = part_headlines(store, of_runs) if of_runs else {}
    # What is read is shown before what reads it.
    places = {name: place for place, name in enumerate(computed)}
    for cell in sorted(lacking, key=lambda cell: places[cell.definition]):
        one = computed[cell.definition]
        metadata = _cell_metadata(one, cell) | {WHY_IT_RAN: why}
        if ALL_FORMULAS in one.reads and cell.run_id in summaries:
            metadata = (
                _run_metadata(cell.run_id, summaries[cell.run_id], parts.get(cell.run_id, {})) | metadata
            )
        # What is stale was made by another version of its code or of what it reads, and Dagster says so.
        reads = () if cell.is_stale else [dep.asset_key for dep in _dependencies(one, registry)]
        tags = {
            DATA_VERSION: cell.version,
            IS_OWN_VERSION: "true",
            CODE_VERSION: cell.fingerprint if cell.is_stale else one.fingerprint,
        }
        yield Shown(key_of(one.name), cell.run_id, metadata, tags, cell.computed_at, reads)


def _cell_metadata(definition: Definition, cell: KnownCell) -> dict[str, Any]:
    return _figures_of(definition, cell.rows, cell.seconds) | {
        "computed at": cell.computed_at.isoformat(sep=" ", timespec="seconds"),
    }


def _pairs(
    instance: dg.DagsterInstance,
    store: Store,
    newest: int | None,
    missing: IsMissing,
    why: str = COMPUTED_ELSEWHERE,
    *,
    may_move: bool,
) -> Iterable[Shown]:
    known = find_pairs(store)
    register_comparisons(instance, [partition_of(one.run_a, one.run_b) for one in known], may_move=may_move)
    names = [partition_of(one.run_a, one.run_b) for one in known if one.computed_at]
    first = key_of(COMPARED[0].name)
    lacking = [name for name in (names[-newest:] if newest else names) if missing(first, name)]
    for pair, one in stored_pairs(store.con, [pair_of(name) for name in lacking]).items():
        tags = {DATA_VERSION: one.version, IS_OWN_VERSION: "true"}
        for table in COMPARED:
            metadata = _seen_from(table, one)
            # A pair that nobody judges has no row among the gates.
            if metadata:
                metadata |= {WHY_IT_RAN: why}
                yield Shown(key_of(table.name), partition_of(*pair), metadata, tags, one.computed_at)


def _report(instance: dg.DagsterInstance, shown: Iterable[Shown]) -> int:
    """Asset by asset, since what is kept of a whole asset is written once per batch; the newest partition last."""
    by_asset: dict[dg.AssetKey, list[Shown]] = {}
    for one in shown:
        by_asset.setdefault(one.key, []).append(one)
    places = {
        name: place
        for definition in (EVAL_RUN, EVAL_COMPARISON)
        for place, name in enumerate(instance.get_dynamic_partitions(str(definition.name)))
    }
    for ones in by_asset.values():
        _store(instance, sorted(ones, key=lambda one: places[one.partition]))
    return sum(map(len, by_asset.values()))


def _store(instance: dg.DagsterInstance, ones: Sequence[Shown]) -> None:
    """As `report_runless_asset_event` does, in a batch, each at the time when it was computed."""
    batch, at = str(uuid.uuid4()), dt.datetime.min
    newest = instance.event_log_storage.get_maximum_record_id() or 0
    for place, one in enumerate(ones, start=1):
        # The web interface keeps one event of an asset per millisecond.
        at = max(at + STEP, one.at)
        event = dg.AssetMaterialization(
            one.key,
            partition=one.partition,
            metadata=one.metadata,
            tags={**one.tags, **_made_of(one.reads, newest)},
        )
        instance.report_dagster_event(
            DagsterEvent(
                event_type_value=DagsterEventType.ASSET_MATERIALIZATION.value,
                event_specific_data=StepMaterializationData(event),
                job_name=RUNLESS_JOB_NAME,
            ),
            run_id=RUNLESS_RUN_ID,
            batch_metadata=DagsterEventBatchMetadata(batch, place == len(ones)),
            timestamp=at.replace(tzinfo=dt.UTC).timestamp(),
        )


def _made_of(reads: Sequence[dg.AssetKey], newest: int) -> dict[str, str]:
    """What Dagster would write of these inputs, had it computed what is shown: as they were until the newest event."""
    return {
        name: value
        for key in reads
        for name, value in (
            (get_input_data_version_tag(key), UNKNOWN_DATA_VERSION.value),
            (get_input_event_pointer_tag(key), str(newest)),
        )
    }


class HowMany(dg.Config):
    """Of how many runs."""

    newest: int = Field(default=0, ge=0, description="Of the newest so many runs; 0: of all.")


def _show_existing_job() -> dg.JobDefinition:
    """On demand, what `ui` shows of the newest runs when it starts."""

    @dg.op(name="report_cells")
    def report(context: dg.OpExecutionContext, config: HowMany, store: StoreResource) -> None:
        registry = store.project().definitions()
        with store.opened(registry) as opened:
            n = show_existing(context.instance, opened, store.settings, newest=config.newest or None)
        context.log.info(f"{n:,} partitions are shown that were not")

    @dg.job(
        name=SHOW_EXISTING,
        description="Shows in Dagster what was computed elsewhere, as `ui` does when it starts: there of the newest "
        f"{NEWEST} runs, here of as many as you ask for. Computes nothing.",
    )
    def show() -> None:
        report()

    return show
