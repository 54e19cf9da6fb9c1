"""A formula's columns summed per run and slice, and the documents made of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final, TypedDict

from eval_pipeline.computing.derived import _failure_of
from eval_pipeline.computing.scope import Scope
from eval_pipeline.formulas.definition import Definition, literal, quoted, render
from eval_pipeline.formulas.registry import ALL_FORMULAS
from eval_pipeline.store.open import Connection, StatementError

KS = (1, 3, 5, 10)
PLAIN_KEYS = ("mrr", "citation_coverage", "groundedness", "empty_result_rate", "refusal_correctness")
DOCUMENT_KEYS = frozenset((*PLAIN_KEYS, *(f"hit@{k}" for k in KS), *(f"recall@{k}_doc" for k in KS)))


class Aggregate(TypedDict):
    """The knowledge base's summary of a run, `aggregate_json`: a plain dictionary, because others take it in."""

    hit_at_k: dict[str, float | None]
    mrr: float | None
    recall_at_k_doc: dict[str, float | None]
    citation_coverage: float | None
    groundedness: float | None
    empty_result_rate: float | None
    refusal_correctness: float | None
    total_queries: int
    failed_queries: int


def compute_aggregates(
    con: Connection, catalogue: str, definition: Definition, formula: Definition, scope: Scope
) -> dict[int, int]:
    """Replace the aggregates of one formula for the runs of the scope; returns the rows per run."""
    compute = _compute_aggregates_by_name if formula.is_scored_by_name else _compute_aggregates_by_key
    try:
        return compute(con, catalogue, definition, formula, scope)
    except StatementError as error:
        raise _failure_of(definition, error) from error


def _compute_aggregates_by_key(
    con: Connection, catalogue: str, definition: Definition, formula: Definition, scope: Scope
) -> dict[int, int]:
    keys = list(formula.keys)
    sql = render(definition.body, {**definition.header.parameters, "keys": keys}, path=definition.path)
    sql = sql.replace("metrics.formula", f"metrics.{quoted(formula.short_name)}")
    con.execute(f"create or replace temp table summed as {sql}")
    target = f'"{catalogue}".aggregates.run_metrics'
    if not scope.is_first:
        con.execute(f"delete from {target} where {scope.condition()} and source = ?", [formula.name])
    ((n_rows,),) = con.execute(
        f"insert into {target} "
        + " union all ".join(
            f"select run_key, $source, {literal(key)}, slice, slice_value, "
            f"{quoted('value ' + key)}, {quoted('n ' + key)}, {quoted('total ' + key)} "
            f"from temp.summed where {quoted('n ' + key)} > 0"
            for key in keys
        ),
        {"source": formula.name},
    ).fetchall()
    if len(scope.run_keys) == 1:
        return {scope.run_keys[0]: n_rows}
    present = " + ".join(f"count(*) filter (where {quoted('n ' + key)} > 0)" for key in keys)
    return dict(con.execute(f"select run_key, {present} from temp.summed group by run_key").fetchall())


# A run and a metric as if both were a run: so one statement averages any number of metrics, as it does any other.
_NAMED_METRICS: Final = """
create or replace temp table named_metrics as
select run_key, metric, cast(row_number() over (order by run_key, metric) as integer) as named_key
from (select distinct run_key, metric from {formula})
"""
_NAMED_VALUES: Final = """
create or replace temp table named_values as
select n.named_key as run_key, v.query_key, v.{key} as value
from {formula} v join temp.named_metrics n on n.run_key = v.run_key and n.metric = v.metric
where v.query_key is not null
"""
# What is said of the whole run stands for itself, unless its queries have scores of that name.
_OF_QUERIES_AND_RUNS: Final = """
insert into {target}
select n.run_key, $source, n.metric, s.slice, s.slice_value, s."value value", s."n value", s."total value"
from temp.summed s join temp.named_metrics n on n.named_key = s.run_key
where s."n value" > 0
union all
select v.run_key, $source, v.metric, '', '', rounded_by(v.{key}, $rounding), 1, v.{key}
from {formula} v
where v.query_key is null and v.{key} is not null
    and (v.run_key, v.metric) not in (select run_key, metric from {formula} where query_key is not null)
"""


def _compute_aggregates_by_name(
    con: Connection, catalogue: str, definition: Definition, formula: Definition, scope: Scope
) -> dict[int, int]:
    """The same of a formula whose rows name their metric."""
    (key,) = formula.keys
    names = {
        "formula": f"metrics.{quoted(formula.short_name)}",
        "key": quoted(key),
        "target": f'"{catalogue}".aggregates.run_metrics',
    }
    con.execute(_NAMED_METRICS.format(**names))
    con.execute(_NAMED_VALUES.format(**names))
    parameters = {**definition.header.parameters, "keys": ["value"]}
    sql = render(definition.body, parameters, path=definition.path)
    con.execute(f"create or replace temp table summed as {sql.replace(ALL_FORMULAS, 'temp.named_values')}")
    if not scope.is_first:
        con.execute(f"delete from {names['target']} where {scope.condition()} and source = ?", [formula.name])
    con.execute(
        _OF_QUERIES_AND_RUNS.format(**names),
        {"source": formula.name, "rounding": definition.header.parameters["rounding"]},
    )
    return dict(
        con.execute(
            f"select run_key, count(*) from {names['target']} where {scope.condition()} and source = ? "
            "group by run_key",
            [formula.name],
        ).fetchall()
    )


def _write_documents(con: Connection, catalogue: str, run_keys: Sequence[int]) -> None:
    """Renew runs.aggregate_json for these runs; an unchanged document is not written."""
    documents = {key: to_json(document) for key, document in read_documents(con, catalogue, run_keys).items()}
    target = f'"{catalogue}".aggregates.run_documents'
    known = dict(
        con.execute(
            f"select run_key, aggregate_json from {target} where run_key in (select unnest(?))",
            [list(run_keys)],
        ).fetchall()
    )
    changed = [key for key, document in documents.items() if known.get(key) != document]
    if not changed:
        return
    con.execute(f"delete from {target} where run_key in (select unnest(?))", [changed])
    con.execute(
        f"insert into {target} select unnest(?), unnest(?)", [changed, [documents[key] for key in changed]]
    )


def to_json(document: Aggregate) -> str:
    """The same document is the same text everywhere."""
    return json.dumps(document, ensure_ascii=False, allow_nan=False)


def read_documents(con: Connection, catalogue: str, run_keys: Sequence[int]) -> dict[int, Aggregate]:
    """The knowledge base's summary of each run, from its aggregates."""
    values: dict[int, dict[str, float | None]] = {key: {} for key in run_keys}
    rows = con.execute(
        f'select run_key, metric, value from "{catalogue}".aggregates.run_metrics '
        "where slice = '' and run_key in (select unnest(?)) and metric in (select unnest(?))",
        [list(run_keys), sorted(DOCUMENT_KEYS)],
    ).fetchall()
    for run_key, metric, value in rows:
        values[run_key][metric] = value
    counts = _query_counts(con, catalogue, run_keys)
    return {key: summary_of(values[key], *counts.get(key, (0, 0))) for key in run_keys}


def empty_document() -> Aggregate:
    """The summary of a run of which nothing is known."""
    return summary_of({}, 0, 0)


def _query_counts(con: Connection, catalogue: str, run_keys: Sequence[int]) -> dict[int, tuple[int, int]]:
    """Per run: golden queries that have a result, and how many of them failed."""
    rows = con.execute(
        f'select run_key, count(*), count(*) filter (where is_failed) from "{catalogue}".ledger.scored_results '
        "where run_key between ? and ? and run_key in (select unnest(?)) group by run_key",
        [min(run_keys), max(run_keys), list(run_keys)],
    ).fetchall()
    return {key: (total, failed) for key, total, failed in rows}


def summary_of(values: Mapping[str, float | None], total: int, failed: int) -> Aggregate:
    """The summary with these values of metrics."""
    return {
        "hit_at_k": {str(k): values.get(f"hit@{k}") for k in KS},
        "mrr": values.get("mrr"),
        "recall_at_k_doc": {str(k): values.get(f"recall@{k}_doc") for k in KS},
        "citation_coverage": values.get("citation_coverage"),
        "groundedness": values.get("groundedness"),
        "empty_result_rate": values.get("empty_result_rate"),
        "refusal_correctness": values.get("refusal_correctness"),
        "total_queries": total,
        "failed_queries": failed,
    }


def values_in(summary: Aggregate) -> dict[str, float | None]:
    """Metric: its value in the summary."""
    return {
        **{f"hit@{k}": value for k, value in summary["hit_at_k"].items()},
        **{f"recall@{k}_doc": value for k, value in summary["recall_at_k_doc"].items()},
        "mrr": summary["mrr"],
        "citation_coverage": summary["citation_coverage"],
        "groundedness": summary["groundedness"],
        "empty_result_rate": summary["empty_result_rate"],
        "refusal_correctness": summary["refusal_correctness"],
    }
