"""A fault at one file operation of a command, and what it leaves."""

from __future__ import annotations

import random
import signal
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.faults import preload
from bench.faults.verdicts import (
    MOST_TIMES_THE_SIZE,
    Outcome,
    files_below,
    files_differ,
    trace_in,
    views_differ,
    views_of,
)
from bench.faults.world import COMMANDS, DB, GOOD_CODES, STORE, Ended, World
from eval_pipeline.errors import EvalPipelineError, StoreMissing

WRITES = ("write", "pwrite", "pwrite64", "writev", "pwritev", "pwritev64", "sendfile64", "copy_file_range")
NOTHING_LEFT_TO_DO = {"forget": "no run named"}


@dataclass(frozen=True)
class Case:
    """One fault: a kind, a command, and the number of its operation."""

    kind: str
    command: str
    number: int

    @property
    def again(self) -> str:
        """The words that try this case once more."""
        return f"{self.kind} --only {self.command}:{self.number}"


def cases_of(world: World, kind: str, *, commands: Iterable[str] = COMMANDS) -> list[Case]:
    """Every case of this kind; losing power is also tried once the command has said that it is done."""
    found = []
    for command in commands:
        operations = world.twin(command).operations
        numbers = [
            number
            for number, operation in enumerate(operations, 1)
            if kind != "torn" or operation.split()[0] in WRITES
        ]
        found += [Case(kind, command, number) for number in numbers]
        if kind == "power":
            found.append(Case(kind, command, len(operations) + 1))
    return found


def draw(cases: Sequence[Case], wanted: int, *, seed: int) -> list[Case]:
    """So many of them by seed, over and over where there are fewer: threads make no two rounds alike."""
    drawn: list[Case] = []
    for turn in range(1 + wanted // max(1, len(cases))):
        drawn += random.Random(f"{seed} {turn}").sample(cases, len(cases))
    return drawn[:wanted]


def try_case(world: World, case: Case) -> Outcome:
    """Disturb, look, call again, and hold everything against the twin."""
    world.twin(case.command)
    folder = world.begin(case.command)
    first = world.disturbed(case.command, folder, kind=preload.KINDS[case.kind], number=case.number)
    operations = world.journal.read_text("utf-8").splitlines()
    hit = operations[case.number - 1] if case.number <= len(operations) else "after the end"
    differences = tuple(_differences(world, case, folder, first))
    return Outcome(f"{case.kind} {case.command}", case.again, hit, f"exit {first.code}", differences)


def _differences(world: World, case: Case, folder: Path, first: Ended) -> Iterator[str]:
    if trace_in(first.said):
        yield f"no answer: {trace_in(first.said)}"
    elif first.code not in (*GOOD_CODES, 2, -signal.SIGKILL):
        yield f"exit code {first.code}: {first.said[-300:]}"
    if unread := _unreadable(folder / DB):
        yield f"a reader in between: {unread}"
    again = world.undisturbed(folder, *world.words(case.command, folder))
    if again.code not in GOOD_CODES and not _is_done(case.command, again):
        yield f"the same command again ends with {again.code}: {again.said[-300:]}"
        return
    yield from _against_twin(world, case.command, folder)


def _is_done(command: str, again: Ended) -> bool:
    return command in NOTHING_LEFT_TO_DO and NOTHING_LEFT_TO_DO[command] in again.said


def _unreadable(db: Path) -> str:
    try:
        views = views_of(db)
    except StoreMissing:
        return ""
    except EvalPipelineError as error:
        return str(error)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "" if "runs" in views else "there is no view runs"


def _against_twin(world: World, command: str, folder: Path) -> Iterator[str]:
    twin = world.twin(command)
    yield from views_differ(twin.views, views_of(folder / DB), of="views")
    yield from files_differ(twin.files, files_below(folder / STORE))
    size = (folder / DB).stat().st_size
    if size > MOST_TIMES_THE_SIZE * twin.size:
        yield f"size: {size:,} bytes, its twin has {twin.size:,}"
    yield from world.rebuilt_otherwise(command, folder)
