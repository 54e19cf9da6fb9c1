"""Statistics of comparisons: pure numbers in, numbers out."""

# Nothing here reads a clock, a file or a hidden seed.

from __future__ import annotations

from eval_pipeline.stats.adjust import adjust_by_family, benjamini_hochberg, holm, simes
from eval_pipeline.stats.agreement import Agreement, quadratic_kappa
from eval_pipeline.stats.noise import (
    NoiseBand,
    RunSpread,
    drift_anchor,
    noise_band,
    pairs_needed_for_band,
    run_spread,
)
from eval_pipeline.stats.paired import compare_paired, mean_of_run
from eval_pipeline.stats.power import queries_needed, resolution
from eval_pipeline.stats.ratios import compare_ratios
from eval_pipeline.stats.results import Alternative, MeanResult, PairedResult, Scale
from eval_pipeline.stats.spot_check import draw_spot_check, seed_for, spot_check_size

__all__ = [
    "Agreement",
    "Alternative",
    "MeanResult",
    "NoiseBand",
    "PairedResult",
    "RunSpread",
    "Scale",
    "adjust_by_family",
    "benjamini_hochberg",
    "compare_paired",
    "compare_ratios",
    "draw_spot_check",
    "drift_anchor",
    "holm",
    "mean_of_run",
    "noise_band",
    "pairs_needed_for_band",
    "quadratic_kappa",
    "queries_needed",
    "resolution",
    "run_spread",
    "seed_for",
    "simes",
    "spot_check_size",
]
