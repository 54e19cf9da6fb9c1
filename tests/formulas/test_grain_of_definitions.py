"""What a definition's rows are about: found in its text, declared where names do not tell, and checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.computing.measure import measure
from eval_pipeline.errors import DefinitionError
from eval_pipeline.formulas.catalogue import describe, find_definition
from eval_pipeline.formulas.registry import Registry, load_registry
from eval_pipeline.formulas.tokens import selected_names
from eval_pipeline.loading.load import load_bundles
from eval_pipeline.planning.status import find_status
from eval_pipeline.settings import Settings, load_settings
from eval_pipeline.showing.query import ask
from eval_pipeline.showing.show import show_queries, show_run
from tests.computing.building import DATASET, NOW, write_golden, write_run, write_text
from tests.projects import project_of

PER_CASE = """-- keys: {size: "Characters of the ground truth"}
-- undefined: null where there is none
-- version: 1
select
    run_key,
    case_key,
    len(ground_truth) as size
from raw.extraction_cases
"""
SLOWEST = """-- keys: {slow: "Time of the query"}
-- aggregate: quantile(0.95)
select
    run_key,
    query_key,
    total_ms as slow
from raw.results
"""
PLAIN = """-- keys: {plain: "Always one"}
select
    run_key,
    query_key,
    1 as plain
from raw.results
"""
BY_TEXT = """-- keys: {n: "Cases with that error"}
-- grain: [run_key, error]
select
    run_key,
    error,
    count(*) as n
from raw.extraction_cases
group by run_key, error
"""


def own_settings(folder: Path, **files: str) -> Settings:
    for name, text in files.items():
        write_text(folder / "own" / f"{name.replace('__', '/')}.sql", text)
    if "metrics__plain" in files:
        write_text(folder / "eval-pipeline.toml", f'[datasets.{DATASET}]\nformulas = ["plain"]\n')
    (folder / "eval-pipeline.toml").touch()
    environ = {
        "EVAL_PIPELINE_SQL": str(folder / "own"),
        "EVAL_PIPELINE_CONFIG": str(folder / "eval-pipeline.toml"),
    }
    return load_settings(environ, db=folder / "eval.duckdb")


def computed(folder: Path, **files: str) -> tuple[Settings, Registry]:
    """A store with one run, and one's own definitions computed for it."""
    settings = own_settings(folder, **files)
    registry = load_registry(settings)
    write_golden(folder, ["q1"])
    cases: list[dict[str, Any]] = [
        {"case_id": "1", "ground_truth": {"a": 1}},
        {"case_id": "2", "error": "late"},
    ]
    write_run(folder, "run", results=[{"query_id": "q1", "latency_ms": {"total": 3}}], extractions=cases)
    load_bundles([folder], project_of(settings, now=NOW))
    own = {name.replace("__", ".") for name in files}
    if "metrics__case_size" in files:
        own.add("aggregates.run_metrics")
    measure(project_of(settings, registry, now=NOW), definitions=own)
    return settings, registry


def test_a_formula_about_cases_or_percentiles_stays_out_of_what_is_averaged_over_queries(
    tmp_path: Path,
) -> None:
    settings, registry = computed(
        tmp_path, metrics__case_size=PER_CASE, metrics__slowest=SLOWEST, metrics__plain=PLAIN
    )
    own = {"size", "slow", "plain"}
    document = show_run(project_of(settings, registry), "run")
    assert own & set(document["metrics"]) == {"plain"}
    assert own & set(next(show_queries(project_of(settings, registry), "run"))["metrics"]) == {"plain"}
    _, rows = ask(project_of(settings), "select distinct metric from per_query_metrics")
    assert own & {metric for (metric,) in rows} == {"plain"}
    _, rows = ask(project_of(settings), "select distinct metric from run_metrics")
    assert own & {metric for (metric,) in rows} == {"plain"}
    assert {"case_size", "slowest", "plain"} <= set(document["formulas"])
    _, rows = ask(project_of(settings), "select size from metrics.case_size order by case_key")
    assert rows == [[float(len('{"a": 1}'))], [None]]


def test_the_catalogue_knows_every_key_and_what_its_rows_are_about(tmp_path: Path) -> None:
    registry = load_registry(own_settings(tmp_path, metrics__case_size=PER_CASE))
    assert find_definition(registry, "size").name == "metrics.case_size"
    assert describe(registry, find_definition(registry, "size"))["grain"] == ["run_key", "case_key"]
    assert describe(registry, find_definition(registry, "precision"))["grain"] == ["run_key", "case_key"]
    assert describe(registry, registry.get("field_outcomes"))["grain"] == ["run_key", "case_key", "field"]


def test_a_text_column_can_be_what_a_row_is_about_when_the_header_says_so(tmp_path: Path) -> None:
    settings, _ = computed(tmp_path, aggregates__errors_by_text=BY_TEXT)
    _, rows = ask(
        project_of(settings), "select error, n from aggregates.errors_by_text order by error nulls first"
    )
    assert rows == [[None, 1], ["late", 1]]


def test_a_column_that_is_neither_key_nor_grain_is_refused(tmp_path: Path) -> None:
    undeclared = BY_TEXT.replace("-- grain: [run_key, error]\n", "")
    failed = find_status(project_of(*computed(tmp_path, aggregates__errors_by_text=undeclared)))["failed"]
    assert "'error' is no key of the header" in failed["aggregates.errors_by_text"]


def test_a_metric_whose_rows_are_not_what_its_text_says_is_refused(tmp_path: Path) -> None:
    hidden = PLAIN.replace(
        "    run_key,\n    query_key,\n    1 as plain", '    results.*\nexclude ("error")'
    ).replace(
        "raw.results", "(select run_key, query_key, '' as \"error\", 1 as plain from raw.results) as results"
    )
    failed = find_status(project_of(*computed(tmp_path, metrics__plain=hidden)))["failed"]
    assert "spell the columns out" in failed["metrics.plain"]


@pytest.mark.parametrize("grain", ["query_key", "[query_key, run_key]", "[]"])
def test_a_grain_starts_with_the_run(grain: str, tmp_path: Path) -> None:
    wrong = BY_TEXT.replace("[run_key, error]", grain)
    with pytest.raises(DefinitionError, match="starts with run_key"):
        load_registry(own_settings(tmp_path, aggregates__errors_by_text=wrong))


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("select a.run_key, b as query_key, count(*) as n from t", ["run_key", "query_key", "n"]),
        ("with x as (select run_key, no from t) select run_key from x", ["run_key"]),
        ('select run_key, [1, 2] as "ranks", from t', ["run_key", "ranks"]),
        ("select run_key, a is distinct from b as differs from t", ["run_key", "differs"]),
        ("select run_key, extract(year from day) as year from t", ["run_key", "year"]),
        ("select run_key from a union all select other_key from b", ["run_key"]),
        ("select run_key, -- query_key,\n 1 as one", ["run_key", "one"]),
    ],
)
def test_the_columns_of_the_outermost_select_are_read_from_its_text(sql: str, names: list[str]) -> None:
    assert selected_names(sql) == names
