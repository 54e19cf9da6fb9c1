"""A movement is split so that the parts add up and turn round."""

from __future__ import annotations

import math
import random
from itertools import combinations, permutations

import pytest

from eval_pipeline.stats.shapley import mean_step, steps_of

FACTORS = ("system", "formula", "labels")
WORLDS = [frozenset(chosen) for length in range(4) for chosen in combinations(FACTORS, length)]


def split(values):
    steps, n_orders = steps_of(FACTORS, values)
    known = {world: value or 0.0 for world, value in values.items()}
    return {factor: mean_step(steps[factor], n_orders, known) for factor in FACTORS}


def by_every_order(values):
    """The definition, order by order."""
    changes = {factor: [] for factor in FACTORS}
    for order in permutations(FACTORS):
        way = [values[frozenset(order[:length])] for length in range(4)]
        if None not in way:
            for factor, before, after in zip(order, way, way[1:], strict=False):
                changes[factor].append(after - before)
    return {factor: math.fsum(found) / len(found) for factor, found in changes.items()}


def test_the_terms_of_a_game_reckoned_by_hand():
    reckoned = dict(zip(WORLDS, (0.70, 0.60, 0.80, 0.75, 0.74, 0.70, 0.90, 0.82), strict=True))
    # Of the six orders: system first twice, after each of the others once, last twice; and so on.
    system = (2 * (0.60 - 0.70) + (0.74 - 0.80) + (0.70 - 0.75) + 2 * (0.82 - 0.90)) / 6
    formula = (2 * (0.80 - 0.70) + (0.74 - 0.60) + (0.90 - 0.75) + 2 * (0.82 - 0.70)) / 6
    labels = (2 * (0.75 - 0.70) + (0.70 - 0.60) + (0.90 - 0.80) + 2 * (0.82 - 0.74)) / 6
    assert split(reckoned) == pytest.approx(
        {"system": system, "formula": formula, "labels": labels}, abs=1e-12
    )
    assert [round(one, 6) for one in split(reckoned).values()] == [-0.078333, 0.121667, 0.076667]


@pytest.mark.parametrize("seed", range(20))
def test_random_games_add_up_and_turn_round(seed):
    chance = random.Random(seed)
    values = {world: chance.random() for world in WORLDS}
    found = split(values)
    assert found == pytest.approx(by_every_order(values), abs=1e-12)
    assert math.fsum(found.values()) == pytest.approx(values[WORLDS[-1]] - values[WORLDS[0]], abs=1e-12)
    turned = {world: values[frozenset(FACTORS) - world] for world in WORLDS}
    assert split(turned) == {factor: -change for factor, change in found.items()}


def test_orders_through_a_world_without_value_are_left_out_and_the_rest_adds_up():
    values = {world: len(world) / 10 for world in WORLDS}
    values |= {frozenset(FACTORS): 0.9, frozenset(["system"]): None, frozenset(["formula", "labels"]): None}
    found = split(values)
    assert found == pytest.approx(by_every_order(values), abs=1e-12)
    assert math.fsum(found.values()) == pytest.approx(0.9, abs=1e-12)


def test_without_any_order_that_has_values_nothing_is_said_of_a_factor():
    values = dict.fromkeys(WORLDS, 0.5) | {frozenset([factor]): None for factor in FACTORS}
    steps, n_orders = steps_of(FACTORS, values)
    assert n_orders == 0
    assert all(steps[factor] == [] for factor in FACTORS)
