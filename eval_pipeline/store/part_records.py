"""The record of delivered parts of runs, written together with their rows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from eval_pipeline.store.connect import Connection
from eval_pipeline.store.deliveries import Delivery, add_deliveries, add_quarantine, take_off_record
from eval_pipeline.store.parts import PartDelivery

if TYPE_CHECKING:
    from eval_pipeline.store.runs import RunDelivery

# (run_key, part) → the content hash that stood there, and how often its bytes were read again.
ReplacedParts = dict[tuple[int, str], tuple[str, int]]


def record_parts(
    con: Connection,
    deliveries: Sequence[RunDelivery],
    keys: dict[str, int],
    replaced: ReplacedParts,
    *,
    now: dt.datetime,
) -> None:
    """Which bytes stand behind each part now, who delivered them, and what of them was rejected."""
    parts = [(delivery, part) for delivery in deliveries for part in delivery.parts]
    delivery_keys = add_deliveries(
        con,
        [
            Delivery(
                part=part.part,
                path=part.path,
                content_hash=part.content_hash,
                n_bytes=part.n_bytes,
                n_rows=part.n_rows,
                n_quarantined=len(part.problems),
                dataset_id=delivery.run.dataset,
                run_id=delivery.run.run_id,
            )
            for delivery, part in parts
        ],
        now=now,
    )
    table = pa.table(
        {
            "run_key": pa.array([keys[delivery.run.run_id] for delivery, _ in parts], pa.int32()),
            "part": [part.part for _, part in parts],
            "content_hash": [part.content_hash for _, part in parts],
            "delivery_key": pa.array(delivery_keys, pa.int32()),
            "n_rows": pa.array([part.n_rows for _, part in parts], pa.int32()),
            "n_quarantined": pa.array([len(part.problems) for _, part in parts], pa.int32()),
            "times_read_again": pa.array(
                [_times_read_again(replaced, keys[one.run.run_id], part) for one, part in parts], pa.int32()
            ),
        }
    )
    con.register("new_parts", table)
    con.execute("insert into raw.run_parts by name select * from new_parts")
    con.unregister("new_parts")
    for delivery, part in parts:
        if (keys[delivery.run.run_id], part.part) in replaced:
            take_off_record(con, part.content_hash, run_id=delivery.run.run_id, now=now)
        add_quarantine(
            con, part.problems, content_hash=part.content_hash, dataset=delivery.run.dataset, now=now
        )


def _times_read_again(replaced: ReplacedParts, run_key: int, part: PartDelivery) -> int:
    """Bytes that are read once more may give other rows, and whatever was computed from them is due again."""
    content_hash, times = replaced.get((run_key, part.part), ("", 0))
    return times + 1 if content_hash == part.content_hash else 0
