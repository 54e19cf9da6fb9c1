"""What every command works on is handed on as one value, and one place asks what time it is."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from eval_pipeline.store import project
from eval_pipeline.store.project import Project, Store

PACKAGE = Path(__file__).resolve().parents[2] / "eval_pipeline"
# What a project and an open store hold together.
HELD = {"con", "registry", "settings", "now", "notify", "definitions"}
# Makes the project out of them.
MAKER = ("store/project.py", "project_of")
MOST_LINES = 84
CLOCKS = {
    "time": {"time", "time_ns"},
    "datetime": {"now", "utcnow", "today"},
    "date": {"today"},
}


def sources() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        yield str(path.relative_to(PACKAGE)), ast.parse(path.read_text("utf-8"))


def dragged(tree: ast.AST) -> Iterator[tuple[str, set[str]]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            given = node.args
            names = {one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)} & HELD
            if len(names) > 1:
                yield node.name, names


def test_no_function_takes_apart_what_a_project_or_an_open_store_holds():
    found = {(place, name): names for place, tree in sources() for name, names in dragged(tree)}
    assert set(found) == {MAKER}


def test_a_project_can_read_and_write_its_store_and_nothing_else():
    methods = {name for name, one in vars(Project).items() if callable(one) and not name.startswith("_")}
    assert methods - {field.name for field in dataclasses.fields(Project)} == {"read", "write"}
    assert [field.name for field in dataclasses.fields(Project)] == [
        "settings",
        "definitions",
        "notify",
        "clock",
        "is_new",
    ]
    assert [field.name for field in dataclasses.fields(Store)] == ["con", "definitions", "clock"]
    assert len(Path(project.__file__).read_text("utf-8").splitlines()) <= MOST_LINES


def asks_the_clock(tree: ast.AST) -> bool:
    """Patience is measured by another clock, which is nobody's time of day."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == "utc_now":
            return True
        if isinstance(node, ast.Attribute):
            owner = getattr(node.value, "attr", None) or getattr(node.value, "id", None)
            if node.attr in CLOCKS.get(owner, ()):
                return True
    return False


def test_the_clock_is_asked_in_the_settings_and_for_the_project_alone():
    assert {place for place, tree in sources() if asks_the_clock(tree)} == {
        "settings.py",
        "store/project.py",
    }


@pytest.mark.parametrize(
    ("source", "is_asked"),
    [
        ("at = utc_now()", True),
        ("at = dt.datetime.now(dt.UTC)", True),
        ("at = datetime.now()", True),
        ("at = time.time()", True),
        ("until = time.monotonic() + 1", False),
        ("at = store.clock()", False),
        ("end = dt.time.max", False),
    ],
)
def test_the_rule_sees_the_clock_wherever_it_hides(source, is_asked):
    assert asks_the_clock(ast.parse(source)) is is_asked
