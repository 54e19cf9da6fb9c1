"""What aggregates said at a point of time, or under a meaning: today's values and the history read as one."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from eval_pipeline.errors import UsageError
from eval_pipeline.store.connect import Connection
from eval_pipeline.store.read import RunRow

FINGERPRINT_START = "fp1:"


@dataclass(frozen=True)
class Point:
    """A moment (inclusive), or a fingerprint; both None is now."""

    moment: dt.datetime | None = None
    fingerprint: str | None = None


@dataclass(frozen=True)
class Stored:
    """One aggregate as it stood: its exact value, and what it was made of."""

    value: float | None
    n: int
    total: float | None
    source: str
    fingerprint: str
    golden_key: int
    results_hash: str


def parse_point(text: str | None) -> Point:
    """A date means the end of that day in UTC; a time is itself; fp1:… is a formula's fingerprint."""
    if text is None:
        return Point()
    if text.startswith(FINGERPRINT_START):
        return Point(fingerprint=text)
    try:
        day = dt.date.fromisoformat(text)
        return Point(moment=dt.datetime.combine(day, dt.time.max))
    except ValueError:
        pass
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(
            f"--as-of {text!r} is no date such as 2026-08-31, no time such as 2026-08-31T12:00:00Z and no "
            "fingerprint such as fp1:0123abcd…"
        ) from error
    return Point(moment=moment.astimezone(dt.UTC).replace(tzinfo=None) if moment.tzinfo else moment)


# Everything an aggregate ever said about a run, with how long it stood; what stands now has no end.
STOOD = """
select m.source, m.metric, m.slice, m.slice_value, m.value, m.n, m.total, c.source_fingerprint as fingerprint,
    c.golden_key, c.results_hash, c.computed_at as valid_from, timestamp '9999-12-31' as valid_to
from aggregates.run_metrics m
join ledger.cells c on c.run_key = m.run_key and c.source = m.source
where m.run_key = $run_key
union all
select source, metric, slice, slice_value, value, n, total, formula_fingerprint, golden_key, results_hash,
    valid_from, valid_to
from ledger.aggregate_history
where run_key = $run_key
"""


def stood_at(con: Connection, run: RunRow, point: Point) -> dict[tuple[str, str], dict[str, Stored]]:
    """(slice, slice value) → metric → what stood there at that point."""
    if point.fingerprint is not None:
        condition = "starts_with(fingerprint, $fingerprint)"
        parameters: dict[str, object] = {"run_key": run.run_key, "fingerprint": point.fingerprint}
    else:
        condition = "valid_from <= $moment and $moment < valid_to"
        moment = point.moment or dt.datetime(9999, 12, 30)
        parameters = {"run_key": run.run_key, "moment": moment}
    rows = con.execute(
        f"with stood as ({STOOD}) select slice, slice_value, metric, value, n, total, source, fingerprint, golden_key, "
        f"results_hash from stood where {condition} "
        "qualify row_number() over (partition by slice, slice_value, metric order by valid_from desc) = 1",
        parameters,
    ).fetchall()
    found: dict[tuple[str, str], dict[str, Stored]] = {}
    for (
        slice_name,
        slice_value,
        metric,
        value,
        n,
        total,
        source,
        fingerprint,
        golden_key,
        results_hash,
    ) in rows:
        found.setdefault((slice_name, slice_value), {})[metric] = Stored(
            value, n, total, source, fingerprint, golden_key, results_hash
        )
    return found
