from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from eval_pipeline.demo import BUNDLE_FOLDER


@dataclass(frozen=True)
class Run:
    info: dict[str, Any]
    rows: dict[str, dict[str, Any]]
    parts: dict[str, Any]


def read_lines(path: Path) -> list[dict[str, Any]]:
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")
    return [json.loads(line) for line in text.splitlines()]


def read_run(folder: Path) -> Run:
    (results,) = folder.glob("results.jsonl*")
    parts = {path.name: read_lines(path) for path in folder.glob("*.jsonl") if path != results}
    parts["index_report.json"] = json.loads((folder / "index_report.json").read_text(encoding="utf-8"))
    info = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    return Run(info, {row["query_id"]: row for row in read_lines(results)}, parts)


@pytest.fixture(scope="module")
def runs() -> dict[str, Run]:
    found = [read_run(folder) for folder in (BUNDLE_FOLDER / "runs").iterdir()]
    return {run.info["run_id"]: run for run in sorted(found, key=lambda run: run.info["created_at"])}


@pytest.fixture(scope="module")
def golden() -> list[dict[str, Any]]:
    return yaml.safe_load((BUNDLE_FOLDER / "datasets/handbook/queries.yaml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def archives() -> dict[str, dict[str, dict[str, Any]]]:
    folder = BUNDLE_FOLDER / "datasets/handbook/inventories"
    return {
        path.stem: {row["chunk_id"]: row for row in read_lines(path)}
        for path in sorted(folder.glob("*.jsonl"))
    }
