"""What a Dagster run is told by its tags."""

from __future__ import annotations

from collections.abc import Collection, Mapping

RANGE_START = "dagster/asset_partition_range_start"
RANGE_END = "dagster/asset_partition_range_end"
ONLY_STALE = "eval_pipeline/only_stale"
REASONS = "eval_pipeline/reasons"
LAUNCH = "eval_pipeline/launch"
WHY = "eval_pipeline/why"
NOTE = "eval_pipeline/note"
ONLY = "eval_pipeline/only"


def _only_stale(tags: Mapping[str, str]) -> bool:
    """Whether fresh cells are left alone; somebody who asks for partitions by hand wants them computed."""
    return tags.get(ONLY_STALE) == "true"


def _only_named(names: Collection[str], tags: Mapping[str, str]) -> set[str]:
    """What of these tables is asked for: all of it, or of an aggregate the formulas that the run was told."""
    said = tags.get(ONLY)
    if not said:
        return set(names)
    asked = set(said.split(","))
    parts = {name for name in asked if name.partition(":")[0] in names}
    return parts | {name for name in names if not any(part.startswith(name) for part in parts)}


def _wanted_reasons(tags: Mapping[str, str]) -> frozenset[str] | None:
    """For which reasons stale cells are computed; None for any."""
    said = tags.get(REASONS)
    return frozenset(said.split(",")) if said else None


def _range_tags(first: str, last: str, reasons: Collection[str] | None) -> dict[str, str]:
    """The tags of a run that computes what is stale between two partitions."""
    tags = {RANGE_START: first, RANGE_END: last, ONLY_STALE: "true"}
    return tags if reasons is None else tags | {REASONS: ",".join(sorted(reasons))}
