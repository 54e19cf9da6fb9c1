"""Runs of extraction cases without a query, written by hand, loaded and computed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from eval_pipeline.comparing.pair_states import PAIR_FACTS
from eval_pipeline.settings import Settings
from tests.bundle_files import Row, compute, load, settings_in, write_lines

OF_EXTRACTION = [
    *PAIR_FACTS,
    "aggregates.run_metrics:metrics.hit_at_k",
    "aggregates.extraction_summary",
    "aggregates.field_accuracy",
]
TRUTH = {f"field-{number}": number for number in range(10)}
HALF = {name: value for name, value in TRUTH.items() if value < 5}
GOOD = tuple({"case_id": f"e{number}", "ground_truth": TRUTH, "extracted": TRUTH} for number in range(1, 5))
# Precision 1 and recall 1/2: F1 2/3, so that the mean of five is 14/15.
BAD = {"case_id": "e5", "ground_truth": TRUTH, "extracted": HALF}


def write_extracted(bundle: Path, run_id: str, cases: Iterable[Row], *, day: int) -> None:
    folder = bundle / "runs" / run_id
    write_lines(folder / "extractions.jsonl", cases)
    document = {"run_id": run_id, "dataset": "forms", "suite": "nightly"}
    (folder / "run.json").write_text(
        json.dumps(document | {"created_at": f"2026-09-{day:02}T06:00:00Z"}), "utf-8"
    )


def store_of_cases(folder: Path, runs: Mapping[str, Sequence[Row]], *, config: str = "") -> Settings:
    """Run after run on a day of its own, loaded from folder/bundle with what else lies there, and computed."""
    for day, (run_id, cases) in enumerate(runs.items(), start=1):
        write_extracted(folder / "bundle", run_id, cases, day=day)
    settings = settings_in(folder)
    if config:
        settings.config.write_text(config, "utf-8")
    load(settings, folder / "bundle")
    compute(settings, definitions=OF_EXTRACTION)
    return settings
