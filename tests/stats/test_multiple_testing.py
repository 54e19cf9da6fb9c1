from __future__ import annotations

import numpy as np
import pytest

from eval_pipeline.stats import benjamini_hochberg, holm
from eval_pipeline.stats.errors import ImpossibleValue

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
