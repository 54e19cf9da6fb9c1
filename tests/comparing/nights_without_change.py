"""Pairs of nights of one unchanged system: every failure of a gate over them is a false alarm."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from eval_pipeline.comparing.gate_evidence import judge_all, measure_change
from eval_pipeline.comparing.gate_rules import GateConfig, Rule
from eval_pipeline.comparing.pair_rows import MetricPairs
from eval_pipeline.comparing.significance import Compared
from eval_pipeline.formulas.definition import Definition

Numbers = NDArray[np.float64]

# Eight rules over one list of hits and one answer: they rise and fall together.
RULES = (
    Rule(metric="hit@1", direction="higher"),
    Rule(metric="hit@3", direction="higher"),
    Rule(metric="hit@5", direction="higher"),
    Rule(metric="hit@10", direction="higher"),
    Rule(metric="mrr", direction="higher"),
    Rule(metric="recall@5_doc", direction="higher"),
    Rule(metric="groundedness", direction="higher"),
    Rule(metric="error_rate", direction="lower"),
)
CONFIG = GateConfig(rules=RULES, slices={})
RETRIEVAL = ("hit@1", "hit@3", "hit@5", "hit@10", "mrr", "recall@5_doc")
FAMILIES = ["retrieval" if rule.metric in RETRIEVAL else rule.metric for rule in RULES]


def one_night(generator: np.random.Generator, difficulty: Numbers) -> dict[str, Numbers]:
    """What an unchanged system scores: each query keeps its difficulty, each night rolls its own dice."""
    n = difficulty.size
    luck = generator.random(n)
    rank = np.where(luck < difficulty, np.ceil(30 * luck / difficulty * 0.4 + 1e-9), 99)
    failed = generator.random(n) < 0.02
    rank = np.where(failed, 99, rank)
    found = {f"hit@{k}": (rank <= k).astype(float) for k in (1, 3, 5, 10)}
    return {
        **found,
        "mrr": np.where(rank <= 10, 1 / rank, 0.0),
        "recall@5_doc": found["hit@5"] * np.where(generator.random(n) < 0.8, 1.0, 0.5),
        "groundedness": found["hit@10"] * (generator.random(n) < 0.9),
        "error_rate": failed.astype(float),
    }


def gate_fails(
    formulas: Mapping[str, Definition], generator: np.random.Generator, *, queries: int, night: int
) -> bool:
    """Whether the gate fails a night that differs from the one before by chance alone."""
    difficulty = generator.beta(3, 1.5, queries)
    a, b = one_night(generator, difficulty), one_night(generator, difficulty)
    everywhere = np.ones(queries, dtype=np.bool_)
    changes = [
        measure_change(
            rule,
            Compared(
                rule.metric,
                formulas[rule.metric],
                MetricPairs(a[rule.metric], b[rule.metric], everywhere, everywhere),
            ),
            places=None,
            groups=None,
        )
        for rule in RULES
    ]
    return any(judged.verdict == "fail" for judged in judge_all(changes, [], FAMILIES, CONFIG))


def false_alarm_share(formulas: Mapping[str, Definition], *, queries: int, nights: int, seed: int) -> float:
    """The share of nights that fail although nothing changed."""
    generator = np.random.default_rng([seed, queries])
    failures = sum(gate_fails(formulas, generator, queries=queries, night=night) for night in range(nights))
    return failures / nights
