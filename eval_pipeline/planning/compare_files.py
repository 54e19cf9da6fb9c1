"""Two files, or a file and a run of the store, side by side in a store that is gone afterwards."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from msgspec.structs import replace as replace_in

from eval_pipeline.adapters.writing import name_of_file
from eval_pipeline.bundle.layout import Bundle, GoldenFile, find_bundle
from eval_pipeline.comparing.compare import compare
from eval_pipeline.comparing.documents import UNLABELLED, CompareReport, GateReport
from eval_pipeline.comparing.gate import gate
from eval_pipeline.computing.measure import Progress, measure
from eval_pipeline.errors import StoreError, StoreMissing, UnknownName, UsageError
from eval_pipeline.loading.context import LoadOptions, LoadReport
from eval_pipeline.loading.load import load_bundles
from eval_pipeline.loading.others import FilesNamed, is_bundle, load_files
from eval_pipeline.planning.named_runs import ANY, Chosen, _in_silence, _looking_at, find_named, is_name
from eval_pipeline.store.inspection import inspecting
from eval_pipeline.store.project import Project
from eval_pipeline.store.runs import attempts, find_run, run_ids
from eval_pipeline.words import count

DATASET: Final = "files"
AS_RUN: Final = "run:"
YAML: Final = (".yaml", ".yml")
SHOWN: Final = 3
LABELS_WANTED: Final = "--labels FILE takes qrels, a golden set or a BEIR folder"
_COMMAND: Final = re.compile(r"; `eval-pipeline .*")
_LABEL_NAME: Final = re.compile("gold|truth|relevant|expected|label|reference", re.IGNORECASE)
_LOADING: Final = re.compile(r"no golden set for dataset \S+: `eval-pipeline [^`]*` takes labels in")

Side = Path | str


@dataclass(frozen=True)
class Sides:
    """The two as runs of a project; with `is_temporary` of one that nobody finds again."""

    project: Project
    old: str | None
    new: str
    is_temporary: bool = False
    # The unused fields of the files whose names look like labels, in words.
    label_hint: str = ""

    def compared(self, *, strict_chunker_version: bool = False) -> CompareReport:
        """The comparison of the two."""
        if self.old is None:
            raise UsageError("two are compared: name the other one")
        found = compare(self.project, self.old, self.new, strict_chunker_version=strict_chunker_version)
        undefined = {key: _about_labels(reason) for key, reason in found.undefined.items()}
        warnings = [*self._unlabelled(), *self._said(found.warnings)]
        return replace_in(
            found,
            warnings=warnings,
            undefined=undefined if self.is_temporary else found.undefined,
            trust=self._said(found.trust),
        )

    def judged(self, config_file: Path | None = None) -> GateReport:
        """Whether the new one is good enough."""
        found = gate(self.project, self.new, self.old, config_file=config_file)
        notes = [*self._unlabelled(), *self._said(found.notes)]
        return replace_in(found, preconditions=self._said(found.preconditions), notes=notes)

    def _unlabelled(self) -> list[str]:
        """Of which side nobody said what it should have found, and how to say it."""
        if not self.is_temporary:
            return []
        with self.project.read() as store:
            known = attempts(store.con, {self.old or self.new, self.new}).values()
        runs = [one.run_id for one in known if not one.has_golden_set]
        return [f"no labels were given for {' and '.join(runs)}; {LABELS_WANTED}"] if runs else []

    def _said(self, sentences: list[str]) -> list[str]:
        """Remove commands for the temporary store, and add the fields that may be labels."""
        if not self.is_temporary:
            return sentences
        return [_COMMAND.sub("", one).replace(UNLABELLED, UNLABELLED + self.label_hint) for one in sentences]


def _about_labels(reason: str) -> str:
    """Labels of files are not loaded: they are named beside them."""
    return _LOADING.sub(f"no labels: {LABELS_WANTED}", reason)


@contextmanager
def side_by_side(
    project: Project,
    old: str | None,
    new: str,
    labels: Path | None = None,
    *,
    chosen: Chosen = ANY,
    config_file: Path | None = None,
    progress: Progress | None = None,
) -> Iterator[Sides]:
    """Both as computed runs, for the length of the block; two runs of the store stay where they are.

    A run may be named as `named_runs` says; `chosen` and the file with [baselines] are for that.

    Files are loaded into a temporary store: a copy of the given one where a side is a run of it, else an empty one.
    """
    left, right = _meant(project, (old, new), labels, chosen, config_file)
    if labels is None and not isinstance(left, Path) and not isinstance(right, Path):
        with _both_readings(left, right):
            yield Sides(project, left, right)
        return
    if left is None:
        raise UsageError(
            f"say what {new} is held against: --baseline FILE, --baseline RUN_ID, or --baseline @latest"
        )
    with tempfile.TemporaryDirectory(prefix="eval-pipeline-") as scratch:
        folder = Path(scratch)
        settings = replace(
            project.settings, db=folder / "store.duckdb", inbox=folder / "inbox", reports=folder / "reports"
        )
        place = replace(project, settings=settings)
        runs = [one for one in (left, right) if isinstance(one, str)]
        if runs:
            with _both_readings(left, right):
                _copy(project, place, runs)
        unused: list[str] = []
        a, b = _load_all(place, (left, right), labels, unused)
        measure(place, run_ids={a, b}, reasons=None, progress=progress)
        yield Sides(place, a, b, is_temporary=True, label_hint=_label_hint(unused))


def _meant(
    project: Project,
    given: tuple[str | None, str],
    labels: Path | None,
    chosen: Chosen,
    config_file: Path | None,
) -> tuple[Side | None, Side]:
    """Both sides, with names such as @latest found; beside files the store is only looked at."""
    old, new = given
    sides = {one: one if is_name(one) else _side(project, one) for one in given if one is not None}
    runs = [one for one, side in sides.items() if isinstance(side, str)]
    found = find_named(
        project,
        [str(sides[one]) for one in runs],
        chosen,
        config_file=config_file,
        as_it_lies=labels is not None or len(runs) < len(sides),
    )
    sides |= dict(zip(runs, found, strict=True))
    return None if old is None else sides[old], sides[new]


def _side(project: Project, given: str) -> Side:
    """A file where one of that name exists, else a run; what may be both has to be said."""
    if given.startswith(AS_RUN):
        return given if _has_run(project, given) else given.removeprefix(AS_RUN)
    if not given or not _is_there(given):
        return given
    if os.sep in given or not _has_run(project, given):
        return Path(given)
    if Path(given).is_dir():
        return given
    raise UsageError(f"{given} is a file and a run of the store: say ./{given} or {AS_RUN}{given}")


def _is_there(name: str) -> bool:
    try:
        return Path(name).exists()
    except (OSError, ValueError):
        return False  # No file can be called so.


def _has_run(project: Project, run_id: str) -> bool:
    try:
        with _looking_at(project) as con:
            return con is not None and run_id in run_ids(con)
    except StoreError:
        return False  # Files are compared without a store, also beside one that cannot be read.


@contextmanager
def _both_readings(*sides: Side | None) -> Iterator[None]:
    """What is no run is no file either, and both are said."""
    try:
        yield
    except (UnknownName, StoreMissing) as error:
        known = (
            [error.name] if isinstance(error, UnknownName) else [one for one in sides if isinstance(one, str)]
        )
        missing = [one for one in known if one in sides and not _is_there(one)]
        if not missing:
            raise
        files = " or ".join(dict.fromkeys(missing))
        text = str(error)
        either = (
            f" There is no file {files} either"
            if text.endswith("?")
            else f"; there is no file {files} either"
        )
        raise UsageError(f"{text}{either}") from error


def _copy(project: Project, place: Project, runs: list[str]) -> None:
    """The store as it is now; nothing is written to it."""
    db = project.settings.db
    with inspecting(project) as store:
        if store is None:
            raise StoreMissing(f"there is no store at {db}, so no run {' or '.join(dict.fromkeys(runs))}")
        store.copy_to(place.settings.db)
    with _in_silence(place).read() as copy:
        for run_id in runs:
            find_run(copy.con, run_id)


def _label_hint(unused: Sequence[str]) -> str:
    """` (`gold_ids` looks like them: rename or map it)`; empty if no unused field looks like labels."""
    names = dict.fromkeys(f"`{name}`" for name in unused if _LABEL_NAME.search(name))
    verb, pronoun = ("looks", "it") if len(names) == 1 else ("look", "them")
    return f" ({', '.join(names)} {verb} like them: rename or map {pronoun})" if names else ""


def _load_all(
    place: Project, sides: tuple[Side, Side], labels: Path | None, unused: list[str]
) -> tuple[str, str]:
    """Load both sides, first those that name their dataset: labels and files without one belong to it.

    The fields that are not used are added to `unused`.
    """
    names: dict[Side, str] = {
        one: _load_bundle(place, one) for one in sides if isinstance(one, Path) and is_bundle(one)
    }
    known = [
        one if isinstance(one, str) else names[one] for one in sides if one in names or isinstance(one, str)
    ]
    dataset = _dataset_of(place, known[0]) if known else DATASET
    if labels is not None:
        _load_labels(place, labels, dataset)
    a, b = (names[one] if one in names else _load_side(place, one, dataset, unused) for one in sides)
    return a, b


def _dataset_of(place: Project, run_id: str) -> str:
    with place.read() as store:
        return find_run(store.con, run_id).dataset


def _load_side(place: Project, side: Side, dataset: str, unused: list[str]) -> str:
    if isinstance(side, str):
        return side
    run_id = _free_name(place, name_of_file(side))
    report, files = load_files([side], [], FilesNamed(run_id=run_id, dataset=dataset), place)
    unused += files[0].unused
    return _only_run(place, side, report, files[0].runs)


def _free_name(place: Project, wanted: str) -> str:
    """The name, or with -2 where a run is called so."""
    with inspecting(place) as store:
        taken = set() if store is None else set(run_ids(store.con))
    names = (wanted if number == 1 else f"{wanted}-{number}" for number in range(1, len(taken) + 2))
    return next(name for name in names if name not in taken)


def _load_bundle(place: Project, path: Path) -> str:
    bundle = find_bundle(path)
    with inspecting(place) as store:
        taken = set() if store is None else set(run_ids(store.con))
    named = [one.path.name for one in bundle.runs]
    twice = [name for name in named if name in taken]
    if twice:
        raise UsageError(
            f"{path} holds a run {twice[0]}, and so does the other side: call one of them otherwise"
        )
    return _only_run(place, path, load_bundles([bundle], place), named)


def _only_run(place: Project, path: Path, report: LoadReport, named: list[str]) -> str:
    """The run that the file has become; repeats of it come along."""
    _tell_problems(place, path, report)
    runs = [name for name in named if name in report.runs]
    firsts = [name for name in runs if name.rpartition(".e")[0] not in runs]
    if len(firsts) > 1:
        raise UsageError(
            f"{path} holds {len(firsts)} runs: {', '.join(firsts[:SHOWN])}{', …' if len(firsts) > SHOWN else ''}. "
            "`eval-pipeline load` takes all of them, then they are compared by name"
        )
    if not firsts:
        raise UsageError(f"{path} cannot be compared: {_why_nothing(report)}")
    if len(runs) > 1 and place.notify:
        place.notify(f"{path}: {firsts[0]} is compared, the first of {len(runs)} repeats")
    return firsts[0]


def _why_nothing(report: LoadReport) -> str:
    if report.forgotten:
        return f"{', '.join(report.forgotten)} was forgotten on purpose; call the file otherwise"
    return report.problems[0].reason if report.problems else "it holds no results"


def _tell_problems(place: Project, path: Path, report: LoadReport) -> None:
    """Rows that cannot be taken are left out, and said."""
    if not report.quarantined or place.notify is None:
        return
    for problem in report.problems[:SHOWN]:
        where = f":{problem.line}" if problem.line else ""
        place.notify(f"  {path}{where}: {problem.field + ': ' if problem.field else ''}{problem.reason}")
    place.notify(f"{path}: {count(report.quarantined, 'row')} left out, because they cannot be taken")


def _load_labels(place: Project, path: Path, dataset: str) -> None:
    """Qrels, a golden set, a BEIR folder, or whatever carries labels; they take the place of others."""
    if not path.exists():
        raise UsageError(f"--labels: there is no file {path}")
    if is_bundle(path) or path.suffix.lower() in YAML:
        found = find_bundle(path).golden_sets if path.is_dir() else [GoldenFile(dataset, path)]
        if len(found) != 1:
            raise UsageError(
                f"--labels: {path} holds {count(len(found), 'golden set')}; name the file of one"
            )
        golden = GoldenFile(dataset, found[0].path)
        bundle = Bundle(path.resolve(), golden_sets=[golden])
        report = load_bundles([bundle], place, options=LoadOptions(replace_labels=True))
    else:
        named = FilesNamed(dataset=dataset, golden=True, replace_labels=True)
        report, _ = load_files([path], [], named, place)
    _tell_problems(place, path, report)
    if not report.golden_sets and not report.unchanged:
        raise UsageError(
            f"--labels: {report.problems[0].reason if report.problems else 'no labels were found'} ({path})"
        )
