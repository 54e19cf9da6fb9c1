from __future__ import annotations

import numpy as np
import pytest

from eval_pipeline.stats import compare_paired, compare_ratios
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
    result = compare_ratios(*parts)
    assert result.delta == pytest.approx(difference(parts))
    assert result.ci_low < result.lower_bound < result.delta < result.upper_bound < result.ci_high
    assert (result.n, result.test, result.interval) == (60, "imagined_moves", "imagined_moves")


def test_a_case_counts_by_how_far_it_moves_the_ratios():
    """The mean of what every case pulls is the difference, and its spread that of the ratios without a case."""
    parts = micro_f1_parts(200, seed=2)
    result = compare_ratios(*parts)
    left_out = [difference([np.delete(part, case) for part in parts]) for case in range(200)]
    jackknife = np.sqrt(199 / 200 * np.sum((np.array(left_out) - np.mean(left_out)) ** 2))
    assert result.standard_error == pytest.approx(jackknife, rel=0.03)
    assert result.moved == np.count_nonzero(np.any(np.array(parts[:2]) != np.array(parts[2:]), axis=0))


def test_a_ratio_of_equal_denominators_is_a_mean():
    a, b = np.array([3.0, 4, 0, 5, 2, 1, 4]), np.array([4.0, 4, 1, 5, 3, 0, 5])
    five = np.full(7, 5.0)
    as_ratio, as_mean = compare_ratios(a, five, b, five), compare_paired(a / 5, b / 5, scale="fraction")
    assert as_ratio.ci_low == pytest.approx(as_mean.ci_low)
    assert as_ratio.p_value == pytest.approx(as_mean.p_value)
    assert as_ratio.mde == pytest.approx(as_mean.mde)


def test_the_order_of_the_cases_does_not_change_a_bit():
    parts = micro_f1_parts(150, seed=7)
    groups = np.array([f"source {i // 5}" for i in range(150)])
    order = np.random.default_rng(1).permutation(150)
    for labels in (None, groups):
        given = compare_ratios(*parts, groups=None if labels is None else list(labels))
        mixed = compare_ratios(
            *[part[order] for part in parts],
            groups=None if labels is None else list(labels[order]),
        )
        assert repr(mixed) == repr(given)


def test_equal_counts_leave_the_room_that_so_few_cases_cannot_rule_out():
    parts = micro_f1_parts(30, seed=8)
    result = compare_ratios(*parts[:2], *parts[:2])
    assert result.ci_low < result.delta == 0.0 < result.ci_high
    assert (result.p_value, result.moved) == (1.0, 0)
    same = compare_ratios(*parts[:2], *parts[:2], identical=True)
    assert (same.test, same.ci_low, same.ci_high) == ("identical", 0.0, 0.0)
    with pytest.raises(ImpossibleOption, match="identical"):
        compare_ratios(*parts, identical=True)


def test_cases_repeated_within_a_cluster_buy_no_significance():
    parts = micro_f1_parts(12, seed=9)
    once = compare_ratios(*parts)
    groups = [f"document {i}" for i in range(12)] * 4
    often = compare_ratios(*[np.tile(part, 4) for part in parts], groups=groups)
    assert often.clusters == 12
    assert often.p_value == pytest.approx(once.p_value)
    assert often.standard_error == pytest.approx(once.standard_error)


def test_a_ratio_over_nothing_is_undefined_unless_the_formula_gives_it_a_value():
    nothing, something = np.zeros(8), np.ones(8)
    undefined = compare_ratios(nothing, nothing, something, something)
    assert (undefined.delta, undefined.p_value, undefined.ci_low) == (None, None, None)
    assert (undefined.n, undefined.reason) == (8, "the denominators of a side add up to 0")
    zero = compare_ratios(nothing, nothing, something, something, empty=0.0)
    assert zero.delta == 1.0
    assert zero.p_value < 0.05


@pytest.mark.parametrize("n", [0, 1])
def test_no_case_or_one_gives_no_verdict(n):
    result = compare_ratios([1.0] * n, [2.0] * n, [2.0] * n, [2.0] * n)
    assert result.delta == (0.5 if n else None)
    assert result.p_value is result.ci_low is result.mde is result.test is None


def test_impossible_parts_are_refused_by_name():
    with pytest.raises(ImpossibleValue, match=r"denominators_b\[1\] is -1"):
        compare_ratios([1, 1], [2, 2], [1, 1], [2, -1])
    with pytest.raises(UndefinedValue, match=r"numerators_a\[0\]"):
        compare_ratios([np.nan], [2], [1], [2])
    with pytest.raises(UnpairedValues, match="numerators_b has 1"):
        compare_ratios([1, 1], [2, 2], [1], [2, 2])
    with pytest.raises(ImpossibleOption, match="empty"):
        compare_ratios([1, 1], [2, 2], [1, 1], [2, 2], empty=np.nan)
