"""What writing runs would find out: known runs, replaced parts, runs that cannot be taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from eval_pipeline.errors import InputRejected
from eval_pipeline.loading._write_parts import PartDelivery
from eval_pipeline.loading._write_runs import (
    RunDelivery,
    RunRejected,
    compare_result_counts,
    known_datasets,
    known_parts,
    named_twice,
    other_dataset,
    result_counts,
)
from eval_pipeline.store.open import Connection


@dataclass(frozen=True)
class StoredRuns:
    """Per run the hash of each part that was taken in, the dataset it belongs to, and the number of its results."""

    parts: dict[str, dict[str, str]] = field(default_factory=dict)
    datasets: dict[str, str] = field(default_factory=dict)
    n_results: dict[str, int] = field(default_factory=dict)


def stored_runs(con: Connection | None) -> StoredRuns:
    """Every run of the store; none where there is no store."""
    return StoredRuns(known_parts(con), known_datasets(con), result_counts(con)) if con else StoredRuns()


def check_runs(deliveries: Sequence[RunDelivery], stored: StoredRuns) -> tuple[set[str], list[str]]:
    """Raise RunRejected for the first run that writing would refuse; returns the runs that were there, and remarks.

    What is found good is noted in `stored`, so that a run delivered twice is measured against its first delivery.
    """
    for delivery in deliveries:
        run = delivery.run
        if stored.datasets.get(run.run_id, run.dataset) != run.dataset:
            raise RunRejected(run.run_id, delivery.parts[0], other_dataset(run))
        for part in delivery.parts:
            if part.part == "results":
                _check_results(delivery, part)
    remarks = compare_result_counts(deliveries, stored.n_results)
    replaced = {delivery.run.run_id for delivery in deliveries} & stored.parts.keys()
    for delivery in deliveries:
        stored.datasets[delivery.run.run_id] = delivery.run.dataset
        known = stored.parts.setdefault(delivery.run.run_id, {})
        known.update({part.part: part.content_hash for part in delivery.parts})
        for part in delivery.parts:
            if part.part == "results":
                stored.n_results[delivery.run.run_id] = part.n_rows
    return replaced, remarks


def _check_results(delivery: RunDelivery, part: PartDelivery) -> None:
    part.problems = list(part.beforehand)
    pieces: list[pa.Table] = []
    try:
        for block in part.blocks:
            part.problems.extend(block.problems)
            pieces.append(block.results.select(["query_id", "row_no"]))
    except InputRejected as rejected:
        raise RunRejected(delivery.run.run_id, part, rejected) from rejected
    part.n_rows = sum(piece.num_rows for piece in pieces)
    if not part.n_rows:
        return
    counted = pa.concat_tables(pieces).group_by("query_id").aggregate([("row_no", "list")])
    twice = counted.filter(pc.greater(pc.list_value_length(counted["row_no_list"]), 1))
    if twice.num_rows:
        lines = sorted(twice["row_no_list"][0].as_py())
        raise RunRejected(delivery.run.run_id, part, named_twice(twice["query_id"][0].as_py(), lines))
