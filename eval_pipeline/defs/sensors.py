"""The inbox and the ledger, watched; and the nightly schedule."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import dagster as dg

from eval_pipeline.defs.jobs import (
    NEW_CHUNK_ARCHIVES,
    NEW_GOLDEN_SETS,
    NIGHTLY_EVALUATION,
    QUIET,
    RECOMPUTE_STALE,
    Jobs,
)
from eval_pipeline.defs.launches import (
    Launch,
    next_attempt,
    plan_launches,
    shown_runs,
    wanted_assets,
)
from eval_pipeline.defs.metadata import why_due
from eval_pipeline.defs.partitions import MOVES_PER_TICK, register_sources, registered_runs
from eval_pipeline.defs.processes import fail_dead_runs, runs_under_way
from eval_pipeline.defs.resources import StoreResource
from eval_pipeline.defs.shown import show_store
from eval_pipeline.defs.tags import LAUNCH, WHY
from eval_pipeline.formulas.registry import Registry, load_registry
from eval_pipeline.pipeline.inbox import (
    Inbox,
    WaitingRun,
    WaitingSources,
    look_into,
    take_in_sources,
    waiting_sources,
)
from eval_pipeline.pipeline.measure import DUE
from eval_pipeline.pipeline.runs import DueRun, digest, due_runs
from eval_pipeline.settings import PACKAGE, Settings, shipped_sql
from eval_pipeline.store.connect import Connection

LAUNCHES_PER_TICK = 10
DELIVERED = "delivered to the inbox"
NOTHING_NEW = "nothing has changed since the last look"


@dataclass(frozen=True)
class Look:
    """What one tick found: sources and runs that wait in the inbox, and what the ledger says is due."""

    sources: WaitingSources
    waiting: Sequence[WaitingRun]
    due: dict[str, DueRun]


def new_runs(jobs: Jobs, names: frozenset[str]) -> dg.SensorDefinition:
    """Watch the inbox, and what was loaded without being computed; `names` are the assets that can be launched."""

    @dg.sensor(
        name="new_runs",
        jobs=[jobs.nightly_evaluation, jobs.new_golden_sets, jobs.new_chunk_archives],
        minimum_interval_seconds=30,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Launches runs, golden sets and archives that arrive in the inbox, and runs that the command line "
        "loaded and did not compute.",
    )
    def watch(context: dg.SensorEvaluationContext, store: StoreResource) -> dg.SensorResult:
        busy = _is_busy(context.instance)
        if busy:
            return dg.SensorResult(skip_reason=busy, cursor=context.cursor)
        inbox = look_into(store.settings.inbox)
        seen = digest([inbox.signature, *_stamps(store.settings)])
        if seen == context.cursor:
            return dg.SensorResult(skip_reason=NOTHING_NEW, cursor=seen)
        if not store.settings.db.exists() and not inbox.runs and not inbox.sources:
            return dg.SensorResult(skip_reason=f"{store.settings.inbox} is empty and there is no store yet")
        registry = load_registry(store.settings)
        look = _look(context.instance, store, inbox, registry)
        requests = _source_requests(context.instance, look.sources)
        requests = requests or _run_requests(context.instance, look, names)
        if not requests:
            return dg.SensorResult(skip_reason="everything delivered is computed", cursor=seen)
        return dg.SensorResult(run_requests=requests[:LAUNCHES_PER_TICK], cursor=context.cursor)

    return watch


def stale_metrics(jobs: Jobs, names: frozenset[str]) -> dg.SensorDefinition:
    """Ask the ledger what is stale, and launch what of it is among `names`."""

    @dg.sensor(
        name="stale_metrics",
        job=jobs.recompute_stale,
        minimum_interval_seconds=60,
        default_status=dg.DefaultSensorStatus.STOPPED,
        description="Computes what the ledger says is stale: exactly these tables for exactly these runs, once.",
    )
    def watch(context: dg.SensorEvaluationContext, store: StoreResource) -> dg.SensorResult:
        busy = _is_busy(context.instance)
        if busy:
            return dg.SensorResult(skip_reason=busy, cursor=context.cursor)
        if not store.settings.db.exists():
            return dg.SensorResult(skip_reason="there is no store yet")
        seen = digest(_stamps(store.settings))
        if seen == context.cursor:
            return dg.SensorResult(skip_reason=NOTHING_NEW, cursor=seen)
        registry = load_registry(store.settings)
        with store.reading() as con:
            due = due_runs(con, registry, reasons=None)
            _show(context.instance, con, look_into(store.settings.inbox))
        wanted = {run_id: run.definitions & names for run_id, run in due.items()}
        launches = _launches(context.instance, wanted, due)
        requests = _requests(context.instance, launches, RECOMPUTE_STALE, None)
        if not requests:
            return dg.SensorResult(skip_reason="nothing is stale that was not tried", cursor=seen)
        return dg.SensorResult(run_requests=requests[:LAUNCHES_PER_TICK], cursor=context.cursor)

    return watch


def nightly(jobs: Jobs, names: frozenset[str]) -> dg.ScheduleDefinition:
    """Every night: what of `names` has arrived and is missing."""

    @dg.schedule(
        name="nightly",
        cron_schedule="0 2 * * *",
        job=jobs.nightly_evaluation,
        default_status=dg.DefaultScheduleStatus.STOPPED,
        description="Takes in what lies in the inbox and computes what is missing or was delivered anew.",
    )
    def launch(
        context: dg.ScheduleEvaluationContext, store: StoreResource
    ) -> dg.SkipReason | list[dg.RunRequest]:
        busy = _is_busy(context.instance)
        if busy:
            return dg.SkipReason(busy)
        inbox = look_into(store.settings.inbox)
        if not store.settings.db.exists() and not inbox.runs and not inbox.sources:
            return dg.SkipReason(f"{store.settings.inbox} is empty and there is no store yet")
        if inbox.sources:
            take_in_sources(store.settings, now=_now())
        registry = load_registry(store.settings)
        look = _look(context.instance, store, inbox, registry)
        requests = _run_requests(context.instance, look, names)
        return requests or dg.SkipReason("everything delivered is computed")

    return launch


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC).replace(tzinfo=None)


def _is_busy(instance: dg.DagsterInstance) -> str | None:
    fail_dead_runs(instance, now=_now())
    under_way = runs_under_way(instance)
    return f"{under_way} runs are under way" if under_way else None


def _stamps(settings: Settings) -> list[str]:
    """Changes with every write to the store and every edit of a definition, without opening either."""
    folders = [shipped_sql(), PACKAGE / "formulas", *([settings.own_sql] if settings.own_sql else [])]
    definitions = [
        path for folder in folders for suffix in ("*.sql", "*.py") for path in folder.rglob(suffix)
    ]
    return [_stamp(path) for path in (settings.db, settings.config, *sorted(definitions))]


def _stamp(path: Path) -> str:
    found = path.stat() if path.exists() else None
    return f"{path} {found.st_size} {found.st_mtime_ns}" if found else str(path)


def _look(instance: dg.DagsterInstance, store: StoreResource, inbox: Inbox, registry: Registry) -> Look:
    with _open(store) as con:
        sources = waiting_sources(con, inbox)
        due = due_runs(con, registry, reasons=DUE)
        waiting = _show(instance, con, inbox)
    register_sources(instance, sources.datasets, sources.chunker_versions)
    return Look(sources, waiting, due)


@contextmanager
def _open(store: StoreResource) -> Iterator[Connection]:
    """For reading; a store that is not there yet is made."""
    with store.reading() if store.settings.db.exists() else store.get_connection() as con:
        yield con


def _show(instance: dg.DagsterInstance, con: Connection, inbox: Inbox) -> list[WaitingRun]:
    return show_store(instance, con, inbox, now=_now(), may_move=True, most_moves=MOVES_PER_TICK)


def _source_requests(instance: dg.DagsterInstance, sources: WaitingSources) -> list[dg.RunRequest]:
    """Sources go first, since runs are scored against them, and one at a time, since it takes in all that waits."""
    for job, names in ((NEW_GOLDEN_SETS, sources.datasets), (NEW_CHUNK_ARCHIVES, sources.chunker_versions)):
        for name in names:
            key = f"{job}:{name}:{sources.signature}"
            attempt = next_attempt(instance, key)
            if attempt:
                tags = {LAUNCH: digest([key]), WHY: DELIVERED}
                return [
                    dg.RunRequest(
                        f"{key}:{attempt}", run_config=QUIET, job_name=job, partition_key=name, tags=tags
                    )
                ]
    return []


def _run_requests(instance: dg.DagsterInstance, look: Look, names: frozenset[str]) -> list[dg.RunRequest]:
    wanted = wanted_assets(look.due, names, shown_runs(instance))
    arrived = {run.run_id: run.signature for run in look.waiting}
    wanted |= dict.fromkeys(arrived, names)
    launches = _launches(instance, wanted, look.due, arrived)
    return _requests(instance, launches, NIGHTLY_EVALUATION, DUE)


def _launches(
    instance: dg.DagsterInstance,
    wanted: dict[str, frozenset[str]],
    due: dict[str, DueRun],
    arrived: dict[str, str] | None = None,
) -> list[Launch]:
    states = {run_id: run.state for run_id, run in due.items()} | (arrived or {})
    why = {run_id: why_due(run) for run_id, run in due.items()} | dict.fromkeys(arrived or {}, DELIVERED)
    return plan_launches(wanted, registered_runs(instance), states=states, why=why)


def _requests(
    instance: dg.DagsterInstance,
    launches: Sequence[Launch],
    job: str,
    reasons: Collection[str] | None,
) -> list[dg.RunRequest]:
    found: list[dg.RunRequest] = []
    for launch in launches:
        attempt = next_attempt(instance, launch.key)
        if attempt:
            found.append(
                dg.RunRequest(
                    run_key=f"{launch.key}:{attempt}",
                    run_config=QUIET,
                    job_name=job,
                    asset_selection=launch.selection(),
                    tags=launch.tags(reasons),
                )
            )
    return found
