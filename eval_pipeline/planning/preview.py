"""What applying a plan would do to the stored numbers: computed, compared, and not kept."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from msgspec.structs import replace

from eval_pipeline.computing.ledger import BATCH_RESULTS
from eval_pipeline.computing.measure import Progress
from eval_pipeline.computing.scope import Scope, visible_catalogue
from eval_pipeline.computing.scratch import KeyPreview, compare_with_stored, drop, evaluate
from eval_pipeline.documents import UNSET
from eval_pipeline.formulas.definition import Definition
from eval_pipeline.planning.plan import (
    Selection,
    StaleCells,
    _find_stale_cells,
    _plan_document,
    _with_judgements,
)
from eval_pipeline.planning.preview_verdicts import _preview_verdicts
from eval_pipeline.planning.reports import MetricPreview, Movement, PlanReport, Quantiles, Verdicts
from eval_pipeline.showing.document import rounding_of
from eval_pipeline.store.engine import interruptible
from eval_pipeline.store.project import Project, Store

QUANTILES = (0.0, 0.25, 0.5, 0.75, 1.0)
NO_VERDICTS: Final = Verdicts(pairs=0, of=0, flips=[])

# A run's aggregate before and after.
Moved = tuple[float | None, float | None]


@dataclass(frozen=True)
class PreviewedRun:
    """A run with stale cells, and the dataset and suite within which it has neighbours."""

    run_id: str
    line: tuple[int, str | None]


def find_preview(
    project: Project,
    selection: Selection | None = None,
    *,
    sample: int | None = None,
    progress: Progress | None = None,
) -> PlanReport:
    """The plan with `preview`: per metric the queries that change and each run's old and new aggregate.

    And with `verdicts`: what of the newest pairs of runs would be decided otherwise.
    """
    registry = project.definitions()
    with project.read() as store, interruptible(store.con):
        chosen = selection or Selection()
        cells = _find_stale_cells(store, chosen)
        plan = _plan_document(store, cells, chosen)
        scopes, runs = _scopes(cells, sample=sample)
        with visible_catalogue(store.con, registry.helpers.values(), registry.config) as catalogue:
            found = _preview(store, catalogue, scopes, progress=progress)
        changed = [key for key, preview in found.items() if preview.changed]
        verdicts = NO_VERDICTS
        if changed:
            verdicts = _preview_verdicts(store, cells, scopes, changed)
    units = {key: _unit_of(one) for one in registry.metrics for key in one.keys}
    sampled = {key for scope, _ in scopes for key in scope.run_keys}
    return replace(
        _with_judgements(project, plan, chosen),
        preview={
            key: _entry(preview, runs, unit=units.get(key, "queries")) for key, preview in found.items()
        },
        verdicts=verdicts,
        sampled_runs=UNSET if sample is None else [run.run_id for key, run in runs.items() if key in sampled],
    )


def _unit_of(formula: Definition) -> str:
    """What a formula's rows are about, as people call it."""
    return "cases" if "case_key" in formula.grain else "queries"


def _scopes(
    cells: StaleCells, *, sample: int | None
) -> tuple[list[tuple[Scope, set[str]]], dict[int, PreviewedRun]]:
    """Runs with stale cells in batches of one golden set, with what is stale there; a sample takes the newest runs.

    Also all these runs, in run order. Runs with frozen tables stand in batches of their own: nothing of theirs is
    computed from forgotten texts.
    """
    rows = cells.con.execute(
        "with frozen as (select run_key, list(distinct definition order by definition) as tables "
        f"from {cells.states.table} where is_frozen group by run_key) "
        "select s.run_key, s.run_id, (r.dataset_key, coalesce(f.tables, [])), r.golden_key, coalesce(p.n_rows, 0), "
        "r.suite, "
        "list(distinct case when s.source = '' then s.definition else s.source end) "
        f"from {cells.table} s join ledger.runs_in_order r using (run_key) "
        "left join raw.run_parts p on p.run_key = s.run_key and p.part = 'results' "
        "left join frozen f on f.run_key = s.run_key "
        "group by s.run_key, s.run_id, s.run_no, r.dataset_key, r.suite, r.golden_key, p.n_rows, f.tables "
        "order by s.run_no desc"
    ).fetchall()
    runs = {row[0]: PreviewedRun(row[1], (row[2][0], row[5])) for row in reversed(rows)}
    batches: dict[tuple[int, int, tuple[str, ...]], list[tuple[list[int], set[str], list[int]]]] = {}
    for run_key, _, (dataset_key, frozen), golden_key, n_rows, _, stale in rows[:sample]:
        waiting = batches.setdefault((dataset_key, golden_key, tuple(frozen)), [([], set(), [0])])
        if waiting[-1][2][0] and waiting[-1][2][0] + n_rows > BATCH_RESULTS:
            waiting.append(([], set(), [0]))
        keys, definitions, size = waiting[-1]
        keys.append(run_key)
        definitions |= set(stale)
        size[0] += n_rows
    scopes = [
        (Scope(dataset_key, golden_key, sorted(keys)), definitions)
        for (dataset_key, golden_key, _), waiting in batches.items()
        for keys, definitions, _ in waiting
    ]
    return scopes, runs


def _preview(
    store: Store, catalogue: str, scopes: Sequence[tuple[Scope, set[str]]], *, progress: Progress | None
) -> dict[str, KeyPreview]:
    registry = store.definitions()
    con = store.con
    found: dict[str, KeyPreview] = {}
    for number, (scope, stale) in enumerate(scopes, start=1):
        chain = [one for one in registry if one.name in stale and one.schema in ("facts", "metrics")]
        evaluate(con, catalogue, chain, scope)
        for one in _metrics(chain):
            compare_with_stored(con, catalogue, one, scope, found, rounding=rounding_of(registry))
        drop(con, [one.name for one in chain])
        if progress:
            progress(number, len(scopes))
    place = {key: number for number, key in enumerate(registry.keys())}
    return {key: found[key] for key in sorted(found, key=lambda key: place.get(key, len(place)))}


def _metrics(chain: Sequence[Definition]) -> list[Definition]:
    return [one for one in chain if one.schema == "metrics"]


def _entry(preview: KeyPreview, runs: Mapping[int, PreviewedRun], *, unit: str) -> MetricPreview:
    shown = {key: preview.runs[key] for key in runs if key in preview.runs}
    lines: dict[Any, dict[str, Moved]] = {}
    for key, movement in shown.items():
        lines.setdefault(runs[key].line, {})[runs[key].run_id] = movement
    return MetricPreview(
        unit=unit,
        changed_queries=preview.changed,
        newly_defined=preview.newly_defined,
        newly_undefined=preview.newly_undefined,
        change_quantiles=_quantiles(preview.changes),
        order_flips=[flip for line in lines.values() for flip in _order_flips(line)],
        runs={runs[key].run_id: Movement(old=old, new=new) for key, (old, new) in shown.items()},
    )


def _quantiles(changes: Mapping[float, int]) -> Quantiles | None:
    """Smallest, quartiles and largest of the changes, among the queries that are defined before and after."""
    total = sum(changes.values())
    if not total:
        return None
    found: dict[str, float] = {}
    for share in QUANTILES:
        wanted, seen = share * (total - 1), 0
        for change in sorted(changes):
            seen += changes[change]
            if seen > wanted:
                found[f"p{int(share * 100)}"] = change
                break
    return Quantiles(**found)


def _order_flips(line: Mapping[str, Moved]) -> list[list[str]]:
    """Neighbouring runs of a suite whose order by this metric would turn round."""
    flips: list[list[str]] = []
    for (first, a), (second, b) in itertools.pairwise(line.items()):
        if a[0] is None or a[1] is None or b[0] is None or b[1] is None:
            continue
        if (b[0] - a[0]) * (b[1] - a[1]) < 0:
            flips.append([first, second])
    return flips
