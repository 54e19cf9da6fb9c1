"""What a Dagster run is told: by its configuration in the launchpad, or by its tags."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum

import dagster as dg
from pydantic import Field

RANGE_START = "dagster/asset_partition_range_start"
RANGE_END = "dagster/asset_partition_range_end"
BACKFILL = "dagster/backfill"
# What people write and read; whoever starts a run without a launchpad may ask by these.
ONLY_STALE = "eval_pipeline/only_stale"
REASONS = "eval_pipeline/reasons"
WHY = "eval_pipeline/why"
NOTE = "eval_pipeline/note"
# What nobody reads: tags that begin like this are no chips in the list of runs.
HIDDEN = ".dagster/eval_pipeline."
LAUNCH = f"{HIDDEN}launch"
ONLY = f"{HIDDEN}only"
HIDDEN_ONLY_STALE = f"{HIDDEN}only_stale"
HIDDEN_REASONS = f"{HIDDEN}reasons"


class Reason(Enum):
    """Why a cell is stale: the launchpad takes the names of these."""

    missing = "missing"
    results = "results"
    labels = "labels"
    archive = "archive"
    formula = "formula"
    parent = "parent"
    failed = "failed"


class WhatIsStale(dg.Config):
    """What of the selected partitions is computed."""

    only_stale: bool = Field(
        default=False,
        description="Compute what the ledger calls stale and leave the rest as it is; else everything selected is "
        "computed again.",
    )
    reasons: list[Reason] = Field(
        default=[],
        description="Only what is stale for one of these reasons; none named: for any. Implies only_stale.",
    )


class WhatToCompute(WhatIsStale):
    """The same, with a word about it."""

    note: str = Field(
        default="",
        description="Kept beside every number that is replaced; the view formula_history shows it.",
    )


@dataclass(frozen=True)
class Wanted:
    """What a run is to compute; `is_in_full`: every partition of its range gets an event, whatever there was to do."""

    only_stale: bool
    reasons: frozenset[str] | None
    note: str | None
    is_in_full: bool


def _wanted(run: dg.DagsterRun, config: WhatIsStale | None = None) -> Wanted:
    """By the configuration, and where that is silent by the tags.

    Somebody who asks for partitions by hand wants them computed. A backfill waits for an event of each.
    """
    named = frozenset(reason.value for reason in config.reasons) if config else frozenset()
    reasons = named or _reasons_of(run.tags)
    only_stale = (
        bool(named)
        or (config is not None and config.only_stale)
        or "true" in (run.tags.get(ONLY_STALE), run.tags.get(HIDDEN_ONLY_STALE))
    )
    note = config.note if isinstance(config, WhatToCompute) else ""
    return Wanted(only_stale, reasons, note or run.tags.get(NOTE), not only_stale or BACKFILL in run.tags)


def _reasons_of(tags: Mapping[str, str]) -> frozenset[str] | None:
    """For which reasons stale cells are computed; None for any."""
    said = tags.get(REASONS) or tags.get(HIDDEN_REASONS)
    return frozenset(said.split(",")) if said else None


def _only_named(names: Collection[str], tags: Mapping[str, str]) -> set[str]:
    """What of these tables is asked for: all of it, or of an aggregate the formulas that the run was told."""
    said = tags.get(ONLY)
    if not said:
        return set(names)
    asked = set(said.split(","))
    parts = {name for name in asked if name.partition(":")[0] in names}
    return parts | {name for name in names if not any(part.startswith(name) for part in parts)}


def _range_tags(first: str, last: str, reasons: Collection[str] | None) -> dict[str, str]:
    """The tags of a run that computes what is stale between two partitions."""
    tags = {RANGE_START: first, RANGE_END: last, HIDDEN_ONLY_STALE: "true"}
    return tags if reasons is None else tags | {HIDDEN_REASONS: ",".join(sorted(reasons))}
