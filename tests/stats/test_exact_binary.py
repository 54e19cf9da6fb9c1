from __future__ import annotations

import math
from fractions import Fraction

import pytest
from scipy import stats

from eval_pipeline.stats.binary import fair_coin_at_most, sign_test
from eval_pipeline.stats.errors import ImpossibleValue

TABLES = [(0, 1), (1, 0), (3, 3), (5, 1), (0, 6), (12, 3), (40, 25), (100, 100), (700, 620), (5000, 5300)]


@pytest.mark.parametrize(("wins", "losses"), TABLES)
def test_the_sign_test_agrees_with_mcnemar_of_statsmodels(wins, losses):
    # Here and not above: every worker would import it.
    from statsmodels.stats.contingency_tables import mcnemar

    theirs = mcnemar([[10, wins], [losses, 20]], exact=True).pvalue
    assert sign_test(wins, losses) == pytest.approx(theirs, rel=1e-9)


@pytest.mark.parametrize("tosses", [1, 2, 7, 15, 16, 17, 31, 64, 301])
def test_every_tail_equals_the_sum_of_whole_numbers(tosses):
    total = 0
    for heads in range(tosses + 1):
        total += math.comb(tosses, heads)
        exact = float(Fraction(total, 2**tosses))
        assert fair_coin_at_most(heads, tosses) == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("heads", [4000, 4700, 4900, 4999])
def test_a_tail_of_ten_thousand_tosses_keeps_twelve_digits(heads):
    term = total = math.comb(10_000, heads)
    for below in range(heads, 0, -1):
        term = term * below // (10_000 - below + 1)
        total += term
    assert fair_coin_at_most(heads, 10_000) == pytest.approx(float(Fraction(total, 2**10_000)), rel=1e-12)


def test_a_million_disagreements_are_still_counted_exactly():
    theirs = stats.binom.cdf(499_000, 1_000_000, 0.5)
    assert fair_coin_at_most(499_000, 1_000_000) == pytest.approx(theirs, rel=1e-8)


def test_a_p_value_is_never_zero():
    assert 0 < sign_test(100_000, 0) < 1e-300


def test_no_disagreement_gives_p_one():
    assert sign_test(0, 0) == 1.0


def test_negative_counts_are_refused():
    with pytest.raises(ImpossibleValue, match="wins=-1"):
        sign_test(-1, 2)
