from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest
from scipy import stats

from eval_pipeline.stats import compare_paired, drift_test, noise_band, pairs_needed_for_band, queries_needed
from eval_pipeline.stats.binary import mcnemar_exact
from eval_pipeline.stats.errors import ImpossibleOption, UndefinedValue, UnpairedValues
from eval_pipeline.stats.power import (
    binary_minimum_detectable_effect,
    fewest_moved_units,
    minimum_detectable_effect,
    smallest_detectable_share,
)


def exact_mcnemar_power(n, discordant, difference):
    """The chance of p <= 0.05, summed over every possible table."""
    disagreeing = max(discordant / n, difference)
    power = 0.0
    for moved in range(n + 1):
        seen = stats.binom.pmf(moved, n, disagreeing)
        if seen < 1e-10:
            continue
        wins = np.arange(moved + 1)
        significant = [mcnemar_exact(int(w), moved - int(w)) <= 0.05 for w in wins]
        share_won = (disagreeing + difference) / (2 * disagreeing)
        power += seen * stats.binom.pmf(wins, moved, share_won)[significant].sum()
    return power


@pytest.mark.parametrize(("n", "discordant"), [(30, 6), (100, 20), (200, 3), (200, 80), (60, 0)])
def test_mcnemar_finds_the_detectable_difference_about_four_times_in_five(n, discordant):
    mde = binary_minimum_detectable_effect(n, discordant)
    assert 0.68 <= exact_mcnemar_power(n, discordant, mde) <= 0.9


def test_the_mean_test_finds_the_detectable_difference_four_times_in_five():
    """The reference is the noncentral t distribution of a paired t test."""
    n, spread = 80, 0.3
    mde = minimum_detectable_effect(spread / math.sqrt(n), n, typical_move=None)
    critical = stats.t.ppf(0.975, n - 1)
    power = stats.nct.sf(critical, n - 1, mde / (spread / math.sqrt(n)))
    assert power == pytest.approx(0.8, abs=0.01)


def test_a_one_sided_question_finds_smaller_differences():
    both, one = (
        minimum_detectable_effect(0.05, 200, typical_move=None, alternative=x)
        for x in ("two-sided", "greater")
    )
    assert one < both
    assert one / both == pytest.approx(stats.norm.ppf([0.95, 0.8]).sum() / stats.norm.ppf([0.975, 0.8]).sum())


def test_the_fewest_moves_are_those_an_exact_test_can_call_significant():
    for alternative in ("two-sided", "greater"):
        fewest = fewest_moved_units(alternative=alternative)
        assert mcnemar_exact(fewest, 0, alternative=alternative) <= 0.05
        assert mcnemar_exact(fewest - 1, 0, alternative=alternative) > 0.05


def test_the_smallest_detectable_share_moves_enough_units_four_times_in_five():
    share = smallest_detectable_share(150)
    assert stats.binom.sf(fewest_moved_units() - 1, 150, share) == pytest.approx(0.8)


@pytest.mark.parametrize("scale", ["binary", "fraction"])
def test_no_change_in_thirty_queries_still_says_what_could_have_been_seen(scale):
    few = compare_paired(np.zeros(30), np.zeros(30), scale=scale, seed=1)
    many = compare_paired(np.zeros(3000), np.zeros(3000), scale=scale, seed=1)
    assert 0.2 < few.mde < 0.3
    assert 0.002 < many.mde < 0.003


def test_three_queries_could_have_shown_nothing():
    result = compare_paired([0, 1, 0], [1, 1, 0], scale="binary", seed=1)
    assert result.p_value == 1.0
    assert result.mde is None


def test_the_size_of_a_change_nobody_saw_is_unknown_on_an_open_scale():
    assert compare_paired(np.ones(100), np.ones(100), scale="ms", seed=1).mde is None


def test_a_single_moved_query_does_not_pass_for_precision():
    b = np.zeros(100)
    b[7] = 0.5
    result = compare_paired(np.zeros(100), b, scale="fraction", seed=1)
    assert result.mde > 2.8 * result.standard_error
    assert result.mde == pytest.approx(0.5 * smallest_detectable_share(100))


def test_as_many_queries_as_needed_make_the_margin_detectable():
    generator = np.random.default_rng(1)
    a, b = generator.random((2, 400))
    seen = compare_paired(a, b, scale="fraction", seed=1, resamples=100)
    needed = queries_needed(0.01, seen.standard_error, n=400)
    assert seen.mde > 0.01
    standard_error = seen.standard_error * math.sqrt(400 / needed)
    assert minimum_detectable_effect(standard_error, needed, typical_move=None) == pytest.approx(
        0.01, rel=1e-3
    )


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
