"""Random bundles: the comparison says what the plain-Python reference says."""

from __future__ import annotations

import shutil
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.comparing.pair_states import PAIR_FACTS
from eval_pipeline.comparing.verdicts import ComparisonOptions
from tests.bundle_files import compute, load, settings_in
from tests.comparing.pairs_of_runs import compared
from tests.projects import registry_of
from tests.reference import compare as reference
from tests.reference.bundles import (
    Bundle,
    archive_states,
    labels_of_run,
    random_bundle,
    write_bundle,
    write_earlier_archives,
)

SAME = ("run_a", "run_b", "per_query", "counts", "causes", "only_in_a", "only_in_b", "fallback_metrics")
READINGS: list[dict[str, Any]] = [
    {},
    {"overlap_basis": "iou", "rank_change": "win_loss", "delta_scope": "common", "overlap_threshold": 0.3},
    {"overlap_basis": "expected", "regression_kind": "exclusive", "rank_change": "draw", "compare_k": 3},
]


def store_of_bundle(bundle: Bundle, folder: Path, empty_store: Path):
    """The bundle with everything that comparisons read."""
    settings = settings_in(folder)
    shutil.copyfile(empty_store, settings.db)
    earlier = write_earlier_archives(bundle, folder / "earlier")
    write_bundle(bundle, folder / "bundle")
    for number, delivery in enumerate([*earlier, folder / "bundle"]):
        load(settings, delivery, on=number)
    registry = registry_of(settings)
    looked_at = (f"aggregates.run_metrics:{one.name}" for one in registry.formulas)
    compute(settings, registry, on=9, definitions=[*PAIR_FACTS, *looked_at])
    return settings


def expected_of(bundle: Bundle, run_a: str, run_b: str, readings: dict[str, Any]) -> dict[str, Any]:
    a, b = bundle.runs[run_a], bundle.runs[run_b]
    dataset = a["run"]["dataset"]
    return reference.compare(
        a["run"],
        b["run"],
        golden_rows=bundle.datasets[dataset],
        results_a=a["results"],
        results_b=b["results"],
        archives=archive_states(bundle, dataset),
        scored_by=(labels_of_run(bundle, run_a), labels_of_run(bundle, run_b)),
        readings=readings,
    )


@pytest.mark.parametrize("seed", [3, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (8, 21))])
def test_every_pair_of_a_random_bundle_is_compared_as_written_down(seed, tmp_path, empty_store) -> None:
    bundle = random_bundle(seed, queries=20, runs=4)
    settings = store_of_bundle(bundle, tmp_path, empty_store)
    checked = 0
    for number, pair in enumerate(combinations(bundle.runs, 2)):
        run_a, run_b = pair if number % 2 else reversed(pair)
        if bundle.runs[run_a]["run"]["dataset"] != bundle.runs[run_b]["run"]["dataset"]:
            continue
        readings = READINGS[number % len(READINGS)]
        wanted = expected_of(bundle, run_a, run_b, readings)
        found = compared(settings, run_a, run_b, options=ComparisonOptions(**readings))
        for key in SAME:
            assert found[key] == wanted[key], (run_a, run_b, key)
        for key in ("aggregate_a", "aggregate_b", "deltas"):
            assert {name: found[key][name] for name in wanted[key]} == wanted[key], (run_a, run_b, key)
        checked += 1
    assert checked >= 3
