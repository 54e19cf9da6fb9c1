"""The product as Python functions."""

from __future__ import annotations

import json
import subprocess
import sys

import polars as pl
import pytest

import eval_pipeline
from eval_pipeline.errors import RefusedError, StoreMissing, UnknownName, UsageError
from tests.bundle_files import ask, compute
from tests.comparing.pairs_of_runs import answered, compared, copied, expecting_one, ranked, store_of


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    """The expected chunk ids belong to the chunker of run-a, and run-b has another one."""
    found = {f"q{number:04}": answered(number > 0) for number in range(4)}
    return store_of(
        tmp_path_factory.mktemp("functions"),
        expecting_one(4),
        {"run-a": {**found, "q0003": ranked("x/1", "x/2", "x/3", "doc/1")}, "run-b": found},
        config={"run-b": {"chunker_version": "v2"}},
    )


def documents(settings) -> dict[str, str]:
    return dict(ask(settings, "select run_id, aggregate_json from runs"))


@pytest.mark.needs_process
def test_importing_the_package_imports_nothing_heavy() -> None:
    code = (
        "import sys, eval_pipeline\n"
        "heavy = {'duckdb', 'polars', 'numpy', 'pyarrow', 'dagster', 'click', 'yaml'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
        "assert 'compare_runs' in dir(eval_pipeline)\n"
        "assert callable(eval_pipeline.compare_runs)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="compare_run"):
        eval_pipeline.compare_run  # noqa: B018


def test_compare_runs_gives_the_document_of_the_command_line(settings, monkeypatch) -> None:
    monkeypatch.setenv("EVAL_PIPELINE_DB", str(settings.db))
    report = eval_pipeline.compare_runs("run-a", "run-b")
    assert report == compared(settings)
    assert eval_pipeline.render_report_md(report).startswith("# run-b against run-a\n")
    read_back = json.loads(json.dumps(dict(report)))
    assert list(read_back) == list(report)
    assert eval_pipeline.render_report_md(read_back) == eval_pipeline.render_report_md(report)
    with pytest.raises(RefusedError):
        eval_pipeline.compare_runs("run-a", "run-b", strict_chunker_version=True)


def test_a_report_has_its_fields_by_name_and_by_key(settings) -> None:
    report = eval_pipeline.compare_runs("run-a", "run-b", db=settings.db)
    assert isinstance(report, eval_pipeline.CompareReport)
    assert report.deltas == report["deltas"] and report.deltas["chunker_version_match"] == "fallback_doc_span"
    name = "empty_result_rate"
    assert report.significance[name].n == report["significance"][name]["n"] == 4
    assert [entry.query_id for entry in report.per_query] == [one["query_id"] for one in report["per_query"]]


def test_an_aggregate_computed_again_is_byte_for_byte_what_is_stored(settings) -> None:
    stored = documents(settings)
    for run_id in ("run-a", "run-b"):
        aggregate = eval_pipeline.compute_aggregate(run_id, db=settings.db)
        assert json.dumps(aggregate, ensure_ascii=False) == stored[run_id]
    assert documents(settings) == stored


def test_the_aggregate_has_every_key_and_null_where_nothing_applies(settings) -> None:
    aggregate = eval_pipeline.compute_aggregate("run-a", db=settings.db)
    assert aggregate["hit_at_k"] == {"1": 0.5, "3": 0.5, "5": 0.75, "10": 0.75}
    assert aggregate["mrr"] == round((0 + 1 + 1 + 0.25) / 4, 4)
    assert list(aggregate) == [
        "hit_at_k",
        "mrr",
        "recall_at_k_doc",
        "citation_coverage",
        "groundedness",
        "empty_result_rate",
        "refusal_correctness",
        "total_queries",
        "failed_queries",
    ]
    assert (aggregate["citation_coverage"], aggregate["total_queries"]) == (None, 4)


def test_an_aggregate_is_computed_under_the_formulas_that_hold_now(settings, tmp_path, monkeypatch) -> None:
    copy = copied(settings, tmp_path)
    copy.config.write_text("[formulas.reciprocal_rank]\ncutoff = 3\n")
    monkeypatch.setenv("EVAL_PIPELINE_CONFIG", str(copy.config))
    before = documents(copy)
    aggregate = eval_pipeline.compute_aggregate("run-a", db=copy.db)
    assert aggregate["mrr"] == 0.5
    assert documents(copy) == before
    eval_pipeline.store_aggregate("run-a", aggregate, db=copy.db)
    after = documents(copy)
    assert json.loads(after["run-a"]) == aggregate
    assert after["run-b"] == before["run-b"]
    compute(copy, on=4, reasons=None, definitions=["aggregates.run_metrics"])
    assert json.loads(documents(copy)["run-a"])["mrr"] == 0.5


def test_what_is_stored_of_a_run_stands_in_eval_runs(settings, tmp_path) -> None:
    copy = copied(settings, tmp_path)
    aggregate = {**json.loads(documents(copy)["run-a"]), "mrr": 0.125}
    eval_pipeline.store_aggregate("run-a", aggregate, db=copy.db)
    found = dict(ask(copy, "select run_id, aggregate_json from eval_runs"))
    assert json.loads(found["run-a"]) == aggregate
    assert found["run-b"] == documents(settings)["run-b"]


def test_storing_the_same_aggregate_again_changes_nothing(settings, tmp_path) -> None:
    copy = copied(settings, tmp_path)
    before = documents(copy)
    eval_pipeline.store_aggregate("run-a", json.loads(before["run-a"]), db=copy.db)
    assert documents(copy) == before


def test_an_unknown_run_is_an_error_with_close_names_and_changes_nothing(settings) -> None:
    before = documents(settings)
    with pytest.raises(UnknownName, match="did you mean run-b or run-a"):
        eval_pipeline.store_aggregate("run-bb", {}, db=settings.db)
    with pytest.raises(UnknownName, match="run-bb"):
        eval_pipeline.compute_aggregate("run-bb", db=settings.db)
    assert documents(settings) == before


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"mrr": "x"}, "mrr is 'x', expected a finite number"),
        ({"zzz": 1}, "has 'zzz'; its keys are: hit_at_k"),
        ({"hit_at_k": {"1": 1}}, "hit_at_k lacks '10'"),
        ({"hit_at_k": None}, "hit_at_k is None, expected a mapping"),
        ({"total_queries": None}, "total_queries is None, expected a whole number"),
        ({"total_queries": True}, "total_queries is True, expected a whole number"),
    ],
)
def test_what_is_no_aggregate_is_refused_by_the_key_that_is_wrong(settings, change, words) -> None:
    before = documents(settings)
    with pytest.raises(UsageError, match=words):
        eval_pipeline.store_aggregate("run-a", {**json.loads(before["run-a"]), **change}, db=settings.db)
    with pytest.raises(UsageError, match="lacks 'citation_coverage'"):
        eval_pipeline.store_aggregate("run-a", {}, db=settings.db)
    assert documents(settings) == before


def test_an_aggregate_of_ones_own_is_stored_rounded_as_every_other(settings, tmp_path) -> None:
    copy = copied(settings, tmp_path)
    aggregate = json.loads(documents(copy)["run-a"])
    eval_pipeline.store_aggregate("run-a", {**aggregate, "mrr": 0.03125, "groundedness": -0.0}, db=copy.db)
    stored = documents(copy)["run-a"]
    assert (json.loads(stored)["mrr"], "-0.0" in stored) == (0.0312, False)


def test_an_aggregate_for_a_store_that_is_not_there_makes_none(tmp_path) -> None:
    with pytest.raises(StoreMissing):
        eval_pipeline.store_aggregate("run-a", {}, db=tmp_path / "none.duckdb")
    assert list(tmp_path.iterdir()) == []


def test_an_open_store_is_read_with_duckdb_and_polars(settings) -> None:
    with eval_pipeline.open_store(settings.db) as store:
        frame = store.sql("select run_id, mrr from (from runs), (select 1 as mrr) order by run_id").pl()
        rows = store.sql("from run_metrics where metric = 'empty_result_rate' and slice = ''").fetchall()
    assert isinstance(frame, pl.DataFrame) and frame["run_id"].to_list() == ["run-a", "run-b"]
    assert len(rows) == 2
