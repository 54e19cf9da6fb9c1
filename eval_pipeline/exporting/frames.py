"""Numbers as Polars frames: per query, and of whole runs and their slices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from eval_pipeline.errors import UnknownName
from eval_pipeline.store.project import Project, Store
from eval_pipeline.store.runs import find_run, run_ids

if TYPE_CHECKING:
    import polars as pl

_PER_QUERY = """
select v.run_id, v.query_id, v.metric, v.value from main.per_query_metrics v
join raw.query_ids i on i.query_id = v.query_id
join ledger.runs_in_order r on r.run_id = v.run_id
left join labels.query_details q on q.golden_key = r.golden_key and q.query_key = i.query_key
where v.run_id in (select unnest($runs)) and v.metric in (select unnest($metrics))
order by list_position($runs, v.run_id), q.query_no, v.query_id, list_position($metrics, v.metric)
"""
_OF_RUNS = """
select run_id, slice, slice_value, metric, value, n from main.run_metrics where run_id in (select unnest($runs))
order by list_position($runs, run_id), slice, slice_value, metric
"""


def per_query_frame(project: Project, wanted: Sequence[str], metrics: Sequence[str] | None) -> pl.DataFrame:
    """A row per run, query and metric, in golden order; null where the metric does not apply."""
    import polars as pl

    with project.read() as store:
        known = list(store.definitions().keys())
        for metric in metrics or ():
            if metric not in known:
                raise UnknownName("metric", metric, known)
        asked = {"runs": _found(store, wanted), "metrics": known if metrics is None else list(metrics)}
        frame: pl.DataFrame = store.con.sql(_PER_QUERY, params=asked).pl()
    return frame.cast({"value": pl.Float64})


def run_frame(project: Project, wanted: Sequence[str] | None) -> pl.DataFrame:
    """A row per run, slice and metric; the slice of a whole run is empty."""
    import polars as pl

    with project.read() as store:
        runs = run_ids(store.con) if wanted is None else _found(store, wanted)
        frame: pl.DataFrame = store.con.sql(_OF_RUNS, params={"runs": runs}).pl()
    return frame.cast({"value": pl.Float64, "n": pl.Int64})


def _found(store: Store, wanted: Sequence[str]) -> list[str]:
    return [find_run(store.con, run_id).run_id for run_id in dict.fromkeys(wanted)]
