"""A reading of one's own of what is measured over a whole run is shown beside the first."""

from __future__ import annotations

import pytest

from eval_pipeline.formulas.registry import load_registry
from eval_pipeline.pipeline.show import show_run
from tests.bundle_files import compute, load, settings_in, write_golden, write_lines, write_run

READINGS = """
[formulas.extraction_by_table]
reading_of = "extraction"
fn_policy = "table"

[formulas.latency_nearest]
reading_of = "latency_summary"
percentile = "nearest"
"""


@pytest.fixture(scope="module")
def document(tmp_path_factory):
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
    settings = settings_in(folder)
    load(settings, bundle)
    registry = load_registry(settings)
    compute(settings, registry)
    return show_run(settings, registry, "r")


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
