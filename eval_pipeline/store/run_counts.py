"""How much of its golden set each run answered, counted whenever results or a golden set are taken in."""

from __future__ import annotations

from collections.abc import Collection

from eval_pipeline.store.connect import Connection

_COUNTS = """
insert into ledger.run_counts
with counted as (
    select r.run_key, r.dataset_key, g.golden_key, coalesce(g.n_rows, 0) as n_golden, d.delivered_at,
        p.run_key is null and e.run_key is not null as is_without_results
    from raw.runs r
    left join labels.golden_sets g on g.dataset_key = r.dataset_key and g.superseded_at is null
    left join raw.run_parts p on p.run_key = r.run_key and p.part = 'results'
    left join ledger.deliveries d on d.delivery_key = p.delivery_key
    left join raw.run_parts e on e.run_key = r.run_key and e.part = 'extractions'
    where r.run_key in (select unnest($keys))
),
asked as (
    select c.run_key,
        coalesce(max(v.golden_key) filter (where v.loaded_at <= c.delivered_at), min(v.golden_key)) as asked_key
    from counted c join labels.golden_sets v on v.dataset_key = c.dataset_key
    group by c.run_key
),
results as (
    select x.run_key, x.query_key, coalesce(x.error, '') <> '' or coalesce(x.timed_out, false) as is_failed
    from raw.results x
    where x.run_key between $first and $last and x.run_key in (select unnest($keys))
),
answered as (
    select c.run_key, count(*) as n_results, count(*) filter (where x.is_failed) as n_failed
    from counted c
    join results x on x.run_key = c.run_key
    join labels.queries q on q.golden_key = c.golden_key and q.query_key = x.query_key
    group by c.run_key
),
later as (
    select c.run_key, count(*) as n_not_asked
    from counted c
    join asked a on a.run_key = c.run_key and a.asked_key <> c.golden_key
    join labels.queries q on q.golden_key = c.golden_key
    anti join labels.queries b on b.golden_key = a.asked_key and b.query_key = q.query_key
    anti join results x on x.run_key = c.run_key and x.query_key = q.query_key
    group by c.run_key
)
select c.run_key, c.golden_key, c.n_golden, coalesce(n.n_results, 0), coalesce(n.n_failed, 0),
    coalesce(l.n_not_asked, 0), c.is_without_results
from counted c
left join answered n on n.run_key = c.run_key
left join later l on l.run_key = c.run_key
"""


def count_runs(con: Connection, run_keys: Collection[int]) -> None:
    """Count these runs anew; call it inside the transaction that changed their results."""
    if not run_keys:
        return
    keys = sorted(run_keys)
    con.execute("delete from ledger.run_counts where run_key in (select unnest(?))", [keys])
    con.execute(_COUNTS, {"keys": keys, "first": keys[0], "last": keys[-1]})


def count_runs_of_dataset(con: Connection, dataset_key: int) -> None:
    """Count every run of a dataset anew; call it inside the transaction that changed its golden set."""
    rows = con.execute("select run_key from raw.runs where dataset_key = ?", [dataset_key]).fetchall()
    count_runs(con, [run_key for (run_key,) in rows])
