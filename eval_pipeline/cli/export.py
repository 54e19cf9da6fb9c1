"""eval-pipeline export"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from eval_pipeline.cli.options import RUN_ID, as_json, choosing, with_store
from eval_pipeline.cli.output import print_json, print_line, say
from eval_pipeline.errors import UsageError

if TYPE_CHECKING:
    from eval_pipeline.planning.named_runs import Chosen
    from eval_pipeline.store.project import Project

FORMATS = ("json", "parquet", "trec", "beir", "ragas", "otlp", "mlflow")


@click.command("export")
@click.argument("run_ids", nargs=-1, type=RUN_ID, metavar="RUN_ID…")
@click.option(
    "--to",
    "target",
    required=True,
    metavar="DIR",
    help="Where to write; made when it is not there, and files of an earlier export are replaced. For mlflow also the "
    "address of a tracking server.",
)
@click.option("--format", "wanted", type=click.Choice(FORMATS), default="json", help="In which form.  [json]")
@click.option("--force", is_flag=True, help="Also replace JSON files that this program did not write.")
@choosing
@with_store
@as_json
def command(
    run_ids: tuple[str, ...],
    target: str,
    wanted: str,
    force: bool,
    chosen: Chosen,
    project: Project,
    as_json: bool,
) -> None:
    """Write runs to files: their numbers, or what they retrieved and answered for other tools.

    RUN_ID may be @latest, @previous or @baseline; without one, --suite NAME is every run of that suite.

    \b
    json     metrics.json        what `show RUN_ID --json` prints
             config.json         the configuration the run was made with
             eval-results.json   every extraction case, their aggregate, and the version of formulas
             per_query.parquet   a row per query, a column per metric, unrounded
             judge_inputs.jsonl  per query what its judge was given, to judge again
             Of several runs, or a suite, each has a folder of its own.
    parquet  per_query.parquet of all the runs
    trec     a run file each, and qrels
    beir     corpus, queries and qrels of each dataset, and a file of scores each
    ragas    a dataset of single turns each
    otlp     traces with gen_ai.evaluation.result events
    mlflow   runs on a tracking server, or in a database below DIR

    What a form cannot carry of these runs is said beside them.
    """
    from eval_pipeline.planning.named_runs import find_named

    suite = None if run_ids else chosen.suite
    if run_ids:
        run_ids = tuple(find_named(project, list(run_ids), chosen))
    if len(run_ids) == 1 and wanted == "json":
        _export_documents(project, run_ids[0], Path(target), force=force, as_json=as_json)
        return
    from eval_pipeline.exporting.formats import export_runs

    if not run_ids and suite is None:
        raise UsageError("export needs a RUN_ID, or --suite NAME; `eval-pipeline runs` names the runs")
    found = export_runs(project, run_ids, wanted, target, suite=suite, force=force)
    if as_json:
        print_json({"format": 1, "run_ids": found.run_ids, "files": found.files, "remarks": found.remarks})
        return
    for remark in found.remarks:
        say(remark)
    for file in found.files:
        print_line(file)


def _export_documents(project: Project, run_id: str, folder: Path, *, force: bool, as_json: bool) -> None:
    from eval_pipeline.exporting.documents import export_run

    paths = export_run(project, run_id, folder, force=force)
    if as_json:
        print_json({"format": 1, "run_id": run_id, "files": [str(path) for path in paths]})
        return
    for path in paths:
        print_line(str(path))
