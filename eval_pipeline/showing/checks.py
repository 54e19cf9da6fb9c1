"""Faults of a range of runs, each found by one statement: what is wrong, run by run."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from eval_pipeline.bundle.layout import INDEX_REPORT, ROW_PARTS
from eval_pipeline.computing.derived import table_columns, table_of
from eval_pipeline.formulas.definition import Definition, quoted
from eval_pipeline.loading.cases import expected_cases
from eval_pipeline.loading.lint import Finding, all_findings, stale_label_counts
from eval_pipeline.showing.blocks import UNSTABLE_ABOVE, _judge_problems
from eval_pipeline.showing.runs import unknown_runs
from eval_pipeline.store.open import Connection, first_value
from eval_pipeline.store.project import Store
from eval_pipeline.words import decimal

REASONS_NAMED = 3
JUDGE: Final = "aggregates.judge_summary"
EXTRACTION: Final = "aggregates.extraction_summary"

Faults = Mapping[str, str]


def quarantined_rows(con: Connection, run_ids: Collection[str] | None) -> dict[str, dict[str, str]]:
    """Part → run → how many of its rows are in quarantine and why, the most frequent reason first."""
    rows = con.execute(_QUARANTINED, {"run_ids": None if run_ids is None else sorted(run_ids)}).fetchall()
    reasons: dict[tuple[str, str], list[tuple[str, int]]] = {}
    for part, run_id, reason, n in rows:
        reasons.setdefault((part, run_id), []).append((reason, n))
    found: dict[str, dict[str, str]] = {}
    for (part, run_id), counted in reasons.items():
        found.setdefault(part, {})[run_id] = _in_words(counted)
    return found


# Rows stand in the part whose bytes they came from; a part that was rejected as a whole is told by its name.
_QUARANTINED = f"""
select
    coalesce(
        p.part,
        nullif(regexp_extract(q.path, '({"|".join((*ROW_PARTS, INDEX_REPORT))})[.][^/]*$', 1), ''),
        'results'
    ) as part,
    q.run_id,
    coalesce(q.field || ': ', '') || q.reason as reason,
    count(*) as n
from ledger.quarantine q
left join raw.runs r on r.run_id = q.run_id
left join raw.run_parts p on p.run_key = r.run_key and p.content_hash = q.content_hash
where q.resolved_at is null and q.run_id is not null
    and ($run_ids is null or list_contains($run_ids, q.run_id))
group by 1, 2, 3
order by part, q.run_id, n desc, reason
"""


def _in_words(counted: list[tuple[str, int]]) -> str:
    total = sum(n for _, n in counted)
    named = "; ".join(f"{reason} ({n:,})" for reason, n in counted[:REASONS_NAMED])
    more = len(counted) - REASONS_NAMED
    rows = "1 row" if total == 1 else f"{total:,} rows"
    return f"{rows} in quarantine: {named}" + (f"; and {more:,} more reasons" if more > 0 else "")


def odd_labels(con: Connection, datasets: Collection[str] | None) -> Faults:
    """Dataset → what looks odd in its golden set."""
    found: dict[str, list[Finding]] = {}
    for finding in all_findings(con, datasets=None if datasets is None else sorted(datasets)):
        if finding.dataset is not None:
            found.setdefault(finding.dataset, []).append(finding)
    return {dataset: _findings_in_words(own) for dataset, own in found.items()}


def _findings_in_words(found: list[Finding]) -> str:
    named = "; ".join(f"{one.query_id!r} {one.words}" for one in found[:REASONS_NAMED])
    more = len(found) - REASONS_NAMED
    return named + (f"; and {more:,} more (`eval-pipeline status --lint`)" if more > 0 else "")


def undelivered_rows(con: Connection, run_ids: Collection[str] | None) -> Faults:
    """Runs of which rows are missing: every delivered result is stored or in quarantine."""
    faults = dict.fromkeys(unknown_runs(con, run_ids or ()), "not in the store")
    rows = con.execute(_DELIVERED, {"run_ids": _asked(run_ids)}).fetchall()
    for run_id, delivered, rejected, stored, quarantined in rows:
        faults[run_id] = (
            f"{delivered + rejected} results were delivered, {stored} are stored and {quarantined} in quarantine"
        )
    return faults


_DELIVERED = """
with asked as (
    select r.run_id, r.run_key, p.content_hash, d.n_rows, d.n_quarantined
    from raw.run_parts p
    join raw.runs r using (run_key)
    join ledger.deliveries d using (delivery_key)
    where p.part = 'results' and ($run_ids is null or list_contains($run_ids, r.run_id))
),
stored as (
    select x.run_key, count(*) as n
    from raw.results x
    where x.run_key between (select min(run_key) from asked) and (select max(run_key) from asked)
    group by x.run_key
),
rejected as (
    select q.run_id, q.content_hash, count(*) as n
    from ledger.quarantine q
    where q.resolved_at is null
    group by q.run_id, q.content_hash
)
select a.run_id, a.n_rows, a.n_quarantined, coalesce(s.n, 0), coalesce(q.n, 0)
from asked a
left join stored s on s.run_key = a.run_key
left join rejected q on q.run_id = a.run_id and q.content_hash = a.content_hash
where a.n_rows <> coalesce(s.n, 0) or a.n_quarantined <> coalesce(q.n, 0)
order by a.run_id
"""


def values_out_of_range(con: Connection, definition: Definition, run_ids: Collection[str] | None) -> Faults:
    """Runs with a value that is no number or lies outside the range that the definition declares."""
    columns = table_columns(con, definition.name)
    keys = [key for key in definition.keys if columns.get(key) == "DOUBLE"]
    if not keys or "run_key" not in columns:
        return {}
    counts = ", ".join(
        f"count(*) filter (where {_is_wrong(definition, key)}) as {quoted(key)}" for key in keys
    )
    store = str(con.execute("select current_database()").fetchall()[0][0])
    # What is wrong is found before it is grouped: over all of history that is a look at the columns' bounds.
    is_any_wrong = " or ".join(_is_wrong(definition, key) for key in keys)
    rows = con.execute(
        f"select r.run_id, {counts} from {table_of(definition, store)} t join raw.runs r using (run_key) "
        f"where ({is_any_wrong}) and ($run_ids is null or list_contains($run_ids, r.run_id)) "
        "group by r.run_id order by r.run_id",
        {"run_ids": _asked(run_ids)},
    ).fetchall()
    faults: dict[str, str] = {}
    for run_id, *wrong in rows:
        found = [f"{n} of {key}" for key, n in zip(keys, wrong, strict=True) if n]
        if found:
            faults[run_id] = ", ".join(found)
    return faults


def _is_wrong(definition: Definition, key: str) -> str:
    low, high = definition.header.value_range
    column = f"t.{quoted(key)}"
    wrong = [f"isnan({column})", f"isinf({column})"]
    if low is not None:
        wrong.append(f"{column} < {float(low)!r}")
    if high is not None:
        wrong.append(f"{column} > {float(high)!r}")
    return " or ".join(wrong)


def unscored_queries(store: Store, run_ids: Collection[str] | None) -> Faults:
    """Runs in which a golden query with a result lacks its row in a metric; those without a result are listed."""
    registry = store.definitions()
    con = store.con
    con.execute(_CHECKED, {"run_ids": _asked(run_ids)})
    faults: dict[str, list[str]] = {}
    for one in registry.formulas:
        if not {"run_key", "query_key"} <= set(table_columns(con, one.name)):
            continue
        rows = con.execute(_UNSCORED.format(table=f"metrics.{quoted(one.short_name)}"), [one.name]).fetchall()
        for run_id, dataset, expected, scored in rows:
            if registry.applies_to(one, dataset):
                faults.setdefault(run_id, []).append(f"{one.name} has {scored} of {expected} queries")
    return {run_id: "; ".join(found) for run_id, found in sorted(faults.items())}


def unscored_in_history(store: Store) -> Faults:
    """The same over all runs, by what the ledger counted when each was computed: its rows are not counted again."""
    registry = store.definitions()
    scored = {one.name: one for one in registry.formulas if one.is_scored_per_query}
    store.con.execute(_CHECKED, {"run_ids": None})
    faults: dict[str, list[str]] = {}
    for run_id, dataset, expected, name, counted in store.con.execute(_COUNTED, [list(scored)]).fetchall():
        if registry.applies_to(scored[name], dataset):
            faults.setdefault(run_id, []).append(f"{name} has {counted} of {expected} queries")
    return {run_id: "; ".join(found) for run_id, found in sorted(faults.items())}


_COUNTED = """
select c.run_id, c.dataset, c.n, l.definition, l.n_rows
from temp.checked_runs c
join ledger.cells l on l.run_key = c.run_key and l.golden_key = c.golden_key and l.source = ''
where l.definition in (select unnest(?)) and l.n_rows <> c.n
order by c.run_id, l.definition
"""


# What was computed is checked against the golden set it was computed with: a newer one is for the ledger to say.
_CHECKED = """
create or replace temp table checked_runs as
with computed as (
    select distinct r.run_key, r.run_id, r.dataset_key, c.golden_key
    from ledger.cells c
    join raw.runs r using (run_key)
    where c.source = '' and ($run_ids is null or list_contains($run_ids, r.run_id))
)
select c.run_key, c.golden_key, c.run_id, d.dataset_id as dataset, count(q.query_key) as n
from computed c
join raw.datasets d using (dataset_key)
left join raw.results x on x.run_key = c.run_key
left join labels.queries q on q.golden_key = c.golden_key and q.query_key = x.query_key
group by c.run_key, c.golden_key, c.run_id, d.dataset_id
"""

_UNSCORED = """
select c.run_id, c.dataset, c.n, count(m.query_key)
from temp.checked_runs c
join ledger.cells l
    on l.run_key = c.run_key and l.golden_key = c.golden_key and l.definition = ? and l.source = ''
left join {table} m on m.run_key = c.run_key
group by c.run_id, c.dataset, c.n
having count(m.query_key) <> c.n
"""


def missing_queries(con: Connection, run_ids: Collection[str] | None) -> dict[str, int]:
    """How many golden queries of each run have no result; runs without any are left out."""
    rows = con.execute(_MISSING, {"run_ids": _asked(run_ids)}).fetchall()
    return dict(rows)


_MISSING = """
select r.run_id, count(*)
from ledger.runs_in_order r
join labels.queries q on q.golden_key = r.golden_key
anti join raw.results x on x.run_key = r.run_key and x.query_key = q.query_key
where $run_ids is null or list_contains($run_ids, r.run_id)
group by r.run_id
"""


def _asked(run_ids: Collection[str] | None) -> list[str] | None:
    return None if run_ids is None else sorted(run_ids)


def badly_configured_judges(store: Store, run_ids: Collection[str] | None) -> Faults:
    """Runs whose judge is not pinned to one model, prompt and temperature 0 (S2.16), or has changed since."""
    con = store.con
    if not table_columns(con, JUDGE):
        return {}
    rows = con.execute(_JUDGES, {"run_ids": _asked(run_ids)}).fetchall()
    asked = {
        run_key: (suite, json.loads(document).get("config"), is_judged)
        for run_key, _, suite, document, is_judged in rows
    }
    found = _judge_problems(con, store.definitions().config, asked)
    return {run_id: "; ".join(found[run_key]) for run_key, run_id, *_ in rows if found[run_key]}


_JUDGES = """
select r.run_key, r.run_id, r.suite, r.document, j.is_judged
from aggregates.judge_summary j
join raw.runs r using (run_key)
where $run_ids is null or list_contains($run_ids, r.run_id)
order by r.run_id
"""


def unstable_judges(con: Connection, run_ids: Collection[str] | None) -> Faults:
    """Runs whose spot check disagrees with the judge too often (S2.28)."""
    columns = table_columns(con, JUDGE)
    if not columns:
        return {}
    # Rows of an earlier version of the definition have only the number of pairs.
    pairs_n = "coalesce(spot_check_pairs, spot_check_n)" if "spot_check_pairs" in columns else "spot_check_n"
    values = {"run_ids": _asked(run_ids), "most": UNSTABLE_ABOVE}
    rows = con.execute(_UNSTABLE.format(pairs=pairs_n), values).fetchall()
    return {
        run_id: f"{disagreeing} of {pairs} re-judged items disagree, which is more than {UNSTABLE_ABOVE * 100:g} %"
        for run_id, disagreeing, pairs in rows
    }


_UNSTABLE = """
select r.run_id, j.n_disagreeing, {pairs}
from aggregates.judge_summary j
join raw.runs r using (run_key)
where ($run_ids is null or list_contains($run_ids, r.run_id)) and j.disagreement_rate > $most
order by r.run_id
"""


def missed_extraction_targets(store: Store, run_ids: Collection[str] | None) -> Faults:
    """Runs whose extraction does not reach its target before rounding (S1.17), or lacks a case that it should hold."""
    con = store.con
    if not table_columns(con, EXTRACTION):
        return {}
    rows = con.execute(_MISSED, {"run_ids": _asked(run_ids)}).fetchall()
    faults = {
        run_id: _missed(f1, n, target=target) if n else "no case was scored" for run_id, f1, n, target in rows
    }
    for run_id, expected in expected_cases(con, store.definitions().config, _asked(run_ids)).items():
        if expected.in_words:
            faults[run_id] = f"undecided: {expected.in_words}"
    return dict(sorted(faults.items()))


def _missed(f1: float, n: int, *, target: float) -> str:
    cases = "1 case" if n == 1 else f"{n:,} cases"
    return f"macro F1 {decimal(f1)} over {cases} does not reach {target:g} before rounding"


_MISSED = """
select r.run_id, e.macro_f1, e.eval_count, e.target
from aggregates.extraction_summary e
join raw.runs r using (run_key)
where ($run_ids is null or list_contains($run_ids, r.run_id)) and not e.target_met
order by r.run_id
"""


def stale_labels(con: Connection, run_ids: Collection[str] | None) -> Faults:
    """Runs whose golden set expects chunks that the newest inventory of their chunker does not have (A3.23)."""
    counts = stale_label_counts(con, _asked(run_ids))
    return {
        run_id: f"{n} expected chunk {'id is' if n == 1 else 'ids are'} not in the inventory of {chunker!r}"
        for run_id, chunker, n in counts
    }


@dataclass(frozen=True)
class ExtractionScores:
    """The F1 of every case that was scored, in no particular order."""

    case_f1: tuple[float, ...]


def extraction_scores(con: Connection, run_key: int) -> ExtractionScores | None:
    """None when the run delivered no extraction cases, or they were not computed yet."""
    delivered = first_value(
        con, "select count(*) from raw.run_parts where run_key = ? and part = 'extractions'", [run_key]
    )
    computed = first_value(
        con,
        "select count(*) from ledger.cells where run_key = ? and definition = 'metrics.extraction'",
        [run_key],
    )
    if not delivered or not computed:
        return None
    rows = con.execute(
        "select f1 from metrics.extraction where run_key = ? and f1 is not null", [run_key]
    ).fetchall()
    return ExtractionScores(tuple(f1 for (f1,) in rows))
