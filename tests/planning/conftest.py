"""A small evaluation that tests change: two datasets, five runs, and an own folder of definitions laid over the shipped."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.comparing.pair_states import PAIR_FACTS
from eval_pipeline.comparing.pairs import PAIRS
from eval_pipeline.computing.ledger import NEW_DATA_REASONS
from eval_pipeline.computing.measure import Measured, measure
from eval_pipeline.formulas.registry import Registry, load_registry
from eval_pipeline.loading.context import LoadReport
from eval_pipeline.loading.load import load_bundles
from eval_pipeline.planning.plan import find_plan
from eval_pipeline.settings import Settings, load_settings, shipped_sql
from tests.few_definitions import shipping, write_few
from tests.made_once import made_once
from tests.projects import project_of

FEW = (
    *PAIR_FACTS,
    "metrics.hit_at_k",
    "metrics.reciprocal_rank",
    "metrics.recall_at_k_doc",
    "aggregates.run_metrics",
)
DATASETS = ("alpha", "beta")
FIRST_DAY = dt.datetime(2026, 10, 1, 12)


@dataclass
class World:
    """One store with the bundle and the definitions it is fed from."""

    folder: Path
    day: int = 0
    datasets: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    shipped: Path = field(default_factory=shipped_sql)
    registries: dict[tuple[tuple[Path, bytes], ...], Registry] = field(default_factory=dict)

    @property
    def bundle(self) -> Path:
        return self.folder / "bundle"

    @property
    def own_sql(self) -> Path:
        path = self.folder / "sql"
        path.mkdir(exist_ok=True)
        return path

    @property
    def settings(self) -> Settings:
        (self.folder / "eval-pipeline.toml").touch()
        return load_settings(
            {
                "EVAL_PIPELINE_DB": str(self.folder / "store" / "e.duckdb"),
                "EVAL_PIPELINE_CONFIG": str(self.folder / "eval-pipeline.toml"),
                "EVAL_PIPELINE_SQL": str(self.own_sql),
            }
        )

    @property
    def registry(self) -> Registry:
        """Read anew whenever a definition or the configuration has changed; copies of a world share what was read."""
        settings = self.settings
        paths = [*sorted(self.own_sql.rglob("*.*")), settings.config]
        files = tuple((path, path.read_bytes()) for path in paths if path.is_file())
        if files not in self.registries:
            with shipping(self.shipped) if self.shipped != shipped_sql() else nullcontext():
                self.registries[files] = load_registry(settings)
        return self.registries[files]

    def tomorrow(self) -> dt.datetime:
        self.day += 1
        return FIRST_DAY + dt.timedelta(days=self.day - 1)

    def deliver(self) -> LoadReport:
        return load_bundles([self.bundle], project_of(self.settings, now=self.tomorrow()))

    def compute(self, *, everything: bool = False, note: str | None = None, **named: Any) -> Measured:
        reasons = None if everything else NEW_DATA_REASONS
        return measure(
            project_of(self.settings, self.registry, now=self.tomorrow()), reasons=reasons, note=note, **named
        )

    def plan(self) -> dict[str, dict[str, int]]:
        """definition → reason → cells, of every table of runs that is stale or missing."""
        return {
            asset["name"]: asset["reasons"]
            for asset in find_plan(project_of(self.settings, self.registry))["assets"]
            if asset["name"] != PAIRS
        }

    def write_golden(self, dataset: str, rows: list[dict[str, Any]]) -> None:
        self.datasets[dataset] = rows
        path = self.bundle / "datasets" / dataset / "queries.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")

    def write_run(self, run_id: str, dataset: str, hits: dict[str, list[str]], **run: Any) -> None:
        folder = self.bundle / "runs" / run_id
        folder.mkdir(parents=True, exist_ok=True)
        lines = [
            json.dumps({"query_id": query, "hits_top_k": found, "answer": {"text": "yes", "grounded": True}})
            for query, found in hits.items()
        ]
        (folder / "results.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
        (folder / "run.json").write_text(json.dumps({"run_id": run_id, "dataset": dataset, **run}), "utf-8")

    def write_archive(self, dataset: str, version: str, chunks: list[str]) -> None:
        path = self.bundle / "datasets" / dataset / "inventories" / f"{version}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = [{"chunk_id": c, "doc_id": c[0], "source_spans": [{"start": 0, "end": 9}]} for c in chunks]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")

    def overlay(self, relative: str, *changes: tuple[str, str]) -> None:
        """Lay a changed copy of a shipped definition over it."""
        text = (shipped_sql() / relative).read_text("utf-8")
        for old, new in changes:
            assert old in text, f"{relative} does not contain {old!r}"
            text = text.replace(old, new)
        name = Path(relative).stem
        target = self.own_sql / relative
        target.parent.mkdir(parents=True, exist_ok=True)
        replaces = "" if relative.startswith("functions/") else f"-- replaces: {name}\n"
        target.write_text(replaces + text, "utf-8")

    def own(self, relative: str, text: str) -> None:
        target = self.own_sql / relative
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8")


@pytest.fixture
def world(tmp_path: Path, computed_world: World) -> World:
    """A copy of its own for every test; computing it once is enough."""
    return copy_of(computed_world, tmp_path)


def copy_of(made: World, folder: Path) -> World:
    """The same store, bundle and definitions in another folder."""
    shutil.copytree(made.folder, folder, dirs_exist_ok=True)
    return replace(made, folder=folder, datasets=dict(made.datasets))


@pytest.fixture(scope="session")
def computed_world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return as_filled(made_once(tmp_path_factory, "world", lambda folder: fill(World(folder))), shipped_sql())


@pytest.fixture(scope="session")
def small_computed_world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """The same with a few formulas, for tests that look at no others."""
    few = made_once(tmp_path_factory, "few", lambda folder: write_few(folder / "sql", *FEW))
    shipped = few / "sql"
    world = made_once(tmp_path_factory, "small-world", lambda folder: fill(World(folder, shipped=shipped)))
    return as_filled(world, shipped)


@pytest.fixture
def small_world(tmp_path: Path, small_computed_world: World) -> World:
    """A copy of its own for every test."""
    return copy_of(small_computed_world, tmp_path)


def as_filled(folder: Path, shipped: Path) -> World:
    """What `fill` left in the folder."""
    return World(folder, day=2, datasets={dataset: golden_rows() for dataset in DATASETS}, shipped=shipped)


def golden_rows() -> list[dict[str, Any]]:
    return [
        {
            "query_id": f"q{number}",
            "expected_chunk_ids": [f"a{number}", f"b{number}"],
            "expected_doc_ids": [f"a{number}"],
            "ground_truth_spans": [{"doc_id": "a", "start": 0, "end": 10}],
            "must_contain": ["yes"],
            "category": "factual" if number % 2 else "reasoning",
        }
        for number in range(6)
    ]


def fill(made: World) -> None:
    """Delivered on the first day and computed for the first time on the second."""
    for dataset in DATASETS:
        made.write_golden(dataset, golden_rows())
        made.write_archive(dataset, "v1", ["a0", "a1", "b0"])
    for place, (run_id, dataset) in enumerate(
        [
            ("alpha-1", "alpha"),
            ("alpha-2", "alpha"),
            ("alpha-3", "alpha"),
            ("beta-1", "beta"),
            ("beta-2", "beta"),
        ]
    ):
        hits = {f"q{n}": [f"x{i}" for i in range((n + place) % 5)] + [f"a{n}", f"b{n}"] for n in range(6)}
        made.write_run(run_id, dataset, hits, created_at=f"2026-09-{place + 1:02d}T02:00:00Z")
    made.deliver()
    made.compute()
