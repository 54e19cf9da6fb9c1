"""What the page of requirements says of the product: every place, decision and test that it names is there."""

from __future__ import annotations

import ast
import importlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec
import pytest

from docs.build.pages import shipped_registry
from docs.build.requirements import Statement, read_requirements
from eval_pipeline import records
from eval_pipeline.cli.kb import PROGRAMS
from eval_pipeline.formulas.registry import Registry
from eval_pipeline.settings import utc_now
from eval_pipeline.store.open import open_in_memory

ROOT = Path(__file__).parents[2]
SYSTEMS, STATEMENTS = read_requirements(ROOT)
DECISIONS = (ROOT / "docs/decisions.md").read_text("utf-8")
KEPT = ROOT / "tests/documents/kept"
KEPT_AS = {
    "metrics.json": "show.json",
    "config.json": "export-config.json",
    "eval-results.json": "export-eval-results.json",
    "compare.json": "compare.json",
    "export": "export.json",
}
IN_DAGSTER = {
    "asset": "assets",
    "check": "checks",
    "job": "jobs",
    "sensor": "sensors",
    "schedule": "schedules",
}
PLACES = {
    "key",
    "parameter",
    "table",
    "command",
    "field",
    "document",
    "file",
    "function",
    *IN_DAGSTER,
}


@pytest.fixture(scope="module")
def registry() -> Registry:
    return shipped_registry()


def named(kind: str) -> Iterator[tuple[str, str]]:
    """Statement and name, for every place of a kind."""
    for one in STATEMENTS:
        for name in one.where.get(kind, []):
            yield one.id, name


def test_statements_are_numbered_within_their_system_without_gaps() -> None:
    assert [one.id for one in STATEMENTS] == [
        f"{system.letter}{number}" for system in SYSTEMS for number in range(1, count_of(system.letter) + 1)
    ]


def count_of(letter: str) -> int:
    return sum(one.id.startswith(letter) for one in STATEMENTS)


def test_every_statement_says_where_it_is_and_by_which_test_one_would_know() -> None:
    assert [one.id for one in STATEMENTS if not (one.says and one.where and one.test)] == []
    assert {kind for one in STATEMENTS for kind in one.where} <= PLACES


def test_every_test_that_is_named_exists() -> None:
    missing = [(one.id, test) for one in STATEMENTS for test in one.test if test not in known_tests(test)]
    assert missing == [], "name the test in docs/build/requirements.toml anew, and run `make docs`"


def known_tests(test: str) -> set[str]:
    """The tests in the file that a test is said to be in."""
    place = test.partition("::")[0]
    if not (ROOT / place).is_file():
        return set()
    module = ast.parse((ROOT / place).read_text("utf-8"))
    return {
        f"{place}::{one.name}"
        for one in module.body
        if isinstance(one, ast.FunctionDef) and one.name.startswith("test_")
    }


def test_every_decision_that_is_named_exists() -> None:
    known = set(re.findall(r'<a id="([^"]+)"></a>', DECISIONS))
    records_kept = {int(path.name[:4]) for path in (ROOT / "docs/adr").glob("0*.md")}
    missing = [
        (one.id, decision)
        for one in STATEMENTS
        for decision in one.decision
        if decision.lower().replace(".", "-") not in known
        and not (decision.startswith("ADR ") and int(decision[4:]) in records_kept)
    ]
    assert missing == []


def test_every_command_that_is_named_exists_with_its_options() -> None:
    assert [place for place in named("command") if not is_command(place[1].split())] == []


def is_command(words: list[str]) -> bool:
    options = {word for word in words if word.startswith("-")}
    program, *names = [word for word in words if word not in options]
    command: click.Command | None = PROGRAMS[program]
    for name in names:
        if not isinstance(command, click.Group):
            return False
        command = command.get_command(click.Context(command), name)
    known = {option for one in command.params for option in one.opts} if command else set()
    return command is not None and options <= known


def test_every_key_and_parameter_that_is_named_is_in_the_catalogue(registry: Registry) -> None:
    keys = {key for one in registry if one.schema == "metrics" for key in one.keys}
    parameters = {f"{one.short_name}.{name}" for one in registry for name in one.header.parameters}
    assert [place for place in named("key") if place[1] not in keys] == []
    assert [place for place in named("parameter") if place[1] not in parameters] == []


def test_every_table_view_and_column_that_is_named_exists(registry: Registry) -> None:
    with open_in_memory(utc_now) as con:
        rows = con.execute(
            "select if(schema_name = 'main', '', schema_name || '.') || table_name, column_name from duckdb_columns()"
        ).fetchall()
    known = {name for table, column in rows for name in (table, f"{table}.{column}")}
    known |= {name for one in registry for name in (one.name, *(f"{one.name}.{key}" for key in one.keys))}
    assert [place for place in named("table") if place[1] not in known] == []


def test_every_field_of_a_bundle_that_is_named_exists() -> None:
    known = {
        f"{kind.__name__}.{one.name}"
        for kind in vars(records).values()
        if isinstance(kind, type) and issubclass(kind, records.Record)
        for one in msgspec.structs.fields(kind)
    }
    assert [place for place in named("field") if place[1] not in known] == []


def test_every_function_that_is_named_can_be_imported() -> None:
    assert [place for place in named("function") if not can_be_imported(place[1])] == []


def can_be_imported(name: str) -> bool:
    module, _, attribute = name.rpartition(".")
    try:
        return hasattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError:
        return False


def test_every_file_that_is_named_exists() -> None:
    assert [place for place in named("file") if not (ROOT / place[1]).exists()] == []


def test_every_document_that_is_named_has_the_key() -> None:
    missing = []
    for statement, name in named("document"):
        file, _, key = name.partition(" ")
        if f'"{key}"' not in (KEPT / KEPT_AS[file]).read_text("utf-8").replace("/", '"'):
            missing.append((statement, name))
    assert missing == []


@pytest.mark.parametrize("kind", IN_DAGSTER)
def test_what_is_named_of_dagster_is_in_its_definitions(kind: str) -> None:
    definitions = json.loads((KEPT / "dagster.json").read_text("utf-8"))[IN_DAGSTER[kind]]
    known = {name.rpartition(": ")[2] for name in definitions}
    assert list(named(kind))
    assert [place for place in named(kind) if place[1] not in known] == []


def test_what_is_not_there_yet_is_few_and_counted_at_the_top() -> None:
    open_ones = [one for one in STATEMENTS if one.not_yet]
    top = (ROOT / "docs/requirements.md").read_text("utf-8").partition("\n## ")[0]
    assert f"Of {len(open_ones)} the row says plainly" in top
    assert set(re.findall(r"\[([A-Z]\d+)\]", top)) == {one.id for one in open_ones}
    assert len(open_ones) < len(STATEMENTS) / 20


def test_a_test_that_is_not_there_is_noticed() -> None:
    one = Statement(id="C1", says="x", where={}, test=["tests/metrics/test_chunks.py::test_nothing"])
    assert not set(one.test) & known_tests(one.test[0])
