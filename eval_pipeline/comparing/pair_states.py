"""Which pairs of runs there should be, and whether those that are stored still hold."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from eval_pipeline.store.open import Connection

Baselines = Mapping[tuple[str | None, str], str]


class PairInputs(NamedTuple):
    """What a comparison is made of, as hashes."""

    results_hash: str
    labels_hash: str
    archive_hash: str
    parents_hash: str


class PairState(NamedTuple):
    """A pair that is stored or should be; `reason` is None where it is fresh.

    Beyond the newest runs a comparison is left as it was made. One that is not ready has a run that is to be computed
    first; both runs of one that is settled have nothing stale.
    """

    run_a_key: int
    run_b_key: int
    run_a: str
    run_b: str
    reason: str | None
    is_left: bool
    is_ready: bool
    is_baseline: bool
    inputs: PairInputs
    b_at: dt.datetime
    computed_at: str
    is_settled: bool
    made_by: str = ""


# The newest runs of every suite and dataset, each with the answer of the night before, and with its baseline. The rules
# of `previous` are those of store.runs.previous_complete_run, for all of these runs at once.
_WANTED: Final = """
create or replace temp table wanted_pairs as
with nights as (from temp.nights_of_pairs),
previous as (
    select b.run_key as run_b_key, a.run_key as run_a_key,
        row_number() over (
            partition by b.run_key order by a.effective_night desc, a.ordered_at desc, a.run_id desc
        ) as place
    from temp.recent_runs b
    join nights a
        on a.is_last_complete
        and a.dataset_key = b.dataset_key
        and a.suite is not distinct from b.suite
        and (
            a.effective_night < b.effective_night
            or (
                a.effective_night = b.effective_night
                and a.own_night <> b.own_night
                and (a.ordered_at, a.run_id) < (b.ordered_at, b.run_id)
            )
        )
),
baseline as (
    select b.run_key as run_b_key, a.run_key as run_a_key
    from temp.recent_runs b
    join temp.pinned_baselines p on p.dataset_key = b.dataset_key and p.suite is not distinct from b.suite
    join nights a
        on a.run_id = p.run_id
        and a.dataset_key = b.dataset_key
        and (a.ordered_at, a.run_id) < (b.ordered_at, b.run_id)
)
select run_a_key, run_b_key, bool_or(is_baseline) as is_baseline
from (
    select run_a_key, run_b_key, false as is_baseline from previous where place = 1
    union all
    select run_a_key, run_b_key, true as is_baseline from baseline
)
group by run_a_key, run_b_key
"""

_RECENT: Final = """
create or replace temp table recent_runs as
select run_key, run_id, dataset_key, suite, effective_night, own_night, ordered_at
from (
    select *, row_number() over (partition by dataset_key, suite order by ordered_at desc, run_id desc) as age
    from temp.nights_of_pairs
    where n_results > 0
)
where age <= ?
"""


def _recent_suites(con: Connection, *, most: int) -> list[tuple[str | None, str]]:
    """The suites (with their datasets) that have results; sets up the newest `most` runs of each."""
    con.execute("create or replace temp table nights_of_pairs as from main.run_nights")
    con.execute(_RECENT, [most])
    return con.execute(
        "select distinct r.suite, d.dataset_id from temp.recent_runs r join raw.datasets d using (dataset_key)"
    ).fetchall()


def _find_wanted_pairs(con: Connection, baselines: Baselines) -> list[int]:
    """Set up the pairs there should be; returns the runs of these and of the stored ones."""
    con.execute(
        "create or replace temp table pinned_baselines as select n.suite, d.dataset_key, n.run_id "
        "from (select unnest(cast($suites as varchar[])) as suite, unnest(cast($datasets as varchar[])) as dataset_id, "
        "unnest(cast($run_ids as varchar[])) as run_id) n join raw.datasets d using (dataset_id)",
        {
            "suites": [suite for suite, _ in baselines],
            "datasets": [dataset for _, dataset in baselines],
            "run_ids": list(baselines.values()),
        },
    )
    con.execute(_WANTED)
    con.execute(
        "create or replace temp table pairs_of_runs as "
        "select run_a_key, run_b_key, bool_or(is_baseline) as is_baseline from ("
        "select run_a_key, run_b_key, is_baseline from temp.wanted_pairs union all "
        "select run_a_key, run_b_key, false from comparisons.pairs) group by run_a_key, run_b_key"
    )
    rows = con.execute(
        "select run_a_key from temp.pairs_of_runs union select run_b_key from temp.pairs_of_runs"
    ).fetchall()
    return sorted(key for (key,) in rows)


# What each of these runs is made of. A cell that is left as it is counts as it was computed, any other as it should be.
_EXPECTED_CELLS: Final = """
    select s.run_key, case
        when s.is_pinned or s.is_frozen or s.is_without_input
        then concat_ws(
            ' ', s.definition, s.source, c.fingerprint, c.results_hash, c.labels_hash, c.archive_hash
        )
        else concat_ws(
            ' ', s.definition, s.source, s.fingerprint, s.results_hash, s.labels_hash, s.archive_hash
        )
    end as made_of
    from temp.cell_states s
    left join ledger.cells c
        on (s.is_pinned or s.is_frozen or s.is_without_input)
        and c.definition = s.definition and c.source = s.source and c.run_key = s.run_key
    where s.run_key in (from temp.asked_pair_runs) and not s.is_offered
        and not (s.is_frozen and s.stored_fingerprint is null)
"""

# As above, of what was computed alone.
_COMPUTED_CELLS: Final = """
    select s.run_key,
        concat_ws(
            ' ', s.definition, s.source, c.fingerprint, c.results_hash, c.labels_hash, c.archive_hash
        ) as made_of
    from temp.cell_states s
    join ledger.cells c on c.definition = s.definition and c.source = s.source and c.run_key = s.run_key
    where s.run_key in (from temp.asked_pair_runs)
"""

_RUN_INPUTS: Final = """
create or replace temp table run_inputs as
with cells as ({cells}),
parents as (
    select run_key, cast(bit_xor(md5_number(made_of)) as varchar) as parents_hash from cells group by run_key
),
results as (
    select run_key, md5(string_agg(
        part || ':' || content_hash || case when times_read_again > 0 then ':' || times_read_again else '' end,
        ',' order by part
    )) as results_hash
    from raw.run_parts
    where run_key in (from temp.asked_pair_runs)
    group by run_key
),
labels as (
    select golden_key, md5(string_agg(family || ':' || hash, ',' order by family)) as labels_hash
    from labels.family_hashes
    group by golden_key
),
archives as (
    select dataset_key, md5(string_agg(archive_key || ':' || content_hash, ',' order by archive_key)) as archive_hash
    from ledger.archives_in_force
    group by dataset_key
)
select r.run_key, coalesce(results.results_hash, '') as results_hash,
    coalesce(labels.labels_hash, '') as labels_hash, coalesce(archives.archive_hash, '') as archive_hash,
    coalesce(parents.parents_hash, '') as parents_hash
from ledger.runs_in_order r
left join parents on parents.run_key = r.run_key
left join results on results.run_key = r.run_key
left join labels on labels.golden_key = r.golden_key
left join archives on archives.dataset_key = r.dataset_key
where r.run_key in (from temp.asked_pair_runs)
"""

_STATES: Final = """
create or replace temp table pair_states as
with outdated as (
    select distinct s.run_key
    from temp.cell_states s
    left join ledger.cells c
        on c.definition = s.definition and c.source = s.source and c.run_key = s.run_key
    where s.run_key in (from temp.asked_pair_runs) and list_contains($facts, s.definition) and (
        c.run_key is null or c.results_hash <> s.results_hash or c.labels_hash <> s.labels_hash
    )
),
unscored as (
    select run_key from temp.asked_pair_runs where run_key not in (select run_key from temp.cell_states)
),
unsettled as (
    select distinct run_key from temp.cell_states where reason is not null and not is_pinned
)
select p.run_a_key, p.run_b_key, a.run_id as run_a, b.run_id as run_b,
    b.ordered_at as b_at, a.ordered_at as a_at,
    case
        when s.run_a_key is null then 'missing'
        when s.results_hash <> concat_ws(' ', ia.results_hash, ib.results_hash) then 'results'
        when s.own_fingerprint <> $own_fingerprint then 'formula'
        when s.labels_hash <> concat_ws(' ', ia.labels_hash, ib.labels_hash) then 'labels'
        when s.archive_hash <> concat_ws(' ', ia.archive_hash, ib.archive_hash) then 'archive'
        when s.parents_hash <> concat_ws(' ', ia.parents_hash, ib.parents_hash) then 'parent'
    end as reason,
    p.run_b_key not in (select run_key from temp.recent_runs) as is_left,
    p.run_a_key not in (from outdated) and p.run_b_key not in (from outdated)
        and p.run_a_key not in (from unscored) and p.run_b_key not in (from unscored) as is_ready,
    p.is_baseline,
    concat_ws(' ', ia.results_hash, ib.results_hash) as results_hash,
    concat_ws(' ', ia.labels_hash, ib.labels_hash) as labels_hash,
    concat_ws(' ', ia.archive_hash, ib.archive_hash) as archive_hash,
    concat_ws(' ', ia.parents_hash, ib.parents_hash) as parents_hash,
    coalesce(cast(s.computed_at as varchar), '') as computed_at,
    p.run_a_key not in (from unsettled) and p.run_b_key not in (from unsettled) as is_settled,
    coalesce(s.product_version, '') as made_by
from temp.pairs_of_runs p
join ledger.runs_in_order a on a.run_key = p.run_a_key
join ledger.runs_in_order b on b.run_key = p.run_b_key
join temp.run_inputs ia on ia.run_key = p.run_a_key
join temp.run_inputs ib on ib.run_key = p.run_b_key
left join comparisons.pairs s on s.run_a_key = p.run_a_key and s.run_b_key = p.run_b_key
"""


def _find_pair_states(con: Connection, *, own_fingerprint: str, facts: Sequence[str]) -> None:
    """Fill the temporary table pair_states; the pairs and the states of their runs' cells are set up already."""
    _ask_about(con, "select run_a_key from temp.pairs_of_runs union select run_b_key from temp.pairs_of_runs")
    con.execute(_RUN_INPUTS.format(cells=_EXPECTED_CELLS))
    con.execute(_STATES, {"own_fingerprint": own_fingerprint, "facts": list(facts)})


def _pair_states(con: Connection) -> list[PairState]:
    """The states, in run order of b, then of a."""
    rows = con.execute(
        "select run_a_key, run_b_key, run_a, run_b, reason, is_left, is_ready, is_baseline, results_hash, labels_hash, "
        "archive_hash, parents_hash, b_at, computed_at, is_settled, made_by from temp.pair_states "
        "order by b_at, run_b, a_at, run_a"
    ).fetchall()
    return [PairState(*[*row[:8], PairInputs(*row[8:12]), *row[12:]]) for row in rows]


def _computed_inputs(con: Connection, keys: tuple[int, int]) -> PairInputs:
    """What a comparison of these runs is made of now; the states of their cells are set up already."""
    _ask_about(con, f"select unnest([{keys[0]:d}, {keys[1]:d}])")
    con.execute(_RUN_INPUTS.format(cells=_COMPUTED_CELLS))
    found = {
        row[0]: row[1:]
        for row in con.execute(
            "select run_key, results_hash, labels_hash, archive_hash, parents_hash from temp.run_inputs"
        ).fetchall()
    }
    return PairInputs(*(f"{a} {b}" for a, b in zip(found[keys[0]], found[keys[1]], strict=True)))


def _ask_about(con: Connection, runs: str) -> None:
    con.execute(
        f"create or replace temp table asked_pair_runs as select distinct run_key from ({runs}) t(run_key)"
    )


def _average_seconds(con: Connection) -> float | None:
    """How long a comparison took, on the average."""
    ((seconds,),) = con.execute("select avg(seconds) from comparisons.pairs").fetchall()
    return None if seconds is None else float(seconds)
