"""What the run-level blocks said stays answerable after a formula changed."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.computing.measure import measure
from eval_pipeline.formulas.registry import load_registry
from eval_pipeline.loading.load import load_bundles
from eval_pipeline.settings import Settings
from eval_pipeline.showing.query import ask
from eval_pipeline.showing.show import show_run
from tests.computing.building import NOW, ONE_FORMULA, settings_in, write_golden, write_run
from tests.projects import project_of

LATER = NOW + dt.timedelta(days=3)
TABLE = ONE_FORMULA + '[formulas.extraction]\nfn_policy = "table"\n'
NAMES = {
    "aggregates.extraction_summary",
    "aggregates.indexing_summary",
    "aggregates.latency_summary",
    "aggregates.run_metrics",
}


def compute(settings: Settings, now: dt.datetime) -> None:
    measure(project_of(settings, now=now), reasons=None, definitions=NAMES)


def test_a_replaced_summary_is_shown_as_it_was_and_an_untouched_one_as_it_is(tmp_path: Path) -> None:
    write_golden(tmp_path, ["q1"])
    case = {"case_id": "1", "ground_truth": {"a": 1, "b": 2}, "extracted": {"a": 1, "b": 3}}
    write_run(
        tmp_path,
        "run",
        results=[{"query_id": "q1", "latency_ms": {"total": 4}}],
        extractions=[case],
        index_report={"chunks": [{"status": "skipped", "skip_reason": "too short"}]},
    )
    settings = settings_in(tmp_path, ONE_FORMULA)
    load_bundles([tmp_path], project_of(settings, now=NOW))
    compute(settings, NOW)
    before = show_run(project_of(settings), "run")
    settings = settings_in(tmp_path, TABLE)
    compute(settings, LATER)
    after = show_run(project_of(settings), "run")
    assert (before["extraction"]["macro"]["recall"], after["extraction"]["macro"]["recall"]) == (1.0, 0.5)
    then = show_run(project_of(settings), "run", as_of=NOW.date().isoformat())
    assert then["extraction"]["macro"] == before["extraction"]["macro"]
    assert then["performance"] == before["performance"] == after["performance"]
    assert then["indexing"] == before["indexing"]
    _, rows = ask(project_of(settings), "select definition, replaced_because from ledger.summary_history")
    assert rows == [["aggregates.extraction_summary", "formula"]]


def test_what_was_redelivered_is_shown_as_it_was_with_its_reasons(tmp_path: Path) -> None:
    write_golden(tmp_path, ["q1"])
    results = [{"query_id": "q1"}]
    write_run(
        tmp_path, "run", results=results, index_report={"chunks": [{"status": "skipped"}, {"doc_id": "a"}]}
    )
    settings = settings_in(tmp_path, ONE_FORMULA)
    load_bundles([tmp_path], project_of(settings, now=NOW))
    compute(settings, NOW)
    before = show_run(project_of(settings), "run")
    write_run(tmp_path, "run", results=results, index_report={"chunks": []})
    load_bundles([tmp_path], project_of(settings, now=LATER))
    compute(settings, LATER)
    assert show_run(project_of(settings), "run")["indexing"]["chunks_attempted"] == 0
    then = show_run(project_of(settings), "run", as_of=NOW.date().isoformat())
    assert then["indexing"] == before["indexing"]
    assert then["indexing"]["skip_reasons"] == {"(none)": 1}


def delivered_and_computed(folder: Path, day: int, *, noted: int, found: int) -> None:
    """One run: what is noted changes what was delivered and no number, what was found changes one."""
    case = {"case_id": "1", "ground_truth": {"a": 1}, "extracted": {"a": found}, "noted": noted}
    hits = [{"chunk_id": "d/1", "doc_id": "d", "score": 1.0, "rank": 1}] if found == 1 else []
    write_golden(folder, ["q1"])
    write_run(
        folder,
        "run",
        results=[{"query_id": "q1", "noted": noted, "latency_ms": {"total": found}, "hits_top_k": hits}],
        extractions=[case],
    )
    settings = settings_in(folder, ONE_FORMULA)
    load_bundles([folder], project_of(settings, now=NOW + dt.timedelta(days=day)))
    done = measure(project_of(settings, now=NOW + dt.timedelta(days=day)), definitions=NAMES)
    assert done.cells["aggregates.run_metrics"] > 0
    assert done.cells["aggregates.extraction_summary"] > 0


def kept(folder: Path) -> list[tuple[int, ...]]:
    settings = settings_in(folder, ONE_FORMULA)
    return [
        tuple(
            ask(project_of(settings), f"select count(*), count(distinct valid_from) from ledger.{table}")[1][
                0
            ]
        )
        for table in ("aggregate_history", "summary_history")
    ]


def shown_metrics(folder: Path) -> dict[str, Any]:
    settings = settings_in(folder, ONE_FORMULA)
    metrics: dict[str, Any] = show_run(project_of(settings), "run")["metrics"]
    return metrics


@pytest.mark.slow
def test_the_same_numbers_computed_again_do_not_enter_the_history_again(tmp_path: Path) -> None:
    for day in range(2):
        delivered_and_computed(tmp_path, day, noted=day, found=1)
    once = kept(tmp_path)
    for day in range(2, 6):
        delivered_and_computed(tmp_path, day, noted=day, found=1)
    assert kept(tmp_path) == once
    at_first = shown_metrics(tmp_path)
    for day in (6, 7):
        delivered_and_computed(tmp_path, day, noted=day, found=2)
    changed = kept(tmp_path)
    assert all(entries > before for (entries, _), (before, _) in zip(changed, once, strict=True))
    at_last = shown_metrics(tmp_path)
    assert at_first != at_last
    settings = settings_in(tmp_path, ONE_FORMULA)
    registry = load_registry(settings)
    for day in range(8):
        then = show_run(
            project_of(settings, registry), "run", as_of=(NOW + dt.timedelta(days=day)).date().isoformat()
        )
        assert then["metrics"] == (at_first if day < 6 else at_last)
        assert then["extraction"]["macro"]["recall"] == (1.0 if day < 6 else 0.0)
        assert then["performance"]["total_suite_ms"] == (1 if day < 6 else 2)
