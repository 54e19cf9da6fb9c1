from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binomtest

from eval_pipeline.stats import (
    compare_paired,
    drift_anchor,
    noise_band,
    pairs_needed_for_band,
    queries_needed,
    resolution,
)
from eval_pipeline.stats.errors import ImpossibleOption, UndefinedValue
from eval_pipeline.stats.power import fewest_moved_units


def test_the_fewest_moves_are_those_an_exact_test_can_call_significant():
    for alternative in ("two-sided", "greater"):
        fewest = fewest_moved_units(alternative=alternative)
        assert binomtest(fewest, fewest, 0.5, alternative=alternative).pvalue <= 0.05
        assert binomtest(fewest - 1, fewest - 1, 0.5, alternative=alternative).pvalue > 0.05


def test_as_many_queries_as_needed_make_the_margin_detectable():
    a, b = np.random.default_rng(1).random((2, 400))
    seen = compare_paired(a, b, scale="fraction")
    needed = queries_needed(0.01, seen.standard_error, n=400)
    more = compare_paired(np.tile(a, needed // 400), np.tile(b, needed // 400), scale="fraction")
    assert seen.mde > 0.01
    assert more.mde == pytest.approx(0.01, rel=0.02)


def test_queries_needed_grow_with_the_square_of_the_precision():
    coarse, fine = (queries_needed(margin, 0.02, n=1000) for margin in (0.04, 0.01))
    assert fine == pytest.approx(16 * coarse, rel=0.01)
    assert queries_needed(10.0, 0.02, n=1000) == fewest_moved_units()


def test_without_a_spread_nobody_knows_how_many_queries_are_needed():
    assert queries_needed(0.01, None, n=1) is None
    assert queries_needed(0.01, 0.0, n=50) is None


@pytest.mark.parametrize("margin", [0, -0.1, math.nan, math.inf])
def test_a_margin_of_no_size_is_refused(margin):
    with pytest.raises(ImpossibleOption, match="margin"):
        queries_needed(margin, 0.1, n=10)


def test_a_noise_band_needs_nineteen_pairs_for_95_percent():
    deltas = np.random.default_rng(1).normal(size=19)
    assert pairs_needed_for_band() == 19
    assert noise_band(deltas[:18]) is None
    assert noise_band([]) is None
    band = noise_band(deltas)
    assert (band.low, band.high) == (-np.abs(deltas).max(), np.abs(deltas).max())
    assert (band.pairs, band.confidence) == (19, 0.95)


@pytest.mark.parametrize("pairs", [19, 39, 45])
def test_the_next_identical_pair_stays_in_the_band_as_often_as_promised(pairs):
    generator = np.random.default_rng(pairs)
    draws = generator.standard_t(3, size=(3000, pairs + 1))
    inside = [abs(row[-1]) <= noise_band(row[:-1]).high for row in draws]
    assert 0.94 <= np.mean(inside) <= 0.985


def test_a_deterministic_system_has_a_band_of_zero_width():
    band = noise_band([0.0] * 25)
    assert (band.low, band.high) == (0.0, 0.0)
    assert math.copysign(1, band.low) == 1


def test_the_direction_of_an_identical_pair_and_its_place_do_not_matter():
    deltas = np.random.default_rng(2).normal(size=40)
    assert noise_band(deltas) == noise_band(-deltas[::-1])


def test_an_undefined_delta_is_refused():
    with pytest.raises(UndefinedValue, match="deltas_of_identical_pairs"):
        noise_band([0.1, math.nan])


def test_the_anchor_is_the_first_night_after_the_last_step():
    level = [0.75] * 7 + [0.70] * 7
    assert drift_anchor(level, limit=0.02) == 7
    assert drift_anchor([0.8, 0.8, 0.74, 0.8, 0.8], limit=0.02) == 3
    assert drift_anchor([0.8 - 0.004 * night for night in range(14)], limit=0.02) == 0
    assert drift_anchor([0.8], limit=0.02) == drift_anchor([], limit=0.02) == 0


def test_where_nights_move_far_by_themselves_only_what_is_farther_is_a_step():
    restless = [0.7, 0.74] * 5
    assert drift_anchor(restless, limit=0.02) == 0
    assert drift_anchor([*restless, 0.5, 0.54], limit=0.02) == 10
    # Too few neighbours say nothing of what nights are used to.
    assert drift_anchor(restless[:4], limit=0.02) == 3


def test_what_can_be_resolved_is_a_margin_that_an_unchanged_candidate_passes_nine_times_in_ten():
    generator = np.random.default_rng(8)
    passed = []
    for _ in range(400):
        a = (generator.random(300) < 0.8).astype(float)
        b = np.where(generator.random(300) < 0.1, generator.permutation(a), a)
        result = compare_paired(a, b, scale="binary", alternative="less")
        passed.append(-result.lower_bound < resolution(result.standard_error, result.degrees))
    assert 0.85 <= np.mean(passed) <= 0.97
    assert resolution(0.0, None) == 0.0
    assert resolution(None, None) is None
