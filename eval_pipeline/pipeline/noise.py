"""What moves by itself: runs of one commit and configuration are repetitions, and differ only by chance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from eval_pipeline.pipeline.verdicts import rounded
from eval_pipeline.stats import noise_band, pairs_needed_for_band
from eval_pipeline.store.connect import Connection
from eval_pipeline.store.identical_runs import (
    RecentRun,
    StoredValue,
    count_flips,
    recent_runs,
    stored_values,
)
from eval_pipeline.store.pairs import ComparedRun

CONFIDENCE: Final = 0.95
LOOKED_AT: Final = 60

RunPair = tuple[int, int]


@dataclass(frozen=True)
class Noise:
    """Per metric the band that identical runs stay in, and the queries that flip between them."""

    bands: dict[str, dict[str, Any] | None]
    pairs: dict[str, int]
    flaky_queries: list[dict[str, Any]]


def find_noise(
    con: Connection, a: ComparedRun, b: ComparedRun, *, sources: Mapping[str, str], k: int
) -> Noise:
    """Look at the last runs of b's suite and dataset, up to the later of the two; the pair itself does not count.

    Repetitions within a night are what this measures, so every complete run that nothing replaced takes part.
    """
    runs = recent_runs(con, b, until=[a, b], most=LOOKED_AT)
    pairs = [pair for pair in identical_pairs(runs) if set(pair) != {a.run_key, b.run_key}]
    values = stored_values(con, sorted({key for pair in pairs for key in pair}), sources) if pairs else {}
    flips = count_flips(con, pairs, golden_key=b.golden_key, k=k) if b.golden_key is not None else []
    return Noise(
        bands={metric: _band(_movements(metric, pairs, values)) for metric in sources},
        pairs={"n": len(pairs), "needed": pairs_needed_for_band(CONFIDENCE)},
        flaky_queries=[
            {"query_id": query_id, "flips": flips_of, "pairs": n} for query_id, flips_of, n in flips
        ],
    )


def identical_pairs(runs: Sequence[RecentRun]) -> list[RunPair]:
    """Neighbours, oldest first, among the repetitions of one system."""
    root = {run.run_id: run.run_id for run in runs}
    first_of: dict[tuple[str, str], str] = {}

    def find(run_id: str) -> str:
        while root[run_id] != run_id:
            run_id = root[run_id]
        return run_id

    for run in runs:
        if run.replicate_of in root:
            root[find(run.run_id)] = find(str(run.replicate_of))
        if run.commit_hash:
            twin = first_of.setdefault((run.commit_hash, run.configuration), run.run_id)
            root[find(run.run_id)] = find(twin)
    members: dict[str, list[int]] = {}
    for run in runs:
        members.setdefault(find(run.run_id), []).append(run.run_key)
    return [pair for keys in members.values() for pair in pairwise(keys)]


def _movements(
    metric: str, pairs: Iterable[RunPair], values: Mapping[tuple[str, int], StoredValue]
) -> list[float]:
    """How far the metric moved in each pair, where both were computed with the same definition and labels."""
    found = []
    for older, newer in pairs:
        before, after = values.get((metric, older)), values.get((metric, newer))
        if before and after and before.made_with == after.made_with:
            found.append(after.value - before.value)
    return found


def _band(movements: Sequence[float]) -> dict[str, Any] | None:
    band = noise_band(movements, confidence=CONFIDENCE)
    if band is None:
        return None
    return {"low": rounded(band.low), "high": rounded(band.high), "pairs": band.pairs}


def is_within(delta: float | None, band: Mapping[str, Any] | None) -> bool:
    """Whether a difference is no larger than what moves by itself."""
    return delta is not None and band is not None and band["low"] <= delta <= band["high"]
