"""Small bundles written, loaded and measured, as the tests of this folder need them."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from eval_pipeline.computing.measure import measure
from eval_pipeline.documents import as_json
from eval_pipeline.formulas.registry import Registry, load_registry
from eval_pipeline.loading.context import LoadReport
from eval_pipeline.loading.load import load_bundles
from eval_pipeline.settings import Settings, load_settings
from eval_pipeline.showing.show import show_run
from tests.projects import project_of

Row = dict[str, Any]
NOW = dt.datetime(2026, 3, 1, 12)
DATASET = "shop"
# Scoring queries by one formula instead of by all saves most of the time where the formulas do not matter.
ONE_FORMULA = f'[datasets.{DATASET}]\nformulas = ["empty_results"]\n'
SUMMARIES = frozenset(
    f"aggregates.{name}"
    for name in (
        "latency_summary",
        "judge_summary",
        "extraction_summary",
        "field_accuracy",
        "indexing_summary",
    )
)
BLOCKS = (
    "performance",
    "judge_coverage",
    "judge_reliability",
    "judge_config_problems",
    "extraction",
    "indexing",
)


def settings_in(folder: Path, config: str = "") -> Settings:
    """A store of its own, with this eval-pipeline.toml."""
    toml = folder / "eval-pipeline.toml"
    toml.write_text(config, "utf-8")
    (folder / "no formulas").mkdir(exist_ok=True)
    environ = {"EVAL_PIPELINE_CONFIG": str(toml), "EVAL_PIPELINE_SQL": str(folder / "no formulas")}
    return load_settings(environ, db=folder / "eval.duckdb")


def write_golden(folder: Path, query_ids: Iterable[str] = (), *, dataset: str = DATASET) -> None:
    write_lines(
        folder / "datasets" / dataset / "queries.jsonl", [{"query_id": query_id} for query_id in query_ids]
    )


def write_run(
    folder: Path,
    run_id: str,
    *,
    results: Sequence[Row] | None = None,
    extractions: Sequence[Row] | None = None,
    index_report: Any = None,
    spot_checks: Sequence[Row] | None = None,
    **run: Any,
) -> None:
    """The parts that are given, and run.json with whatever else is given."""
    place = folder / "runs" / run_id
    for name, rows in (
        ("results", results),
        ("extractions", extractions),
        ("judge_spot_check", spot_checks),
    ):
        if rows is not None:
            write_lines(place / f"{name}.jsonl", rows)
    if index_report is not None:
        write_text(place / "index_report.json", json.dumps(index_report))
    write_text(place / "run.json", json.dumps({"run_id": run_id, "dataset": DATASET, **run}))


def write_lines(path: Path, rows: Iterable[Any]) -> None:
    write_text(path, "".join(row if isinstance(row, str) else json.dumps(row) + "\n" for row in rows))


def write_text(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def taken_in(
    settings: Settings, *folders: Path, summaries: Collection[str] = SUMMARIES
) -> tuple[LoadReport, Registry]:
    """Load the bundles and compute the summaries."""
    registry = load_registry(settings)
    report = load_bundles(list(folders), project_of(settings, now=NOW))
    measure(project_of(settings, registry, now=NOW), definitions=summaries)
    return report, registry


def blocks_of(settings: Settings, registry: Registry, run_id: str) -> Mapping[str, Any]:
    """The run-level part of `show RUN_ID --json`, in its order."""
    document = as_json(show_run(project_of(settings, registry), run_id))
    return {name: value for name, value in document.items() if name in BLOCKS}
