"""Who delivered what when, and what of it was rejected."""

from __future__ import annotations

import datetime as dt
import getpass
import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from eval_pipeline.ingest.problems import Problem
from eval_pipeline.store.connect import Connection, first_row, first_value


@dataclass(frozen=True)
class Delivery:
    """One delivered part of a bundle."""

    part: str
    path: str
    content_hash: str
    n_bytes: int
    n_rows: int
    n_quarantined: int
    dataset_id: str | None = None
    run_id: str | None = None
    chunker_version: str | None = None


def add_delivery(con: Connection, delivery: Delivery, *, now: dt.datetime) -> int:
    """Record a delivery; the one it takes the place of is marked as superseded and kept."""
    con.execute(
        "update ledger.deliveries set superseded_at = ? where superseded_at is null and part = ? "
        "and dataset_id is not distinct from ? and run_id is not distinct from ? "
        "and chunker_version is not distinct from ?",
        [now, delivery.part, delivery.dataset_id, delivery.run_id, delivery.chunker_version],
    )
    return add_deliveries(con, [delivery], now=now)[0]


def add_deliveries(con: Connection, deliveries: Sequence[Delivery], *, now: dt.datetime) -> list[int]:
    """Record deliveries that supersede nothing, many at once; their keys in the same order."""
    first = first_value(con, "select coalesce(max(delivery_key), 0) + 1 from ledger.deliveries")
    keys = list(range(first, first + len(deliveries)))
    who = f"{getpass.getuser()}@{socket.gethostname()}"
    table = pa.table(
        {
            "delivery_key": pa.array(keys, pa.int32()),
            **{
                name: pa.array([getattr(one, name) for one in deliveries], pa.string())
                for name in ("part", "dataset_id", "run_id", "chunker_version", "path", "content_hash")
            },
            **{
                name: pa.array([getattr(one, name) for one in deliveries], pa.int64())
                for name in ("n_bytes", "n_rows", "n_quarantined")
            },
        }
    )
    con.register("new_deliveries", table)
    con.execute("insert into ledger.deliveries select *, ?, ?, null from new_deliveries", [now, who])
    con.unregister("new_deliveries")
    return keys


def supersede_run_parts(con: Connection, run_parts: Iterable[tuple[str, str]], *, now: dt.datetime) -> None:
    """Mark the deliveries that stood behind these parts of runs as superseded."""
    for run_id, part in run_parts:
        con.execute(
            "update ledger.deliveries set superseded_at = ? "
            "where superseded_at is null and run_id = ? and part = ?",
            [now, run_id, part],
        )


def add_quarantine(
    con: Connection, problems: Sequence[Problem], *, content_hash: str | None, now: dt.datetime
) -> int:
    """Record what was rejected, once per content; returns how many rows are new."""
    fresh = [problem for problem in problems if not _is_known(con, problem, content_hash)]
    if not fresh:
        return 0
    columns = ("path", "line", "run_id", "query_id", "field", "reason", "text")
    types = {"line": pa.int32()}
    table = pa.table(
        {
            name: pa.array([getattr(one, name) for one in fresh], types.get(name, pa.string()))
            for name in columns
        }
    )
    con.register("new_problems", table)
    con.execute(
        "insert into ledger.quarantine (path, line, run_id, query_id, field, reason, text, content_hash, rejected_at) "
        "select path, line, run_id, query_id, field, reason, text, ?, ? from new_problems",
        [content_hash, now],
    )
    con.unregister("new_problems")
    return len(fresh)


def _is_known(con: Connection, problem: Problem, content_hash: str | None) -> bool:
    found = first_row(
        con,
        "select 1 from ledger.quarantine where path = ? and reason = ? and line is not distinct from ? "
        "and field is not distinct from ? and content_hash is not distinct from ? limit 1",
        [problem.path, problem.reason, problem.line, problem.field, content_hash],
    )
    return found is not None
