"""What a room shows to the others: names without an underscore, listed where the room introduces itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "eval_pipeline"
MOST_MODULES = 18
MANY_FILES = {"cli", "adapters"}
MOST_LINES = 650
LONGEST_SENTENCE = 100
# Rooms list their modules, and the exceptions are drawn as a tree.
DRAWN_BELOW_THE_SENTENCE = {"__init__.py", "errors.py"}
# Formulas are found by their folder; the two pure rooms, the commands and the example show themselves otherwise.
INTRODUCED_OTHERWISE = {"cli", "demo", "metrics", "stats"}


def rooms() -> list[Path]:
    return sorted(
        path.parent
        for path in PACKAGE.rglob("__init__.py")
        if "polars" not in path.parts and path.parent != PACKAGE
    )


def public_modules(room: Path) -> list[str]:
    names = [path.stem for path in room.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()]
    return sorted(name for name in names if not name.startswith("_"))


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def introduced(room: Path) -> list[str]:
    """The first word of every line of the docstring below its sentence."""
    text = ast.get_docstring(parsed(room / "__init__.py")) or ""
    return [line.split()[0] for line in text.splitlines()[1:] if line]


@pytest.mark.parametrize(
    "room", [room for room in rooms() if room.name not in INTRODUCED_OTHERWISE], ids=lambda room: room.name
)
def test_a_room_introduces_each_of_its_modules_in_a_line(room):
    assert introduced(room) == public_modules(room)


def test_a_module_says_in_one_short_sentence_what_it_gives():
    told = {
        path: ast.get_docstring(parsed(path)) or ""
        for path in PACKAGE.rglob("*.py")
        if path.name not in DRAWN_BELOW_THE_SENTENCE
    }
    assert len(told) > 150
    assert [
        str(path) for path, text in told.items() if not 0 < len(text) <= LONGEST_SENTENCE or "\n" in text
    ] == []


def test_no_room_and_no_file_grows_beyond_what_one_can_look_over():
    crowded = {
        str(room.relative_to(ROOT)): n
        for room in rooms()
        if room.name not in MANY_FILES and (n := len([*room.glob("*.py")]) - 1) > MOST_MODULES
    }
    long = {
        str(path.relative_to(ROOT)): n
        for path in PACKAGE.rglob("*.py")
        if (n := len(path.read_text("utf-8").splitlines())) > MOST_LINES
    }
    assert (crowded, long) == ({}, {})


def is_private(name: str) -> bool:
    return any(part.startswith("_") and not part.startswith("__") for part in name.split("."))


def product_modules_in(tree: ast.Module) -> set[str]:
    """The names by which a file knows modules of the package."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("eval_pipeline"):
            found |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.asname for alias in node.names if alias.asname and "eval_pipeline" in alias.name}
    return found


def private_names_in(tree: ast.Module) -> Iterator[str]:
    """What a file imports from the package, takes from one of its modules or patches by name, and is a room's own."""
    known = product_modules_in(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("eval_pipeline"):
            yield from (name for one in node.names if is_private(name := f"{node.module}.{one.name}"))
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id in known and is_private(node.attr):
                yield f"{node.value.id}.{node.attr}"
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "setattr"
        ):
            texts = [one.value for one in node.args if isinstance(one, ast.Constant)]
            yield from (text for text in texts if isinstance(text, str) and is_private(text))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "import " in node.value:
            # A program for a process of its own.
            yield from private_names_in(program) if (program := as_program(node.value)) else ()


def as_program(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except SyntaxError:
        return None


def test_no_test_knows_what_is_private():
    """So that it can be changed without touching a test; limits are arguments or public names."""
    places = [path for folder in ("tests", "bench", "docs") for path in sorted((ROOT / folder).rglob("*.py"))]
    found = {str(path.relative_to(ROOT)): [*private_names_in(parsed(path))] for path in places}
    assert {place: names for place, names in found.items() if names and "layers" not in place} == {}


@pytest.mark.parametrize(
    "source",
    [
        "from eval_pipeline.store._own import x",
        "from eval_pipeline.store import open\nopen._own",
        "monkeypatch.setattr('eval_pipeline.store.open._own', 1)",
        "from eval_pipeline.store import open\nmonkeypatch.setattr(open, '_own', 1)",
        "PROGRAM = 'from eval_pipeline.store import open; open._own()'",
    ],
)
def test_the_rule_sees_a_private_name_wherever_it_hides(source):
    assert [*private_names_in(ast.parse(source))]
