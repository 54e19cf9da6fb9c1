"""The forms in which runs are written for others, and writing them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from eval_pipeline.errors import UnknownName, UsageError
from eval_pipeline.exporting import _beir, _mlflow, _otlp, _per_query, _ragas, _trec
from eval_pipeline.exporting._form import Export, Files, Form, Page
from eval_pipeline.exporting.documents import _files_of_run, _write_all
from eval_pipeline.showing.page_rows import suite_names
from eval_pipeline.store.open import Connection
from eval_pipeline.store.project import Project
from eval_pipeline.store.runs import find_run

__all__ = ["PAGES", "Exported", "Page", "export_runs"]


def _folders(export: Export) -> Files:
    """The files of a run; of several each in a folder of its own."""
    for run in export.runs:
        for name, write in _files_of_run(export.store, run).items():
            yield f"{run.run_id}/{name}", write


JSON = "json"
MLFLOW = "mlflow"
_DOCUMENTS = Page(
    title="the product's own documents",
    files=(
        ("metrics.json", "what `show RUN_ID --json` prints"),
        ("config.json", "the configuration that the run was made with"),
        ("eval-results.json", "every extraction case and their aggregate"),
        ("per_query.parquet", "a row per query, a column per metric"),
        ("judge_inputs.jsonl", "what the judge was given"),
    ),
    carries=("all numbers, with their versions; of several runs each has a folder RUN_ID/",),
    cannot=("hits, answers and labels: no run can be made of it again",),
)
_WRITING = {
    one.name: one
    for one in (
        Form(JSON, _DOCUMENTS, _folders),
        _per_query.FORM,
        _trec.FORM,
        _beir.FORM,
        _ragas.FORM,
        _otlp.FORM,
    )
}
PAGES: dict[str, Page] = {**{name: one.page for name, one in _WRITING.items()}, MLFLOW: _mlflow.PAGE}


@dataclass(frozen=True)
class Exported:
    """What was written: the runs, the files (of MLflow the places), and what has to be said of them."""

    run_ids: list[str]
    files: list[str]
    remarks: list[str]


def export_runs(
    project: Project,
    run_ids: Sequence[str],
    wanted: str,
    target: str,
    *,
    suite: str | None = None,
    force: bool = False,
) -> Exported:
    """Write the runs, or those of a suite, in one of the forms; earlier files of the same names are replaced."""
    with project.read() as store:
        chosen = [*run_ids, *(_runs_of_suite(store.con, suite) if suite is not None else ())]
        runs = [find_run(store.con, run_id) for run_id in dict.fromkeys(chosen)]
        if not runs:
            raise UsageError("nothing to export: name a run, or --suite NAME")
        export = Export(store, runs, target)
        if wanted == MLFLOW:
            files = _mlflow.log_runs(export)
        else:
            files = [
                str(path)
                for name, write in _WRITING[wanted].files(export)
                for path in _write_all(Path(target), {name: write}, project.settings, force=force)
            ]
    return Exported([run.run_id for run in runs], files, export.said())


def _runs_of_suite(con: Connection, suite: str) -> list[str]:
    rows = con.execute(
        "select run_id from ledger.runs_in_order where suite = ? order by ordered_at, run_id", [suite]
    ).fetchall()
    if not rows:
        raise UnknownName("suite", suite, suite_names(con))
    return [run_id for (run_id,) in rows]
