"""Which pairs of runs there should be, and whether those that are stored still hold."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from eval_pipeline.computing.states import States
from eval_pipeline.store.open import Connection, own_table

# What verdicts are read from; these have to belong to the results and labels that stand there now.
PAIR_FACTS: Final = ("facts.chunk_ranks", "facts.found_chunks", "facts.outcomes")

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
# of `previous` are those of store.runs.previous_complete_runs, for all of these runs at once.
_WANTED: Final = """
with nights as (from {nights}),
previous as (
    select b.run_key as run_b_key, a.run_key as run_a_key,
        row_number() over (
            partition by b.run_key order by a.effective_night desc, a.ordered_at desc, a.run_id desc
        ) as place
    from {recent} b
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
    from {recent} b
    join {baselines} p on p.dataset_key = b.dataset_key and p.suite is not distinct from b.suite
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
select run_key, run_id, dataset_key, suite, effective_night, own_night, ordered_at
from (
    select *, row_number() over (partition by dataset_key, suite order by ordered_at desc, run_id desc) as age
    from {nights}
    left join (from ledger.run_counts select run_key, is_without_results) using (run_key)
    where n_results > 0 or is_without_results
)
where age <= ?
"""


@dataclass(frozen=True)
class RecentRuns:
    """The newest runs of every suite and dataset that delivered something to score; statements call them `table`."""

    con: Connection
    table: str
    nights: str

    def suites(self) -> list[tuple[str | None, str]]:
        """The suites with their datasets."""
        return self.con.execute(
            f"select distinct r.suite, d.dataset_id from {self.table} r join raw.datasets d using (dataset_key)"
        ).fetchall()


def _recent_runs(con: Connection, *, most: int) -> RecentRuns:
    nights = own_table(con, "nights_of_pairs", "from main.run_nights")
    return RecentRuns(con, own_table(con, "recent_runs", _RECENT.format(nights=nights), [most]), nights)


@dataclass(frozen=True)
class WantedPairs:
    """Which pairs of runs there should be; statements call them `table`. Beside them are those that are stored."""

    recent: RecentRuns
    table: str
    all_pairs: str

    def runs(self) -> list[int]:
        """The runs of these pairs and of the stored ones."""
        rows = self.recent.con.execute(
            f"select run_a_key from {self.all_pairs} union select run_b_key from {self.all_pairs}"
        ).fetchall()
        return sorted(key for (key,) in rows)

    def states(self, cells: States, *, own_fingerprint: str, facts: Sequence[str]) -> list[PairState]:
        """Of these pairs and of the stored ones, in run order of b, then of a; `cells` are of all their runs."""
        asked = _asked(self.recent.con, self.runs())
        names = {"cells": cells.table, "asked": asked}
        inputs = _run_inputs(cells, asked, _EXPECTED_CELLS)
        rows = self.recent.con.execute(
            _STATES.format(**names, recent=self.recent.table, pairs=self.all_pairs, inputs=inputs),
            {"own_fingerprint": own_fingerprint, "facts": list(facts)},
        ).fetchall()
        return [PairState(*[*row[:8], PairInputs(*row[8:12]), *row[12:]]) for row in rows]


def _wanted_pairs(recent: RecentRuns, baselines: Baselines) -> WantedPairs:
    con = recent.con
    pinned = own_table(
        con,
        "pinned_baselines",
        "select n.suite, d.dataset_key, n.run_id "
        "from (select unnest(cast($suites as varchar[])) as suite, unnest(cast($datasets as varchar[])) as dataset_id, "
        "unnest(cast($run_ids as varchar[])) as run_id) n join raw.datasets d using (dataset_id)",
        {
            "suites": [suite for suite, _ in baselines],
            "datasets": [dataset for _, dataset in baselines],
            "run_ids": list(baselines.values()),
        },
    )
    names = {"nights": recent.nights, "recent": recent.table, "baselines": pinned}
    wanted = own_table(con, "wanted_pairs", _WANTED.format(**names))
    all_pairs = own_table(
        con,
        "pairs_of_runs",
        "select run_a_key, run_b_key, bool_or(is_baseline) as is_baseline from ("
        f"select run_a_key, run_b_key, is_baseline from {wanted} union all "
        "select run_a_key, run_b_key, false from comparisons.pairs) group by run_a_key, run_b_key",
    )
    return WantedPairs(recent, wanted, all_pairs)


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
    from {cells} s
    left join ledger.cells c
        on (s.is_pinned or s.is_frozen or s.is_without_input)
        and c.definition = s.definition and c.source = s.source and c.run_key = s.run_key
    where s.run_key in (from {asked}) and not s.is_offered
        and not (s.is_frozen and s.stored_fingerprint is null) and s.failure is null
"""

# As above, of what was computed alone.
_COMPUTED_CELLS: Final = """
    select s.run_key,
        concat_ws(
            ' ', s.definition, s.source, c.fingerprint, c.results_hash, c.labels_hash, c.archive_hash
        ) as made_of
    from {cells} s
    join ledger.cells c on c.definition = s.definition and c.source = s.source and c.run_key = s.run_key
    where s.run_key in (from {asked})
"""

_RUN_INPUTS: Final = """
with cells as ({made_of}),
parents as (
    select run_key, cast(bit_xor(md5_number(made_of)) as varchar) as parents_hash from cells group by run_key
),
results as (
    select run_key, md5(string_agg(
        part || ':' || content_hash || case when times_read_again > 0 then ':' || times_read_again else '' end,
        ',' order by part
    )) as results_hash
    from raw.run_parts
    where run_key in (from {asked})
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
where r.run_key in (from {asked})
"""

_STATES: Final = """
with outdated as (
    select distinct s.run_key
    from {cells} s
    left join ledger.cells c
        on c.definition = s.definition and c.source = s.source and c.run_key = s.run_key
    where s.run_key in (from {asked}) and list_contains($facts, s.definition) and (
        c.run_key is null or c.results_hash <> s.results_hash or c.labels_hash <> s.labels_hash
    )
),
unscored as (
    select run_key from {asked} where run_key not in (select run_key from {cells})
),
unsettled as (
    select distinct run_key from {cells} where reason is not null and failure is null and not is_pinned
)
select p.run_a_key, p.run_b_key, a.run_id as run_a, b.run_id as run_b,
    case
        when s.run_a_key is null then 'missing'
        when s.results_hash <> concat_ws(' ', ia.results_hash, ib.results_hash) then 'results'
        when s.own_fingerprint <> $own_fingerprint then 'formula'
        when s.labels_hash <> concat_ws(' ', ia.labels_hash, ib.labels_hash) then 'labels'
        when s.archive_hash <> concat_ws(' ', ia.archive_hash, ib.archive_hash) then 'archive'
        when s.parents_hash <> concat_ws(' ', ia.parents_hash, ib.parents_hash) then 'parent'
    end as reason,
    p.run_b_key not in (select run_key from {recent}) as is_left,
    p.run_a_key not in (from outdated) and p.run_b_key not in (from outdated)
        and p.run_a_key not in (from unscored) and p.run_b_key not in (from unscored) as is_ready,
    p.is_baseline,
    concat_ws(' ', ia.results_hash, ib.results_hash) as results_hash,
    concat_ws(' ', ia.labels_hash, ib.labels_hash) as labels_hash,
    concat_ws(' ', ia.archive_hash, ib.archive_hash) as archive_hash,
    concat_ws(' ', ia.parents_hash, ib.parents_hash) as parents_hash,
    b.ordered_at as b_at,
    coalesce(cast(s.computed_at as varchar), '') as computed_at,
    p.run_a_key not in (from unsettled) and p.run_b_key not in (from unsettled) as is_settled,
    coalesce(s.product_version, '') as made_by
from {pairs} p
join ledger.runs_in_order a on a.run_key = p.run_a_key
join ledger.runs_in_order b on b.run_key = p.run_b_key
join {inputs} ia on ia.run_key = p.run_a_key
join {inputs} ib on ib.run_key = p.run_b_key
left join comparisons.pairs s on s.run_a_key = p.run_a_key and s.run_b_key = p.run_b_key
order by b.ordered_at, run_b, a.ordered_at, run_a
"""


def _computed_inputs(cells: States, keys: tuple[int, int]) -> PairInputs:
    """What a comparison of these runs is made of now; `cells` are of both."""
    inputs = _run_inputs(cells, _asked(cells.con, keys), _COMPUTED_CELLS)
    found = {
        row[0]: row[1:]
        for row in cells.con.execute(
            f"select run_key, results_hash, labels_hash, archive_hash, parents_hash from {inputs}"
        ).fetchall()
    }
    return PairInputs(*(f"{a} {b}" for a, b in zip(found[keys[0]], found[keys[1]], strict=True)))


def _run_inputs(cells: States, asked: str, made_of: str) -> str:
    """A table of what each of the asked runs is made of, by the statement that says so of its cells."""
    names = {"cells": cells.table, "asked": asked}
    return own_table(
        cells.con, "run_inputs", _RUN_INPUTS.format(made_of=made_of.format(**names), asked=asked)
    )


def _asked(con: Connection, run_keys: Sequence[int]) -> str:
    return own_table(
        con,
        "asked_pair_runs",
        "select distinct unnest(cast($run_keys as integer[])) as run_key",
        {"run_keys": list(run_keys)},
    )


def _average_seconds(con: Connection) -> float | None:
    """How long a comparison took, on the average."""
    ((seconds,),) = con.execute("select avg(seconds) from comparisons.pairs").fetchall()
    return None if seconds is None else float(seconds)
