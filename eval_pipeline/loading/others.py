"""Files of other tools: recognised, made into a bundle with their labels, and loaded or written out."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from eval_pipeline.adapters.from_bundle import RESULTS
from eval_pipeline.adapters.taking import Taken, recognise
from eval_pipeline.adapters.tool import Missing, Order, ReadOptions
from eval_pipeline.adapters.writing import Made, Wanted, label_documents, write_bundle
from eval_pipeline.bundle.files import SUFFIXES, stem_of
from eval_pipeline.bundle.golden import read_golden_set
from eval_pipeline.bundle.layout import Bundle
from eval_pipeline.bundle.parts import name_fault, parse_time
from eval_pipeline.config import load_config
from eval_pipeline.errors import InputRejected, UsageError
from eval_pipeline.loading.context import LoadOptions, LoadReport
from eval_pipeline.loading.load import load_bundles
from eval_pipeline.loading.runs import Progress, _problem_of_rejection
from eval_pipeline.records import GoldenRow
from eval_pipeline.store.inspection import inspecting
from eval_pipeline.store.project import Project
from eval_pipeline.words import count

# What holds nothing but labels takes the place of a golden set, as every delivered one does.
LABELS_ONLY = ("qrels", "beir")
Expected = Mapping[str, frozenset[str]]


@dataclass(frozen=True)
class FilesNamed:
    """What somebody says of the files: whose they are, what their runs are called, how they are read."""

    tool: str | None = None
    run_id: str | None = None
    dataset: str | None = None
    said: Mapping[str, Any] = field(default_factory=dict)
    chunker: str | None = None
    missing: Missing = "drop"
    order: Order = "file"
    golden: bool = False
    replace_labels: bool = False


@dataclass(frozen=True)
class FileReport:
    """What one file was taken for, and what came of it."""

    path: Path
    tool: str
    taken_for: str
    dataset: str = ""
    runs: list[str] = field(default_factory=list)
    rows: int = 0
    labels: int = 0
    remarks: list[str] = field(default_factory=list)
    unused: Mapping[str, int] = field(default_factory=dict)
    shown: list[dict[str, Any]] = field(default_factory=list)
    own_names: Mapping[str, str] = field(default_factory=dict)


def load_files(
    paths: Sequence[Path],
    bundles: Sequence[Path],
    named: FilesNamed,
    project: Project,
    *,
    progress: Progress | None = None,
    options: LoadOptions | None = None,
    stop: Callable[[], bool] | None = None,
) -> tuple[LoadReport, list[FileReport]]:
    """Load these files of other tools, and bundles beside them."""
    options = replace(options or LoadOptions(), replace_labels=named.replace_labels)
    with tempfile.TemporaryDirectory(prefix="eval-pipeline-") as scratch:
        made, reports = _made(paths, named, project, Path(scratch))
        report = load_bundles([*bundles, *made], project, progress=progress, options=options, stop=stop)
    return report, reports


def write_files(paths: Sequence[Path], named: FilesNamed, project: Project, target: Path) -> list[FileReport]:
    """Write the files as bundles into a folder, and load nothing."""
    with tempfile.TemporaryDirectory(prefix="eval-pipeline-") as scratch:
        made, reports = _made(paths, named, project, Path(scratch))
        for bundle in made:
            if bundle.problems:
                raise UsageError(f"{bundle.problems[0].path} cannot be read: {bundle.problems[0].reason}")
            for part in ("datasets", "runs"):
                _move_in(bundle.root / part, target / part)
    return reports


def _move_in(source: Path, target: Path) -> None:
    for folder in sorted(source.iterdir()) if source.is_dir() else []:
        if (target / folder.name).exists():
            raise UsageError(f"{target / folder.name} is there already: --to takes a folder without it")
        target.mkdir(parents=True, exist_ok=True)
        shutil.move(folder, target / folder.name)


def _made(
    paths: Sequence[Path], named: FilesNamed, project: Project, scratch: Path
) -> tuple[list[Bundle], list[FileReport]]:
    """A bundle per file; files of labels come first, because queries are named by what they ask."""
    _check_names(named)
    taken = [recognise(path, named.tool) for path in paths]
    for one in taken:
        if project.notify:
            project.notify(f"{one.path}: taken for {one.seen.words}")
    known = _Known(project)
    bundles: dict[Path, Bundle] = {}
    reports: dict[Path, FileReport] = {}
    labelled: dict[Path, Made] = {}
    for one in sorted(taken, key=lambda one: one.tool.name not in LABELS_ONLY):
        folder = scratch / str(len(bundles))
        try:
            made = write_bundle(one.tool, one.path, _reading(named), _wanted(named, known), folder)
        except InputRejected as rejected:
            problem = _problem_of_rejection(one.path, rejected, run_id=named.run_id)
            bundles[one.path] = Bundle(folder, problems=[problem])
            reports[one.path] = FileReport(one.path, one.tool.name, one.seen.words)
            continue
        remarks = _settle_labels(one, made, named, known)
        known.add(made)
        if made.bundle.golden_sets:
            labelled[one.path] = made
        bundles[one.path], reports[one.path] = made.bundle, _report(one, made, remarks)
    for path, made in labelled.items():
        remark = label_documents(made, partial(known.are_documents, made.dataset))
        reports[path].remarks.extend([remark] if remark else [])
    for report in reports.values():
        _say(report, project)
    _refuse_twice(reports.values())
    return [bundles[path] for path in dict.fromkeys(paths)], [reports[path] for path in dict.fromkeys(paths)]


def _check_names(named: FilesNamed) -> None:
    for option, name in (
        ("--run-id", named.run_id),
        ("--dataset", named.dataset),
        ("--chunker", named.chunker),
    ):
        fault = name_fault(name) if name is not None else None
        if fault:
            raise UsageError(f"{option}: {fault}")
    if named.said.get("created_at") is not None:
        try:
            parse_time(named.said["created_at"])
        except ValueError as error:
            raise UsageError(f"--created-at: {error}") from error


def _reading(named: FilesNamed) -> ReadOptions:
    return ReadOptions(named.order, named.chunker, named.golden)


def _wanted(named: FilesNamed, known: _Known) -> Wanted:
    said = dict(named.said)
    if named.chunker is not None:
        said["config"] = {"chunker_version": named.chunker}
    fill = named.missing == "empty"
    return Wanted(
        named.run_id,
        named.dataset,
        said,
        known.ids_of,
        known.asked,
        fill,
        named.golden,
        load_config(known.project.settings.config).relevant_from,
    )


def _report(one: Taken, made: Made, remarks: list[str]) -> FileReport:
    return FileReport(
        one.path,
        one.tool.name,
        one.seen.words,
        made.dataset,
        made.runs,
        made.rows,
        made.labels if made.bundle.golden_sets else 0,
        [*made.remarks, *remarks],
        dict(made.unused.most_common()),
        made.shown,
        made.own_names,
    )


def _say(report: FileReport, project: Project) -> None:
    if project.notify is None:
        return
    for remark in report.remarks:
        project.notify(f"  {report.path.name}: {remark}")
    if report.unused:
        fields = ", ".join(
            f"{name} ({count(rows, 'row')})" for name, rows in list(report.unused.items())[:12]
        )
        more = ", …" if len(report.unused) > 12 else ""
        project.notify(f"  {report.path.name}: not used: {fields}{more}")


def _refuse_twice(reports: Collection[FileReport]) -> None:
    names = Counter(run_id for report in reports for run_id in report.runs)
    twice = [name for name, times in names.items() if times > 1]
    if twice:
        files = " and ".join(str(one.path) for one in reports if twice[0] in one.runs)
        raise UsageError(f"{files} would both be run {twice[0]}: load them one by one, with --run-id")


class _Known:
    """What is known of the labels of a dataset: those of this load, else those of the store."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.here: dict[str, list[GoldenRow]] = {}
        self.documents: frozenset[str] = frozenset()
        self.stored: Callable[[str], dict[str, tuple[str | None, frozenset[str]]]] = cache(self._stored)

    def add(self, made: Made) -> None:
        for golden in made.bundle.golden_sets:
            self.here[golden.dataset] = read_golden_set(golden.path).rows
        self.documents |= made.documents

    def are_documents(self, dataset: str, ids: frozenset[str]) -> bool:
        """Whether hits of this load, or hits of the dataset in the store, name one of the ids as their document."""
        if ids & self.documents:
            return True
        with inspecting(self.project) as found:
            if found is None or found.schema < found.known_schema:
                return False
            ((is_known,),) = found.con.execute(
                "select exists(from raw.hits h join raw.runs r using (run_key) "
                "join raw.datasets s using (dataset_key) join raw.doc_ids d using (doc_key) "
                "join raw.chunk_ids c using (chunk_key) "
                "where s.dataset_id = ? and d.doc_id in (select unnest(?)) and c.chunk_id <> d.doc_id)",
                [dataset, list(ids)],
            ).fetchall()
            return bool(is_known)

    def ids_of(self, dataset: str) -> dict[str, str]:
        """Queries by what they ask; what two ask in the same words names neither."""
        rows = self.here.get(dataset)
        asked = (
            [(row.query, row.query_id) for row in rows]
            if rows is not None
            else [(text, query_id) for query_id, (text, _) in self.stored(dataset).items()]
        )
        times = Counter(text for text, _ in asked)
        return {text: query_id for text, query_id in asked if text is not None and times[text] == 1}

    def asked(self, dataset: str) -> frozenset[str]:
        rows = self.here.get(dataset)
        return (
            frozenset(row.query_id for row in rows) if rows is not None else frozenset(self.stored(dataset))
        )

    def _stored(self, dataset: str) -> dict[str, tuple[str | None, frozenset[str]]]:
        """The golden set in force: query → what it asks, and the chunks that are expected."""
        with inspecting(self.project) as found:
            if found is None or found.schema < found.known_schema:
                return {}
            rows = found.con.execute(
                "select i.query_id, any_value(t.text), list(c.chunk_id) filter (c.chunk_id is not null) "
                "from ledger.golden_sets_in_force g join raw.datasets d using (dataset_key) "
                "join labels.query_details q using (golden_key) join raw.query_ids i using (query_key) "
                "left join raw.texts t on t.text_key = q.text_key "
                "left join labels.expected_chunks e on e.golden_key = g.golden_key and e.query_key = q.query_key "
                "left join raw.chunk_ids c on c.chunk_key = e.chunk_key where d.dataset_id = ? group by i.query_id",
                [dataset],
            ).fetchall()
        return {query_id: (text, frozenset(chunks or ())) for query_id, text, chunks in rows}


def _settle_labels(one: Taken, made: Made, named: FilesNamed, known: _Known) -> list[str]:
    """Whether the labels of the file count: those of a file of results take no other's place unasked."""
    if not made.bundle.golden_sets:
        return []
    is_declared = (
        named.golden or one.tool.name in LABELS_ONLY or (stem_of(one.path) == "queries" and not made.runs)
    )
    if not made.runs:
        made.bundle.golden_sets = [
            replace(golden, is_declared=is_declared) for golden in made.bundle.golden_sets
        ]
    rows = known.here.get(made.dataset)
    there: Expected = (
        {row.query_id: frozenset(row.expected_chunk_ids or ()) for row in rows}
        if rows is not None
        else {query_id: chunks for query_id, (_, chunks) in known.stored(made.dataset).items()}
    )
    if named.replace_labels or is_declared or not made.runs or not there:
        return []
    new = read_golden_set(made.bundle.golden_sets[0].path).rows
    differing = sum(
        row.query_id in there and frozenset(row.expected_chunk_ids or ()) != there[row.query_id]
        for row in new
    )
    unknown = sum(row.query_id not in there for row in new)
    made.bundle.golden_sets.clear()
    if not differing and not unknown:
        return []
    parts = [
        *([f"{count(differing, 'query', plural='queries')} labelled otherwise"] if differing else []),
        *([f"{count(unknown, 'query', plural='queries')} it does not have"] if unknown else []),
    ]
    return [
        f"the golden set of {made.dataset} stays; the file has {' and '.join(parts)} "
        "(`load --replace-labels` takes the labels of the file)"
    ]


def results_as_they_are(path: Path, named: FilesNamed) -> bool:
    """Whether the file is results of the contract: then it is loaded itself, and nothing is made of it."""
    if named.golden or not path.name.endswith(SUFFIXES):
        return False
    taken = recognise(path, named.tool)
    return taken.tool.name == "bundle" and taken.seen.words == RESULTS


def is_bundle(path: Path) -> bool:
    """Whether a folder is a bundle, or a run's or dataset's folder in one; a BEIR dataset is none."""
    if not path.is_dir() or any(path.glob("*qrels/*.tsv")):
        return False
    names = {one.name for one in path.iterdir()}
    stems = {name.split(".")[0] for name in names}
    return bool(names & {"datasets", "inventories", "runs", "run.json"} or stems & {"queries", "cases"})
