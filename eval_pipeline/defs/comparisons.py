"""Comparisons and published pages as assets, and the gate as a check."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import dagster as dg

from eval_pipeline.comparing.pair_states import PairState
from eval_pipeline.comparing.pairs import (
    PAIRS,
    Compared,
    own_fingerprint,
    pair_of,
    partition_of,
    store_comparisons,
)
from eval_pipeline.comparing.states import PAIR_FACTS
from eval_pipeline.comparing.stored import StoredPair, stored_pairs
from eval_pipeline.defs.assets import key_of
from eval_pipeline.defs.launches import Launch, plan_launches
from eval_pipeline.defs.metadata import REASON_WORDS, _why_it_ran
from eval_pipeline.defs.partitions import EVAL_COMPARISON, registered_comparisons
from eval_pipeline.defs.resources import Listener, StoreResource
from eval_pipeline.defs.tags import _only_stale, _wanted_reasons
from eval_pipeline.formulas.registry import ALL_FORMULAS, Registry
from eval_pipeline.loading.inbox import digest
from eval_pipeline.report.markdown import headline_deltas, render_short_md
from eval_pipeline.report.pages.writing import Page, Published, publish_pages, wanted_pages
from eval_pipeline.settings import utc_now

COMPARISONS = key_of(PAIRS)
GATE = "gate"
LISTED = 20
DESCRIPTION = """Two runs side by side: what moved, how sure that is, and the verdict about every query.

Each of the newest runs of a suite is compared with the last complete run of the night before, and with the baseline
that eval-pipeline.toml pins. A comparison is stale when what it was computed from has changed: results, labels,
archives, formulas."""
PAGES = dg.AssetKey(["reports", "pages"])
LINKED = 50
PAGES_DESCRIPTION = """\
Self-contained HTML pages in the folder of reports: of new runs, of new comparisons, of the suites.

A page is written when it is not there, or older than the numbers on it; others are left alone."""


def _comparison_assets(registry: Registry, listener: Listener) -> list[dg.AssetsDefinition]:
    """The pairs; fed by whole tables, since a pair reads two partitions of them."""

    @dg.asset(
        key=COMPARISONS,
        group_name="comparisons",
        kinds={"duckdb", "python"},
        partitions_def=EVAL_COMPARISON,
        backfill_policy=dg.BackfillPolicy.single_run(),
        deps=[dg.AssetDep(key, partition_mapping=dg.AllPartitionMapping()) for key in _parents(registry)],
        code_version=own_fingerprint(registry),
        metadata={"dagster/table_name": PAIRS},
        description=DESCRIPTION,
    )
    def compute(context: dg.AssetExecutionContext, store: StoreResource) -> dg.MaterializeResult[None]:
        with listener.hearing_errors():
            return _compute(context, store, registry, listener)

    return [compute]


def _parents(registry: Registry) -> list[dg.AssetKey]:
    names = [one.name for one in registry if ALL_FORMULAS in one.reads or one.name in PAIR_FACTS]
    return [key_of(name) for name in names]


def _compute(
    context: dg.AssetExecutionContext, store: StoreResource, registry: Registry, listener: Listener
) -> dg.MaterializeResult[None]:
    tags = context.run.tags
    pairs = [pair_of(partition) for partition in context.partition_keys]
    with listener.watching() as progress:
        done = store_comparisons(
            store.settings,
            registry,
            pairs,
            now=utc_now(),
            reasons=_wanted_reasons(tags),
            force=not _only_stale(tags),
            dagster_run_id=context.run.run_id,
            notify=listener.notify,
            progress=progress,
        )
    with store.reading() as con:
        stored = stored_pairs(con, pairs)
    for pair, found in stored.items():
        context.add_asset_metadata(_pair_metadata(found), COMPARISONS, partition_of(*pair))
    if done.errors:
        raise next(iter(done.errors.values()))
    return _result(stored, done)


def _result(stored: Mapping[tuple[str, str], StoredPair], done: Compared) -> dg.MaterializeResult[None]:
    why = {partition_of(*pair): reason for pair, reason in done.reasons.items()}
    return dg.MaterializeResult(
        data_version=dg.DataVersion(
            digest([f"{partition_of(*pair)} {one.version}" for pair, one in stored.items()])
        ),
        metadata={
            "pairs compared": len(done.reasons),
            "seconds for the range": round(
                sum(stored[pair].seconds for pair in done.reasons if pair in stored), 3
            ),
            "why this partition ran": _why_it_ran(why),
        },
    )


def _pair_metadata(pair: StoredPair) -> dict[str, Any]:
    """A pair's numbers: headline changes with interval and n, verdicts of queries, and a preview."""
    document = pair.document
    found: dict[str, Any] = {}
    for name, one in headline_deltas(document):
        found[f"{name}: change"] = one["delta"]
        found[f"{name}: n"] = one["n"]
        if one["ci_low"] is not None and one["ci_high"] is not None:
            found[f"{name}: 95 % from"] = one["ci_low"]
            found[f"{name}: 95 % to"] = one["ci_high"]
    for name in ("regressions", "win", "loss", "draw", "rank_up", "rank_down"):
        found[name.replace("_", " ")] = document["counts"][name]
    found["queries"] = len(document["per_query"])
    found["matched"] = document["deltas"]["chunker_version_match"]
    if pair.gate is not None:
        found["gate"] = str(pair.gate["verdict"])
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
        return gate_result([one.gate for one in stored.values() if one.gate is not None])

    return [check]


def gate_result(verdicts: Sequence[Mapping[str, Any]]) -> dg.AssetCheckResult:
    """Failed where a verdict is anything but pass, in the words of its rules."""
    troubled = [one for one in verdicts if one["verdict"] != "pass"]
    metadata: dict[str, Any] = {"runs judged": len(verdicts)}
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


def _told(verdict: Mapping[str, Any]) -> str:
    head = f"**{verdict['verdict']}**: `{verdict['candidate']}` against `{verdict['baseline']}`"
    return "\n".join([head, *(f"- {reason}" for reason in _reasons(verdict))])


def _first_words(verdict: Mapping[str, Any]) -> str:
    reason = next(iter(_reasons(verdict)), "")
    return f"{verdict['verdict']}: {verdict['candidate']} against {verdict['baseline']}: {reason}"


def _reasons(verdict: Mapping[str, Any]) -> list[str]:
    rules = [one for one in verdict["rules"] if one["verdict"] != "pass"]
    ordered = sorted(rules, key=lambda one: one["verdict"] != "fail")
    return [*verdict["preconditions"], *(f"{one['label']}: {one['reason']}" for one in ordered)]


def comparison_launches(
    due: Sequence[PairState], order: Sequence[str], *, may_cover_gaps: bool = True
) -> list[Launch]:
    """Ranges of pairs, each launched once."""
    by_name = {partition_of(one.run_a, one.run_b): one for one in due}
    return plan_launches(
        {name: frozenset((PAIRS,)) for name in by_name},
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
        deps=[COMPARISONS, *aggregates],
        description=PAGES_DESCRIPTION,
    )
    def publish(context: dg.AssetExecutionContext, store: StoreResource) -> dg.MaterializeResult[None]:
        with listener.hearing_errors():
            with listener.watching() as progress:
                published = publish_pages(store.settings, registry, notify=listener.notify, progress=progress)
            if published.errors:
                raise published.errors[0]
            with store.reading() as con:
                pages = wanted_pages(con, store.settings, registry)
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
