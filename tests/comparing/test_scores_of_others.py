"""Scores of others in comparisons and gates: tested as any metric, and in nobody else's way."""

from __future__ import annotations

import numpy as np
import pytest

from eval_pipeline.comparing.compare import compare
from eval_pipeline.comparing.gate import gate
from eval_pipeline.comparing.pair_states import PAIR_FACTS
from eval_pipeline.planning.explain import explain_movement
from eval_pipeline.planning.preview import find_preview
from eval_pipeline.report.pages.collect import pair_page, run_page, suite_page
from eval_pipeline.stats import compare_paired
from tests.bundle_files import compute, hits, load, settings_in, write_golden, write_run
from tests.projects import project_of

NEEDED = [
    *PAIR_FACTS,
    "metrics.scores",
    "aggregates.run_metrics:metrics.scores",
    "aggregates.run_metrics:metrics.hit_at_k",
    "aggregates.run_metrics:metrics.reciprocal_rank",
]
N = 40
HOSTILE = "<script>alert('x')</script> \"'; drop table raw.runs; --"


def values(run):
    """Name → the score of every query; b is better in `passed`, worse in `cost`, and alike in `style`."""
    random = np.random.default_rng(7)
    style = np.round(random.uniform(0, 5, N), 2)
    moved = style + (random.normal(0, 0.3, N) if run == "b" else 0)
    return {
        "passed": [(number % 3 > 0) if run == "b" else (number % 3 == 0) for number in range(N)],
        "cost": [number / 10 + (3 if run == "b" else 0) for number in range(N)],
        "style": np.round(moved, 2).tolist(),
        HOSTILE: [1.5] * N,
    }


def write(folder, *, with_scores):
    write_golden(folder, [{"query_id": f"q{n}", "expected_chunk_ids": ["d/1"]} for n in range(N)])
    for run, day in (("a", 1), ("b", 2)):
        scores = values(run)
        rows = [
            {
                "query_id": f"q{n}",
                # Of the one run every third answer is found, of the other all are.
                "hits_top_k": hits("d/1" if run == "b" or n % 3 == 0 else "d/2"),
                **({"scores": {name: ones[n] for name, ones in scores.items()}} if with_scores else {}),
            }
            for n in range(N)
        ]
        said = {"scores": {"overall": 0.6}} if with_scores and run == "b" else {}
        write_run(
            folder, run, rows, created_at=f"2026-09-0{day}T00:00:00Z", config={"chunker_version": "c"}, **said
        )


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scored")
    write(folder / "bundle", with_scores=True)
    found = settings_in(folder)
    load(found, folder / "bundle")
    compute(found, definitions=NEEDED)
    return found


def configured(settings, text):
    settings.config.write_text(text)
    return project_of(settings)


@pytest.fixture(autouse=True)
def without_configuration(settings):
    yield
    settings.config.unlink(missing_ok=True)


def test_a_score_is_compared_query_by_query_with_an_interval(settings):
    tested = compare(project_of(settings), "a", "b").significance
    for name, scale in (("passed", "binary"), ("cost", "count"), ("style", "count")):
        a, b = (np.array(values(run)[name], float) for run in "ab")
        expected = compare_paired(a, b, scale=scale)
        one = tested[f"scores.{name}"]
        assert (one.n, one.family) == (N, f"scores.{name}")
        assert (one.delta, one.ci_low, one.ci_high) == pytest.approx(
            (expected.delta, expected.ci_low, expected.ci_high), abs=5e-5
        )


def test_a_range_says_how_far_a_query_can_move(settings):
    wide = compare(configured(settings, "[scores.style]\nrange = [0, 5]\n"), "a", "b").significance[
        "scores.style"
    ]
    a, b = (np.array(values(run)["style"]) for run in "ab")
    expected = compare_paired(a, b, scale="fraction", reach=5.0)
    assert (wide.ci_low, wide.ci_high) == pytest.approx((expected.ci_low, expected.ci_high), abs=5e-5)


def test_scores_move_no_p_value_of_another_metric(settings, tmp_path):
    write(tmp_path / "bundle", with_scores=False)
    without = settings_in(tmp_path)
    load(without, tmp_path / "bundle")
    compute(without, definitions=NEEDED)
    alone = compare(project_of(without), "a", "b").significance
    beside = compare(project_of(settings), "a", "b").significance
    assert alone["mrr"].p_adjusted is not None
    assert {key: beside[key] for key in alone} == alone


def test_a_gate_asks_about_scores_as_about_any_metric(settings):
    rules = (
        '[scores.cost]\ndirection = "lower"\n[gate]\ndefaults = false\n'
        '[[gate.rules]]\nmetric = "scores.passed"\n[[gate.rules]]\nmetric = "scores.cost"\nmargin = 0.5\n'
        '[[gate.rules]]\nmetric = "scores.overall"\nat_least = 0.5\n'
        '[[gate.rules]]\nmetric = "scores.nobody"\n'
    )
    report = gate(configured(settings, rules), "b", "a")
    assert {rule.metric: rule.verdict for rule in report.rules} == {
        "scores.passed": "pass",
        "scores.cost": "fail",
        "scores.overall": "pass",
        "scores.nobody": "inconclusive",
    }
    (nobody,) = [rule for rule in report.rules if rule.metric == "scores.nobody"]
    assert "neither run" in nobody.reason


def test_a_movement_of_a_score_is_the_systems(settings):
    report = explain_movement(project_of(settings), "scores.passed", ("a", "b"))
    a, b = (np.mean(values(run)["passed"]) for run in "ab")
    assert report.total == report.system == pytest.approx(b - a)


def test_a_preview_of_other_labels_names_the_scores_that_would_change(settings, tmp_path):
    write_golden(tmp_path / "bundle", [{"query_id": "q"}, {"query_id": "r"}])
    rows = [{"query_id": one, "scores": {"match": "C", "style": 1}} for one in "qr"]
    write_run(tmp_path / "bundle", "a", rows, scores={"overall": 1})
    own = settings_in(tmp_path)
    load(own, tmp_path / "bundle")
    compute(own, definitions=NEEDED)
    preview = find_preview(configured(own, "[scores.match]\nlabels = {C = 1}\n")).preview
    assert {key: one.newly_defined for key, one in preview.items() if key.startswith("scores.")} == {
        "scores.match": 2
    }


def test_pages_show_scores_and_take_their_names_for_text(settings):
    project = project_of(settings)
    pages = [
        run_page(project, "b"),
        pair_page(project, "a", "b"),
        suite_page(project),
    ]
    for page in pages:
        assert "scores.passed" in page
        assert "<script>alert" not in page
