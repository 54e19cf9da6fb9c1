"""Asking the judges: what it would cost, the asking, and the rows that the answers make."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from eval_pipeline.bundle.secrets import decoded
from eval_pipeline.evaluating.asked import Question, ToJudge
from eval_pipeline.evaluating.budget import Budget, _most_usd
from eval_pipeline.evaluating.calls import CallStore, Clock, Kept
from eval_pipeline.evaluating.channels import _channel_to_judge
from eval_pipeline.evaluating.endpoint import Endpoint
from eval_pipeline.evaluating.executor import Asked, Call, Counts, Executor, Lane, Party, Progress
from eval_pipeline.evaluating.identity import canonical
from eval_pipeline.evaluating.judges import PATHS, JudgeParty
from eval_pipeline.evaluating.setup import BASELINE, MODELS, Judge, Limits

ASKED_AGAIN: Final = ("unparsed", "truncated")
# What a byte makes of a token, about; only said of calls that were never made.
_TOKENS_PER_BYTE: Final = 0.25


@dataclass(frozen=True)
class PlannedCalls:
    """What asking a judge would take: about so much, and at most; None where it has no price."""

    judge: str
    calls: int
    cached: int
    usd: float | None
    most_usd: float | None


@dataclass(frozen=True)
class JudgedRow:
    """A line of judgements.jsonl, and the line of requests.jsonl that belongs to it."""

    judgement: dict[str, Any]
    request: dict[str, Any] | None = None


def plan_judges(store: CallStore, questions: ToJudge, *, known: Collection[str] = ()) -> list[PlannedCalls]:
    """How many calls there would be, and what they would cost by what such calls cost before.

    `known` are answered elsewhere: deliveries hold what they said.
    """
    found = {
        judge.name: PlannedCalls(judge.name, 0, 0, *((0.0 if judge.price else None,) * 2))
        for judge in questions.judges
    }
    means = {one.party: one.usd / one.answered for one in store.totals() if one.answered}
    seen: set[str] = set()
    for question in questions:
        if question.body is None or (call := question.call()).request in seen:
            continue
        seen.add(call.request)
        one = found[question.judge.name]
        if call.request in known or store.answered([call.request]):
            found[one.judge] = replace(one, cached=one.cached + 1)
        else:
            found[one.judge] = _one_more(one, question.judge, call, means)
    return list(found.values())


def _one_more(planned: PlannedCalls, judge: Judge, call: Call, means: Mapping[str, float]) -> PlannedCalls:
    counted = replace(planned, calls=planned.calls + 1)
    if judge.price is None or counted.usd is None or counted.most_usd is None:
        return counted
    sent = len(canonical(call.body))
    known = means.get(f"judge {judge.name}")
    usd = _most_usd(judge.price, sent * _TOKENS_PER_BYTE, call.max_tokens) if known is None else known
    most = _most_usd(judge.price, sent, call.max_tokens)
    return replace(counted, usd=counted.usd + usd, most_usd=counted.most_usd + max(most, usd))


def ask_judges(
    store: CallStore,
    questions: ToJudge,
    *,
    run_id: str,
    clock: Clock,
    budget_usd: float | None = None,
    spent_usd: float | None = None,
    stop: threading.Event | None = None,
    progress: Callable[[Progress], None] | None = None,
    backoff_s: float = 0.5,
) -> Counts:
    """Ask what has no answer yet, until all is answered or something stops it; every answer is in the store.

    `spent_usd` is the used part of the budget. The default is what earlier calls of the run used.
    """
    total = sum(question.body is not None for question in questions) if progress else None
    executor = Executor(
        store,
        run_id=run_id,
        budget=Budget(budget_usd, store.budgeted(run_id) if spent_usd is None else spent_usd),
        stop=stop,
        progress=progress,
        total=total,
        backoff_s=backoff_s,
    )
    return asyncio.run(_ask(executor, questions, clock))


async def _ask(executor: Executor, questions: ToJudge, clock: Clock) -> Counts:
    async with contextlib.AsyncExitStack() as opened:
        parties = {}
        for judge in questions.judges:
            channel = _channel_to_judge(judge, PATHS.get(judge.kind, ""))
            parties[judge.name] = JudgeParty(judge, await opened.enter_async_context(channel))
        lanes = [_lane(judges, parties, questions, clock) for judges in _by_endpoint(questions.judges)]
        return await executor.run(lanes, _next_call)


def _by_endpoint(judges: Iterable[Judge]) -> list[list[Judge]]:
    """Judges at one address wait together."""
    found: dict[str, list[Judge]] = {}
    for judge in judges:
        found.setdefault(judge.url or judge.name, []).append(judge)
    return list(found.values())


def _lane(judges: list[Judge], parties: Mapping[str, JudgeParty], questions: ToJudge, clock: Clock) -> Lane:
    names = {judge.name for judge in judges}
    limits = _strictest([judge.limits for judge in judges])
    workers = [judge.program.workers for judge in judges if judge.kind not in MODELS]
    return Lane(
        Endpoint(limits, clock=clock),
        min([limits.concurrency, *workers]),
        _OnceEach(questions, names, parties),
    )


def _strictest(limits: list[Limits]) -> Limits:
    """What all of them keep."""
    return replace(
        limits[0],
        concurrency=min(one.concurrency for one in limits),
        max_wait_s=min(one.max_wait_s for one in limits),
        requests_per_minute=min(
            (one.requests_per_minute for one in limits if one.requests_per_minute), default=None
        ),
        tokens_per_minute=min(
            (one.tokens_per_minute for one in limits if one.tokens_per_minute), default=None
        ),
    )


def sent_to(store: CallStore, questions: ToJudge, judge: str) -> Iterator[dict[str, Any]]:
    """The requests to a judge that were answered, without their messages: how it was asked."""
    for question in questions:
        if question.judge.name == judge and question.body is not None:
            kept = store.kept(question.call().request)
            if kept is not None:
                body = json.loads(kept.body)
                yield {name: value for name, value in body.items() if name != "messages"}


class _OnceEach:
    """The calls to some judges; two rows may need the same one."""

    def __init__(self, questions: ToJudge, names: set[str], parties: Mapping[str, JudgeParty]) -> None:
        self._questions, self._names, self._parties = questions, names, parties

    def __iter__(self) -> Iterator[Asked]:
        seen: set[bytes] = set()
        for question in self._questions:
            if question.body is None or question.judge.name not in self._names:
                continue
            call = question.call()
            key = bytes.fromhex(call.request)
            if key not in seen:
                seen.add(key)
                yield self._parties[question.judge.name], call


def _next_call(party: Party, call: Call, kept: Kept) -> Call | None:
    """An answer that nothing can be read from, or that was cut off, is asked for once more; both stay."""
    following = _following(call.about, kept.raw)
    return None if following is None else following.call()


def _following(question: Question, raw: str) -> Question | None:
    # Polars comes with it.
    from eval_pipeline.formulas.polars.facts.judgements import UNPARSED, parse_judgement

    if question.repeat > 0 or question.judge.kind == BASELINE:
        return None
    status = UNPARSED if _only_quotes(question, raw) else parse_judgement(question.ask, raw).status
    return question.again(is_truncated=status == "truncated") if status in ASKED_AGAIN else None


def _only_quotes(question: Question, raw: str) -> bool:
    """Whether the only score in the reply is a quotation of what the judge was shown."""
    from eval_pipeline.formulas.polars.facts.judgements import REPAIRED, UNPARSED, parse_judgement

    if parse_judgement(question.ask, raw).status != REPAIRED:
        return False
    return parse_judgement(question.ask, raw, shown=decoded(question.shown)).status == UNPARSED


def judged_rows(
    store: CallStore, questions: ToJudge, *, run_id: str, failed: Mapping[str, str]
) -> Iterator[JudgedRow]:
    """The rows of everything that was asked, in golden order; what nobody came to has none. Each request once."""
    written: set[str] = set()
    for question in questions:
        if question.body is None:
            yield JudgedRow(_row(question, None, "skipped", reason=question.skipped))
            continue
        following: Question | None = question
        while following is not None:
            row = _judged(store, following, run_id, failed)
            if row is None:
                break
            raw = row.judgement["raw"]
            is_new = row.request is not None and row.judgement["request"] not in written
            written.add(row.judgement["request"])
            yield row if is_new else JudgedRow(row.judgement)
            following = None if raw is None else _following(following, raw)


def _judged(store: CallStore, question: Question, run_id: str, failed: Mapping[str, str]) -> JudgedRow | None:
    request = question.call().request
    kept = store.kept(request)
    if kept is not None:
        body = {"request": request, "body": json.loads(kept.body)}
        status = "unparsed" if _only_quotes(question, kept.raw) else "ok"
        return JudgedRow(_row(question, request, status, kept=kept, run_id=run_id), body)
    reason = failed.get(request)
    return None if reason is None else JudgedRow(_row(question, request, "error", reason=reason))


def _row(
    question: Question,
    request: str | None,
    status: str,
    *,
    kept: Kept | None = None,
    reason: str | None = None,
    run_id: str | None = None,
) -> dict[str, Any]:
    """A line of judgements.jsonl: all its fields, in their order."""
    usage = None if kept is None else {"prompt": kept.prompt_tokens, "completion": kept.completion_tokens}
    row = {
        "query_id": question.query_id,
        "ask": question.ask,
        "judge": question.judge.name,
        "request": request,
        "status": status,
        "raw": kept and kept.raw,
        "model": kept and kept.model,
        "version": question.judge.version,
        "temperature": None if kept is None else json.loads(kept.body).get("temperature"),
        "fingerprint": kept and kept.fingerprint,
        "prompt_version": question.prompt_version,
        "season": question.judge.season,
        "usage": usage,
        "usd": kept and kept.usd,
        "latency_ms": kept and kept.latency_ms,
        "attempts": kept and kept.attempts,
        "from_cache": None if kept is None else kept.run_id != run_id,
        "repeat": question.repeat,
        "purpose": question.purpose,
    }
    return row if reason is None else row | {"reason": reason}
