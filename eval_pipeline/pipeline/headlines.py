"""Questions about several runs at once."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from eval_pipeline.errors import UnknownName
from eval_pipeline.formulas.definition import quoted
from eval_pipeline.formulas.registry import Registry
from eval_pipeline.settings import Settings
from eval_pipeline.store.connect import Connection, open_reader
from eval_pipeline.store.derived import table_columns
from eval_pipeline.store.lock import Tell
from eval_pipeline.store.read import run_ids, waiting_runs


@dataclass(frozen=True)
class PartHeadline:
    """Of the parts of a run beside its queries: its key in documents, where it stands, and over how many it is."""

    name: str
    key: str
    table: str
    column: str
    n: str
    is_share: bool = False


EXTRACTION: Final = "aggregates.extraction_summary"
LATENCY: Final = "aggregates.latency_summary"
PART_HEADLINES: Final = (
    PartHeadline(
        "extraction macro F1", "extraction.macro_f1", EXTRACTION, "macro_f1", "eval_count", is_share=True
    ),
    PartHeadline("latency p50 (ms)", "latency_p50_ms", LATENCY, "total_p50_ms", "total_n"),
    PartHeadline("latency p95 (ms)", "latency_p95_ms", LATENCY, "total_p95_ms", "total_n"),
)


def part_headlines(
    con: Connection, registry: Registry, run_ids: Collection[str]
) -> Mapping[str, Mapping[str, tuple[float, int]]]:
    """Run → headline → (value, n) of extraction and speed; what a run did not record is left out."""
    found: dict[str, dict[str, tuple[float, int]]] = {}
    for headline in PART_HEADLINES:
        one = registry.definitions.get(headline.table)
        if one is None or not {headline.column, headline.n} <= table_columns(con, one.name).keys():
            continue
        value, n = quoted(headline.column), quoted(headline.n)
        rows = con.execute(
            f"select r.run_id, t.{value}, t.{n} from aggregates.{quoted(one.short_name)} t "
            f"join raw.runs r using (run_key) where t.{n} > 0 and r.run_id in (select unnest(?))",
            [list(run_ids)],
        ).fetchall()
        for run_id, number, count in rows:
            found.setdefault(run_id, {})[headline.name] = (number, count)
    return found


def check_runs(settings: Settings, wanted: Collection[str], *, tell: Tell | None = None) -> None:
    """Refuse names of runs that are not there."""
    with open_reader(settings.db, tell=tell) as con:
        known = run_ids(con)
    for run_id in wanted:
        if run_id not in known:
            raise UnknownName("run", run_id, known)


def runs_without_golden_set(
    settings: Settings, wanted: Collection[str], *, tell: Tell | None = None
) -> list[str]:
    """Those of these runs (of all, when none is named) that cannot be scored yet."""
    with open_reader(settings.db, tell=tell) as con:
        waiting = waiting_runs(con)
    return [run_id for run_id in waiting if not wanted or run_id in wanted]


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
