"""eval-pipeline load"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from eval_pipeline.cli.options import as_json, with_store
from eval_pipeline.cli.output import (
    end_where_failed,
    filled,
    print_json,
    print_json_line,
    print_line,
    progress_bar,
    say,
    shortened,
    unlabelled_sentence,
)
from eval_pipeline.errors import RefusedError, UsageError
from eval_pipeline.words import count

if TYPE_CHECKING:
    from eval_pipeline.adapters.tool import Missing, Order
    from eval_pipeline.launch import Summary
    from eval_pipeline.loading.context import LoadReport
    from eval_pipeline.loading.others import FileReport, FilesNamed
    from eval_pipeline.store.project import Project

QUARANTINED = 3
INTERRUPTED = 130
SHOWN = 3


@click.command("load")
@click.argument("paths", nargs=-1, required=True, metavar="PATH…")
@click.option(
    "--from", "tool", metavar="TOOL", help="What wrote the file, where its content does not say it."
)
@click.option(
    "--mapping",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="What the columns of a results file mean; `eval-pipeline init` writes it.",
)
@click.option("--run-id", metavar="RUN_ID", help="For a file: the run it becomes.  [the file's name]")
@click.option("--dataset", metavar="DATASET", help="For a file: the dataset whose golden set scores it.")
@click.option("--created-at", metavar="TIME", help="For a file: when the run was made.")
@click.option("--suite", metavar="NAME", help="For a file: the suite the run belongs to.")
@click.option(
    "--chunker", metavar="NAME", help="For a file: the chunker version that its ids are of, and its corpus."
)
@click.option(
    "--missing",
    type=click.Choice(("drop", "empty")),
    default="drop",
    help="For a file: queries of the golden set without a row are not scored, or count as asked with nothing found.",
)
@click.option(
    "--order",
    type=click.Choice(("file", "trec_eval")),
    default="file",
    help="For a TREC run: hits stand as in the file, or by score as trec_eval sorts them.",
)
@click.option("--golden", is_flag=True, help="Of a file take the labels alone.")
@click.option(
    "--replace-labels",
    is_flag=True,
    help="Labels replace the golden set, also if they come from a results file or lack many of its queries.",
)
@click.option(
    "--to",
    "target",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write the bundle that the files become into this folder, and load nothing.",
)
@click.option("--compute", is_flag=True, help="Then compute the runs that were loaded, as `run` does.")
@click.option(
    "--write-back",
    is_flag=True,
    help="For a knowledge base's database: compute, then write each run's aggregate_json into its eval_runs.",
)
@click.option(
    "--dry-run", is_flag=True, help="Read and check everything, say what would happen, write nothing."
)
@click.option(
    "--no-text",
    is_flag=True,
    help="Neither store nor keep what was asked, said, retrieved or extracted, nor errors and reasons in words.",
)
@click.option(
    "--new", is_flag=True, help="Start an empty store beside the kept deliveries of one that is missing."
)
@with_store
@as_json
def command(**given: Any) -> None:
    """Load bundles: folders with datasets/, inventories/ or runs/ in them, or one run's folder.

    Or files of other tools, recognised by their content: TREC runs and qrels, BEIR, ranx, ragas, Inspect, promptfoo,
    deepeval, MLflow, OpenTelemetry, Phoenix, Langfuse, LlamaIndex, LangSmith, AutoRAG, a knowledge base's database,
    tables of your own. Labels in them become the golden set of the dataset, unless it has one.

    A file may also lie at an https:// address: it is copied here and read, and named without user, password and query.

    The same bytes again change nothing; a part delivered again takes the place of that part. What cannot be taken
    goes to quarantine (exit code 3) and stops nothing else. A golden set that lacks more than a tenth of the queries in
    force is refused (exit code 5) unless --replace-labels is given. Ctrl-C stops after the runs that are being written;
    the same command then goes on from there.

    With --no-text what needs a text (required and forbidden texts, snippets) is undefined for what is loaded so, and
    rows in quarantine are recorded without their text. It does not remove what was stored before: `forget --text`
    does. The same bytes with and without texts are two deliveries, the later one stands.

    With --compute the exit code is that of `run` where it is not 0, else that of the load.

    With --write-back the database is asked first whether it can be written. All aggregates are written in one
    transaction, and no other column; runs that cannot be computed are left as they are, and named.
    """
    given["project"] = replace(given["project"], is_new=given.pop("new"))
    with _here(given.pop("paths")) as paths:
        _load(_Call(paths=paths, **given))


def _load(call: _Call) -> None:
    found = _sorted_out(call)
    if call.write_back:
        _require_databases(call, found)
    if call.target is not None:
        _write_out(call, found)
        return
    report, files = _loaded(call, found)
    written = _written_back(call, files) if call.write_back and not report.stopped else None
    if not call.as_json:
        _print_files(files, dry_run=call.dry_run)
        _print_report(report, dry_run=call.dry_run, is_computed=call.compute or call.write_back)
        if not call.dry_run:
            _say_plausibility(call.project, report.runs)
        _print_written_back(written or [])
    document = _document(report, files, dry_run=call.dry_run)
    document |= {} if written is None else {"written_back": written}
    summary = None
    try:
        summary = _computed(call, report)
    finally:
        if call.as_json:
            print_json(document | _computed_entry(call, summary))
    if report.stopped:
        _say_what_is_left(report)
        sys.exit(INTERRUPTED)
    end_where_failed(summary.failed if summary else {})
    if report.refused:
        raise RefusedError(" ".join(report.refused))
    if report.is_empty:
        say(f"{', '.join(map(str, call.paths))}: nothing in it could be loaded.")
    if report.quarantined or report.is_empty:
        sys.exit(QUARANTINED)


def _computed(call: _Call, report: LoadReport) -> Summary | None:
    """With --compute the loaded runs."""
    from eval_pipeline.cli.run import computed, print_computed

    if not call.compute or call.dry_run or report.stopped:
        return None
    if not report.runs:
        say("No run was loaded, so none is computed: `eval-pipeline run` computes whatever is missing.")
        return None
    summary = computed(call.project, report.runs)
    if not call.as_json:
        print_computed(summary)
    return summary


def _computed_entry(call: _Call, summary: Summary | None) -> dict[str, Any]:
    from eval_pipeline.cli.run import entry_of

    return {"computed": entry_of(summary) if summary else None} if call.compute else {}


@contextmanager
def _here(words: Sequence[str]) -> Iterator[tuple[Path, ...]]:
    """The paths as they were typed; files at https:// addresses are copied here meanwhile."""
    if not any("://" in word for word in words):
        yield tuple(Path(word) for word in words)
        return
    from tempfile import TemporaryDirectory

    from eval_pipeline.remote import fetch, is_address

    with TemporaryDirectory(prefix="eval-pipeline-") as scratch:
        with progress_bar("fetching") as progress:
            paths = [
                fetch(word, Path(scratch) / str(number), progress) if is_address(word) else Path(word)
                for number, word in enumerate(words)
            ]
        yield tuple(paths)


@dataclass(frozen=True)
class _Call:
    """What was typed."""

    paths: tuple[Path, ...]
    tool: str | None
    mapping: Path | None
    run_id: str | None
    dataset: str | None
    created_at: str | None
    suite: str | None
    chunker: str | None
    missing: Missing
    order: Order
    golden: bool
    replace_labels: bool
    target: Path | None
    compute: bool
    write_back: bool
    dry_run: bool
    no_text: bool
    project: Project
    as_json: bool

    def of_files(self) -> list[str]:
        """The options given that go with files alone."""
        named = {
            "--from": self.tool,
            "--mapping": self.mapping,
            "--run-id": self.run_id,
            "--dataset": self.dataset,
            "--created-at": self.created_at,
            "--suite": self.suite,
            "--chunker": self.chunker,
            "--to": self.target,
            "--golden": self.golden or None,
        }
        return [name for name, value in named.items() if value is not None]

    def named(self) -> FilesNamed:
        """What was said of the files."""
        from eval_pipeline.loading.others import FilesNamed

        said = {"created_at": self.created_at, "suite": self.suite}
        return FilesNamed(
            self.tool,
            self.run_id,
            self.dataset,
            said,
            self.chunker,
            self.missing,
            self.order,
            self.golden,
            self.replace_labels,
        )


@dataclass(frozen=True)
class _Found:
    """Bundles, and files of others; or one file that is loaded as it is or through a mapping."""

    bundles: list[Path]
    files: list[Path]
    as_it_is: Path | None = None


def _sorted_out(call: _Call) -> _Found:
    """What each path is; options that do not fit are refused."""
    from eval_pipeline.loading.others import is_bundle, results_as_they_are

    for path in call.paths:
        if not path.exists():
            raise UsageError(f"{path} is not there; give a bundle's folder or a file of results")
    bundles = [] if call.tool else [path for path in call.paths if is_bundle(path)]
    files = [path for path in call.paths if path not in bundles]
    if not files:
        if call.of_files():
            raise UsageError(
                f"{', '.join(call.of_files())} goes with a file of results, and {bundles[0]} is a folder"
            )
        return _Found(bundles, [])
    if call.mapping is not None:
        return _Found([], [], _through_mapping(call, files))
    alone = len(call.paths) == 1 and call.chunker is None and call.target is None
    if alone and files[0].is_file() and results_as_they_are(files[0], call.named()):
        if call.dataset is None:
            raise UsageError(f"{files[0]} does not say which dataset it is about: add --dataset DATASET")
        return _Found([], [], files[0])
    return _Found(bundles, files)


def _through_mapping(call: _Call, files: list[Path]) -> Path:
    if len(call.paths) > 1:
        raise UsageError(f"{files[0]} is a file of results with a mapping: load it by itself, as one run")
    missing = [name for name, value in (("--run-id", call.run_id), ("--dataset", call.dataset)) if not value]
    if missing:
        raise UsageError(
            f"{files[0]} is a file of results, and {' and '.join(missing)} is not said: "
            f"eval-pipeline load {files[0]} --mapping {call.mapping} --run-id RUN_ID --dataset DATASET"
        )
    return files[0]


def _loaded(call: _Call, found: _Found) -> tuple[LoadReport, list[FileReport]]:
    from eval_pipeline.adapters.writing import name_of_file
    from eval_pipeline.loading.context import LoadOptions
    from eval_pipeline.loading.file import RunNamed, load_results_file
    from eval_pipeline.loading.others import load_files

    options = LoadOptions(dry_run=call.dry_run, no_text=call.no_text)
    if found.as_it_is is not None:
        run_id = call.run_id or name_of_file(found.as_it_is)
        run = RunNamed(run_id, call.dataset or "", call.created_at, call.suite)
        with _interruption_named():
            return load_results_file(
                found.as_it_is, run, call.project, mapping=call.mapping, options=options
            ), []
    with progress_bar("loading runs") as progress, _stopped_by_ctrl_c() as stop:
        return load_files(
            found.files,
            found.bundles,
            call.named(),
            call.project,
            progress=progress,
            options=options,
            stop=stop,
        )


def _write_out(call: _Call, found: _Found) -> None:
    from eval_pipeline.loading.others import write_files

    if call.target is None or found.bundles or not found.files:
        raise UsageError("--to writes the bundle that files of other tools become; here is no such file")
    files = write_files(found.files, call.named(), call.project, call.target)
    if call.as_json:
        print_json({"format": 1, "to": str(call.target), "files": [_file_entry(one) for one in files]})
        return
    _print_files(files, dry_run=False)
    print_line(f"Wrote a bundle into {call.target}.")
    say(f"Next: `eval-pipeline load {call.target}`")


def _require_databases(call: _Call, found: _Found) -> None:
    from eval_pipeline.showing.sqlite_base import require_writable

    if call.dry_run or call.target is not None:
        raise UsageError("--write-back computes and writes: it does not go with --dry-run or --to")
    if found.bundles or not found.files:
        raise UsageError("--write-back goes with the database of a knowledge base, and with nothing else")
    for path in found.files:
        if str(path) != os.fspath(path):
            raise UsageError(f"{path} was fetched, and what is fetched cannot be written back to")
        require_writable(path)


def _written_back(call: _Call, files: list[FileReport]) -> list[dict[str, Any]]:
    """Compute what is new of the runs in these databases; then every aggregate that there is goes back."""
    from eval_pipeline.computing.ledger import DATA_REASONS
    from eval_pipeline.launch import run_in_dagster
    from eval_pipeline.showing.sqlite_base import write_aggregates

    runs = {run_id for one in files for run_id in one.runs}
    with progress_bar("computing cells") as progress:
        run_in_dagster(call.project, run_ids=runs, reasons=DATA_REASONS, progress=progress)
    written = [(one.path, write_aggregates(call.project, one.path, one.own_names)) for one in files]
    return [{"path": str(path), "written": one.written, "left_out": one.left_out} for path, one in written]


def _print_written_back(written: list[dict[str, Any]]) -> None:
    for one in written:
        print_line(
            f"{one['path']}: aggregate_json of {count(len(one['written']), 'run')} written into eval_runs."
        )
        for run_id, why in one["left_out"].items():
            say(f"  {run_id} is left as it was: {why}")


def _file_entry(one: FileReport) -> dict[str, Any]:
    return {
        "path": str(one.path),
        "tool": one.tool,
        "taken_for": one.taken_for,
        "dataset": one.dataset,
        "runs": one.runs,
        "rows": one.rows,
        "labels": one.labels,
        "remarks": one.remarks,
        "unused": dict(one.unused),
    }


def _print_files(files: list[FileReport], *, dry_run: bool) -> None:
    """What the rows of each file became; a trial shows the first three."""
    for one in files:
        if dry_run:
            for row in one.shown:
                print_json_line(shortened(row))
        made = [
            *([f"{count(one.rows, 'result')} of {', '.join(one.runs)}"] if one.runs else []),
            *([f"labels of {count(one.labels, 'query', plural='queries')}"] if one.labels else []),
        ]
        if made:
            print_line(f"{one.path}: {' and '.join(made)}, dataset {one.dataset}.")


@contextmanager
def _stopped_by_ctrl_c() -> Iterator[Callable[[], bool]]:
    """The first Ctrl-C asks the load to end after its batch; the second one ends it at once."""
    asked = False

    def ask(_signal: int, _frame: object) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        say("\nStopping when the runs that are read are written; Ctrl-C again stops at once.")

    before = signal.signal(signal.SIGINT, ask)
    try:
        with _interruption_named():
            yield lambda: asked
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _interruption_named() -> Iterator[None]:
    """Ctrl-C in the middle of a statement, which the database reports as an error of its own."""
    try:
        yield
    except RuntimeError as error:
        if "interrupted" in str(error).lower():
            raise KeyboardInterrupt from error
        raise


def _document(report: LoadReport, files: list[FileReport], *, dry_run: bool) -> dict[str, Any]:
    return {
        "format": 1,
        "golden_sets": report.golden_sets,
        "archives": report.archives,
        "runs": report.runs,
        "replaced": report.replaced,
        "results": report.results,
        "unchanged": report.unchanged,
        "rejected": report.rejected,
        "forgotten": report.forgotten,
        "quarantined": report.quarantined,
        "warnings": [one.entry() for one in report.warnings],
        "dry_run": dry_run,
        "stopped": report.stopped,
        "case_lists": report.case_lists,
        "files": [_file_entry(one) for one in files],
    }


def _print_report(report: LoadReport, *, dry_run: bool, is_computed: bool = False) -> None:
    taken = [
        count(len(report.runs), "run"),
        count(report.results, "result"),
        count(len(report.golden_sets), "golden set"),
        count(len(report.archives), "archive"),
        *(
            [count(len(report.case_lists), "list of cases", plural="lists of cases")]
            if report.case_lists
            else []
        ),
    ]
    word = "Would load" if dry_run else "Loaded"
    print_line(f"{word} {', '.join(taken)}; {count(report.unchanged, 'part')} unchanged.")
    if dry_run and report.replaced:
        shown = ", ".join(report.replaced[:SHOWN]) + (", …" if len(report.replaced) > SHOWN else "")
        print_line(f"Would replace parts of {count(len(report.replaced), 'run')}: {shown}.")
    for problem in report.problems[:SHOWN]:
        place = f"{problem.path}:{problem.line}" if problem.line else problem.path
        say(f"  {place}: {problem.field + ': ' if problem.field else ''}{problem.reason}")
    if report.quarantined and dry_run:
        say(f"{count(report.quarantined, 'row')} would be quarantined.")
    elif report.quarantined:
        say(f"{count(report.quarantined, 'row')} quarantined: `eval-pipeline quarantine` shows all of them.")
    _say_warnings(report)
    if report.forgotten:
        shown = ", ".join(report.forgotten[:SHOWN]) + (", …" if len(report.forgotten) > SHOWN else "")
        say(
            f"Left out, because forgotten on purpose: {shown}; `eval-pipeline forget NAME --lift` lets it in again."
        )
    if dry_run:
        say("Nothing was written.")
        return
    if report.waiting:
        say(unlabelled_sentence(report.waiting))
    if report.runs and not report.stopped and not is_computed:
        say("Next: `eval-pipeline run` computes their metrics.")


def _say_plausibility(project: Project, run_ids: Sequence[str]) -> None:
    """What labels know of the ids just loaded: in full where nothing knows them, else in a line or none."""
    from eval_pipeline.showing.plausibility import ids_in_words

    if not run_ids:
        return
    odd, calm = ids_in_words(project, run_ids)
    for run_id, sentence in list(odd.items())[:SHOWN]:
        say(filled(f"{run_id} is implausible: {sentence}."))
    if len(odd) > SHOWN:
        say(f"{count(len(odd), 'run')} implausible: `eval-pipeline status` lists them.")
    for run_id, sentence in calm.items():
        say(f"{run_id}: {sentence}.")


def _say_warnings(report: LoadReport) -> None:
    """Odd labels and ranks: they change nothing, so they are told and not counted as faults."""
    for one in report.warnings[:SHOWN]:
        say(
            f"  warning: {one.dataset or one.run_id}: {f'{one.query_id!r} ' if one.query_id else ''}{one.words}"
        )
    if report.warnings:
        say(
            f"{count(len(report.warnings), 'warning')}, nothing was left out: `eval-pipeline status --lint` shows "
            "all of them."
        )


def _say_what_is_left(report: LoadReport) -> None:
    say(
        f"Interrupted: {count(len(report.runs), 'run')} loaded and complete, {count(report.runs_left, 'run')} left. "
        "The same command goes on from there."
    )
