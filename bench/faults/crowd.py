"""Many processes at once over one store: loaders, readers, `compact`, other programs, one endless, one stopped."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from bench.faults.verdicts import Outcome, files_below, files_differ, trace_in, views_differ, views_of
from bench.faults.world import DB, GOOD_CODES, STORE, World, environment
from tests.prepared import Copy

KINDS = ("plain", "endless", "stopped")
ENDLESS = "with recursive t(n) as (select 1 union all select n % 7 + 1 from t) select count(*) from t"
# So many seconds a crowd has; whoever is not done then is told of.
PATIENCE_SECONDS = 900
FOREIGN_TIMES = 20


def try_case(world: World, kind: str, number: int, *, seed: int, processes: int) -> Outcome:
    """Everybody at once; all get their turn, and the store is what loading once would have made it."""
    world.twin("again")
    folder = world.begin("again")
    rng = random.Random(f"{seed} {kind} {number}")
    hindrance = _hinder(world, folder, kind)
    crowd = [(words, _start(world, folder, words)) for words in _drawn(world, folder, rng, processes)]
    try:
        unfinished = _wait([copy for _, copy in crowd])
    finally:
        if hindrance is not None:
            _end(hindrance, crowd)
    refused = [(words, copy) for words, copy in crowd if copy.wait() not in GOOD_CODES]
    differences = [f"not done after {PATIENCE_SECONDS} s: {unfinished} processes"] if unfinished else []
    differences += _refusals(refused, kind, hindrance)
    differences += _against_twin(world, folder)
    again = f"crowd --seed {seed} --processes {processes} --only {kind}:{number}"
    ending = f"{len(refused)} of {processes} refused"
    return Outcome(f"crowd {kind}", again, f"{processes} processes", ending, tuple(differences))


def _drawn(world: World, folder: Path, rng: random.Random, processes: int) -> list[list[str]]:
    """Half of them load: the whole delivery, or one run of it."""
    whole = world.words("again", folder)
    runs = [str(path) for path in (Path(whole[1]) / "runs").iterdir()]
    db = ["--db", str(folder / DB)]
    loads = [whole, *(["load", run, *db] for run in runs)]
    others = [
        ["status", *db],
        ["query", "select count(*) from hits", *db],
        ["outside"],
        ["show", world.words("forget", folder)[1], *db],
    ]
    drawn = [rng.choice(loads if number % 2 else others) for number in range(processes - 2)]
    drawn += [["compact", *db], whole]
    rng.shuffle(drawn)
    return drawn


def _start(world: World, folder: Path, words: list[str]) -> Copy:
    is_outside = words == ["outside"]
    function = "read_from_outside" if is_outside else "undisturbed"
    arguments: list[object] = [str(folder / DB), FOREIGN_TIMES] if is_outside else list(words)
    return world.prepared.start(
        f"bench.faults.faulty:{function}",
        *arguments,
        folder=folder,
        shipped=world.shipped,
        environment=environment(folder),
    )


def _hinder(world: World, folder: Path, kind: str) -> Copy | None:
    """A query without end, or a loader that is stopped while it holds the store."""
    if kind == "plain":
        return None
    if kind == "endless":
        return _start(world, folder, ["query", ENDLESS, "--db", str(folder / DB)])
    loader = _start(world, folder, world.words("again", folder))
    lock = folder / f"{DB}.lock"
    while not loader.has_ended():
        if lock.is_file() and f'"pid": {loader.pid},' in lock.read_text("utf-8"):
            os.kill(loader.pid, signal.SIGSTOP)
            break
        time.sleep(0.001)
    return loader


def _end(hindrance: Copy, crowd: list[tuple[list[str], Copy]]) -> None:
    if not hindrance.has_ended():
        hindrance.kill()
        hindrance.wait()
    for _, copy in crowd:
        if not copy.has_ended():
            copy.kill()


def _wait(crowd: list[Copy]) -> int:
    """How many are not done when patience ends."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    left = crowd
    while left and time.monotonic() < deadline:
        left = [copy for copy in left if not copy.has_ended()]
        time.sleep(0.05)
    return len(left)


def _refusals(refused: list[tuple[list[str], Copy]], kind: str, hindrance: Copy | None) -> Iterator[str]:
    """Nobody is refused, but behind one that is stopped, who is named."""
    for words, copy in refused:
        if trace_in(copy.said):
            yield f"{words[0]}, no answer: {trace_in(copy.said)}"
        elif kind != "stopped" or hindrance is None or f"process {hindrance.pid}" not in copy.said:
            yield f"{' '.join(words[:2])} refused: {copy.said[-300:]}"


def _against_twin(world: World, folder: Path) -> Iterator[str]:
    last = world.undisturbed(folder, *world.words("again", folder))
    if last.code not in GOOD_CODES:
        yield f"loading at the end ends with {last.code}: {last.said[-300:]}"
        return
    twin = world.twin("again")
    yield from views_differ(twin.views, views_of(folder / DB), of="views")
    yield from files_differ(twin.files, files_below(folder / STORE))
    yield from world.rebuilt_otherwise("again", folder)
