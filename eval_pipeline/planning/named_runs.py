"""What @latest, @previous and @baseline mean: not in `cli`, since files may stand beside them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from eval_pipeline.config import Config, load_config
from eval_pipeline.errors import InvalidConfig, RefusedError, StoreMissing, UnknownName, UsageError
from eval_pipeline.store.inspection import inspecting
from eval_pipeline.store.open import Connection
from eval_pipeline.store.project import Project
from eval_pipeline.store.runs import NightRun, attempts, find_run, previous_complete_runs, run_ids

LATEST: Final = "@latest"
PREVIOUS: Final = "@previous"
BASELINE: Final = "@baseline"
NAMES: Final = (LATEST, PREVIOUS, BASELINE)
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True)
class Chosen:
    """Which suite and dataset `@latest` is of, where somebody said it."""

    suite: str | None = None
    dataset: str | None = None

    def __bool__(self) -> bool:
        return self.suite is not None or self.dataset is not None

    def in_words(self) -> str:
        """`of suite nightly on dataset handbook`."""
        said = [f"of suite {self.suite}"] if self.suite is not None else []
        return " ".join([*said, *([f"on dataset {self.dataset}"] if self.dataset is not None else [])])


ANY: Final = Chosen()


def is_name(given: str | None) -> bool:
    """Whether it stands for a run: no run, and no file without its folder, is called so."""
    return given is not None and given.startswith("@")


def find_named(
    project: Project,
    given: Sequence[str],
    chosen: Chosen = ANY,
    *,
    config_file: Path | None = None,
    as_it_lies: bool = False,
) -> tuple[str, ...]:
    """The ids of these runs; what a name stands for is told. `as_it_lies`: of a store that is only looked at."""
    if not any(map(is_name, given)):
        if chosen:
            raise UsageError(f"--suite and --dataset choose which run {LATEST} is, and no such name is given")
        return tuple(given)
    for one in given:
        if is_name(one) and one not in NAMES:
            raise UsageError(f"no run is called {one!r}; there is: {', '.join(NAMES)}")
    config = _config(project, config_file)
    if as_it_lies:
        with _looking_at(project) as con:
            if con is None:
                raise StoreMissing(f"there is no store at {project.settings.db}, so nothing is {given[0]}")
            found = _Finder(con, config, chosen).all_of(given)
    else:
        with project.read() as store:
            found = _Finder(store.con, config, chosen).all_of(given)
    if project.notify:
        project.notify(_told(given, found))
    return tuple(one.run_id for one in found)


def default_baseline(project: Project, candidate: str, chosen: Chosen, config_file: Path | None) -> str:
    """Of a gate that nobody told: the baseline that is configured, else the run before."""
    config = _config(project, config_file)
    if not config.baselines:
        return PREVIOUS
    with project.read() as store:
        run = _Finder(store.con, config, chosen).anchor([candidate])
    return BASELINE if config.baseline_of(run.suite, run.dataset) else PREVIOUS


@contextmanager
def _looking_at(project: Project) -> Iterator[Connection | None]:
    """The store, of which nothing is changed: of an older form a copy, brought up to date; None where there is none."""
    with inspecting(project) as looked_at:
        if looked_at is None or looked_at.schema == looked_at.known_schema:
            yield None if looked_at is None else looked_at.con
            return
        with TemporaryDirectory(prefix="eval-pipeline-") as folder:
            copy = Path(folder) / "store.duckdb"
            looked_at.copy_to(copy)
            of_copy = replace(project, settings=replace(project.settings, db=copy))
            with _in_silence(of_copy).read() as store:
                yield store.con


def _in_silence(project: Project) -> Project:
    """The same of a copy that is gone afterwards: that it is brought up to date is told nobody."""
    return replace(project, notify=lambda _: None)


@dataclass(frozen=True)
class _Finder:
    con: Connection
    config: Config
    chosen: Chosen

    def all_of(self, given: Sequence[str]) -> list[NightRun]:
        anchor = self.anchor(given)
        return [self._find(one, anchor) for one in given]

    def anchor(self, given: Sequence[str]) -> NightRun:
        """What @previous and @baseline are of: the first run that is named, else the newest."""
        named = next((one for one in given if not is_name(one)), None)
        if named is None:
            return self._latest()
        if self.chosen and LATEST not in given:
            raise UsageError(f"--suite and --dataset choose which run {LATEST} is; {named} has its own")
        return self._run(named)

    def _find(self, name: str, anchor: NightRun) -> NightRun:
        if name == LATEST:
            return self._latest()
        if name == PREVIOUS:
            return self._previous(anchor)
        return self._baseline(anchor) if name == BASELINE else self._run(name)

    def _run(self, run_id: str) -> NightRun:
        return attempts(self.con, [find_run(self.con, run_id).run_id])[run_id]

    def _latest(self) -> NightRun:
        known = list(attempts(self.con).values())
        for kind, name in (("suite", self.chosen.suite), ("dataset", self.chosen.dataset)):
            names = {str(value) for one in known if (value := getattr(one, kind)) is not None}
            if name is not None and name not in names:
                raise UnknownName(kind, name, names)
        asked = [
            one
            for one in known
            if self.chosen.suite in (None, one.suite) and self.chosen.dataset in (None, one.dataset)
        ]
        complete = [one for one in asked if one.is_last_complete]
        if complete:
            return self._in_known_order(LATEST, complete[-1])
        where = f" {self.chosen.in_words()}" if self.chosen else " in this store"
        if not known:
            raise UsageError(
                f"nothing is {LATEST}: there is no run{where}; `eval-pipeline load PATH` takes runs in"
            )
        raise UsageError(
            f"nothing is {LATEST}: no run{where} is complete, which takes a golden set and a result for each of its "
            "queries; `eval-pipeline runs` shows what they lack"
        )

    def _previous(self, run: NightRun) -> NightRun:
        before = previous_complete_runs(self.con, [run.run_id]).get(run.run_id)
        if before is None:
            raise UsageError(
                f"nothing is {PREVIOUS}: before {run.run_id} there is no complete run of {_scope(run)}; "
                "`eval-pipeline runs` lists those that can be named"
            )
        # The run itself may share its time with the one before it.
        self._in_known_order(PREVIOUS, run)
        return self._in_known_order(PREVIOUS, self._run(before))

    def _in_known_order(self, name: str, run: NightRun) -> NightRun:
        """Return the run; refuse to order runs by their names."""
        tied = _tied_runs(self.con, run.run_id)
        if tied:
            raise RefusedError(
                f"{name} is ambiguous: {run.run_id} and {tied[0]} have the same time, and nothing records which came "
                "first. Name both runs, or give each its time with `load --created-at` (created_at in run.json)"
            )
        return run

    def _baseline(self, run: NightRun) -> NightRun:
        pinned = self.config.baseline_of(run.suite, run.dataset)
        place = self.config.path or "eval-pipeline.toml"
        if pinned is None:
            key = run.suite or run.dataset
            raise UsageError(
                f"nothing is {BASELINE}: {place} has no baseline for {_scope(run)}; write [baselines] with "
                f'{key if _BARE_KEY.fullmatch(key) else json.dumps(key)} = "RUN_ID" there, or take {PREVIOUS}'
            )
        if pinned not in run_ids(self.con):
            raise UnknownName("run", pinned, run_ids(self.con), hint=f"({place}, [baselines])")
        return self._run(pinned)


def _tied_runs(con: Connection, run_id: str) -> list[str]:
    """Return the complete runs of the same suite, dataset and time whose order relative to the run is unknown."""
    rows = con.execute(
        "with timed as (select r.*, n.effective_night, n.ordered_at - to_microseconds(place_in_load) as made_at "
        "from raw.runs r join main.run_nights n using (run_key) where n.is_complete and n.superseded_by is null "
        "and r.attempt is null and r.replicate_of is null) "
        "select other.run_id from timed own join timed other using (dataset_key, effective_night, made_at) "
        "where own.run_id = ? and other.run_key <> own.run_key and own.suite is not distinct from other.suite "
        "and (own.first_loaded_at <> other.first_loaded_at or own.place_in_load = other.place_in_load) order by all",
        [run_id],
    ).fetchall()
    return [other for (other,) in rows]


def _config(project: Project, config_file: Path | None) -> Config:
    if config_file is not None and not config_file.is_file():
        raise InvalidConfig(f"there is no file {config_file}")
    return load_config(config_file or project.settings.config)


def _scope(run: NightRun) -> str:
    suite = "no suite" if run.suite is None else f"suite {run.suite}"
    return f"{suite}, dataset {run.dataset}"


def _told(given: Sequence[str], found: Sequence[NightRun]) -> str:
    """`@previous is night-1, @latest is night-2 (suite nightly, dataset handbook)`."""
    named = [(name, run) for name, run in zip(given, found, strict=True) if is_name(name)]
    scopes = {_scope(run) for _, run in named}
    if len(scopes) > 1:
        return ", ".join(f"{name} is {run.run_id} ({_scope(run)})" for name, run in named)
    return f"{', '.join(f'{name} is {run.run_id}' for name, run in named)} ({scopes.pop()})"


def runs_at_once(project: Project) -> list[str]:
    """Every run, newest first, for whoever will not wait: none where the store cannot be read at once."""
    try:
        with inspecting(replace(project, notify=None), patience=0) as looked_at:
            return [] if looked_at is None else run_ids(looked_at.con)[::-1]
    except Exception:
        return []
