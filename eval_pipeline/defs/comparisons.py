"""Comparisons and published pages as assets, and the gate as a check."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg

from eval_pipeline.comparing.documents import GateReport
from eval_pipeline.comparing.pair_states import PAIR_FACTS, PairState
from eval_pipeline.comparing.pairs import (
    PAIRS,
    own_fingerprint,
    pair_of,
    partition_of,
    store_comparisons,
)
from eval_pipeline.comparing.stored import KIND_COLUMNS, StoredPair, stored_pairs, troubled_gates
from eval_pipeline.defs.assets import key_of
from eval_pipeline.defs.checks import _checks_of_runs
from eval_pipeline.defs.events import (
    NOTHING_TO_COMPUTE,
    WHY_IT_RAN,
    Results,
    _shown_partitions,
)
from eval_pipeline.defs.launches import Launch, plan_launches
from eval_pipeline.defs.metadata import REASON_WORDS, N, _table_of_n
from eval_pipeline.defs.partitions import EVAL_COMPARISON, registered_comparisons
from eval_pipeline.defs.resources import Listener, StoreResource
from eval_pipeline.defs.tags import Wanted, WhatIsStale, _wanted
from eval_pipeline.formulas.catalogue import HEADLINES
from eval_pipeline.formulas.definition import Definition
from eval_pipeline.formulas.registry import ALL_FORMULAS, Registry
from eval_pipeline.loading.inbox import digest
from eval_pipeline.report.comparison_rows import SPANS, rows_of
from eval_pipeline.report.markdown import render_short_md
from eval_pipeline.report.pages.writing import Page, Published, publish_pages, wanted_pages
from eval_pipeline.report.verdict import verdict_on
from eval_pipeline.view.addresses import pair_link

GATE = "gate"
LISTED = 20


@dataclass(frozen=True)
class ComparedTable:
    """A table of comparisons as an asset; `columns` are (type, meaning) beside those that name the pair."""

    name: str
    description: str
    columns: Mapping[str, tuple[str, str]]
    is_of_facts_alone: bool = False

    def reads(self, one: Definition) -> bool:
        """Whether its rows are made of this definition's."""
        return one.name in PAIR_FACTS or (ALL_FORMULAS in one.reads and not self.is_of_facts_alone)


_PAIR = {
    "run_a_key": ("integer", "The run that is held against"),
    "run_b_key": ("integer", "The run in question"),
}
_MADE_OF = {
    "own_fingerprint": ("text", "How pairs are compared: stale when another way is configured"),
    "results_hash": ("text", "What both runs delivered"),
    "labels_hash": ("text", "The labels of both"),
    "archive_hash": ("text", "The archives of their datasets"),
    "parents_hash": ("text", "The derived tables of both"),
    "seconds": ("double", "What comparing took"),
    "computed_at": ("timestamp", "When, in UTC"),
    "dagster_run_id": ("text", "By which Dagster run, if by one"),
    "reason": ("text", "Why it was compared"),
    "product_version": ("text", "By which version of eval-pipeline"),
}
PAIRS_TABLE = ComparedTable(
    PAIRS,
    """Two runs side by side: what moved, how sure that is, and the verdict about every query.

Each of the newest runs of a suite is compared with the last complete run of the night before, and with the baseline
that eval-pipeline.toml pins. A comparison is stale when what it was computed from has changed: results, labels,
archives, formulas.""",
    {
        "chunker_version_match": ("text", "How chunks were matched: by their ids, or by document and span"),
        "n_queries": ("integer", "Queries that both runs answered"),
        "n_only_in_a": ("integer", "Queries that only a answered"),
        "n_only_in_b": ("integer", "Queries that only b answered"),
        **{
            column: ("integer", f"Queries with the verdict {kind}")
            for kind, column in KIND_COLUMNS.items()
            if kind != "regressions"
        },
        "regressions": ("integer", "Queries that lost an expected chunk"),
        "causes": ("list of text", "Known differences between the runs"),
        "warnings": ("list of text", "What to know before believing it"),
        **_MADE_OF,
        "trust": ("list of text", "What a verdict rests on"),
        "parts": ("text", "The measures of whole runs, as JSON"),
    },
)
DELTAS_TABLE = ComparedTable(
    "comparisons.deltas",
    "How every metric moved between the two runs of a pair, and how sure that is.",
    {
        "metric": ("text", "Which metric"),
        "is_fallback": ("boolean", "Whether chunks were matched by document and span for it"),
        "a_value": ("double", "Its value of a"),
        "b_value": ("double", "Its value of b"),
        "delta": ("double", "b − a"),
        "ci_low": ("double", "Lower end of the 95 % interval"),
        "ci_high": ("double", "Upper end of it"),
        "p_value": ("double", "Of the test, before the number of tests is taken into account"),
        "p_adjusted": ("double", "The same after that"),
        "test": ("text", "Which test"),
        "n": ("integer", "Paired queries"),
        "mde": ("double", "The least change that so many queries can show"),
        "caveat": ("text", "Why it does not mean what it seems to"),
        "adjusted_as": ("text", "Why it has no adjusted p of its own"),
        "family": ("text", "The family that it is asked with"),
        "paired_delta": ("double", "b − a over the queries that both define"),
        "ratio": ("double", "Of times: by which factor they changed"),
        "ratio_low": ("double", "Lower end of the 95 % interval of the factor"),
        "ratio_high": ("double", "Upper end of it"),
        "ratio_p": ("double", "How likely chance alone gives such a factor"),
        "verdict": ("text", "better, worse or not shown; null where the key asks nothing itself"),
        "paired_a": ("double", "Its value of a over the queries that both define"),
        "paired_b": ("double", "Its value of b over the queries that both define"),
    },
)
QUERIES_TABLE = ComparedTable(
    "comparisons.queries",
    "The verdict about every query that both runs of a pair answered; with names in the view comparison_queries.",
    {
        "query_no": ("integer", "Its place in the golden set"),
        "query_key": ("integer", "Which query"),
        "kind": ("text", "The verdict: win, loss, draw, rank_up, rank_down, not_applicable, not_comparable"),
        "regression": ("boolean", "Whether b lost an expected chunk that a had"),
        "a_hit_rank": ("integer", "Where a has the first expected chunk"),
        "b_hit_rank": ("integer", "Where b has it"),
        "note": ("text", "What to know about the verdict"),
    },
    is_of_facts_alone=True,
)
GATES_TABLE = ComparedTable(
    "comparisons.gates",
    "The last verdict of the gate about a run held against its baseline, by the rules of eval-pipeline.toml.",
    {
        "verdict": ("text", "pass, fail or inconclusive"),
        "document": ("text", "What `eval-pipeline gate --json` says"),
        "judged_at": ("timestamp", "When, in UTC"),
    },
)
COMPARED = (PAIRS_TABLE, DELTAS_TABLE, QUERIES_TABLE, GATES_TABLE)
COMPARISONS = key_of(PAIRS)
COMPARED_KEYS = tuple(key_of(table.name) for table in COMPARED)
PAGES = dg.AssetKey(["reports", "pages"])
LINKED = 50
PAGES_DESCRIPTION = """\
Self-contained HTML pages in the folder of reports: of new runs, of new comparisons, of the suites.

A page is written when it is not there, or older than the numbers on it; others are left alone."""


def _comparison_assets(registry: Registry, listener: Listener) -> list[dg.AssetsDefinition]:
    """The tables of a comparison, made in one step; fed by whole tables, since a pair reads two partitions of them."""

    @dg.multi_asset(
        name="comparisons",
        specs=[_table_spec(table, registry) for table in COMPARED],
        partitions_def=EVAL_COMPARISON,
        backfill_policy=dg.BackfillPolicy.single_run(),
    )
    def compute(context: dg.AssetExecutionContext, store: StoreResource, config: WhatIsStale) -> Results:
        with listener.hearing_errors(), store.limited():
            yield from _compute(context, store, registry, listener, _wanted(context.run, config))

    return [compute]


def _table_spec(table: ComparedTable, registry: Registry) -> dg.AssetSpec:
    parents = [one.name for one in registry if table.reads(one)]
    columns = [
        dg.TableColumn(name, kind, meaning) for name, (kind, meaning) in {**_PAIR, **table.columns}.items()
    ]
    return dg.AssetSpec(
        key=key_of(table.name),
        group_name="comparisons",
        kinds={"duckdb", "python"},
        deps=[dg.AssetDep(key_of(name), partition_mapping=dg.AllPartitionMapping()) for name in parents],
        code_version=own_fingerprint(registry),
        metadata={
            "dagster/table_name": table.name,
            "dagster/column_schema": dg.TableSchema(columns=columns),
        },
        description=table.description,
    )


def _compute(
    context: dg.AssetExecutionContext,
    store: StoreResource,
    registry: Registry,
    listener: Listener,
    wanted: Wanted,
) -> Results:
    pairs = [pair_of(partition) for partition in context.partition_keys]
    with listener.watching() as progress:
        done = store_comparisons(
            store.project(registry, listener),
            pairs,
            reasons=wanted.reasons,
            force=not wanted.only_stale,
            dagster_run_id=context.run.run_id,
            progress=progress,
        )
    with store.reading() as con:
        stored = stored_pairs(con, pairs)
    version = digest([f"{partition_of(*pair)} {one.version}" for pair, one in stored.items()])
    for table in COMPARED:
        made = done.judged if table is GATES_TABLE else done.reasons.keys()
        shown = {
            partition_of(*pair): _seen_from(table, one)
            | _why(done.reasons.get(pair) if pair in made else None)
            for pair, one in stored.items()
            if pair in made or wanted.is_in_full
        }
        yield from _shown_partitions(context, key_of(table.name), shown, version=version)
    if done.errors:
        raise next(iter(done.errors.values()))


def _why(reason: str | None) -> dict[str, str]:
    return {WHY_IT_RAN: REASON_WORDS[reason] if reason else NOTHING_TO_COMPUTE}


def _seen_from(table: ComparedTable, pair: StoredPair) -> dict[str, Any]:
    """What one of the tables says of a pair."""
    document = pair.document
    if table is PAIRS_TABLE:
        return _pair_metadata(pair)
    if table is DELTAS_TABLE:
        return {"rows": len(document.significance) + len(document.fallback_significance or {})}
    if table is QUERIES_TABLE:
        return {"rows": len(document.per_query), "regressions": document.counts.regressions}
    return (
        {"verdict": str(pair.gate.verdict), "rules": dg.MetadataValue.md(_told(pair.gate))}
        if pair.gate
        else {}
    )


def _pair_metadata(pair: StoredPair) -> dict[str, Any]:
    """A pair's numbers: headline changes with interval and n, verdicts of queries, and a preview."""
    document = pair.document
    found: dict[str, Any] = {"verdict": verdict_on(document).sentence}
    counted: dict[str, int] = {}
    for one in rows_of(document):
        if not one.is_asked or (one.part != SPANS and one.key not in HEADLINES):
            continue
        found[f"{one.name}: change"] = one.tested.delta
        counted[one.name] = one.tested.n
        if one.tested.ci_low is not None and one.tested.ci_high is not None:
            found[f"{one.name}: 95 % from"] = one.tested.ci_low
            found[f"{one.name}: 95 % to"] = one.tested.ci_high
    if counted:
        found[N] = _table_of_n(counted)
    counts = document.counts.by_kind()
    for name in ("regressions", "win", "loss", "draw", "rank_up", "rank_down"):
        found[name.replace("_", " ")] = counts[name]
    found["queries"] = len(document.per_query)
    found["matched"] = document.mode
    if pair.gate is not None:
        found["gate"] = str(pair.gate.verdict)
    found["seconds"] = round(pair.seconds, 3)
    found["page"] = dg.MetadataValue.md(pair_link(document.run_a, document.run_b))
    return found | {"comparison": dg.MetadataValue.md(render_short_md(document, pair.gate))}


def _comparison_checks() -> list[dg.AssetChecksDefinition]:
    """The gate's verdict, as a warning: what to do about it is for people."""

    @dg.asset_check(
        asset=COMPARISONS,
        name=GATE,
        description="Runs that are held against their pinned baseline pass the gate of eval-pipeline.toml.",
    )
    def check(context: dg.AssetCheckExecutionContext, store: StoreResource) -> dg.AssetCheckResult:
        if context.has_partition_key_range or context.has_partition_key:
            partitions = list(context.partition_keys)
        else:
            partitions = registered_comparisons(context.instance)
        with store.reading() as con:
            stored = stored_pairs(con, [pair_of(partition) for partition in partitions])
            n_troubled = troubled_gates(con)
        return gate_result([one.gate for one in stored.values() if one.gate is not None], n_troubled)

    return [check]


def launch_checks(launch: Launch, registry: Registry) -> list[dg.AssetCheckKey]:
    """What a run of this launch checks; without being told Dagster would take every check there is."""
    keys = launch.selection()
    gates = [dg.AssetCheckKey(COMPARISONS, GATE)] if COMPARISONS in keys else []
    return gates + _checks_of_runs(registry, keys)


def gate_result(verdicts: Sequence[GateReport], n_troubled: int = 0) -> dg.AssetCheckResult:
    """Failed where a verdict here is anything but pass, in the words of its rules.

    A night that once failed cannot be mended: in all of history such verdicts are counted, and fail nothing.
    """
    troubled = [one for one in verdicts if one.verdict != "pass"]
    metadata: dict[str, Any] = {"runs judged": len(verdicts), "not passed in all of history": n_troubled}
    if troubled:
        metadata["verdicts"] = dg.MetadataValue.md("\n\n".join(_told(one) for one in troubled[-LISTED:]))
    last = troubled[-1] if troubled else None
    return dg.AssetCheckResult(
        passed=not troubled,
        severity=dg.AssetCheckSeverity.WARN,
        metadata=metadata,
        description=_first_words(last)
        if last
        else None
        if verdicts
        else "no run here is held against a baseline",
    )


def _told(verdict: GateReport) -> str:
    head = f"**{verdict.verdict}**: `{verdict.candidate}` against `{verdict.baseline}`"
    return "\n".join([head, *(f"- {reason}" for reason in _reasons(verdict))])


def _first_words(verdict: GateReport) -> str:
    reason = next(iter(_reasons(verdict)), "")
    return f"{verdict.verdict}: {verdict.candidate} against {verdict.baseline}: {reason}"


def _reasons(verdict: GateReport) -> list[str]:
    ordered = sorted(verdict.not_passed, key=lambda one: one.verdict != "fail")
    return [*verdict.preconditions, *(f"{one.label}: {one.reason}" for one in ordered)]


def comparison_launches(
    due: Sequence[PairState], order: Sequence[str], *, may_cover_gaps: bool = True
) -> list[Launch]:
    """Ranges of pairs, each launched once."""
    by_name = {partition_of(one.run_a, one.run_b): one for one in due}
    return plan_launches(
        {name: frozenset(table.name for table in COMPARED) for name in by_name},
        order,
        states={name: _state(one) for name, one in by_name.items()},
        why={name: REASON_WORDS[one.reason or "asked"] for name, one in by_name.items()},
        may_cover_gaps=may_cover_gaps,
    )


def _state(one: PairState) -> str:
    return digest([*one.inputs, one.reason or "", one.computed_at])


def names_of(pairs: Collection[PairState]) -> list[str]:
    """The partitions of these pairs, in their order."""
    return [partition_of(one.run_a, one.run_b) for one in pairs]


def _report_assets(registry: Registry, listener: Listener) -> list[dg.AssetsDefinition]:
    """One asset for the whole folder."""
    aggregates = [key_of(one.name) for one in registry if ALL_FORMULAS in one.reads]

    @dg.asset(
        key=PAGES,
        group_name="reports",
        kinds={"html"},
        deps=[*COMPARED_KEYS, *aggregates],
        description=PAGES_DESCRIPTION,
    )
    def publish(context: dg.AssetExecutionContext, store: StoreResource) -> dg.MaterializeResult[None]:
        with listener.hearing_errors(), store.limited():
            with listener.watching() as progress:
                published = publish_pages(store.project(registry, listener), progress=progress)
            if published.errors:
                raise published.errors[0]
            with store.opened(registry) as opened:
                pages = wanted_pages(opened, store.settings)
            return _report_result(store, published, pages)

    return [publish]


def _report_result(
    store: StoreResource, published: Published, pages: Sequence[Page]
) -> dg.MaterializeResult[None]:
    metadata: dict[str, dg.MetadataValue | int] = {
        "pages written": len(published.pages),
        "folder": dg.MetadataValue.path(str(store.settings.reports)),
    }
    overview = next((page for page in pages if not page.runs and page.suite is None), None)
    if overview:
        metadata["all suites"] = dg.MetadataValue.url(overview.path.as_uri())
    if published.pages:
        metadata["written now"] = dg.MetadataValue.md(_links(published.pages))
    version = digest([f"{page.name} {page.made_at.isoformat()}" for page in pages])
    return dg.MaterializeResult(data_version=dg.DataVersion(version), metadata=metadata)


def _links(pages: Sequence[Page]) -> str:
    """The newest first."""
    lines = [f"- [{_escaped(page.name)}]({page.path.as_uri()})" for page in list(pages)[::-1][:LINKED]]
    rest = len(pages) - len(lines)
    return "\n".join([*lines, *([f"- and {rest:,} more"] if rest else [])])


def _escaped(name: str) -> str:
    return "".join("\\" + letter if letter in "\\[]_*`<" else letter for letter in name)
