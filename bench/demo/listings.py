"""Field extraction from the listings beside this file, with the faults that each prompt version makes.

No model is asked: `listings.yaml` says what goes wrong, and from which prompt version on it is right.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

LISTINGS_FILE = Path(__file__).parent / "listings.yaml"
EXTRACTION_ERROR = "extraction: the model returned no JSON"


class ListingSourceError(ValueError):
    """A fault in `listings.yaml` that contradicts the case it stands in."""


@dataclass(frozen=True)
class Fault:
    field: str
    error_type: str
    expected: Any
    actual: Any


def extraction_rows(prompt_version: str, file: Path = LISTINGS_FILE) -> list[dict[str, Any]]:
    """All extraction cases as a prompt version leaves them."""
    entries = yaml.safe_load(file.read_text(encoding="utf-8"))
    return [_case_row(entry, prompt_version) for entry in entries]


def leaf_fields(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Values by dotted path; lists stay whole."""
    leaves: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            leaves.update(leaf_fields(value, f"{prefix}{name}."))
        else:
            leaves[prefix + name] = value
    return leaves


def _case_row(entry: Mapping[str, Any], prompt_version: str) -> dict[str, Any]:
    row: dict[str, Any] = {"case_id": entry["case_id"], "listing": entry["listing"]}
    truth = entry["ground_truth"]
    if _is_before(prompt_version, entry.get("failed_until")):
        return {**row, "ground_truth": truth, "error": EXTRACTION_ERROR}
    if _is_before(prompt_version, entry.get("nothing_until")):
        return {**row, "ground_truth": truth, "extracted": {}}
    faults = _faults(entry, prompt_version)
    delivered = entry.get("delivered", "values")
    if delivered != "discrepancies":
        row |= {"ground_truth": truth, "extracted": _extracted(truth, faults)}
    if delivered != "values":
        row["total_gt_fields"] = len(leaf_fields(truth))
        row["discrepancies"] = [_discrepancy(fault) for fault in faults]
    return row


def _is_before(prompt_version: str, limit: str | None) -> bool:
    return limit is not None and prompt_version < limit


def _faults(entry: Mapping[str, Any], prompt_version: str) -> list[Fault]:
    truth = leaf_fields(entry["ground_truth"])
    faults = []
    for given in entry.get("faults", ()):
        fixed_by = given.get("fixed_by")
        if fixed_by is None or _is_before(prompt_version, fixed_by):
            fault = Fault(given["field"], given["type"], truth.get(given["field"]), given.get("actual"))
            _check(fault, case_id=entry["case_id"])
            faults.append(fault)
    return faults


def _check(fault: Fault, *, case_id: str) -> None:
    told, read = fault.expected is not None, fault.actual is not None
    same_type = type(fault.expected) is type(fault.actual)
    fits = {
        "omission": told and not read,
        "hallucination": read and not told,
        "format_error": told and read and not same_type,
        "wrong_value": told and read and same_type and fault.expected != fault.actual,
    }
    if not fits.get(fault.error_type, False):
        raise ListingSourceError(
            f"{case_id}, {fault.field}: {fault.error_type!r} does not fit expected {fault.expected!r} and actual "
            f"{fault.actual!r}; choose one of {', '.join(fits)} that does"
        )


def _extracted(truth: Mapping[str, Any], faults: list[Fault]) -> dict[str, Any]:
    extracted = copy.deepcopy(dict(truth))
    for fault in faults:
        *parents, name = fault.field.split(".")
        target = extracted
        for parent in parents:
            target = target.setdefault(parent, {})
        if fault.error_type == "omission":
            del target[name]
        else:
            target[name] = fault.actual
    return extracted


def _discrepancy(fault: Fault) -> dict[str, Any]:
    row = {
        "field": fault.field,
        "error_type": fault.error_type,
        "expected": fault.expected,
        "actual": fault.actual,
    }
    return {key: value for key, value in row.items() if value is not None}
