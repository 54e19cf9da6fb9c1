"""What the tests of this room ask with: a configuration, golden rows, answers, and the room's functions called briefly."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from eval_pipeline.config import Config
from eval_pipeline.evaluating.answers import ask_target, result_rows
from eval_pipeline.evaluating.asked import Item, Panel, Questions
from eval_pipeline.evaluating.calls import CallStore
from eval_pipeline.evaluating.executor import Counts
from eval_pipeline.evaluating.judging import ask_judges, judged_rows
from eval_pipeline.evaluating.prompt_files import read_prompt
from eval_pipeline.evaluating.setup import Judge, Target, read_judge, read_target
from eval_pipeline.settings import utc_now

KEY = "sk-made-up-5d41402abc4b2a76"


def no_variables(name: str) -> str | None:
    return KEY if name == "JUDGE_KEY" else None


def a_judge(url: str, **entries: Any) -> Judge:
    said = {
        "base_url": url,
        "api_key": "${JUDGE_KEY}",
        "model": "made-up-1",
        "asks": ["groundedness"],
        "timeout_s": 5,
        **entries,
    }
    return read_judge(Config(judges={"grounded": said}), "grounded", no_variables)


def local_judge(**entries: Any) -> Judge:
    said = {"asks": ["groundedness"], **entries}
    return read_judge(Config(judges={"local": said}), "local", no_variables)


def a_target(**entries: Any) -> Target:
    return read_target(Config(targets={"kb": entries}), "kb", no_variables)


def item(number: int | str, **changed: Any) -> Item:
    """An answered question."""
    golden = {"query_id": f"q{number}", "query": f"What is {number}?", "answerable": True}
    result = {
        "query_id": f"q{number}",
        "answer": {"text": f"It is {number}."},
        "hits_top_k": [{"chunk_id": "c", "doc_id": "d", "text": f"The number {number} is {number}."}],
    }
    return Item(golden | changed.pop("golden", {}), result | changed)


def items(n: int) -> list[Item]:
    return [item(number) for number in range(n)]


def questions(judge: Judge, of: Sequence[Item], run_id: str = "night-1") -> Questions:
    panel = Panel(judge, tuple(read_prompt(ask, None) for ask in judge.asks))
    return Questions([panel], lambda: of, run_id=run_id)


def open_calls(folder: Path) -> CallStore:
    return CallStore(folder / "calls.sqlite", clock=utc_now)


def judged(
    folder: Path,
    judge: Judge,
    of: Sequence[Item],
    *,
    run_id: str = "night-1",
    budget_usd: float | None = None,
    stop: threading.Event | None = None,
    progress: Any = None,
) -> tuple[Counts, list[dict[str, Any]]]:
    """Ask a judge, and the rows of it."""
    asked = questions(judge, of, run_id)
    with open_calls(folder) as store:
        counts = ask_judges(
            store,
            asked,
            run_id=run_id,
            clock=utc_now,
            budget_usd=budget_usd,
            stop=stop,
            progress=progress,
            backoff_s=0.005,
        )
        rows = [one.judgement for one in judged_rows(store, asked, run_id=run_id, failed=counts.failed)]
    return counts, rows


def answered(
    folder: Path, target: Target, rows: Sequence[Mapping[str, Any]], *, run_id: str = "night-1"
) -> tuple[Counts, list[dict[str, Any]]]:
    """Ask a target, and the result rows of it."""
    with open_calls(folder) as store:
        counts = ask_target(store, target, rows, run_id=run_id, clock=utc_now, backoff_s=0.005)
        return counts, list(result_rows(store, target, rows, run_id=run_id, failed=counts.failed))
