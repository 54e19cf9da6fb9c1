"""Small bundles written by hand, loaded and asked: what the tests of several folders share."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from eval_pipeline.computing.measure import measure
from eval_pipeline.formulas.registry import Registry
from eval_pipeline.loading.context import LoadOptions, LoadReport
from eval_pipeline.loading.load import load_bundles
from eval_pipeline.settings import Settings, load_settings
from tests.projects import open_reader, open_writer, project_of

Row = dict[str, Any]
FIRST_DAY = dt.datetime(2026, 9, 1)


def day(number: int) -> dt.datetime:
    """The time of a call: tests count days instead of looking at the clock."""
    return FIRST_DAY + dt.timedelta(days=number)


def settings_in(folder: Path, **environment: str) -> Settings:
    """A store of its own, without what the environment of the tests says."""
    settings = load_settings(environment, db=folder / "e.duckdb")
    return replace(settings, config=folder / "eval-pipeline.toml")


def write_lines(path: Path, rows: Iterable[Row | bytes | str]) -> Path:
    """JSON Lines; text and bytes go in as they are."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [
        row if isinstance(row, bytes) else row.encode() if isinstance(row, str) else json.dumps(row).encode()
        for row in rows
    ]
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


def write_golden(bundle: Path, rows: Iterable[Row], *, dataset: str = "kb") -> Path:
    return write_lines(bundle / "datasets" / dataset / "queries.jsonl", rows)


def write_archive(bundle: Path, version: str, rows: Iterable[Row], *, dataset: str | None = "kb") -> Path:
    folder = bundle / "datasets" / dataset if dataset else bundle
    return write_lines(folder / "inventories" / f"{version}.jsonl", rows)


def write_run(
    bundle: Path, run_id: str, results: Iterable[Row | bytes | str], *, dataset: str = "kb", **run: Any
) -> Path:
    folder = bundle / "runs" / run_id
    write_lines(folder / "results.jsonl", results)
    (folder / "run.json").write_text(json.dumps({"run_id": run_id, "dataset": dataset, **run}), "utf-8")
    return folder


def hits(*chunk_ids: str) -> list[Row]:
    """Hits whose document is named like the part of the chunk's name before the slash."""
    return [{"chunk_id": chunk_id, "doc_id": chunk_id.split("/")[0]} for chunk_id in chunk_ids]


def load(settings: Settings, *paths: Path, on: int = 1) -> LoadReport:
    """Into a store that may not be there yet: a copy of an empty one is made sooner. Golden sets may lose queries."""
    if not settings.db.exists():
        settings.db.parent.mkdir(parents=True, exist_ok=True)
        settings.db.write_bytes(_empty_store())
    options = LoadOptions(replace_labels=True)
    return load_bundles(list(paths), project_of(settings, now=day(on)), options=options)


@cache
def _empty_store() -> bytes:
    with TemporaryDirectory() as folder:
        db = Path(folder) / "empty.duckdb"
        with open_writer(db):
            pass
        return db.read_bytes()


def compute(settings: Settings, registry: Registry | None = None, *, on: int = 2, **options: Any) -> Any:
    return measure(project_of(settings, registry, now=day(on)), **options)


def ask(settings: Settings, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
    with open_reader(settings.db) as con:
        return con.execute(sql, list(parameters)).fetchall()


def derived_tables(settings: Settings) -> dict[str, list[tuple[Any, ...]]]:
    """Every derived table's rows in an order that does not depend on when they were written."""
    with open_reader(settings.db) as con:
        names = con.execute(
            "select schema_name, table_name from duckdb_tables() "
            "where schema_name in ('facts', 'metrics', 'aggregates') order by all"
        ).fetchall()
        return {
            f"{schema}.{name}": sorted(con.execute(f'from {schema}."{name}"').fetchall(), key=repr)
            for schema, name in names
        }
