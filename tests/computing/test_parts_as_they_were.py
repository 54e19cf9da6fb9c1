"""What the run-level blocks said stays answerable after a formula changed."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

from eval_pipeline.computing.measure import measure
from eval_pipeline.formulas.registry import load_registry
from eval_pipeline.loading.load import load_bundles
from eval_pipeline.settings import Settings
from eval_pipeline.showing.query import ask
from eval_pipeline.showing.show import show_run
from tests.computing.building import NOW, ONE_FORMULA, settings_in, write_golden, write_run

LATER = NOW + dt.timedelta(days=3)
TABLE = ONE_FORMULA + '[formulas.extraction]\nfn_policy = "table"\n'
NAMES = {
    "aggregates.extraction_summary",
    "aggregates.indexing_summary",
    "aggregates.latency_summary",
    "aggregates.run_metrics",
}


def compute(settings: Settings, now: dt.datetime) -> None:
    measure(settings, load_registry(settings), now=now, reasons=None, definitions=NAMES)


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
    load_bundles([tmp_path], settings, now=NOW)
    compute(settings, NOW)
    before = show_run(settings, load_registry(settings), "run")
    settings = settings_in(tmp_path, TABLE)
    compute(settings, LATER)
    after = show_run(settings, load_registry(settings), "run")
    assert (before["extraction"]["macro"]["recall"], after["extraction"]["macro"]["recall"]) == (1.0, 0.5)
    then = show_run(settings, load_registry(settings), "run", as_of=NOW.date().isoformat())
    assert then["extraction"]["macro"] == before["extraction"]["macro"]
    assert then["performance"] == before["performance"] == after["performance"]
    assert then["indexing"] == before["indexing"]
    _, rows = ask(settings, "select definition, replaced_because from ledger.summary_history")
    assert rows == [["aggregates.extraction_summary", "formula"]]


def test_what_was_redelivered_is_shown_as_it_was_with_its_reasons(tmp_path: Path) -> None:
    write_golden(tmp_path, ["q1"])
    results = [{"query_id": "q1"}]
    write_run(
        tmp_path, "run", results=results, index_report={"chunks": [{"status": "skipped"}, {"doc_id": "a"}]}
    )
    settings = settings_in(tmp_path, ONE_FORMULA)
    load_bundles([tmp_path], settings, now=NOW)
    compute(settings, NOW)
    before = show_run(settings, load_registry(settings), "run")
    write_run(tmp_path, "run", results=results, index_report={"chunks": []})
    load_bundles([tmp_path], settings, now=LATER)
    compute(settings, LATER)
    assert show_run(settings, load_registry(settings), "run")["indexing"]["chunks_attempted"] == 0
    then = show_run(settings, load_registry(settings), "run", as_of=NOW.date().isoformat())
    assert then["indexing"] == before["indexing"]
    assert then["indexing"]["skip_reasons"] == {"(none)": 1}
