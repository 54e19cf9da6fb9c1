"""A reading of one's own of what is measured over a whole run is shown beside the first."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from eval_pipeline.cli.main import cli
from eval_pipeline.showing.show import show_run
from tests.bundle_files import compute, load, settings_in, write_golden, write_lines, write_run
from tests.projects import project_of

READINGS = """
[formulas.extraction_by_table]
reading_of = "extraction"
fn_policy = "table"

[formulas.latency_nearest]
reading_of = "latency_summary"
percentile = "nearest"

[formulas.indexing_nearest]
reading_of = "indexing_summary"
percentile = "nearest"
"""
REPORT = {
    "docs": [{"doc_id": "d", "doc_type": "pdf"}, {"doc_id": "e", "doc_type": "html"}],
    "chunks": [
        {"doc_id": "d", "chunk_id": "d/1", "status": "embedded", "tokens": 10},
        {"doc_id": "e", "chunk_id": "e/1", "status": "embedded", "tokens": 20},
    ],
}


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    """A run with everything, and one whose extraction found nothing that is right."""
    folder = tmp_path_factory.mktemp("readings")
    (folder / "eval-pipeline.toml").write_text(READINGS, "utf-8")
    bundle = folder / "bundle"
    write_golden(bundle, [{"query_id": "q1"}, {"query_id": "q2"}])
    run = write_run(
        bundle, "r", [{"query_id": f"q{n}", "hits": [], "latency_ms": {"total": 10 * n}} for n in (1, 2)]
    )
    truth = {"a": 1, "b": 2, "c": 3, "d": 4}
    write_lines(
        run / "extractions.jsonl",
        [{"case_id": "c1", "ground_truth": truth, "extracted": {"a": 1, "b": 2, "c": 3, "d": "wrong"}}],
    )
    (run / "index_report.json").write_text(json.dumps(REPORT), "utf-8")
    wrong = write_run(bundle, "all-wrong", [{"query_id": "q1", "hits": []}])
    write_lines(
        wrong / "extractions.jsonl", [{"case_id": "c1", "ground_truth": truth, "extracted": {"e": 1}}]
    )
    settings = settings_in(folder)
    load(settings, bundle)
    compute(settings)
    return settings


@pytest.fixture(scope="module")
def document(settings):
    return show_run(project_of(settings), "r")


def test_percentiles_by_the_nearest_value_stand_beside_interpolated_ones(document) -> None:
    other = document["readings"]["latency_nearest"]
    assert other["reading_of"] == "latency_summary"
    assert document["performance"]["latency_ms"]["p50"] == 15
    assert other["values"]["total_p50_ms"] == 10


def test_extraction_by_the_other_policy_has_its_macro_f1(document) -> None:
    """One wrong value of four: by the headline a false positive and a false negative, by the table an error alone."""
    other = document["readings"]["extraction_by_table"]
    assert other["values"]["eval_count"] == 1
    assert other["values"]["macro_f1"] != document["extraction"]["macro"]["f1"]


def test_the_indexing_of_the_whole_run_is_shown_and_not_that_of_a_type_of_document(document) -> None:
    values = document["readings"]["indexing_nearest"]["values"]
    assert (values["docs_processed"], values["chunks_attempted"]) == (2, 2)
    assert values["tokens_p95"] == 20


def test_a_reading_that_comes_to_nothing_is_printed_as_zero(settings) -> None:
    printed = CliRunner().invoke(
        cli,
        ["show", "all-wrong", "--db", str(settings.db)],
        env={"EVAL_PIPELINE_CONFIG": str(settings.config), "EVAL_PIPELINE_SQL": ""},
    )
    assert printed.exit_code == 0, printed.output
    (line,) = [line for line in printed.stdout.splitlines() if "macro_f1" in line]
    assert line.split() == ["extraction_by_table", "extraction", "macro_f1", "0.0000"]
