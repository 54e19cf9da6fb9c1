"""The one door from the command line into Dagster, which is imported behind it."""

from __future__ import annotations

import os
import uuid
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from eval_pipeline.comparing.pairs import PAIRS, due_pairs, find_pairs, is_due
from eval_pipeline.comparing.stored import compared_by
from eval_pipeline.computing.measure import Progress
from eval_pipeline.computing.progress import (
    Computed,
    computed_by,
    failures_of,
    outdated_tables,
    stale_runs,
)
from eval_pipeline.computing.states import states_of_cells
from eval_pipeline.defs.home_faults import EventsLost, events_lost, why_untold
from eval_pipeline.loading.inbox import look_into
from eval_pipeline.settings import CONFIG, OWN_SQL, Settings
from eval_pipeline.store.project import Project, Store
from eval_pipeline.upkeep.dagster_home import missing_storage, prepare_home
from eval_pipeline.words import failed_sentence

if TYPE_CHECKING:
    import dagster as dg

    from eval_pipeline.defs.launches import Launch
    from eval_pipeline.defs.resources import Listener

HOST = "127.0.0.1"
# Above any range: the events of a table are written together.
EVENT_ENVIRONMENT = {"DAGSTER_EVENT_BATCH_SIZE": "100000"}
QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


@dataclass(frozen=True)
class Asked:
    """What somebody wants computed; None sets no limit."""

    run_ids: Collection[str] | None
    reasons: Collection[str] | None
    definitions: Collection[str] | None
    note: str | None
    pages: bool = False

    @property
    def includes_comparisons(self) -> bool:
        """Whether pairs of runs are asked for too; they rest on everything, so tables that are named leave them out."""
        return self.definitions is None or PAIRS in self.definitions


@dataclass(frozen=True)
class Summary:
    """What one call computed, the Dagster runs that show it, and the checks that failed.

    `failed` holds the asked tables that could not be computed, now or earlier, each with its reason.
    """

    computed: Computed
    dagster_run_ids: tuple[str, ...]
    failed_checks: tuple[str, ...]
    failed: Mapping[str, str] = field(default_factory=dict)

    @property
    def n_cells(self) -> int:
        """How many tables × runs were computed."""
        return sum(self.computed.cells.values())


def run_in_dagster(
    project: Project,
    *,
    run_ids: Collection[str] | None = None,
    reasons: Collection[str] | None,
    definitions: Collection[str] | None = None,
    note: str | None = None,
    pages: bool = False,
    progress: Progress | None = None,
) -> Summary:
    """Compute, as Dagster runs of this process, what is due for one of the reasons (None: any).

    Tables of runs first, then the comparisons that rest on them, then with `pages` what is published of both.
    `definitions` and `run_ids` limit it; `note` is kept beside every number that is replaced. Everything
    that can be computed is. What of a formula fails is told in the summary; the first other error is raised as it was.
    Where Dagster's own files stand in the way, that is said, and the rest is computed by a Dagster that forgets it.
    """
    import dagster as dg

    from eval_pipeline.defs.resources import Listener

    listener = Listener(project.notify, progress)
    asked = Asked(run_ids, reasons, definitions, note, pages)
    started: list[str] = []
    with _environment(EVENT_ENVIRONMENT):
        try:
            with open_instance(project.settings) as instance:
                found = _execute(project, instance, listener, asked, started)
        except Exception as error:
            why = why_untold(project.settings.dagster_home, error)
            if why is None or listener.errors:
                raise
            (project.notify or warnings.warn)(
                f"Dagster is not told what is computed: {why}. Computing goes on."
            )
            listener = Listener(project.notify, progress)
            with dg.DagsterInstance.ephemeral() as forgetting:
                found = _execute(project, forgetting, listener, asked, started)
    if listener.errors:
        raise listener.errors[0]
    return found


def _execute(
    project: Project,
    instance: dg.DagsterInstance,
    listener: Listener,
    asked: Asked,
    started: list[str],
) -> Summary:
    from eval_pipeline.definitions import build_definitions
    from eval_pipeline.defs.jobs import NEW_COMPARISONS, NIGHTLY_EVALUATION, PUBLISH_PAGES

    launches, listener.total = _due_launches(project, instance, asked)
    work = Work(
        project,
        instance,
        build_definitions(project, listener=listener),
        listener,
        started,
    )
    for launch in launches:
        work.execute(launch, NIGHTLY_EVALUATION, asked)
    if asked.includes_comparisons:
        for launch in _due_comparisons(work, asked):
            work.execute(launch, NEW_COMPARISONS, asked)
    if asked.pages:
        work.execute(None, PUBLISH_PAGES, asked)
    with project.read() as store:
        computed = computed_by(store.con, work.started)
        pairs = compared_by(store.con, work.started)
        failed = failures_of(store, asked.definitions, asked.run_ids)
        _answer_whether_up_to_date(work.instance, store)
    return Summary(
        _with_comparisons(computed, pairs),
        tuple(work.started),
        tuple(work.failed_checks),
        {name: failed_sentence(list(runs.items())) for name, runs in failed.items()},
    )


def _answer_whether_up_to_date(instance: dg.DagsterInstance, store: Store) -> None:
    """Tell Dagster, without a run, where the check up_to_date has another answer than before."""
    from eval_pipeline.defs.checks import new_answers

    with states_of_cells(store, only_due=True) as states:
        tables = outdated_tables(states)
    for answer in new_answers(instance, store.definitions(), tables):
        instance.report_runless_asset_event(answer)


def _with_comparisons(computed: Computed, pairs: Sequence[tuple[str, str]]) -> Computed:
    """Comparisons are counted like the tables they rest on, each for its second run."""
    if not pairs:
        return computed
    runs = {*computed.runs, *(run_b for _, run_b in pairs)}
    return replace(computed, cells={**computed.cells, PAIRS: len(pairs)}, runs=tuple(sorted(runs)))


@dataclass
class Work:
    """What one command executes in Dagster, and what came of it."""

    project: Project
    instance: dg.DagsterInstance
    definitions: dg.Definitions
    listener: Listener
    started: list[str]
    failed_checks: list[str] = field(default_factory=list)

    def execute(self, launch: Launch | None, job: str, asked: Asked) -> None:
        """Execute a job, of a range of partitions where there is a launch; errors are remembered, not raised."""
        # Known before it begins: what it computed counts, also when Dagster cannot note the rest.
        run_id = str(uuid.uuid4())
        self.started.append(run_id)
        self.listener.failed.clear()
        result = _execute_job(self, job, launch, asked, run_id=run_id)
        self.failed_checks += [
            f"{check.asset_key.to_user_string()}: {check.check_name}: {check.description}"
            for check in result.get_asset_check_evaluations()
            if not check.passed
        ]
        if _was_interrupted(result):
            raise KeyboardInterrupt
        if not result.success and not self.listener.errors and not self.listener.failed:
            failure = _failure_of(result)
            if isinstance(failure, EventsLost):
                raise failure
            self.listener.errors.append(failure)


def _due_comparisons(work: Work, asked: Asked) -> list[Launch]:
    """The pairs that can be compared now, as ranges."""
    from eval_pipeline.defs.comparisons import comparison_launches, names_of
    from eval_pipeline.defs.partitions import register_comparisons, registered_comparisons
    from eval_pipeline.defs.processes import runs_under_way

    with work.project.read() as store:
        pairs = find_pairs(store)
    may_move = not runs_under_way(work.instance)
    register_comparisons(work.instance, names_of(pairs), may_move=may_move)
    due = [one for one in pairs if one.is_ready and is_due(one, reasons=asked.reasons, run_ids=asked.run_ids)]
    return comparison_launches(
        due, registered_comparisons(work.instance), may_cover_gaps=asked.run_ids is None
    )


def _due_launches(project: Project, instance: dg.DagsterInstance, asked: Asked) -> tuple[list[Launch], int]:
    """Bring what Dagster shows up to the store, and find what is to be computed; also its number of cells."""
    from eval_pipeline.defs.launches import all_names, plan_launches, shown_runs, wanted_assets
    from eval_pipeline.defs.metadata import why_due
    from eval_pipeline.defs.partitions import registered_runs
    from eval_pipeline.defs.processes import fail_dead_runs, runs_under_way
    from eval_pipeline.defs.sources import report_existing

    registry = project.definitions()
    fail_dead_runs(instance, now=project.clock())
    with project.read() as store:
        states = states_of_cells(store, only_due=True)
        due = stale_runs(
            states, registry, reasons=asked.reasons, run_ids=asked.run_ids, names=asked.definitions
        )
        pairs = (
            due_pairs(store, reasons=asked.reasons, run_ids=asked.run_ids)
            if asked.includes_comparisons
            else []
        )
        inbox = look_into(project.settings.inbox)
        report_existing(instance, store, inbox, may_move=not runs_under_way(instance))
    launches = plan_launches(
        wanted_assets(due, all_names(registry), shown_runs(instance)),
        registered_runs(instance),
        states={run_id: run.state for run_id, run in due.items()},
        why={run_id: why_due(run) for run_id, run in due.items()},
        may_cover_gaps=asked.run_ids is None,
    )
    return launches, sum(run.n_cells for run in due.values()) + len(pairs)


def _execute_job(
    work: Work, job: str, launch: Launch | None, asked: Asked, *, run_id: str
) -> dg.ExecuteInProcessResult:
    from eval_pipeline.defs.comparisons import launch_checks
    from eval_pipeline.defs.processes import PROCESS_TAG, this_process

    executed = work.definitions.resolve_job_def(job)
    if launch:
        executed = executed.get_subset(
            asset_selection=frozenset(launch.selection()),
            asset_check_selection=frozenset(launch_checks(launch, work.project.definitions())),
        )
    range_tags = launch.tags(asked.reasons) if launch else {}
    return executed.execute_in_process(
        instance=work.instance,
        run_id=run_id,
        tags=range_tags | {PROCESS_TAG: this_process()} | _asked_tags(asked),
        run_config=QUIET,
        raise_on_error=False,
    )


def _asked_tags(asked: Asked) -> dict[str, str]:
    from eval_pipeline.defs.tags import NOTE, ONLY

    only = {ONLY: ",".join(sorted(asked.definitions))} if asked.definitions else {}
    return only | ({NOTE: asked.note} if asked.note else {})


def _was_interrupted(result: dg.ExecuteInProcessResult) -> bool:
    """Dagster takes an interrupt for the failure of one run; the user meant the command."""
    from dagster._core.events import JobFailureData, RunFailureReason

    return any(
        isinstance(event.event_specific_data, JobFailureData)
        and event.event_specific_data.failure_reason == RunFailureReason.UNEXPECTED_TERMINATION
        for event in result.all_events
    )


def _failure_of(result: dg.ExecuteInProcessResult) -> Exception:
    """What went wrong outside of our own code, in Dagster's words."""
    for event in result.all_events:
        if event.is_failure:
            info = getattr(event.event_specific_data, "error", None)
            lost = events_lost(info.to_string() if info else "")
            if lost:
                return lost
            return RuntimeError(f"Dagster run {result.run_id}: {event.message}")
    return RuntimeError(f"Dagster run {result.run_id} did not finish")


@contextmanager
def open_instance(settings: Settings) -> Iterator[dg.DagsterInstance]:
    """Dagster's memory in the project's home, which is made when it is not there."""
    from eval_pipeline.defs.event_log import open_home

    prepare_home(settings)
    with open_home(settings.dagster_home) as instance:
        yield instance


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Dagster reads these from the environment of the process; what the user has set wins."""
    added = {name: value for name, value in values.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


def offer_storage(project: Project) -> None:
    """Say which lines somebody's own dagster.yaml lacks: servers read nothing else."""
    lines = missing_storage(project.settings.dagster_home)
    if lines:
        (project.notify or warnings.warn)(
            f"{project.settings.dagster_home / 'dagster.yaml'} names no storage, so that a partition costs ten times "
            f"what it needs to; add:\n\n{lines}\n"
        )


def show_what_was_computed(project: Project) -> None:
    """Show in Dagster what was computed past it, so that nothing there is called never materialized which is.

    Whatever is wrong with a store or a home is for the web interface to show.
    """
    from eval_pipeline.defs.telling.existing import show_existing

    if not project.settings.db.exists():
        return
    try:
        with (
            _environment(EVENT_ENVIRONMENT),
            open_instance(project.settings) as instance,
            project.read() as store,
        ):
            show_existing(instance, store, project.settings)
            _answer_whether_up_to_date(instance, store)
    except Exception as error:
        warnings.warn(f"Dagster does not show what was computed elsewhere: {error}", stacklevel=2)


def ui_environment(settings: Settings, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment in which the web interface sees exactly these settings."""
    return {
        **EVENT_ENVIRONMENT,
        **environ,
        "DAGSTER_HOME": str(settings.dagster_home),
        "EVAL_PIPELINE_DB": str(settings.db),
        "EVAL_PIPELINE_INBOX": str(settings.inbox),
        "EVAL_PIPELINE_REPORTS": str(settings.reports),
        **({CONFIG: str(settings.config)} if CONFIG in settings.named or settings.config.exists() else {}),
        **({OWN_SQL: str(settings.own_sql)} if settings.own_sql else {}),
    }
