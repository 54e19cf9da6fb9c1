from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import optimize, stats

from eval_pipeline.stats.binary import (
    fair_coin_at_most,
    mcnemar_exact,
    paired_proportions_interval,
    paired_score,
)
from eval_pipeline.stats.errors import ImpossibleValue

TABLES = [(0, 1), (1, 0), (3, 3), (5, 1), (0, 6), (12, 3), (40, 25), (100, 100), (700, 620), (5000, 5300)]


@pytest.mark.parametrize(("wins", "losses"), TABLES)
def test_two_sided_mcnemar_agrees_with_statsmodels(wins, losses):
    # Here and not above: every worker would import it.
    from statsmodels.stats.contingency_tables import mcnemar

    theirs = mcnemar([[10, wins], [losses, 20]], exact=True).pvalue
    assert mcnemar_exact(wins, losses) == pytest.approx(theirs, rel=1e-9)


@pytest.mark.parametrize("alternative", ["less", "greater"])
@pytest.mark.parametrize(("wins", "losses"), TABLES)
def test_one_sided_mcnemar_agrees_with_the_binomial_test(wins, losses, alternative):
    theirs = stats.binomtest(wins, wins + losses, 0.5, alternative=alternative).pvalue
    assert mcnemar_exact(wins, losses, alternative=alternative) == pytest.approx(theirs, rel=1e-9)


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
    assert 0 < mcnemar_exact(100_000, 0) < 1e-300


def test_no_disagreement_gives_p_one():
    assert mcnemar_exact(0, 0) == 1.0


def test_negative_or_too_many_counts_are_refused():
    with pytest.raises(ImpossibleValue, match="wins=-1"):
        mcnemar_exact(-1, 2)
    with pytest.raises(ImpossibleValue, match="n=5"):
        paired_proportions_interval(4, 2, 5)
    with pytest.raises(ImpossibleValue, match="n is 0"):
        paired_proportions_interval(0, 0, 0)


def _score_by_maximising_the_likelihood(wins, losses, n, null_delta):
    """The score statistic with the share of losses found by a numeric search instead of the closed form."""

    def negative_log_likelihood(share):
        cells = [(wins, share + null_delta), (losses, share), (n - wins - losses, 1 - 2 * share - null_delta)]
        return -sum(count * math.log(max(chance, 1e-300)) for count, chance in cells if count)

    low, high = max(0.0, -null_delta), (1 - null_delta) / 2
    share = optimize.minimize_scalar(
        negative_log_likelihood, bounds=(low, high), method="bounded", options={"xatol": 1e-12}
    ).x
    return (wins - losses - n * null_delta) / math.sqrt(n * (2 * share + null_delta - null_delta**2))


@pytest.mark.parametrize("null_delta", [-0.6, -0.1, 0.02, 0.3, 0.8])
@pytest.mark.parametrize(("wins", "losses", "n"), [(5, 2, 20), (0, 4, 30), (9, 1, 12), (30, 31, 400)])
def test_the_score_statistic_uses_the_most_likely_proportions(wins, losses, n, null_delta):
    theirs = _score_by_maximising_the_likelihood(wins, losses, n, null_delta)
    assert paired_score(wins, losses, n, null_delta=null_delta) == pytest.approx(theirs, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize(("wins", "losses", "n"), [(5, 2, 20), (0, 4, 30), (9, 1, 12), (310, 280, 4000)])
def test_the_interval_ends_where_the_score_test_turns(wins, losses, n):
    interval = paired_proportions_interval(wins, losses, n)
    for end, level in [
        (interval.low, 0.975),
        (interval.high, 0.975),
        (interval.lower_bound, 0.95),
        (interval.upper_bound, 0.95),
    ]:
        statistic = abs(paired_score(wins, losses, n, null_delta=end))
        assert statistic == pytest.approx(stats.norm.ppf(level), rel=1e-6)


def test_swapping_the_runs_mirrors_the_interval():
    forth, back = paired_proportions_interval(9, 2, 40), paired_proportions_interval(2, 9, 40)
    assert (forth.low, forth.high) == pytest.approx((-back.high, -back.low))
    assert (forth.lower_bound, forth.upper_bound) == pytest.approx((-back.upper_bound, -back.lower_bound))


def test_an_interval_of_all_wins_reaches_one_and_is_no_point():
    interval = paired_proportions_interval(5, 0, 5)
    assert interval.high == 1.0
    assert interval.low < 0.8


@pytest.mark.parametrize(("win_share", "loss_share"), [(0.05, 0.05), (0.2, 0.1), (0.3, 0.02), (0.01, 0.01)])
def test_the_interval_covers_the_truth_as_often_as_promised(win_share, loss_share):
    """Exact: every table of 25 pairs with its probability, no simulation."""
    n, truth, covered = 25, win_share - loss_share, 0.0
    for wins in range(n + 1):
        for losses in range(n - wins + 1):
            counts = [wins, losses, n - wins - losses]
            chance = stats.multinomial.pmf(counts, n, [win_share, loss_share, 1 - win_share - loss_share])
            if chance > 1e-9:
                interval = paired_proportions_interval(wins, losses, n)
                covered += chance * (interval.low <= truth <= interval.high)
    assert 0.93 <= covered <= 1.0


def test_a_large_interval_approaches_the_textbook_one():
    wins, losses, n = 6000, 5500, 100_000
    interval = paired_proportions_interval(wins, losses, n)
    delta = (wins - losses) / n
    error = math.sqrt((wins + losses) / n - delta**2) / math.sqrt(n)
    expected = np.array([delta - 1.959964 * error, delta + 1.959964 * error])
    assert np.allclose([interval.low, interval.high], expected, atol=1e-6)
