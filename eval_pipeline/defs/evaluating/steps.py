"""A suite asked, taken in, computed, compared, judged and published: what each step does."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import dagster as dg

from eval_pipeline.comparing.pairs import find_pairs, is_due, store_comparisons
from eval_pipeline.comparing.stored import stored_pairs
from eval_pipeline.computing.measure import measure
from eval_pipeline.computing.progress import failures_of
from eval_pipeline.defs.assets import JUDGEMENTS, TARGET_RESPONSES
from eval_pipeline.defs.comparisons import COMPARISONS, GATE, gate_result
from eval_pipeline.defs.resources import StoreResource
from eval_pipeline.defs.telling.existing import _show_anew
from eval_pipeline.formulas.registry import Registry
from eval_pipeline.report.pages.writing import publish_pages
from eval_pipeline.words import failed_sentence

if TYPE_CHECKING:
    from eval_pipeline.evaluating.run_bundle import Evaluation

INTERRUPTED = "interrupted"
# Of one night nothing is said about all of history.
NOT_HERE = "not passed in all of history"


@dataclass(frozen=True)
class Night:
    """The run of a suite that a Dagster run makes; `run_ids` are the run and its replicates."""

    suite: str
    run_ids: Sequence[str]

    @property
    def run_id(self) -> str:
        return self.run_ids[0]


@contextmanager
def asking() -> Iterator[threading.Event]:
    """What to hand on as `stop`; signals come to the main thread, and only there can they be heard."""
    from eval_pipeline.evaluating.executor import interruptible

    if threading.current_thread() is not threading.main_thread():
        yield threading.Event()
        return
    with interruptible() as stop:
        yield stop


def _end_unfinished(why: str | None) -> None:
    """Fail the step with the sentence that says why the asking ended, if it ended before its end."""
    if why == INTERRUPTED:
        raise dg.DagsterExecutionInterruptedError
    if why is not None:
        raise dg.Failure(
            f"not finished: {why}. Everything that was paid is kept; re-executing this run goes on from there.",
            allow_retries=False,
        )


def ask(context: dg.OpExecutionContext, store: StoreResource, night: Night) -> None:
    """Ask target and judges; a run that is whole already is left as it is, and one that was begun is continued."""
    from eval_pipeline.planning.evaluate import Wish, evaluate, evaluating_suite, load_evaluated, read_setup

    project, wish = store.project(), Wish(night.suite, run_id=night.run_id)
    setup = read_setup(project, wish)
    with evaluating_suite(project, night.suite), asking() as stop:
        found = evaluate(project, setup, wish, stop=stop)
    for one in found:
        _tell_asked(context, one)
    why = next((one.stopped for one in found if one.stopped), None)
    if why is not None and why != INTERRUPTED:
        # Whoever looks at the store sees that the night is not whole.
        load_evaluated(project, found)
    _end_unfinished(why)


def _tell_asked(context: dg.OpExecutionContext, one: "Evaluation") -> None:
    """What was asked of a run that is whole, as the partitions of two assets."""
    if one.stopped is not None:
        return
    for key in (TARGET_RESPONSES, JUDGEMENTS):
        context.log_event(dg.AssetMaterialization(key, partition=one.run_id, metadata=_asked_metadata(one)))


def _asked_metadata(one: "Evaluation") -> dict[str, Any]:
    """The calls of a run and what they cost."""
    said = {name.replace("_", " "): value for name, value in asdict(one).items() if value is not None}
    return {name: value for name, value in said.items() if name not in ("run id", "bundle")}


def _take_in(context: dg.OpExecutionContext, store: StoreResource, night: Night) -> None:
    """Load the bundles, and forget that there was anything left to do."""
    from eval_pipeline.evaluating.run_bundle import evaluation_of
    from eval_pipeline.planning.evaluate import finish, load_evaluated

    project = store.project()
    evaluations = project.settings.evaluations
    found = [one for run_id in night.run_ids if (one := evaluation_of(evaluations, run_id)) is not None]
    with store.limited():
        report = load_evaluated(project, found)
    for problem in report.problems[:3]:
        context.log.warning(f"{problem.path}:{problem.line or ''} {problem.reason}")
    context.add_output_metadata({"results": report.results, "quarantined": report.quarantined})
    finish(project, found)


def _by_this_job(context: dg.OpExecutionContext) -> str:
    return f"computed by {context.job_name}"


def compute(
    context: dg.OpExecutionContext, store: StoreResource, registry: Registry, run_ids: Sequence[str]
) -> None:
    """Compute what is missing of these runs, and show it."""
    with store.limited():
        measure(store.project(registry), run_ids=set(run_ids), dagster_run_id=context.run.run_id)
        with store.opened(registry) as opened:
            failures = failures_of(opened, None, run_ids)
            _show_anew(context.instance, opened, store.settings, run_ids, why=_by_this_job(context))
    if failures:
        told = (f"{name}: {failed_sentence(list(failed.items()))}" for name, failed in failures.items())
        raise dg.Failure("\n".join(told), allow_retries=False)


def compare(
    context: dg.OpExecutionContext, store: StoreResource, registry: Registry, run_ids: Sequence[str]
) -> Iterator[dg.AssetCheckEvaluation | dg.Output[None]]:
    """Compare the runs with the night before and with their baseline; a gate that fails ends the Dagster run here."""
    with store.limited():
        with store.opened(registry) as opened:
            pairs = [
                (one.run_a, one.run_b)
                for one in find_pairs(opened)
                if one.run_b in run_ids and one.is_ready and (one.computed_at or is_due(one, reasons=None))
            ]
        done = store_comparisons(store.project(registry), pairs, dagster_run_id=context.run.run_id)
        if done.errors:
            raise next(iter(done.errors.values()))
        with store.opened(registry) as opened:
            _show_anew(context.instance, opened, store.settings, run_ids, why=_by_this_job(context))
            gates = [one.gate for one in stored_pairs(opened.con, pairs).values() if one.gate is not None]
    said = gate_result(gates)
    has_failed = any(one.verdict == "fail" for one in gates)
    # Yielded: what is only logged is lost where the step fails.
    yield (
        dg.AssetCheckEvaluation(
            COMPARISONS,
            GATE,
            said.passed,
            metadata={name: value for name, value in said.metadata.items() if name != NOT_HERE},
            severity=dg.AssetCheckSeverity.ERROR if has_failed else dg.AssetCheckSeverity.WARN,
            description=said.description,
            blocking=True,
        )
    )
    if has_failed:
        raise dg.Failure(f"the gate says {said.description}", allow_retries=False)
    yield dg.Output(None)


def _publish(context: dg.OpExecutionContext, store: StoreResource, registry: Registry) -> None:
    """Write the pages that are older than their numbers."""
    with store.limited():
        published = publish_pages(store.project(registry))
    if published.errors:
        raise published.errors[0]
    context.add_output_metadata({"pages written": len(published.pages)})
