"""From two JSON documents to the fields on which they disagree (A1.5, A1.6, A1.8)."""

# A field is a leaf named by its dotted path. Null and the object with nothing in it are absent. An array is
# one leaf and its order matters. 1 equals 1.0, a boolean is no number, texts are compared exactly.

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, get_args

from eval_pipeline.metrics.errors import InvalidField

ErrorType: TypeAlias = Literal["omission", "hallucination", "format_error", "wrong_value"]
JsonKind: TypeAlias = Literal["text", "number", "boolean", "array", "object"]

ERROR_TYPES: Final[tuple[ErrorType, ...]] = get_args(ErrorType)


@dataclass(frozen=True, slots=True)
class FieldDiscrepancy:
    """One field on which ground truth and extraction disagree; an absent side is None."""

    field: str
    error_type: ErrorType
    expected: Any = None
    actual: Any = None


def find_discrepancies(
    ground_truth: Mapping[str, Any] | None, extracted: Mapping[str, Any] | None
) -> list[FieldDiscrepancy]:
    """At most one discrepancy per field: ground-truth fields in document order, then the hallucinated ones.

    A field present on both sides is a format_error when the JSON types differ, else a wrong_value when the
    values do.
    """
    expected_fields = flatten_fields(ground_truth, document_name="ground_truth")
    actual_fields = flatten_fields(extracted, document_name="extracted")
    found: list[FieldDiscrepancy] = []
    for field, expected in expected_fields.items():
        if field not in actual_fields:
            found.append(FieldDiscrepancy(field, "omission", expected=expected))
            continue
        actual = actual_fields[field]
        if _kind(expected) != _kind(actual):
            found.append(FieldDiscrepancy(field, "format_error", expected=expected, actual=actual))
        elif not _same_value(expected, actual):
            found.append(FieldDiscrepancy(field, "wrong_value", expected=expected, actual=actual))
    found.extend(
        FieldDiscrepancy(field, "hallucination", actual=actual)
        for field, actual in actual_fields.items()
        if field not in expected_fields
    )
    return found


def flatten_fields(document: Mapping[str, Any] | None, *, document_name: str = "document") -> dict[str, Any]:
    """The document's fields by dotted path, in document order; `len()` of it is `total_gt_fields`."""
    if document is not None and not isinstance(document, Mapping):
        raise InvalidField(
            f"{document_name} is a {type(document).__name__}; allowed is a mapping of field names to values, "
            "or None for a document without fields"
        )
    fields: dict[str, Any] = {}
    # A stack of our own, so that depth is limited by memory alone.
    pending: list[tuple[str, Any]] = _children(document or {}, "", document_name)
    while pending:
        path, value = pending.pop()
        if isinstance(value, Mapping):
            pending.extend(_children(value, f"{path}.", document_name))
        elif value is not None:
            if path in fields:
                raise InvalidField(
                    f"{document_name} has two fields with the path {path!r}; allowed is one field per path; "
                    "rename the key that contains a dot"
                )
            _check_json(value, f"{document_name} field {path!r}")
            fields[path] = value
    return fields


def _children(document: Mapping[str, Any], prefix: str, document_name: str) -> list[tuple[str, Any]]:
    """Last child first, as a stack wants them."""
    _check_keys(document, document_name)
    return [(prefix + key, value) for key, value in document.items()][::-1]


def _check_keys(mapping: Mapping[Any, Any], place: str) -> None:
    for key in mapping:
        if not isinstance(key, str):
            raise InvalidField(f"{place} has the key {key!r}; allowed are texts, as in JSON")


def _check_json(value: Any, place: str) -> None:
    pending = [value]
    while pending:
        item = pending.pop()
        kind = _kind(item)
        if kind is None:
            raise InvalidField(
                f"{place} holds a {type(item).__name__}; allowed are texts, numbers, booleans, None, lists "
                "and mappings; convert other values to text first"
            )
        if isinstance(item, float) and not math.isfinite(item):
            raise InvalidField(
                f"{place} holds {item!r}; allowed are finite numbers; use None for an unknown one"
            )
        if kind == "array":
            pending.extend(item)
        elif isinstance(item, Mapping):
            _check_keys(item, place)
            pending.extend(item.values())


def _kind(value: Any) -> JsonKind | None:
    # Before the numbers, because True is an int in Python.
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "text"
    if isinstance(value, list | tuple):
        return "array"
    # Null is the object with nothing in it, inside arrays as everywhere.
    return "object" if value is None or isinstance(value, Mapping) else None


def _same_value(first: Any, second: Any) -> bool:
    pending = [(first, second)]
    while pending:
        left, right = pending.pop()
        kind = _kind(left)
        if kind != _kind(right):
            return False
        if kind == "array":
            if len(left) != len(right):
                return False
            pending.extend(zip(left, right, strict=True))
        elif kind == "object":
            left, right = left or {}, right or {}
            pending.extend((left.get(key), right.get(key)) for key in {**left, **right})
        elif left != right:
            return False
    return True
