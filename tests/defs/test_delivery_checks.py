"""Rejected rows and odd labels, as the web interface warns of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from eval_pipeline.defs.checks import LABELS_MAKE_SENSE, NOTHING_IN_QUARANTINE
from eval_pipeline.defs.location import build_definitions
from eval_pipeline.defs.partitions import register_runs, register_sources
from eval_pipeline.defs.sources import RAW_PARTS
from eval_pipeline.defs.tags import RANGE_END, RANGE_START
from eval_pipeline.settings import Settings
from tests.projects import project_of

from .deliveries import GOLDEN, deliver_golden, deliver_run, load, make_settings

QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
RUNS = ["r1", "r2", "r3"]
pytestmark = pytest.mark.usefixtures("few_definitions")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Three runs, one of them sound; two datasets, one of them sound."""
    settings = make_settings(tmp_path)
    root = tmp_path / "bundle"
    deliver_golden(root)
    deliver_golden(root, [{**GOLDEN[0], "answerable": False}], dataset="odd")
    for day, run_id in enumerate(RUNS, 1):
        deliver_run(root, run_id, day=day)
    bad = [json.dumps({"query_id": f"x{n}", "answer": 3}) for n in range(2)]
    with (root / "runs/r2/results.jsonl").open("a") as results:
        results.write("\n".join([*bad, json.dumps({"query_id": 7})]) + "\n")
    (root / "runs/r3/extractions.jsonl").write_text('{"case_id": 1}\n')
    load(settings, root)
    return settings


def evaluations(
    settings: Settings, instance: dg.DagsterInstance, job: str, first: str, last: str
) -> dict[tuple[str, str], Any]:
    """(check, asset) → what it found, of materializing what is delivered."""
    result = (
        build_definitions(project_of(settings))
        .resolve_job_def(job)
        .execute_in_process(
            instance=instance,
            tags={RANGE_START: first, RANGE_END: last},
            asset_selection=[part.key for part in RAW_PARTS] if job == "nightly_evaluation" else None,
            run_config=QUIET,
        )
    )
    return {
        (check.check_name, check.asset_key.path[-1]): check for check in result.get_asset_check_evaluations()
    }


def test_rejected_rows_are_a_warning_on_their_part_with_reasons_and_counts(settings, instance):
    register_runs(instance, RUNS, may_move=True)
    found = evaluations(settings, instance, "nightly_evaluation", "r1", "r3")
    results = found[NOTHING_IN_QUARANTINE, "results"]
    assert (results.passed, results.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert results.metadata["what is odd"].value == (
        "- `r2`: 3 rows in quarantine: answer: expected an object, got a whole number (2); "
        "query_id: expected text, got a whole number (1)"
    )
    assert (results.metadata["runs checked"].value, results.metadata["runs"].value) == (3, 1)
    assert found[NOTHING_IN_QUARANTINE, "extractions"].description.startswith("r3: 1 row in quarantine")
    assert found[NOTHING_IN_QUARANTINE, "spot_checks"].passed
    assert found["every_row_accounted_for", "results"].passed


def test_a_sound_run_does_not_cover_what_the_runs_before_it_left_in_quarantine(settings, instance):
    register_runs(instance, RUNS, may_move=True)
    found = evaluations(settings, instance, "nightly_evaluation", "r1", "r1")
    results = found.pop((NOTHING_IN_QUARANTINE, "results"))
    assert not results.passed
    assert results.description.startswith(
        "not here, but failing in all of history: 1; r2: 3 rows in quarantine"
    )
    assert (results.metadata["runs"].value, results.metadata["failing in all of history"].value) == (0, 1)
    assert {asset for (_, asset), check in found.items() if not check.passed} == {"extractions"}


def test_odd_labels_are_a_warning_on_their_golden_set(settings, instance):
    register_sources(instance, ["kb", "odd"], [])
    odd = evaluations(settings, instance, "new_golden_sets", "odd", "odd")[LABELS_MAKE_SENSE, "golden_sets"]
    assert (odd.passed, odd.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert odd.metadata["what is odd"].value == (
        "- `odd`: 'q1' is not answerable, but expected_doc_ids names documents that answer it"
    )
    other = evaluations(settings, instance, "new_golden_sets", "kb", "kb")[LABELS_MAKE_SENSE, "golden_sets"]
    assert not other.passed and other.description.startswith(
        "not here, but failing in all of history: 1; odd"
    )
