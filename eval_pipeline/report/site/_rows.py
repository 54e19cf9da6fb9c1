"""Rows that only the pages of a site show: what became of questions, and what their labels were."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

from eval_pipeline.computing.derived import rank_rows, table_columns
from eval_pipeline.formulas.definition import Definition, quoted
from eval_pipeline.store.open import Connection

Values = dict[tuple[int, int], dict[str, float | None]]


def datasets(con: Connection) -> list[str]:
    """Every dataset that has runs or labels."""
    rows = con.execute("select dataset_id from raw.datasets order by dataset_id").fetchall()
    return [name for (name,) in rows]


def questions_of(con: Connection, dataset: str) -> list[tuple[int, str, str | None]]:
    """(query_key, query_id, text) of every question: those of the labels in force, then what else runs answered."""
    return con.execute(
        "with own as (select dataset_key from raw.datasets where dataset_id = ?), "
        "labelled as (select q.query_key, q.text_key, q.query_no from ledger.golden_sets_in_force g join own "
        "using (dataset_key) join labels.query_details q using (golden_key)), "
        "answered as (select distinct r.query_key from raw.results r join raw.runs using (run_key) join own "
        "using (dataset_key)) "
        "select query_key, i.query_id, t.text from labelled full join answered using (query_key) "
        "join raw.query_ids i using (query_key) left join raw.texts t using (text_key) "
        "order by query_no nulls last, i.query_id",
        [dataset],
    ).fetchall()


def answers_of(con: Connection, run_keys: Sequence[int], query_keys: Sequence[int]) -> list[tuple[Any, ...]]:
    """(run_key, query_key, is_failed, error, n_expected, first_rank, answer) of what these runs answered."""
    return con.execute(
        "with asked as (from raw.results where run_key in (select unnest($runs)) "
        "and query_key in (select unnest($queries))), "
        "scored as (from ledger.scored_results where run_key in (select unnest($runs)) "
        "and query_key in (select unnest($queries))) "
        "select r.run_key, r.query_key, s.is_failed, "
        "case when s.is_failed then coalesce(nullif(r.error, ''), 'timed out') else nullif(r.error, '') end, "
        "f.n_expected, f.first_rank, said.text from asked r "
        "left join scored s on s.run_key = r.run_key and s.query_key = r.query_key "
        f"left join {rank_rows(con)} f on f.run_key = r.run_key and f.query_key = r.query_key "
        "left join raw.texts said on said.text_key = r.answer_text_key",
        {"runs": list(run_keys), "queries": list(query_keys)},
    ).fetchall()


def values_of(
    con: Connection, metrics: Mapping[str, Definition], runs: Sequence[int], queries: Sequence[int]
) -> Values:
    """(run_key, query_key) → metric → value, of these metrics (each with its formula) as far as they are computed."""
    by_formula: dict[str, list[str]] = {}
    for key, one in metrics.items():
        by_formula.setdefault(one.name, []).append(key)
    found: Values = {}
    for name, own in by_formula.items():
        if table_columns(con, name):
            _add_values(con, metrics[own[0]], own, (runs, queries), found)
    return found


def _add_values(
    con: Connection,
    one: Definition,
    keys: Sequence[str],
    chosen: tuple[Sequence[int], Sequence[int]],
    found: Values,
) -> None:
    condition = "where run_key in (select unnest(?)) and query_key in (select unnest(?))"
    parameters: list[Any] = [list(keys) for keys in chosen]
    if one.is_scored_by_name:
        rows = con.execute(
            f"select run_key, query_key, metric, value from {one.name} {condition} and list_contains(?, metric)",
            [*parameters, list(keys)],
        ).fetchall()
        for run_key, query_key, metric, value in rows:
            found.setdefault((run_key, query_key), {})[metric] = value
        return
    listed = ", ".join(quoted(key) for key in keys)
    statement = f"select run_key, query_key, {listed} from {one.name} {condition}"
    for run_key, query_key, *values in con.execute(statement, parameters).fetchall():
        found.setdefault((run_key, query_key), {}).update(zip(keys, values, strict=True))


def golden_sets(con: Connection, dataset: str) -> list[tuple[int, dt.datetime, bool]]:
    """(golden_key, loaded_at, is_in_force) of every golden set that the dataset has had, oldest first."""
    return con.execute(
        "select s.golden_key, s.loaded_at, f.golden_key is not null from labels.golden_sets s "
        "join raw.datasets using (dataset_key) left join ledger.golden_sets_in_force f using (golden_key) "
        "where dataset_id = ? order by s.loaded_at, s.golden_key",
        [dataset],
    ).fetchall()


# What a golden set says of a question, each kind of label as a text.
_LABELS = """
with details as (
    from labels.query_details
    where golden_key in (select unnest($golden)) and query_key in (select unnest($queries))
)
select d.golden_key, d.query_key, 'question' as what, t.text as said, true as is_text
from details d join raw.texts t using (text_key)
union all
select golden_key, query_key, 'expected chunks',
    coalesce(string_agg(c.chunk_id, ', ' order by e.item_no), 'none'), false
from details join labels.expected_chunk_counts using (golden_key, query_key)
left join labels.expected_chunks e using (golden_key, query_key) left join raw.chunk_ids c using (chunk_key)
group by golden_key, query_key
union all
select golden_key, query_key, 'expected documents',
    coalesce(string_agg(i.doc_id, ', ' order by e.item_no), 'none'), false
from details join labels.expected_document_counts using (golden_key, query_key)
left join labels.expected_documents e using (golden_key, query_key) left join raw.doc_ids i using (doc_key)
group by golden_key, query_key
union all
select golden_key, query_key, 'grades', string_agg(concat(c.chunk_id, ' ', g.grade), ', ' order by c.chunk_id), false
from details join labels.grades g using (golden_key, query_key) join raw.chunk_ids c using (chunk_key)
group by golden_key, query_key
union all
select golden_key, query_key, s.kind, string_agg(s.text, ' · ' order by s.item_no), true
from details join labels.strings s using (golden_key, query_key) group by golden_key, query_key, s.kind
union all
select golden_key, query_key, 'answerable', case when a.answerable then 'yes' else 'no' end, false
from details join labels.answerable a using (golden_key, query_key)
union all
select golden_key, query_key, s.slice, string_agg(s.slice_value, ', ' order by s.slice_value), false
from details join labels.slices s using (golden_key, query_key) group by golden_key, query_key, s.slice
"""


def labels_of(
    con: Connection, golden: Sequence[int], query_keys: Sequence[int], *, with_text: bool
) -> dict[tuple[int, int], dict[str, str]]:
    """(golden_key, query_key) → what was labelled, as texts; empty where the golden set asked it and said no more."""
    chosen = {"golden": list(golden), "queries": list(query_keys)}
    found: dict[tuple[int, int], dict[str, str]] = {
        (golden_key, query_key): {}
        for golden_key, query_key in con.execute(
            "select golden_key, query_key from labels.queries where golden_key in (select unnest($golden)) "
            "and query_key in (select unnest($queries))",
            chosen,
        ).fetchall()
    }
    for golden_key, query_key, what, said, is_text in con.execute(_LABELS, chosen).fetchall():
        if with_text or not is_text:
            found[golden_key, query_key][what.replace("_", " ")] = said
    return found
