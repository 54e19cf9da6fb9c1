"""Simulations of what the numbers promise: seeded, small, with room for chance."""

from __future__ import annotations

import numpy as np
import pytest

from eval_pipeline.stats import compare_paired, compare_ratios

ROUNDS = 400


def reciprocal_ranks(generator, n):
    ranks = generator.integers(1, 14, size=n)
    return np.where(ranks <= 10, 1 / ranks, 0.0)


def share_of_alarms(generator, draw, **options):
    alarms = 0
    for _ in range(ROUNDS):
        a, b = draw(generator)
        alarms += compare_paired(a, b, **options).p_value <= 0.05
    return alarms / ROUNDS


@pytest.mark.parametrize("alternative", ["two-sided", "less", "greater"])
def test_equal_systems_raise_the_alarm_no_more_often_than_promised(alternative):
    rate = share_of_alarms(
        np.random.default_rng(1),
        lambda generator: (reciprocal_ranks(generator, 40), reciprocal_ranks(generator, 40)),
        scale="fraction",
        alternative=alternative,
    )
    assert 0.02 <= rate <= 0.08


def test_equal_binary_systems_raise_the_alarm_no_more_often_than_promised():
    rate = share_of_alarms(
        np.random.default_rng(2), lambda generator: generator.integers(0, 2, size=(2, 60)), scale="binary"
    )
    assert rate <= 0.06


def test_paraphrases_raise_false_alarms_unless_their_groups_are_named():
    groups = [f"question {i // 6}" for i in range(120)]

    def draw(generator):
        difference = np.repeat(generator.normal(size=20), 6) + 0.2 * generator.normal(size=120)
        return np.zeros(120), difference

    named = share_of_alarms(np.random.default_rng(3), draw, scale="count", groups=groups)
    blind = share_of_alarms(np.random.default_rng(3), draw, scale="count")
    assert named <= 0.08
    assert blind >= 0.25


def test_the_interval_holds_the_true_difference_about_as_often_as_promised():
    generator = np.random.default_rng(4)
    truth, inside, above = np.exp(0.125) - 1.0, 0, 0
    for _ in range(ROUNDS):
        differences = np.exp(generator.normal(0, 0.5, size=60)) - 1.0
        result = compare_paired(np.zeros(60), differences, scale="ms")
        inside += result.ci_low <= truth <= result.ci_high
        above += result.lower_bound <= truth
    assert 0.91 <= inside / ROUNDS <= 0.98
    assert 0.91 <= above / ROUNDS <= 0.98


def test_a_cluster_interval_holds_the_true_difference_about_as_often_as_promised():
    generator = np.random.default_rng(5)
    sizes = np.tile([1, 2, 3, 6], 10)
    groups = np.repeat(np.arange(40), sizes).tolist()
    inside = 0
    for _ in range(ROUNDS):
        differences = np.repeat(generator.normal(0.3, 1, size=40), sizes)
        result = compare_paired(np.zeros(120), differences, scale="count", groups=groups)
        inside += result.ci_low <= 0.3 <= result.ci_high
    assert 0.89 <= inside / ROUNDS <= 0.98


def test_a_pooled_ratio_raises_no_more_alarms_than_promised_and_covers_the_truth():
    generator = np.random.default_rng(6)
    alarms = inside = 0
    for _ in range(ROUNDS):
        fields = generator.integers(1, 12, size=40)
        a, b = generator.binomial(fields, 0.7), generator.binomial(fields, 0.7)
        result = compare_ratios(a, fields, b, fields)
        alarms += result.p_value <= 0.05
        inside += result.ci_low <= 0 <= result.ci_high
    assert alarms / ROUNDS <= 0.08
    assert 0.9 <= inside / ROUNDS <= 0.98
