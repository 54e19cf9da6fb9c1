"""What many questions have to agree on is said in one place: a view of the store, or a function."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "eval_pipeline"
SCHEMA = ROOT / "sql" / "schema" / "0009_rules.sql"

# How a statement looks that says the rule itself instead of asking the view. What marks a golden set as replaced is no
# question.
IN_WORDS = {
    "ledger.archives_in_force": r"raw\.archives\b.*\bdataset_key is null|\bdataset_key is null.*raw\.archives\b",
    "ledger.golden_sets_in_force": r"^(?!update ).*\bgolden_sets\b.*\bsuperseded_at is null",
    "ledger.runs_in_order": r"coalesce\((\w+\.)?created_at, (\w+\.)?first_loaded_at\)",
    "ledger.scored_results": r"coalesce\((\w+\.)?error, ''\) <> '' or",
}
FOUR_DECIMALS = re.compile(r"\.4f\b|\bround\([^\n]*, 4\)")


def statements() -> Iterator[tuple[str, str]]:
    """Every text of the package and every public view, on one line."""
    for path in sorted((ROOT / "sql" / "views").glob("*.sql")):
        yield path.name, " ".join(path.read_text("utf-8").split())
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            parts = node.values if isinstance(node, ast.JoinedStr) else [node]
            texts = [one.value for one in parts if isinstance(one, ast.Constant)]
            if texts and all(isinstance(text, str) for text in texts):
                yield str(path.relative_to(PACKAGE)), " ".join("".join(map(str, texts)).split())


@pytest.mark.parametrize("view", IN_WORDS)
def test_statements_ask_the_view_instead_of_saying_its_rule_again(view):
    said = " ".join(SCHEMA.read_text("utf-8").split())
    assert view in said
    found = list(statements())
    assert len(found) > 1000
    assert any(view in text for _, text in found), f"nobody asks {view}"
    assert sorted({place for place, text in found if re.search(IN_WORDS[view], text)}) == []


def test_rounding_to_what_is_stored_is_written_in_one_module():
    """The text of a formula is its fingerprint: the one in Polars keeps its own."""
    found = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if FOUR_DECIMALS.search(path.read_text("utf-8"))
    }
    assert found == {"formulas/polars/aggregates/exact.py"}


# A temporary table is a channel that any question in between can change: who makes it may name it, others are given
# a value that knows the name.
MADE = re.compile(r"\btemp table (?!as\b)(\w+)")
NAMED = r"\b(?:from|join|into|table|update|temp\.)\s*(?:temp\.)?{name}\b"


def made_by_name(path: Path) -> Iterator[str]:
    """The stems of the tables that a module makes under a name of their own."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "own_table":
            stem = node.args[1]
            assert isinstance(stem, ast.Constant), f"{path}: {ast.unparse(stem)}"
            yield str(stem.value)


def test_a_temporary_table_is_named_by_the_module_that_makes_it_alone():
    said = list(statements())
    makers: dict[str, set[str]] = {}
    for place, text in said:
        for name in MADE.findall(text):
            makers.setdefault(name, set()).add(place)
    for path in PACKAGE.rglob("*.py"):
        for stem in made_by_name(path):
            makers.setdefault(stem, set()).add(str(path.relative_to(PACKAGE)))
    assert {"cell_states", "recent_runs", "scoped_runs"} <= set(makers)
    named = {
        name: places | {place for place, text in said if re.search(NAMED.format(name=name), text)}
        for name, places in makers.items()
    }
    assert {name: places for name, places in named.items() if len(places) > 1} == {}
