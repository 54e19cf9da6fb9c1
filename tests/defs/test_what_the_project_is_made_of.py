"""What the project was asked to consist of: its folders, its packages, its assets' resource."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest
from dagster_duckdb import DuckDBResource

from docs.build.pages import shipped_registry
from eval_pipeline.defs.resources import StoreResource

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


@pytest.mark.parametrize("name", ["dagster", "dagster-duckdb", "duckdb", "polars"])
def test_the_packages_that_were_asked_for_are_required_and_used(name: str) -> None:
    assert any(one.startswith(f"{name}>=") for one in PROJECT["dependencies"])
    assert name.replace("-", "_") in imported()


def imported() -> set[str]:
    """The packages that the product imports anywhere."""
    found: set[str] = set()
    for path in (ROOT / "eval_pipeline").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                found |= {one.name.partition(".")[0] for one in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found.add(node.module.partition(".")[0])
    return found


def test_the_resource_is_that_of_dagster_duckdb() -> None:
    assert issubclass(StoreResource, DuckDBResource)


def test_make_test_runs_pytest() -> None:
    recipe = (ROOT / "Makefile").read_text("utf-8").partition("\ntest:")[2].partition("\n\n")[0]
    assert "pytest" in recipe
    assert any(one.startswith("pytest>=") for one in PROJECT["optional-dependencies"]["dev"])


def test_the_top_level_holds_what_was_asked_for() -> None:
    folders = ("eval_pipeline", "dagster_home", "sql", "tests")
    assert [name for name in folders if not (ROOT / name).is_dir()] == []
    assert [name for name in ("pyproject.toml", "workspace.yaml") if not (ROOT / name).is_file()] == []


def test_the_sql_of_every_definition_lies_under_sql() -> None:
    in_sql = [one for one in shipped_registry() if not one.is_python]
    assert len(in_sql) > 30
    assert [one.name for one in in_sql if not one.path.is_relative_to(ROOT / "sql")] == []
