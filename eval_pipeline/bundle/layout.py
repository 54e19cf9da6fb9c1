"""What a bundle folder holds: which datasets, archives and runs, before anything of them is read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from eval_pipeline.bundle.files import SUFFIXES, _find_part, stem_of
from eval_pipeline.bundle.parts import name_fault
from eval_pipeline.bundle.problems import Problem
from eval_pipeline.errors import InputRejected, UsageError
from eval_pipeline.records import CASES

# The parts of a run that have rows, and texts in them; the report of the indexing has neither.
ROW_PARTS = ("results", "extractions", "judge_spot_check", "judgements", "requests")
# Those of which several deliveries stand side by side: a new one takes the place of what it names, and of no more.
ADDED_PARTS = ("judgements", "requests")
INDEX_REPORT = "index_report"
# The file of another tool that a run or a golden set was made from, where deliveries are kept.
ORIGINAL = "original"
NO_RUN_FILE = "run.json is missing, so the run was not loaded. Write it last; see docs/bundle.md."
PART_SUFFIXES = (*SUFFIXES, ".json", ".yaml", ".yml")


@dataclass(frozen=True)
class Original:
    """The file or folder of another tool that a bundle was made from, and every run that it holds."""

    path: Path
    runs: frozenset[str] = frozenset()

    def files(self) -> list[tuple[str, Path]]:
        """What is to be kept of it: each file with its name, of a folder with its place in it."""
        if not self.path.is_dir():
            return [(self.path.name, self.path)]
        found = sorted(path for path in self.path.rglob("*") if path.is_file())
        return [(path.relative_to(self.path.parent).as_posix(), path) for path in found]


@dataclass(frozen=True)
class GoldenFile:
    """A golden set; `called` is the file that it was made from, where it was.

    Without `is_declared` the file only looks like a golden set, so it does not replace another one unasked.
    """

    dataset: str
    path: Path
    called: Path | None = None
    original: Original | None = None
    is_declared: bool = True


@dataclass(frozen=True)
class CaseListFile:
    """Which extraction cases every run of a dataset should hold."""

    dataset: str
    path: Path


@dataclass(frozen=True)
class ArchiveFile:
    """A chunk archive; `dataset` is None when it serves every dataset that has none of its own."""

    dataset: str | None
    chunker_version: str
    path: Path


@dataclass(frozen=True)
class RunFolder:
    """A run's folder and the files of its parts.

    A file may have been made from another: `called` names that one, `problems` are its rows that did not come along.
    `original` is to be kept with this run: of several runs of a file, with the first. `place` orders runs of one load
    that have the same time; runs whose order is unknown share a place.
    """

    path: Path
    parts: dict[str, Path]
    called: dict[str, Path] = field(default_factory=dict)
    problems: dict[str, list[Problem]] = field(default_factory=dict)
    original: Original | None = None
    place: int = 0

    @property
    def run_file(self) -> Path:
        return self.path / "run.json"


@dataclass
class Bundle:
    """The files of one bundle; `root` is its folder without links in the way.

    `incomplete` are the folders of runs without a run.json.
    """

    root: Path
    golden_sets: list[GoldenFile] = field(default_factory=list)
    case_lists: list[CaseListFile] = field(default_factory=list)
    archives: list[ArchiveFile] = field(default_factory=list)
    runs: list[RunFolder] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    incomplete: list[Path] = field(default_factory=list)


def find_bundle(root: Path) -> Bundle:
    """Look through a bundle folder, or through a single run's or dataset's folder inside one."""
    if not root.is_dir():
        raise UsageError(
            f"{root} is no folder; a bundle is a folder with datasets/, inventories/ or runs/ in it"
        )
    bundle = Bundle(root.resolve())
    if (root / "run.json").is_file():
        _add_run(bundle, root)
    elif _golden_files(root) or case_files(root):
        _add_dataset(bundle, root)
    else:
        for folder in _folders(root / "datasets"):
            _add_dataset(bundle, folder)
        _add_archives(bundle, root / "inventories", dataset=None)
        for folder in _folders(root / "runs"):
            if (folder / "run.json").is_file():
                _add_run(bundle, folder)
            else:
                _note_what_is_no_file(bundle, folder, run_id=folder.name)
                bundle.incomplete.append(folder)
        if not any((root / part).is_dir() for part in ("datasets", "inventories", "runs")):
            raise UsageError(
                f"{root} is no bundle: expected datasets/, inventories/ or runs/ in it, or a run.json"
            )
    return bundle


def _folders(parent: Path) -> Iterator[Path]:
    if parent.is_dir():
        yield from sorted(
            path for path in parent.iterdir() if path.is_dir() and not path.name.startswith(".")
        )


def _golden_files(folder: Path) -> list[Path]:
    names = ["queries.yaml", "queries.yml", *("queries" + suffix for suffix in SUFFIXES)]
    return [folder / name for name in names if (folder / name).is_file()]


def case_files(folder: Path) -> list[Path]:
    """The lists of cases in a dataset's folder; there should be one at most."""
    return [folder / name for suffix in SUFFIXES if (folder / (name := CASES + suffix)).is_file()]


def _add_dataset(bundle: Bundle, folder: Path) -> None:
    fault = name_fault(folder.name)
    if fault:
        bundle.problems.append(Problem(str(folder), fault))
        return
    if _leads_astray(bundle, folder):
        return
    _note_what_is_no_file(bundle, folder)
    files = _golden_files(folder)
    if len(files) > 1:
        names = " and ".join(path.name for path in files)
        bundle.problems.append(Problem(str(folder), f"{names} both hold the golden set: keep one of them"))
    elif files:
        bundle.golden_sets.append(GoldenFile(folder.name, files[0]))
    cases = case_files(folder)
    if len(cases) > 1:
        names = " and ".join(path.name for path in cases)
        bundle.problems.append(Problem(str(cases[0]), f"{names} both list the cases: keep one of them"))
    elif cases:
        bundle.case_lists.append(CaseListFile(folder.name, cases[0]))
    _add_archives(bundle, folder / "inventories", dataset=folder.name)


def _add_archives(bundle: Bundle, folder: Path, *, dataset: str | None) -> None:
    if not folder.is_dir() or _leads_astray(bundle, folder):
        return
    _note_what_is_no_file(bundle, folder)
    for path in sorted(folder.iterdir()):
        if not path.is_file() or not path.name.endswith(SUFFIXES):
            continue
        version = stem_of(path)
        fault = name_fault(version)
        if fault:
            bundle.problems.append(Problem(str(path), fault))
        else:
            bundle.archives.append(ArchiveFile(dataset, version, path))


def _add_run(bundle: Bundle, folder: Path) -> None:
    if _leads_astray(bundle, folder, run_id=folder.name):
        return
    try:
        found = {part: path for part in ROW_PARTS if (path := _find_part(folder, part))}
    except InputRejected as rejected:
        bundle.problems.append(Problem(str(folder), rejected.reason, run_id=folder.name))
        return
    _note_what_is_no_file(bundle, folder, run_id=folder.name)
    report = folder / "index_report.json"
    if report.is_file():
        found[INDEX_REPORT] = report
    bundle.runs.append(RunFolder(folder, found))


def _note_what_is_no_file(bundle: Bundle, folder: Path, *, run_id: str | None = None) -> None:
    """Folders, pipes and the like under the name of a part cannot be read, and the rest is taken without them."""
    known = (*ROW_PARTS, "run", INDEX_REPORT, "queries", CASES)
    for path in sorted(folder.iterdir()):
        is_part = folder.name == "inventories" or stem_of(path) in known
        if is_part and path.name.endswith(PART_SUFFIXES) and path.exists() and not path.is_file():
            reason = f"{path.name} is no file: a part is one file, plain or packed"
            bundle.problems.append(Problem(str(path), reason, run_id=run_id))


def _leads_astray(bundle: Bundle, folder: Path, *, run_id: str | None = None) -> bool:
    """Whether the folder or a file in it is a link to nothing or out of the bundle: nobody delivered what is there."""
    for path in (folder, *sorted(folder.iterdir())):
        if path != folder and not (path.is_symlink() and path.name.endswith(PART_SUFFIXES)):
            continue
        try:
            is_inside = path.resolve(strict=True).is_relative_to(bundle.root)
        except (OSError, RuntimeError):
            is_inside = False
        if not is_inside:
            reason = f"{path.name} is a link to nothing or out of the bundle"
            bundle.problems.append(Problem(str(path), reason, run_id=run_id))
            return True
    return False
