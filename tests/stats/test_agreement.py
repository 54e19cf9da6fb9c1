"""How far two raters agree beyond chance, and how sure that is."""

from __future__ import annotations

import numpy as np
import pytest
from statsmodels.stats.inter_rater import cohens_kappa

from eval_pipeline.stats import quadratic_kappa
from eval_pipeline.stats.errors import StatisticsInputError


def pairs(n, noise, seed):
    generator = np.random.default_rng(seed)
    first = generator.integers(0, 6, n)
    return first.astype(float), np.clip(first + generator.integers(-noise, noise + 1, n), 0, 5).astype(float)


@pytest.mark.parametrize("seed", range(5))
def test_kappa_and_for_many_pairs_its_interval_are_those_of_statsmodels(seed):
    first, second = pairs(2000, 2, seed)
    table = np.zeros((6, 6))
    np.add.at(table, (first.astype(int), second.astype(int)), 1)
    theirs = cohens_kappa(table, wt="fc")
    found = quadratic_kappa(first, second, reach=5)
    assert found.kappa == pytest.approx(theirs.kappa, abs=1e-12)
    assert found.ci_low == pytest.approx(theirs.kappa_low, abs=0.004)
    assert found.ci_high == pytest.approx(theirs.kappa_upp, abs=0.004)


def test_a_small_sample_without_a_disagreement_does_not_claim_that_there_is_none():
    widths = []
    for n in (20, 40, 200):
        first, _ = pairs(n, 0, 1)
        found = quadratic_kappa(first, first, reach=5)
        assert (found.kappa, found.ci_high) == (1.0, 1.0)
        widths.append(1 - found.ci_low)
    assert widths == sorted(widths, reverse=True)
    assert widths[0] > 0.3
    assert widths[-1] < 0.2


def test_the_interval_encloses_what_is_true_as_often_as_it_says():
    """A rater who is one off in four of ten: quadratic kappa .927 by the probabilities."""
    base = np.array([0.1, 0.1, 0.1, 0.15, 0.2, 0.35])
    table = np.diag(base * 0.6)
    for score in range(6):
        near = [other for other in (score - 1, score + 1) if 0 <= other < 6]
        table[score, near] += base[score] * 0.4 / len(near)
    places = np.arange(6)
    apart = (places[:, None] - places) ** 2
    true = 1 - (table * apart).sum() / (np.outer(table.sum(1), table.sum(0)) * apart).sum()
    generator, held = np.random.default_rng(7), 0
    for _ in range(300):
        first, second = np.divmod(generator.choice(36, 60, p=table.ravel()), 6)
        found = quadratic_kappa(first.astype(float), second.astype(float), reach=5)
        held += found.ci_low <= true <= found.ci_high
    assert held / 300 > 0.93


def test_raters_who_always_say_the_same_say_nothing_about_agreement():
    found = quadratic_kappa([3, 3, 3], [3, 3, 3], reach=5)
    assert (found.kappa, found.ci_low) == (None, None)
    assert found.reason == "both raters always say the same one thing"
    assert quadratic_kappa([1], [1], reach=5).reason == "fewer than 2 items"
    with pytest.raises(StatisticsInputError):
        quadratic_kappa([1, 2], [1], reach=5)
