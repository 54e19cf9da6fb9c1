from __future__ import annotations

import numpy as np
import pytest

from eval_pipeline.stats.adjust import adjust_by_family, benjamini_hochberg, holm, simes
from eval_pipeline.stats.errors import ImpossibleValue, UnpairedValues

SETS = [
    [0.04],
    [0.01, 0.04, 0.03, 0.005],
    [0.5, 0.5, 0.5],
    [1.0, 0.0, 1.0],
    [0.02, 0.02, 0.9, 0.001, 0.04, 0.04],
    list(np.random.default_rng(1).uniform(size=60) ** 3),
]


# Importing what it is held against takes seconds.
@pytest.mark.slow
@pytest.mark.parametrize("p_values", SETS)
@pytest.mark.parametrize(("ours", "method"), [(holm, "holm"), (benjamini_hochberg, "fdr_bh")])
def test_adjusted_p_values_agree_with_statsmodels(ours, method, p_values):
    # Here and not above: every worker would import it.
    from statsmodels.stats.multitest import multipletests

    assert ours(p_values) == pytest.approx(multipletests(p_values, method=method)[1])


@pytest.mark.parametrize("adjust", [holm, benjamini_hochberg])
def test_an_untested_question_stays_none_and_does_not_count(adjust):
    first, second = adjust([0.01, 0.03])
    assert adjust([None, 0.01, None, 0.03]) == [None, first, None, second]
    assert adjust([None]) == [None]
    assert adjust([]) == []


@pytest.mark.parametrize("adjust", [holm, benjamini_hochberg])
@pytest.mark.parametrize("bad", [-0.1, 1.5, float("nan")])
def test_a_p_value_outside_zero_and_one_is_refused_with_its_place(adjust, bad):
    with pytest.raises(ImpossibleValue, match="p-value 1"):
        adjust([0.5, bad])


@pytest.mark.parametrize("p_values", SETS)
def test_simes_is_the_least_of_the_adjusted(p_values):
    assert simes(p_values) == pytest.approx(min(benjamini_hochberg(p_values)))
    assert simes([*p_values, None]) == simes(p_values)


def test_near_copies_are_one_question():
    copies = [0.016] * 5
    alone = adjust_by_family([0.016, 0.5], ["hits", "answers"])
    assert adjust_by_family([*copies, 0.5], [*["hits"] * 5, "answers"]) == [alone[0]] * 5 + [alone[1]]
    assert benjamini_hochberg([*copies, 0.5])[0] < alone[0] < holm([*copies, 0.5])[0]


def test_nothing_is_surer_than_its_family_nor_than_by_itself():
    p_values, families = [0.001, 0.2, None, 0.04], ["a", "a", "a", "b"]
    for across in (holm, benjamini_hochberg):
        first, second, untested, third = adjust_by_family(p_values, families, across=across)
        assert (first, third) == tuple(across([simes([0.001, 0.2]), 0.04]))
        assert (second, untested) == (0.2, None)


def test_a_family_that_asks_nothing_is_no_question():
    assert adjust_by_family([None, 0.03], ["a", "b"]) == [None, 0.03]
    with pytest.raises(UnpairedValues, match="families has 1"):
        adjust_by_family([0.5, 0.5], ["a"])
