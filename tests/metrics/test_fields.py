from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval_pipeline.metrics import (
    FieldDiscrepancy,
    InvalidField,
    MetricInputError,
    compute_confusion_counts,
    compute_field_accuracy,
    compute_metrics,
    find_discrepancies,
    flatten_fields,
)

untimed = settings(deadline=None)


def types_by_field(ground_truth: Any, extracted: Any) -> dict[str, str]:
    return {found.field: found.error_type for found in find_discrepancies(ground_truth, extracted)}


def test_each_kind_of_disagreement_is_found_with_both_values() -> None:
    ground_truth = {"price": 100, "rooms": 3, "city": "Berlin", "year": 1990}
    extracted = {"price": 100, "rooms": "3", "city": "Bonn", "agent": "Kim"}
    assert find_discrepancies(ground_truth, extracted) == [
        FieldDiscrepancy("rooms", "format_error", expected=3, actual="3"),
        FieldDiscrepancy("city", "wrong_value", expected="Berlin", actual="Bonn"),
        FieldDiscrepancy("year", "omission", expected=1990, actual=None),
        FieldDiscrepancy("agent", "hallucination", expected=None, actual="Kim"),
    ]


def test_metrics_are_computed_per_field_and_not_per_document() -> None:
    ground_truth = {"price": 100, "rooms": 3, "address": {"city": "Berlin", "zip": "10115"}}
    extracted = {"price": 100, "rooms": 4, "address": {"city": "Berlin", "zip": "10115"}}
    metrics = compute_metrics(len(flatten_fields(ground_truth)), find_discrepancies(ground_truth, extracted))
    assert (metrics["total_gt_fields"], metrics["correct_fields"], metrics["precision"]) == (4, 3, 0.75)


def test_fields_are_leaves_named_by_their_dotted_path() -> None:
    document = {"b": {"d": {"e": 1}, "c": [{"x": 1}]}, "a": "text"}
    assert flatten_fields(document) == {"b.d.e": 1, "b.c": [{"x": 1}], "a": "text"}
    assert list(flatten_fields(document)) == ["b.d.e", "b.c", "a"]


@pytest.mark.parametrize("absent", [None, {}, {"deep": {}}, {"deep": None, "deeper": {"still": {}}}])
def test_null_and_the_object_with_nothing_in_it_are_absent(absent: Any) -> None:
    assert flatten_fields({"a": absent}) == {}
    assert find_discrepancies({"a": absent}, {}) == []
    assert find_discrepancies({}, {"a": absent}) == []
    assert types_by_field({"a": 1}, {"a": absent}) == {"a": "omission"}
    assert types_by_field({"a": absent}, {"a": 1}) == {"a": "hallucination"}


@pytest.mark.parametrize("present", ["", 0, False, [], [None], 0.0])
def test_empty_texts_empty_lists_zero_and_false_are_present(present: Any) -> None:
    assert flatten_fields({"a": present}) == {"a": present}
    assert types_by_field({"a": present}, {}) == {"a": "omission"}


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        (1, 1.0),
        (-0.0, 0),
        ("x", "x"),
        (True, True),
        ([], []),
        ([1, "a", None], [1.0, "a", None]),
        ([{"a": 1, "b": None}], [{"a": 1.0}]),
        ([None], [{}]),
        ([[1], [2]], [[1], [2]]),
        ((1, 2), [1, 2]),
    ],
)
def test_equal_values_are_no_discrepancy(expected: Any, actual: Any) -> None:
    assert find_discrepancies({"a": expected}, {"a": actual}) == []
    assert find_discrepancies({"a": actual}, {"a": expected}) == []


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        (1, 2),
        (0.3, 0.1 + 0.2),
        (2**53 + 1, float(2**53)),
        ("Berlin", "berlin"),
        ("Berlin", "Berlin "),
        ("é", "e\u0301"),
        (True, False),
        ([1, 2], [2, 1]),
        ([1, 2], [1, 2, 2]),
        ([1], [True]),
        (["1"], [1]),
        ([1, None], [1]),
        ([{"a": 1}], [{"a": 1, "b": 2}]),
        ([{"a": 1}], [None]),
        ([[1, 2]], [[2, 1]]),
    ],
)
def test_other_values_of_the_same_type_are_wrong_values(expected: Any, actual: Any) -> None:
    assert types_by_field({"a": expected}, {"a": actual}) == {"a": "wrong_value"}
    assert types_by_field({"a": actual}, {"a": expected}) == {"a": "wrong_value"}


@pytest.mark.parametrize(
    ("expected", "actual"),
    [(1, "1"), (1, True), (0, False), ("true", True), ([1], 1), (["x"], "x"), ("", [])],
)
def test_a_value_of_another_type_is_a_format_error(expected: Any, actual: Any) -> None:
    assert types_by_field({"a": expected}, {"a": actual}) == {"a": "format_error"}
    assert types_by_field({"a": actual}, {"a": expected}) == {"a": "format_error"}


def test_a_value_in_place_of_an_object_omits_the_leaves_and_invents_a_field() -> None:
    found = types_by_field({"a": {"b": 1, "c": 2}}, {"a": "1 and 2"})
    assert found == {"a.b": "omission", "a.c": "omission", "a": "hallucination"}


def test_a_key_with_a_dot_names_the_same_field_as_the_nested_object() -> None:
    assert find_discrepancies({"a.b": 1}, {"a": {"b": 1}}) == []


def test_two_fields_with_one_path_are_refused() -> None:
    with pytest.raises(InvalidField, match=r"extracted has two fields with the path 'a\.b'"):
        find_discrepancies({"a": {"b": 1}}, {"a": {"b": 1}, "a.b": 2})


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (math.nan, "'a' holds nan"),
        ([1, [math.inf]], "'a' holds inf"),
        ([{"b": -math.inf}], "'a' holds -inf"),
        (b"bytes", "'a' holds a bytes"),
        ([{1, 2}], "'a' holds a set"),
        ({1: "x"}, "has the key 1"),
        ([{1: "x"}], "has the key 1"),
    ],
)
def test_what_json_cannot_hold_is_refused_with_its_field(value: Any, problem: str) -> None:
    with pytest.raises(InvalidField, match=problem):
        find_discrepancies({"a": value}, {})
    with pytest.raises(MetricInputError, match=f"extracted.*{problem}"):
        find_discrepancies({}, {"a": value})


@pytest.mark.parametrize("document", [[], "text", 0, [{"a": 1}]])
def test_a_document_that_is_no_mapping_is_refused(document: Any) -> None:
    with pytest.raises(InvalidField, match="extracted is a"):
        find_discrepancies({"a": 1}, document)


def test_whole_numbers_beyond_the_range_of_floats_can_be_compared() -> None:
    assert find_discrepancies({"a": 10**400}, {"a": 10**400}) == []
    assert types_by_field({"a": 10**400}, {"a": 1e300}) == {"a": "wrong_value"}


def test_very_deep_documents_are_compared() -> None:
    nested_object: Any = 1
    nested_list: Any = 1
    for _ in range(5000):
        nested_object, nested_list = {"k": nested_object}, [nested_list]
    document = {"object": nested_object, "list": nested_list}
    assert find_discrepancies(document, document) == []


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([0.5, 1.0, 2.5])
    | st.text("xy", max_size=2),
    lambda children: (
        st.lists(children, max_size=3) | st.dictionaries(st.sampled_from("pqr"), children, max_size=3)
    ),
    max_leaves=8,
)
documents = st.dictionaries(st.sampled_from("abcd"), json_values, max_size=4)


def leaf_paths(value: Any, path: str) -> list[str]:
    if value is None:
        return []
    if not isinstance(value, dict):
        return [path]
    return [found for key, child in value.items() for found in leaf_paths(child, f"{path}.{key}")]


@untimed
@given(documents)
def test_a_document_agrees_with_its_copy(document: dict[str, Any]) -> None:
    assert find_discrepancies(document, json.loads(json.dumps(document))) == []


@untimed
@given(documents)
def test_every_leaf_that_is_not_null_is_a_field(document: dict[str, Any]) -> None:
    expected = [found for key, value in document.items() for found in leaf_paths(value, key)]
    assert list(flatten_fields(document)) == expected


@untimed
@given(documents, documents)
def test_swapping_the_documents_swaps_omissions_and_hallucinations(
    first: dict[str, Any], second: dict[str, Any]
) -> None:
    swapped = {
        "omission": "hallucination",
        "hallucination": "omission",
        "format_error": "format_error",
        "wrong_value": "wrong_value",
    }
    there = types_by_field(first, second)
    back = types_by_field(second, first)
    assert back == {field: swapped[error_type] for field, error_type in there.items()}


@untimed
@given(documents, documents)
def test_found_discrepancies_always_give_possible_counts(
    ground_truth: dict[str, Any], extracted: dict[str, Any]
) -> None:
    expected, actual = flatten_fields(ground_truth), flatten_fields(extracted)
    found = find_discrepancies(ground_truth, extracted)
    counts = compute_confusion_counts(len(expected), found)
    assert len({one.field for one in found}) == len(found)
    assert counts.false_negatives == len(expected.keys() - actual.keys())
    assert counts.true_positives + counts.false_positives == len(actual)


@untimed
@given(documents, documents, st.randoms(use_true_random=False))
def test_the_order_of_keys_does_not_change_what_is_found(
    ground_truth: dict[str, Any], extracted: dict[str, Any], random: Any
) -> None:
    keys = list(extracted)
    random.shuffle(keys)
    shuffled = {key: extracted[key] for key in keys}
    assert types_by_field(ground_truth, shuffled) == types_by_field(ground_truth, extracted)


def test_field_accuracy_is_the_share_of_evals_in_which_the_field_is_right() -> None:
    pairs: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"windows": 4, "bedrooms": 2}, {"windows": 4, "bedrooms": 2}),
        ({"windows": 4, "bedrooms": 3}, {"windows": 5, "bedrooms": 3}),
        ({"windows": 6, "bedrooms": 1}, {"windows": "6", "bedrooms": 1}),
        ({"windows": 7}, {"windows": 7}),
        ({"windows": 8}, {"agent": "Kim"}),
    ]
    accuracy = compute_field_accuracy([(truth, find_discrepancies(truth, given)) for truth, given in pairs])
    nothing_wrong = {"omission": 0, "hallucination": 0, "format_error": 0, "wrong_value": 0}
    assert accuracy == {
        "agent": {"accuracy": None, "n": 0, "errors": {**nothing_wrong, "hallucination": 1}},
        "bedrooms": {"accuracy": 1.0, "n": 3, "errors": nothing_wrong},
        "windows": {
            "accuracy": 2 / 5,
            "n": 5,
            "errors": {**nothing_wrong, "omission": 1, "format_error": 1, "wrong_value": 1},
        },
    }
    assert list(accuracy) == ["agent", "bedrooms", "windows"]


def test_no_evals_have_no_fields() -> None:
    assert compute_field_accuracy([]) == {}


def test_a_field_hallucinated_in_one_eval_and_right_in_another_keeps_its_accuracy() -> None:
    accuracy = compute_field_accuracy([({"a": 1}, []), ({}, [{"field": "a", "error_type": "hallucination"}])])
    assert (accuracy["a"]["accuracy"], accuracy["a"]["n"], accuracy["a"]["errors"]["hallucination"]) == (
        1.0,
        1,
        1,
    )


@pytest.mark.parametrize(
    ("discrepancy", "problem"),
    [
        ({"field": "a", "error_type": "hallucination"}, "type hallucination on field 'a'.*has"),
        ({"field": "b", "error_type": "omission"}, "type omission on field 'b'.*lacks"),
        ({"field": "b", "error_type": "wrong_value"}, "type wrong_value on field 'b'.*lacks"),
        ({"error_type": "omission"}, "with field None"),
    ],
)
def test_a_discrepancy_that_contradicts_its_ground_truth_is_refused(
    discrepancy: dict[str, str], problem: str
) -> None:
    with pytest.raises(InvalidField, match=rf"evals\[1\].*{problem}"):
        compute_field_accuracy([({}, []), ({"a": 1}, [discrepancy])])


@untimed
@given(st.lists(st.tuples(documents, documents), max_size=4))
def test_the_right_fields_of_all_evals_add_up_to_the_true_positives(
    pairs: list[tuple[dict[str, Any], dict[str, Any]]],
) -> None:
    found = [(truth, find_discrepancies(truth, given)) for truth, given in pairs]
    accuracy = compute_field_accuracy(found)
    assert compute_field_accuracy(found[::-1]) == accuracy
    right = sum(round(one["accuracy"] * one["n"]) for one in accuracy.values() if one["accuracy"] is not None)
    counts = [compute_confusion_counts(len(flatten_fields(truth)), wrong) for truth, wrong in found]
    assert right == sum(one.true_positives for one in counts)
