"""How long comparing two runs takes, against the plain NumPy loop over resamples.

    python bench/comparison_statistics.py [--queries 100000] [--resamples 10000] [--rounds 3] [--loop-resamples 200]

Both sides compute the same for each metric: a bootstrap distribution of the mean difference with its interval and a
sign-flip p-value. They take turns, the best round of each counts. The loop runs `--loop-resamples` resamples and its
time is scaled up linearly (it is linear: every resample costs the same); pass the full number to wait for all of it.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time

import numpy as np

from eval_pipeline.stats import compare_paired, seed_for

DISCOUNTS = 1 / np.log2(np.arange(2, 12))


def ranks_of_expected(generator, queries):
    """Ranks of up to four expected documents per query, in a list of ten; 0 for not found, -1 for not expected."""
    ranks = np.argsort(generator.random((queries, 24)), axis=1)[:, :4] + 1
    expected = generator.integers(1, 5, size=queries)
    found = np.where(ranks <= 10, ranks, 0)
    return np.where(np.arange(4) < expected[:, None], found, -1), expected


def changed_ranks(generator, ranks):
    """A second run that ranks about half of the queries anew."""
    others = np.argsort(generator.random((ranks.shape[0], 24)), axis=1)[:, :4] + 1
    anew = np.where(ranks < 0, -1, np.where(others <= 10, others, 0))
    return np.where((generator.random(ranks.shape[0]) < 0.5)[:, None], anew, ranks)


def rank_metrics(ranks, expected):
    """Eight rank metrics that all need resampling; hit@k has its exact test and is left out."""
    first = np.where(ranks > 0, ranks, 99).min(axis=1)
    metrics = {"mrr": np.where(first <= 10, 1 / first, 0.0)}
    for k in (1, 3, 5, 10):
        metrics[f"recall@{k}_doc"] = ((ranks > 0) & (ranks <= k)).sum(axis=1) / expected
    for k in (5, 10):
        metrics[f"precision@{k}"] = ((ranks > 0) & (ranks <= k)).sum(axis=1) / k
    metrics["discounted_first_hit"] = np.where(first <= 10, DISCOUNTS[np.minimum(first, 10) - 1], 0.0)
    return metrics


def ours(pairs, resamples):
    for metric, (a, b) in pairs.items():
        compare_paired(a, b, scale="fraction", seed=seed_for("run-a", "run-b", metric), resamples=resamples)


def plain_loop(pairs, resamples):
    generator = np.random.default_rng(1)
    for a, b in pairs.values():
        differences = b - a
        n = differences.size
        means, flipped = np.empty(resamples), np.empty(resamples)
        for i in range(resamples):
            means[i] = differences[generator.integers(0, n, size=n)].mean()
            flipped[i] = (differences * generator.choice((-1.0, 1.0), size=n)).mean()
        np.quantile(means, [0.025, 0.975])
        (np.count_nonzero(np.abs(flipped) >= abs(differences.mean())) + 1) / (resamples + 1)


def seconds(function, *arguments):
    start = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - start


def race(pairs, options):
    """The best seconds of both sides, taking turns."""
    scale = options.resamples / options.loop_resamples
    best = [float("inf"), float("inf")]
    for _ in range(options.rounds):
        best[0] = min(best[0], seconds(ours, pairs, options.resamples))
        best[1] = min(best[1], seconds(plain_loop, pairs, options.loop_resamples) * scale)
    return best


def peak_megabytes():
    # Linux counts in kilobytes, macOS in bytes.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)


def report(title, pairs, options):
    before = peak_megabytes()
    ours(pairs, options.resamples)
    peak = peak_megabytes()
    distinct = {name: np.unique(b - a).size for name, (a, b) in pairs.items()}
    mine, loop = race(pairs, options)
    print(f"{title}: {len(pairs)} metrics × {options.queries:,} queries × {options.resamples:,} resamples")
    print(f"  distinct differences  {distinct}")
    print(f"  compare_paired        {mine:8.2f} s, best of {options.rounds}")
    print(f"  plain NumPy loop      {loop:8.2f} s, from {options.loop_resamples:,} resamples")
    print(f"  ratio                 {loop / mine:8.1f} ×")
    print(
        f"  peak memory           {peak:8.0f} MB for the whole process, {before:.0f} MB before the comparison"
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--queries", type=int, default=100_000)
    parser.add_argument("--resamples", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--loop-resamples", type=int, default=200)
    parser.add_argument("--continuous", action="store_true", help="also a metric whose values never repeat")
    options = parser.parse_args()
    generator = np.random.default_rng(7)
    ranks, expected = ranks_of_expected(generator, options.queries)
    before, after = rank_metrics(ranks, expected), rank_metrics(changed_ranks(generator, ranks), expected)
    report("rank metrics", {name: (before[name], after[name]) for name in before}, options)
    if options.continuous:
        a, b = generator.random((2, options.queries))
        report("continuous", {"span_recall": (a, b)}, options)


if __name__ == "__main__":
    main()
