"""Stored answers judged again: no target is called, and what was paid already is not paid again."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from eval_pipeline.config import Config, load_config
from eval_pipeline.errors import UsageError
from eval_pipeline.evaluating.asked import Item, Panel, Questions, SeveralQuestions, main_prompts, panels_of
from eval_pipeline.evaluating.calls import CallStore
from eval_pipeline.evaluating.judging import ask_judges, judged_rows, plan_judges
from eval_pipeline.evaluating.run_bundle import (
    COMPLETE,
    INCOMPLETE,
    Evaluation,
    hold_suite,
    write_judged_again,
)
from eval_pipeline.evaluating.setup import (
    MODELS,
    Judge,
    Suite,
    check_budget,
    check_variables,
    judges_of,
    read_judge,
    read_suite,
    unset,
)
from eval_pipeline.loading.context import LoadReport
from eval_pipeline.loading.load import load_bundles
from eval_pipeline.planning.evaluate import PromptOf, Tell, open_calls, prompts_of
from eval_pipeline.planning.stored_answers import (
    _bring_back_paid,
    _golden_rows,
    _items_of,
    _known_datasets,
    _paid_requests,
    _run_document,
    _stored_answers,
)
from eval_pipeline.settings import variable
from eval_pipeline.store.open import Connection
from eval_pipeline.store.project import Project
from eval_pipeline.store.runs import RunRow, attempts, find_run
from eval_pipeline.words import rounded_usd

Variable = Callable[[str], str | None]


@dataclass(frozen=True)
class ToRejudge:
    """A run with its answers, and who is to judge them; `suite` is the one that says so."""

    run: RunRow
    suite: Suite | None
    judges: dict[str, Judge]
    panels: Sequence[Panel]
    items: Sequence[Item]

    @property
    def questions(self) -> Questions:
        """What the judges are asked."""
        return Questions(self.panels, lambda: self.items, run_id=self.run.run_id)


@dataclass(frozen=True)
class PlannedCalls:
    """What judging would take; `usd` is None where a judge has no price."""

    calls: int = 0
    cached: int = 0
    usd: float | None = 0.0
    skipped: Mapping[str, int] = field(default_factory=dict)


@dataclass
class Rejudged:
    """What came of it, run by run; those that were judged to their end can be loaded."""

    runs: list[Evaluation] = field(default_factory=list)

    @property
    def complete(self) -> list[Evaluation]:
        return [one for one in self.runs if one.state == COMPLETE]

    @property
    def stopped(self) -> str | None:
        return next((one.stopped for one in self.runs if one.state == INCOMPLETE), None)


def last_runs(project: Project, suite: str, n: int | None) -> list[str]:
    """The newest runs of a suite, oldest first."""
    with project.read() as store:
        found = [one.run_id for one in attempts(store.con).values() if one.suite == suite]
    if not found:
        raise UsageError(f"the suite {suite!r} has no runs: `eval-pipeline runs` lists what there is")
    return found if n is None else found[-n:]


def rejudge(
    project: Project,
    run_ids: Sequence[str],
    *,
    judge: str | None = None,
    budget_usd: float | None = None,
    stop: threading.Event,
    tell: Tell | None = None,
) -> Rejudged:
    """Judge these runs one after the other, until all are judged or something stops it.

    The budget is for all of them together; without one each run has that of the suite that says who judges it.
    """
    found = Rejudged()
    config = load_config(project.settings.config)
    # Whatever is missing is said before anybody is asked.
    with project.read() as store:
        for run_id in run_ids:
            _, judges = _judges_of_run(store.con, find_run(store.con, run_id), config, judge, variable)
            for one in judges.values():
                check_budget(one, budget_usd)
    with open_calls(project) as calls:
        before = sum(calls.budgeted(run_id) - calls.unfinished(run_id) for run_id in run_ids)
        for number, run_id in enumerate(run_ids, 1):
            of_all = f"judging {run_id} ({number} of {len(run_ids)})" if len(run_ids) > 1 else "judging"
            with hold_suite(project.settings.rejudged, run_id, "rejudging of"):
                used = sum(map(calls.budgeted, run_ids)) - before
                left = None if budget_usd is None else budget_usd - used
                progress = tell and partial(tell, of_all)
                found.runs.append(_rejudge_run(project, calls, config, run_id, judge, left, stop, progress))
            if found.runs[-1].state == INCOMPLETE:
                break
    return found


def _rejudge_run(
    project: Project,
    calls: CallStore,
    config: Config,
    run_id: str,
    judge: str | None,
    budget_usd: float | None,
    stop: threading.Event,
    progress: Callable[..., None] | None,
) -> Evaluation:
    with project.read() as store:
        wanted = _read_run(store.con, project.settings.db, config, run_id, judge, variable)
        _bring_back_paid(calls, store.con, wanted.run.run_key, run_id)
        document = _run_document(store.con, project.settings.db, run_id)
    asked = wanted.questions
    before = calls.spent(run_id)
    counts = ask_judges(
        calls,
        asked,
        run_id=run_id,
        clock=project.clock,
        budget_usd=wanted.suite.budget_usd if wanted.suite and budget_usd is None else budget_usd,
        # Earlier replies do not count. Calls without a reply do, or each new attempt would have the whole budget.
        spent_usd=calls.unfinished(run_id) if budget_usd is None else 0.0,
        stop=stop,
        progress=progress,
    )
    evaluation = Evaluation(
        run_id=run_id,
        state=COMPLETE if counts.stopped is None else INCOMPLETE,
        stopped=None if counts.stopped is None else counts.stopped.text,
        bundle=str(project.settings.rejudged / run_id),
        target_calls=0,
        judge_calls=counts.asked + len(counts.failed),
        cached=counts.cached,
        failed=len(counts.failed),
        uncertain=sum(one.uncertain for one in calls.totals(run_id)),
        usd=rounded_usd(max(0.0, calls.spent(run_id) - before)),
        waited_s=round(counts.waited_s, 3),
    )
    if counts.stopped is None:
        # Of what is not whole nothing is delivered: what stands is not replaced by less.
        rows = judged_rows(calls, asked, run_id=run_id, failed=counts.failed)
        write_judged_again(project.settings.rejudged, run_id, document, rows)
    return evaluation


def load_rejudged(project: Project, found: Rejudged) -> LoadReport:
    """Take in what was judged to its end."""
    return load_bundles([Path(one.bundle) for one in found.complete], project)


def plan_rejudging(project: Project, run_ids: Sequence[str], judge: str | None = None) -> PlannedCalls:
    """How many calls judging these runs would take; what several of them need is asked once."""
    config = load_config(project.settings.config)
    with project.read() as store:
        wanted = [
            _read_run(store.con, project.settings.db, config, run_id, judge, unset) for run_id in run_ids
        ]
        paid = _paid_requests(store.con, [one.run.run_key for one in wanted])
    everything = SeveralQuestions([one.questions for one in wanted])
    with open_calls(project, asks_nobody=True) as calls:
        planned = plan_judges(calls, everything, known=paid)
    judges = {one.name: one for one in everything.judges}
    costs = [one.usd if judges[one.judge].kind in MODELS else 0.0 for one in planned if one.calls]
    skipped = Counter(one.skipped for one in everything if one.skipped is not None)
    return PlannedCalls(
        sum(one.calls for one in planned),
        sum(one.cached for one in planned),
        None if None in costs else rounded_usd(sum(one for one in costs if one is not None)),
        skipped,
    )


def _read_run(
    con: Connection,
    db: Path,
    config: Config,
    run_id: str,
    judge: str | None,
    variable: Variable,
) -> ToRejudge:
    """A run with what is to be judged of it, and by whom."""
    run = find_run(con, run_id)
    suite, judges = _judges_of_run(con, run, config, judge, variable)
    rows = _golden_rows(con, db, run.dataset, config)
    items = list(_items_of(rows, _stored_answers(con, run.run_key)))
    prompt = prompts_of(config)
    return ToRejudge(run, suite, judges, _panels(run, suite, judges, prompt, items), items)


def _judges_of_run(
    con: Connection, run: RunRow, config: Config, judge: str | None, variable: Variable
) -> tuple[Suite | None, dict[str, Judge]]:
    """The judge that was named, else those of the run's suite, with it, else the only one there is."""
    if judge is not None:
        return None, {judge: read_judge(config, judge, variable)}
    suite = attempts(con, [run.run_id])[run.run_id].suite
    if suite is not None and suite in config.suites:
        read = read_suite(config, suite, unset, datasets=_known_datasets(con))
        if read.judges:
            check_variables(config, variable, judges=judges_of(read))
            return read, {name: read_judge(config, name, variable) for name in judges_of(read)}
    if len(config.judges) == 1:
        (only,) = config.judges
        return None, {only: read_judge(config, only, variable)}
    named = ", ".join(config.judges) or "none yet; [judges.NAME] in eval-pipeline.toml says who judges"
    raise UsageError(
        f"nothing says who judges {run.run_id}: name one with --judge (there is: {named}), or give its suite "
        f"{suite or 'NAME'} judges in [suites.{suite or 'NAME'}]"
    )


def _panels(
    run: RunRow, suite: Suite | None, judges: dict[str, Judge], prompt: PromptOf, items: Sequence[Item]
) -> list[Panel]:
    if suite is None:
        return [Panel(one, main_prompts(one, prompt)) for one in judges.values()]
    return panels_of(replace(suite, canary=None), judges, prompt, run_id=run.run_id, items=items)
