"""Asset checks: one statement for the range and all of history, the failing runs by name."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecord

from eval_pipeline.computing.progress import Outdated, outdated_tables
from eval_pipeline.computing.states import states_of_cells
from eval_pipeline.defs.assets import GOLDEN_SETS, RESULTS, computed_definitions, key_of
from eval_pipeline.defs.metadata import REASON_WORDS
from eval_pipeline.defs.resources import StoreResource
from eval_pipeline.defs.sources import RAW_PARTS
from eval_pipeline.formulas.definition import Definition
from eval_pipeline.formulas.registry import ALL_FORMULAS, Registry
from eval_pipeline.showing import checks
from eval_pipeline.store.open import Connection
from eval_pipeline.store.project import Store

NOTHING_IN_QUARANTINE = "nothing_in_quarantine"
LABELS_MAKE_SENSE = "labels_make_sense"
LISTED = 20
SHORTEST = 0.1
IN_HISTORY = "failing in all of history"
VALUES_IN_RANGE = "values_in_range"
UP_TO_DATE = "up_to_date"
LABELLED = "facts.chunk_ranks"
Find = Callable[[Store, Collection[str] | None], checks.Faults]


def _delivery_checks() -> list[dg.AssetChecksDefinition]:
    """Rejected rows of the raw parts, and odd labels of golden sets."""
    return [_nothing_in_quarantine(), _labels_make_sense()]


def _nothing_in_quarantine() -> dg.AssetChecksDefinition:
    """One check per raw part, all in one step."""

    @dg.multi_asset_check(
        name=NOTHING_IN_QUARANTINE,
        specs=[
            dg.AssetCheckSpec(
                NOTHING_IN_QUARANTINE,
                asset=part.key,
                description="No delivered row was rejected; `eval-pipeline quarantine` shows file, line and text.",
            )
            for part in RAW_PARTS
        ],
        can_subset=True,
    )
    def check(context: dg.AssetCheckExecutionContext, store: StoreResource) -> Iterator[dg.AssetCheckResult]:
        run_ids = _asked(context)
        asked = {check.asset_key for check in context.selected_asset_check_keys}
        with store.reading() as con:
            found = checks.quarantined_rows(con, None)
        for part in RAW_PARTS:
            if part.key in asked:
                faults = _parted(found.get(part.part, {}), run_ids)
                yield _warning(faults, part.key, NOTHING_IN_QUARANTINE, what="runs", n=run_ids)

    return check


def _labels_make_sense() -> dg.AssetChecksDefinition:
    @dg.asset_check(
        asset=GOLDEN_SETS,
        name=LABELS_MAKE_SENSE,
        description="No label contradicts another, names a chunk that no archive has, or says nothing.",
    )
    def check(context: dg.AssetCheckExecutionContext, store: StoreResource) -> dg.AssetCheckResult:
        datasets = _asked(context)
        with store.reading() as con:
            faults = _parted(checks.odd_labels(con, None), datasets)
        return _warning(faults, GOLDEN_SETS, LABELS_MAKE_SENSE, what="datasets", n=datasets)

    return check


def _all_checks(registry: Registry) -> list[dg.AssetChecksDefinition]:
    """Nothing lost on the way in, no impossible value, no query forgotten."""
    aggregates = [one for one in registry if one.schema == "aggregates" and ALL_FORMULAS in one.reads]
    return [
        _check(
            registry,
            RESULTS,
            "every_row_accounted_for",
            "Every delivered result is stored or in quarantine.",
            _by_rows(checks.undelivered_rows),
        ),
        _values_in_range(registry.formulas),
        _up_to_date(computed_definitions(registry), registry),
        *(_query_check(one, registry) for one in aggregates),
        *_quality_checks(registry),
        *_delivery_checks(),
    ]


def _checks_of_runs(registry: Registry, keys: Collection[dg.AssetKey]) -> list[dg.AssetCheckKey]:
    """What is checked of these assets after they were computed; up_to_date is not, whose answer a sensor reports."""
    found = [key for check in _all_checks(registry) for key in check.check_keys]
    return [key for key in found if key.asset_key in keys and key.name != UP_TO_DATE]


def _quality_checks(registry: Registry) -> list[dg.AssetChecksDefinition]:
    """What to know before believing the numbers; none of it makes them wrong."""
    wanted: list[tuple[str, str, str, Find]] = [
        (
            checks.JUDGE,
            "judge_is_pinned",
            "One judge model of a fixed version, at temperature 0, with a known prompt.",
            checks.badly_configured_judges,
        ),
        (
            checks.JUDGE,
            "judge_is_stable",
            "At most a fifth of the re-judged items disagree.",
            _by_rows(checks.unstable_judges),
        ),
        (
            checks.EXTRACTION,
            "extraction_target_met",
            "The macro F1 of extraction reaches its target before rounding.",
            checks.missed_extraction_targets,
        ),
        (
            LABELLED,
            "labels_in_inventory",
            "Every expected chunk is in the newest archive of the run's chunker, where there is one.",
            _by_rows(checks.stale_labels),
        ),
    ]
    return [
        _check(registry, key_of(name), check, description, find, severity=dg.AssetCheckSeverity.WARN)
        for name, check, description, find in wanted
        if name in registry.definitions
    ]


def _values_in_range(formulas: Sequence[Definition]) -> dg.AssetChecksDefinition:
    """One check per metric, all in one step."""

    @dg.multi_asset_check(
        name=VALUES_IN_RANGE,
        specs=[
            dg.AssetCheckSpec(
                VALUES_IN_RANGE, asset=key_of(formula.name), description=_range_in_words(formula)
            )
            for formula in formulas
        ],
        can_subset=True,
    )
    def check(context: dg.AssetCheckExecutionContext, store: StoreResource) -> Iterator[dg.AssetCheckResult]:
        run_ids = _asked(context)
        asked = {check.asset_key for check in context.selected_asset_check_keys}
        with store.reading() as con:
            found = {
                key_of(formula.name): _parted(checks.values_out_of_range(con, formula, None), run_ids)
                for formula in formulas
                if key_of(formula.name) in asked
            }
        for key, faults in found.items():
            yield _result(faults, {}, run_ids, key=key, name=VALUES_IN_RANGE)

    return check


def _up_to_date(computed: Sequence[Definition], registry: Registry) -> dg.AssetChecksDefinition:
    """One check per computed table, in one step; the sensor stale_metrics reports it at its looks without a run."""

    @dg.multi_asset_check(
        name=UP_TO_DATE,
        specs=[
            dg.AssetCheckSpec(
                UP_TO_DATE,
                asset=key_of(one.name),
                description="Every run's rows are those that definition, results, labels and archives give now.",
            )
            for one in computed
        ],
        can_subset=True,
    )
    def check(context: dg.AssetCheckExecutionContext, store: StoreResource) -> Iterator[dg.AssetCheckResult]:
        with store.opened(registry) as opened:
            tables = outdated_tables(states_of_cells(opened, only_due=True))
        for asked in context.selected_asset_check_keys:
            yield dg.AssetCheckResult(**_up_to_date_fields(asked.asset_key, tables))

    return check


def _up_to_date_key(definition: Definition) -> dg.AssetCheckKey:
    """The check of a computed table."""
    return dg.AssetCheckKey(key_of(definition.name), UP_TO_DATE)


def new_answers(
    instance: dg.DagsterInstance, registry: Registry, tables: Mapping[str, Outdated]
) -> list[dg.AssetCheckEvaluation]:
    """What is to be reported without a run: the answers of up_to_date that are others than Dagster has."""
    checks_of = {_up_to_date_key(one): one.name for one in computed_definitions(registry)}
    last = instance.event_log_storage.get_latest_asset_check_execution_by_key(list(checks_of))
    found = [dg.AssetCheckEvaluation(**_up_to_date_fields(key.asset_key, tables)) for key in checks_of]
    return [
        one for one in found if _answer_of(last.get(one.asset_check_key)) != (one.passed, one.description)
    ]


def _answer_of(record: AssetCheckExecutionRecord | None) -> tuple[bool, str | None] | None:
    event = record.event.dagster_event if record and record.event else None
    said = event.event_specific_data if event else None
    return (said.passed, said.description) if isinstance(said, dg.AssetCheckEvaluation) else None


def _up_to_date_fields(key: dg.AssetKey, tables: Mapping[str, Outdated]) -> dict[str, Any]:
    name = ".".join(key.path)
    table = tables.get(name, Outdated(0))
    metadata: dict[str, Any] = {"runs": table.n_runs, "runs to compute": table.n_outdated}
    if table.n_outdated:
        metadata["seconds it would take"] = round(table.seconds, 3)
        metadata["look at it"] = f"eval-pipeline plan --only {name}"
        metadata["do it"] = f"eval-pipeline apply --only {name}"
    return {
        "asset_key": key,
        "check_name": UP_TO_DATE,
        "passed": not table.n_outdated,
        "severity": dg.AssetCheckSeverity.WARN,
        "metadata": metadata,
        "description": _outdated_in_words(name, table) if table.n_outdated else None,
    }


def _outdated_in_words(name: str, table: Outdated) -> str:
    """What is to be computed, why, how long that takes and by which command."""
    why = "; ".join(words for reason, words in REASON_WORDS.items() if reason in table.reasons)
    took = f"about {table.seconds:.1f} s" if table.seconds >= SHORTEST else f"less than {SHORTEST} s"
    return (
        f"{table.n_outdated:,} of {table.n_runs:,} runs to compute: {why}; {took}: "
        f"`eval-pipeline plan --only {name}` shows it, `eval-pipeline apply --only {name}` does it"
    )


def _range_in_words(formula: Definition) -> str:
    low, high = formula.header.value_range
    ends = [
        f"not below {low:g}" if low is not None else "",
        f"not above {high:g}" if high is not None else "",
    ]
    wanted = " and ".join(end for end in ends if end)
    return f"Every value is a number{', ' + wanted if wanted else ''}, or null."


def _query_check(definition: Definition, registry: Registry) -> dg.AssetChecksDefinition:
    return _check(
        registry,
        key_of(definition.name),
        "every_query_scored_or_listed",
        "Every golden query with a result has its row in every metric; the others are counted as missing.",
        checks.unscored_queries,
        history=checks.unscored_in_history,
        count=checks.missing_queries,
    )


def _by_rows(find: Callable[[Connection, Collection[str] | None], checks.Faults]) -> Find:
    """What is found whatever the definitions say."""
    return lambda store, run_ids: find(store.con, run_ids)


def _check(
    registry: Registry,
    key: dg.AssetKey,
    name: str,
    description: str,
    find: Find,
    *,
    history: Callable[[Store], checks.Faults] | None = None,
    count: Callable[[Connection, Collection[str] | None], Mapping[str, int]] | None = None,
    severity: dg.AssetCheckSeverity = dg.AssetCheckSeverity.ERROR,
) -> dg.AssetChecksDefinition:
    @dg.asset_check(asset=key, name=name, description=description)
    def check(context: dg.AssetCheckExecutionContext, store: StoreResource) -> dg.AssetCheckResult:
        run_ids = _asked(context)
        with store.opened(registry) as opened:
            everywhere = {} if run_ids is None else history(opened) if history else find(opened, None)
            faults = Judged(find(opened, run_ids), everywhere)
            missing = count(opened.con, run_ids) if count else {}
        return _result(faults, missing, run_ids, key=key, name=name, severity=severity)

    return check


@dataclass(frozen=True)
class Judged:
    """What is wrong with what was asked about, and with all there is: a passing night covers no failing history."""

    here: checks.Faults
    everywhere: checks.Faults

    @property
    def all(self) -> checks.Faults:
        """Everything once, what was asked about first."""
        return {**self.here, **self.everywhere}


def _parted(everywhere: checks.Faults, asked: Collection[str] | None) -> Judged:
    here = {one: fault for one, fault in everywhere.items() if asked is None or one in asked}
    return Judged(here, everywhere)


def _asked(context: dg.AssetCheckExecutionContext) -> list[str] | None:
    """The range of the run; None, everything there is, when the check is started by itself."""
    if context.has_partition_key_range or context.has_partition_key:
        return list(context.partition_keys)
    return None


def _warning(
    faults: Judged, key: dg.AssetKey, name: str, *, what: str, n: Collection[str] | None
) -> dg.AssetCheckResult:
    metadata: dict[str, Any] = {} if n is None else {f"{what} checked": len(n)}
    if faults.all:
        metadata |= {what: len(faults.here), IN_HISTORY: len(faults.all)}
        metadata["what is odd"] = dg.MetadataValue.md(_listed(faults.all))
    return _told(faults, metadata, key, name, dg.AssetCheckSeverity.WARN)


def _result(
    faults: Judged,
    missing: Mapping[str, int],
    run_ids: Collection[str] | None,
    *,
    key: dg.AssetKey,
    name: str,
    severity: dg.AssetCheckSeverity = dg.AssetCheckSeverity.ERROR,
) -> dg.AssetCheckResult:
    metadata: dict[str, Any] = {}
    if run_ids is not None:
        metadata["runs checked"] = len(run_ids)
    if faults.all:
        metadata["failing runs"] = len(faults.here)
        metadata[IN_HISTORY] = len(faults.all)
        metadata["what is wrong"] = dg.MetadataValue.md(_listed(faults.all, of=" runs"))
    if missing:
        metadata["queries without a result"] = sum(missing.values())
        metadata["runs with such queries"] = len(missing)
    return _told(faults, metadata, key, name, severity)


def _told(
    faults: Judged,
    metadata: dict[str, Any],
    key: dg.AssetKey,
    name: str,
    severity: dg.AssetCheckSeverity,
) -> dg.AssetCheckResult:
    first = next(iter(faults.all.items()), None)
    elsewhere = (
        "" if faults.here or not first else f"not here, but failing in all of history: {len(faults.all):,}; "
    )
    return dg.AssetCheckResult(
        asset_key=key,
        check_name=name,
        passed=not faults.all,
        severity=severity,
        metadata=metadata,
        description=f"{elsewhere}{first[0]}: {first[1]}" if first else None,
    )


def _listed(faults: checks.Faults, *, of: str = "") -> str:
    lines = [f"- `{owner}`: {fault}" for owner, fault in list(faults.items())[:LISTED]]
    rest = len(faults) - len(lines)
    return "\n".join([*lines, *([f"- and {rest} more{of}"] if rest else [])])
