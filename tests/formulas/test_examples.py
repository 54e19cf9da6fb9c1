"""The worked examples in the headers hold, every definition has some, and one that does not hold is reported."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import pytest

from eval_pipeline.computing.examples import ExampleResult, run_examples
from eval_pipeline.formulas.registry import load_registry
from eval_pipeline.settings import shipped_sql
from tests.bundle_files import day, settings_in
from tests.projects import project_of

HEADER = """\
-- keys: {n_found: "How many expected chunks were found"}
-- version: 1
-- parameters: {at_least: 0}
-- why: docs/decisions.md#ax-3
-- examples:
"""
BODY = """\
select
    run_key,
    query_key,
    greatest(len(found_ranks), $at_least) as n_found
from facts.chunk_ranks
"""


def executed(folder: Path, only: Collection[str] | None = None, **settings: Path) -> list[ExampleResult]:
    return run_examples(project_of(replace(settings_in(folder), **settings), now=day(1)), only=only)


def of_own_formula(folder: Path, *examples: str) -> list[ExampleResult]:
    """The results of a formula of one's own with these examples."""
    path = folder / "sql" / "metrics" / "n_found.sql"
    path.parent.mkdir(parents=True)
    path.write_text(HEADER + "".join(f"--   - {line}\n" for line in examples) + BODY, "utf-8")
    return executed(folder, only=["n_found"], own_sql=folder / "sql")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[ExampleResult]:
    """Shipped formulas are computed as if they were somebody's own, of whom more is asked: one row, and a value."""
    folder = tmp_path_factory.mktemp("examples")
    own = folder / "sql" / "metrics"
    own.mkdir(parents=True)
    for path in (shipped_sql() / "metrics").glob("*.sql"):
        (own / path.name).write_text(f"-- replaces: {path.stem}\n{path.read_text('utf-8')}", "utf-8")
    return executed(folder, own_sql=folder / "sql")


def test_every_example_of_every_definition_and_helper_holds(results: list[ExampleResult]) -> None:
    assert [result for result in results if not result.ok] == []


def test_no_definition_of_facts_and_metrics_and_no_helper_is_without_examples(
    results: list[ExampleResult], tmp_path: Path
) -> None:
    registry = load_registry(settings_in(tmp_path))
    named = {one.name for one in registry if one.schema in ("facts", "metrics")}
    named |= {f"functions.{name}" for name in registry.helpers}
    assert named - {result.definition for result in results} == set()


def test_every_choice_of_a_parameter_of_a_fact_or_metric_is_the_default_or_shown_by_an_example(
    tmp_path: Path,
) -> None:
    registry = load_registry(settings_in(tmp_path))
    shown: set[tuple[str, str]] = set()
    offered: set[tuple[str, str]] = set()
    for one in registry:
        for example in one.header.examples:
            shown |= {(name, str(value)) for name, value in example.given.get("parameters", {}).items()}
        for name, choices in one.header.choices.items():
            offered |= {(name, str(value)) for value in choices if value != one.header.parameters[name]}
    assert {(name, value) for name, value in offered - shown if value != "whole number"} == set()


def test_an_example_that_does_not_hold_is_reported_with_what_came_out(tmp_path: Path) -> None:
    wrong = "{expected_chunk_ids: [a, b], hits: [x, b]} => {n_found: 2}"
    right = "{expected_chunk_ids: [a, b], hits: [a, b]} => {n_found: 2}"
    assert of_own_formula(tmp_path, wrong, right) == [
        ExampleResult("metrics.n_found", wrong, {"n_found": 2}, {"n_found": 1.0}, ok=False),
        ExampleResult("metrics.n_found", right, {"n_found": 2}, {"n_found": 2.0}, ok=True),
    ]


UNUSABLE = {
    "{hits: [a]} => {n_seen: 1}": "there is no column 'n_seen'",
    "{expected_chunks: [a]} => {n_found: 0}": "'expected_chunks' is no field",
    "{hits: [7]} => {n_found: 0}": "hits_top_k[0]: ",
    "{expected_chunk_ids: ['']} => {n_found: 0}": "expected_chunk_ids[0]: an id must not be empty",
    "{hits: [a], parameters: {floor: 1}} => {n_found: 1}": "no parameter named 'floor'",
    "{hits: [a], parameters: {at_least: x}} => {n_found: 1}": "expected something like 0",
    "[a] => {n_found: 1}": "what is given is a mapping",
    "{hits: [a]} => 1": "what is expected is a mapping",
}


def test_an_example_that_cannot_be_executed_says_why_and_the_others_still_run(tmp_path: Path) -> None:
    good = "{expected_chunk_ids: [a], hits: [a]} => {n_found: 1}"
    *bad, last = of_own_formula(tmp_path, *UNUSABLE, good)
    assert [result.ok for result in bad] == [False] * len(UNUSABLE)
    missing = [result for result in bad if UNUSABLE[result.line] not in str(result.problem)]
    assert missing == []
    assert last.ok


def test_an_example_can_ask_for_another_value_of_a_parameter(tmp_path: Path) -> None:
    (result,) = of_own_formula(tmp_path, "{hits: [], parameters: {at_least: 3}} => {n_found: 3}")
    assert result.ok


def test_null_stands_for_no_value_and_for_no_row_but_not_for_a_number(tmp_path: Path) -> None:
    (result,) = of_own_formula(tmp_path, "{hits: []} => {n_found: null}")
    assert (result.ok, result.got) == (False, {"n_found": 0.0})


def test_examples_speak_of_the_parameters_as_shipped_whatever_the_configuration_says(tmp_path: Path) -> None:
    (tmp_path / "eval-pipeline.toml").write_text("[formulas.reciprocal_rank]\ncutoff = 1\n", "utf-8")
    assert {result.ok for result in executed(tmp_path, only=["metrics.reciprocal_rank"])} == {True}


def test_a_helpers_example_that_does_not_hold_or_cannot_be_evaluated_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "sql" / "functions" / "doubled.sql"
    path.parent.mkdir(parents=True)
    path.write_text(
        "-- arguments: [x]\n-- examples:\n--   - doubled(2) => 5\n--   - doubled('two') => 4\n2 * x\n",
        "utf-8",
    )
    wrong, broken = executed(tmp_path, only=["doubled"], own_sql=tmp_path / "sql")
    assert (wrong.definition, wrong.got, wrong.ok, wrong.problem) == ("functions.doubled", 4, False, None)
    assert not broken.ok
    assert "two" in str(broken.problem)
