"""MLflow: runs with parameters, metrics and the table of an evaluation, logged to a tracking server."""

from __future__ import annotations

import importlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eval_pipeline.computing.history import run_file
from eval_pipeline.errors import UsageError
from eval_pipeline.exporting._form import Export, Page
from eval_pipeline.exporting._material import Answered, Asked, answered, asked
from eval_pipeline.exporting.documents import _per_query_numbers
from eval_pipeline.showing.page_rows import whole_values
from eval_pipeline.showing.scores import scored_configs
from eval_pipeline.store.runs import RunRow

TABLE = "eval_results_table.json"
RUN_TAG = "eval_pipeline.run_id"
DATASET_TAG = "eval_pipeline.dataset"
# What the service takes in one call, and of one value.
MOST_METRICS, MOST_PARAMETERS, LONGEST = 1000, 100, 6000
_NOT_IN_NAMES = re.compile(r"[^\w./ -]")
Table = dict[str, list[Any]]


def log_runs(export: Export) -> list[str]:
    """Each run below the experiment of its dataset; one that was logged before is logged over. Returns where."""
    mlflow, entities = _modules()
    uri = _tracking_uri(export.target)
    try:
        client = mlflow.MlflowClient(tracking_uri=uri)
        return [
            _log_run(export, run, questions, client, entities)
            for runs in export.datasets().values()
            for questions in [asked(export.store.con, runs[0])]
            for run in runs
        ]
    except mlflow.exceptions.MlflowException as error:
        raise UsageError(f"MLflow at {uri} did not take the run: {error}") from error


def _modules() -> tuple[Any, Any]:
    # It would tell its makers what it is used for.
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    try:
        return importlib.import_module("mlflow"), importlib.import_module("mlflow.entities")
    except ImportError as error:
        raise UsageError(
            "the form mlflow needs MLflow, which is not installed here: pip install 'eval-pipeline[mlflow]'"
        ) from error


def _tracking_uri(target: str) -> str:
    """The address of a server or a database; a folder holds a database of its own."""
    if re.match(r"[a-z][a-z0-9+-]+:", target) or target == "databricks":
        return target
    folder = Path(target).absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{target} cannot be written to: {error.strerror or error}") from error
    return f"sqlite:///{folder / 'mlflow.db'}"


def _log_run(export: Export, run: RunRow, questions: Mapping[str, Asked], client: Any, entities: Any) -> str:
    experiment = _experiment(export, run, client)
    found = client.search_runs([experiment], filter_string=f"tags.`{RUN_TAG}` = '{run.run_id}'")
    tags = {RUN_TAG: run.run_id, DATASET_TAG: run.dataset}
    logged = found[0] if found else client.create_run(experiment, run_name=run.run_id, tags=tags)
    own = logged.info.run_id
    at = logged.info.start_time
    metrics = [entities.Metric(name, value, at, 0) for name, value in sorted(_metrics(export, run).items())]
    given = _parameters(export, run).items()
    parameters = [entities.Param(name, text) for name, text in given if name not in logged.data.params]
    for start in range(0, len(metrics), MOST_METRICS):
        client.log_batch(own, metrics=metrics[start : start + MOST_METRICS])
    for start in range(0, len(parameters), MOST_PARAMETERS):
        client.log_batch(own, params=parameters[start : start + MOST_PARAMETERS])
    client.log_text(own, json.dumps(_table(export, run, questions), ensure_ascii=False), TABLE)
    client.set_terminated(own)
    return f"{experiment}/{own}"


def _experiment(export: Export, run: RunRow, client: Any) -> str:
    found = client.get_experiment_by_name(run.dataset)
    if found is not None:
        return str(found.experiment_id)
    is_folder = _tracking_uri(export.target) != export.target
    place = Path(export.target).absolute() / "artifacts" / run.dataset
    return str(client.create_experiment(run.dataset, artifact_location=place.as_uri() if is_folder else None))


def _metrics(export: Export, run: RunRow) -> dict[str, float]:
    """The run's aggregates, by names that MLflow takes."""
    values = whole_values(export.store.con, [run.run_key]).get(run.run_key, {})
    return {metric_name(name): value for name, (value, _) in values.items() if value is not None}


def metric_name(name: str) -> str:
    """`hit@5` is `hit_at_5`: MLflow's names have no @."""
    return _NOT_IN_NAMES.sub("_", name.replace("@", "_at_"))


def _parameters(export: Export, run: RunRow) -> dict[str, str]:
    con = export.store.con
    configs = scored_configs(con, {run.run_key: run_file(con, run)})
    return {name: text[:LONGEST] for name, text in _flat(configs[run.run_key], "").items()}


def _flat(value: Any, place: str) -> dict[str, str]:
    if isinstance(value, Mapping):
        found: dict[str, str] = {}
        for name, inner in value.items():
            found |= _flat(inner, metric_name(f"{place}.{name}" if place else str(name)))
        return found
    return {place: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}


def _table(export: Export, run: RunRow, questions: Mapping[str, Asked]) -> Table:
    """A row per query, as MLflow's own evaluations keep it."""
    numbers = _per_query_numbers(export.store, run)
    keys = list(next(iter(numbers.values()), {}))
    columns = ["query_id", "request", "response", "state", "execution_duration", "error", "expectations"]
    rows = [
        [*_row(one, questions.get(one.query_id)), *(numbers.get(one.query_id, {}).get(key) for key in keys)]
        for one in answered(export.store.con, run)
    ]
    return {"columns": [*columns, *(f"{key}/value" for key in keys)], "data": rows}


def _row(one: Answered, question: Asked | None) -> list[Any]:
    response = {
        "answer": one.answer,
        "citations": list(one.citations),
        "hits_top_k": [
            {"chunk_id": hit.chunk_id, "doc_id": hit.doc_id, "score": hit.score, "text": hit.text}
            for hit in one.hits
        ],
    }
    return [
        one.query_id,
        question.text if question else None,
        response,
        "ERROR" if one.error else "OK",
        one.total_ms,
        one.error,
        question.labels() if question else {},
    ]


PAGE = Page(
    title="MLflow runs",
    files=(
        (
            "(the tracking server)",
            "`--to` is its address, or a folder, which gets a database `mlflow.db` and `artifacts/`",
        ),
        (TABLE, "the run's artifact: a row per query, with `<metric>/value`"),
    ),
    carries=(
        "the configuration as parameters, secrets masked; the aggregates of the run as metrics (`hit@5` is `hit_at_5`)",
        "questions, answers with their citations, hits, total times, expected chunks and documents, and every number "
        "per query",
    ),
    cannot=(
        "slices, intervals and how many queries are behind an aggregate",
        "why a number is undefined; when it was null it stays null",
        "hits and words of a query that failed: loaded again it has no more than the fact; other times than the total",
    ),
    again="eval-pipeline load eval_results_table.json --dataset NAME --run-id RUN_ID",
    notes=(
        "Needs an extra: `pip install 'eval-pipeline[mlflow]'`. The experiment is named like the dataset, the run like "
        "the run; a second export writes over the first, whose parameters stay.",
    ),
)
