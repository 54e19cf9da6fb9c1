"""A suite evaluated: its target and its judges asked, and the bundle of the run written and loaded."""

from __future__ import annotations

import datetime as dt
import shlex
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from zoneinfo import ZoneInfo

from eval_pipeline.config import Config, load_config
from eval_pipeline.errors import UsageError
from eval_pipeline.evaluating.answers import ask_target, plan_target, result_rows
from eval_pipeline.evaluating.asked import (
    MAIN,
    FirstAnswer,
    Item,
    Panel,
    Questions,
    SeveralQuestions,
    has_failed,
    panels_of,
)
from eval_pipeline.evaluating.calls import CallStore
from eval_pipeline.evaluating.endpoint import INTERRUPTED
from eval_pipeline.evaluating.executor import Counts, Progress
from eval_pipeline.evaluating.judging import JudgedRow, ask_judges, judged_rows, plan_judges, sent_to
from eval_pipeline.evaluating.prompt_files import Prompt, read_prompt
from eval_pipeline.evaluating.run_bundle import (
    COMPLETE,
    INCOMPLETE,
    Evaluation,
    begin_run,
    begun_run,
    evaluation_of,
    finish_run,
    hold_suite,
    is_complete,
    unfinished_runs,
    write_run,
)
from eval_pipeline.evaluating.setup import (
    MODELS,
    Judge,
    Suite,
    Target,
    check_budget,
    judges_of,
    own_prompts,
    read_judge,
    read_suite,
    read_target,
)
from eval_pipeline.evaluating.targets import check_listens
from eval_pipeline.loading.context import LoadReport
from eval_pipeline.loading.load import load_bundles
from eval_pipeline.planning.stored_answers import Row, _first_answers, _golden_rows, _known_datasets
from eval_pipeline.settings import variable
from eval_pipeline.store.open import first_value
from eval_pipeline.store.project import Project
from eval_pipeline.words import rounded_usd

_LIMIT: Final = "limit"
_SUITE_TIME: Final = "suite_time_ms"
# Of an answer with its passages, before a target has answered.
IMAGINED_BYTES: Final = 8000
# (what is being done, where it stands)
Tell = Callable[[str, Progress], None]
PromptOf = Callable[[str], Prompt]


@dataclass(frozen=True)
class Wish:
    """What somebody wants evaluated, and how it differs from what the suite says."""

    suite: str
    limit: int | None = None
    budget_usd: float | None = None
    is_new: bool = False
    run_id: str | None = None


@dataclass(frozen=True)
class Setup:
    """Everything that evaluating a suite needs, read and checked before anybody is asked."""

    suite: Suite
    target: Target
    judges: Mapping[str, Judge]
    prompt: PromptOf
    rows: Sequence[Row]
    limit: int | None

    @property
    def first_judge(self) -> Judge | None:
        """The one whose judgements are scored."""
        return self.judges[self.suite.judges[0]] if self.suite.judges else None


@dataclass(frozen=True)
class PlannedEvaluation:
    """The calls that evaluating would make; `usd` is None where nothing was asked yet that could say it.

    `most_usd` is the budget, or holds where no answer with its passages is longer than is imagined.
    """

    run_id: str
    target_calls: int
    judge_calls: int
    cached: int
    usd: float | None
    most_usd: float | None


def prompts_of(config: Config) -> PromptOf:
    """Prompts by their name, each read once."""
    own = own_prompts(config)
    return cache(lambda ask: read_prompt(ask, own))


def read_setup(project: Project, wish: Wish) -> Setup:
    """The suite with everybody whom it names; whatever is wrong is said here."""
    config = load_config(project.settings.config)
    with project.read() as store:
        suite = read_suite(config, wish.suite, variable, datasets=_known_datasets(store.con))
        rows = _golden_rows(store.con, project.settings.db, suite.dataset, config)
    judges = {name: read_judge(config, name, variable) for name in judges_of(suite)}
    if wish.budget_usd is not None:
        suite = replace(suite, budget_usd=wish.budget_usd)
        for judge in judges.values():
            check_budget(judge, wish.budget_usd)
    prompt = prompts_of(config)
    named = [suite.spot_check.prompt] if suite.spot_check and suite.spot_check.prompt else []
    for ask in [*named, *(ask for judge in judges.values() for ask in judge.asks)]:
        prompt(ask)
    if suite.judges:
        panels_of(suite, judges, prompt, run_id="", items=())
    limits = [one for one in (wish.limit, suite.limit) if one is not None]
    limit = min(limits, default=None)
    target = read_target(config, suite.target, variable)
    return Setup(suite, target, judges, prompt, rows[:limit], limit)


@contextmanager
def evaluating_suite(project: Project, suite: str) -> Iterator[None]:
    """Nobody else evaluates the suite meanwhile."""
    with hold_suite(project.settings.evaluations, suite):
        yield


@contextmanager
def open_calls(project: Project, *, asks_nobody: bool = False) -> Iterator[CallStore]:
    """The store of calls; for whoever only plans, none is made where there is none."""
    path = project.settings.calls
    if path.exists() or not asks_nobody:
        with CallStore(path, clock=project.clock) as calls:
            yield calls
        return
    with (
        TemporaryDirectory(prefix="eval-pipeline-") as folder,
        CallStore(Path(folder) / path.name, clock=project.clock) as calls,
    ):
        yield calls


def evaluate(
    project: Project, setup: Setup, wish: Wish, *, stop: threading.Event, tell: Tell | None = None
) -> list[Evaluation]:
    """Ask until all is answered, or something stops it: one bundle, or as many as the suite has repeats."""
    found: list[Evaluation] = []
    with open_calls(project) as calls:
        documents = _documents(project, setup, wish)
        for document in documents:
            others = [one["run_id"] for one in documents if one is not document]
            found.append(_EvaluatedRun(project, setup, calls, document).made(others, stop, tell))
            if found[-1].state == INCOMPLETE:
                break
    return found


def _documents(project: Project, setup: Setup, wish: Wish) -> list[Row]:
    """What run.json of every repeat will say."""
    run_id, created_at = _run_to_make(project, setup, wish)
    first = _document(setup, run_id, created_at)
    again = runs_made(run_id, setup.suite.repeats)[1:]
    return [first, *(first | {"run_id": one, "replicate_of": run_id} for one in again)]


def runs_made(run_id: str, repeats: int) -> list[str]:
    """The run and its replicates."""
    return [run_id, *(f"{run_id}.e{number}" for number in range(2, repeats + 1))]


def _run_to_make(project: Project, setup: Setup, wish: Wish) -> tuple[str, str]:
    """The run that was begun by the same wish and has not come to its end, else a new one; and when it began."""
    evaluations = project.settings.evaluations
    now = f"{project.clock():%Y-%m-%dT%H:%M:%SZ}"
    if wish.run_id is not None:
        begun = begun_run(evaluations, wish.run_id)
        if begun is None:
            _check_free(project, wish.run_id)
            return wish.run_id, now
        if begun.get("suite") != setup.suite.name:
            raise UsageError(f"the run {wish.run_id} was begun for the suite {begun.get('suite')!r}")
        return wish.run_id, str(begun["created_at"])
    if not wish.is_new:
        for begun in unfinished_runs(evaluations, setup.suite.name):
            if begun.get(_LIMIT) == setup.limit:
                return str(begun.get("replicate_of") or begun["run_id"]), str(begun["created_at"])
    return _new_name(evaluations, f"{setup.suite.name}-{project.clock():%Y-%m-%dT%H%M%S}"), now


def _command_that_goes_on(project: Project, run_id: str) -> str | None:
    """What continues a run that was begun here."""
    begun = begun_run(project.settings.evaluations, run_id)
    if begun is None:
        return None
    limit = [] if begun.get(_LIMIT) is None else ["--limit", str(begun[_LIMIT])]
    named = str(begun.get("replicate_of") or run_id)
    return shlex.join(["eval-pipeline", "evaluate", str(begun["suite"]), *limit, "--run-id", named])


def _new_name(evaluations: Path, name: str) -> str:
    number, found = 1, name
    while (evaluations / found).exists():
        number += 1
        found = f"{name}-{number}"
    return found


def _check_free(project: Project, run_id: str) -> None:
    """A run that was loaded from elsewhere is not asked for under its name."""
    if evaluation_of(project.settings.evaluations, run_id) is not None:
        return
    with project.read() as store:
        if first_value(store.con, "select 1 from raw.runs where run_id = ?", [run_id]):
            raise UsageError(
                f"the run {run_id} is in the store and was not evaluated here: take another --run-id, or "
                f"`eval-pipeline rejudge {run_id}` to judge its answers"
            )


def _document(setup: Setup, run_id: str, created_at: str) -> Row:
    suite = setup.suite
    document: Row = {
        "run_id": run_id,
        "dataset": suite.dataset,
        "suite": suite.name,
        "created_at": created_at,
    }
    if suite.at is not None:
        # What runs every night stands for the night that it began in.
        began = dt.datetime.fromisoformat(created_at).astimezone(ZoneInfo(suite.timezone))
        document["night"] = began.date().isoformat()
    return document | {"config": dict(setup.target.config) | _judge_config(setup)}


def _judge_config(setup: Setup) -> Row:
    judge = setup.first_judge
    if judge is None:
        return {}
    ask = "groundedness" if "groundedness" in judge.asks else judge.asks[0]
    said = {
        "model": judge.model,
        "version": judge.version,
        "temperature": 0 if judge.kind in MODELS else None,
        "prompt_version": setup.prompt(ask).version,
    }
    found: Row = {"judge": {name: value for name, value in said.items() if value is not None}}
    if judge.price is not None:
        price = judge.price
        found["judge_price_per_1k"] = {"prompt": price.prompt / 1000, "completion": price.completion / 1000}
    return found


@dataclass(frozen=True)
class _EvaluatedRun:
    """One run of the suite, asked for and written."""

    project: Project
    setup: Setup
    calls: CallStore
    document: Row

    @property
    def run_id(self) -> str:
        return str(self.document["run_id"])

    @property
    def evaluations(self) -> Path:
        return self.project.settings.evaluations

    def made(self, others: Sequence[str], stop: threading.Event, tell: Tell | None) -> Evaluation:
        """What came of it; a run that was whole already is left as it is."""
        whole = evaluation_of(self.evaluations, self.run_id)
        if whole is not None and whole.state == COMPLETE:
            return whole
        if plan_target(self.calls, self.setup.target, self.setup.rows, run_id=self.run_id):
            check_listens(self.setup.target)
        begun = begun_run(self.evaluations, self.run_id)
        earlier_ms = 0.0 if begun is None else begun.get(_SUITE_TIME)
        # A process that is killed leaves null: the time it took is not known, nor is that of the suite.
        self._begin(suite_time_ms=None)
        started = time.monotonic()
        asked = ask_target(
            self.calls,
            self.setup.target,
            self.setup.rows,
            run_id=self.run_id,
            clock=self.project.clock,
            stop=stop,
            progress=tell and partial(tell, f"asking {self.setup.target.name}"),
        )
        questions = self.questions(asked.failed)
        judged = Counts(stopped=asked.stopped)
        if asked.stopped is None and questions.judges:
            judged = ask_judges(
                self.calls,
                questions,
                run_id=self.run_id,
                clock=self.project.clock,
                budget_usd=self._budget(others),
                stop=stop,
                progress=tell and partial(tell, "judging"),
            )
        elapsed_ms = (time.monotonic() - started) * 1000
        suite_time_ms = None if earlier_ms is None else round(earlier_ms + elapsed_ms, 3)
        self._begin(suite_time_ms=suite_time_ms)
        return self._written(asked, judged, questions, suite_time_ms=suite_time_ms)

    def _begin(self, *, suite_time_ms: float | None) -> None:
        begin_run(self.evaluations, {**self.document, _LIMIT: self.setup.limit, _SUITE_TIME: suite_time_ms})

    def questions(self, failed: Mapping[str, str], *, imagined: bool = False) -> Questions:
        """What is judged of the answers that there are; `imagined`: and of those that will be."""
        items = partial(self._items, failed, imagined=imagined)
        suite, judges = self.setup.suite, self.setup.judges
        panels: list[Panel] = []
        if suite.judges:
            panels = panels_of(suite, judges, self.setup.prompt, run_id=self.run_id, items=items())
        return Questions(panels, items, run_id=self.run_id, canary=self._canary())

    def _items(self, failed: Mapping[str, str], *, imagined: bool) -> Iterator[Item]:
        results = result_rows(
            self.calls, self.setup.target, self.setup.rows, run_id=self.run_id, failed=failed
        )
        following = next(results, None)
        for row in self.setup.rows:
            if following is not None and following["query_id"] == row["query_id"]:
                yield Item(row, following)
                following = next(results, None)
            elif imagined:
                text = f"an answer to {row['query_id']}".ljust(IMAGINED_BYTES // 2, ".")
                yield Item(row, {"answer": {"text": text}, "hits_top_k": [{"text": text}]})

    def _canary(self) -> list[FirstAnswer]:
        canary, judge = self.setup.suite.canary, self.setup.first_judge
        if canary is None or judge is None:
            return []
        with self.project.read() as store:
            return _first_answers(store.con, self.setup.suite.name, self.run_id, judge, canary.n)

    def _budget(self, others: Sequence[str]) -> float | None:
        """What the suite's other repeats have left of it."""
        budget = self.setup.suite.budget_usd
        return None if budget is None else max(0.0, budget - sum(map(self.calls.budgeted, others)))

    def _written(
        self, asked: Counts, judged: Counts, questions: Questions, *, suite_time_ms: float | None
    ) -> Evaluation:
        stop = asked.stopped or judged.stopped
        totals = self.calls.totals(self.run_id)
        made = {True: 0, False: 0}
        for one in totals:
            made[one.party.startswith("target ")] += one.answered + one.failed
        answered = sum(one.answered for one in totals if not one.party.startswith("target "))
        evaluation = Evaluation(
            run_id=self.run_id,
            state=COMPLETE if stop is None else INCOMPLETE,
            stopped=None if stop is None else stop.text,
            bundle=str(self.evaluations / self.run_id),
            target_calls=made[True],
            judge_calls=made[False],
            cached=max(0, judged.asked + judged.cached - answered),
            failed=self._failed_rows(asked) + len(judged.failed),
            uncertain=sum(one.uncertain for one in totals),
            usd=rounded_usd(self.calls.spent(self.run_id)),
            waited_s=round(asked.waited_s + judged.waited_s, 3),
        )
        if stop is not None and stop.kind == INTERRUPTED:
            # Somebody waits for the terminal; whoever goes on writes the bundle out of what is kept.
            return evaluation
        judge_ms: dict[str, float] = {}
        results = result_rows(
            self.calls, self.setup.target, self.setup.rows, run_id=self.run_id, failed=asked.failed
        )
        rows = judged_rows(self.calls, questions, run_id=self.run_id, failed=judged.failed)
        write_run(
            self.evaluations,
            self._as_it_was_judged(questions) | {_SUITE_TIME: suite_time_ms},
            judged=_with_times_in(judge_ms, rows),
            results=(_with_judge_time(row, judge_ms) for row in results),
            evaluation=evaluation,
        )
        return evaluation

    def _failed_rows(self, asked: Counts) -> int:
        """Questions without an answer of the target: calls that came to nothing, and replies that are no result."""
        rows = result_rows(
            self.calls, self.setup.target, self.setup.rows, run_id=self.run_id, failed=asked.failed
        )
        return sum(map(has_failed, rows))

    def _as_it_was_judged(self, questions: Questions) -> Row:
        """The document; a model that refuses a temperature was asked without, and the run says so."""
        document, judge = dict(self.document), self.setup.first_judge
        if judge is None or judge.kind not in MODELS:
            return document
        sent = next(sent_to(self.calls, questions, judge.name), None)
        if sent is not None and "temperature" not in sent:
            config = dict(document["config"])
            config["judge"] = {
                name: value for name, value in config["judge"].items() if name != "temperature"
            }
            document["config"] = config
        return document


def _with_times_in(judge_ms: dict[str, float], rows: Iterable[JudgedRow]) -> Iterator[JudgedRow]:
    """Yield the rows, and add up the time of the main judgements that were requested for this run by query."""
    for row in rows:
        judged = row.judgement
        if judged["purpose"] == MAIN and judged["latency_ms"] is not None and not judged["from_cache"]:
            judge_ms[judged["query_id"]] = judge_ms.get(judged["query_id"], 0.0) + judged["latency_ms"]
        yield row


def _with_judge_time(result: Row, judge_ms: Mapping[str, float]) -> Row:
    if result["query_id"] not in judge_ms:
        return result
    times = {**(result.get("latency_ms") or {}), "judge": round(judge_ms[result["query_id"]], 3)}
    return {**result, "latency_ms": times}


def plan_evaluation(project: Project, setup: Setup, wish: Wish) -> PlannedEvaluation:
    """How many calls evaluating would make, at most: what a target will answer is not known yet."""
    with open_calls(project, asks_nobody=True) as calls:
        documents = _documents(project, setup, wish)
        runs = [_EvaluatedRun(project, setup, calls, one) for one in documents]
        left = [one for one in runs if not is_complete(project.settings.evaluations, one.run_id)]
        of_target = sum(plan_target(calls, setup.target, setup.rows, run_id=one.run_id) for one in left)
        planned = plan_judges(calls, SeveralQuestions([one.questions({}, imagined=True) for one in left]))
        asked_before = {one.party for one in calls.totals() if one.answered}
    paid = [one for one in planned if one.calls and setup.judges[one.judge].kind in MODELS]
    is_known = all(not of_target or f"judge {one.judge}" in asked_before for one in paid)
    most, budget = _sum_usd(one.most_usd for one in paid), setup.suite.budget_usd
    return PlannedEvaluation(
        documents[0]["run_id"],
        of_target,
        sum(one.calls for one in planned),
        sum(one.cached for one in planned),
        _sum_usd(one.usd for one in paid) if is_known else None,
        most if budget is None or most is None else min(most, budget),
    )


def _sum_usd(each: Iterable[float | None]) -> float | None:
    """None where one of them is not known."""
    found = list(each)
    return None if None in found else rounded_usd(sum(one for one in found if one is not None))


def is_whole(project: Project, setup: Setup, wish: Wish) -> bool:
    """Whether evaluating would ask nobody, for all of it was asked before."""
    runs = [str(one["run_id"]) for one in _documents(project, setup, wish)]
    return all(is_complete(project.settings.evaluations, one) for one in runs)


def load_evaluated(project: Project, found: Sequence[Evaluation]) -> LoadReport:
    """Take the bundles in."""
    return load_bundles([Path(one.bundle) for one in found], project)


def finish(project: Project, found: Sequence[Evaluation]) -> None:
    """Whoever evaluates the suite next begins another run; what is not whole is continued."""
    if all(one.state == COMPLETE for one in found):
        for one in found:
            finish_run(project.settings.evaluations, one.run_id)
