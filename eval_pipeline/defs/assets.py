"""Every fact, metric and aggregate as an asset, made from the registry."""

# Who looks for one `@asset` per metric finds a file per metric under sql/ instead: the registry makes an AssetSpec of
# each, with partitions per run, its columns and what it reads. All are computed by one multi_asset, in one step: one
# look at the ledger, one turn at the store, whatever their number; with a step each, a night of 47 tables would take 47
# of both. Nor does Dagster begin what comes after a step that failed, and a formula that fails takes no other with it.

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import dagster as dg

from eval_pipeline.computing.measure import measure
from eval_pipeline.computing.progress import PartState, failures_of, range_states
from eval_pipeline.defs.events import (
    NOTHING_TO_COMPUTE,
    WHY_IT_RAN,
    Results,
    _shown_partitions,
)
from eval_pipeline.defs.metadata import (
    REASON_WORDS,
    _family_tags,
    _freshness,
    _headline_keys,
    _run_metadata,
    _static_metadata,
    describe,
)
from eval_pipeline.defs.partitions import EVAL_RUN
from eval_pipeline.defs.resources import Listener, StoreResource
from eval_pipeline.defs.tags import Wanted, WhatToCompute, _only_named, _wanted
from eval_pipeline.errors import FormulaFailed
from eval_pipeline.formulas.definition import Definition
from eval_pipeline.formulas.registry import ALL_FORMULAS, Registry
from eval_pipeline.showing.runs import part_headlines, run_summaries
from eval_pipeline.words import failed_sentence

TABLES = "tables"
COMPUTED = ("facts", "metrics", "aggregates")
GOLDEN_SETS = dg.AssetKey(["sources", "golden_sets"])
CHUNK_ARCHIVES = dg.AssetKey(["sources", "chunk_archives"])
RESULTS = dg.AssetKey(["raw", "results"])
TARGET_RESPONSES = dg.AssetKey(["sources", "target_responses"])
JUDGEMENTS = dg.AssetKey(["sources", "judgements"])
RAW_KEYS = {
    "raw.extraction_cases": dg.AssetKey(["raw", "extractions"]),
    "raw.index_reports": dg.AssetKey(["raw", "index_reports"]),
    "raw.spot_checks": dg.AssetKey(["raw", "spot_checks"]),
    "raw.judgements": dg.AssetKey(["raw", "judgements"]),
}


def key_of(name: str) -> dg.AssetKey:
    """The asset of a derived table."""
    return dg.AssetKey(name.split(".", 1))


def _asset_of_table(table: str) -> dg.AssetKey:
    """The asset that a table which definitions read belongs to."""
    if table.startswith("labels."):
        return GOLDEN_SETS
    if table.startswith("raw.archive"):
        return CHUNK_ARCHIVES
    if table.startswith("raw."):
        return RAW_KEYS.get(table, RESULTS)
    return key_of(table)


def _dependencies(definition: Definition, registry: Registry) -> list[dg.AssetDep]:
    """What the definition reads; a source feeds every run, of whatever dataset."""
    tables = list(definition.reads)
    if ALL_FORMULAS in tables:
        tables.remove(ALL_FORMULAS)
        tables += [formula.name for formula in registry.formulas]
    keys = dict.fromkeys(_asset_of_table(table) for table in tables)
    return [
        dg.AssetDep(key, partition_mapping=dg.AllPartitionMapping())
        if key in (GOLDEN_SETS, CHUNK_ARCHIVES)
        else dg.AssetDep(key)
        for key in keys
    ]


def computed_definitions(registry: Registry) -> list[Definition]:
    """The definitions whose tables are made of runs."""
    return [one for one in registry if one.schema in COMPUTED]


def _computed_assets(registry: Registry, listener: Listener) -> dg.AssetsDefinition:
    """One step with one asset per definition."""
    siblings = computed_definitions(registry)
    return dg.multi_asset(
        name=TABLES,
        specs=[_spec(definition, registry) for definition in siblings],
        partitions_def=EVAL_RUN,
        backfill_policy=dg.BackfillPolicy.single_run(),
        can_subset=True,
    )(_body(siblings, registry, listener))


def _spec(definition: Definition, registry: Registry) -> dg.AssetSpec:
    return dg.AssetSpec(
        key=key_of(definition.name),
        deps=_dependencies(definition, registry),
        group_name=definition.schema,
        description=describe(definition),
        kinds={"duckdb", "python", "polars"} if definition.is_python else {"duckdb", "sql"},
        code_version=definition.fingerprint,
        tags=_family_tags(definition),
        freshness_policy=_freshness(registry.config) if ALL_FORMULAS in definition.reads else None,
        metadata=_static_metadata(definition, registry),
    )


def _body(
    siblings: Collection[Definition], registry: Registry, listener: Listener
) -> Callable[[dg.AssetExecutionContext, StoreResource, WhatToCompute], Results]:
    def compute(context: dg.AssetExecutionContext, store: StoreResource, config: WhatToCompute) -> Results:
        selected = [one for one in siblings if key_of(one.name) in context.selected_asset_keys]
        with listener.hearing_errors(), store.limited():
            yield from _compute(context, store, registry, listener, selected, _wanted(context.run, config))

    return compute


def _compute(
    context: dg.AssetExecutionContext,
    store: StoreResource,
    registry: Registry,
    listener: Listener,
    selected: Collection[Definition],
    wanted: Wanted,
) -> Results:
    run_ids = list(context.partition_keys)
    names = [one.name for one in selected]
    _measure(context, store, registry, listener, names=names, run_ids=run_ids, wanted=wanted)
    with store.opened(registry) as opened:
        failures = failures_of(opened, names, run_ids)
        states = range_states(opened.con, names, run_ids, dagster_run_id=context.run.run_id)
        summaries = run_summaries(opened, run_ids, _headline_keys(registry))
        parts = part_headlines(opened, run_ids)
    for one in selected:
        failed = failures.get(one.name, {})
        computed = [run_id for run_id in run_ids if run_id not in failed]
        shown = _shown(one, states[one.name].runs, computed, is_in_full=wanted.is_in_full)
        if ALL_FORMULAS in one.reads:
            shown = {
                run_id: _run_metadata(run_id, summaries[run_id], parts.get(run_id, {})) | metadata
                if run_id in summaries
                else metadata
                for run_id, metadata in shown.items()
            }
        # An asset without a result has failed, whichever of its partitions are there.
        version = None if failed else states[one.name].version
        yield from _shown_partitions(context, key_of(one.name), shown, version=version)
    if failures:
        raise _as_one(registry, failures)


def _as_one(registry: Registry, failures: Mapping[str, Mapping[str, str]]) -> FormulaFailed:
    """Everything that failed, for the one step that all of it failed in."""
    first, *others = failures
    told = [f"{name}: {failed_sentence(list(failures[name].items()))}" for name in others]
    text = "\n".join([failed_sentence(list(failures[first].items())), *told])
    return FormulaFailed(registry.definitions[first].path, text)


def _measure(
    context: dg.AssetExecutionContext,
    store: StoreResource,
    registry: Registry,
    listener: Listener,
    *,
    names: Sequence[str],
    run_ids: Sequence[str],
    wanted: Wanted,
) -> None:
    with listener.watching() as progress:
        measure(
            store.project(registry, listener),
            reasons=wanted.reasons,
            run_ids=set(run_ids),
            definitions=_only_named(names, context.run.tags),
            force=not wanted.only_stale,
            dagster_run_id=context.run.run_id,
            note=wanted.note,
            progress=progress,
        )


def _shown(
    definition: Definition, states: Mapping[str, PartState], run_ids: Sequence[str], *, is_in_full: bool
) -> dict[str, dict[str, Any]]:
    """What is said of each run that was computed, and where it `is_in_full` of those that had nothing to compute."""
    found: dict[str, dict[str, Any]] = {}
    for run_id in run_ids:
        state = states.get(run_id, PartState(0, 0, None))
        if state.reason is not None or is_in_full:
            why = REASON_WORDS[state.reason] if state.reason else NOTHING_TO_COMPUTE
            found[run_id] = _figures_of(definition, state.rows, state.seconds) | {WHY_IT_RAN: why}
    return found


def _figures_of(definition: Definition, rows: int, seconds: float) -> dict[str, Any]:
    """Of a partition of the aggregates; of facts and metrics there are forty a run, and their events say why alone."""
    if definition.schema != "aggregates":
        return {}
    return {"rows": rows, "seconds": round(seconds, 5)}
