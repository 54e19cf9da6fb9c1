"""What a comparison says of one query, from its ranks alone."""

from __future__ import annotations

from typing import Any

import pytest

from eval_pipeline.comparing.verdicts import (
    KINDS,
    ComparisonOptions,
    Cutoffs,
    QueryFacts,
    count_kinds,
    deltas_of,
    judge_queries,
    rank_summary,
)
from eval_pipeline.errors import InvalidConfig
from eval_pipeline.words import rounded


def judged(rank_a: int | None, rank_b: int | None, **facts: Any) -> dict[str, Any]:
    options = ComparisonOptions(**facts.pop("options", {}))
    causes = facts.pop("causes", [])
    known = {"is_expecting": True, "is_comparable": True, **facts}
    return judge_queries([QueryFacts("q", rank_a=rank_a, rank_b=rank_b, **known)], causes, options)[0]


@pytest.mark.parametrize(
    ("rank_a", "rank_b", "kind"),
    [
        (None, 1, "win"),
        (1, None, "loss"),
        (3, 3, "draw"),
        (None, None, "draw"),
        (5, 2, "rank_up"),
        (2, 5, "rank_down"),
        (11, 1, "win"),
        (10, 11, "loss"),
        (11, 12, "draw"),
    ],
)
def test_the_kind_follows_from_the_ranks_within_ten(rank_a, rank_b, kind) -> None:
    assert judged(rank_a, rank_b)["kind"] == kind


def test_ranks_beyond_ten_are_shown_as_not_found() -> None:
    entry = judged(11, 10)
    assert (entry["a_hit_rank"], entry["b_hit_rank"]) == (None, 10)


def test_a_query_without_expected_chunks_is_not_applicable_and_has_no_ranks() -> None:
    entry = judged(1, None, is_expecting=False, regressed_chunk_ids=["c"])
    assert (entry["kind"], entry["regression"], entry["a_hit_rank"]) == ("not_applicable", False, None)


def test_a_query_that_cannot_be_matched_is_never_a_draw() -> None:
    entry = judged(None, None, is_comparable=False)
    assert entry["kind"] == "not_comparable"


def test_a_regression_is_a_flag_beside_any_kind() -> None:
    better = judged(4, 1, regressed_chunk_ids=["c2"])
    assert (better["kind"], better["regression"], better["regressed_chunk_ids"]) == ("rank_up", True, ["c2"])
    assert judged(1, 1, regressed_chunk_ids=["c2"])["kind"] == "draw"
    assert judged(1, 1)["regression"] is False


def test_the_note_names_causes_in_order_and_then_errors() -> None:
    entry = judged(1, 1, causes=["chunker version diff", "prompt diff"], error_a=True, error_b=True)
    assert entry["note"] == "chunker version diff; prompt diff; error in a; error in b"
    assert judged(1, 1, error_b=True)["note"] == "error in b"
    assert judged(1, 1)["note"] is None


def test_a_change_of_rank_can_be_read_as_a_win_or_as_a_draw() -> None:
    assert judged(5, 2, options={"rank_change": "win_loss"})["kind"] == "win"
    assert judged(2, 5, options={"rank_change": "win_loss"})["kind"] == "loss"
    assert judged(2, 5, options={"rank_change": "draw"})["kind"] == "draw"


def test_a_regression_can_be_read_as_a_kind_of_its_own_and_is_counted_once() -> None:
    entry = judged(1, None, regressed_chunk_ids=["c"], options={"regression_kind": "exclusive"})
    counts = count_kinds([entry])
    assert entry["kind"] == "regression"
    assert counts["regressions"] == 1 and sum(counts[kind] for kind in KINDS) == 0


def test_another_k_moves_the_cut() -> None:
    assert judged(4, 2, options={"compare_k": 3})["kind"] == "win"


def test_counts_may_overlap_but_every_query_has_one_kind() -> None:
    entries = [
        judged(1, None, regressed_chunk_ids=["c"]),
        judged(1, 1, regressed_chunk_ids=["d"]),
        judged(1, 1),
    ]
    counts = count_kinds(entries)
    assert (counts["loss"], counts["draw"], counts["regressions"]) == (1, 2, 2)
    assert sum(counts[kind] for kind in KINDS) == len(entries)


@pytest.mark.parametrize(
    ("old", "new", "delta"),
    [(0.3333, 0.6667, 0.3334), (0.5, 0.5, 0.0), (None, 0.5, None), (0.5, None, None), (0.3, 0.1, -0.2)],
)
def test_a_delta_is_the_rounded_difference_of_rounded_values(old, new, delta) -> None:
    assert deltas_of({"mrr": old}, {"mrr": new}) == {"mrr": delta}


def test_zero_has_no_sign_and_nan_is_nothing() -> None:
    assert str(rounded(-0.00001)) == "0.0"
    assert rounded(float("nan")) is None and rounded(float("inf")) is None


def test_a_summary_of_ranks_ends_at_the_cutoffs() -> None:
    to_ten = Cutoffs((1, 5), 10)
    assert rank_summary([1, 4, 11, None], to_ten) == {"hit@1": 0.25, "hit@5": 0.5, "mrr": 0.3125}
    assert rank_summary([1, 4, 11, None], Cutoffs((), None)) == {"mrr": 0.3352}
    assert rank_summary([], to_ten) == {"hit@1": None, "hit@5": None, "mrr": None}


@pytest.mark.parametrize(
    "options",
    [{"rank_change": "up"}, {"compare_k": 0}, {"overlap_threshold": 0.0}, {"overlap_basis": "union"}],
)
def test_a_reading_nobody_declared_is_refused(options) -> None:
    with pytest.raises(InvalidConfig, match="allowed"):
        ComparisonOptions(**options)
