"""A run that delivered nothing of what a definition reads has none of its rows, however the definition is edited."""

from __future__ import annotations

import pytest

from eval_pipeline.comparing.pairs import store_comparisons
from eval_pipeline.planning.plan import find_plan
from eval_pipeline.settings import Settings
from tests.bundle_files import (
    ask,
    compute,
    day,
    hits,
    load,
    settings_in,
    write_golden,
    write_lines,
    write_run,
)
from tests.comparing.extracted import GOOD, OF_EXTRACTION, write_extracted
from tests.projects import project_of

EDITED = '[formulas.extraction]\nfn_policy = "table"\n'
HALF_READ = {"case_id": "e5", "ground_truth": {"a": 1, "b": 2}, "extracted": {"a": 3}}


@pytest.fixture
def settings(tmp_path) -> Settings:
    """One run with cases, and two with queries alone."""
    bundle = tmp_path / "bundle"
    write_golden(bundle, [{"query_id": "q", "question": "?", "expected_chunk_ids": ["d/1"]}], dataset="forms")
    for number in (1, 2):
        write_run(
            bundle,
            f"asking-{number}",
            [{"query_id": "q", "hits_top_k": hits("d/1")}],
            dataset="forms",
            suite="s",
        )
    write_extracted(bundle, "reading", [*GOOD, HALF_READ], day=1)
    settings = settings_in(tmp_path)
    load(settings, bundle)
    compute(settings, definitions=OF_EXTRACTION)
    return settings


def stale(settings: Settings) -> dict[str, int]:
    """Definition → of how many runs it is stale because it, or what it reads, was edited."""
    found = {
        asset["name"]: sum(n for reason, n in asset["reasons"].items() if reason in ("formula", "parent"))
        for asset in find_plan(project_of(settings))["assets"]
    }
    return {name: n for name, n in found.items() if n}


def reasons(settings: Settings) -> list[tuple[str, str]]:
    """Run and reason of every cell of the summary, as it was computed last."""
    return ask(
        settings,
        "select run_id, reason from ledger.cells join raw.runs using (run_key) "
        "where definition = 'aggregates.extraction_summary' order by all",
    )


def test_an_edited_formula_is_stale_only_for_the_run_that_has_cases(settings):
    assert stale(settings) == {}
    settings.config.write_text(EDITED)
    assert stale(settings) == {"metrics.extraction": 1, "aggregates.extraction_summary": 1}
    compute(settings, reasons=None, definitions=OF_EXTRACTION, on=3)
    assert reasons(settings) == [("asking-1", "missing"), ("asking-2", "missing"), ("reading", "parent")]
    assert stale(settings) == {}


def test_cases_that_come_later_are_scored_by_the_formula_as_it_is_then(settings, tmp_path):
    settings.config.write_text(EDITED)
    compute(settings, reasons=None, definitions=OF_EXTRACTION, on=3)
    write_lines(tmp_path / "bundle" / "runs" / "asking-1" / "extractions.jsonl", [HALF_READ])
    load(settings, tmp_path / "bundle", on=4)
    compute(settings, definitions=OF_EXTRACTION, on=5)
    ((as_one,), (as_other,)) = ask(
        settings,
        "select recall from metrics.extraction join raw.runs using (run_key) join raw.case_ids using (case_key) "
        "where case_id = 'e5' order by run_id",
    )
    assert as_one == as_other
    assert stale(settings) == {}


def test_what_knows_which_parts_were_delivered_is_stale_for_every_run_when_it_is_edited_itself(settings):
    settings.config.write_text("[formulas.extraction_summary]\ntarget = 0.5\n")
    assert stale(settings) == {"aggregates.extraction_summary": 3}


@pytest.mark.slow
def test_two_runs_without_cases_stay_compared(settings):
    compute(settings)
    pair = ("asking-1", "asking-2")
    assert store_comparisons(project_of(settings, now=day(3)), [pair]).reasons == {pair: "missing"}
    settings.config.write_text(EDITED)
    compute(settings, reasons=None, on=4)
    assert store_comparisons(project_of(settings, now=day(5)), [pair]).reasons == {}
