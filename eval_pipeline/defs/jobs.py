"""The jobs: the nightly evaluation, recomputation, comparisons, pages, loading sources."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import dagster as dg

from eval_pipeline.defs.assets import CHUNK_ARCHIVES, COMPUTED, GOLDEN_SETS
from eval_pipeline.defs.comparisons import COMPARISONS, PAGES

NIGHTLY_EVALUATION = "nightly_evaluation"
RECOMPUTE_STALE = "recompute_stale"
NEW_COMPARISONS = "new_comparisons"
PUBLISH_PAGES = "publish_pages"
NEW_GOLDEN_SETS = "new_golden_sets"
NEW_CHUNK_ARCHIVES = "new_chunk_archives"
# Everything is in the event log; a terminal needs to hear of failures only.
QUIET = {"loggers": {"console": {"config": {"log_level": "ERROR"}}}}


@dataclass(frozen=True)
class Jobs:
    """Job definitions; Dagster has no public name for their type."""

    nightly_evaluation: Any
    recompute_stale: Any
    new_comparisons: Any
    publish_pages: Any
    new_golden_sets: Any
    new_chunk_archives: Any

    def all(self) -> list[Any]:
        """Every one of them."""
        return [
            self.nightly_evaluation,
            self.recompute_stale,
            self.new_comparisons,
            self.publish_pages,
            self.new_golden_sets,
            self.new_chunk_archives,
        ]


def make_jobs() -> Jobs:
    """Define the jobs; a job has one kind of partitions, so sources have jobs of their own."""
    return Jobs(
        nightly_evaluation=dg.define_asset_job(
            NIGHTLY_EVALUATION,
            selection=dg.AssetSelection.groups("raw", *COMPUTED),
            config=QUIET,
            description="Loads runs and computes everything of them that is missing or was delivered again.",
        ),
        recompute_stale=dg.define_asset_job(
            RECOMPUTE_STALE,
            selection=dg.AssetSelection.groups(*COMPUTED),
            config=QUIET,
            description="Computes what is stale, whatever made it so: a formula, labels, an archive.",
        ),
        new_comparisons=dg.define_asset_job(
            NEW_COMPARISONS,
            selection=dg.AssetSelection.assets(COMPARISONS),
            config=QUIET,
            description="Compares runs with the night before and with their pinned baseline, and judges the gate.",
        ),
        publish_pages=dg.define_asset_job(
            PUBLISH_PAGES,
            selection=dg.AssetSelection.assets(PAGES),
            config=QUIET,
            description="Writes the pages of what is new into the folder of reports.",
        ),
        new_golden_sets=dg.define_asset_job(
            NEW_GOLDEN_SETS,
            selection=dg.AssetSelection.assets(GOLDEN_SETS),
            config=QUIET,
            description="Loads golden sets from the inbox.",
        ),
        new_chunk_archives=dg.define_asset_job(
            NEW_CHUNK_ARCHIVES,
            selection=dg.AssetSelection.assets(CHUNK_ARCHIVES),
            config=QUIET,
            description="Loads chunk archives from the inbox.",
        ),
    )
