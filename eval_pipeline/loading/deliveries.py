"""Who delivered what when, and what of it was rejected."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from eval_pipeline.bundle.problems import Problem, printable
from eval_pipeline.settings import who_calls
from eval_pipeline.store.open import Connection, first_value
from eval_pipeline.store.project import Store


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


def _add_delivery(store: Store, delivery: Delivery) -> int:
    """Record a delivery; the one it takes the place of is marked as superseded and kept."""
    store.con.execute(
        "update ledger.deliveries set superseded_at = ? where superseded_at is null and part = ? "
        "and dataset_id is not distinct from ? and run_id is not distinct from ? "
        "and chunker_version is not distinct from ?",
        [store.clock(), delivery.part, delivery.dataset_id, delivery.run_id, delivery.chunker_version],
    )
    return _add_deliveries(store, [delivery])[0]


def _add_deliveries(store: Store, deliveries: Sequence[Delivery]) -> list[int]:
    """Record deliveries that supersede nothing, many at once; their keys in the same order."""
    con = store.con
    # Imported here: commands that only read open this file, too, and have no need of it.
    import pyarrow as pa

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
    con.execute(
        "insert into ledger.deliveries select *, ?, ?, null from new_deliveries", [store.clock(), who_calls()]
    )
    con.unregister("new_deliveries")
    return keys


def _supersede_run_parts(store: Store, run_parts: Iterable[tuple[str, str]]) -> None:
    """Mark the deliveries that stood behind these parts of runs as superseded."""
    for run_id, part in run_parts:
        store.con.execute(
            "update ledger.deliveries set superseded_at = ? "
            "where superseded_at is null and run_id = ? and part = ?",
            [store.clock(), run_id, part],
        )


def _take_off_record(
    store: Store, content_hash: str, *, run_id: str | None = None, dataset: str | None = None
) -> None:
    """Resolve what was rejected in these bytes, because they were read again; what still is goes on record after."""
    store.con.execute(
        "update ledger.quarantine set resolved_at = ? where resolved_at is null and content_hash = ? "
        "and run_id is not distinct from ? and (run_id is not null or dataset_id is not distinct from ?)",
        [store.clock(), content_hash, run_id, dataset],
    )


def _add_quarantine(
    store: Store, problems: Sequence[Problem], *, content_hash: str | None, dataset: str | None = None
) -> int:
    """Record what was rejected, once per content; returns how many rows are new."""
    con = store.con
    if not problems:
        return 0
    import pyarrow as pa

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
        "update ledger.quarantine as q set resolved_at = null from new_problems n "
        f"where q.resolved_at is not null and {_SAME_PROBLEM}",
        [content_hash],
    )
    con.execute(
        "insert into ledger.quarantine (path, line, dataset_id, run_id, query_id, field, reason, text, content_hash, "
        "rejected_at) select path, line, ?, run_id, query_id, field, reason, text, ?, ? from new_problems n "
        f"where not exists (from ledger.quarantine q where {_SAME_PROBLEM})",
        [dataset, content_hash, store.clock(), content_hash],
    )
    con.unregister("new_problems")
    return int(first_value(con, "select count(*) from ledger.quarantine")) - int(before)


def _storable(value: str | int | None) -> str | int | None:
    """A path or a text that came in an encoding of its own must not stop the report about it."""
    return printable(value) if isinstance(value, str) else value


_SAME_PROBLEM = (
    "q.path = n.path and q.reason = n.reason and q.line is not distinct from n.line "
    "and q.field is not distinct from n.field and q.content_hash is not distinct from ?"
)


@dataclass(frozen=True)
class OpenProblem:
    """A rejected piece of input that nothing good has taken the place of; `place` finds it in the store again."""

    place: int
    path: str
    line: int | None
    dataset: str | None
    run_id: str | None
    query_id: str | None
    field: str | None
    reason: str
    text: str
    content_hash: str | None
    rejected_at: dt.datetime
    resolved_at: dt.datetime | None = None


def _find_problems(
    con: Connection,
    *,
    run_ids: Sequence[str] | None = None,
    datasets: Sequence[str] | None = None,
    resolved: bool = False,
) -> list[OpenProblem]:
    """What is in quarantine, or what was and is resolved; of these runs and of these datasets."""
    rows = con.execute(
        "select q.rowid, q.path, q.line, coalesce(q.dataset_id, d.dataset_id), q.run_id, q.query_id, q.field, "
        f"q.reason, q.text, q.content_hash, q.rejected_at, q.resolved_at {_ASKED_PROBLEMS} "
        "order by q.rejected_at, q.path, q.line nulls first, q.field nulls first, q.reason",
        _asked_problems(run_ids, datasets, resolved=resolved),
    ).fetchall()
    return [OpenProblem(*row) for row in rows]


def _names_delivered(con: Connection) -> tuple[set[str], set[str]]:
    """Every run and every dataset that was ever delivered, taken in or not."""
    runs, datasets = (
        {
            name
            for (name,) in con.execute(f"{taken} union select {column} from ledger.quarantine").fetchall()
            if name
        }
        for taken, column in (
            ("select run_id from raw.runs", "run_id"),
            ("select dataset_id from raw.datasets", "dataset_id"),
        )
    )
    return runs, datasets


def count_problems(
    con: Connection,
    *,
    run_ids: Sequence[str] | None = None,
    datasets: Sequence[str] | None = None,
    resolved: bool = False,
) -> int:
    """How much of it there is."""
    asked = _asked_problems(run_ids, datasets, resolved=resolved)
    return int(con.execute(f"select count(*) {_ASKED_PROBLEMS}", asked).fetchall()[0][0])


_ASKED_PROBLEMS = (
    "from ledger.quarantine q left join raw.runs r on r.run_id = q.run_id "
    "left join raw.datasets d on d.dataset_key = r.dataset_key "
    "where (q.resolved_at is not null) = $resolved and ($runs is null or list_contains($runs, q.run_id)) "
    "and ($datasets is null or list_contains($datasets, coalesce(q.dataset_id, d.dataset_id)))"
)


def _asked_problems(
    run_ids: Sequence[str] | None, datasets: Sequence[str] | None, *, resolved: bool
) -> dict[str, object]:
    return {
        "resolved": resolved,
        "runs": None if run_ids is None else list(run_ids),
        "datasets": None if datasets is None else list(datasets),
    }


def quarantined_parts(con: Connection, run_key: int) -> dict[str, int]:
    """Part → how many of its delivered rows are in quarantine, where there are any."""
    rows = con.execute(
        "select part, n_quarantined from raw.run_parts where run_key = ? and n_quarantined > 0 order by part",
        [run_key],
    ).fetchall()
    return dict(rows)


@dataclass(frozen=True)
class RejectedFile:
    """Bytes of which something is in quarantine now, however many rows that are."""

    path: str
    dataset: str | None
    run_id: str | None
    content_hash: str | None


def _rejected_files(con: Connection) -> list[RejectedFile]:
    """What stands behind quarantine now."""
    rows = con.execute(
        "select distinct path, dataset_id, run_id, content_hash from ledger.quarantine where resolved_at is null "
        "order by all"
    ).fetchall()
    return [RejectedFile(*row) for row in rows]


def _resolve_files(store: Store, files: Sequence[RejectedFile]) -> None:
    """Resolve everything that stood in these bytes; call it in the transaction that found them."""
    for one in files:
        store.con.execute(
            "update ledger.quarantine set resolved_at = ? where resolved_at is null and path = ? "
            "and run_id is not distinct from ? and content_hash is not distinct from ?",
            [store.clock(), one.path, one.run_id, one.content_hash],
        )
