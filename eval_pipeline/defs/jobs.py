"""The jobs: the nightly evaluation, recomputation, comparisons, pages, loading sources."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import dagster as dg

from eval_pipeline.defs.assets import CHUNK_ARCHIVES, COMPUTED, GOLDEN_SETS
from eval_pipeline.defs.comparisons import COMPARED_KEYS, PAGES

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
        return list(vars(self).values())


def make_jobs(reported: Collection[dg.AssetCheckKey] = ()) -> Jobs:
    """Define the jobs; a job has one kind of partitions, so sources have jobs of their own.

    Checks that are `reported` by a sensor are in none of them: each would cost a step and an event in every run.
    """
    only = dg.AssetSelection.assets
    left_out = dg.AssetSelection.checks(*reported)
    return Jobs(
        nightly_evaluation=_job(
            NIGHTLY_EVALUATION,
            dg.AssetSelection.groups("raw", *COMPUTED) - left_out,
            "Loads runs and computes everything of them that is missing or was delivered again.",
        ),
        recompute_stale=_job(
            RECOMPUTE_STALE,
            dg.AssetSelection.groups(*COMPUTED) - left_out,
            "Computes what is stale, whatever made it so: a formula, labels, an archive.",
        ),
        new_comparisons=_job(
            NEW_COMPARISONS,
            only(*COMPARED_KEYS, PAGES),
            "Compares runs with the night before and with their pinned baseline, judges the gate, and publishes pages.",
        ),
        publish_pages=_job(
            PUBLISH_PAGES, only(PAGES), "Writes the pages of what is new into the folder of reports."
        ),
        new_golden_sets=_job(NEW_GOLDEN_SETS, only(GOLDEN_SETS), "Loads golden sets from the inbox."),
        new_chunk_archives=_job(
            NEW_CHUNK_ARCHIVES, only(CHUNK_ARCHIVES), "Loads chunk archives from the inbox."
        ),
    )


def _job(name: str, selection: dg.AssetSelection, description: str) -> Any:
    return dg.define_asset_job(name, selection=selection, config=QUIET, description=description)
