"""Small deliveries, and the shortest way of having them computed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from eval_pipeline.computing.measure import measure
from eval_pipeline.formulas.registry import load_registry
from eval_pipeline.loading.load import load_bundles
from eval_pipeline.settings import Settings
from tests.projects import project_of

GOLDEN = [
    {
        "query_id": "q1",
        "query": "one?",
        "expected_chunk_ids": ["a"],
        "expected_doc_ids": ["d1"],
        "tags": ["x"],
    },
    {"query_id": "q2", "query": "two?", "expected_chunk_ids": ["b"], "expected_doc_ids": ["d2"]},
]
CHANGED = "metrics.reciprocal_rank"
HITS = {"q1": ["a", "b"], "q2": ["a", "b"]}


def make_settings(folder: Path) -> Settings:
    """Everything of a project below one folder."""
    return Settings(
        db=folder / "eval.duckdb",
        inbox=folder / "inbox",
        reports=folder / "reports",
        config=folder / "eval-pipeline.toml",
        own_sql=None,
        dagster_home=folder / "dagster_home",
    )


def copied(settings: Settings, folder: Path) -> Settings:
    """The same project in another folder, for a test that changes it."""
    shutil.copytree(settings.db.parent, folder, dirs_exist_ok=True)
    return make_settings(folder)


def deliver_golden(root: Path, rows: list[dict[str, Any]] | None = None, dataset: str = "kb") -> Path:
    folder = root / "datasets" / dataset
    folder.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row) + "\n" for row in (GOLDEN if rows is None else rows))
    (folder / "queries.jsonl").write_text(text)
    return folder


def deliver_run(
    root: Path,
    run_id: str,
    *,
    day: int = 1,
    hits: dict[str, list[str]] | None = None,
    complete: bool = True,
    dataset: str = "kb",
) -> Path:
    folder = root / "runs" / run_id
    folder.mkdir(parents=True, exist_ok=True)
    lines = [
        json.dumps({"query_id": query, "hits_top_k": [{"chunk_id": c, "doc_id": "d" + c} for c in chunks]})
        for query, chunks in (HITS if hits is None else hits).items()
    ]
    (folder / "results.jsonl").write_text("\n".join(lines) + "\n")
    if complete:
        run = {"run_id": run_id, "dataset": dataset, "created_at": f"2026-09-{day:02}T02:00:00Z"}
        (folder / "run.json").write_text(json.dumps(run))
    return folder


def load(settings: Settings, folder: Path) -> None:
    load_bundles([folder], project_of(settings))


def compute(settings: Settings, *definitions: str) -> None:
    """Compute what is stale past Dagster: everything, or these definitions with what they read."""
    registry = load_registry(settings)
    measure(project_of(settings, registry), reasons=None, definitions=set(definitions) or None)


def change_a_formula(settings: Settings, cutoff: int = 2) -> None:
    """Give CHANGED another parameter: its own cells and the aggregates made of them are stale."""
    settings.config.write_text(f"[formulas.reciprocal_rank]\ncutoff = {cutoff}\n")
