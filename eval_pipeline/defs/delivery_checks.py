"""Warnings on what was delivered: they let every row through that was taken, and say what was not or looks odd."""

from collections.abc import Collection, Iterator
from typing import Any

import dagster as dg

from eval_pipeline.defs.assets import GOLDEN_SETS
from eval_pipeline.defs.resources import StoreResource
from eval_pipeline.defs.sources import RAW_PARTS
from eval_pipeline.pipeline.delivery_checks import Faults, odd_labels, quarantined_rows

NOTHING_IN_QUARANTINE = "nothing_in_quarantine"
LABELS_MAKE_SENSE = "labels_make_sense"
LISTED = 20


def delivery_checks() -> list[dg.AssetChecksDefinition]:
    """Rejected rows of the raw parts, and odd labels of golden sets."""
    return [_nothing_in_quarantine(), _labels_make_sense()]


def _nothing_in_quarantine() -> dg.AssetChecksDefinition:
    """One check per raw part, all in one step."""

    @dg.multi_asset_check(
        name=NOTHING_IN_QUARANTINE,
        specs=[
            dg.AssetCheckSpec(
                NOTHING_IN_QUARANTINE,
                asset=part.key,
                description="No delivered row was rejected; `eval-pipeline quarantine` shows file, line and text.",
            )
            for part in RAW_PARTS
        ],
        can_subset=True,
    )
    def check(context: dg.AssetCheckExecutionContext, store: StoreResource) -> Iterator[dg.AssetCheckResult]:
        run_ids = _asked(context)
        asked = {check.asset_key for check in context.selected_asset_check_keys}
        with store.reading() as con:
            found = quarantined_rows(con, run_ids)
        for part in RAW_PARTS:
            if part.key in asked:
                faults = found.get(part.part, {})
                yield _warning(faults, part.key, NOTHING_IN_QUARANTINE, what="runs", n=run_ids)

    return check


def _labels_make_sense() -> dg.AssetChecksDefinition:
    @dg.asset_check(
        asset=GOLDEN_SETS,
        name=LABELS_MAKE_SENSE,
        description="No label contradicts another, names a chunk that no inventory has, or says nothing.",
    )
    def check(context: dg.AssetCheckExecutionContext, store: StoreResource) -> dg.AssetCheckResult:
        datasets = _asked(context)
        with store.reading() as con:
            faults = odd_labels(con, datasets)
        return _warning(faults, GOLDEN_SETS, LABELS_MAKE_SENSE, what="datasets", n=datasets)

    return check


def _asked(context: dg.AssetCheckExecutionContext) -> list[str] | None:
    """The range of the run; None, everything there is, when the check is started by itself."""
    if context.has_partition_key_range or context.has_partition_key:
        return list(context.partition_keys)
    return None


def _warning(
    faults: Faults, key: dg.AssetKey, name: str, *, what: str, n: Collection[str] | None
) -> dg.AssetCheckResult:
    metadata: dict[str, Any] = {} if n is None else {f"{what} checked": len(n)}
    if faults:
        metadata[what] = len(faults)
        lines = [f"- `{owner}`: {fault}" for owner, fault in list(faults.items())[:LISTED]]
        rest = len(faults) - len(lines)
        metadata["what is odd"] = dg.MetadataValue.md(
            "\n".join([*lines, *([f"- and {rest} more"] if rest else [])])
        )
    first = next(iter(faults.items()), None)
    return dg.AssetCheckResult(
        asset_key=key,
        check_name=name,
        passed=not faults,
        severity=dg.AssetCheckSeverity.WARN,
        metadata=metadata,
        description=f"{first[0]}: {first[1]}" if first else None,
    )
