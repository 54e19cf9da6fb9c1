"""What is stale and why, and what computing it would cost: the plan, before anything is written."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from eval_pipeline.bundle.parts import parse_day
from eval_pipeline.comparing.pair_states import PairState
from eval_pipeline.comparing.pairs import (
    PAIRS,
    VERSION,
    estimated_seconds,
    find_pairs,
    is_due,
    is_of_an_upgrade,
    own_fingerprint,
    unknown_baselines,
)
from eval_pipeline.computing.definition_versions import StoredVersion, version_text, versions_of
from eval_pipeline.computing.ledger import with_parents
from eval_pipeline.computing.progress import measured_costs
from eval_pipeline.computing.states import States, cell_specs, states_of_cells
from eval_pipeline.computing.upgrades import upgraded_cells
from eval_pipeline.errors import UnknownName, UsageError
from eval_pipeline.formulas.catalogue import find_definition
from eval_pipeline.formulas.definition import Definition
from eval_pipeline.formulas.lock_file import is_locked
from eval_pipeline.formulas.registry import Registry
from eval_pipeline.planning.reports import Offer, PlannedAsset, PlanReport
from eval_pipeline.planning.stale_judgements import _find_stale_judgements
from eval_pipeline.settings import product_version
from eval_pipeline.showing.runs import unknown_runs
from eval_pipeline.store.open import Connection, own_table
from eval_pipeline.store.project import Project, Store
from eval_pipeline.store.runs import run_ids


@dataclass(frozen=True)
class Selection:
    """Which of the stale cells somebody asks about; None is all of them. What is pinned is left unless asked for."""

    definitions: frozenset[str] | None = None
    run_ids: frozenset[str] | None = None
    since: str | None = None
    is_with_pinned: bool = False

    @property
    def parameters(self) -> dict[str, list[str] | None]:
        """What statements ask with."""
        return {
            "definitions": None if self.definitions is None else sorted(self.definitions),
            "run_ids": None if self.run_ids is None else sorted(self.run_ids),
        }


def select_cells(
    registry: Registry,
    *,
    only: Collection[str] = (),
    runs: Collection[str] = (),
    since: str | None = None,
    with_pinned: bool = False,
) -> Selection:
    """Check names and dates, and widen --only to what is computed from the named definitions, and what that needs.

    An aggregate is named with its formula (`aggregates.run_metrics:metrics.hit_at_k`): the others' are not asked for.
    """
    if since is not None:
        try:
            parse_day(since)
        except ValueError as error:
            raise UsageError(f"--since: {error}") from error
    named = {find_definition(registry, name).name for name in only if name not in (PAIRS, "pairs")}
    for one in registry:
        if named & set(one.reads):
            named.add(one.name)
    named |= {cell.name for cell in cell_specs(registry) if cell.source in named}
    named |= {parent for name in named for parent in with_parents(registry, name)}
    # What is named is computed with all that rests on it but comparisons, which rest on everything: these say so.
    named |= {PAIRS for name in only if name in (PAIRS, "pairs")}
    return Selection(
        definitions=frozenset(named) if only else None,
        run_ids=frozenset(runs) if runs else None,
        since=since,
        is_with_pinned=with_pinned,
    )


_SELECTED = """(
    $definitions is null
    or list_contains($definitions, definition)
    or list_contains($definitions, definition || ':' || source)
) and ($run_ids is null or list_contains($run_ids, run_id))"""

# Cells as people count them: one per derived table × run, however many formulas an aggregate is made of.
_STALE = f"""
select definition, source, run_key, run_id, run_no, stored_fingerprint, is_pinned,
    reason_unless_frozen as reason
from {{states}}
-- What is only offered is asked for by its name.
where (reason is not null or (is_offered and $definitions is not null)) and ($with_pinned or not is_pinned)
    and {_SELECTED}
"""


@dataclass(frozen=True)
class StaleCells:
    """The stale cells that are selected, among the states they were found in; statements call them `table`."""

    states: States
    table: str

    @property
    def con(self) -> Connection:
        """Where they are asked for."""
        return self.states.con

    def expected(self) -> str:
        """A table of how these cells would stand."""
        return own_table(
            self.con,
            "expected_cells",
            f"select e.* from {self.table} s join {self.states.table} e using (definition, source, run_key)",
        )


def find_plan(project: Project, selection: Selection | None = None) -> PlanReport:
    """What is stale and what computing it would cost, without the preview."""
    chosen = selection or Selection()
    with project.read() as store:
        plan = _plan_document(store, _find_stale_cells(store, chosen), chosen)
    return _with_judgements(project, plan, chosen)


def _with_judgements(project: Project, plan: PlanReport, selection: Selection) -> PlanReport:
    """Also what asking judges again would take; tables that are named leave it out."""
    if selection.definitions is not None:
        return plan
    stale = _find_stale_judgements(project, run_ids=selection.run_ids, since=selection.since)
    return replace(plan, judge_calls=stale.calls, usd=stale.usd, judged_runs=list(stale.runs))


def _plan_document(store: Store, cells: StaleCells, selection: Selection) -> PlanReport:
    """The plan for these cells."""
    registry = store.definitions()
    reasons = _stale_by_reason(cells)
    pairs = _stale_pairs(store, cells.states, selection)
    runs = _runs_of_plan(cells, pairs, selection)
    seconds = _seconds_of_cells(cells) + estimated_seconds(store.con, pairs)
    meanings = _old_versions(store)
    because = _because(cells, registry)
    assets = [
        _asset(one, reasons[one.name], meanings.get(one.name), because.get(one.name))
        for one in registry
        if one.name in reasons
    ]
    assets += [_pairs_asset(pairs, registry)] if pairs else []
    return PlanReport(
        format=1,
        cells=sum(asset.cells for asset in assets),
        runs=runs,
        estimated_seconds=round(float(seconds), 2),
        judge_calls=0,
        warnings=[
            *_warnings(registry, meanings),
            *unknown_baselines(store),
            *_frozen(cells.states, selection),
        ],
        assets=assets,
        offered=_offered(cells, selection),
    )


def _seconds_of_cells(cells: StaleCells) -> float:
    costs = measured_costs(cells.con)
    rows = cells.con.execute(
        f"select definition, source, count(*) from {cells.table} group by all order by all"
    ).fetchall()
    return float(sum(n_cells * costs.of(definition, source) for definition, source, n_cells in rows))


def _find_stale_cells(store: Store, selection: Selection) -> StaleCells:
    """What is selected of all that is stale."""
    con = store.con
    _check_runs(con, selection)
    states = states_of_cells(store)
    parameters = {**selection.parameters, "with_pinned": selection.is_with_pinned}
    cells = StaleCells(states, own_table(con, "stale_cells", _STALE.format(states=states.table), parameters))
    _add_what_is_read(cells, store.definitions())
    if selection.since is not None:
        con.execute(
            f"delete from {cells.table} where run_key in (select run_key from ledger.runs_in_order "
            "where ordered_at < cast(? as timestamp))",
            [parse_day(selection.since).isoformat()],
        )
    return cells


def _stale_by_reason(cells: StaleCells) -> dict[str, dict[str, int]]:
    """Table → reason → how many of its cells are stale for it."""
    found: dict[str, dict[str, int]] = {}
    for definition, reason, count in cells.con.execute(
        "select definition, reason, count(*) from (select definition, run_key, min(reason) as reason "
        f"from {cells.table} group by definition, run_key) group by definition, reason order by definition, reason"
    ).fetchall():
        found.setdefault(definition, {})[reason] = count
    return found


def _add_what_is_read(cells: StaleCells, registry: Registry) -> None:
    """What is only offered is computed where something stale is computed from it."""
    for (name,) in cells.states.rows("distinct definition", "is_offered"):
        readers = [
            one.name for one in registry if one.name != name and name in with_parents(registry, one.name)
        ]
        cells.con.execute(
            f"insert into {cells.table} by name select definition, source, run_key, run_id, run_no, "
            "stored_fingerprint, is_pinned, reason_unless_frozen as reason "
            f"from {cells.states.table} where is_offered and definition = $name "
            f"and run_key in (select run_key from {cells.table} where definition in (select unnest($readers)) "
            "or source in (select unnest($readers))) "
            f"and run_key not in (select run_key from {cells.table} where definition = $name)",
            {"name": name, "readers": readers},
        )


def _offered(cells: StaleCells, selection: Selection) -> list[Offer]:
    """Formulas that came with a later version than runs were computed by, with the number of those runs."""
    if selection.definitions is not None:
        return []
    rows = cells.con.execute(
        f"select definition, count(*) from {cells.states.table} "
        f"anti join {cells.table} using (definition, source, run_key) "
        "where is_offered and source = '' and ($run_ids is null or list_contains($run_ids, run_id)) "
        "group by definition order by definition",
        {"run_ids": selection.parameters["run_ids"]},
    ).fetchall()
    return [Offer(name=name, runs=runs) for name, runs in rows]


def _because(cells: StaleCells, registry: Registry) -> dict[str, str]:
    """Table → which version of the product replaced which, where that is why its cells are stale."""
    upgraded = upgraded_cells(cells.states, registry)
    replaced: dict[str, set[str]] = {}
    for cell in cells.con.execute(
        f"select distinct definition, source, stored_fingerprint from {cells.table}"
    ).fetchall():
        if cell in upgraded:
            replaced.setdefault(cell[0], set()).add(upgraded[cell])
    return {name: _replaced(sorted(versions)) for name, versions in replaced.items()}


def _check_runs(con: Connection, selection: Selection) -> None:
    for run_id in unknown_runs(con, selection.run_ids or ()):
        raise UnknownName("run", run_id, run_ids(con))


def _stale_pairs(store: Store, states: States, selection: Selection) -> list[PairState]:
    """The comparisons that are to be made, once the cells they rest on are."""
    if selection.definitions is not None and PAIRS not in selection.definitions:
        return []
    since = parse_day(selection.since) if selection.since is not None else None
    return [
        one
        for one in find_pairs(store, states)
        if is_due(one, reasons=None, run_ids=selection.run_ids)
        and (since is None or one.b_at.date() >= since)
    ]


def _runs_of_plan(cells: StaleCells, pairs: Sequence[PairState], selection: Selection) -> list[str]:
    """The runs with something to compute, in run order; a comparison counts for its second run."""
    wanted = {
        one.run_b if selection.run_ids is None or one.run_b in selection.run_ids else one.run_a
        for one in pairs
    }
    rows = cells.con.execute(
        f"select run_id from ledger.runs_in_order where run_key in (select run_key from {cells.table}) "
        "or run_id in (select unnest(?)) order by ordered_at, run_id",
        [sorted(wanted)],
    ).fetchall()
    return [run_id for (run_id,) in rows]


def _old_versions(store: Store) -> dict[str, StoredVersion]:
    """The meaning that most stored cells of a definition were computed with."""
    registry = store.definitions()
    most_used = store.con.execute(
        "select definition, arg_max(fingerprint, n) from (select definition, fingerprint, count(*) as n "
        "from ledger.cells where source = '' group by definition, fingerprint) group by definition"
    ).fetchall()
    used = dict(most_used)
    renamed = {f"{one.schema}.{one.header.was}": one.name for one in registry if one.header.was}
    found: dict[str, StoredVersion] = {}
    for meaning in versions_of(store.con, [*registry.definitions, *renamed]):
        name = renamed.get(meaning.name, meaning.name)
        if used.get(meaning.name) == meaning.fingerprint or name not in used:
            found[name] = meaning
    return found


def _asset(
    one: Definition, reasons: Mapping[str, int], old: StoredVersion | None, because: str | None
) -> PlannedAsset:
    return PlannedAsset(
        name=one.name,
        cells=sum(reasons.values()),
        reasons=dict(reasons),
        old_version=old.version if old else None,
        new_version=one.header.version,
        old_fingerprint=old.fingerprint if old else None,
        new_fingerprint=one.fingerprint,
        diff=_diff(one, old),
        because=because,
    )


def _pairs_asset(pairs: Sequence[PairState], registry: Registry) -> PlannedAsset:
    """The comparisons that are due."""
    reasons = Counter(one.reason for one in pairs if one.reason)
    is_first, is_own = set(reasons) == {"missing"}, "formula" in reasons
    replaced = sorted({one.made_by for one in pairs if is_of_an_upgrade(one)})
    fingerprint = own_fingerprint(registry)
    return PlannedAsset(
        name=PAIRS,
        cells=len(pairs),
        reasons=dict(sorted(reasons.items())),
        old_version=None if is_first else VERSION,
        new_version=VERSION,
        old_fingerprint=None if is_first or is_own else fingerprint,
        new_fingerprint=fingerprint,
        diff="",
        because=_replaced(replaced) if replaced else None,
    )


def _replaced(versions: Iterable[str]) -> str:
    return f"{product_version()} replaced {', '.join(versions)}"


def _diff(one: Definition, old: StoredVersion | None) -> str:
    """What changed in the definition itself; empty when only something it reads changed."""
    if old is None or old.own_fingerprint == one.own_fingerprint:
        return ""
    before = old.text.splitlines(keepends=True)
    after = version_text(vars(one.header), one.body).splitlines(keepends=True)
    if before == after:
        return "a helper that it calls changed\n"
    return "".join(
        difflib.unified_diff(
            before, after, f"{one.name} version {old.version}", f"version {one.header.version}"
        )
    )


def _warnings(registry: Registry, meanings: Mapping[str, StoredVersion]) -> list[str]:
    return [
        f"{one.name} means something else than version {old.version} did and still says version "
        f"{one.header.version}: raise `version` in {one.path.name}"
        for one in registry
        if (old := meanings.get(one.name)) is not None
        and old.own_fingerprint != one.own_fingerprint
        and old.version >= one.header.version
        and not _is_agreed(registry, one)
    ]


def _frozen(states: States, selection: Selection) -> list[str]:
    """What would be stale and stays as it is, because the texts behind it were forgotten."""
    rows = states.con.execute(
        f"select run_id, count(distinct definition) from {states.table} where is_frozen "
        f"and reason_unless_frozen is not null and {_SELECTED} group by run_id, run_no order by run_no",
        selection.parameters,
    ).fetchall()
    if not rows:
        return []
    shown = ", ".join(run_id for run_id, _ in rows[:3]) + (" …" if len(rows) > 3 else "")
    return [
        f"{sum(n for _, n in rows):,} cells of {shown} are frozen and left as they are: the texts they were computed "
        "from were forgotten"
    ]


def _is_agreed(registry: Registry, one: Definition) -> bool:
    """Whether the lock file holds this meaning, or eval-pipeline.toml made it: then no version waits to be raised."""
    return bool({one.short_name, one.name} & set(registry.config.formulas)) or is_locked(one)
