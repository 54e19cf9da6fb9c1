"""Who delivered what when, and what of it was rejected."""

from __future__ import annotations

import datetime as dt
import getpass
import os
import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from eval_pipeline.ingest.problems import Problem, printable
from eval_pipeline.store.connect import Connection, first_value


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
    table = pa.table(
        {
            "delivery_key": pa.array(keys, pa.int32()),
            **{
                name: pa.array([_storable(getattr(one, name)) for one in deliveries], pa.string())
                for name in ("part", "dataset_id", "run_id", "chunker_version", "path", "content_hash")
            },
            **{
                name: pa.array([getattr(one, name) for one in deliveries], pa.int64())
                for name in ("n_bytes", "n_rows", "n_quarantined")
            },
        }
    )
    con.register("new_deliveries", table)
    con.execute("insert into ledger.deliveries select *, ?, ?, null from new_deliveries", [now, _who()])
    con.unregister("new_deliveries")
    return keys


def _who() -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        # In a container the user id often has no name.
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


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
    if not problems:
        return 0
    columns = ("path", "line", "run_id", "query_id", "field", "reason", "text")
    types = {"line": pa.int32()}
    table = pa.table(
        {
            name: pa.array([_storable(getattr(one, name)) for one in problems], types.get(name, pa.string()))
            for name in columns
        }
    )
    before = first_value(con, "select count(*) from ledger.quarantine")
    con.register("new_problems", table)
    con.execute(
        "insert into ledger.quarantine (path, line, run_id, query_id, field, reason, text, content_hash, rejected_at) "
        "select path, line, run_id, query_id, field, reason, text, ?, ? from new_problems n "
        "where not exists (from ledger.quarantine q where q.path = n.path and q.reason = n.reason "
        "and q.line is not distinct from n.line and q.field is not distinct from n.field "
        "and q.content_hash is not distinct from ?)",
        [content_hash, now, content_hash],
    )
    con.unregister("new_problems")
    return int(first_value(con, "select count(*) from ledger.quarantine")) - int(before)


def _storable(value: str | int | None) -> str | int | None:
    """A path or a text that came in an encoding of its own must not stop the report about it."""
    return printable(value) if isinstance(value, str) else value
