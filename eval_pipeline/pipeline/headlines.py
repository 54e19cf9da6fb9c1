"""Questions about several runs at once."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from eval_pipeline.errors import UnknownName
from eval_pipeline.formulas.registry import Registry
from eval_pipeline.settings import Settings
from eval_pipeline.store.connect import open_reader
from eval_pipeline.store.lock import Tell
from eval_pipeline.store.read import run_ids


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
