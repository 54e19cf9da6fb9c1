"""How far the computing is: due runs, the states of a range, what a Dagster run has computed."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from eval_pipeline.computing.ledger import _find_stale
from eval_pipeline.computing.states import States, cell_specs, states_of_cells
from eval_pipeline.computing.upgrades import upgraded_cells
from eval_pipeline.formulas.registry import Registry
from eval_pipeline.loading.inbox import digest
from eval_pipeline.store.open import Connection, first_value
from eval_pipeline.store.project import Store


@dataclass
class StaleRun:
    """What of one run is to be computed: definitions with the reason, and a state that changes whenever these do.

    `seconds` is what it will probably take.
    """

    run_id: str
    reasons: dict[str, str] = field(default_factory=dict)
    n_cells: int = 0
    seconds: float = 0.0
    state: str = ""

    @property
    def definitions(self) -> frozenset[str]:
        """The names of what is to be computed."""
        return frozenset(self.reasons)

    @property
    def was_delivered_again(self) -> bool:
        """Whether rows that something was computed from have been replaced."""
        return "results" in self.reasons.values()


def stale_runs(
    states: States,
    registry: Registry,
    *,
    reasons: Collection[str] | None,
    run_ids: Collection[str] | None = None,
    names: Collection[str] | None = None,
) -> dict[str, StaleRun]:
    """The runs that have something to compute for one of the reasons (None: any), in run order."""
    due = _find_stale(
        states,
        registry,
        cell_specs(registry),
        reasons=reasons,
        run_ids=run_ids,
        names=names,
        force=False,
    )
    made_of, costs = _made_of(states), measured_costs(states.con)
    found: dict[str, StaleRun] = {}
    texts: dict[str, list[str]] = {}
    for cell in due:
        run = found.setdefault(cell.run_id, StaleRun(cell.run_id))
        run.n_cells += 1
        run.seconds += costs.of(cell.wanted.definition, cell.wanted.source)
        run.reasons.setdefault(cell.wanted.definition, cell.reason)
        texts.setdefault(cell.run_id, []).append(made_of[cell.wanted.name, cell.run_key])
    for run_id, run in found.items():
        run.state = digest(sorted(texts[run_id]))
    return found


@dataclass(frozen=True)
class Costs:
    """Seconds that a cell of a kind takes, by what its like took; what was never computed costs what others cost."""

    measured: Mapping[tuple[str, str], float]

    def of(self, definition: str, source: str) -> float:
        """For one cell; 0 while nothing at all was measured."""
        known = self.measured
        return known.get((definition, source), sum(known.values()) / len(known) if known else 0.0)


def measured_costs(con: Connection) -> Costs:
    """What the cells of the store took when they were computed."""
    rows = con.execute(
        "select definition, source, avg(seconds) from ledger.cells group by definition, source order by all"
    ).fetchall()
    return Costs({(definition, source): seconds for definition, source, seconds in rows})


@dataclass
class Outdated:
    """A derived table that is not as its definition says: of how many of its runs, why, and what making it so takes."""

    n_runs: int
    n_outdated: int = 0
    seconds: float = 0.0
    reasons: set[str] = field(default_factory=set)


def outdated_tables(states: States) -> dict[str, Outdated]:
    """Every table with what is due of it, whoever computes that."""
    costs = measured_costs(states.con)
    counted = states.con.execute(
        f"with due as (select definition, run_key, true as is_due from {states.table} "
        "where reason is not null and not is_pinned), "
        "runs as (from due union all select definition, run_key, false from ledger.cells) "
        "select definition, count(distinct run_key), count(distinct run_key) filter (where is_due) "
        "from runs group by definition"
    ).fetchall()
    found = {definition: Outdated(n_runs, n_outdated) for definition, n_runs, n_outdated in counted}
    for definition, source, reason, n_cells in states.stale():
        found[definition].seconds += n_cells * costs.of(definition, source)
        found[definition].reasons.add(reason)
    return found


def count_upgraded(states: States, registry: Registry) -> int:
    """How many cells are stale over an upgrade."""
    meant = upgraded_cells(states, registry)
    if not meant:
        return 0
    rows = states.rows("distinct definition, source, stored_fingerprint, run_key", "not is_pinned")
    return len({(row[0], row[3]) for row in rows if row[:3] in meant})


def _made_of(states: States) -> dict[tuple[str, int], str]:
    """What every stale cell should be made of, and when what stands there was computed."""
    rows = states.con.execute(
        "select s.definition, s.source, s.run_key, concat_ws(' ', s.definition, s.source, s.fingerprint, "
        "s.results_hash, s.labels_hash, s.archive_hash, coalesce(cast(c.computed_at as varchar), '')) "
        f"from {states.table} s left join ledger.cells c "
        "on c.definition = s.definition and c.source = s.source and c.run_key = s.run_key "
        "where s.reason_unless_frozen is not null and not s.is_frozen"
    ).fetchall()
    return {
        (f"{definition}:{source}" if source else definition, run_key): text
        for definition, source, run_key, text in rows
    }


@dataclass(frozen=True)
class PartState:
    """A definition's rows of one run; `reason` is why this Dagster run computed them, None where it did not."""

    rows: int
    seconds: float
    reason: str | None


@dataclass(frozen=True)
class RangeState:
    """A definition's rows of a range: what they are made of, and those of each run that has some."""

    version: str
    runs: Mapping[str, PartState] = field(default_factory=dict)


def range_states(
    con: Connection, names: Collection[str], run_ids: Collection[str], *, dagster_run_id: str
) -> dict[str, RangeState]:
    """The state of each definition for these runs, from the ledger."""
    asked = [list(names), list(run_ids)]
    runs: dict[str, dict[str, PartState]] = {name: {} for name in names}
    for name, run_id, *state in con.execute(_STATES_OF_RUNS, [dagster_run_id, *asked]).fetchall():
        runs[name][run_id] = PartState(*state)
    versions = dict(con.execute(_MADE_OF, asked).fetchall())
    return {name: RangeState(versions.get(name, digest([])), runs[name]) for name in names}


def failures_of(
    store: Store, names: Collection[str] | None, run_ids: Collection[str] | None
) -> dict[str, dict[str, str]]:
    """Definition → run → why it failed, of these definitions and runs (None: of all)."""
    if not first_value(store.con, "select count(*) from ledger.failures"):
        return {}
    with states_of_cells(store, only_due=True) as states:
        found = {
            name: {run_id: why for run_id, why in failed if run_ids is None or run_id in run_ids}
            for name, failed in states.failures().items()
            if names is None or name in names
        }
    return {name: failed for name, failed in found.items() if failed}


_MADE_OF = """
select c.definition,
    md5(string_agg(
        concat_ws(' ', r.run_id, c.source, c.fingerprint, c.results_hash, c.labels_hash, c.archive_hash),
        ',' order by r.run_id, c.source
    ))
from ledger.cells c
join raw.runs r using (run_key)
where c.definition in (select unnest(?)) and r.run_id in (select unnest(?))
group by c.definition
"""


_STATES_OF_RUNS = """
with named as (
    select c.definition, r.run_id, c.n_rows, c.seconds, c.reason,
        coalesce(c.dagster_run_id = ?, false) as is_computed
    from ledger.cells c
    join raw.runs r using (run_key)
    where c.definition in (select unnest(?)) and r.run_id in (select unnest(?))
)
select definition, run_id, cast(sum(n_rows) as bigint),
    coalesce(sum(seconds) filter (where is_computed), 0), min(reason) filter (where is_computed)
from named
group by definition, run_id
"""


@dataclass(frozen=True)
class KnownCell:
    """What stands of a table and a run, whoever computed it; `version` changes with anything that it was made of."""

    definition: str
    run_id: str
    rows: int
    seconds: float
    computed_at: dt.datetime
    fingerprint: str
    version: str
    is_stale: bool


def known_cells(store: Store, run_ids: Collection[str]) -> list[KnownCell]:
    """Everything that the ledger has of these runs, but for what failed."""
    with states_of_cells(store, only_due=True) as states:
        rows = store.con.execute(_KNOWN.format(states=states.table), [list(run_ids)]).fetchall()
    return [KnownCell(*row) for row in rows]


_KNOWN = """
select c.definition, r.run_id, cast(sum(c.n_rows) as bigint), sum(c.seconds), max(c.computed_at), max(c.fingerprint),
    md5(string_agg(concat_ws(' ', c.source, c.fingerprint, c.results_hash, c.labels_hash, c.archive_hash), ','
        order by c.source)),
    exists (
        from {states} s
        where s.definition = c.definition and s.run_key = c.run_key and s.reason is not null and not s.is_pinned
    )
from ledger.cells c
join raw.runs r using (run_key)
where r.run_id in (select unnest(?))
group by c.definition, r.run_id, c.run_key
"""


@dataclass(frozen=True)
class Computed:
    """What Dagster runs have computed: tables × runs by table, which runs, how long it took."""

    cells: Mapping[str, int]
    runs: tuple[str, ...]
    seconds: float


def computed_by(con: Connection, dagster_run_ids: Collection[str]) -> Computed:
    """What stands in the store because of these Dagster runs."""
    rows = con.execute(
        "select c.definition, r.run_id, sum(c.seconds) from ledger.cells c join raw.runs r using (run_key) "
        "where c.dagster_run_id in (select unnest(?)) group by c.definition, r.run_id order by c.definition",
        [list(dagster_run_ids)],
    ).fetchall()
    return Computed(
        cells=dict(Counter(definition for definition, _, _ in rows)),
        runs=tuple(sorted({run_id for _, run_id, _ in rows})),
        seconds=sum(seconds for _, _, seconds in rows),
    )
