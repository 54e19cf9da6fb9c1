"""Forty answers whose right judgement is known, so that a judge can be tried before it is trusted."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from eval_pipeline.evaluating.asked import MAIN, Question
from eval_pipeline.evaluating.calls import CallStore, Clock
from eval_pipeline.evaluating.executor import Counts, Progress
from eval_pipeline.evaluating.judges import Material, _body_for
from eval_pipeline.evaluating.judging import ask_judges, judged_rows
from eval_pipeline.evaluating.prompt_files import Prompt
from eval_pipeline.evaluating.setup import BASELINE, Judge
from eval_pipeline.settings import PACKAGE
from eval_pipeline.words import rounded_usd

RUN_ID: Final = "(known answers)"
_FILE: Final = PACKAGE / "evaluating" / "prompts" / "known_answers.jsonl"
_HIGHEST: Final = 5


@dataclass(frozen=True)
class KnownAnswer:
    """An answer with the judgement that is right: a score, or yes or no."""

    ask: str
    material: Material
    right: float


@dataclass(frozen=True)
class AskAgreement:
    """How a judge does on one ask. `within_one` is what a spot check would call agreement; κ has quadratic weights."""

    ask: str
    n: int
    judged: int
    exact: float | None
    within_one: float | None
    kappa: float | None
    kappa_low: float | None
    kappa_high: float | None
    kappa_reason: str | None


@dataclass(frozen=True)
class JudgeCheck:
    """What the known answers say of a judge; `statuses` counts how its answers could be read.

    `asked` were asked now and cost `usd`; `cached` had been asked before.
    """

    judge: str
    asks: list[AskAgreement]
    scores: AskAgreement
    verdicts: AskAgreement
    statuses: dict[str, int]
    usd: float | None
    wrong: list[dict[str, Any]]
    asked: int
    cached: int
    counts: Counts


class _KnownQuestions:
    """The known answers as questions to one judge: all of them, or the first one, which is asked again each time."""

    def __init__(
        self, judge: Judge, prompt: Callable[[str], Prompt], *, only_first: str | None = None
    ) -> None:
        self._judge, self._prompt, self._only_first = judge, prompt, only_first

    @property
    def judges(self) -> list[Judge]:
        return [self._judge]

    def __iter__(self) -> Iterator[Question]:
        for one in known_answers():
            if one.ask in self._judge.asks:
                prompt = self._prompt(one.ask)
                body = _body_for(self._judge, prompt, one.material)
                run = self._only_first
                yield Question(
                    self._judge, one.material.query_id, one.ask, prompt.version, MAIN, body, run=run
                )
                if run is not None:
                    return


@cache
def known_answers() -> tuple[KnownAnswer, ...]:
    """The forty, in their order."""
    import msgspec

    rows = [msgspec.json.decode(line) for line in _FILE.read_bytes().splitlines()]
    return tuple(
        KnownAnswer(row["ask"], _material(row), float(row.get("score", row.get("verdict")))) for row in rows
    )


def _material(row: Mapping[str, Any]) -> Material:
    return Material(
        row["query_id"], row["query"], row["answer"], tuple(row["contexts"]), row.get("reference")
    )


def try_judge(
    store: CallStore,
    judge: Judge,
    prompt: Callable[[str], Prompt],
    *,
    clock: Clock,
    stop: threading.Event | None = None,
    backoff_s: float = 0.5,
) -> tuple[list[dict[str, Any]], Counts]:
    """Ask a judge one question, really: the rows with the raw answer, and why it stopped where it did."""
    questions = _KnownQuestions(judge, prompt, only_first=clock().isoformat())
    counts = ask_judges(store, questions, run_id=RUN_ID, clock=clock, stop=stop, backoff_s=backoff_s)
    rows = judged_rows(store, questions, run_id=RUN_ID, failed=counts.failed)
    return [one.judgement for one in rows], counts


def check_judge(
    store: CallStore,
    judge: Judge,
    prompt: Callable[[str], Prompt],
    *,
    clock: Clock,
    stop: threading.Event | None = None,
    progress: Callable[[Progress], None] | None = None,
    backoff_s: float = 0.5,
) -> JudgeCheck:
    """Ask a judge about the known answers of its asks, and hold what it says against what is right."""
    questions = _KnownQuestions(judge, prompt)
    before = store.answered(store.paid_by(RUN_ID))
    counts = ask_judges(
        store, questions, run_id=RUN_ID, clock=clock, stop=stop, progress=progress, backoff_s=backoff_s
    )
    rows = [one.judgement for one in judged_rows(store, questions, run_id=RUN_ID, failed=counts.failed)]
    said, statuses = _said(rows)
    right = [one for one in known_answers() if one.ask in judge.asks]
    pairs = [(one, said.get(one.material.query_id)) for one in right]
    return JudgeCheck(
        judge.name,
        [_agreement(ask, pairs, [ask]) for ask in judge.asks if any(one.ask == ask for one in right)],
        _agreement("scores", pairs, ["groundedness", "correctness"]),
        _agreement("verdicts", pairs, ["abstention", "conflict"]),
        statuses,
        _cost(judge, [row for row in rows if row["from_cache"] is False and row["request"] not in before]),
        [_wrong(one, value) for one, value in pairs if value is not None and value != one.right],
        counts.asked,
        counts.cached,
        counts,
    )


def _cost(judge: Judge, asked: Sequence[Mapping[str, Any]]) -> float | None:
    """What these rows cost; counting words costs nothing, of what says no tokens or has no price nobody knows."""
    costs = [0.0 if judge.kind == BASELINE else row["usd"] for row in asked]
    return None if None in costs else rounded_usd(sum(costs))


def _said(rows: Sequence[Mapping[str, Any]]) -> tuple[dict[str, float], dict[str, int]]:
    """What was said of each answer, the first that could be read; and how often each status was seen."""
    from eval_pipeline.formulas.polars.facts.judgements import parse_judgement

    said: dict[str, float] = {}
    statuses: Counter[str] = Counter()
    for row in rows:
        parsed = parse_judgement(row["ask"], row["raw"])
        statuses[parsed.status] += 1
        value = parsed.score if parsed.verdict is None else float(parsed.verdict)
        if value is not None:
            said.setdefault(row["query_id"], value)
    return said, dict(sorted(statuses.items()))


Pair = tuple[KnownAnswer, float | None]


def _agreement(name: str, pairs: Sequence[Pair], asks: Sequence[str]) -> AskAgreement:
    from eval_pipeline.stats import quadratic_kappa

    wanted = [(one.right, value) for one, value in pairs if one.ask in asks]
    judged = [(right, value) for right, value in wanted if value is not None]
    reach = 1 if name in ("abstention", "conflict", "verdicts") else _HIGHEST
    kappa = quadratic_kappa([right for right, _ in judged], [value for _, value in judged], reach=reach)
    return AskAgreement(
        name,
        len(wanted),
        len(judged),
        _share([value == right for right, value in judged]),
        _share([abs(value - right) <= (reach > 1) for right, value in judged]),
        kappa.kappa,
        kappa.ci_low,
        kappa.ci_high,
        kappa.reason,
    )


def _share(holds: Sequence[bool]) -> float | None:
    return sum(holds) / len(holds) if holds else None


def _wrong(one: KnownAnswer, said: float) -> dict[str, Any]:
    return {"query_id": one.material.query_id, "ask": one.ask, "right": one.right, "said": said}
