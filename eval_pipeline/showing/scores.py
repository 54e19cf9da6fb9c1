"""Scores of others in the store: which names its runs have, each as a metric."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from eval_pipeline.computing.derived import table_columns
from eval_pipeline.formulas.definition import Definition
from eval_pipeline.formulas.registry import Registry
from eval_pipeline.formulas.scores import PREFIX, Delivered, score_metric
from eval_pipeline.store.project import Store
from eval_pipeline.store.runs import RunRow


def metrics_of(store: Store, run_keys: Collection[int] | None = None) -> Registry:
    """The definitions, with the scores that these runs (without a word: all) have values of as metrics of their own.

    Whoever asks which metrics there are, and on which scale, asks here.
    """
    registry = store.definitions()
    by_name = next((one for one in registry if one.is_scored_by_name), None)
    if by_name is None:
        return registry
    return replace(registry, scores=_score_metrics(store, by_name, run_keys))


def _score_metrics(
    store: Store, by_name: Definition, run_keys: Collection[int] | None
) -> dict[str, Definition]:
    of_runs = "run_key between $first and $last and run_key in (select unnest($keys)) and "
    keys = sorted(run_keys or ())
    if run_keys is not None and not keys:
        return {}
    rows = store.con.execute(
        "select name, bool_and(value is null or value in (0, 1)), count(value) > 0 from ("
        "select run_key, name, value from raw.scores union all select run_key, name, value from raw.run_scores) "
        f"where {of_runs if keys else ''}true group by name order by name",
        {"keys": keys, "first": keys[0], "last": keys[-1]} if keys else {},
    ).fetchall()
    return {
        PREFIX + name: score_metric(store.definitions(), by_name, name, of=Delivered(*delivered))
        for name, *delivered in rows
    }


def _unscored_of(store: Store, run: RunRow) -> dict[str, int]:
    """Metric → how many of the scores that were delivered under its name hold no number, where some do."""
    tables = [one.name for one in store.definitions() if one.is_scored_by_name]
    if not tables or not table_columns(store.con, tables[0]):
        return {}
    rows = store.con.execute(
        f"select metric, count(*) from {tables[0]} where run_key = ? and value is null group by metric order by metric",
        [run.run_key],
    ).fetchall()
    return dict(rows)
