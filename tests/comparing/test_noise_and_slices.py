"""What moves by itself, which queries flip, which slices moved, and how sure a difference is."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

import numpy as np
import pytest

from eval_pipeline.comparing.documents import Tested as Answer
from eval_pipeline.comparing.noise import RecentRun, identical_runs
from eval_pipeline.comparing.pair_rows import MetricPairs
from eval_pipeline.comparing.pair_states import PAIR_FACTS
from eval_pipeline.comparing.significance import (
    WHOLE_RUN_QUESTIONS,
    Compared,
    between_runs,
    compare_metric,
    entries_of,
    moved_slices,
    questions_of,
    results_of,
)
from eval_pipeline.formulas.registry import load_registry
from eval_pipeline.report.comparison_rows import within_noise
from eval_pipeline.settings import load_settings
from eval_pipeline.stats import RunSpread
from eval_pipeline.stats.binary import sign_test
from tests.comparing.pairs_of_runs import answered, compared, expecting_one, store_of

COMPUTED = [
    *PAIR_FACTS,
    *(f"aggregates.run_metrics:metrics.{name}" for name in ("hit_at_k", "reciprocal_rank", "failures")),
]
NIGHTS = 22
QUERIES = 10


def night_results(night: int) -> dict[str, dict[str, object]]:
    """One query flips from night to night, all others are found every time."""
    return {
        f"q{number:04}": answered(number != 3 or night % 2 == 0, answer={"text": "x"})
        for number in range(QUERIES)
    }


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    runs = {f"night-{night:02}": night_results(night) for night in range(NIGHTS)}
    runs["broken"] = {f"q{number:04}": answered(False) for number in range(QUERIES)}
    runs["repaired"] = night_results(0)
    runs["changed"] = {f"q{number:04}": answered(number > 4) for number in range(QUERIES)}
    described = {run_id: {"commit_hash": "c0ffee"} for run_id in runs}
    described["changed"] = {"commit_hash": "beef"}
    described["repaired"] = {"commit_hash": "c0ffee", "replaces": "broken"}
    folder = tmp_path_factory.mktemp("nights")
    return store_of(folder, expecting_one(QUERIES), runs, described=described, definitions=COMPUTED)


def test_identical_nights_give_every_metric_a_band(settings) -> None:
    document = compared(settings, "repaired", "changed")
    # 22 nights and the repaired one are 22 neighbouring pairs; the broken run was replaced and does not count.
    assert document["identical_pairs"] == {"n": NIGHTS, "needed": 19}
    assert document["noise"]["hit@1"] == {"low": -0.1, "high": 0.1, "pairs": NIGHTS}
    assert document["noise"]["error_rate"] == {"low": 0.0, "high": 0.0, "pairs": NIGHTS}
    assert document["noise"]["scope_miss_rate"] is None
    assert within_noise(document, "hit@1") is False


def test_queries_that_flip_between_identical_nights_are_listed(settings) -> None:
    document = compared(settings, "repaired", "changed")
    assert document["flaky_queries"] == [{"query_id": "q0003", "flips": NIGHTS, "pairs": NIGHTS}]


def test_the_compared_pair_is_no_evidence_of_its_own_noise(settings) -> None:
    document = compared(settings, "night-20", "night-21")
    assert document["identical_pairs"]["n"] == NIGHTS - 2
    assert within_noise(document, "hit@1") is True


def test_nights_after_the_compared_runs_are_not_looked_at(settings) -> None:
    document = compared(settings, "night-01", "night-04")
    assert document["identical_pairs"]["n"] == 4
    assert document["noise"]["hit@1"] is None


def run(number: int, **facts: object) -> RecentRun:
    values = {
        "run_key": number,
        "run_id": f"r{number}",
        "night": dt.date(2026, 9, number),
        "commit_hash": "c",
        "replicate_of": None,
        "is_last_complete": True,
        "chunker_version": "v1",
        "configuration": "{}",
        "judges": {},
        **facts,
    }
    return RecentRun(**values)


def test_only_repetitions_of_one_system_are_pairs() -> None:
    runs = [
        run(1),
        run(2, configuration='{"top_k": 5}'),
        run(3),
        run(4, commit_hash=None),
        run(5, commit_hash=None),
        run(6, commit_hash=None, replicate_of="r5"),
        run(7),
        run(8, commit_hash="d", replicate_of="r7"),
        run(9, replicate_of="gone"),
    ]
    assert identical_runs(runs) == [[1, 3, 7, 8, 9], [2], [4], [5, 6]]


def test_runs_of_different_commits_are_no_repetitions() -> None:
    assert identical_runs([]) == []
    assert identical_runs([run(1), run(2, commit_hash="d")]) == [[1], [2]]


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    return load_registry(load_settings({}, db=tmp_path_factory.mktemp("none") / "e.duckdb"))


@pytest.fixture(scope="module")
def formulas(registry):
    return registry.keys()


def entries_for(registry, compared: list[Compared], metrics: list[str]) -> dict[str, Any]:
    return entries_of(results_of(compared, metrics, groups=None), questions_of(registry))


def pairs(a: list[float | None], b: list[float | None]) -> MetricPairs:
    sides = [np.array([0.0 if value is None else value for value in side]) for side in (a, b)]
    known = [np.array([value is not None for value in side]) for side in (a, b)]
    return MetricPairs(sides[0], sides[1], known[0], known[1])


def test_only_queries_that_both_runs_define_are_tested(registry, formulas) -> None:
    one = Compared("hit@5", formulas["hit@5"], pairs([1, 1, 0, None, 1], [0, 1, 0, 1, None]))
    entry = entries_for(registry, [one], ["hit@5", "mrr"])
    # 0.3333 − 0.6667, as both are printed.
    assert (entry["hit@5"].n, entry["hit@5"].delta) == (3, -0.3334)
    assert entry["hit@5"].test == "imagined_moves"
    assert (entry["mrr"].n, entry["mrr"].p_value, entry["mrr"].adjusted_as) == (0, None, "not tested")


def moved_by(n: int, *, of: int = 40) -> MetricPairs:
    return pairs([1.0] * of, [0.0] * n + [1.0] * (of - n))


def test_what_measures_nearly_the_same_is_asked_once(registry, formulas) -> None:
    """Simes inside a family, Benjamini and Hochberg over families, from the p-values of the keys by themselves."""
    moves = {"hit@5": 10, "hit@10": 10, "mrr": 8, "groundedness": 7, "error_rate": 6}
    compared = [Compared(key, formulas[key], moved_by(n)) for key, n in moves.items()]
    entries = entries_for(registry, compared, list(moves))
    own = {one.metric: compare_metric(one, groups=None).p_value for one in compared}
    retrieval = sorted((own["hit@5"], own["mrr"]))
    families = {
        "retrieval": min(retrieval[0] * 2, retrieval[1]),
        "answers": own["groundedness"],
        "failures": own["error_rate"],
    }
    ranked = sorted(families, key=families.get)
    expected = {
        name: min(families[other] * 3 / (ranked.index(other) + 1) for other in ranked[ranked.index(name) :])
        for name in families
    }
    for key in ("hit@5", "mrr", "groundedness", "error_rate"):
        family = entries[key].family
        assert entries[key].p_adjusted == pytest.approx(max(own[key], expected[family]), rel=1e-5), key
        assert entries[key].adjusted_as is None
    assert (entries["hit@10"].p_adjusted, entries["hit@10"].adjusted_as) == (None, "part of hit@5")
    assert entries["hit@10"].p_value == pytest.approx(own["hit@10"], rel=1e-5)


def test_where_too_few_moved_nothing_is_asked(registry, formulas) -> None:
    few = Compared("hit@5", formulas["hit@5"], moved_by(5))
    enough = Compared("mrr", formulas["mrr"], moved_by(6))
    entries = entries_for(registry, [few, enough], ["hit@5", "mrr"])
    assert (entries["hit@5"].p_adjusted, entries["hit@5"].adjusted_as) == (None, "too few moved")
    assert entries["hit@5"].ci_low is not None
    assert entries["mrr"].p_adjusted == entries["mrr"].p_value


def test_values_that_were_computed_from_the_same_bytes_leave_no_room_and_ask_nothing(
    registry, formulas
) -> None:
    same = Compared("hit@5", formulas["hit@5"], pairs([1.0] * 12, [1.0] * 12), is_identical=True)
    moved = Compared("mrr", formulas["mrr"], moved_by(6))
    entries = entries_for(registry, [same, moved], ["hit@5", "mrr"])
    entry = entries["hit@5"]
    assert (entry.test, entry.ci_low, entry.ci_high, entry.p_value) == ("identical", 0, 0, 1)
    assert (entry.is_identical, entry.p_adjusted, entry.adjusted_as) == (True, None, "identical")
    assert entries["mrr"].p_adjusted == entries["mrr"].p_value


def test_times_are_judged_by_the_spread_between_runs(registry) -> None:
    before = [100.0, 200.0, 400.0, 800.0, 100.0, 200.0, 400.0, 800.0]
    times = Compared(
        "latency_total_ms", registry.get("latency"), pairs(before, [1.5 * time for time in before])
    )
    result = compare_metric(times, groups=None)

    def judged(deviation: float) -> Answer:
        spread = between_runs(result, RunSpread(deviation, 5))
        return entries_of({"latency_mean_ms": spread}, WHOLE_RUN_QUESTIONS)["latency_mean_ms"]

    # ln 1.5 = 0.405; t for 5 degrees of freedom is 2.57 at 5 %, and two runs differ by √2 times the deviation.
    assert (judged(0.05).verdict, judged(0.15).verdict) == ("worse", "not shown")
    entry = judged(0.05)
    assert entry.ratio == pytest.approx(1.5, abs=1e-4)
    assert entry.ratio_high == pytest.approx(1.5 * math.exp(2.5706 * 0.05 * math.sqrt(2)), abs=1e-3)
    assert entry.delta == pytest.approx(sum(before) * 0.5 / 8, abs=1e-4)
    unknown = entries_of({"latency_mean_ms": between_runs(result, None)}, WHOLE_RUN_QUESTIONS)[
        "latency_mean_ms"
    ]
    assert (unknown.verdict, unknown.p_value, unknown.ratio_high) == (None, None, None)


def test_paraphrases_of_one_question_are_one_piece_of_evidence(formulas) -> None:
    one = Compared("hit@5", formulas["hit@5"], pairs([1.0] * 12, [0.0] * 12))
    alone = compare_metric(one, groups=None)
    grouped = compare_metric(one, groups=["g1"] * 6 + ["g2"] * 6)
    assert alone.p_value is not None and grouped.p_value is not None
    assert alone.p_value < 0.05 and grouped.p_value > 0.05
    assert grouped.clusters == 2


def test_slices_are_ranked_by_how_sure_their_movement_is(formulas) -> None:
    a, b = [1.0] * 40, [0.0] * 12 + [1.0] * 28
    one = Compared("hit@5", formulas["hit@5"], pairs(a, b))
    slices = {
        ("tag", "sunk"): np.arange(12),
        ("tag", "half"): np.arange(8, 24),
        ("tag", "calm"): np.arange(20, 40),
        ("tag", "tiny"): np.arange(4),
    }
    found = moved_slices([one], slices, groups=None)
    assert [entry["slice_value"] for entry in found] == ["sunk", "half"]
    assert (found[0]["n_queries"], found[0]["delta"], found[0]["metric"]) == (12, -1.0, "hit@5")
    # Only one of the four slices has enough movement to be tested at all, so nothing is lost to adjustment.
    assert found[0]["p_adjusted"] == pytest.approx(sign_test(0, 12), rel=1e-5)
    assert [one["test"] for one in found[:2]] == ["sign_exact", None]
    assert found[1]["p_adjusted"] is None


def test_a_group_whose_moves_cancel_each_other_did_not_move_in_a_slice(formulas) -> None:
    # .1 + .2 - .3 is 0 on paper. Five groups that moved are too few for a test.
    cancelled, moved = [0.1, 0.2, 0.0], [1.0, 1.0, 0.3]
    a = [0.0, 0.0, 0.3] * 17
    one = Compared("mrr", formulas["mrr"], pairs([*a, 0.0], [*cancelled * 12, *moved * 5, 0.0]))
    slices = {("tag", "most"): np.arange(51)}
    (found,) = moved_slices([one], slices, groups=[f"g{number // 3}" for number in range(52)])
    assert found["delta"] == pytest.approx(5 * 2 / 51, abs=1e-4)
    assert found["p_value"] is None


def test_a_slice_stands_once_with_its_surest_metric(formulas) -> None:
    sunk = pairs([1.0] * 11, [0.0] * 10 + [1.0])
    partly = pairs([1.0] * 11, [0.0] * 7 + [1.0] * 4)
    found = moved_slices(
        [Compared("hit@1", formulas["hit@1"], partly), Compared("hit@5", formulas["hit@5"], sunk)],
        {("tag", "most"): np.arange(10)},
        groups=None,
    )
    assert [entry["metric"] for entry in found] == ["hit@5"]


def test_a_slice_that_holds_every_query_is_no_part_of_the_whole(formulas) -> None:
    one = Compared("hit@5", formulas["hit@5"], pairs([1.0] * 12, [0.0] * 12))
    slices = {("tag", "(none)"): np.arange(12), ("difficulty", "hard"): np.arange(11)}
    assert [entry["slice"] for entry in moved_slices([one], slices, groups=None)] == ["difficulty"]
