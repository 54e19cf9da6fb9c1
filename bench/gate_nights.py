"""How a gate decides over simulated nights: without a change, and with a known loss.

    python -m bench.gate_nights [--nights 300] [--seeds 1] [--queries 60 200 1000] [--churn 0.1] [--losses 0 0.02 0.05]

A night answers the same questions as its baseline; a share of them (the churn) comes out anew, as likely good or bad as
before. A loss takes that many points of hit@5 away. Eight of the rules that hold where nobody wrote any.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from eval_pipeline.comparing.gate import verdict_of_rules
from eval_pipeline.comparing.gate_evidence import judge_all, measure_change
from eval_pipeline.comparing.gate_rules import GateConfig, read_gate
from eval_pipeline.comparing.pair_rows import MetricPairs
from eval_pipeline.comparing.significance import Compared, questions_of
from eval_pipeline.formulas.registry import Registry, load_registry
from eval_pipeline.settings import load_settings

FOUND, UNANSWERABLE = 0.8, 0.1
JUDGED = (
    "hit@5",
    "mrr",
    "recall@5_doc",
    "groundedness",
    "citation_coverage",
    "abstention_accuracy",
    "refusal_correctness",
    "error_rate",
)
OF_UNANSWERABLE = ("abstention_accuracy", "refusal_correctness")
VERDICTS = ("fail", "inconclusive", "pass")
Values = Mapping[str, Any]


@dataclass(frozen=True)
class Night:
    """What decides the values of a query: the place of its first hit, and three tosses."""

    rank: Any
    tosses: Any

    def again(self, random: np.random.Generator, churn: float, loss: float) -> Night:
        """The next night: some queries come out anew, and a loss takes hits from those that had one."""
        fresh = a_night(random, self.rank.size)
        is_new = random.random(self.rank.size) < churn
        rank = np.where(is_new, fresh.rank, self.rank)
        is_lost = (rank <= 5) & (random.random(rank.size) < loss / FOUND)
        return Night(np.where(is_lost, 99, rank), np.where(is_new, fresh.tosses, self.tosses))

    def values(self) -> Values:
        """Of every metric, as its formula would have it."""
        hit = (self.rank <= 5).astype(float)
        return {
            "hit@5": hit,
            "mrr": np.where(self.rank <= 10, 1 / self.rank, 0.0),
            "recall@5_doc": hit * np.where(self.tosses[0] < 0.8, 1.0, 0.5),
            "groundedness": hit * (self.tosses[1] < 0.9),
            "citation_coverage": (self.tosses[2] < 0.9).astype(float),
            "abstention_accuracy": (self.tosses[1] < 0.7).astype(float),
            "refusal_correctness": (self.tosses[0] < 0.8).astype(float),
            "error_rate": (self.tosses[3] < 0.02).astype(float),
        }


def a_night(random: np.random.Generator, n: int) -> Night:
    luck = random.random(n)
    # The deeper, the rarer: most of what is found stands first.
    depth = np.ceil(-np.log(1 - np.minimum(luck / FOUND, 1) * 0.95))
    return Night(np.where(luck < FOUND, np.clip(depth, 1, 5), 99), random.random((4, n)))


def verdict(registry: Registry, config: GateConfig, before: Night, after: Night) -> str:
    """Of the whole gate."""
    formulas, questions = registry.keys(), questions_of(registry)
    a, b = before.values(), after.values()
    n = before.rank.size
    # The questions without an answer are the same every night.
    is_unanswerable = np.arange(n) < UNANSWERABLE * n
    changes = []
    for rule in config.rules:
        known = is_unanswerable if rule.metric in OF_UNANSWERABLE else np.ones(n, dtype=np.bool_)
        pairs = MetricPairs(a[rule.metric] * known, b[rule.metric] * known, known, known)
        compared = Compared(rule.metric, formulas[rule.metric], pairs)
        changes.append(measure_change(rule, compared, places=None, groups=None))
    families = [questions[rule.metric].family for rule in config.rules]
    return verdict_of_rules(judge_all(changes, [], families, config))


def shares(
    registry: Registry, config: GateConfig, *, seed: int, nights: int, n: int, churn: float, loss: float
) -> Counter[str]:
    random = np.random.default_rng([seed, n, round(1000 * churn), round(1000 * loss)])
    found: Counter[str] = Counter()
    for _ in range(nights):
        before = a_night(random, n)
        found[verdict(registry, config, before, before.again(random, churn, loss))] += 1
    return found


def table(nights: int, seeds: int, queries: Sequence[int], churn: float, losses: Sequence[float]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        registry = load_registry(load_settings({}, db=Path(folder) / "none.duckdb"))
    config = read_gate({}, registry, path=None)
    config = replace(config, rules=[one for one in config.rules if one.metric in JUDGED])
    print(f"{nights} pairs for each seed from 1 to {seeds}; {churn:.0%} of the queries come out anew")
    print(f"{'queries':>8}  {'loss':>5}  " + "  ".join(f"{one:>12}" for one in VERDICTS))
    for n in queries:
        for loss in losses:
            found: Counter[str] = Counter()
            for seed in range(1, seeds + 1):
                found += shares(registry, config, seed=seed, nights=nights, n=n, churn=churn, loss=loss)
            counts = "  ".join(f"{found[verdict]:>12,}" for verdict in VERDICTS)
            print(f"{n:>8}  {loss:>5.2f}  {counts}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nights", type=int, default=300)
    parser.add_argument("--seeds", type=int, default=1, help="the number of seeds, from 1")
    parser.add_argument("--queries", type=int, nargs="+", default=[60, 200, 1000])
    parser.add_argument("--churn", type=float, default=0.1)
    parser.add_argument("--losses", type=float, nargs="+", default=[0.0, 0.02, 0.05])
    chosen = parser.parse_args()
    table(chosen.nights, chosen.seeds, chosen.queries, chosen.churn, chosen.losses)


if __name__ == "__main__":
    main()
