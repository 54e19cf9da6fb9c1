"""Runs in their order, and what there is to say about a range of them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from eval_pipeline.computing.derived import table_columns
from eval_pipeline.errors import UnknownName
from eval_pipeline.formulas.definition import quoted
from eval_pipeline.loading.inbox import WaitingRun
from eval_pipeline.showing.plausibility import hidden_metrics
from eval_pipeline.store.open import Connection
from eval_pipeline.store.project import Project, Store
from eval_pipeline.store.runs import run_ids

EXTRACTION: Final = "aggregates.extraction_summary"
LATENCY: Final = "aggregates.latency_summary"


@dataclass(frozen=True)
class PartHeadline:
    """Of the parts of a run beside its queries: its key in documents, where it stands, and over how many it is."""

    name: str
    key: str
    table: str
    column: str
    n: str
    is_share: bool = False


PART_HEADLINES: Final = (
    PartHeadline(
        "extraction macro F1", "extraction.macro_f1", EXTRACTION, "macro_f1", "eval_count", is_share=True
    ),
    PartHeadline(
        "extraction micro F1", "extraction.micro_f1", EXTRACTION, "micro_f1", "eval_count", is_share=True
    ),
    PartHeadline("latency p50 (ms)", "latency_p50_ms", LATENCY, "total_p50_ms", "total_n"),
    PartHeadline("latency p95 (ms)", "latency_p95_ms", LATENCY, "total_p95_ms", "total_n"),
)


def part_headlines(store: Store, run_ids: Collection[str]) -> Mapping[str, Mapping[str, tuple[float, int]]]:
    """Run → headline → (value, n) of extraction and speed; what a run did not record is left out."""
    found: dict[str, dict[str, tuple[float, int]]] = {}
    for headline in PART_HEADLINES:
        one = store.definitions().definitions.get(headline.table)
        if one is None or not {headline.column, headline.n} <= table_columns(store.con, one.name).keys():
            continue
        value, n = quoted(headline.column), quoted(headline.n)
        rows = store.con.execute(
            f"select r.run_id, t.{value}, t.{n} from aggregates.{quoted(one.short_name)} t "
            f"join raw.runs r using (run_key) where t.{n} > 0 and r.run_id in (select unnest(?))",
            [list(run_ids)],
        ).fetchall()
        for run_id, number, count in rows:
            found.setdefault(run_id, {})[headline.name] = (number, count)
    return found


def check_runs(project: Project, wanted: Collection[str]) -> None:
    """Refuse names of runs that are not there."""
    with project.read() as store:
        known = run_ids(store.con)
    for run_id in wanted:
        if run_id not in known:
            raise UnknownName("run", run_id, known)


def runs_of_other_chunkers(con: Connection) -> frozenset[str]:
    """The runs whose chunker is not the one whose ids the labels hold."""
    rows = con.execute("select run_id from ledger.runs_in_order where labels_of is not null").fetchall()
    return frozenset(run_id for (run_id,) in rows)


def headline_table(project: Project, keys: Sequence[str]) -> list[tuple[str, list[float | None]]]:
    """Every run in run order with its values of these metrics."""
    with project.read() as store:
        ordered = run_ids(store.con)
        hidden = hidden_metrics(store, None)
        rows = store.con.execute(
            "select run_key, r.run_id, m.metric, m.value from aggregates.run_metrics m "
            "join raw.runs r using (run_key) where m.slice = '' and list_contains(?, m.metric)",
            [list(keys)],
        ).fetchall()
    values = {
        (run_id, metric): value
        for run_key, run_id, metric, value in rows
        if metric not in hidden.get(run_key, ())
    }
    known = project.definitions().keys()
    return [(run_id, [values.get((run_id, key)) for key in keys if key in known]) for run_id in ordered]


def run_order(store: Store, waiting: Sequence[WaitingRun] = ()) -> list[str]:
    """Every run of the store and of the inbox by its time (else the first load), then by name."""
    rows = store.con.execute("select run_id, ordered_at from ledger.runs_in_order").fetchall()
    times: dict[str, dt.datetime] = dict(rows)
    for run in waiting:
        times.setdefault(run.run_id, run.created_at or store.clock())
    return sorted(times, key=lambda run_id: (times[run_id], run_id))


@dataclass(frozen=True)
class RunPart:
    """One part of a run as the store has it."""

    run_id: str
    content_hash: str
    n_rows: int
    n_quarantined: int
    n_deliveries: int


def run_parts(con: Connection, part: str, run_ids: Collection[str]) -> list[RunPart]:
    """This part of every run that has it, by run."""
    rows = con.execute(
        "select r.run_id, p.content_hash, p.n_rows, p.n_quarantined, "
        "(select count(*) from ledger.deliveries d where d.run_id = r.run_id and d.part = p.part) "
        "from raw.run_parts p join raw.runs r using (run_key) "
        "where p.part = ? and r.run_id in (select unnest(?)) order by r.run_id",
        [part, list(run_ids)],
    ).fetchall()
    return [RunPart(*row) for row in rows]


def delivery_times(con: Connection, run_ids: Collection[str]) -> dict[str, dt.datetime]:
    """When anything of these runs was delivered last; what the store does not have is left out."""
    rows = con.execute(
        "select r.run_id, max(d.delivered_at) from raw.runs r join ledger.deliveries d using (run_id) "
        "where r.run_id in (select unnest(?)) group by r.run_id",
        [list(run_ids)],
    ).fetchall()
    return dict(rows)


def unknown_runs(con: Connection, run_ids: Collection[str]) -> list[str]:
    """Those of these runs that the store does not have."""
    rows = con.execute(
        "select wanted.run_id from (select unnest(?) as run_id) as wanted "
        "anti join raw.runs on runs.run_id = wanted.run_id order by wanted.run_id",
        [list(run_ids)],
    ).fetchall()
    return [run_id for (run_id,) in rows]


@dataclass
class RunSummary:
    """The numbers of a run that people look at over time; metrics as (value, n)."""

    metrics: dict[str, tuple[float, int]] = field(default_factory=dict)
    results: int = 0
    errors: int = 0
    timeouts: int = 0
    quarantined: int = 0


def run_summaries(
    store: Store, run_ids: Collection[str], metrics: Collection[str]
) -> Mapping[str, RunSummary]:
    """The summary of every one of these runs that the store has."""
    con = store.con
    found: dict[str, RunSummary] = {}
    asked = list(run_ids)
    for run_id, *counts in con.execute(_COUNTS, [asked]).fetchall():
        found[run_id] = RunSummary({}, *counts)
    rows = con.execute(_VALUES, [asked, list(metrics)]).fetchall()
    hidden = hidden_metrics(store, {row[0] for row in rows})
    for run_key, run_id, metric, value, n in rows:
        if metric not in hidden.get(run_key, ()):
            found[run_id].metrics[metric] = (value, n)
    return found


# Errors as S2.39 counts them would be a metric; these are the plain counts behind a look at the raw rows.
_COUNTS = """
with asked as (
    select r.run_id, r.run_key from raw.runs r where r.run_id in (select unnest(?))
),
counted as (
    select x.run_key, count(*) as results,
        count(*) filter (where coalesce(x.error, '') <> '') as errors,
        count(*) filter (where coalesce(x.timed_out, false)) as timeouts
    from raw.results x
    where x.run_key between (select min(run_key) from asked) and (select max(run_key) from asked)
    group by x.run_key
),
rejected as (
    select p.run_key, sum(p.n_quarantined) as quarantined from raw.run_parts p group by p.run_key
)
select a.run_id, coalesce(c.results, 0), coalesce(c.errors, 0), coalesce(c.timeouts, 0),
    cast(coalesce(q.quarantined, 0) as bigint)
from asked a
left join counted c on c.run_key = a.run_key
left join rejected q on q.run_key = a.run_key
"""

_VALUES = """
select r.run_key, r.run_id, m.metric, m.value, m.n
from aggregates.run_metrics m
join raw.runs r using (run_key)
where m.slice = '' and m.value is not null and r.run_id in (select unnest(?)) and m.metric in (select unnest(?))
"""
