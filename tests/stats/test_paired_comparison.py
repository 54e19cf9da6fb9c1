from __future__ import annotations

import dataclasses
import math
import os
import subprocess
import sys

import numpy as np
import pytest

from eval_pipeline.stats import compare_paired, mean_of_run, seed_for
from eval_pipeline.stats.errors import ImpossibleOption, ImpossibleValue, UndefinedValue, UnpairedValues
from eval_pipeline.stats.student import student_quantile

SCALES = ["binary", "fraction", "ordinal", "count", "ms"]
INTERVAL_FIELDS = ["ci_low", "ci_high", "lower_bound", "upper_bound"]


def two_runs(scale, n=120, seed=0, shift=0.1):
    """Values of one metric for two runs that differ on about half of the queries."""
    generator = np.random.default_rng(seed)
    quality = generator.random((2, n)) + np.array([[0.0], [shift]])
    quality[1] = np.where(generator.random(n) < 0.5, quality[0], quality[1])
    match scale:
        case "binary":
            return (quality > 0.6).astype(float)
        case "fraction":
            return np.round(np.minimum(quality, 1) * 4) / 4
        case "ordinal":
            return np.round(np.minimum(quality, 1) * 5)
        case "count":
            return np.round(quality * 20)
        case _:
            return np.exp(quality * 3)


@pytest.mark.parametrize("scale", SCALES)
def test_every_scale_is_compared_in_one_way(scale):
    a, b = two_runs(scale)
    result = compare_paired(a, b, scale=scale)
    assert (result.test, result.interval, result.n) == ("imagined_moves", "imagined_moves", 120)
    assert result.delta == pytest.approx(np.mean(b) - np.mean(a))
    assert result.ci_low < result.delta < result.ci_high
    assert result.moved == np.count_nonzero(a - b)
    assert 0 < result.p_value <= 1
    assert result.mde > 0
    assert result.reason is None


def test_seed_and_resamples_of_earlier_versions_change_nothing():
    a, b = two_runs("fraction")
    assert compare_paired(a, b, scale="fraction", seed=7, resamples=5) == compare_paired(
        a, b, scale="fraction"
    )


@pytest.mark.parametrize(("scale", "reach"), [("binary", 1), ("fraction", 1), ("ordinal", 5)])
def test_a_scale_has_its_width_unless_another_is_given(scale, reach):
    a, b = two_runs(scale)
    given = compare_paired(a, b, scale=scale, reach=reach)
    assert given == compare_paired(a, b, scale=scale) != compare_paired(a, b, scale=scale, reach=2 * reach)


@pytest.mark.parametrize("scale", ["count", "ms"])
def test_times_and_counts_have_no_end(scale):
    a, b = two_runs(scale)
    assert compare_paired(a, b, scale=scale, reach=None) == compare_paired(a, b, scale=scale)


@pytest.mark.parametrize("scale", SCALES)
def test_runs_that_are_the_same_to_the_byte_leave_no_room(scale):
    a, _ = two_runs(scale)
    result = compare_paired(a, a, scale=scale, alternative="greater", identical=True)
    assert (result.test, result.p_value, result.delta, result.moved) == ("identical", 1.0, 0.0, 0)
    assert [getattr(result, field) for field in INTERVAL_FIELDS] == [0.0] * 4


@pytest.mark.parametrize("scale", SCALES)
def test_equal_values_leave_the_room_that_so_few_queries_cannot_rule_out(scale):
    a, _ = two_runs(scale)
    few, many = (compare_paired(np.tile(a, n), np.tile(a, n), scale=scale) for n in (1, 25))
    assert few.ci_low < few.delta == 0.0 < few.ci_high
    assert few.p_value == 1.0
    assert 24 < few.ci_high / many.ci_high < 26


def test_thirty_equal_values_follow_the_rule_of_three():
    result = compare_paired([1.0] * 30, [1.0] * 30, scale="binary")
    assert result.upper_bound == pytest.approx(3 / 30, rel=0.05)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize(("n", "reason"), [(0, "no query on which both"), (1, "one query")])
def test_no_query_or_one_answers_nothing_but_the_difference(scale, n, reason):
    result = compare_paired([0.0] * n, [1.0] * n, scale=scale)
    answered = {k: v for k, v in dataclasses.asdict(result).items() if v is not None}
    assert answered.pop("reason").startswith(reason)
    expected = {"n": n, "confidence": 0.95, "alternative": "two-sided"} | (
        {"a": 0.0, "b": 1.0, "delta": 1.0} if n else {}
    )
    assert answered == expected


def test_equal_values_on_a_scale_without_ends_say_nothing():
    result = compare_paired([3.0] * 9, [3.0] * 9, scale="ms")
    assert (result.delta, result.p_value, result.ci_low, result.mde) == (0.0, None, None, None)
    assert "all values are equal" in result.reason


def test_values_beyond_their_range_stay_inside_the_interval():
    result = compare_paired([0.0] * 5, [3.0] * 5, scale="fraction")
    assert result.ci_low < result.delta == 3.0 <= result.ci_high


def test_times_are_also_compared_by_how_many_times_as_long_they_are():
    generator = np.random.default_rng(1)
    a = generator.lognormal(6, 1, 400)
    b = a * 1.3 * generator.lognormal(0, 0.1, 400)
    result = compare_paired(a, b, scale="ms")
    assert result.ratio == pytest.approx(math.exp(np.mean(np.log(b / a))))
    assert 1.27 < result.ratio_low < result.ratio < result.ratio_high < 1.33
    assert result.ratio_p == 1e-15 < result.p_value
    back = compare_paired(b, a, scale="ms")
    assert back.ratio_low == pytest.approx(1 / result.ratio_high)
    assert compare_paired([0.0, *a], [1.0, *b], scale="ms").ratio is None
    assert compare_paired(a, b, scale="count").ratio is None


def test_the_detectable_effect_is_what_is_found_four_times_in_five():
    a, b = two_runs("fraction", n=400)
    result = compare_paired(a, b, scale="fraction")
    shares = [student_quantile(tail, result.degrees) for tail in (0.025, 0.05, 0.2)]
    assert result.mde == pytest.approx((shares[0] + shares[2]) * result.standard_error)
    one_sided = compare_paired(a, b, scale="fraction", alternative="less")
    assert one_sided.mde == pytest.approx((shares[1] + shares[2]) * result.standard_error)


def test_three_queries_could_have_shown_nothing():
    assert compare_paired([0, 1, 0], [1, 1, 0], scale="binary").mde is None


@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize("scale", SCALES)
def test_the_order_of_the_queries_does_not_change_a_bit(scale, clustered):
    a, b = two_runs(scale, n=300)
    groups = np.array([f"topic {i // 4}" for i in range(300)])
    expected = compare_paired(a, b, scale=scale, groups=list(groups) if clustered else None)
    for shuffle in range(3):
        order = np.random.default_rng(shuffle).permutation(300)
        labels = list(groups[order]) if clustered else None
        again = compare_paired(a[order], b[order], scale=scale, groups=labels)
        assert repr(again) == repr(expected)


@pytest.mark.needs_process
def test_another_process_with_other_threads_gives_the_same_bytes():
    program = (
        "import numpy as np\n"
        "from eval_pipeline.stats import compare_paired\n"
        "values = np.random.default_rng(1).normal(size=(2, 30_000))\n"
        "labels = [f'g{i % 9000}' for i in range(30_000)]\n"
        "for groups in (None, labels):\n"
        "    print(compare_paired(*values, scale='ms', groups=groups))"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"OPENBLAS_NUM_THREADS": threads, "PYTHONHASHSEED": threads},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for threads in ("1", "2")
    }
    assert len(outputs) == 1
    assert outputs.pop().count("PairedResult") == 2


@pytest.mark.parametrize("scale", SCALES)
def test_swapping_the_runs_turns_the_sign(scale):
    a, b = two_runs(scale, n=12)
    forth = compare_paired(a, b, scale=scale, alternative="greater")
    back = compare_paired(b, a, scale=scale, alternative="less")
    assert back.delta == -forth.delta
    assert back.p_value == forth.p_value
    assert back.standard_error == forth.standard_error


@pytest.mark.parametrize("scale", SCALES)
def test_one_sided_bounds_lie_within_the_two_sided_interval_of_the_same_confidence(scale):
    a, b = two_runs(scale)
    result = compare_paired(a, b, scale=scale)
    assert result.ci_low < result.lower_bound < result.delta < result.upper_bound < result.ci_high
    wider = compare_paired(a, b, scale=scale, confidence=0.9)
    assert wider.ci_low == pytest.approx(result.lower_bound)
    assert wider.ci_high == pytest.approx(result.upper_bound)


def test_a_clear_gain_is_significant_one_way_and_not_the_other():
    a, b = two_runs("fraction", n=400, shift=0.4)
    up, down = (compare_paired(a, b, scale="fraction", alternative=x) for x in ("greater", "less"))
    assert up.p_value < 0.001
    assert down.p_value > 0.99


def test_asking_every_question_five_times_buys_no_significance():
    a, b = two_runs("fraction", n=10, shift=0.6)
    once = compare_paired(a, b, scale="fraction")
    groups = [f"question {i}" for i in range(10)] * 5
    often = compare_paired(np.tile(a, 5), np.tile(b, 5), scale="fraction", groups=groups)
    assert (often.n, often.clusters) == (50, 10)
    assert often.p_value == pytest.approx(once.p_value)
    assert often.standard_error == pytest.approx(once.standard_error)
    assert often.ci_low == pytest.approx(once.ci_low)
    blind = compare_paired(np.tile(a, 5), np.tile(b, 5), scale="fraction")
    assert blind.standard_error < 0.5 * often.standard_error


def test_queries_without_a_group_stand_alone():
    a, b = two_runs("binary")
    without = compare_paired(a, b, scale="binary")
    for groups in ([None] * 120, list(range(120)), [None, "x", *range(118)]):
        assert compare_paired(a, b, scale="binary", groups=groups) == without
    paired_up = compare_paired(a, b, scale="binary", groups=["same", "same"] + [None] * 118)
    assert paired_up.clusters == 119


def test_a_single_cluster_says_nothing_about_any_other():
    a, b = two_runs("fraction")
    result = compare_paired(a, b, scale="fraction", groups=["all"] * 120)
    assert result.delta == pytest.approx(np.mean(b - a))
    assert (result.clusters, result.p_value, result.ci_low, result.test) == (1, None, None, None)


def test_one_run_alone_has_an_interval_too():
    right = mean_of_run([1.0] * 30, low=0, high=1)
    assert (right.n, right.mean, right.ci_high) == (30, 1.0, 1.0)
    assert right.ci_low == pytest.approx(0.841913, abs=5e-7)
    times = mean_of_run([100.0, 200.0, 300.0])
    assert times.ci_low < times.mean == 200.0 < times.ci_high
    assert "one query" in mean_of_run([1.0], low=0, high=1).reason
    assert "all values are equal" in mean_of_run([5.0, 5.0]).reason


@pytest.mark.parametrize("bad", [np.nan, np.inf, None])
def test_an_undefined_value_is_refused_with_its_place(bad):
    with pytest.raises(UndefinedValue, match=r"b\[2\].*leave out"):
        compare_paired([0.0, 0.5, 1.0], [0.0, 0.5, bad], scale="fraction")


def test_a_difference_too_large_for_a_number_is_refused():
    with np.errstate(over="ignore"), pytest.raises(UndefinedValue, match="b - a"):
        compare_paired([-1.7e308, 0.0], [1.7e308, 0.0], scale="ms")


def test_sides_and_labels_of_different_length_are_refused():
    with pytest.raises(UnpairedValues, match="a has 2, b has 3"):
        compare_paired([0, 1], [0, 1, 1], scale="binary")
    with pytest.raises(UnpairedValues, match="groups has 1 labels for 2"):
        compare_paired([0, 1], [0, 1], scale="binary", groups=["x"])
    with pytest.raises(UnpairedValues, match="shape"):
        compare_paired([[0, 1]], [[0, 1]], scale="binary")


def test_a_half_on_a_binary_scale_is_refused():
    with pytest.raises(ImpossibleValue, match=r'a\[1\] is 0.5.*scale="fraction"'):
        compare_paired([0, 0.5], [0, 1], scale="binary")


@pytest.mark.parametrize(
    "option",
    [
        {"scale": "percent"},
        {"alternative": "better"},
        {"confidence": 95},
        {"power": 1.0},
        {"reach": 0},
        {"reach": math.inf},
        {"identical": True},
    ],
)
def test_an_impossible_option_is_refused_by_name(option):
    arguments = {"scale": "fraction"} | option
    with pytest.raises(ImpossibleOption, match=next(iter(option))):
        compare_paired([0, 1], [1, 0], **arguments)


def test_a_seed_depends_on_which_text_is_which_and_fits_a_database_column():
    seeds = {
        seed_for(*ids)
        for ids in [
            ("ab", "c", "m"),
            ("a", "bc", "m"),
            ("c", "ab", "m"),
            ("ab", "cm", ""),
            ("ü", "\ud800", "m"),
        ]
    }
    assert len(seeds) == 5
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert seed_for("ab", "c", "m") in seeds
