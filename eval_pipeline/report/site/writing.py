"""A site written into a folder as a whole."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from eval_pipeline.computing.measure import Progress
from eval_pipeline.errors import UsageError
from eval_pipeline.report.links import (
    SiteLinks,
    _formula_file,
    _pair_file,
    _question_file,
    _questions_file,
    _run_file,
    _suite_file,
)
from eval_pipeline.report.pages.collect import pair_page, run_page
from eval_pipeline.report.site._index_page import render_index_page
from eval_pipeline.report.site._material import IndexMaterial
from eval_pipeline.report.site._question_page import render_question_page
from eval_pipeline.report.site._rows import questions_of
from eval_pipeline.report.site.collect import (
    NIGHTS,
    _read_index,
    _read_questions,
    _shown_formulas,
    formula_page,
    questions_page,
    suite_page,
)
from eval_pipeline.settings import product_version
from eval_pipeline.store.project import Project

INDEX: Final = "index.html"
# Says that the folder is a site of ours, and what may be replaced with it.
MARK: Final = "eval-pipeline-site.json"
FOLDERS: Final = ("runs", "pairs", "suites", "questions", "formulas")
# So many questions are read at a time.
AT_ONCE: Final = 200


@dataclass(frozen=True)
class Site:
    """What was written, and which comparisons could not be made, each with why."""

    index: Path
    pages: int
    bytes: int
    left_out: Sequence[str]


@dataclass(frozen=True)
class _Contents:
    """Which pages a site has, by what they are about."""

    index: IndexMaterial
    runs: Sequence[str]
    pairs: Sequence[tuple[str, str]]
    suites: Sequence[tuple[str | None, str]]
    questions: Mapping[str, Sequence[str]]
    formulas: Sequence[str]

    def files(self) -> set[str]:
        """Where they are."""
        return {
            INDEX,
            *(_run_file(run_id) for run_id in self.runs),
            *(_pair_file(*pair) for pair in self.pairs),
            *(_suite_file(*suite) for suite in self.suites),
            *(_questions_file(dataset) for dataset in self.questions),
            *(_question_file(dataset, one) for dataset, ids in self.questions.items() for one in ids),
            *(_formula_file(name) for name in self.formulas),
        }


class _Writer:
    """Puts pages into the folder, each with links to those that are there."""

    def __init__(self, folder: Path, files: set[str], progress: Progress | None) -> None:
        self.folder = folder
        self.files = files
        self.progress = progress
        self.bytes = 0
        self.done = 0

    def links(self, path: str) -> SiteLinks:
        """The others as seen from a page."""
        return SiteLinks(frozenset(self.files), path.count("/"))

    def put(self, path: str, page: str) -> None:
        """Write a page."""
        text = page.encode()
        _write(self.folder / path, text)
        self.bytes += len(text)
        self.done += 1
        if self.progress:
            self.progress(self.done, len(self.files))

    def leave_out(self, path: str) -> None:
        """No page leads there."""
        self.files.discard(path)


def write_site(
    project: Project,
    folder: Path,
    *,
    suite: str | None = None,
    last: int = NIGHTS,
    with_text: bool = True,
    progress: Progress | None = None,
) -> Site:
    """Every page of the newest nights; the folder is replaced when all of them are there, or left as it was."""
    with _replacing(folder) as draft:
        contents = _read_contents(project, suite=suite, last=last)
        writer = _Writer(draft, contents.files(), progress)
        # First, because what cannot be compared is linked from nowhere.
        left_out = list(_put_pairs(project, contents, writer, with_text=with_text))
        writer.put(INDEX, render_index_page(replace(contents.index, links=writer.links(INDEX))))
        _put_runs(project, contents, writer, with_text=with_text)
        for one in contents.suites:
            path = _suite_file(*one)
            writer.put(path, suite_page(project, *one, with_text=with_text, links=writer.links(path)))
        for dataset in contents.questions:
            _put_questions(project, contents, dataset, writer, with_text=with_text)
        for name in contents.formulas:
            path = _formula_file(name)
            writer.put(path, formula_page(project, name, links=writer.links(path)))
        mark = {"written_by": product_version(), "pages": writer.done}
        _write(draft / MARK, json.dumps(mark).encode())
    return Site(folder / INDEX, writer.done, writer.bytes, left_out)


def _read_contents(project: Project, *, suite: str | None, last: int) -> _Contents:
    with project.read() as store:
        index = _read_index(store, suite=suite, last=last)
        questions = {
            dataset: [query_id for _, query_id, _ in questions_of(store.con, dataset)]
            for dataset, _ in index.datasets
        }
        formulas = [one.short_name for one in _shown_formulas(store.definitions())]
    runs = [one for found in index.suites for one in found.runs]
    if not runs:
        raise UsageError("there is no run yet: `eval-pipeline load PATH` takes runs in")
    pairs = [(other, one.run.run_id) for one in runs for other in (one.before, one.baseline) if other]
    return _Contents(
        index=index,
        runs=[one.run.run_id for one in runs],
        pairs=list(dict.fromkeys(pairs)),
        suites=[(found.suite, found.dataset) for found in index.suites],
        questions=questions,
        formulas=formulas,
    )


def _put_pairs(project: Project, contents: _Contents, writer: _Writer, *, with_text: bool) -> Iterator[str]:
    """Yields why what could not be compared is left out."""
    for a, b in contents.pairs:
        path = _pair_file(a, b)
        try:
            writer.put(path, pair_page(project, a, b, with_text=with_text, links=writer.links(path)))
        except UsageError as error:
            writer.leave_out(path)
            yield f"{b} against {a}: {error}"


def _put_runs(project: Project, contents: _Contents, writer: _Writer, *, with_text: bool) -> None:
    for run_id in contents.runs:
        path = _run_file(run_id)
        writer.put(path, run_page(project, run_id, with_text=with_text, links=writer.links(path)))


def _put_questions(
    project: Project, contents: _Contents, dataset: str, writer: _Writer, *, with_text: bool
) -> None:
    path = _questions_file(dataset)
    writer.put(path, questions_page(project, dataset, with_text=with_text, links=writer.links(path)))
    ids = contents.questions[dataset]
    for start in range(0, len(ids), AT_ONCE):
        some = ids[start : start + AT_ONCE]
        with project.read() as store:
            read = list(_read_questions(store, dataset, some, runs=contents.runs, with_text=with_text))
        for one in read:
            path = _question_file(dataset, one.query_id)
            writer.put(path, render_question_page(replace(one, links=writer.links(path))))


def _write(path: Path, text: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text)


@contextmanager
def _replacing(folder: Path) -> Iterator[Path]:
    """A folder beside, which takes the place of the old one when the block has ended well."""
    folder = folder.absolute()
    draft, old = (folder.with_name(f".{folder.name}.{ending}") for ending in ("draft", "old"))
    _put_back(old, folder)
    _refuse_others(folder)
    try:
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        yield draft
        if folder.exists():
            folder.rename(old)
        draft.rename(folder)
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror or error}") from error
    finally:
        _put_back(old, folder)
        shutil.rmtree(draft, ignore_errors=True)


def _put_back(old: Path, folder: Path) -> None:
    """Whatever stopped the exchange, also of another time: there is a site before and after it, and only one."""
    if folder.exists():
        shutil.rmtree(old, ignore_errors=True)
    elif old.exists():
        old.rename(folder)


def _refuse_others(folder: Path) -> None:
    """What somebody else put there is not ours to remove."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise UsageError(f"{folder} is a file; a site needs a folder: name a new or an empty one")
    found = {path.name for path in folder.iterdir()}
    foreign = sorted(found - {INDEX, MARK, *FOLDERS})
    if foreign or (found and MARK not in found):
        what = f"holds {', '.join(foreign[:3])}" if foreign else f"has no {MARK}"
        raise UsageError(
            f"{folder} is no site that this program wrote ({what}), so it is not replaced: "
            "name a new or an empty folder"
        )
