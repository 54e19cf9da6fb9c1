"""Field extraction from the delivered file to what `show` says."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.loading.quarantine import find_quarantine
from tests.computing.building import (
    NOW,
    Row,
    blocks_of,
    settings_in,
    taken_in,
    write_golden,
    write_run,
)
from tests.projects import project_of

OF_EXTRACTION = ("aggregates.extraction_summary", "aggregates.field_accuracy")
COUNTS = ("true_positives", "false_positives", "false_negatives")


def told(total: int, **errors: int) -> Row:
    """A case that gives its discrepancies, so many of each type."""
    found = [
        {"field": f"{error_type} {number}", "error_type": error_type}
        for error_type, count in errors.items()
        for number in range(count)
    ]
    return {"total_gt_fields": total, "discrepancies": found}


def compared(ground_truth: Any, extracted: Any) -> Row:
    return {"ground_truth": ground_truth, "extracted": extracted}


TEN = {f"field {number}": number for number in range(10)}
FLATS = [
    compared(
        {"bedrooms": 2, "window_count": 5},
        {"bedrooms": 2 if number < 19 else 3, "window_count": 5 if number < 12 else None},
    )
    for number in range(20)
]
SCENARIOS: dict[str, list[Row]] = {
    "worked-example": [told(20, omission=1, hallucination=1, format_error=1, wrong_value=3)],
    "perfect": [compared(TEN, TEN)],
    "no-output": [{"ground_truth": TEN}],
    "omitted": [compared(TEN, {name: value for name, value in TEN.items() if value < 8})],
    "invented": [compared(TEN, TEN | {"field 10": 10, "field 11": 11})],
    "wrong-type": [compared(TEN, TEN | {"field 0": "0", "field 1": True})],
    "wrong-value": [compared(TEN, TEN | {"field 0": 1, "field 1": 2})],
    "nothing-expected": [compared({}, {}), compared({"a": None, "b": {}}, {"c": 1})],
    "uneven": [compared(TEN, TEN), compared({"a": 1}, {}), told(4, omission=2, wrong_value=1)],
    "just-below": [told(11001, omission=2001)],
    "exactly-at": [told(11000, omission=2000)],
    "failed": [
        compared({"a": 1}, {"a": 1}),
        {"case_id": "z", "error": "no answer", "ground_truth": {"a": 1}},
        {"case_id": "b", "error": "crashed"},
        {"case_id": "c", "error": "  ", **compared({"a": 1}, {"a": 1})},
    ],
    "all-failed": [{"case_id": "b", "error": "crashed"}],
    "none": [],
    "fields": FLATS,
    "paths": [
        compared(
            {"address": {"city": "Ulm", "geo": {"lat": 1.5}}, "tags": ["a", "b"], "floor": 1, "lift": True},
            {"address": {"city": "Ulm", "geo": {"lat": 2.5}}, "tags": ["b", "a"], "floor": 1.0, "lift": 1},
        )
    ],
    "texts": [compared({"a": "Ulm", "b": "Ulm", "c": "1"}, {"a": "ulm", "b": "Ulm ", "c": 1})],
    "only-told": [told(5, omission=1, hallucination=2)],
}


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    """Scenario → the block `extraction` of its run."""
    folder = tmp_path_factory.mktemp("scenarios")
    write_golden(folder)
    for run_id, cases in SCENARIOS.items():
        numbered = [{"case_id": f"case {number}", **case} for number, case in enumerate(cases)]
        # A target is undefined while cases of earlier runs of the suite are missing.
        write_run(folder, run_id, suite=run_id, extractions=numbered)
    write_run(folder, "without")
    settings = settings_in(folder)
    report, registry = taken_in(settings, folder, summaries=OF_EXTRACTION)
    assert not report.problems
    return {run_id: blocks_of(settings, registry, run_id)["extraction"] for run_id in (*SCENARIOS, "without")}


def only_case(extraction: Mapping[str, Any]) -> Row:
    (case,) = extraction["cases"].values()
    return dict(case)


def test_the_worked_example_scores_by_the_formula_and_strictly_beside_it(shown: Mapping[str, Any]) -> None:
    extraction = shown["worked-example"]
    case = only_case(extraction)
    assert tuple(case[name] for name in COUNTS) == (15, 5, 1)
    assert (case["f1"], case["f1_strict"]) == (round(0.75 * 0.9375 * 2 / 1.6875, 4), 0.75)
    assert (case["f1"], case["recall_strict"]) == (0.8333, 0.75)
    for average in ("macro", "micro"):
        assert extraction[average]["f1"] == 0.8333
        assert extraction[f"{average}_strict"]["f1"] == 0.75


def test_a_perfect_extraction_scores_one_and_none_at_all_zero(shown: Mapping[str, Any]) -> None:
    perfect, nothing = only_case(shown["perfect"]), only_case(shown["no-output"])
    assert {perfect[name] for name in ("precision", "recall", "f1", "recall_strict", "f1_strict")} == {1.0}
    assert tuple(perfect[name] for name in COUNTS) == (10, 0, 0)
    assert {nothing[name] for name in ("precision", "recall", "f1", "recall_strict", "f1_strict")} == {0.0}
    assert tuple(nothing[name] for name in COUNTS) == (0, 0, 10)


def test_an_omission_lowers_recall_only_and_a_hallucination_precision_only(shown: Mapping[str, Any]) -> None:
    omitted, invented = only_case(shown["omitted"]), only_case(shown["invented"])
    assert (omitted["precision"], omitted["recall"]) == (1.0, 0.8)
    assert (invented["precision"], invented["recall"]) == (round(10 / 12, 4), 1.0)


@pytest.mark.parametrize("scenario", ["wrong-type", "wrong-value"])
def test_a_wrong_field_is_missed_only_by_the_strict_reading(scenario: str, shown: Mapping[str, Any]) -> None:
    case = only_case(shown[scenario])
    assert tuple(case[name] for name in COUNTS) == (8, 2, 0)
    assert (case["precision"], case["recall"], case["recall_strict"]) == (0.8, 1.0, 0.8)


def test_the_table_reading_makes_wrong_fields_missed_everywhere(tmp_path: Path) -> None:
    write_golden(tmp_path)
    worked = {"case_id": "1", **SCENARIOS["worked-example"][0]}
    write_run(tmp_path, "run", extractions=[worked])
    settings = settings_in(tmp_path, '[formulas.extraction]\nfn_policy = "table"\n')
    _, registry = taken_in(settings, tmp_path, summaries=OF_EXTRACTION)
    extraction = blocks_of(settings, registry, "run")["extraction"]
    assert (
        extraction["macro"] == extraction["macro_strict"] == {"precision": 0.75, "recall": 0.75, "f1": 0.75}
    )
    assert extraction["total_false_negatives"] == 5


def test_no_division_by_zero_where_nothing_is_expected(shown: Mapping[str, Any]) -> None:
    extraction = shown["nothing-expected"]
    empty, invented = extraction["cases"].values()
    assert {empty[name] for name in ("precision", "recall", "f1")} == {0.0}
    assert (empty["total_gt_fields"], invented["total_gt_fields"]) == (0, 0)
    assert tuple(invented[name] for name in COUNTS) == (0, 1, 0)
    assert extraction["micro"]["f1"] == 0.0


def test_macro_f1_is_the_mean_of_the_f1s_and_micro_pools_the_fields(shown: Mapping[str, Any]) -> None:
    extraction = shown["uneven"]
    f1s = [2 * p * r / (p + r) if p + r else 0.0 for p, r in ((1, 1), (0, 0), (1 / 2, 1 / 3))]
    assert extraction["macro"]["f1"] == round(sum(f1s) / 3, 4)
    assert extraction["macro"]["precision"] == round((1 + 0 + 1 / 2) / 3, 4)
    precision, recall = 11 / 12, 11 / 14
    assert extraction["micro"] == {
        "precision": round(precision, 4),
        "recall": round(recall, 4),
        "f1": round(2 * precision * recall / (precision + recall), 4),
    }
    totals = [
        extraction[name]
        for name in ("total_true_positives", "total_false_positives", "total_false_negatives", "eval_count")
    ]
    assert totals == [11, 1, 3, 3]


def test_the_target_is_held_against_the_unrounded_value(shown: Mapping[str, Any]) -> None:
    below, at = shown["just-below"], shown["exactly-at"]
    assert (below["macro"]["f1"], below["target"], below["target_met"]) == (0.9, 0.9, False)
    assert (at["macro"]["f1"], at["target_met"]) == (0.9, True)


def test_a_case_that_failed_to_run_is_listed_and_counts_nowhere(shown: Mapping[str, Any]) -> None:
    extraction = shown["failed"]
    assert extraction["failed_cases"] == ["b", "z"]
    assert (extraction["eval_count"], extraction["macro"]["f1"]) == (2, 1.0)
    assert list(extraction["cases"]) == ["case 0", "c"]
    assert extraction["fields"] == {"a": {"accuracy": 1.0, "n": 2}}


@pytest.mark.parametrize("scenario", ["none", "all-failed"])
def test_without_a_scored_case_there_are_zeros_and_no_met_target(
    scenario: str, shown: Mapping[str, Any]
) -> None:
    extraction = shown[scenario]
    assert (extraction["eval_count"], extraction["target_met"], extraction["cases"]) == (0, False, {})
    for average in ("macro", "micro", "macro_strict", "micro_strict"):
        assert extraction[average] == {"precision": 0.0, "recall": 0.0, "f1": 0.0}


def test_a_run_without_extractions_has_none(shown: Mapping[str, Any]) -> None:
    assert shown["without"] is None


def test_accuracy_per_field_tells_where_to_work(shown: Mapping[str, Any]) -> None:
    assert shown["fields"]["fields"] == {
        "bedrooms": {"accuracy": 0.95, "n": 20},
        "window_count": {"accuracy": 0.6, "n": 20},
    }


def test_fields_are_leaf_paths_and_lists_keep_their_order(shown: Mapping[str, Any]) -> None:
    accuracy = {field: entry["accuracy"] for field, entry in shown["paths"]["fields"].items()}
    assert accuracy == {"address.city": 1, "address.geo.lat": 0, "floor": 1, "lift": 0, "tags": 0}
    assert only_case(shown["paths"])["total_gt_fields"] == 5


def test_texts_are_compared_exactly(shown: Mapping[str, Any]) -> None:
    assert [entry["accuracy"] for entry in shown["texts"]["fields"].values()] == [0, 0, 0]


def test_without_ground_truth_there_is_no_accuracy_only_the_count(shown: Mapping[str, Any]) -> None:
    extraction = shown["only-told"]
    assert tuple(only_case(extraction)[name] for name in COUNTS) == (4, 2, 1)
    assert set(extraction["fields"]) == {"omission 0", "hallucination 0", "hallucination 1"}
    assert {(entry["accuracy"], entry["n"]) for entry in extraction["fields"].values()} == {(None, 0)}


def test_the_order_of_the_cases_changes_no_number(tmp_path: Path) -> None:
    cases = [told(7, omission=n % 3, wrong_value=n % 2) | {"case_id": str(n)} for n in range(40)]
    write_golden(tmp_path)
    write_run(tmp_path, "forth", extractions=cases)
    write_run(tmp_path, "back", extractions=cases[::-1])
    settings = settings_in(tmp_path)
    _, registry = taken_in(settings, tmp_path, summaries=OF_EXTRACTION)
    forth, back = (blocks_of(settings, registry, run_id)["extraction"] for run_id in ("forth", "back"))
    # The later run of a series is expected to hold the cases of the first, and does.
    beside = {"expected_cases": 40, "expected_by": "earlier runs"}
    assert forth == back | beside


DOCUMENT = {"ground_truth": {"a": 1, "b": 2}}
BAD: list[tuple[Row, str]] = [
    ({"total_gt_fields": 1, **told(1, omission=2)}, "discrepancies"),
    ({"total_gt_fields": -1, "discrepancies": []}, "total_gt_fields"),
    (
        {"total_gt_fields": 2, "discrepancies": [{"field": "a", "error_type": "typo"}]},
        "discrepancies[0].error_type",
    ),
    (
        {"total_gt_fields": 2, "discrepancies": [{"field": "a", "error_type": "omission"}] * 2},
        "discrepancies[1].field",
    ),
    ({"discrepancies": []}, "total_gt_fields"),
    ({"extracted": {"a": 1}}, "ground_truth"),
    ({**DOCUMENT, "total_gt_fields": 3}, "total_gt_fields"),
    (
        {**DOCUMENT, "discrepancies": [{"field": "a", "error_type": "hallucination"}]},
        "discrepancies[0]",
    ),
    ({**DOCUMENT, "discrepancies": [{"field": "c", "error_type": "wrong_value"}]}, "discrepancies[0]"),
    (
        {
            **DOCUMENT,
            "extracted": {"a": 1, "b": 2},
            "discrepancies": [{"field": "a", "error_type": "omission"}],
        },
        "discrepancies[0]",
    ),
    ({**DOCUMENT, "extracted": {"a": 1}, "discrepancies": []}, "discrepancies"),
    ({**DOCUMENT, "extracted": {"a": 1, "b": 2, "c": 3}, "discrepancies": []}, "discrepancies"),
    ({"ground_truth": {"a.b": 1, "a": {"b": 2}}}, "ground_truth"),
    ({**DOCUMENT, "extracted": {"a\x00": 1}}, None),
]


def test_a_case_that_contradicts_itself_is_quarantined_by_name_and_the_others_are_scored(
    tmp_path: Path,
) -> None:
    good = {"case_id": "good", **compared({"a": 1}, {"a": 1})}
    tolerant = {
        "case_id": "tolerant",
        **compared({"a": "Ulm"}, {"a": "ULM"}),
        "discrepancies": [],
    }
    bad = [{"case_id": f"bad {number}", **row} for number, (row, _) in enumerate(BAD)]
    write_golden(tmp_path)
    write_run(tmp_path, "run", extractions=[good, *bad, tolerant])
    settings = settings_in(tmp_path)
    report, registry = taken_in(settings, tmp_path, summaries=OF_EXTRACTION)
    assert report.quarantined == len(BAD)
    found = {row["query_id"]: row for row in find_quarantine(project_of(settings))}
    for number, (_, field) in enumerate(BAD):
        row = found[f"bad {number}"]
        assert (row["run_id"], row["line"]) == ("run", number + 2)
        assert row["reason"]
        assert field is None or row["field"] == field
    extraction = blocks_of(settings, registry, "run")["extraction"]
    assert {case_id: case["f1"] for case_id, case in extraction["cases"].items()} == {
        "good": 1.0,
        "tolerant": 1.0,
    }


def test_a_later_delivery_takes_the_place_of_the_cases(tmp_path: Path) -> None:
    write_golden(tmp_path)
    write_run(tmp_path, "run", extractions=[{"case_id": "1", **compared({"a": 1}, {"a": 2})}])
    settings = settings_in(tmp_path)
    _, registry = taken_in(settings, tmp_path, summaries=OF_EXTRACTION)
    assert blocks_of(settings, registry, "run")["extraction"]["cases"]["1"]["f1"] == 0.0
    write_run(tmp_path, "run", extractions=[{"case_id": "2", **compared({"a": 1}, {"a": 1})}])
    taken_in(settings, tmp_path, summaries=OF_EXTRACTION)
    extraction = blocks_of(settings, registry, "run")["extraction"]
    assert {case_id: case["f1"] for case_id, case in extraction["cases"].items()} == {"2": 1.0}


def test_before_anything_is_computed_the_numbers_are_undefined(tmp_path: Path) -> None:
    from eval_pipeline.formulas.registry import load_registry
    from eval_pipeline.loading.load import load_bundles

    write_golden(tmp_path)
    write_run(tmp_path, "run", extractions=[{"case_id": "1", **compared({"a": 1}, {"a": 1})}])
    settings = settings_in(tmp_path)
    load_bundles([tmp_path], project_of(settings, now=NOW))
    blocks = blocks_of(settings, load_registry(settings), "run")
    assert blocks["extraction"]["macro"] == {"precision": None, "recall": None, "f1": None}
    assert blocks["performance"]["latency_ms"] == {"n": 0, "p50": None, "p95": None, "mean": None}
