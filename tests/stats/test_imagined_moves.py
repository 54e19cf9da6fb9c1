"""The interval of a mean difference with two imagined moves, against printed values and against SciPy's Student t."""

from __future__ import annotations

import math
import random
from itertools import groupby

import numpy as np
import pytest

from eval_pipeline.stats.moves import imagined_moves, imagined_queries, sums_of
from eval_pipeline.stats.student import student_quantile, student_tail


def evidence(a, b, reach=1, groups=None):
    a, b = np.array(a, float), np.array(b, float)
    clusters = None if groups is None else np.array(groups)
    spread = max(a.max(), b.max()) - min(a.min(), b.min())
    return imagined_moves(sums_of(b - a, clusters), reach=reach, spread=spread)


def wins_and_losses(wins, losses, n):
    rest = [1] * (n - wins - losses)
    return [0] * wins + [1] * losses + rest, [1] * wins + [0] * losses + rest


FEW = ([1, 0.5, 0, 1, 1 / 3, 0.25, 1, 0, 0.5, 1], [0.5, 0.5, 0, 1, 1 / 3, 1, 1, 0, 0.5, 0])
JUDGED = ([5, 4, 3, 5, 2, 4, 5, 3], [4, 4, 3, 5, 3, 2, 5, 3])
TIMES = ([100, 120, 90, 200, 150, 110], [130, 125, 95, 260, 150, 140])

# Centre, standard error, degrees of freedom, both ends, p.
PRINTED = [
    (wins_and_losses(0, 0, 30), {}, (0, 0.044901, 4, -0.124666, 0.124666, 1)),
    (wins_and_losses(6, 0, 60), {}, (0.096774, 0.044292, 18.0167, 0.003727, 0.189821, 0.042347)),
    (wins_and_losses(5, 14, 200), {}, (-0.044554, 0.022524, 43.2014, -0.089973, 0.000864, 0.054321)),
    (([0.6] * 20, [0.5] * 20), {}, (-0.090909, 0.016933, 2.8453, -0.146493, -0.035325, 0.014470)),
    (FEW, {}, (-0.0625, 0.155014, 8.8767, -0.413910, 0.288910, 0.696347)),
    (
        FEW,
        {"groups": [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]},
        (-0.053571, 0.166161, 6, -0.460153, 0.353010, 0.758083),
    ),
    (JUDGED, {"reach": 5}, (-0.2, 0.484195, 6.5072, -1.362754, 0.962754, 0.692834)),
    (TIMES, {"reach": None}, (16.25, 9.926066, 6.2087, -7.841662, 40.341662, 0.151059)),
]


@pytest.mark.parametrize(("sides", "options", "printed"), PRINTED)
def test_the_printed_values(sides, options, printed):
    found = evidence(*sides, **options)
    interval = found.interval(0.95)
    centre, error, degrees, low, high, p_value = printed
    assert found.degrees == pytest.approx(degrees, abs=5e-5)
    assert (found.centre, found.standard_error, interval.low, interval.high, found.p_value("two-sided")) == (
        pytest.approx((centre, error, low, high, p_value), abs=5.1e-7)
    )


def test_thirty_equal_values_leave_room_for_what_thirty_cannot_show():
    interval = evidence(*wins_and_losses(0, 0, 30)).interval(0.95)
    assert (interval.lower_bound, interval.upper_bound) == pytest.approx((-0.095723, 0.095723), abs=5e-7)


@pytest.mark.parametrize(("right", "n", "printed"), [(22, 24, 0.736088), (30, 30, 0.841913)])
def test_the_printed_values_of_one_run(right, n, printed):
    values = np.array([1.0] * right + [0.0] * (n - right))
    found = imagined_queries(sums_of(values, None), low=0, high=1)
    assert found.interval(0.95).low == pytest.approx(printed, abs=5e-7)
    assert found.delta == right / n


def plainly(differences, reach, clusters, confidence=0.95):
    """The construction once more, unit by unit, with SciPy's t."""
    from scipy import stats

    keyed = sorted(zip(clusters, differences, strict=True))
    units = [[one for _, one in members] for _, members in groupby(keyed, key=lambda pair: pair[0])]
    n, size = len(differences), len(differences) / len(units)
    sums = [math.fsum(one) for one in units]
    moved = [one for one in sums if one]
    typical = math.sqrt(((reach * size) ** 2 + math.fsum(one**2 for one in moved)) / (len(moved) + 1))
    all_n = n + 2 * size
    centre = math.fsum(sums) / all_n
    residuals = [one - centre * len(members) for one, members in zip(sums, units, strict=True)]
    residuals += [typical - centre * size, -typical - centre * size]
    second, fourth = (math.fsum(one**power for one in residuals) for power in (2, 4))
    error = math.sqrt(second * (len(units) + 2) / (len(units) + 1)) / all_n
    degrees = min(len(units) + 1, 2 * second**2 / fourth)
    margin = stats.t.isf((1 - confidence) / 2, degrees) * error
    effect = (stats.t.isf((1 - confidence) / 2, degrees) + stats.t.isf(0.2, degrees)) * error
    ends = [max(-reach, min(reach, end)) for end in (centre - margin, centre + margin)]
    return *ends, 2 * stats.t.sf(abs(centre) / error, degrees), effect if effect <= reach else None


def drawn(seed):
    """Values on many scales, clustered and not."""
    chance = random.Random(seed)
    n, reach = chance.randint(2, 60), chance.choice((1, 5))
    draw = chance.choice((lambda: chance.randint(0, 1), chance.random, lambda: 1 / chance.randint(1, 10)))
    a = [reach * draw() for _ in range(n)]
    b = [reach * draw() if chance.random() < 0.4 else one for one in a]
    clusters = [chance.randrange(max(2, n // 3)) for _ in range(n)] if seed % 2 else list(range(n))
    clusters[:2] = 0, 1
    return a, b, reach, np.unique(clusters, return_inverse=True)[1].tolist()


# Importing what it is held against takes seconds.
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_the_construction_agrees_with_itself_written_plainly(seed):
    a, b, reach, clusters = drawn(seed)
    found = evidence(a, b, reach, clusters)
    interval, p_value = found.interval(0.95), found.p_value("two-sided")
    low, high, p, effect = plainly(np.subtract(b, a).tolist(), reach, clusters)
    assert (interval.low, interval.high, p_value) == pytest.approx((low, high, p), abs=1e-9)
    assert found.detectable(0.95, 0.8, "two-sided") == (None if effect is None else pytest.approx(effect))


@pytest.mark.parametrize("seed", range(40))
def test_the_interval_encloses_the_difference_and_agrees_with_the_p_value(seed):
    a, b, reach, clusters = drawn(seed)
    found = evidence(a, b, reach, clusters)
    interval = found.interval(0.95)
    assert interval.low <= interval.lower_bound <= found.delta <= interval.upper_bound <= interval.high
    assert (found.p_value("two-sided") < 0.05) == (not interval.low <= 0 <= interval.high)


@pytest.mark.parametrize("seed", range(10))
def test_from_b_to_a_is_the_mirror_image(seed):
    a, b, reach, clusters = drawn(2 * seed)
    there, back = evidence(a, b, reach, clusters), evidence(b, a, reach, clusters)
    assert there.interval(0.95).low == -back.interval(0.95).high
    assert there.p_value("two-sided") == back.p_value("two-sided")
    assert there.p_value("less") == back.p_value("greater")


@pytest.mark.parametrize("seed", range(10))
def test_the_order_of_the_queries_changes_no_bit(seed):
    a, b, reach, clusters = drawn(seed)
    order = list(range(len(a)))
    random.Random(seed).shuffle(order)
    shuffled = [[side[place] for place in order] for side in (a, b, clusters)]
    numbers = {old: new for new, old in enumerate(dict.fromkeys(shuffled[2]))}
    again = evidence(*shuffled[:2], reach, [numbers[one] for one in shuffled[2]])
    assert again == evidence(a, b, reach, clusters)


def test_a_query_alone_in_its_cluster_is_a_query():
    assert evidence(*FEW, groups=range(10)) == evidence(*FEW)


def test_moves_that_cancel_each_other_in_a_cluster_are_none():
    found = evidence([0.1, 0.2, 0.3, 0, 0], [0.3, 0.1, 0.2, 0, 1], groups=[0, 0, 0, 1, 2])
    assert found.moved == 1


def test_a_scale_without_ends_has_its_own_moves_alone():
    small, large = evidence(*TIMES, reach=None), evidence(*np.multiply(TIMES, 1e100), reach=None)
    assert large.p_value("two-sided") == pytest.approx(small.p_value("two-sided"), rel=1e-9)
    assert evidence([3.0] * 9, [3.0] * 9, reach=None) is None
    assert evidence([3.0, 4.0] * 9, [3.0, 4.0] * 9, reach=None).p_value("two-sided") == 1


def test_no_interval_goes_further_than_the_scale():
    found = evidence([0] * 4, [1] * 4)
    assert found.interval(0.95).high == 1
    assert evidence([0, 0], [0, 0]).detectable(0.95, 0.8, "two-sided") is None


@pytest.mark.slow
@pytest.mark.parametrize("n", [20, 40])
def test_chance_is_found_once_in_twenty_and_no_less_often_than_by_the_exact_test(n):
    from scipy import stats

    ours, exact = np.zeros(n + 1), np.zeros(n + 1)
    for moved in range(2, n + 1):
        for wins in range(moved // 2):
            both_ends = 2 * stats.binom.pmf(wins, moved, 0.5)
            found = evidence(*wins_and_losses(wins, moved - wins, n))
            ours[moved] += both_ends * (found.p_value("two-sided") < 0.05)
            exact[moved] += both_ends * (2 * stats.binom.cdf(wins, moved, 0.5) < 0.05)
    for share in np.linspace(0.01, 1, 34):
        of_moved = stats.binom.pmf(np.arange(n + 1), n, share)
        assert of_moved @ exact <= of_moved @ ours <= 0.0505


def test_no_p_value_is_nothing():
    found = evidence([0.0] * 5_000, [1.0] * 4_000 + [0.9] * 1_000)
    assert found.p_value("two-sided") == found.p_value("greater") == 1e-15
    assert found.p_value("less") == 1


@pytest.mark.slow
@pytest.mark.parametrize("degrees", [1, 1.3, 2.8453, 6.5072, 18.0167, 99.9, 100.1, 5_000, 123_456.7])
def test_student_t_agrees_with_scipy(degrees):
    from scipy import stats

    for t in (0.01, 0.3, 1, 1.96, 2.5, 5, 12):
        assert student_tail(t, degrees) == pytest.approx(stats.t.sf(t, degrees), rel=1e-9, abs=1e-300)
        assert student_tail(-t, degrees) == pytest.approx(stats.t.sf(-t, degrees), rel=1e-12)
    for tail in (0.5, 0.2, 0.05, 0.025, 0.001, 0.975):
        assert student_quantile(tail, degrees) == pytest.approx(stats.t.isf(tail, degrees), abs=1e-9)
