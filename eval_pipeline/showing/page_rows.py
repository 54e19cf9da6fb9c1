"""Rows that only pages show: where runs come from, queries with their texts, runs of a suite."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

from eval_pipeline.computing.derived import rank_rows, table_columns
from eval_pipeline.store.open import Connection
from eval_pipeline.store.runs import RunRow

Tuples = list[tuple[Any, ...]]


def run_facts(con: Connection, run_keys: Sequence[int]) -> Tuples:
    """(run_key, run_id, dataset, suite, night, created_at, attempt, replaces, replicate_of, commit_hash, document)."""
    return con.execute(
        "select r.run_key, r.run_id, d.dataset_id, r.suite, r.night, r.created_at, r.attempt, r.replaces, "
        "r.replicate_of, r.commit_hash, r.document "
        "from raw.runs r join raw.datasets d using (dataset_key) where r.run_key in (select unnest(?))",
        [list(run_keys)],
    ).fetchall()


def query_rows(con: Connection, run: RunRow) -> Tuples:
    """A row per scored query in golden order.

    (query_key, query_id, question, category, error, is_failed, n_expected, first_rank, answer, judge_reasoning,
    unsupported_claims)
    """
    ranks = f"(select query_key, n_expected, first_rank from {rank_rows(con)} where run_key = $run)"
    return con.execute(
        "select q.query_key, i.query_id, asked.text, c.slice_value, "
        "case when s.is_failed then coalesce(nullif(r.error, ''), 'timed out') end, s.is_failed, "
        "f.n_expected, f.first_rank, said.text, reasoned.text, coalesce(r.unsupported_claims, []) "
        "from (from labels.query_details where golden_key = $golden) q "
        "join raw.query_ids i using (query_key) "
        "join (from raw.results where run_key = $run) r on r.query_key = q.query_key "
        "join (from ledger.scored_results where run_key = $run) s on s.query_key = q.query_key "
        "left join raw.texts asked on asked.text_key = q.text_key "
        "left join raw.texts said on said.text_key = r.answer_text_key "
        "left join raw.texts reasoned on reasoned.text_key = r.judge_reasoning_key "
        "left join (from labels.slices where golden_key = $golden and slice = 'category') c "
        "on c.query_key = q.query_key "
        f"left join {ranks} f on f.query_key = q.query_key "
        "order by q.query_no, q.query_key",
        {"run": run.run_key, "golden": run.golden_key},
    ).fetchall()


_SCORED = """
select v.query_key, v.ask, j.raw_answer
from facts.verdicts v
join raw.judgements j on j.run_key = v.run_key and j.judgement_no = v.judgement_no
where v.run_key = ? and v.status in ('ok', 'repaired')
order by v.query_key, v.ask desc
"""


def judged_words(con: Connection, run: RunRow) -> dict[int, tuple[str | None, list[str]]]:
    """Query key → why the judges whose judgements score it say so, and the claims that they call unsupported."""
    if not table_columns(con, "facts.verdicts"):
        return {}
    rows = con.execute(_SCORED, [run.run_key]).fetchall()
    if not rows:
        return {}
    # Polars comes with it.
    from eval_pipeline.formulas.polars.facts.judgements import parse_judgement

    found: dict[int, tuple[str | None, list[str]]] = {}
    for query_key, ask, raw in rows:
        said = parse_judgement(ask, raw)
        reason, claims = found.get(query_key, (None, []))
        if said.reasoning:
            reason = "\n".join([*([reason] if reason else []), f"{ask}: {said.reasoning}"])
        found[query_key] = reason, [*claims, *(said.unsupported or ())]
    return found


def slices_of(con: Connection, run: RunRow) -> dict[str, list[str]]:
    """Query id → the slices that it stands in, as `tag=work`."""
    rows = con.execute(
        "select i.query_id, list(concat(s.slice, '=', s.slice_value) order by s.slice, s.slice_value) "
        "from (from labels.slices where golden_key = $golden) s join raw.query_ids i using (query_key) group by 1",
        {"golden": run.golden_key},
    ).fetchall()
    return dict(rows)


# The chunks of the archives that hold for a dataset now, each with the newest text that one of them has.
ARCHIVED = """
with archived as (
    select a.chunk_key, arg_max(a.text_key, a.archive_key) as text_key
    from raw.archive_chunks a
    join ledger.archives_in_force v on v.archive_key = a.archive_key and v.is_newest
    join raw.datasets d on d.dataset_id = $dataset and d.dataset_key = v.dataset_key
    where {condition}
    group by a.chunk_key
)
"""


# Of the chunkers whose ids the labels hold, as far as these are known.
_HAS_TEXT = """a.text_key is not null and coalesce((
    select list_contains(o.chunker_versions, v.chunker_version)
    from ledger.label_chunkers o where o.golden_key = $golden and o.is_in_force
), true)"""


def hits_of(con: Connection, run: RunRow, query_keys: Sequence[int], *, most: int) -> Tuples:
    """(query_key, chunk_id, text) of the first hits of these queries, in rank order.

    A text that was not delivered with the hit is looked up in the inventory of the run's own chunker.
    """
    own_chunker = "v.chunker_version = (select chunker_version from raw.runs where run_key = $run)"
    return con.execute(
        ARCHIVED.format(condition=own_chunker)
        + "select h.query_key, c.chunk_id, coalesce(t.text, other.text) "
        "from (from raw.hits where run_key = $run and rank <= $most and query_key in (select unnest($queries))) h "
        "join raw.chunk_ids c using (chunk_key) left join archived x using (chunk_key) "
        "left join raw.texts t on t.text_key = h.text_key left join raw.texts other on other.text_key = x.text_key "
        "order by h.query_key, h.rank",
        {"run": run.run_key, "dataset": run.dataset, "most": most, "queries": list(query_keys)},
    ).fetchall()


def expected_chunks(con: Connection, run: RunRow, query_keys: Sequence[int]) -> Tuples:
    """(query_key, chunk_id, text) of the labelled chunks, with the text of whatever inventory has one."""
    return con.execute(
        ARCHIVED.format(condition=_HAS_TEXT) + "select e.query_key, c.chunk_id, t.text "
        "from (from labels.expected_chunks where golden_key = $golden and query_key in (select unnest($queries))) e "
        "join raw.chunk_ids c using (chunk_key) left join archived x using (chunk_key) "
        "left join raw.texts t on t.text_key = x.text_key order by e.query_key, e.item_no",
        {"golden": run.delivered_key, "dataset": run.dataset, "queries": list(query_keys)},
    ).fetchall()


def recorded_latencies(con: Connection, run: RunRow) -> list[float]:
    """Every recorded total time of the run, ascending."""
    if not table_columns(con, "metrics.latency"):
        return []
    rows = con.execute(
        "select latency_total_ms from metrics.latency where run_key = ? and isfinite(latency_total_ms) order by 1",
        [run.run_key],
    ).fetchall()
    return [float(value) for (value,) in rows]


def suites(con: Connection, name: str | None) -> list[tuple[str | None, str]]:
    """(suite, dataset) of every suite, or of the one that is asked for, the one with the newest run first."""
    return con.execute(
        "select r.suite, d.dataset_id from ledger.runs_in_order r join raw.datasets d using (dataset_key) "
        "where $name is null or r.suite = $name group by r.suite, d.dataset_id "
        "order by max(r.ordered_at) desc, r.suite nulls last, d.dataset_id",
        {"name": name},
    ).fetchall()


def suite_names(con: Connection) -> list[str]:
    """Every name of a suite."""
    return [
        row[0]
        for row in con.execute("select distinct suite from raw.runs where suite is not null").fetchall()
    ]


def quarantined_counts(con: Connection, run_keys: Sequence[int]) -> dict[int, int]:
    """run_key → how many of its delivered rows are in quarantine, where there are any."""
    rows = con.execute(
        "select run_key, cast(sum(n_quarantined) as bigint) from raw.run_parts "
        "where run_key in (select unnest(?)) and n_quarantined > 0 group by run_key",
        [list(run_keys)],
    ).fetchall()
    return dict(rows)


def whole_values(con: Connection, run_keys: Sequence[int]) -> dict[int, dict[str, tuple[float | None, int]]]:
    """run_key → metric → (value, n), of whole runs."""
    found: dict[int, dict[str, tuple[float | None, int]]] = {}
    for run_key, metric, value, n in con.execute(
        "select run_key, metric, value, n from aggregates.run_metrics where slice = '' "
        "and run_key in (select unnest(?))",
        [list(run_keys)],
    ).fetchall():
        found.setdefault(run_key, {})[metric] = (value, n)
    return found


def versions_behind(con: Connection, run_keys: Sequence[int]) -> dict[int, dict[str, str]]:
    """run_key → formula, or summary of the run → the fingerprint that its aggregates rest on."""
    found: dict[int, dict[str, str]] = {}
    for run_key, source, fingerprint in con.execute(
        "select run_key, case when source = '' then definition else source end, "
        "case when source = '' then fingerprint else source_fingerprint end from ledger.cells "
        "where (source <> '' or starts_with(definition, 'aggregates.')) and run_key in (select unnest(?))",
        [list(run_keys)],
    ).fetchall():
        found.setdefault(run_key, {})[source.split(".", 1)[1]] = fingerprint
    return found


def labels_behind(con: Connection, run_keys: Sequence[int]) -> dict[int, dict[str, str]]:
    """run_key → formula → the hash of the labels behind its values; not for runs of another chunker."""
    found: dict[int, dict[str, str]] = {}
    for run_key, definition, labels_hash in con.execute(
        "select run_key, definition, labels_hash from ledger.cells "
        "where source = '' and starts_with(definition, 'metrics.') and run_key in (select unnest(?)) "
        "and golden_key not in (select variant_key from ledger.label_chunkers where variant_key is not null)",
        [list(run_keys)],
    ).fetchall():
        found.setdefault(run_key, {})[definition.split(".", 1)[1]] = labels_hash
    return found


def golden_versions(con: Connection, dataset: str) -> list[tuple[dt.datetime, int]]:
    """(loaded_at, questions) of every version of the dataset's golden set, the oldest first."""
    return con.execute(
        "select g.loaded_at, g.n_rows from labels.golden_sets g join raw.datasets d using (dataset_key) "
        "where d.dataset_id = ? order by g.loaded_at, g.golden_key",
        [dataset],
    ).fetchall()


def delivered_at(con: Connection, run_keys: Sequence[int]) -> dict[int, dt.datetime]:
    """run_key → when its results were delivered."""
    rows = con.execute(
        "select p.run_key, d.delivered_at from raw.run_parts p join ledger.deliveries d using (delivery_key) "
        "where p.part = 'results' and p.run_key in (select unnest(?))",
        [list(run_keys)],
    ).fetchall()
    return dict(rows)


def gate_words(con: Connection, run_keys: Sequence[int]) -> dict[int, str]:
    """Candidate → the word of its last verdict, of whatever baseline."""
    rows = con.execute(
        "select run_b_key, arg_max(verdict, (judged_at, run_a_key)) from comparisons.gates "
        "where run_b_key in (select unnest(?)) group by run_b_key",
        [list(run_keys)],
    ).fetchall()
    return dict(rows)


def attempt_numbers(con: Connection, run_keys: Sequence[int]) -> dict[int, int]:
    """run_key → which attempt at its night it says it is, where it does."""
    rows = con.execute(
        "select run_key, attempt from raw.runs where attempt is not null and run_key in (select unnest(?))",
        [list(run_keys)],
    ).fetchall()
    return dict(rows)


def chunker_versions(con: Connection, run_keys: Sequence[int]) -> dict[int, str | None]:
    """run_key → the chunker version that the run recorded."""
    rows = con.execute(
        "select run_key, chunker_version from raw.runs where run_key in (select unnest(?))", [list(run_keys)]
    ).fetchall()
    return dict(rows)


def first_ranks(con: Connection, run_keys: Sequence[int]) -> dict[str, Any]:
    """Columns run_key, query_key, first_rank, is_error of the queries that expect a chunk."""
    return con.execute(
        f"select run_key, query_key, first_rank, is_error from {rank_rows(con)} "
        "where n_expected > 0 and run_key in (select unnest(?))",
        [list(run_keys)],
    ).fetchnumpy()


def questions(con: Connection, dataset: str, query_keys: Sequence[int]) -> dict[int, tuple[str, str | None]]:
    """query_key → (query_id, question) of what the dataset's golden set asks now."""
    rows = con.execute(
        "select q.query_key, i.query_id, t.text from ledger.golden_sets_in_force g "
        "join raw.datasets d using (dataset_key) join labels.query_details q using (golden_key) "
        "join raw.query_ids i using (query_key) left join raw.texts t on t.text_key = q.text_key "
        "where d.dataset_id = ? and q.query_key in (select unnest(?))",
        [dataset, list(query_keys)],
    ).fetchall()
    return {key: (query_id, text) for key, query_id, text in rows}
