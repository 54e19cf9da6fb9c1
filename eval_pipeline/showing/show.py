"""One run as a document: what `show RUN_ID --json` prints."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from msgspec.structs import replace

from eval_pipeline.computing.history import Point, Row, computed_rows, parse_point, rows_at, stood_at
from eval_pipeline.computing.ledger import FAILED
from eval_pipeline.documents import UNSET
from eval_pipeline.errors import UsageError
from eval_pipeline.formulas.definition import Definition
from eval_pipeline.formulas.registry import Registry
from eval_pipeline.formulas.text_columns import text_columns
from eval_pipeline.loading.cases import expected_cases
from eval_pipeline.loading.deliveries import quarantined_parts
from eval_pipeline.records import SLICES
from eval_pipeline.showing.blocks import NOW, RunBlocks, run_blocks
from eval_pipeline.showing.marks import states_of_run
from eval_pipeline.showing.plausibility import (
    _held_against_labels,
    hidden_metrics,
    shown_per_query,
    why_undefined,
)
from eval_pipeline.showing.run_report import (
    FormulaUsed,
    Metric,
    Night,
    OtherReading,
    RunReport,
    Slice,
    SlicePerformance,
    TableState,
)
from eval_pipeline.showing.run_state import run_states
from eval_pipeline.showing.scores import _unscored_of, metrics_of, score_coverage
from eval_pipeline.store.frozen import emptied_places
from eval_pipeline.store.open import Connection, first_value
from eval_pipeline.store.project import Project, Store
from eval_pipeline.store.runs import (
    RunRow,
    attempts,
    computed_with,
    find_run,
    is_without_results,
    query_ids_of,
)
from eval_pipeline.words import rounded

EXTRACTION: Final = "metrics.extraction"
FORMAT = 1
NOTHING_THEN: Final = "no value at that point"
# Below so many queries a single one moves a value of the slice by more than a tenth.
SMALL_SLICE = 10
Values = Mapping[str, tuple[float | None, int]]


def _other_variants(store: Store, run: RunRow) -> dict[str, OtherReading]:
    """Name → what it is a reading of, and its values; what is read per query stands among the metrics already."""
    registry = store.definitions()
    found = {}
    for one in registry:
        if one.variant_of is None or not registry.applies_to(one, run.dataset):
            continue
        values = dict(_values(one, computed_rows(store.con, one.name, run))) if _is_part(one) else {}
        if values:
            found[one.short_name] = OtherReading(reading_of=one.variant_of.split(".", 1)[1], values=values)
    return found


def _is_part(one: Definition) -> bool:
    return one.schema == "aggregates" or one.variant_of == EXTRACTION


def _values(one: Definition, rows: Sequence[Row]) -> Iterator[tuple[str, float | None]]:
    """The numbers of the whole run: the row of its own, or the F1 of its cases as it is averaged."""
    if one.variant_of == EXTRACTION:
        f1 = next(key for key, column in one.column_of_key.items() if column == "f1")
        cases = [row[f1] for row in rows if row[f1] is not None]
        if cases:
            yield "macro_f1", rounded(math.fsum(cases) / len(cases))
            yield "eval_count", len(cases)
        return
    # Of the indexing there is a row per type of document beside the one of the whole run.
    whole = [row for row in rows if row.get("doc_type") is None]
    if len(whole) == 1:
        for key in one.keys:
            if isinstance(whole[0][key], int | float) and not isinstance(whole[0][key], bool):
                yield key, whole[0][key]


def show_run(project: Project, run_id: str, *, as_of: str | None = None) -> RunReport:
    """The run's aggregates and slices, with the definitions they were computed with."""
    point = parse_point(as_of)
    with project.read() as store:
        run = find_run(store.con, run_id)
        report = run_report(store, run)
        if as_of is not None:
            return _as_they_were(store, run, point, report=report, as_of=as_of)
        states = states_of_run(store, run)
        undefined = report.undefined | _why_failed(store.definitions(), report.undefined, states)
        return replace(report, states=states, undefined=undefined)


def _why_failed(
    registry: Registry, undefined: Collection[str], states: Sequence[TableState]
) -> dict[str, str]:
    """Metric → why it has no value, where its formula could not be computed."""
    failed = {one.table: one.reason for one in states if one.state == FAILED}
    formulas = registry.keys()
    return {
        key: f"{FAILED}: {failed[formulas[key].name]}"
        for key in undefined
        if key in formulas and formulas[key].name in failed
    }


def _night(con: Connection, run: RunRow) -> Night:
    """Which night the run belongs to, and whether it stands for it."""
    attempt = attempts(con, [run.run_id])[run.run_id]
    return Night(
        night=attempt.night.isoformat(),
        is_complete=attempt.is_complete,
        is_last_complete=attempt.is_last_complete,
        superseded_by=attempt.superseded_by,
        golden_queries=attempt.n_golden,
        not_asked=attempt.n_not_asked,
    )


def _as_they_were(store: Store, run: RunRow, point: Point, *, report: RunReport, as_of: str) -> RunReport:
    """Metrics, slices and meanings at an earlier point; a meaning asked for by fingerprint shows its own metrics."""
    registry = metrics_of(store, [run.run_key])
    con = store.con
    stood = stood_at(con, run, point)
    if not stood:
        raise UsageError(f"nothing was computed for {run.run_id} at that point: {_first_computed(con, run)}")
    keys = [key for key, one in registry.keys().items() if registry.applies_to(one, run.dataset)]
    keys += sorted({key for values in stood.values() for key in values} - set(keys))
    hidden = hidden_metrics(store, [run.run_key]).get(run.run_key, {})
    values = {
        place: {key: (stored.value, stored.n) for key, stored in metrics.items() if key not in hidden}
        for place, metrics in stood.items()
    }
    metrics = _metrics(values.get(("", ""), {}), keys)
    versions = dict(con.execute("select fingerprint, version from ledger.definitions").fetchall())
    meanings = {stored.source: stored.fingerprint for stored in stood.get(("", ""), {}).values()}
    today = {one.name: one.fingerprint for one in registry.metrics}
    blocks = _blocks(store, run, point)
    return replace(
        report,
        metrics=metrics,
        slices=_slices(values, _slice_sizes(con, run), keys, _slice_performance(con, run, point)),
        **vars(blocks),
        readings={},
        formulas={
            name.split(".", 1)[1]: FormulaUsed(version=versions.get(fingerprint), fingerprint=fingerprint)
            for name, fingerprint in sorted(meanings.items())
        },
        older_definitions=sorted(
            name.split(".", 1)[1] for name, meaning in meanings.items() if meaning != today.get(name)
        ),
        as_of=as_of,
        undefined={key: hidden.get(key, NOTHING_THEN) for key in _without_value(metrics)},
        unscored=UNSET,
        score_coverage=UNSET,
    )


def _without_value(metrics: Mapping[str, Metric]) -> list[str]:
    return [key for key, entry in metrics.items() if not entry.n]


def _first_computed(con: Connection, run: RunRow) -> str:
    first = first_value(
        con,
        "select min(computed_at) from (select min(computed_at) as computed_at from ledger.cells where run_key = ? "
        "union all select min(valid_from) from ledger.aggregate_history where run_key = ?)",
        [run.run_key, run.run_key],
    )
    return f"its first values are of {first:%Y-%m-%d %H:%M} UTC" if first else "it has not been computed yet"


def run_report(store: Store, run: RunRow) -> RunReport:
    """The run as it stands, without the states of its tables."""
    registry = metrics_of(store, [run.run_key])
    con = store.con
    scored, missing, unknown = query_ids_of(con, run)
    held = _held_against_labels(store, run.run_key)
    aggregates = _aggregates_of(con, run, hidden=held.hidden)
    keys = [key for key, one in registry.keys().items() if registry.applies_to(one, run.dataset)]
    metrics = _metrics(aggregates.get(("", ""), {}), keys)
    return RunReport(
        format=FORMAT,
        run_id=run.run_id,
        dataset=run.dataset,
        total_queries=len(scored),
        failed_queries=_failed_count(con, run),
        missing_query_ids=missing,
        unknown_query_ids=unknown,
        metrics=metrics,
        slices=_slices(aggregates, _slice_sizes(con, run), keys, _slice_performance(con, run, NOW)),
        **vars(_blocks(store, run)),
        readings=_other_variants(store, run),
        formulas=_formulas_used(store, run),
        night=_night(con, run),
        quarantined=quarantined_parts(con, run.run_key),
        is_without_results=is_without_results(con, run.run_key),
        undefined=why_undefined(store, run, _without_value(metrics), held.hidden),
        state=run_states(store, [run.run_id])[run.run_id],
        plausibility=held.counts,
        plausibility_in_words=held.words,
        unscored=_unscored_of(store, run) or UNSET,
        score_coverage=score_coverage(store, run.run_key) or UNSET,
    )


def _formulas_used(store: Store, run: RunRow) -> dict[str, FormulaUsed]:
    registry = store.definitions()
    computed, emptied = computed_with(store.con, run), emptied_places(store.con, run.run_key)
    return {
        one.short_name: FormulaUsed(
            **computed.get(one.name, {"version": None, "fingerprint": None}),
            frozen=True if emptied and text_columns(registry, one) & emptied else UNSET,
        )
        for one in sorted(registry.metrics, key=lambda d: d.name)
        if registry.applies_to(one, run.dataset)
    }


def _blocks(store: Store, run: RunRow, point: Point = NOW) -> RunBlocks:
    return run_blocks(
        store.con,
        run,
        point,
        expected_cases(store.con, store.definitions().config, [run.run_id]).get(run.run_id),
        store.definitions().config,
    )


def _metrics(values: Values, keys: list[str]) -> dict[str, Metric]:
    return {key: Metric(value=values.get(key, (None, 0))[0], n=values.get(key, (None, 0))[1]) for key in keys}


def _slices(
    aggregates: Mapping[tuple[str, str], Values],
    sizes: Mapping[tuple[str, str], int],
    keys: list[str],
    performance: Mapping[tuple[str, str], SlicePerformance],
) -> dict[str, dict[str, Slice]]:
    return {
        name: {
            value: Slice(
                n_queries=n,
                is_small=n < SMALL_SLICE,
                metrics=_metrics(aggregates.get((name, value), {}), keys),
                performance=performance.get((name, value), UNSET),
            )
            for (dimension, value), n in sorted(sizes.items())
            if dimension == name
        }
        for name in SLICES
    }


def _slice_performance(con: Connection, run: RunRow, point: Point) -> dict[tuple[str, str], SlicePerformance]:
    """(slice, slice value) → its times and costs, for slices with any."""
    names = SlicePerformance.__struct_fields__
    return {
        (row["slice"], row["slice_value"]): SlicePerformance(**{name: row[name] for name in names})
        for row in rows_at(con, "aggregates.slice_performance", run, point) or ()
        if row["n"] or row["judge_tokens"] is not None or row["judge_cost"] is not None
    }


def show_queries(project: Project, run_id: str) -> Iterator[Row]:
    """One document per scored query, unrounded, in golden order."""
    with project.read() as store:
        run = find_run(store.con, run_id)
        registry = metrics_of(store, [run.run_key])
        formulas = [one for one in registry.formulas if registry.applies_to(one, run.dataset)]
        formulas = [*sorted(formulas, key=lambda d: d.name), *registry.times, *registry.scores.values()]
        values = shown_per_query(store, run, formulas)
    for query_id, metrics in values.items():
        yield {"query_id": query_id, "metrics": dict(metrics)}


def _json_value(value: Any) -> Any:
    """A value of the store as JSON knows it; what JSON cannot say is null or text."""
    if isinstance(value, float):
        return value if abs(value) <= 1.7976931348623157e308 else None
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, dt.datetime | dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, dict):
        return {str(key): _json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json_value(item) for item in value]
    if value is None or isinstance(value, str | int | bool):
        return value
    return str(value)


def _failed_count(con: Connection, run: RunRow) -> int:
    """How many scored queries carry an error or timed out."""
    return int(
        first_value(
            con,
            "select count(*) from ledger.scored_results where run_key = ? and is_failed",
            [run.run_key],
        )
    )


def _aggregates_of(
    con: Connection, run: RunRow, *, hidden: Collection[str]
) -> dict[tuple[str, str], dict[str, tuple[float | None, int]]]:
    """(slice, slice value) → metric → (value, n), of what is shown; ('', '') is the whole run."""
    found: dict[tuple[str, str], dict[str, tuple[float | None, int]]] = {}
    for name, value_of, metric, value, n in con.execute(
        "select slice, slice_value, metric, value, n from aggregates.run_metrics where run_key = ?",
        [run.run_key],
    ).fetchall():
        if metric not in hidden:
            found.setdefault((name, value_of), {})[metric] = (value, n)
    return found


def _slice_sizes(con: Connection, run: RunRow) -> dict[tuple[str, str], int]:
    """How many scored queries stand in each slice; without a golden set nobody said in which."""
    rows = con.execute(
        "select s.slice, s.slice_value, count(*) from labels.slices s "
        "join raw.results r on r.query_key = s.query_key and r.run_key = ? "
        "where s.golden_key = ? and s.golden_key > 0 group by s.slice, s.slice_value order by s.slice, s.slice_value",
        [run.run_key, run.golden_key],
    ).fetchall()
    return {(name, value): n for name, value, n in rows}
