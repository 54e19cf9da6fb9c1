"""Checks over a range of runs, each one statement: what is wrong, run by run."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from eval_pipeline.formulas.definition import Definition, quoted
from eval_pipeline.formulas.registry import Registry
from eval_pipeline.pipeline.runs import unknown_runs
from eval_pipeline.store.connect import Connection
from eval_pipeline.store.derived import table_columns, table_of

Faults = Mapping[str, str]


def undelivered_rows(con: Connection, run_ids: Collection[str] | None) -> Faults:
    """Runs of which rows are missing: every delivered result is stored or in quarantine."""
    faults = dict.fromkeys(unknown_runs(con, run_ids or ()), "not in the store")
    rows = con.execute(_DELIVERED, {"run_ids": _asked(run_ids)}).fetchall()
    for run_id, delivered, rejected, stored, quarantined in rows:
        faults[run_id] = (
            f"{delivered + rejected} results were delivered, {stored} are stored and {quarantined} in quarantine"
        )
    return faults


_DELIVERED = """
with asked as (
    select r.run_id, r.run_key, p.content_hash, d.n_rows, d.n_quarantined
    from raw.run_parts p
    join raw.runs r using (run_key)
    join ledger.deliveries d using (delivery_key)
    where p.part = 'results' and ($run_ids is null or list_contains($run_ids, r.run_id))
),
stored as (
    select x.run_key, count(*) as n
    from raw.results x
    where x.run_key between (select min(run_key) from asked) and (select max(run_key) from asked)
    group by x.run_key
),
rejected as (
    select q.run_id, q.content_hash, count(*) as n
    from ledger.quarantine q
    where q.resolved_at is null
    group by q.run_id, q.content_hash
)
select a.run_id, a.n_rows, a.n_quarantined, coalesce(s.n, 0), coalesce(q.n, 0)
from asked a
left join stored s on s.run_key = a.run_key
left join rejected q on q.run_id = a.run_id and q.content_hash = a.content_hash
where a.n_rows <> coalesce(s.n, 0) or a.n_quarantined <> coalesce(q.n, 0)
order by a.run_id
"""


def values_out_of_range(con: Connection, definition: Definition, run_ids: Collection[str] | None) -> Faults:
    """Runs with a value that is no number or lies outside the range that the definition declares."""
    columns = table_columns(con, definition.name)
    keys = [key for key in definition.keys if columns.get(key) == "DOUBLE"]
    if not keys or "run_key" not in columns:
        return {}
    counts = ", ".join(
        f"count(*) filter (where {_is_wrong(definition, key)}) as {quoted(key)}" for key in keys
    )
    store = str(con.execute("select current_database()").fetchall()[0][0])
    rows = con.execute(
        f"select r.run_id, {counts} from {table_of(definition, store)} t join raw.runs r using (run_key) "
        "where $run_ids is null or list_contains($run_ids, r.run_id) group by r.run_id order by r.run_id",
        {"run_ids": _asked(run_ids)},
    ).fetchall()
    faults: dict[str, str] = {}
    for run_id, *wrong in rows:
        found = [f"{n} of {key}" for key, n in zip(keys, wrong, strict=True) if n]
        if found:
            faults[run_id] = ", ".join(found)
    return faults


def _is_wrong(definition: Definition, key: str) -> str:
    low, high = definition.header.value_range
    column = f"t.{quoted(key)}"
    wrong = [f"isnan({column})", f"isinf({column})"]
    if low is not None:
        wrong.append(f"{column} < {float(low)!r}")
    if high is not None:
        wrong.append(f"{column} > {float(high)!r}")
    return " or ".join(wrong)


def unscored_queries(con: Connection, registry: Registry, run_ids: Collection[str] | None) -> Faults:
    """Runs in which a golden query with a result lacks its row in a metric; those without a result are listed."""
    con.execute(_CHECKED, {"run_ids": _asked(run_ids)})
    faults: dict[str, list[str]] = {}
    for one in registry.formulas:
        if not {"run_key", "query_key"} <= set(table_columns(con, one.name)):
            continue
        rows = con.execute(_UNSCORED.format(table=f"metrics.{quoted(one.short_name)}"), [one.name]).fetchall()
        for run_id, dataset, expected, scored in rows:
            if registry.applies_to(one, dataset):
                faults.setdefault(run_id, []).append(f"{one.name} has {scored} of {expected} queries")
    return {run_id: "; ".join(found) for run_id, found in sorted(faults.items())}


# What was computed is checked against the golden set it was computed with: a newer one is for the ledger to say.
_CHECKED = """
create or replace temp table checked_runs as
with computed as (
    select distinct r.run_key, r.run_id, r.dataset_key, c.golden_key
    from ledger.cells c
    join raw.runs r using (run_key)
    where c.source = '' and ($run_ids is null or list_contains($run_ids, r.run_id))
)
select c.run_key, c.golden_key, c.run_id, d.dataset_id as dataset, count(q.query_key) as n
from computed c
join raw.datasets d using (dataset_key)
left join raw.results x on x.run_key = c.run_key
left join labels.queries q on q.golden_key = c.golden_key and q.query_key = x.query_key
group by c.run_key, c.golden_key, c.run_id, d.dataset_id
"""

_UNSCORED = """
select c.run_id, c.dataset, c.n, count(m.query_key)
from temp.checked_runs c
join ledger.cells l
    on l.run_key = c.run_key and l.golden_key = c.golden_key and l.definition = ? and l.source = ''
left join {table} m on m.run_key = c.run_key
group by c.run_id, c.dataset, c.n
having count(m.query_key) <> c.n
"""


def missing_queries(con: Connection, run_ids: Collection[str] | None) -> dict[str, int]:
    """How many golden queries of each run have no result; runs without any are left out."""
    rows = con.execute(_MISSING, {"run_ids": _asked(run_ids)}).fetchall()
    return dict(rows)


_MISSING = """
select r.run_id, count(*)
from raw.runs r
join labels.golden_sets g on g.dataset_key = r.dataset_key and g.superseded_at is null
join labels.queries q on q.golden_key = g.golden_key
anti join raw.results x on x.run_key = r.run_key and x.query_key = q.query_key
where $run_ids is null or list_contains($run_ids, r.run_id)
group by r.run_id
"""


def _asked(run_ids: Collection[str] | None) -> list[str] | None:
    return None if run_ids is None else sorted(run_ids)
