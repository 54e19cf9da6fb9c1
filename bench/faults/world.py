"""Commands that are disturbed, what each begins with, and its undisturbed twin."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from bench.faults import preload
from bench.faults.faulty import COMPUTE
from bench.faults.verdicts import Views, files_below, kept_below, views_differ, views_of
from tests.few_definitions import write_few
from tests.prepared import ROOT, Prepared
from tests.reference.bundles import Bundle, random_bundle, write_bundle

# Only this folder of a case is hit; what a command says, and Dagster's files, lie beside it.
STORE = "store"
DB = Path(STORE) / "e.duckdb"
FEW = ("metrics.hit_at_k", "metrics.reciprocal_rank", "aggregates.run_metrics")
GOOD_CODES = (0, 3)
BUNDLE_SEED = 11


@dataclass(frozen=True)
class Command:
    """What is called, after which other one; `FIRST`, `AGAIN`, `RUN` stand for what was delivered and a run of it."""

    words: tuple[str, ...]
    after: str | None


COMMANDS = {
    "first": Command(("load", "FIRST"), None),
    "compute": Command((COMPUTE,), "first"),
    "again": Command(("load", "AGAIN", "--replace-labels"), "compute"),
    "compact": Command(("compact",), "again"),
    "forget-text": Command(("forget", "RUN", "--text", "--yes"), "again"),
    "forget": Command(("forget", "RUN", "--yes"), "again"),
    "rebuild": Command(("rebuild", "--yes"), "again"),
}


@dataclass(frozen=True)
class Ended:
    """How a command ended, and what it said."""

    code: int
    said: str


@dataclass(frozen=True)
class Twin:
    """What the command leaves when nothing happens to it, and its operations in order."""

    operations: tuple[str, ...]
    views: Views
    rebuilt: Views
    files: Counter[str]
    size: int


@dataclass
class World:
    """A folder of cases with a prepared process that has the library loaded."""

    folder: Path
    prepared: Prepared
    library: Path
    _twins: dict[str, Twin] = field(default_factory=dict)
    # What kept deliveries gave back, by what they are: rebuilding is half of a case's time, and most leave the same.
    _rebuilt: dict[tuple[str, ...], Views] = field(default_factory=dict)

    @cached_property
    def shipped(self) -> Path:
        return write_few(self.folder / "shipped", *FEW)

    @cached_property
    def _delivered(self) -> dict[str, str]:
        first = _small(random_bundle(BUNDLE_SEED, queries=6, runs=3))
        places = {"FIRST": self.folder / "first", "AGAIN": self.folder / "again"}
        write_bundle(first, places["FIRST"])
        write_bundle(_delivered_again(first), places["AGAIN"])
        return {name: str(path) for name, path in places.items()} | {"RUN": min(first.runs)}

    def words(self, name: str, case: Path) -> list[str]:
        """The command as it is called on the store of a case."""
        words = [self._delivered.get(word, word) for word in COMMANDS[name].words]
        return [*words, "--db", str(case / DB)]

    def begin(self, name: str, folder: str = "case") -> Path:
        """A folder as the command finds it."""
        case, after = self.folder / folder, COMMANDS[name].after
        if after is not None:
            self.twin(after)
        shutil.rmtree(case, ignore_errors=True)
        if after is None:
            (case / STORE).mkdir(parents=True)
        else:
            shutil.copytree(self.folder / f"after-{after}", case)
        return case

    def twin(self, name: str) -> Twin:
        """The undisturbed one, made when it is first asked for."""
        if name not in self._twins:
            case = self.begin(name, "twin")
            ended = self.disturbed(name, case, kind=preload.COUNT, number=0)
            if ended.code not in GOOD_CODES:
                raise RuntimeError(f"{name} fails undisturbed: {ended.said}")
            after = self.folder / f"after-{name}"
            shutil.copytree(case, after)
            operations = tuple(self.journal.read_text("utf-8").splitlines())
            rebuilt = self.rebuilt_views(case)
            size = (after / DB).stat().st_size
            files = files_below(after / STORE)
            self._twins[name] = Twin(operations, views_of(after / DB), rebuilt, files, size)
        return self._twins[name]

    @property
    def journal(self) -> Path:
        """The operations of the command that was last counted or disturbed, a line each."""
        return self.folder / "journal.txt"

    def disturbed(self, name: str, case: Path, *, kind: int, number: int) -> Ended:
        """The command with a fault in it."""
        fault = (str(self.library), kind, number, f"{case / STORE}/", str(self.journal))
        return self._call("bench.faults.faulty:call", case, *fault, *self.words(name, case))

    def undisturbed(self, case: Path, *words: str) -> Ended:
        """A command with nothing in its way."""
        return self._call("bench.faults.faulty:undisturbed", case, *words)

    def _call(self, function: str, case: Path, *arguments: object) -> Ended:
        copy = self.prepared.start(
            function, *arguments, folder=case, shipped=self.shipped, environment=environment(case)
        )
        return Ended(copy.wait(), copy.said)

    def rebuilt_otherwise(self, name: str, case: Path) -> list[str]:
        """What the kept deliveries of a copy give back otherwise than those of the twin do."""
        kept = kept_below(case / STORE)
        if kept not in self._rebuilt:
            copied = self.folder / "copied"
            shutil.rmtree(copied, ignore_errors=True)
            shutil.copytree(case, copied)
            self._rebuilt[kept] = self.rebuilt_views(copied)
        return views_differ(self.twin(name).rebuilt, self._rebuilt[kept], of="rebuild of a copy")

    def rebuilt_views(self, case: Path) -> Views:
        """What the kept deliveries of this case give back by themselves; the case is used up."""
        (case / DB).unlink(missing_ok=True)
        ended = self.undisturbed(case, "rebuild", "--yes", "--db", str(case / DB))
        if ended.code not in GOOD_CODES:
            return {"rebuild": (ended.code, ended.said[-300:])}
        return views_of(case / DB)


@contextmanager
def world_in(folder: Path) -> Iterator[World]:
    """A world with a process of its own, for as long as the block lasts."""
    library = preload.compile_into(folder)
    prepared = Prepared(preload.environment_with(library))
    try:
        yield World(folder, prepared, library)
    finally:
        prepared.end()


def environment(case: Path) -> dict[str, str]:
    """What a command of a case is called with."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return kept | {"PYTHONPATH": str(ROOT), "DAGSTER_HOME": str(case / "home"), "NO_COLOR": "1"}


def _small(bundle: Bundle) -> Bundle:
    """One dataset, one archive, two runs: every part of a delivery, and no more than that."""
    name = next(iter(bundle.datasets))
    runs = {run_id: bundle.runs[run_id] for run_id in sorted(bundle.runs)[:2]}
    return replace(bundle, datasets={name: bundle.datasets[name]}, archives=bundle.archives[:1], runs=runs)


def _delivered_again(first: Bundle) -> Bundle:
    """Another golden set, and the second run without its last result."""
    rng = random.Random(BUNDLE_SEED)
    datasets = {name: rows[:-1] for name, rows in first.datasets.items()}
    changed = sorted(first.runs)[1]
    runs = {changed: json.loads(json.dumps(first.runs[changed]))}
    rng.shuffle(runs[changed]["results"])
    runs[changed]["results"].pop()
    return replace(first, datasets=datasets, runs=runs, archives=[])
