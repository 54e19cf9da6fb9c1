"""Asking the system under test each golden question, and the result rows that its replies make."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from eval_pipeline.evaluating.budget import Budget
from eval_pipeline.evaluating.calls import CallStore, Clock, Kept
from eval_pipeline.evaluating.channels import _channel_to_target
from eval_pipeline.evaluating.endpoint import Endpoint
from eval_pipeline.evaluating.executor import Call, Counts, Executor, Lane, Party, Progress
from eval_pipeline.evaluating.setup import HTTP, Target
from eval_pipeline.evaluating.targets import TargetParty, _call_of, _failed_result, _result_of

Row = Mapping[str, Any]


def plan_target(store: CallStore, target: Target, rows: Iterable[Row], *, run_id: str) -> int:
    """How many calls asking it would take."""
    wanted = [_call_of(target, row, run_id=run_id).request for row in rows]
    return len(wanted) - len(store.answered(wanted))


def ask_target(
    store: CallStore,
    target: Target,
    rows: Sequence[Row],
    *,
    run_id: str,
    clock: Clock,
    stop: threading.Event | None = None,
    progress: Callable[[Progress], None] | None = None,
    backoff_s: float = 0.5,
) -> Counts:
    """Ask what has no answer in this run yet, until all is answered or something stops it."""
    executor = Executor(
        store,
        run_id=run_id,
        budget=Budget(None),
        stop=stop,
        progress=progress,
        total=len(rows),
        backoff_s=backoff_s,
    )
    return asyncio.run(_ask(executor, target, rows, run_id, clock))


async def _ask(executor: Executor, target: Target, rows: Iterable[Row], run_id: str, clock: Clock) -> Counts:
    async with _channel_to_target(target) as channel:
        party = TargetParty(target, channel)
        calls = [(party, _call_of(target, row, run_id=run_id)) for row in rows]
        at_once = target.limits.concurrency
        if target.kind != HTTP:
            at_once = min(at_once, target.program.workers)
        lane = Lane(Endpoint(target.limits, clock=clock), at_once, calls)
        return await executor.run([lane], _nothing_follows)


def _nothing_follows(party: Party, call: Call, kept: Kept) -> Call | None:
    return None


def result_rows(
    store: CallStore,
    target: Target,
    rows: Iterable[Row],
    *,
    run_id: str,
    failed: Mapping[str, str],
) -> Iterator[dict[str, Any]]:
    """The result rows in golden order; a question that nobody came to has none."""
    for row in rows:
        request = _call_of(target, row, run_id=run_id).request
        kept = store.kept(request)
        if kept is not None:
            yield _result_of(target, row["query_id"], kept.raw, kept.latency_ms)
        elif request in failed:
            yield _failed_result(row["query_id"], failed[request])
