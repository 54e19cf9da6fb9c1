"""Parquet: the numbers of every query, of one run or of many in one table."""

from __future__ import annotations

import pyarrow as pa

from eval_pipeline.exporting._form import Export, Files, Form, Page
from eval_pipeline.exporting.documents import PER_QUERY_TABLE, _as_parquet, _per_query_table


def files(export: Export) -> Files:
    """One table; a metric that a run has not is null in its rows."""
    tables = [_per_query_table(export.store, run) for run in export.runs]
    yield PER_QUERY_TABLE, _as_parquet(pa.concat_tables(tables, promote_options="default"))


PAGE = Page(
    title="numbers per query as Parquet",
    files=((PER_QUERY_TABLE, "`run_id`, `query_id`, and a column per metric: a row per run and query"),),
    carries=(
        "every number per query, unrounded, of all runs in one table; null where a metric does not apply",
    ),
    cannot=(
        "why a number is null",
        "hits, answers and labels: no run can be made of it again",
        "aggregates, as they follow from the numbers; `eval_pipeline.run_metrics` has them",
    ),
    again='polars.read_parquet("per_query.parquet")',
)
FORM = Form("parquet", PAGE, files)
