from __future__ import annotations

import pytest

from eval_pipeline.stats import draw_spot_check, seed_for

SEED = seed_for("night-1", "night-1", "spot check")


@pytest.mark.parametrize(
    ("n_queries", "size"), [(0, 0), (4, 4), (10, 10), (60, 10), (100, 10), (150, 15), (200, 20), (5000, 20)]
)
def test_a_tenth_is_drawn_within_ten_and_twenty_and_never_more_than_there_is(
    n_queries: int, size: int
) -> None:
    drawn = draw_spot_check([f"q{n}" for n in range(n_queries)], seed=SEED)
    assert len(drawn) == len(set(drawn)) == size


def test_the_same_seed_draws_the_same_queries_whatever_their_order() -> None:
    queries = [f"q{n}" for n in range(300)]
    drawn = draw_spot_check(queries, seed=SEED)
    assert drawn == [query for query in queries if query in drawn]
    assert set(draw_spot_check([*reversed(queries), "q0"], seed=SEED)) == set(drawn)
    assert set(draw_spot_check(queries, seed=SEED + 1)) != set(drawn)


def test_every_query_can_be_drawn() -> None:
    queries = [f"q{n}" for n in range(30)]
    assert {query for seed in range(60) for query in draw_spot_check(queries, seed=seed)} == set(queries)
