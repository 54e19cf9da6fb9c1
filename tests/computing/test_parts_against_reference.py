"""The run-level blocks of `show` are those of the plain-Python reference, on random bundles and under other readings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.metrics import compute_aggregate_metrics, compute_field_accuracy, find_discrepancies
from eval_pipeline.showing.show import show_run
from tests.computing.building import BLOCKS, blocks_of, settings_in, taken_in
from tests.projects import project_of
from tests.reference.bundles import Bundle, archive_states, random_bundle, write_bundle
from tests.reference.runs import score_run

DEFAULT: dict[str, str] = {}
OTHER = {"fn_policy": "table", "percentile": "nearest"}
# What other runs of the random bundle say of a run; tests/comparing/test_missing_cases.py looks at it.
EXPECTATION = ("expected_cases", "missing_cases", "expected_by", "missing_in_words")
OTHER_CONFIG = """
[formulas.extraction]
fn_policy = "table"

[formulas.latency_summary]
percentile = "nearest"

[formulas.indexing_summary]
percentile = "nearest"
"""


def expected(bundle: Bundle, run_id: str, readings: Mapping[str, str]) -> dict[str, Any]:
    parts = bundle.runs[run_id]
    dataset_id = parts["run"]["dataset"]
    document = score_run(
        bundle.datasets[dataset_id],
        parts["results"],
        run=parts["run"],
        archives=archive_states(bundle, dataset_id),
        extractions=parts["extractions"],
        index_report=parts["index_report"],
        spot_checks=parts["spot_checks"],
        readings=readings,
    )
    return {name: document[name] for name in BLOCKS}


@pytest.mark.parametrize(
    ("seed", "readings", "config"),
    [(4, DEFAULT, ""), pytest.param(5, DEFAULT, "", marks=pytest.mark.slow), (6, OTHER, OTHER_CONFIG)],
)
def test_the_blocks_of_random_runs_are_those_of_the_reference(
    seed: int, readings: Mapping[str, str], config: str, tmp_path: Path
) -> None:
    bundle = random_bundle(seed, queries=15, runs=6)
    write_bundle(bundle, tmp_path / "bundle")
    settings = settings_in(tmp_path, config)
    report, registry = taken_in(settings, tmp_path / "bundle")
    assert not report.problems
    for run_id in bundle.runs:
        shown = blocks_of(settings, registry, run_id)
        assert tuple(shown) == BLOCKS
        found = json.loads(json.dumps(shown, allow_nan=False))
        by_reference = expected(bundle, run_id, readings)
        if found["extraction"]:
            if found["extraction"]["missing_cases"]:
                # The reference looks at one run and knows no earlier cases.
                by_reference["extraction"]["target_met"] = None
            for name in EXPECTATION:
                del found["extraction"][name]
        assert found == by_reference


def test_the_stored_extraction_numbers_are_those_of_the_public_functions(tmp_path: Path) -> None:
    bundle = random_bundle(11, queries=4, runs=8)
    write_bundle(bundle, tmp_path / "bundle")
    settings = settings_in(tmp_path)
    _, registry = taken_in(settings, tmp_path / "bundle")
    compared = 0
    for run_id, parts in bundle.runs.items():
        cases = [case for case in parts["extractions"] or [] if not case.get("error")]
        shown = show_run(project_of(settings, registry), run_id)["extraction"]
        if not cases:
            continue
        compared += 1
        pairs = [
            (
                case["ground_truth"],
                case["discrepancies"]
                if case.get("discrepancies") is not None
                else find_discrepancies(case["ground_truth"], case.get("extracted")),
            )
            for case in cases
            if case.get("ground_truth") is not None
        ]
        for field, entry in compute_field_accuracy(pairs).items():
            accuracy = None if entry["accuracy"] is None else round(entry["accuracy"], 4)
            assert shown["fields"][field] == {"accuracy": accuracy, "n": entry["n"]}
        totals = compute_aggregate_metrics({"metrics": one} for one in shown["cases"].values())
        assert shown["eval_count"] == totals["eval_count"] == len(cases)
        assert shown["micro"] == {name: round(value, 4) for name, value in totals["micro"].items()}
    assert compared >= 3
