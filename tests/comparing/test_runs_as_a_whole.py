"""What is measured over a run and not per query stands in a comparison, too."""

from __future__ import annotations

import pytest

from eval_pipeline.comparing.pair_states import PAIR_FACTS
from eval_pipeline.report.markdown import render_report_md
from eval_pipeline.showing.show import show_run
from tests.bundle_files import compute, write_lines
from tests.comparing.pairs_of_runs import answered, compared, copied, expecting_one, store_of
from tests.few_definitions import OF_EVERY_KIND
from tests.projects import project_of

SHIPS = OF_EVERY_KIND

COMPUTED = [
    *PAIR_FACTS,
    "aggregates.run_metrics:metrics.hit_at_k",
    "aggregates.extraction_summary",
    "aggregates.latency_summary",
]
CASES = 12
WRONG = 4
FIELDS = 5
QUERIES = 3


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    folder = tmp_path_factory.mktemp("as-a-whole")
    for run_id, wrong in (("run-a", 0), ("run-b", WRONG)):
        truth = {f"field-{number}": number for number in range(FIELDS)}
        write_lines(
            folder / "bundle" / "runs" / run_id / "extractions.jsonl",
            [
                {
                    "case_id": f"c{number:02}",
                    "ground_truth": truth,
                    "extracted": {**truth, "field-0": "odd"} if number < wrong else truth,
                }
                for number in range(CASES)
            ],
        )
    results = {
        run_id: {
            f"q{number:04}": answered(True, latency_ms={"total": milliseconds + number})
            for number in range(QUERIES)
        }
        for run_id, milliseconds in (("run-a", 100), ("run-b", 250))
    }
    return store_of(folder, expecting_one(QUERIES), results, definitions=COMPUTED)


def shown(settings, run_id):
    return show_run(project_of(settings), run_id)


def test_extraction_is_compared_although_no_query_moved(settings) -> None:
    document = compared(settings)
    assert document["counts"]["draw"] == QUERIES
    for name in ("macro", "micro"):
        entry = document["parts"][f"extraction.{name}_f1"]
        before, after = (shown(settings, run)["extraction"][name]["f1"] for run in ("run-a", "run-b"))
        assert (entry["a"], entry["b"]) == (before, after)
        assert entry["delta"] == pytest.approx(after - before, abs=1e-9) and entry["delta"] < 0
        assert entry["n"] == CASES
        assert entry["ci_low"] <= entry["delta"] <= entry["ci_high"]


def test_a_few_cases_lost_alike_are_no_proof(settings) -> None:
    entry = compared(settings)["parts"]["extraction.macro_f1"]
    assert entry["test"] == "imagined_moves"
    assert entry["ci_low"] < entry["ci_high"]
    assert (entry["p_value"] < 0.05) == (not entry["ci_low"] <= 0 <= entry["ci_high"])


def test_a_run_moves_in_nothing_against_itself(settings) -> None:
    parts = compared(settings, "run-a", "run-a")["parts"]
    for name in ("latency_mean_ms", "extraction.macro_f1", "extraction.micro_f1"):
        entry = parts[name]
        assert (entry["test"], entry["p_value"], entry["ci_low"], entry["ci_high"]) == ("identical", 1, 0, 0)


def test_latency_is_compared_and_not_tested(settings) -> None:
    entry = compared(settings)["parts"]["latency_p50_ms"]
    assert (entry["a"], entry["b"], entry["delta"]) == (101, 251, 150)
    assert "p_value" not in entry


def test_what_neither_run_has_is_left_out(settings) -> None:
    assert "no_chunks_generated_rate" not in compared(settings)["parts"]


def test_the_markdown_of_a_pull_request_shows_it(settings) -> None:
    text = render_report_md(compared(settings))
    assert "## Differences" in text
    assert "| latency_p50_ms |  | 101 | 251 | +150 |" in text


def test_latencies_measured_by_different_definitions_are_called_that(settings, tmp_path) -> None:
    changed = copied(settings, tmp_path)
    assert not [line for line in compared(changed)["warnings"] if "latency_summary" in line]
    changed.config.write_text('[formulas.latency_summary]\npercentile = "nearest"\n')
    compute(changed, run_ids=["run-b"], reasons=None)
    (warning,) = [line for line in compared(changed)["warnings"] if "latency_summary" in line]
    assert "definition" in warning
