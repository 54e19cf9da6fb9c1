"""One file of results loaded as a run: as it is, or through a mapping."""

# The file becomes a run's folder in a place of its own and is loaded the one way there is.

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from eval_pipeline.adapters.mapped_rows import ScatteredRows, mapped_rows
from eval_pipeline.adapters.mapping import RowMapping, read_mapping
from eval_pipeline.adapters.tables import find_value, form_of, own_rows, places_in
from eval_pipeline.adapters.writing import identity_of
from eval_pipeline.bundle.files import SUFFIXES, open_unpacked
from eval_pipeline.bundle.layout import Bundle, Original, RunFolder
from eval_pipeline.bundle.lines import Line, problem_of
from eval_pipeline.bundle.packed_lines import PACKED, write_numbered
from eval_pipeline.bundle.parts import name_fault, parse_time
from eval_pipeline.bundle.problems import Problem, printable
from eval_pipeline.errors import InputRejected, InvalidConfig, UsageError
from eval_pipeline.loading.context import LoadOptions, LoadReport
from eval_pipeline.loading.load import load_bundles
from eval_pipeline.loading.runs import _problem_of_rejection
from eval_pipeline.store.lock import Notify
from eval_pipeline.store.project import Project

SAMPLED_ROWS = 1000


@dataclass(frozen=True)
class RunNamed:
    """What the run is to be called, and what else was said of it."""

    run_id: str
    dataset: str
    created_at: str | None = None
    suite: str | None = None


def load_results_file(
    path: Path,
    run: RunNamed,
    project: Project,
    *,
    mapping: Path | None = None,
    options: LoadOptions | None = None,
) -> LoadReport:
    """Load the file as this run; without a mapping its columns are those of the contract."""
    _check_names(run)
    with tempfile.TemporaryDirectory(prefix="eval-pipeline-") as scratch:
        folder = Path(scratch) / "runs" / run.run_id
        folder.mkdir(parents=True)
        chosen = read_mapping(mapping, data_file=path) if mapping else None
        bundle = Bundle(folder)
        named = {"run": path, "results": path}
        try:
            if chosen is None:
                _check_columns(path)
                bundle.runs.append(RunFolder(folder, {"results": path}, named))
            else:
                _check_places(path, chosen, str(mapping), project.notify)
                target = folder / f"results{PACKED}"
                problems = _write_results(path, chosen, target, run.run_id)
                original = Original(path, frozenset({run.run_id}))
                bundle.runs.append(
                    RunFolder(folder, {"results": target}, named, {"results": problems}, original)
                )
        except InputRejected as rejected:
            bundle.problems.append(_problem_of_rejection(path, rejected, run_id=run.run_id))
        made_from = {"original": identity_of(path)} if bundle.runs and chosen else {}
        _write_run(folder / "run.json", run, {**(chosen.run if chosen else {}), **made_from})
        report = load_bundles([bundle], project, options=options)
    if not bundle.runs:
        report.rejected.append(run.run_id)
    return report


def _check_names(run: RunNamed) -> None:
    for option, name in (("--run-id", run.run_id), ("--dataset", run.dataset)):
        fault = name_fault(name)
        if fault:
            raise UsageError(f"{option}: {fault}")
    if run.created_at is not None:
        try:
            parse_time(run.created_at)
        except ValueError as error:
            raise UsageError(f"--created-at: {error}") from error


def _write_run(path: Path, run: RunNamed, said: dict[str, Any]) -> None:
    """What the command line says wins over the mapping."""
    named = {"run_id": run.run_id, "dataset": run.dataset, "created_at": run.created_at, "suite": run.suite}
    document = {**said, **{name: value for name, value in named.items() if value is not None}}
    path.write_text(json.dumps(document), "utf-8")


def _check_columns(path: Path) -> None:
    """A file of somebody's own columns would end in quarantine row by row: better one sentence about all of them."""
    if not path.name.endswith(SUFFIXES):
        raise UsageError(
            f"{path} can be loaded with a mapping only: `eval-pipeline init {path}` looks at it and writes one "
            f"(without a mapping a file ends in {', '.join(SUFFIXES)})"
        )
    with open_unpacked(path) as stream:
        stream.read(1)
    rows = [line.record for line in islice(own_rows(path, form_of(path)), SAMPLED_ROWS) if line.record]
    if rows and not any("query_id" in row for row in rows):
        raise UsageError(
            f"{path} has no query_id; it has {_names(rows[0])}. `eval-pipeline init {path}` writes a mapping for it."
        )


def _names(row: dict[str, Any], most: int = 12) -> str:
    places = [printable(place) for place, _ in islice(places_in(row), most + 1)]
    return ", ".join(places[:most]) + (", …" if len(places) > most else "")


def _check_places(path: Path, mapping: RowMapping, named: str, notify: Notify | None) -> None:
    """A place that no row has is a slip of the pen: fatal where nothing goes without it, and worth a word elsewhere."""
    rows = [line.record for line in islice(own_rows(path, mapping.file), SAMPLED_ROWS) if line.record]
    if not rows:
        return
    for where, place, is_needed in _places_of(mapping):
        if any(find_value(row, place) is not None for row in rows):
            continue
        message = f"{named}: {where} = {place!r} is in none of the first {len(rows):,} rows of {path}"
        if is_needed:
            raise InvalidConfig(f"{message}; they have {_names(rows[0])}")
        if notify:
            notify(f"{message}: taken as not given")


def _places_of(mapping: RowMapping) -> list[tuple[str, str, bool]]:
    """Every place in a row that the mapping names, and whether nothing goes without it."""
    listed = mapping.setting("hits", "list", None)
    found = [("[hits] list", listed, True)] if listed is not None else []
    for table, sources in mapping.fields.items():
        if table == "references" or (table == "hits" and listed is not None):
            continue
        for name, source in sources.items():
            is_needed = (table, name) in (("result", "query_id"), ("hits", "chunk_id"))
            if source.place:
                found.append((f"[{table}] {name}", source.place, is_needed))
            elif len(source.hash_of) == 1:
                found.append((f"[{table}] {name}", source.hash_of[0], is_needed))
    return found


def _write_results(path: Path, mapping: RowMapping, target: Path, run_id: str) -> list[Problem]:
    def refused(line: Line[dict[str, Any]]) -> Problem:
        return problem_of(line, path, run_id=run_id)

    try:
        return write_numbered(target, mapped_rows(path, mapping), dict, refused)
    except ScatteredRows:
        return write_numbered(target, mapped_rows(path, mapping, scattered=True), dict, refused)
