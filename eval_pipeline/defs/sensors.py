"""The sensors of inbox, ledger and comparisons."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import dagster as dg

from eval_pipeline.comparing.pairs import find_pairs, is_due, is_of_an_upgrade
from eval_pipeline.computing.ledger import DATA_REASONS, DEFINITION_REASONS, NEW_DATA_REASONS
from eval_pipeline.computing.progress import (
    Outdated,
    StaleRun,
    count_upgraded,
    outdated_tables,
    stale_runs,
)
from eval_pipeline.computing.states import states_of_cells
from eval_pipeline.config import STALE_METRICS_SECONDS
from eval_pipeline.defs.checks import new_answers
from eval_pipeline.defs.comparisons import PAGES, comparison_launches, launch_checks, names_of
from eval_pipeline.defs.jobs import (
    NEW_CHUNK_ARCHIVES,
    NEW_COMPARISONS,
    NEW_GOLDEN_SETS,
    NIGHTLY_EVALUATION,
    PUBLISH_PAGES,
    QUIET,
    RECOMPUTE_STALE,
    Jobs,
)
from eval_pipeline.defs.launches import Launch, _next_attempt, plan_launches, shown_runs, wanted_assets
from eval_pipeline.defs.metadata import why_due
from eval_pipeline.defs.partitions import (
    MOVES_PER_TICK,
    register_comparisons,
    register_sources,
    registered_comparisons,
    registered_runs,
)
from eval_pipeline.defs.processes import fail_dead_runs, runs_under_way
from eval_pipeline.defs.resources import StoreResource
from eval_pipeline.defs.sources import report_existing
from eval_pipeline.defs.stale_memory import (
    Memory,
    _free_reasons,
    _meaning_of,
    _only_planned,
    _read_memory,
    _what_is_left,
)
from eval_pipeline.defs.tags import LAUNCH, WHY
from eval_pipeline.formulas.registry import Registry
from eval_pipeline.loading.inbox import (
    Inbox,
    WaitingRun,
    WaitingSources,
    digest,
    forgotten_in,
    look_into,
    waiting_sources,
)
from eval_pipeline.report.pages.writing import due_pages
from eval_pipeline.settings import PACKAGE, Settings, missing_places, product_version, shipped_sql
from eval_pipeline.store.kept import KeptDelivery
from eval_pipeline.store.project import Store

LAUNCHES_PER_TICK = 10
# Dagster looks for sensors that are due every five seconds: so each time. A look at what has not changed is cheap.
LOOK_SECONDS = 4
DELIVERED = "delivered to the inbox"
NOTHING_NEW = "nothing has changed since the last look"


@dataclass(frozen=True)
class Look:
    """What one tick found: sources and runs that wait in the inbox, and what the ledger says is due."""

    sources: WaitingSources
    waiting: Sequence[WaitingRun]
    due: dict[str, StaleRun]
    forgotten: Sequence[str] = ()

    @property
    def nothing_to_do(self) -> str:
        """Why nothing is launched; what lies in the inbox and stays there is named."""
        if not self.forgotten:
            return "everything delivered is computed"
        shown = ", ".join(self.forgotten[:3]) + (", …" if len(self.forgotten) > 3 else "")
        return (
            f"everything delivered is computed but what was forgotten on purpose ({shown}): "
            "`eval-pipeline forget NAME --lift` lets it in again"
        )


def new_runs(jobs: Jobs, names: frozenset[str]) -> dg.SensorDefinition:
    """Watch the inbox, and what was loaded without being computed; `names` are the assets that can be launched."""

    @dg.sensor(
        name="new_runs",
        jobs=[jobs.nightly_evaluation, jobs.new_golden_sets, jobs.new_chunk_archives],
        minimum_interval_seconds=LOOK_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Launches runs, golden sets and archives that arrive in the inbox, and runs that the command line "
        "loaded and did not compute.",
    )
    def watch(context: dg.SensorEvaluationContext, store: StoreResource) -> dg.SensorResult:
        busy = _why_not(context.instance, store)
        if busy:
            return dg.SensorResult(skip_reason=busy, cursor=context.cursor)
        inbox = look_into(store.settings.inbox)
        not_loaded = _not_loaded(store.settings, inbox)
        seen = digest([inbox.signature, *_stamps(store.settings)])
        if seen == context.cursor:
            return dg.SensorResult(skip_reason=f"{NOTHING_NEW}{not_loaded}", cursor=seen)
        if not store.settings.db.exists() and not inbox.runs and not inbox.sources:
            return dg.SensorResult(skip_reason=_nothing_there(store.settings))
        registry = store.project().definitions()
        look = _look(context.instance, store, inbox, registry)
        requests = _source_requests(context.instance, look.sources)
        requests = requests or _run_requests(context.instance, look, names, registry)
        if not requests:
            return dg.SensorResult(skip_reason=f"{look.nothing_to_do}{not_loaded}", cursor=seen)
        return dg.SensorResult(run_requests=requests[:LAUNCHES_PER_TICK], cursor=context.cursor)

    return watch


def new_comparisons(jobs: Jobs) -> dg.SensorDefinition:
    """Watch for runs that are computed and not compared, then for pages that are older than their numbers."""

    @dg.sensor(
        name="new_comparisons",
        jobs=[jobs.new_comparisons, jobs.publish_pages],
        minimum_interval_seconds=LOOK_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Ends the night: compares runs that were computed with the night before and with their baseline, "
        "then publishes the pages of what is new.",
    )
    def watch(context: dg.SensorEvaluationContext, store: StoreResource) -> dg.SensorResult:
        not_now = _not_now(context, store)
        if not_now:
            return not_now
        seen = digest(_stamps(store.settings))
        if seen == context.cursor:
            return dg.SensorResult(skip_reason=NOTHING_NEW, cursor=seen)
        requests = _ending_requests(context.instance, store, store.project().definitions())
        if not requests:
            return dg.SensorResult(skip_reason="every new run is compared and published", cursor=seen)
        return dg.SensorResult(run_requests=requests[:LAUNCHES_PER_TICK], cursor=context.cursor)

    return watch


def _not_now(context: dg.SensorEvaluationContext, store: StoreResource) -> dg.SensorResult | None:
    """Why the ledger is not asked: somebody computes, or there is nothing to ask."""
    busy = _why_not(context.instance, store)
    if busy:
        return dg.SensorResult(skip_reason=busy, cursor=context.cursor)
    if not store.settings.db.exists():
        return dg.SensorResult(skip_reason="there is no store yet")
    return None


def stale_metrics(
    jobs: Jobs, names: frozenset[str], *, seconds: int = STALE_METRICS_SECONDS
) -> dg.SensorDefinition:
    """Ask the ledger every so many seconds what is stale, and launch what of it is among `names`."""

    @dg.sensor(
        name="stale_metrics",
        jobs=[jobs.recompute_stale, jobs.new_comparisons],
        minimum_interval_seconds=seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Computes what the ledger says is stale: exactly these tables for exactly these runs, once; "
        "then the comparisons computed from them. What would take longer than [dagster] stale_metrics_most_seconds, "
        "and what an upgrade made stale, it only plans. It reports the check up_to_date.",
    )
    def watch(context: dg.SensorEvaluationContext, store: StoreResource) -> dg.SensorResult:
        not_now = _not_now(context, store)
        if not_now:
            return not_now
        memory, seen = _read_memory(context.cursor), digest(_stamps(store.settings))
        if seen == memory.seen:
            return dg.SensorResult(skip_reason=memory.said or NOTHING_NEW, cursor=context.cursor)
        registry = store.project().definitions()
        look = _look_for_stale(context.instance, store, registry, memory)
        events = new_answers(context.instance, registry, look.tables)
        launches = _launches(
            context.instance, {run_id: run.definitions & names for run_id, run in look.due.items()}, look.due
        )
        planned = _only_planned(registry.config, launches, look.due)
        requests = [] if planned else _stale_requests(context.instance, store, registry, look, launches)
        if requests:
            return dg.SensorResult(
                run_requests=requests[:LAUNCHES_PER_TICK], cursor=memory.text(), asset_events=events
            )
        said = planned or _what_is_left(look.n_left, look.n_upgraded)
        memory = Memory(seen, memory.meaning if planned else look.meaning, said)
        return dg.SensorResult(skip_reason=said, cursor=memory.text(), asset_events=events)

    return watch


@dataclass(frozen=True)
class StaleLook:
    """What one look for stale cells found: what may be launched, what is left to somebody, the state of every table."""

    meaning: str
    reasons: frozenset[str]
    due: dict[str, StaleRun]
    n_upgraded: int
    n_left: int
    tables: dict[str, Outdated]


def _look_for_stale(
    instance: dg.DagsterInstance, store: StoreResource, registry: Registry, memory: Memory
) -> StaleLook:
    meaning = _meaning_of(registry)
    reasons = _free_reasons(memory, meaning)
    with store.opened(registry) as opened:
        states = states_of_cells(opened, only_due=True)
        due = stale_runs(states, registry, reasons=reasons)
        upgraded = count_upgraded(states, registry)
        left = states.n_stale(DEFINITION_REASONS) - upgraded if reasons == DATA_REASONS else 0
        tables = outdated_tables(states)
        _show(instance, opened, look_into(store.settings.inbox))
    return StaleLook(meaning, reasons, due, upgraded, left, tables)


def _stale_requests(
    instance: dg.DagsterInstance,
    store: StoreResource,
    registry: Registry,
    look: StaleLook,
    launches: Sequence[Launch],
) -> list[dg.RunRequest]:
    """Tables of runs, and once there are none to compute, the comparisons that rest on them."""
    requests = _requests(instance, launches, RECOMPUTE_STALE, look.reasons, registry)
    # What is compared rests on everything: not on what waits for somebody to apply an upgrade.
    settled = look.reasons - {"parent"} if look.n_upgraded else look.reasons
    return requests or _comparison_requests(instance, store, registry, settled)


def _why_not(instance: dg.DagsterInstance, store: StoreResource) -> str | None:
    """Why nothing is launched whatever there is to do: settings that name nothing, or runs under way."""
    missing = missing_places(store.settings)
    if missing:
        return f"nothing is launched: {'; '.join(missing)}"
    KeptDelivery.require_store(store.settings.db)
    fail_dead_runs(instance, now=store.project().clock())
    under_way = runs_under_way(instance)
    return f"{under_way} runs are under way" if under_way else None


def _not_loaded(settings: Settings, inbox: Inbox) -> str:
    """What cannot be loaded from the inbox, as the end of a sentence."""
    if not settings.inbox.is_dir():
        return f"; there is no inbox at {settings.inbox}"
    shown = ", ".join(map(str, inbox.incomplete[:3])) + (", …" if len(inbox.incomplete) > 3 else "")
    return f"; not loaded, because run.json is missing: {shown}" if shown else ""


def _nothing_there(settings: Settings) -> str:
    what = "is empty" if settings.inbox.is_dir() else "(the inbox) is not there"
    return f"{settings.inbox} {what} and there is no store yet"


def _stamps(settings: Settings) -> list[str]:
    """Changes with every write to the store, edit of a definition and upgrade, without opening either."""
    folders = [shipped_sql(), PACKAGE / "formulas", *([settings.own_sql] if settings.own_sql else [])]
    definitions = [
        path for folder in folders for suffix in ("*.sql", "*.py") for path in folder.rglob(suffix)
    ]
    stamps = [_stamp(path) for path in (settings.db, settings.config, *sorted(definitions))]
    return [product_version(), *stamps]


def _stamp(path: Path) -> str:
    found = path.stat() if path.exists() else None
    return f"{path} {found.st_size} {found.st_mtime_ns} {found.st_ino}" if found else str(path)


def _look(instance: dg.DagsterInstance, store: StoreResource, inbox: Inbox, registry: Registry) -> Look:
    with _open(store, registry) as opened:
        sources = waiting_sources(opened.con, inbox)
        forgotten = forgotten_in(opened.con, inbox)
        states = states_of_cells(opened, only_due=True)
        due = stale_runs(states, registry, reasons=NEW_DATA_REASONS)
        waiting = _show(instance, opened, inbox)
    register_sources(instance, sources.datasets, sources.chunker_versions)
    return Look(sources, waiting, due, forgotten)


@contextmanager
def _open(store: StoreResource, registry: Registry) -> Iterator[Store]:
    """For reading; a store that is not there yet is made."""
    project = store.project(registry)
    with store.limited(), project.read() if store.settings.db.exists() else project.write() as opened:
        yield opened


def _show(instance: dg.DagsterInstance, opened: Store, inbox: Inbox) -> list[WaitingRun]:
    return report_existing(instance, opened, inbox, may_move=True, most_moves=MOVES_PER_TICK)


def _source_requests(instance: dg.DagsterInstance, sources: WaitingSources) -> list[dg.RunRequest]:
    """Sources go first, since runs are scored against them, and one at a time, since it takes in all that waits."""
    for job, names in ((NEW_GOLDEN_SETS, sources.datasets), (NEW_CHUNK_ARCHIVES, sources.chunker_versions)):
        for name in names:
            key = f"{job}:{name}:{sources.signature}"
            attempt = _next_attempt(instance, key)
            if attempt:
                tags = {LAUNCH: digest([key]), WHY: DELIVERED}
                return [
                    dg.RunRequest(
                        f"{key}:{attempt}", run_config=QUIET, job_name=job, partition_key=name, tags=tags
                    )
                ]
    return []


def _run_requests(
    instance: dg.DagsterInstance, look: Look, names: frozenset[str], registry: Registry
) -> list[dg.RunRequest]:
    wanted = wanted_assets(look.due, names, shown_runs(instance))
    arrived = {run.run_id: run.signature for run in look.waiting}
    wanted |= dict.fromkeys(arrived, names)
    launches = _launches(instance, wanted, look.due, arrived)
    return _requests(instance, launches, NIGHTLY_EVALUATION, NEW_DATA_REASONS, registry)


def _ending_requests(
    instance: dg.DagsterInstance, store: StoreResource, registry: Registry
) -> list[dg.RunRequest]:
    """What ends a night: comparisons, in one run with the pages where one is enough, else pages after all of them."""
    requests = _comparison_requests(instance, store, registry, NEW_DATA_REASONS)
    return requests or _page_requests(instance, store, registry)


def _comparison_requests(
    instance: dg.DagsterInstance,
    store: StoreResource,
    registry: Registry,
    reasons: Collection[str] | None,
) -> list[dg.RunRequest]:
    """Pairs that are due and whose runs are computed."""
    with store.opened(registry) as opened:
        pairs = find_pairs(opened)
    register_comparisons(instance, names_of(pairs), may_move=True, most_moves=MOVES_PER_TICK)
    due = [
        one for one in pairs if one.is_ready and is_due(one, reasons=reasons) and not is_of_an_upgrade(one)
    ]
    launches = comparison_launches(due, registered_comparisons(instance))
    requests = _requests(instance, launches, NEW_COMPARISONS, reasons, registry)
    return [_with_pages(requests[0])] if len(requests) == 1 else requests


def _with_pages(request: dg.RunRequest) -> dg.RunRequest:
    """The pages in the same run: a night has them without another look and another start of a process."""
    return request.with_replaced_attrs(asset_selection=[*(request.asset_selection or ()), PAGES])


def _page_requests(
    instance: dg.DagsterInstance, store: StoreResource, registry: Registry
) -> list[dg.RunRequest]:
    """One run for all the pages that are due."""
    with store.opened(registry) as opened:
        pages = due_pages(opened, store.settings)
    if not pages:
        return []
    key = f"pages:{digest([f'{page.path} {page.made_at.isoformat()}' for page in pages])}"
    attempt = _next_attempt(instance, key)
    if not attempt:
        return []
    tags = {LAUNCH: digest([key]), WHY: "numbers newer than their pages"}
    return [dg.RunRequest(f"{key}:{attempt}", run_config=QUIET, job_name=PUBLISH_PAGES, tags=tags)]


def _launches(
    instance: dg.DagsterInstance,
    wanted: dict[str, frozenset[str]],
    due: dict[str, StaleRun],
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
    registry: Registry,
) -> list[dg.RunRequest]:
    found: list[dg.RunRequest] = []
    for launch in launches:
        attempt = _next_attempt(instance, launch.key)
        if attempt:
            found.append(
                dg.RunRequest(
                    run_key=f"{launch.key}:{attempt}",
                    run_config=QUIET,
                    job_name=job,
                    asset_selection=launch.selection(),
                    asset_check_keys=launch_checks(launch, registry),
                    tags=launch.tags(reasons),
                )
            )
    return found
