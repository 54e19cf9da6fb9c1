from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest
from scipy import stats

from eval_pipeline.stats import compare_paired, drift_test, noise_band, pairs_needed_for_band, queries_needed
from eval_pipeline.stats.binary import sign_test
from eval_pipeline.stats.errors import ImpossibleOption, UndefinedValue, UnpairedValues
from eval_pipeline.stats.power import fewest_moved_units


def test_the_fewest_moves_are_those_an_exact_test_can_call_significant():
    for alternative in ("two-sided", "greater"):
        fewest = fewest_moved_units(alternative=alternative)
        assert sign_test(fewest, 0, alternative=alternative) <= 0.05
        assert sign_test(fewest - 1, 0, alternative=alternative) > 0.05


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


@pytest.mark.parametrize("alternative", ["less", "greater", "two-sided"])
@pytest.mark.parametrize("values", [[0.9, 0.91, 0.88, 0.87, 0.88, 0.85], [0.5, 0.5, 0.4, 0.5, 0.6]])
def test_few_nights_are_tried_in_every_order(values, alternative):
    days = np.arange(len(values)) - (len(values) - 1) / 2
    trends = np.array([days @ order for order in permutations(values)])
    observed = days @ np.array(values)
    extreme = {
        "less": trends <= observed + 1e-12,
        "greater": trends >= observed - 1e-12,
        "two-sided": np.abs(trends) >= abs(observed) - 1e-12,
    }[alternative]
    result = drift_test(values, seed=1, alternative=alternative)
    assert result.test == "slope_permutation_exact"
    assert result.p_value == pytest.approx(extreme.mean())
    assert result.slope_per_night == pytest.approx(stats.linregress(range(len(values)), values).slope)


def test_a_decline_no_single_night_shows_is_found_over_twenty():
    generator = np.random.default_rng(3)
    values = 0.8 - 0.001 * np.arange(20) + generator.normal(0, 0.004, size=20)
    result = drift_test(values.tolist(), seed=1)
    assert result.test == "slope_permutation"
    assert result.p_value < 0.01
    assert result.total_change == pytest.approx(-0.019, abs=0.01)
    assert drift_test(values.tolist(), seed=1, alternative="greater").p_value > 0.95


def test_steady_nights_raise_the_alarm_no_more_often_than_promised():
    generator = np.random.default_rng(4)
    alarms = [
        drift_test(generator.normal(size=12).tolist(), seed=seed, resamples=200).p_value <= 0.05
        for seed in range(600)
    ]
    assert 0.02 <= np.mean(alarms) <= 0.08


def test_missing_nights_count_by_their_date():
    values = [0.9, 0.88, 0.87, 0.70, 0.86]
    nights = [739000, 739001, 739002, 739010, 739030]
    result = drift_test(values, seed=1, nights=nights)
    slope = stats.linregress(nights, values).slope
    assert result.slope_per_night == pytest.approx(slope)
    assert result.total_change == pytest.approx(30 * slope)
    assert result.slope_per_night != pytest.approx(drift_test(values, seed=1).slope_per_night)


def test_too_few_nights_give_a_slope_at_most():
    assert drift_test([], seed=1).slope_per_night is None
    assert drift_test([0.5], seed=1).slope_per_night is None
    three = drift_test([0.5, 0.4, 0.3], seed=1)
    assert three.slope_per_night == pytest.approx(-0.1)
    assert three.p_value is three.test is None


def test_nights_that_are_all_alike_show_no_drift():
    result = drift_test([0.7] * 9, seed=1)
    assert (result.test, result.p_value, result.slope_per_night) == ("identical", 1.0, 0.0)


def test_nights_out_of_order_or_of_another_number_are_refused():
    with pytest.raises(ImpossibleOption, match="oldest first"):
        drift_test([0.1, 0.2, 0.3, 0.4], seed=1, nights=[1, 3, 2, 4])
    with pytest.raises(UnpairedValues, match="nights has 1"):
        drift_test([0.1, 0.2], seed=1, nights=[1])
