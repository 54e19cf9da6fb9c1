"""The house has floors: whoever looks for the room of a change can trust what a folder's name promises."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "eval_pipeline"
GROUND = {"errors", "settings", "records", "words"}
# What each part may import beside itself and the ground floor.
MAY_IMPORT = {
    "metrics": set(),
    "stats": set(),
    "report": {"pipeline"},
    "formulas": {"metrics"},
    "ingest": {"metrics"},
    "store": {"formulas", "ingest"},
    "pipeline": {"formulas", "ingest", "metrics", "report", "stats", "store"},
    "demo": {"formulas", "pipeline", "store"},
    "defs": {"formulas", "pipeline", "report", "store"},
    "definitions": {"defs"},
    "launch": {"definitions", "defs", "formulas", "pipeline", "store"},
    "api": {"formulas", "pipeline", "report", "store"},
    "cli": {"demo", "formulas", "launch", "pipeline", "report"},
    "__main__": {"cli"},
    "__init__": {"api"},
}
ONLY_IN = {
    "duckdb": {"store"},
    "dagster": {"defs", "definitions", "launch"},
    "dagster_duckdb": {"defs"},
    "click": {"cli"},
    "rich": {"cli"},
    "altair": {"report"},
    "vl_convert": {"report"},
}


def modules() -> Iterator[tuple[str, Path]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        yield path.relative_to(PACKAGE).parts[0].removesuffix(".py"), path


def imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module == "eval_pipeline":
            yield from (f"eval_pipeline.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def wrong_imports(part: str, source: str) -> list[str]:
    allowed = GROUND | MAY_IMPORT.get(part, set()) | {part}
    found = []
    for name in imported(ast.parse(source)):
        first, *rest = name.split(".")
        if first == "eval_pipeline" and rest and rest[0] not in allowed:
            found.append(name)
        if part not in ONLY_IN.get(first, {part}):
            found.append(name)
    return found


def test_every_part_imports_only_what_lies_below_it():
    parts = list(modules())
    assert len({part for part, _ in parts}) > 10
    wrong = {
        str(path.relative_to(ROOT)): names
        for part, path in parts
        if (names := wrong_imports(part, path.read_text("utf-8")))
    }
    assert wrong == {}


def test_no_part_stands_outside_of_the_rules():
    assert {part for part, _ in modules()} == {*MAY_IMPORT, *GROUND}


@pytest.mark.parametrize(
    ("part", "source", "names"),
    [
        ("stats", "from eval_pipeline.store.connect import open_reader", ["eval_pipeline.store.connect"]),
        ("pipeline", "def f():\n    import dagster as dg", ["dagster"]),
        ("cli", "from eval_pipeline import defs", ["eval_pipeline.defs"]),
        ("pipeline", "import duckdb", ["duckdb"]),
        ("pipeline", "from eval_pipeline.store.connect import open_reader", []),
    ],
)
def test_the_rule_sees_an_import_wherever_it_hides(part, source, names):
    assert wrong_imports(part, source) == names


def test_the_linter_says_where_the_thing_belongs(tmp_path):
    offender = PACKAGE / "pipeline" / "offender.py"
    for module, words in (("duckdb", "function of the store"), ("dagster", "eval_pipeline/defs")):
        said = subprocess.run(
            [
                Path(sys.executable).with_name("ruff"),
                *("check", "--no-cache", "--output-format", "concise", "--stdin-filename", offender, "-"),
            ],
            cwd=ROOT,
            input=f"import {module}\n\nprint({module})\n",
            capture_output=True,
            text=True,
        )
        assert said.returncode == 1, said
        assert "TID251" in said.stdout
        assert words in said.stdout


HEAVY = ("dagster", "altair", "polars", "duckdb", "numpy", "pyarrow")


@pytest.mark.parametrize(
    ("words", "light"),
    [
        (["--help"], HEAVY),
        (["show", "--help"], HEAVY),
        (["show", "some-run"], ("dagster", "altair", "polars", "numpy", "pyarrow")),
        (["status"], ("dagster", "altair")),
        (["compare", "a", "b"], ("dagster", "altair")),
    ],
)
def test_quick_commands_do_not_pay_for_heavy_libraries(tmp_path, words, light):
    code = (
        "import sys\n"
        "from eval_pipeline.cli.main import main\n"
        "try:\n    main(sys.argv[1:])\n"
        "except SystemExit:\n    pass\n"
        f"print('LOADED', *(name for name in {light!r} if name in sys.modules))\n"
    )
    said = subprocess.run(
        [sys.executable, "-c", code, *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)},
    )
    assert said.stdout.splitlines()[-1] == "LOADED", (said.stdout, said.stderr)
