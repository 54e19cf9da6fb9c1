from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from eval_pipeline.stats.intervals import bca_levels, bootstrap_interval, range_interval, student_quantile
from eval_pipeline.stats.resampling import (
    all_sign_flips,
    bootstrap_by_distinct_row,
    bootstrap_by_unit,
    bootstrap_sums,
    flips_by_distinct_row,
    flips_by_unit,
    permutation_p_value,
    sign_flip_sums,
)
from eval_pipeline.stats.units import Units, distinct_units, on_exact_grid, sampling_columns, unsigned_units


def reciprocal_rank_differences(n, seed):
    generator = np.random.default_rng(seed)
    ranks = generator.integers(1, 14, size=(2, n))
    scores = np.where(ranks <= 10, 1 / ranks, 0.0)
    return scores[1] - np.where(generator.random(n) < 0.5, scores[1], scores[0])


def units_of(values):
    return distinct_units(sampling_columns([np.asarray(values, dtype=float)], None))


def flippable(values):
    return unsigned_units(sampling_columns([np.asarray(values, dtype=float)], None))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_drawing_distinct_values_and_drawing_queries_give_one_bootstrap_distribution(seed):
    units = units_of(reciprocal_rank_differences(3000, seed))
    fast = bootstrap_by_distinct_row(units, seed=seed, resamples=4000)[:, 0]
    plain = bootstrap_by_unit(units, seed=seed + 100, resamples=4000)[:, 0]
    assert stats.ks_2samp(fast, plain).pvalue > 0.005
    spread = np.sqrt(units.counts @ (units.rows[:, 0] - units.totals[0] / units.size) ** 2)
    for sums in (fast, plain):
        assert sums.mean() == pytest.approx(units.totals[0], abs=4 * spread / np.sqrt(4000))
        assert sums.std() == pytest.approx(spread, rel=0.05)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_flipping_distinct_values_and_flipping_queries_give_one_null_distribution(seed):
    units = flippable(reciprocal_rank_differences(3000, seed))
    fast = flips_by_distinct_row(units, seed=seed, resamples=4000)[:, 0]
    plain = flips_by_unit(units, seed=seed + 100, resamples=4000)[:, 0]
    assert stats.ks_2samp(fast, plain).pvalue > 0.005
    spread = np.sqrt(units.counts @ units.rows[:, 0] ** 2)
    for sums in (fast, plain):
        assert sums.mean() == pytest.approx(0.0, abs=4 * spread / np.sqrt(4000))
        assert sums.std() == pytest.approx(spread, rel=0.05)


def test_sampled_flips_meet_each_possible_sum_as_often_as_all_flips_do():
    units = flippable([0.5, 0.5, -0.25, 1.0, 0.1, 0.1, 0.1])
    everything = all_sign_flips(units)[:, 0]
    assert everything.size == 2**7
    sampled = flips_by_distinct_row(units, seed=5, resamples=20_000)[:, 0]
    for total in np.unique(everything):
        share = np.mean(everything == total)
        assert np.mean(sampled == total) == pytest.approx(share, abs=4 * np.sqrt(share / 20_000))


def test_few_distinct_values_take_the_quick_path_and_many_the_plain_one():
    repeated, continuous = np.repeat([0.5, -0.25, 0.0], 400), np.random.default_rng(3).normal(size=300)
    for values, bootstrap, flips in [
        (repeated, bootstrap_by_distinct_row, flips_by_distinct_row),
        (continuous, bootstrap_by_unit, flips_by_unit),
    ]:
        drawn = bootstrap_sums(units_of(values), seed=9, resamples=200)
        assert np.array_equal(drawn, bootstrap(units_of(values), seed=9, resamples=200))
        null = sign_flip_sums(flippable(values), seed=9, resamples=200)
        assert not null.exact
        assert np.array_equal(null.sums, flips(flippable(values), seed=9, resamples=200))


def test_columns_of_a_unit_are_drawn_and_flipped_together():
    values = np.random.default_rng(4).normal(size=(200, 1)) @ np.array([[1.0, -3.0]])
    for units, draw in [
        (distinct_units(values), bootstrap_by_unit),
        (distinct_units(values), bootstrap_by_distinct_row),
        (unsigned_units(values), flips_by_unit),
        (unsigned_units(values), flips_by_distinct_row),
    ]:
        sums = draw(units, seed=1, resamples=200)
        assert np.allclose(sums[:, 1], -3 * sums[:, 0])


def test_a_large_sample_is_drawn_in_blocks_that_leave_no_resample_out():
    units = units_of(np.random.default_rng(5).uniform(1, 2, size=400_000))
    sums = bootstrap_by_unit(units, seed=1, resamples=7)
    assert sums.shape == (7, 1)
    assert np.all(np.abs(sums / 400_000 - 1.5) < 0.01)
    assert len(np.unique(sums)) == 7


def test_sums_on_the_grid_do_not_depend_on_their_order():
    values = np.random.default_rng(6).normal(size=50_000) * 1e3
    gridded = on_exact_grid(values, terms=values.size)
    assert np.max(np.abs(gridded - values)) < 1e-6
    sums = {float(np.cumsum(np.random.default_rng(i).permutation(gridded))[-1]) for i in range(5)}
    assert len(sums) == 1


@pytest.mark.parametrize("scale", [1e-310, 1e-30, 1.0, 1e30])
def test_the_grid_follows_the_size_of_the_values(scale):
    values = np.array([1.0, -0.3, 0.7, 0.0]) * scale
    assert np.allclose(on_exact_grid(values, terms=4), values, rtol=1e-9, atol=0)


def test_negative_zero_is_no_value_of_its_own():
    units = distinct_units(sampling_columns([np.array([-0.0, 0.0, 1.0])], None))
    assert units.rows.tolist() == [[0.0], [1.0]]
    assert units.counts.tolist() == [2, 1]


@pytest.mark.parametrize("alternative", ["two-sided", "less", "greater"])
def test_all_flips_give_the_p_value_of_the_exact_permutation_test(alternative):
    differences = np.array([0.5, 0.5, -0.25, 1.0, 0.1, 0.0, -0.9, 0.3, 0.3, 0.2])
    null = sign_flip_sums(flippable(differences), seed=0, resamples=10_000)
    ours = permutation_p_value(
        null.sums[:, 0], float(units_of(differences).totals[0]), alternative=alternative, exact=null.exact
    )
    theirs = stats.permutation_test(
        (differences,),
        lambda sample, axis: np.sum(sample, axis=axis),
        permutation_type="samples",
        n_resamples=np.inf,
        alternative=alternative,
        vectorized=True,
    )
    assert null.exact
    assert ours == pytest.approx(theirs.pvalue)


def test_a_sampled_p_value_counts_the_observation_itself():
    null = np.zeros(99)
    assert permutation_p_value(null, 5.0, alternative="two-sided", exact=False) == 1 / 100
    assert permutation_p_value(null, 0.0, alternative="two-sided", exact=False) == 1.0


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
@pytest.mark.parametrize("confidence", [0.9, 0.99])
def test_bca_reads_a_distribution_where_scipy_does(seed, confidence):
    values = on_exact_grid(np.random.default_rng(seed).exponential(size=40) - 0.5, terms=40)
    units = units_of(values)
    distribution = bootstrap_by_unit(units, seed=seed, resamples=2000)[:, 0] / 40
    ours = bootstrap_interval(
        distribution,
        float(units.totals[0] / 40),
        left_out=(units.totals[0] - units.rows[:, 0]) / 39,
        counts=units.counts,
        confidence=confidence,
    )
    given = stats.bootstrap((values,), np.mean, n_resamples=2, method="percentile")
    given.bootstrap_distribution = distribution
    theirs = stats.bootstrap(
        (values,), np.mean, n_resamples=0, bootstrap_result=given, method="BCa", confidence_level=confidence
    ).confidence_interval
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), rel=1e-9)
    assert ours.method == "bca"


def test_bca_weighs_repeated_units_by_their_count():
    values = np.array([0.0] * 30 + [0.5] * 6 + [1.0] * 4)
    units = units_of(values)
    distribution = bootstrap_by_distinct_row(units, seed=1, resamples=2000)[:, 0] / 40
    once_each = (values.sum() - values) / 39
    arguments = {"levels": [0.025, 0.975]}
    by_count = bca_levels(
        distribution,
        float(values.mean()),
        left_out=(units.totals[0] - units.rows[:, 0]) / 39,
        counts=units.counts,
        **arguments,
    )
    by_unit = bca_levels(
        distribution,
        float(values.mean()),
        left_out=once_each,
        counts=np.ones(40, dtype=np.int64),
        **arguments,
    )
    assert by_count == pytest.approx(by_unit)


@pytest.mark.parametrize(
    ("distribution", "left_out"),
    [
        (np.linspace(1.0, 2.0, 500), np.array([0.1, 0.2])),
        (np.linspace(-1.0, 1.0, 500), np.array([0.3, 0.3])),
        (np.linspace(-1.0, 1.0, 500), np.array([0.3, np.nan])),
    ],
    ids=["every resample on one side", "no spread", "a unit nothing can do without"],
)
def test_a_degenerate_bootstrap_falls_back_to_percentiles_and_says_so(distribution, left_out):
    interval = bootstrap_interval(
        distribution, 0.0, left_out=left_out, counts=np.array([5, 5]), confidence=0.9
    )
    assert interval.method == "percentile"
    assert (interval.low, interval.high) == pytest.approx(tuple(np.quantile(distribution, [0.05, 0.95])))


@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 5, 9, 30])
@pytest.mark.parametrize("level", [0.05, 0.9, 0.975, 0.999])
def test_student_quantiles_agree_with_scipy(degrees, level):
    assert student_quantile(level, degrees) == pytest.approx(stats.t.ppf(level, degrees), rel=1e-9)


def test_a_constant_sample_leaves_room_for_what_it_did_not_show():
    """With 30 equal units the share of others is below 1 - 0.025^(1/30), the exact binomial limit."""
    interval = range_interval(0.1, units=30, confidence=0.95, largest=1.0)
    unseen = stats.binomtest(0, 30).proportion_ci(confidence_level=0.95, method="exact").high
    assert interval.low == pytest.approx((1 - unseen) * 0.1 - unseen)
    assert interval.high == pytest.approx((1 - unseen) * 0.1 + unseen)


def test_units_know_their_size_and_totals():
    units = Units(np.array([[0.5, 1.0], [2.0, 3.0]]), np.array([4, 2]))
    assert units.size == 6
    assert units.totals.tolist() == [6.0, 10.0]
