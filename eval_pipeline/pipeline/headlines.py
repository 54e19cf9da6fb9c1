"""Questions about several runs at once."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from eval_pipeline.errors import UnknownName
from eval_pipeline.formulas.registry import Registry
from eval_pipeline.settings import Settings
from eval_pipeline.store.connect import Connection, open_reader
from eval_pipeline.store.derived import quoted, table_columns
from eval_pipeline.store.lock import Tell
from eval_pipeline.store.read import run_ids

# Of the parts of a run beside its queries: name, table, value, and the column that says over how many.
PART_HEADLINES = (
    ("extraction macro F1", "aggregates.extraction_summary", "macro_f1", "eval_count"),
    ("latency p50 (ms)", "aggregates.latency_summary", "total_p50_ms", "total_n"),
    ("latency p95 (ms)", "aggregates.latency_summary", "total_p95_ms", "total_n"),
)


def part_headlines(
    con: Connection, registry: Registry, run_ids: Collection[str]
) -> Mapping[str, Mapping[str, tuple[float, int]]]:
    """Run → headline → (value, n) of extraction and speed; what a run did not record is left out."""
    found: dict[str, dict[str, tuple[float, int]]] = {}
    for name, table, value, n in PART_HEADLINES:
        one = registry.definitions.get(table)
        if one is None or not {value, n} <= table_columns(con, one.name).keys():
            continue
        rows = con.execute(
            f"select r.run_id, t.{quoted(value)}, t.{quoted(n)} from aggregates.{quoted(one.short_name)} t "
            f"join raw.runs r using (run_key) where t.{quoted(n)} > 0 and r.run_id in (select unnest(?))",
            [list(run_ids)],
        ).fetchall()
        for run_id, number, count in rows:
            found.setdefault(run_id, {})[name] = (number, count)
    return found


def check_runs(settings: Settings, wanted: Collection[str], *, tell: Tell | None = None) -> None:
    """Refuse names of runs that are not there."""
    with open_reader(settings.db, tell=tell) as con:
        known = run_ids(con)
    for run_id in wanted:
        if run_id not in known:
            raise UnknownName("run", run_id, known)


def headline_table(
    settings: Settings, registry: Registry, keys: Sequence[str], *, tell: Tell | None = None
) -> list[tuple[str, list[float | None]]]:
    """Every run in run order with its values of these metrics."""
    with open_reader(settings.db, tell=tell) as con:
        ordered = run_ids(con)
        values = {
            (run_id, metric): value
            for run_id, metric, value in con.execute(
                "select r.run_id, m.metric, m.value from aggregates.run_metrics m join raw.runs r using (run_key) "
                "where m.slice = '' and list_contains(?, m.metric)",
                [list(keys)],
            ).fetchall()
        }
    known = registry.keys()
    return [(run_id, [values.get((run_id, key)) for key in keys if key in known]) for run_id in ordered]
