"""What applying a plan would do to the stored numbers: computed, compared, and not kept."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from eval_pipeline.formulas.definition import Definition
from eval_pipeline.formulas.registry import Registry
from eval_pipeline.pipeline.measure import BATCH_RESULTS, Progress
from eval_pipeline.pipeline.plan import Selection, plan_document
from eval_pipeline.settings import Settings
from eval_pipeline.store.connect import Connection, open_what_if
from eval_pipeline.store.lock import Tell
from eval_pipeline.store.previews import KeyPreview, compare_with_stored
from eval_pipeline.store.visible import Scope, visible_catalogue
from eval_pipeline.store.whatif import drop, evaluate

QUANTILES = (0.0, 0.25, 0.5, 0.75, 1.0)


def find_preview(
    settings: Settings,
    registry: Registry,
    selection: Selection | None = None,
    *,
    sample: int | None = None,
    tell: Tell | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """The plan with `preview`: per metric the queries that change and each run's old and new aggregate."""
    with open_what_if(settings.db, tell=tell) as con:
        plan = plan_document(con, registry, selection or Selection())
        scopes, names = _scopes(con, sample=sample)
        with visible_catalogue(con, registry.helpers.values()) as store:
            found = _preview(con, store, registry, scopes, progress=progress)
    plan["preview"] = {key: _entry(preview, names) for key, preview in found.items()}
    if sample is not None:
        plan["sampled_runs"] = sorted({names[key] for scope, _ in scopes for key in scope.run_keys})
    return plan


def _scopes(con: Connection, *, sample: int | None) -> tuple[list[tuple[Scope, set[str]]], dict[int, str]]:
    """Runs with stale cells in batches of one dataset, with what is stale there; a sample takes the newest runs."""
    rows = con.execute(
        "select s.run_key, s.run_id, r.dataset_key, g.golden_key, coalesce(p.n_rows, 0), "
        "list(distinct case when s.source = '' then s.definition else s.source end) "
        "from stale_cells s join raw.runs r using (run_key) "
        "join labels.golden_sets g on g.dataset_key = r.dataset_key and g.superseded_at is null "
        "left join raw.run_parts p on p.run_key = s.run_key and p.part = 'results' "
        "group by s.run_key, s.run_id, s.run_no, r.dataset_key, g.golden_key, p.n_rows order by s.run_no desc"
    ).fetchall()
    names = {row[0]: row[1] for row in rows}
    batches: dict[int, list[tuple[list[int], set[str], list[int], int]]] = {}
    for run_key, _, dataset_key, golden_key, n_rows, stale in rows[:sample]:
        waiting = batches.setdefault(dataset_key, [([], set(), [0], golden_key)])
        if waiting[-1][2][0] and waiting[-1][2][0] + n_rows > BATCH_RESULTS:
            waiting.append(([], set(), [0], golden_key))
        keys, definitions, size, _ = waiting[-1]
        keys.append(run_key)
        definitions |= set(stale)
        size[0] += n_rows
    scopes = [
        (Scope(dataset_key, golden_key, sorted(keys)), definitions)
        for dataset_key, waiting in batches.items()
        for keys, definitions, _, golden_key in waiting
    ]
    return scopes, names


def _preview(
    con: Connection,
    store: str,
    registry: Registry,
    scopes: Sequence[tuple[Scope, set[str]]],
    *,
    progress: Progress | None,
) -> dict[str, KeyPreview]:
    found: dict[str, KeyPreview] = {}
    for number, (scope, stale) in enumerate(scopes, start=1):
        chain = [one for one in registry if one.name in stale and one.schema in ("facts", "metrics")]
        evaluate(con, store, chain, scope)
        for one in _metrics(chain):
            for key in one.keys:
                found.setdefault(key, KeyPreview())
            compare_with_stored(con, store, one, scope, found)
        drop(con, [one.name for one in chain])
        if progress:
            progress(number, len(scopes))
    place = {key: number for number, key in enumerate(registry.keys())}
    return {key: found[key] for key in sorted(found, key=lambda key: place.get(key, len(place)))}


def _metrics(chain: Sequence[Definition]) -> list[Definition]:
    return [one for one in chain if one.schema == "metrics"]


def _entry(preview: KeyPreview, names: Mapping[int, str]) -> dict[str, Any]:
    runs = {names[key]: {"old": old, "new": new} for key, (old, new) in sorted(preview.runs.items())}
    return {
        "changed_queries": preview.changed,
        "newly_defined": preview.newly_defined,
        "newly_undefined": preview.newly_undefined,
        "change_quantiles": _quantiles(preview.changes),
        "order_flips": _order_flips(runs),
        "runs": runs,
    }


def _quantiles(changes: Mapping[float, int]) -> dict[str, float] | None:
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
    return found


def _order_flips(runs: Mapping[str, Mapping[str, float | None]]) -> list[list[str]]:
    """Neighbouring runs whose order by this metric would turn round."""
    flips: list[list[str]] = []
    names = list(runs)
    for first, second in itertools.pairwise(names):
        a, b = runs[first], runs[second]
        if None in (a["old"], a["new"], b["old"], b["new"]):
            continue
        before = (b["old"] or 0.0) - (a["old"] or 0.0)
        after = (b["new"] or 0.0) - (a["new"] or 0.0)
        if before * after < 0:
            flips.append([first, second])
    return flips
