"""What commands that ask targets and judges share: where it stands, Ctrl-C, and how much was asked."""

from __future__ import annotations

import datetime as dt
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from eval_pipeline.cli.output import filled, say
from eval_pipeline.errors import NotFinished
from eval_pipeline.settings import local_now
from eval_pipeline.words import count, each_counted, rounded_usd, usd

if TYPE_CHECKING:
    from eval_pipeline.evaluating.executor import Progress
    from eval_pipeline.evaluating.run_bundle import Evaluation
    from eval_pipeline.planning.asking_reports import AskedRun

QUARANTINED = 3
INTERRUPTED = "interrupted"
_NO_TEXTS = "groundedness and correctness are judged by the texts of hits, which the results do not have."


@contextmanager
def progress_line() -> Iterator[Callable[[str, Progress], None] | None]:
    """One line that is written over and over, on a terminal; nothing anywhere else."""
    if not sys.stderr.isatty():
        yield None
        return

    def show(what: str, progress: Progress) -> None:
        width = shutil.get_terminal_size().columns
        sys.stderr.write(f"\r\x1b[2K{line_of(what, progress, local_now())[: width - 1]}")
        sys.stderr.flush()

    try:
        yield show
    finally:
        sys.stderr.write("\r\x1b[2K")
        sys.stderr.flush()


def line_of(what: str, progress: Progress, now: dt.datetime) -> str:
    """`judging 12 of 40 · 3 cached · 8 in flight · waiting until 02:13:05 · 1 failed · 0.0123 USD · 1:20 left`."""
    of_all = "" if progress.total is None else f" of {progress.total:,}"
    said = [
        f"{what} {progress.done:,}{of_all}",
        f"{progress.cached:,} cached",
        f"{progress.in_flight:,} in flight",
    ]
    if progress.waiting_s > 0:
        said.append(f"waiting until {now + dt.timedelta(seconds=progress.waiting_s):%H:%M:%S}")
    if progress.failed:
        said.append(f"{progress.failed:,} failed")
    if progress.usd:
        said.append(usd(progress.usd))
    if progress.seconds_left is not None:
        minutes, seconds = divmod(round(progress.seconds_left), 60)
        said.append(f"{minutes}:{seconds:02} left")
    return " · ".join(said)


def run_document(one: Evaluation) -> AskedRun:
    """What came of a run, as JSON has it."""
    from eval_pipeline.planning.asking_reports import AskedRun

    return AskedRun(**vars(one))


def sums_of(found: list[Evaluation]) -> dict[str, Any]:
    """The same of several runs together."""
    return {
        "state": "complete" if all(one.state == "complete" for one in found) else "incomplete",
        "stopped": next((one.stopped for one in found if one.stopped), None),
        **{
            name: sum(getattr(one, name) for one in found)
            for name in ("target_calls", "judge_calls", "cached", "failed", "uncertain")
        },
        "usd": rounded_usd(sum(one.usd for one in found)),
        "waited_s": round(sum(one.waited_s for one in found), 3),
        "skipped": skipped_of(found),
    }


def skipped_of(found: list[Evaluation]) -> dict[str, int]:
    """Why how many judgements of these runs were asked of nobody."""
    from eval_pipeline.evaluating.run_bundle import skipped_judgements

    return dict(sum((Counter(skipped_judgements(one)) for one in found), Counter[str]()))


def say_skipped(skipped: Mapping[str, int]) -> None:
    """Why so few were asked for, or none at all."""
    if skipped:
        say(
            filled(
                f"{count(sum(skipped.values()), 'judgement')} skipped ({each_counted(skipped)}): {_NO_TEXTS}"
            )
        )


def say_failed_judgements(run_id: str, failed: int, of: int, again: str) -> None:
    """What has no score because the judge could not be asked, and how it gets one."""
    if failed:
        say(
            filled(f"{failed:,} of {count(of, 'judge call')} of {run_id} failed, and score nothing: {again}.")
        )


def asked_sentence(sums: dict[str, Any]) -> str:
    """`89 calls of the target, 178 of judges (12 cached, 1 failed), 0.31 USD`."""
    aside = [f"{sums['cached']:,} cached"]
    aside += [f"{sums[name]:,} {name}" for name in ("failed", "uncertain") if sums[name]]
    said = [f"{count(sums['judge_calls'], 'judge call')} ({', '.join(aside)})"]
    if sums["target_calls"]:
        said.insert(0, count(sums["target_calls"], "target call"))
    return ", ".join([*said, *([usd(sums["usd"])] if sums["usd"] else [])])


def not_finished(why: str, again: str) -> NotFinished:
    """Why the asking ended before its end, and what goes on."""
    return NotFinished(
        f"not finished: {why}. Everything that was paid is kept; `{again}` goes on from there."
    )
