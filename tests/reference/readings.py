"""The named readings of the open questions, with their defaults.

The first value of a closed list is the default. An open reading (a number) carries its default and a rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Readings = Mapping[str, Any]

CLOSED: dict[str, tuple[object, ...]] = {
    "inverted_spans": ("error", "drop"),
    "s0_vacuous": ("exclude", "include"),
    "fn_policy": ("code", "table"),
    "heading_prefix": ("segments", "string"),
    "strip_heading_markers": (True, False),
    "require_snippets": (False, True),
    "snippet_rule": ("any", "all"),
    "support_groups": ("any_group", "every_group", "all"),
    "precision_denominator": ("k", "retrieved"),
    "precision_multi_hop": ("any_gold", "required_only"),
    "percentile": ("linear", "nearest"),
    "empty_citations": ("zero", "vacuous"),
    "citation_scope": ("any_version", "run_version"),
    "unlabelled_groundedness": ("exclude", "include"),
    "string_match": ("exact", "casefold"),
    "refusal_no_answer": ("exclude", "zero"),
    "attribution_rows": ("all", "answered"),
    "rank_change": ("separate", "win_loss", "draw"),
    "regression_kind": ("flag", "exclusive"),
    "overlap_basis": ("min", "expected", "hit", "iou"),
    "delta_scope": ("own", "common"),
    "rounding": ("half_even", "half_up"),
    "dedupe_hits": (False, True),
    "retrieval_error": ("zero", "exclude"),
    "gain": ("linear", "exponential"),
}

OPEN: dict[str, object] = {"mrr_anchor_cutoff": None, "compare_k": 10, "overlap_threshold": 0.5, "share": 0.5}


def resolve_readings(readings: Readings | None) -> dict[str, Any]:
    """Fill in the defaults; an unknown name or value is an error, never silently the default."""
    chosen: dict[str, Any] = {name: values[0] for name, values in CLOSED.items()}
    chosen.update(OPEN)
    for name, value in (readings or {}).items():
        if name not in chosen:
            raise ValueError(f"unknown reading {name!r}; known are {sorted(chosen)}")
        if name in CLOSED and value not in CLOSED[name]:
            raise ValueError(f"reading {name}={value!r} is not one of {CLOSED[name]}")
        chosen[name] = value
    return chosen
