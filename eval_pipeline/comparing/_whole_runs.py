"""What two runs measured as a whole, and the tests of what pairs up by cases or queries."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from eval_pipeline.comparing.documents import (
    MEAN_TIME,
    MEANS,
    RATIO,
    TESTED,
    CasesCompared,
    PartCompared,
    Tested,
)
from eval_pipeline.comparing.significance import MACRO_F1, MICRO_F1
from eval_pipeline.comparing.verdicts import deltas_of
from eval_pipeline.computing.history import rows_at
from eval_pipeline.loading.cases import held_cases
from eval_pipeline.showing.blocks import NOW, STAGES, RunBlocks, run_blocks
from eval_pipeline.stats import PairedResult, compare_paired, compare_ratios
from eval_pipeline.store.open import Connection
from eval_pipeline.store.runs import RunRow, find_run
from eval_pipeline.words import rounded

EXTRACTION: Final = ("macro_f1", "micro_f1", "macro_strict_f1", "micro_strict_f1")
LATENCIES: Final = ("p50", "p95", "mean")
INDEXING: Final = ("docs_processed", "no_chunks_generated_rate", "chunks_skipped_context_rate")

Counts = tuple[float, int, int, int]


@dataclass(frozen=True)
class RunParts:
    """A run's values by name, and of each extraction case its F1 and its true and false positives and negatives.

    `held` are all its cases, and whether each failed to run; None where it delivered none.
    """

    values: Mapping[str, float | None]
    cases: Mapping[str, Counts]
    held: Mapping[str, bool] | None = None


def read_parts(con: Connection, run_id: str) -> RunParts:
    """As the run's own document has them."""
    run = find_run(con, run_id)
    return RunParts(dict(_values(run_blocks(con, run))), read_cases(con, run), held_cases(con, run.run_key))


def read_cases(con: Connection, run: RunRow) -> dict[str, Counts]:
    """Unrounded, which the block of the document is not."""
    return {
        row["case_id"]: (
            row["f1"],
            int(row["true_positives"]),
            int(row["false_positives"]),
            int(row["false_negatives"]),
        )
        for row in rows_at(con, "metrics.extraction", run, NOW) or ()
        if row["f1"] is not None
    }


def _values(blocks: RunBlocks) -> Iterator[tuple[str, float | None]]:
    extraction, indexing, performance = blocks.extraction, blocks.indexing, blocks.performance
    for name in EXTRACTION:
        yield f"extraction.{name}", getattr(extraction, name.removesuffix("_f1")).f1 if extraction else None
    for statistic in LATENCIES:
        yield f"latency_{statistic}_ms", getattr(performance.latency_ms, statistic)
    for stage in STAGES:
        yield f"{stage}_p95_ms", performance.latency_breakdown_ms[stage].p95
    for name in ("total_suite_ms", "judge_tokens", "judge_cost"):
        yield name, getattr(performance, name)
    yield "judge_disagreement_rate", blocks.judge_reliability.disagreement_rate
    for name in INDEXING:
        yield name, getattr(indexing, name) if indexing else None


def compare_parts(a: RunParts, b: RunParts, tested: Mapping[str, Tested]) -> dict[str, PartCompared]:
    """Every value that at least one of the runs has, with the test of those that pair up."""
    deltas = deltas_of(a.values, b.values)
    return {
        name: _part((a.values[name], b.values[name], deltas[name]), tested.get(name))
        for name in a.values
        if a.values[name] is not None or b.values[name] is not None
    }


def _part(values: tuple[float | None, float | None, float | None], tested: Tested | None) -> PartCompared:
    """`delta` is that of the runs, `delta_in_both` of the pairs alone, as the test is."""
    a, b, delta = values
    found = {name: getattr(tested, name) for name in (*TESTED, *RATIO)} if tested else {}
    if tested:
        found |= {f"{name}_in_both": getattr(tested, name) for name in MEANS}
        found |= {"family": tested.family, "verdict": tested.verdict}
    return PartCompared(a=a, b=b, delta=delta, **found)


def whole_run_results(
    cases_a: Mapping[str, Counts],
    cases_b: Mapping[str, Counts],
    times: PairedResult | None,
    *,
    has_same_cases: bool = False,
) -> dict[str, PairedResult]:
    """Macro-F1 by its cases, micro-F1 by what every case pulls at it, the time of a query by its queries."""
    found = {} if times is None or not times.n else {MEAN_TIME: times}
    both = sorted(cases_a.keys() & cases_b.keys())
    if both:
        counts_a, counts_b = (np.array([run[case] for case in both], float) for run in (cases_a, cases_b))
        is_same = has_same_cases and np.array_equal(counts_a, counts_b)
        found[MACRO_F1] = compare_paired(counts_a[:, 0], counts_b[:, 0], scale="fraction", identical=is_same)
        found[MICRO_F1] = compare_ratios(
            *_as_ratio(counts_a), *_as_ratio(counts_b), empty=0.0, identical=is_same
        )
    return found


def compare_cases(a: RunParts, b: RunParts) -> CasesCompared | None:
    """Which cases are in one run only, and how the mean F1 moved over those that both scored; None without cases."""
    if a.held is None or b.held is None:
        return None
    both = sorted(a.cases.keys() & b.cases.keys())
    means = [math.fsum(run.cases[case][0] for case in both) / len(both) for run in (a, b)] if both else None
    return CasesCompared(
        in_both=len(a.held.keys() & b.held.keys()),
        only_in_a=[case for case in a.held if case not in b.held],
        only_in_b=[case for case in b.held if case not in a.held],
        failed_in_a=[case for case, has_failed in a.held.items() if has_failed],
        failed_in_b=[case for case, has_failed in b.held.items() if has_failed],
        scored_in_both=len(both),
        macro_f1_delta_in_both=rounded(means[1] - means[0]) if means else None,
    )


def _as_ratio(counts: Any) -> Sequence[Any]:
    """F1 is twice the true positives over these and all that is wrong."""
    right = 2 * counts[:, 1]
    return right, right + counts[:, 2] + counts[:, 3]
