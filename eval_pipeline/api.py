"""The product as Python functions."""

# Without `db` they work on the store of the environment, like the command line.

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from eval_pipeline.bundle.writer import BundleWriter
from eval_pipeline.comparing import compare
from eval_pipeline.comparing.documents import CompareReport
from eval_pipeline.exporting import frames
from eval_pipeline.planning.compare_files import side_by_side
from eval_pipeline.report import markdown
from eval_pipeline.settings import load_settings
from eval_pipeline.showing import document
from eval_pipeline.store.project import project_of

if TYPE_CHECKING:
    import polars as pl

    from eval_pipeline.computing.aggregates import Aggregate
    from eval_pipeline.store.open import Connection

__all__ = [
    "BundleWriter",
    "CompareReport",
    "compare_files",
    "compare_runs",
    "compute_aggregate",
    "open_store",
    "per_query_metrics",
    "render_report_md",
    "run_metrics",
    "store_aggregate",
]


def compare_runs(
    a: str, b: str, strict_chunker_version: bool = False, *, db: str | Path | None = None
) -> CompareReport:
    """Two runs side by side, as `eval-pipeline compare A B --format json` prints them.

    Its fields are also read by their keys, `report["deltas"]`; `dict(report)` is the document as JSON has it.
    With `strict_chunker_version` runs that are not known to share one chunker version raise RefusedError.
    """
    project = project_of(load_settings(db=db))
    return compare.compare(project, a, b, strict_chunker_version=strict_chunker_version)


def compare_files(
    a: str | Path, b: str | Path, labels: str | Path | None = None, *, db: str | Path | None = None
) -> CompareReport:
    """Two files of results side by side, as `eval-pipeline compare A B --labels FILE --format json` prints them.

    Either may be a run of the store, which is only read. `labels` are qrels, a golden set or a BEIR folder.
    """
    project = project_of(load_settings(db=db))
    chosen = None if labels is None else Path(labels)
    with side_by_side(project, os.fspath(a), os.fspath(b), chosen) as sides:
        return sides.compared()


def render_report_md(report: CompareReport | Mapping[str, Any]) -> str:
    """The comparison as one Markdown file: aggregate deltas, and the wins, losses and regressions.

    It may also be what somebody read back from a file of `compare --format json`.
    """
    return markdown.render_report_md(msgspec.convert(report, CompareReport))


def compute_aggregate(run_id: str, *, db: str | Path | None = None) -> Aggregate:
    """The run's summary from its stored results, under the formulas that hold now; nothing is written."""
    return document.compute_aggregate(project_of(load_settings(db=db)), run_id)


def store_aggregate(run_id: str, aggregate: Mapping[str, object], *, db: str | Path | None = None) -> None:
    """Make this the run's `aggregate_json`; an unknown run raises UnknownName, no other run changes.

    `db` may also be a knowledge base in SQLite, whose table `eval_runs` has `run_id` and `aggregate_json`: one
    UPDATE in one transaction. While another program writes there it waits for five seconds, then raises StoreBusy.
    """
    document.store_aggregate(project_of(load_settings(db=db)), run_id, aggregate)


def per_query_metrics(
    run_ids: str | Sequence[str], metrics: Sequence[str] | None = None, *, db: str | Path | None = None
) -> pl.DataFrame:
    """The numbers of every scored query: run_id, query_id, metric, value; in golden order, unrounded.

    A value is null where the metric does not apply to the query. Without `metrics` all that score queries.

    >>> per_query_metrics("monday", ["hit@1", "mrr"]).rows()
    [('monday', 'reset', 'hit@1', 0.0), ('monday', 'reset', 'mrr', 0.5)]
    """
    wanted = [run_ids] if isinstance(run_ids, str) else list(run_ids)
    return frames.per_query_frame(project_of(load_settings(db=db)), wanted, metrics)


def run_metrics(run_ids: str | Sequence[str] | None = None, *, db: str | Path | None = None) -> pl.DataFrame:
    """The aggregates of runs, of all without `run_ids`: run_id, slice, slice_value, metric, value, n, in run order.

    The rows of a whole run have an empty slice; n is how many queries are behind the value.

    >>> frame = run_metrics(["monday"])
    >>> frame.filter(slice="", metric="mrr").select("value", "n").row(0)
    (0.5, 1)
    """
    wanted = [run_ids] if isinstance(run_ids, str) else run_ids
    return frames.run_frame(project_of(load_settings(db=db)), wanted)


@contextmanager
def open_store(path: str | Path | None = None) -> Iterator[Connection]:
    """The store for reading, as a DuckDB connection; writers wait until the block is left.

    with open_store("data/eval.duckdb") as store:
        store.sql("from runs").pl()
    """
    with project_of(load_settings(db=path)).read(for_others=True) as store:
        yield store.con
