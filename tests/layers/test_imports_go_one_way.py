"""The house has floors: whoever looks for the room of a change can trust what a folder's name promises."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "eval_pipeline"
# From the ground up. A room imports from the lines above its own, and on its line from those to its left.
# Rooms that are still to be built have their places already.
FLOORS = (
    ("errors", "settings", "records", "config", "words", "documents", "remote"),
    ("stats", "metrics"),
    ("bundle",),
    ("formulas",),
    ("adapters",),
    ("evaluating",),
    ("store",),
    ("loading",),
    ("computing",),
    ("showing",),
    ("exporting",),
    ("comparing",),
    ("labels",),
    ("planning",),
    ("upkeep",),
    ("report",),
    ("view",),
    ("api", "demo", "defs", "definitions", "launch", "serving", "cli", "__main__"),
)
ORDER = [room for floor in FLOORS for room in floor]
TO_BE_BUILT = {"labels"}
# The package itself shows a few functions of `api`, when they are asked for.
ABOVE_ALL = "__init__"
# Commands know Dagster by one door.
CLOSED = {("cli", "defs"), ("cli", "definitions")}
ONLY_IN = {
    "duckdb": {"store"},
    "dagster": {"defs", "definitions", "launch"},
    "dagster_duckdb": {"defs"},
    "click": {"cli"},
    "rich": {"cli"},
    "altair": {"report"},
    "vl_convert": {"report"},
    "aiohttp": {"evaluating"},
}


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def modules() -> Iterator[tuple[str, Path]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        yield room_of(path), path


def imported(tree: ast.AST) -> Iterator[str]:
    """Every name that is imported, with its module before it, wherever the import stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def may_import(room: str, other: str) -> bool:
    if room in {other, ABOVE_ALL}:
        return True
    return ORDER.index(other) < ORDER.index(room) and (room, other) not in CLOSED


def wrong_imports(room: str, source: str) -> list[str]:
    found = []
    for name in imported(ast.parse(source)):
        first, *rest = name.split(".")
        if first == "eval_pipeline" and rest:
            if not may_import(room, rest[0]):
                found.append(name)
            if rest[0] != room and any(part.startswith("_") and part != "__init__" for part in rest):
                found.append(name)
        if room not in ONLY_IN.get(first, {room}):
            found.append(name)
    return found


def imports_between_modules() -> dict[str, set[str]]:
    """Module → the modules of the package that it imports, but for those that only a type checker reads."""
    names = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for _, path in modules()}
    graph: dict[str, set[str]] = {}
    for module, path in names.items():
        tree = without_type_checking(ast.parse(path.read_text("utf-8")))
        graph[module] = {
            known for name in imported(tree) if (known := module_in(names, name)) and known != module
        }
    return graph


def without_type_checking(tree: ast.Module) -> ast.Module:
    kept = [
        node
        for node in tree.body
        if not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test))
    ]
    return ast.Module(kept, [])


def module_in(names: dict[str, Path], name: str) -> str | None:
    return next((known for known in (name, name.rpartition(".")[0]) if known in names), None)


def test_every_room_imports_only_what_lies_below_it_and_what_is_no_others_own():
    wrong = {
        str(path.relative_to(ROOT)): names
        for room, path in modules()
        if (names := wrong_imports(room, path.read_text("utf-8")))
    }
    assert wrong == {}


def test_no_room_stands_outside_of_the_order():
    assert {room for room, _ in modules()} == {*ORDER, ABOVE_ALL} - TO_BE_BUILT


def test_no_modules_import_one_another_in_a_circle():
    graph = imports_between_modules()
    assert sum(map(len, graph.values())) > 500
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" → ".join(error.args[1]))


@pytest.mark.parametrize(
    ("room", "source", "names"),
    [
        (
            "stats",
            "from eval_pipeline.store.open import open_reader",
            ["eval_pipeline.store.open.open_reader"],
        ),
        ("loading", "def f():\n    import dagster as dg", ["dagster"]),
        ("cli", "from eval_pipeline import defs", ["eval_pipeline.defs"]),
        ("loading", "import duckdb", ["duckdb"]),
        ("loading", "from eval_pipeline.store.open import open_reader", []),
        ("store", "from eval_pipeline.loading import load", ["eval_pipeline.loading.load"]),
        ("evaluating", "from eval_pipeline.store import open", ["eval_pipeline.store.open"]),
        ("metrics", "from eval_pipeline.stats import adjust", []),
        ("stats", "from eval_pipeline.metrics import spans", ["eval_pipeline.metrics.spans"]),
        ("loading", "from eval_pipeline.store.open import _own", ["eval_pipeline.store.open._own"]),
        ("loading", "from eval_pipeline.store._own import x", ["eval_pipeline.store._own.x"]),
    ],
)
def test_the_rule_sees_an_import_wherever_it_hides(room, source, names):
    assert wrong_imports(room, source) == names


def test_the_linter_says_where_the_thing_belongs(tmp_path):
    offender = PACKAGE / "loading" / "offender.py"
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


ASKING = "eval_pipeline.evaluating"
HEAVY = ("dagster", "altair", "polars", "duckdb", "numpy", "pyarrow", "aiohttp")


@pytest.mark.parametrize(
    ("words", "light"),
    [
        (["--help"], HEAVY),
        (["show", "--help"], HEAVY),
        (["metrics", "mrr"], HEAVY),
        (["show", "some-run"], ("dagster", "altair", "polars", "numpy", "pyarrow", "aiohttp")),
        (["status"], ("dagster", "altair", "polars", "numpy", "pyarrow", "aiohttp", ASKING)),
        (["plan"], ("dagster", "altair", "aiohttp", ASKING)),
        (["forget", "some-run"], ("dagster", "altair", "aiohttp", ASKING)),
        (["compare", "a", "b"], ("dagster", "altair", "aiohttp", ASKING)),
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
