"""Which texts a definition reads: exactly what it names, and everything where that cannot be told."""

from __future__ import annotations

from pathlib import Path

import pytest

from eval_pipeline.formulas.definition import Definition
from eval_pipeline.formulas.header import Header
from eval_pipeline.formulas.text_columns import TEXT_COLUMNS, read_here
from eval_pipeline.settings import shipped_sql

RESULTS = {f"raw.results.{column}" for column in TEXT_COLUMNS["raw.results"]}


def texts(sql, *, reads=("raw.results",), applies=None, is_python=False, taken=()):
    header = Header(keys={}, applies=applies)
    one = Definition("facts.some", header, sql, Path("some.sql"), reads, is_python=is_python, taken=taken)
    return read_here(one)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("select run_key, n_hits from raw.results", set()),
        ("select is_failed(results.error, results.timed_out) as e from raw.results as results", set()),
        ("select is_failed(error, timed_out) as e from raw.results", set()),
        ("select run_key from raw.results -- answer_text_key", set()),
        ("select run_key from raw.results where error = 'late'", {"raw.results.error"}),
        ("select is_failed(r.error, false), r.error from raw.results as r", {"raw.results.error"}),
        ('select "answer_text_key" from raw.results', {"raw.results.answer_text_key"}),
        ("select count(*), 2 * n_hits from raw.results group by all", set()),
        ("select * from raw.results", RESULTS),
        ("select r.* from raw.results as r", RESULTS),
        ("from raw.results", RESULTS),
        ("select to_json(r) from raw.results as r", RESULTS),
        ("select to_json(results) from raw.results", RESULTS),
        ("select columns('.*') from raw.results", RESULTS),
        ("with results as (select run_key from raw.results) select run_key from results", set()),
    ],
)
def test_a_column_counts_when_it_is_named_or_may_be_taken(sql, expected):
    assert texts(sql) == expected


def test_the_condition_of_a_formula_counts_too():
    assert texts("select run_key from raw.results", applies="error is null") == {"raw.results.error"}


def test_a_python_formula_reads_every_text_of_its_tables():
    assert texts("", reads=("raw.spot_checks", "facts.outcomes"), is_python=True) == {
        "raw.spot_checks.judge_scores_delivered"
    }


def test_a_python_formula_that_names_its_columns_reads_their_texts_alone():
    columns = (("run_key", "error", "n_hits"), ("run_key", "suite_time_ms"))
    named = texts("", reads=("raw.results", "raw.runs"), is_python=True, taken=columns)
    assert named == {"raw.results.error"}


def test_every_text_column_is_one_of_the_schema():
    schema = "\n".join(path.read_text("utf-8") for path in (shipped_sql() / "schema").glob("*.sql"))
    for table, columns in TEXT_COLUMNS.items():
        name = table.replace("raw.references", 'raw."references"')
        body = schema.split(f"create table {name} (", 1)[1].split(");", 1)[0]
        added = [f"alter table {name} add column {column} " in schema for column in columns]
        assert all(f"    {column} " in body or later for column, later in zip(columns, added, strict=True)), (
            table
        )
