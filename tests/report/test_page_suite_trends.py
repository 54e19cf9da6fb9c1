"""The nights of a suite: which attempt counts, what changed behind the values, what the gate would not let through."""

from __future__ import annotations

import datetime as dt
import shutil
from dataclasses import replace
from pathlib import Path

from eval_pipeline.comparing.pair_states import PAIR_FACTS
from eval_pipeline.computing.measure import measure
from eval_pipeline.formulas.registry import load_registry
from eval_pipeline.report.nights.trends import trends_of
from eval_pipeline.report.pages.collect import read_suites, with_shown_attempts
from eval_pipeline.report.pages.material import GateMark, MetricFacts, RunFacts, SuiteMaterial, SuiteRun
from eval_pipeline.report.pages.suite_page import render_suite_page
from eval_pipeline.settings import load_settings
from tests.comparing.pairs_of_runs import answered, expecting_one, store_of
from tests.projects import project_of
from tests.report.hostile_world import World
from tests.report.page_reader import PageReader

FIRST = dt.date(2026, 9, 1)


def a_run(
    name: str,
    day: int,
    value: float | None = 0.5,
    *,
    n_results: int = 10,
    attempt: int | None = None,
    replaced_by: str | None = None,
    is_answer: bool = False,
    fingerprint: str = "fp1:one",
    chunker: str | None = "v1",
) -> SuiteRun:
    facts = RunFacts(name, "d", "s", None, None, attempt, None, None, None, {"chunker_version": chunker})
    return SuiteRun(
        facts=facts,
        night=FIRST + dt.timedelta(days=day),
        n_golden=10,
        n_results=n_results,
        n_failed=0,
        n_quarantined=0,
        is_complete=n_results == 10,
        is_unlabelled=False,
        is_answer=is_answer,
        replaced_by=replaced_by,
        values={"hit@5": (value, 10), "other": (value, 10)},
        fingerprints={"hit_at_k": fingerprint},
        n_stale=0,
        is_shown=True,
    )


def a_metric(key: str = "hit@5", formula: str = "hit_at_k", *, is_chunk_level: bool = True) -> MetricFacts:
    return MetricFacts(key, formula, formula, "", None, None, "binary", (0, 1), "higher", is_chunk_level)


def a_suite(*runs: SuiteRun, **more: object) -> SuiteMaterial:
    suite = SuiteMaterial("s", "d", list(runs), 0, [a_metric()])
    return replace(suite, **more)  # type: ignore[arg-type]


def shown(*runs: SuiteRun) -> list[str]:
    return [run.facts.run_id for run in with_shown_attempts(runs) if run.is_shown]


def test_a_night_shows_its_answer_whatever_came_after() -> None:
    assert shown(a_run("one", 0, attempt=1, is_answer=True), a_run("two", 0, attempt=2, n_results=9)) == [
        "one"
    ]
    assert shown(a_run("one", 0), a_run("two", 0, is_answer=True), a_run("three", 0, replaced_by="two")) == [
        "two"
    ]


def test_a_night_without_a_complete_attempt_shows_its_last_one() -> None:
    assert shown(a_run("one", 0, n_results=3), a_run("two", 0, n_results=4)) == ["two"]
    assert shown(a_run("late", 0, attempt=2, n_results=3), a_run("early", 0, n_results=4)) == ["late"]


def test_nights_stand_in_their_order_however_they_were_loaded() -> None:
    assert shown(a_run("later", 1), a_run("first", 0)) == ["first", "later"]


def test_another_definition_behind_the_values_is_marked_and_breaks_the_line() -> None:
    (trend,) = trends_of(
        a_suite(
            a_run("one", 0), a_run("two", 1, fingerprint="fp1:two"), a_run("three", 2, fingerprint="fp1:two")
        )
    )
    assert [point.definition_changed for point in trend.points] == [False, True, False]
    assert [point.segment for point in trend.points] == [0, 1, 1]


def test_another_chunker_is_marked_and_breaks_the_line_of_chunk_level_metrics_only() -> None:
    runs = (a_run("one", 0), a_run("two", 1, chunker="v2"))
    other = a_metric("other", "other_formula", is_chunk_level=False)
    trends = {one.metric: one for one in trends_of(a_suite(*runs, metrics=[a_metric(), other]))}
    assert [point.chunker_changed for point in trends["hit@5"].points] == [False, True]
    assert [point.segment for point in trends["hit@5"].points] == [0, 1]
    assert [point.segment for point in trends["other"].points] == [0, 0]


def test_a_night_beyond_the_gates_margin_is_marked() -> None:
    runs = (a_run("one", 0, 0.50), a_run("two", 1, 0.48), a_run("three", 2, 0.4599), a_run("four", 3, 0.4398))
    (trend,) = trends_of(a_suite(*runs, gate={"hit@5": GateMark(True, margin=0.02)}))
    assert [point.is_beyond_gate for point in trend.points] == [False, False, True, True]
    (against,) = trends_of(a_suite(*runs, gate={"hit@5": GateMark(True, margin=0.05)}, baseline="one"))
    assert [point.is_beyond_gate for point in against.points] == [False, False, False, True]
    assert against.gate == 0.45
    left_out = a_suite(
        *runs[1:], gate={"hit@5": GateMark(True, margin=0.05)}, baseline="one", baseline_run=runs[0]
    )
    assert trends_of(left_out)[0].gate == 0.45


def test_a_target_is_held_against_every_night_and_lower_may_be_better() -> None:
    runs = (a_run("one", 0, 0.1), a_run("two", 1, 0.3))
    (trend,) = trends_of(a_suite(*runs, gate={"hit@5": GateMark(False, target=0.2)}))
    assert [point.is_beyond_gate for point in trend.points] == [False, True]


def test_the_gate_does_not_hold_chunk_level_metrics_against_another_chunker() -> None:
    runs = (a_run("one", 0, 0.9), a_run("two", 1, 0.0, chunker="v2"))
    (trend,) = trends_of(a_suite(*runs, gate={"hit@5": GateMark(True, margin=0.02)}))
    assert [point.is_beyond_gate for point in trend.points] == [False, False]


def test_an_undefined_night_is_a_gap_and_never_a_zero() -> None:
    (trend,) = trends_of(a_suite(a_run("one", 0, 0.5), a_run("two", 1, None), a_run("three", 2, 0.6)))
    assert [point.value for point in trend.points] == [0.5, None, 0.6]
    page = PageReader(render_suite_page([a_suite(a_run("one", 0, 0.5), a_run("two", 1, None))]))
    assert page.rows("numbers-table")["2026-09-02"] == ["two", "—"]


def test_the_page_lists_every_run_with_what_is_missing(
    report_world: World, readers: dict[str, PageReader]
) -> None:
    table = {row[1]: row for row in readers["suite"].tables["runs-table"][1:]}
    assert list(table) == ["run-d", "run-d-broken", "run-c", "run-b", "run-a"]
    assert table["run-d-broken"][4].split() == ["incomplete", "replaced"]
    assert table["run-d-broken"][6:8] == ["12 of 16", "4"]
    assert table["run-d"][4].strip() == "complete"
    (suite,) = read_suites(project_of(report_world.settings, report_world.registry))
    assert [run.facts.run_id for run in suite.runs if run.is_shown] == ["run-a", "run-b", "run-c", "run-d"]


def with_the_last_two_nights_remade(world: World, folder: Path, toml: str) -> SuiteMaterial:
    """The suite after a change of definitions that only its last two nights were computed by."""
    shutil.copy(world.settings.db, folder / "e.duckdb")
    config = folder / "eval-pipeline.toml"
    config.write_text(toml, "utf-8")
    settings = load_settings(
        {"EVAL_PIPELINE_DB": str(folder / "e.duckdb"), "EVAL_PIPELINE_CONFIG": str(config)}
    )
    registry = load_registry(settings)
    measure(
        project_of(settings, registry, now=dt.datetime(2026, 10, 2)), reasons=None, run_ids=["run-c", "run-d"]
    )
    (suite,) = read_suites(project_of(settings, registry))
    return suite


def test_every_setting_that_changed_from_night_to_night_is_named_and_secrets_are_not(tmp_path: Path) -> None:
    judge = {"model": "j", "api_key": "s3cret-1"}
    first = {
        "embedding_model": "e1",
        "llm_model": "m",
        "retriever": {"alpha": 0.5, "on": True},
        "judge": judge,
    }
    second = {
        "embedding_model": "e2",
        "llm_model": "m",
        "prompt_version": "p1",
        "retriever": {"alpha": 1, "on": True},
    }
    second |= {"judge": {"model": "j2", "api_key": "s3cret-2"}, "endpoint": "https://ann:s3cret-3@host/"}
    results = {"q0000": answered(True)}
    settings = store_of(
        tmp_path,
        expecting_one(1),
        {"run-a": results, "run-b": results},
        config={"run-a": first, "run-b": second},
        definitions=PAIR_FACTS,
    )
    page = render_suite_page(read_suites(project_of(settings)))
    rows = [row[2:] for row in PageReader(page).tables["changes-table"][1:]]
    assert sorted(rows) == [
        ["run-b", "embedding", "e1 → e2"],
        ["run-b", "endpoint", "not recorded → https://***@host/"],
        ["run-b", "judge", "j → j2"],
        ["run-b", "prompt", "not recorded → p1"],
        ["run-b", "retriever.alpha", "0.5 → 1"],
    ]
    assert "s3cret" not in page


def changes_shown(suite: SuiteMaterial) -> dict[str, list[bool]]:
    return {one.metric: [point.definition_changed for point in one.points] for one in trends_of(suite)}


def test_values_left_on_an_older_definition_show_where_the_definition_changed(
    report_world: World, tmp_path: Path
) -> None:
    suite = with_the_last_two_nights_remade(
        report_world, tmp_path, "[formulas.reciprocal_rank]\ncutoff = 1\n"
    )
    changes = changes_shown(suite)
    assert changes["mrr"] == [False, False, True, False]
    assert not any(changes["hit@5"])
    page = PageReader(render_suite_page([suite]))
    assert ["1", "2026-09-03", "run-c", "definitions behind the values", "reciprocal_rank"] in page.tables[
        "changes-table"
    ]


def test_another_definition_of_what_is_measured_over_a_whole_run_is_marked_too(
    report_world: World, tmp_path: Path
) -> None:
    suite = with_the_last_two_nights_remade(
        report_world, tmp_path, '[formulas.latency_summary]\npercentile = "nearest"\n'
    )
    changes = changes_shown(suite)
    assert changes["latency_p50_ms"] == [False, False, True, False]
    assert not any(changes["mrr"])
