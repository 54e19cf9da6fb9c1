"""Behind every term of a movement stand the queries that moved it."""

from __future__ import annotations

import math

import pytest

from eval_pipeline.planning.explain import explain_movement
from tests.projects import project_of

RANK = "metrics/reciprocal_rank.sql"
HALVED = (("cast(1 as double)", "cast(0.5 as double)"), ("-- version: 1", "-- version: 2"))
TERMS = ("system", "formula", "labels")


@pytest.fixture
def two_meanings(world):
    """The second run was computed anew by another definition, the first was not."""
    world.overlay(RANK, *HALVED)
    world.compute(everything=True, run_ids={"alpha-2"})
    return world


def test_the_queries_of_every_term_add_up_to_it(two_meanings):
    found = explain_movement(
        project_of(two_meanings.settings, two_meanings.registry), "mrr", ["alpha-1", "alpha-2"]
    )
    assert found["system"] and found["formula"]
    for term in TERMS:
        changes = [entry["change"] for entry in found["contributors"] if entry["term"] == term]
        assert found["n_contributors"][term] == len(changes)
        assert math.fsum(changes) == pytest.approx(found[term], abs=1e-12)


def test_of_equal_shares_those_come_first_that_go_where_the_term_goes(two_meanings):
    found = explain_movement(
        project_of(two_meanings.settings, two_meanings.registry), "mrr", ["alpha-1", "alpha-2"]
    )
    for term in TERMS:
        largest = [entry["change"] for entry in found["contributors"] if entry["term"] == term]
        ties = [change for change in largest if math.isclose(abs(change), abs(largest[0]))]
        along = [change * found[term] > 0 for change in ties]
        assert along == sorted(along, reverse=True)


def test_the_other_way_round_every_term_and_every_query_has_the_other_sign(two_meanings):
    ahead, back = (
        explain_movement(project_of(two_meanings.settings, two_meanings.registry), "mrr", runs)
        for runs in (("alpha-1", "alpha-2"), ("alpha-2", "alpha-1"))
    )
    assert [back[term] for term in (*TERMS, "total")] == [-ahead[term] for term in (*TERMS, "total")]
    assert math.fsum(ahead[term] for term in TERMS) == pytest.approx(ahead["total"], abs=1e-9)
    assert back["n_contributors"] == ahead["n_contributors"]
    assert {(one["query_id"], one["term"]): one["change"] for one in back["contributors"]} == {
        (one["query_id"], one["term"]): -one["change"] for one in ahead["contributors"]
    }
