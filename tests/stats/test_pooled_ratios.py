from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import stats

from eval_pipeline.stats import compare_ratios
from eval_pipeline.stats.errors import ImpossibleOption, ImpossibleValue, UndefinedValue, UnpairedValues


def micro_f1_parts(n, seed, better=0.15):
    """Numerators and denominators of micro-F1 for two runs over the same documents."""
    generator = np.random.default_rng(seed)
    fields = generator.integers(1, 12, size=n)
    sides = []
    for chance in (0.6, 0.6 + better):
        found = generator.binomial(fields, chance)
        invented = generator.integers(0, 3, size=n)
        sides += [2 * found, 2 * found + invented + (fields - found)]
    return sides


def difference(parts):
    return parts[2].sum() / parts[3].sum() - parts[0].sum() / parts[1].sum()


def test_the_delta_is_the_difference_of_the_pooled_ratios():
    parts = micro_f1_parts(60, seed=1)
    result = compare_ratios(*parts, seed=1)
    assert result.delta == pytest.approx(difference(parts))
    assert result.ci_low < result.lower_bound < result.delta < result.upper_bound < result.ci_high
    assert (result.n, result.test, result.interval) == (60, "case_swap", "bca")


def test_the_interval_agrees_with_scipys_paired_bca_bootstrap():
    parts = micro_f1_parts(60, seed=2)
    ours = compare_ratios(*parts, seed=1)

    def statistic(index):
        return difference([part[index.astype(int)] for part in parts])

    theirs = stats.bootstrap(
        (np.arange(60),),
        statistic,
        vectorized=False,
        n_resamples=4000,
        method="BCa",
        rng=np.random.default_rng(3),
    )
    low, high = theirs.confidence_interval
    assert ours.ci_low == pytest.approx(low, abs=0.06 * (high - low))
    assert ours.ci_high == pytest.approx(high, abs=0.06 * (high - low))
    assert ours.standard_error == pytest.approx(theirs.standard_error, rel=0.06)


@pytest.mark.parametrize("alternative", ["two-sided", "less", "greater"])
def test_few_cases_are_swapped_in_every_way(alternative):
    parts = micro_f1_parts(9, seed=4)
    observed = difference(parts)
    swaps = []
    for swap in product([False, True], repeat=9):
        a = [np.where(swap, parts[2], parts[0]), np.where(swap, parts[3], parts[1])]
        b = [np.where(swap, parts[0], parts[2]), np.where(swap, parts[1], parts[3])]
        swaps.append(difference([*a, *b]))
    swaps = np.array(swaps)
    extreme = {
        "two-sided": np.abs(swaps) >= abs(observed) - 1e-12,
        "less": swaps <= observed + 1e-12,
        "greater": swaps >= observed - 1e-12,
    }[alternative]
    result = compare_ratios(*parts, seed=1, alternative=alternative)
    assert result.test == "case_swap_exact"
    assert result.p_value == pytest.approx(extreme.mean())


def test_the_sampled_swaps_agree_with_a_loop_over_documents():
    parts = micro_f1_parts(40, seed=5, better=0.03)
    generator = np.random.default_rng(6)
    swaps = []
    for _ in range(4000):
        swap = generator.random(40) < 0.5
        a = [np.where(swap, parts[2], parts[0]), np.where(swap, parts[3], parts[1])]
        b = [np.where(swap, parts[0], parts[2]), np.where(swap, parts[1], parts[3])]
        swaps.append(abs(difference([*a, *b])))
    expected = np.mean(np.array(swaps) >= abs(difference(parts)) - 1e-12)
    assert compare_ratios(*parts, seed=1).p_value == pytest.approx(expected, abs=0.03)


def test_the_order_of_the_cases_does_not_change_a_bit():
    parts = micro_f1_parts(150, seed=7)
    groups = np.array([f"source {i // 5}" for i in range(150)])
    order = np.random.default_rng(1).permutation(150)
    for labels in (None, groups):
        given = compare_ratios(*parts, seed=1, groups=None if labels is None else list(labels))
        mixed = compare_ratios(
            *[part[order] for part in parts],
            seed=1,
            groups=None if labels is None else list(labels[order]),
        )
        assert repr(mixed) == repr(given)


def test_identical_counts_are_named_so():
    parts = micro_f1_parts(30, seed=8)
    result = compare_ratios(*parts[:2], *parts[:2], seed=1)
    assert (result.test, result.p_value, result.delta) == ("identical", 1.0, 0.0)
    assert (result.ci_low, result.ci_high, result.mde) == (0.0, 0.0, None)


def test_cases_repeated_within_a_cluster_buy_no_significance():
    parts = micro_f1_parts(12, seed=9)
    once = compare_ratios(*parts, seed=1)
    groups = [f"document {i}" for i in range(12)] * 4
    often = compare_ratios(*[np.tile(part, 4) for part in parts], seed=1, groups=groups)
    assert often.clusters == 12
    assert often.p_value == once.p_value
    assert often.standard_error == pytest.approx(once.standard_error)


def test_a_ratio_over_nothing_is_undefined_unless_the_formula_gives_it_a_value():
    nothing, something = np.zeros(8), np.ones(8)
    undefined = compare_ratios(nothing, nothing, something, something, seed=1)
    assert (undefined.delta, undefined.p_value, undefined.ci_low) == (None, None, None)
    assert undefined.n == 8
    zero = compare_ratios(nothing, nothing, something, something, seed=1, empty=0.0)
    assert zero.delta == 1.0
    assert zero.p_value == pytest.approx(2 / 2**8)


def test_resamples_without_a_denominator_are_left_out():
    """One case in twelve carries a's whole denominator, so about a third of the resamples miss it."""
    denominators_a = np.array([4.0] + [0.0] * 11)
    numerators_a = denominators_a / 2
    denominators_b = np.full(12, 5.0)
    numerators_b = np.arange(12.0) % 6
    result = compare_ratios(numerators_a, denominators_a, numerators_b, denominators_b, seed=1)
    assert result.delta == pytest.approx(0.0)
    assert result.ci_low < 0 < result.ci_high


@pytest.mark.parametrize("n", [0, 1])
def test_no_case_or_one_gives_no_verdict(n):
    result = compare_ratios([1.0] * n, [2.0] * n, [2.0] * n, [2.0] * n, seed=1)
    assert result.delta == (0.5 if n else None)
    assert result.p_value is result.ci_low is result.mde is result.test is None


def test_a_handful_of_cases_gets_students_interval():
    parts = micro_f1_parts(4, seed=10)
    result = compare_ratios(*parts, seed=1)
    reach = stats.t.ppf(0.975, 3) * result.standard_error
    assert result.interval == "student"
    assert (result.ci_low, result.ci_high) == pytest.approx((result.delta - reach, result.delta + reach))


def test_impossible_parts_are_refused_by_name():
    with pytest.raises(ImpossibleValue, match=r"denominators_b\[1\] is -1"):
        compare_ratios([1, 1], [2, 2], [1, 1], [2, -1], seed=1)
    with pytest.raises(UndefinedValue, match=r"numerators_a\[0\]"):
        compare_ratios([np.nan], [2], [1], [2], seed=1)
    with pytest.raises(UnpairedValues, match="numerators_b has 1"):
        compare_ratios([1, 1], [2, 2], [1], [2, 2], seed=1)
    with pytest.raises(ImpossibleOption, match="empty"):
        compare_ratios([1, 1], [2, 2], [1, 1], [2, 2], seed=1, empty=np.nan)
