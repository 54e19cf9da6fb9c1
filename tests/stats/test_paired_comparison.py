from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy import stats

from eval_pipeline.stats import compare_paired, seed_for
from eval_pipeline.stats.errors import ImpossibleOption, ImpossibleValue, UndefinedValue, UnpairedValues

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


@pytest.mark.parametrize(
    ("scale", "test", "interval"),
    [
        ("binary", "mcnemar_exact", "score"),
        ("fraction", "sign_flip", "bca"),
        ("ordinal", "sign_flip", "bca"),
        ("count", "sign_flip", "bca"),
        ("ms", "sign_flip", "bca"),
    ],
)
def test_the_scale_chooses_the_test_and_the_interval(scale, test, interval):
    a, b = two_runs(scale)
    result = compare_paired(a, b, scale=scale, seed=1)
    assert (result.test, result.interval, result.n) == (test, interval, 120)
    assert result.delta == pytest.approx(np.mean(b) - np.mean(a))
    assert result.ci_low < result.delta < result.ci_high
    assert 0 < result.p_value <= 1
    assert result.mde > 0


@pytest.mark.parametrize("scale", ["fraction", "ordinal", "ms"])
@pytest.mark.parametrize("alternative", ["two-sided", "less", "greater"])
def test_the_p_value_agrees_with_scipys_permutation_test(scale, alternative):
    a, b = two_runs(scale, seed=3, shift=0.05)
    ours = compare_paired(a, b, scale=scale, seed=1, alternative=alternative)
    theirs = stats.permutation_test(
        (b - a,),
        lambda sample, axis: np.mean(sample, axis=axis),
        permutation_type="samples",
        n_resamples=20_000,
        vectorized=True,
        alternative=alternative,
        rng=np.random.default_rng(7),
    )
    assert ours.p_value == pytest.approx(theirs.pvalue, abs=0.02)


@pytest.mark.parametrize("scale", ["fraction", "ordinal", "ms"])
def test_the_interval_agrees_with_scipys_bca_bootstrap(scale):
    a, b = two_runs(scale, seed=4)
    ours = compare_paired(a, b, scale=scale, seed=1)
    theirs = stats.bootstrap(
        (b - a,), np.mean, n_resamples=10_000, method="BCa", rng=np.random.default_rng(8)
    ).confidence_interval
    width = theirs.high - theirs.low
    assert ours.ci_low == pytest.approx(theirs.low, abs=0.06 * width)
    assert ours.ci_high == pytest.approx(theirs.high, abs=0.06 * width)


def test_few_queries_are_tested_exactly_whatever_the_seed():
    a, b = np.zeros(8), np.array([0.5, 0.25, -0.1, 0.3, 0.9, 0.0, 0.2, 0.7])
    results = [compare_paired(a, b, scale="fraction", seed=seed) for seed in (1, 2)]
    assert results[0].test == "sign_flip_exact"
    assert results[0].p_value == results[1].p_value == pytest.approx(2 * 2 / 2**7)


def test_sums_that_are_equal_on_paper_are_ties():
    """1/3 + 1/6 is 1/2, but not in floating point: the reference counts in fractions."""
    differences = [
        Fraction(1, k) * sign for k, sign in [(3, 1), (6, 1), (2, -1), (10, 1), (5, 1), (10, 1), (3, 1)]
    ]
    observed = sum(differences)
    extreme = sum(
        abs(sum(s * d for s, d in zip(signs, differences, strict=True))) >= abs(observed)
        for signs in product([1, -1], repeat=len(differences))
    )
    b = [float(difference) for difference in differences]
    result = compare_paired(np.zeros(len(b)), b, scale="fraction", seed=1)
    assert result.p_value == extreme / 2 ** len(b)


@pytest.mark.parametrize("scale", SCALES)
def test_identical_runs_are_named_so_with_p_one_and_an_interval_of_zero(scale):
    a, _ = two_runs(scale)
    result = compare_paired(a, a, scale=scale, seed=1, alternative="greater")
    assert (result.test, result.p_value, result.delta) == ("identical", 1.0, 0.0)
    assert [getattr(result, field) for field in INTERVAL_FIELDS] == [0.0] * 4


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("n", [0, 1])
def test_no_query_or_one_answers_nothing_but_the_difference(scale, n):
    result = compare_paired([0.0] * n, [1.0] * n, scale=scale, seed=1)
    answered = {k: v for k, v in dataclasses.asdict(result).items() if v is not None}
    expected = {"n": n, "confidence": 0.95, "alternative": "two-sided"} | ({"delta": 1.0} if n else {})
    assert answered == expected


def test_a_handful_of_queries_gets_students_interval():
    differences = np.array([0.1, 0.3, 0.25, -0.05])
    result = compare_paired(np.zeros(4), differences, scale="count", seed=1)
    theirs = stats.ttest_1samp(differences, 0).confidence_interval(0.95)
    assert result.interval == "student"
    assert (result.ci_low, result.ci_high) == pytest.approx((theirs.low, theirs.high))


def test_a_fraction_never_gets_an_interval_beyond_one():
    result = compare_paired([0.0, 0.5], [1.0, 0.6], scale="fraction", seed=1)
    assert (result.ci_low, result.ci_high) == (-1.0, 1.0)


def test_three_equal_gains_do_not_pass_for_certainty():
    fraction = compare_paired([0.1] * 3, [0.6] * 3, scale="fraction", seed=1)
    assert fraction.interval == "range"
    assert fraction.lower_bound < 0 < fraction.delta
    unbounded = compare_paired([1.0] * 3, [4.0] * 3, scale="count", seed=1)
    assert unbounded.delta == 3.0
    assert unbounded.ci_low is unbounded.interval is None
    assert unbounded.p_value == 0.25


def test_many_equal_differences_fall_back_to_percentiles_where_the_scale_has_no_end():
    result = compare_paired(np.zeros(50), np.full(50, 7.0), scale="ms", seed=1)
    assert (result.interval, result.ci_low, result.ci_high) == ("percentile", 7.0, 7.0)


@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize("scale", SCALES)
def test_the_order_of_the_queries_does_not_change_a_bit(scale, clustered):
    a, b = two_runs(scale, n=300)
    groups = np.array([f"topic {i // 4}" for i in range(300)])
    expected = compare_paired(a, b, scale=scale, seed=5, groups=list(groups) if clustered else None)
    for shuffle in range(3):
        order = np.random.default_rng(shuffle).permutation(300)
        labels = list(groups[order]) if clustered else None
        again = compare_paired(a[order], b[order], scale=scale, seed=5, groups=labels)
        assert repr(again) == repr(expected)


def test_another_seed_moves_the_resampled_numbers_only():
    a, b = two_runs("ms")
    one, other = (compare_paired(a, b, scale="ms", seed=seed) for seed in (1, 2))
    assert (one.delta, one.standard_error, one.mde) == (other.delta, other.standard_error, other.mde)
    assert one.ci_low != other.ci_low
    assert one.ci_low == pytest.approx(other.ci_low, abs=0.1 * one.standard_error)
    assert one.p_value == pytest.approx(other.p_value, abs=0.02)


@pytest.mark.needs_process
def test_another_process_with_other_threads_gives_the_same_bytes():
    program = (
        "import numpy as np\n"
        "from eval_pipeline.stats import compare_paired, seed_for\n"
        "values = np.random.default_rng(1).normal(size=(2, 30_000))\n"
        "labels = [f'g{i % 9000}' for i in range(30_000)]\n"
        "for groups in (None, labels):\n"
        "    print(compare_paired(*values, scale='ms', seed=seed_for('a', 'b', 'm'), groups=groups, resamples=100))"
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
    forth = compare_paired(a, b, scale=scale, seed=1, alternative="greater")
    back = compare_paired(b, a, scale=scale, seed=1, alternative="less")
    assert back.delta == -forth.delta
    assert back.p_value == forth.p_value
    assert back.standard_error == pytest.approx(forth.standard_error)


@pytest.mark.parametrize("scale", SCALES)
def test_one_sided_bounds_lie_within_the_two_sided_interval_of_the_same_confidence(scale):
    a, b = two_runs(scale)
    result = compare_paired(a, b, scale=scale, seed=1)
    assert result.ci_low < result.lower_bound < result.delta < result.upper_bound < result.ci_high
    wider = compare_paired(a, b, scale=scale, seed=1, confidence=0.9)
    assert wider.ci_low == pytest.approx(result.lower_bound)
    assert wider.ci_high == pytest.approx(result.upper_bound)


def test_a_clear_gain_is_significant_one_way_and_not_the_other():
    a, b = two_runs("fraction", n=400, shift=0.4)
    up, down = (compare_paired(a, b, scale="fraction", seed=1, alternative=x) for x in ("greater", "less"))
    assert up.p_value < 0.001
    assert down.p_value > 0.99


def test_asking_every_question_five_times_buys_no_significance():
    a, b = two_runs("fraction", n=10, shift=0.6)
    once = compare_paired(a, b, scale="fraction", seed=1)
    groups = [f"question {i}" for i in range(10)] * 5
    often = compare_paired(np.tile(a, 5), np.tile(b, 5), scale="fraction", seed=1, groups=groups)
    assert often.test == "cluster_sign_flip_exact"
    assert (often.n, often.clusters) == (50, 10)
    assert often.p_value == once.p_value
    assert often.standard_error == pytest.approx(once.standard_error)
    assert often.ci_low == pytest.approx(once.ci_low, abs=0.03)
    blind = compare_paired(np.tile(a, 5), np.tile(b, 5), scale="fraction", seed=1)
    assert blind.standard_error < 0.5 * often.standard_error


def test_clusters_of_unequal_size_are_resampled_whole():
    """The reference draws whole clusters one by one and pools their queries."""
    generator = np.random.default_rng(2)
    sizes = generator.integers(1, 9, size=40)
    labels = np.repeat(np.arange(40), sizes)
    differences = np.repeat(generator.normal(0.1, 0.3, size=40), sizes) + generator.normal(
        0, 0.1, size=sizes.sum()
    )
    result = compare_paired(np.zeros(labels.size), differences, scale="count", seed=1, groups=labels.tolist())
    means = []
    for _ in range(4000):
        drawn = np.concatenate([differences[labels == c] for c in generator.integers(0, 40, size=40)])
        means.append(drawn.mean())
    low, high = np.quantile(means, [0.025, 0.975])
    assert result.ci_low == pytest.approx(low, abs=0.12 * (high - low))
    assert result.ci_high == pytest.approx(high, abs=0.12 * (high - low))
    assert result.standard_error == pytest.approx(np.std(means), rel=0.1)


def test_binary_metrics_in_clusters_are_not_given_to_mcnemar():
    a, b = two_runs("binary")
    result = compare_paired(a, b, scale="binary", seed=1, groups=[i // 3 for i in range(120)])
    assert (result.test, result.clusters) == ("cluster_sign_flip", 40)


def test_queries_without_a_group_stand_alone():
    a, b = two_runs("binary")
    without = compare_paired(a, b, scale="binary", seed=1)
    for groups in ([None] * 120, list(range(120)), [None, "x", *range(118)]):
        assert compare_paired(a, b, scale="binary", seed=1, groups=groups) == without
    paired_up = compare_paired(a, b, scale="binary", seed=1, groups=["same", "same"] + [None] * 118)
    assert paired_up.clusters == 119


def test_a_single_cluster_says_nothing_about_any_other():
    a, b = two_runs("fraction")
    result = compare_paired(a, b, scale="fraction", seed=1, groups=["all"] * 120)
    assert result.delta == pytest.approx(np.mean(b - a))
    assert (result.clusters, result.p_value, result.ci_low, result.test) == (1, None, None, None)


def test_clusters_that_all_show_one_mean_leave_an_interval():
    a = np.zeros(16)
    b = np.tile([0.0, 1.0], 8)
    result = compare_paired(a, b, scale="fraction", seed=1, groups=[i // 2 for i in range(16)])
    assert result.interval == "range"
    assert result.ci_low < result.delta == 0.5 < result.ci_high


@pytest.mark.parametrize("bad", [np.nan, np.inf, None])
def test_an_undefined_value_is_refused_with_its_place(bad):
    with pytest.raises(UndefinedValue, match=r"b\[2\].*leave out"):
        compare_paired([0.0, 0.5, 1.0], [0.0, 0.5, bad], scale="fraction", seed=1)


def test_a_difference_too_large_for_a_number_is_refused():
    with np.errstate(over="ignore"), pytest.raises(UndefinedValue, match="b - a"):
        compare_paired([-1.7e308, 0.0], [1.7e308, 0.0], scale="ms", seed=1)


def test_sides_and_labels_of_different_length_are_refused():
    with pytest.raises(UnpairedValues, match="a has 2, b has 3"):
        compare_paired([0, 1], [0, 1, 1], scale="binary", seed=1)
    with pytest.raises(UnpairedValues, match="groups has 1 labels for 2"):
        compare_paired([0, 1], [0, 1], scale="binary", seed=1, groups=["x"])
    with pytest.raises(UnpairedValues, match="shape"):
        compare_paired([[0, 1]], [[0, 1]], scale="binary", seed=1)


def test_a_half_on_a_binary_scale_is_refused():
    with pytest.raises(ImpossibleValue, match=r'a\[1\] is 0.5.*scale="fraction"'):
        compare_paired([0, 0.5], [0, 1], scale="binary", seed=1)


@pytest.mark.parametrize(
    "option",
    [
        {"scale": "percent"},
        {"alternative": "better"},
        {"confidence": 95},
        {"power": 1.0},
        {"resamples": 10},
        {"seed": -1},
    ],
)
def test_an_impossible_option_is_refused_by_name(option):
    arguments = {"scale": "fraction", "seed": 1} | option
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
