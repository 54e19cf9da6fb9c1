"""The metrics that are looked at first: each list in the order in which it is shown."""

from __future__ import annotations

from typing import Final

# Where there is room for few: the slices of `show`, the example's runs, the plots of a run's asset.
CORE: Final = ("hit@5", "mrr", "groundedness")
IN_BRIEF: Final = (*CORE, "citation_coverage")
PLOTTED: Final = (*CORE, "recall_any@5", "judge_groundedness", "judge_correctness")

# What gates judge by default, with two more.
QUALITY: Final = ("hit@5", "mrr", "recall@5_doc", "recall_any@5", "groundedness", "citation_coverage")
HEADLINES: Final = (
    *QUALITY,
    "refusal_correctness",
    "judge_correctness",
    "error_rate",
    "extraction.macro_f1",
    "latency_p50_ms",
    "latency_p95_ms",
)
SLICED: Final = ("hit@5", "mrr", "recall_any@5", "groundedness", "citation_coverage", "recall@5_doc")
OF_QUERIES: Final = ("recall@5_doc", "groundedness", "citation_coverage", "judge_correctness")
