"""What is stale and why, and what computing it would cost: the plan, before anything is written."""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eval_pipeline.errors import UsageError
from eval_pipeline.formulas.definition import Definition
from eval_pipeline.formulas.lock_file import FILE, read_lock
from eval_pipeline.formulas.registry import Registry
from eval_pipeline.ingest.parts import parse_day
from eval_pipeline.pipeline.catalogue import find_definition
from eval_pipeline.pipeline.measure import unwanted_cells, wanted_cells
from eval_pipeline.settings import Settings, shipped_sql
from eval_pipeline.store.connect import Connection, open_reader
from eval_pipeline.store.ledger import find_states
from eval_pipeline.store.lock import Tell
from eval_pipeline.store.meanings import meaning_text, meanings_of


@dataclass(frozen=True)
class Selection:
    """Which of the stale cells somebody asks about; None is all of them."""

    definitions: frozenset[str] | None = None
    run_ids: frozenset[str] | None = None
    since: str | None = None


def select_cells(
    registry: Registry,
    *,
    only: Collection[str] = (),
    runs: Collection[str] = (),
    since: str | None = None,
) -> Selection:
    """Check names and dates, and widen --only to what is computed from the named definitions.

    An aggregate is named with its formula (`aggregates.run_metrics:metrics.hit_at_k`): the others' are not asked for.
    """
    if since is not None:
        try:
            parse_day(since)
        except ValueError as error:
            raise UsageError(f"--since: {error}") from error
    named = {find_definition(registry, name).name for name in only}
    for one in registry:
        if named & set(one.reads):
            named.add(one.name)
    named |= {cell.name for cell in wanted_cells(registry) if cell.source in named}
    return Selection(
        definitions=frozenset(named) if only else None,
        run_ids=frozenset(runs) if runs else None,
        since=since,
    )


# Cells as people count them: one per derived table × run, however many formulas an aggregate is made of.
_STALE = """
create or replace temp table stale_cells as
select definition, source, run_key, run_id, run_no, reason, stored_fingerprint
from cell_states
where reason is not null and not is_pinned
    and (
        $definitions is null
        or list_contains($definitions, definition)
        or list_contains($definitions, definition || ':' || source)
    )
    and ($run_ids is null or list_contains($run_ids, run_id))
"""

_COSTS = """
with known as (
    select definition, source, avg(seconds) as seconds from ledger.cells group by definition, source
)
select coalesce(sum(coalesce(known.seconds, (select avg(seconds) from known))), 0)
from stale_cells
left join known using (definition, source)
"""


def find_plan(
    settings: Settings, registry: Registry, selection: Selection | None = None, *, tell: Tell | None = None
) -> dict[str, Any]:
    """The document of `plan --json`, without the preview."""
    with open_reader(settings.db, tell=tell) as con:
        return plan_document(con, registry, selection or Selection())


def plan_document(con: Connection, registry: Registry, selection: Selection) -> dict[str, Any]:
    """The plan, from an open connection; leaves the stale cells in the temporary table stale_cells."""
    find_states(con, wanted_cells(registry), unwanted=unwanted_cells(registry))
    con.execute(
        _STALE,
        {
            "definitions": sorted(selection.definitions) if selection.definitions else None,
            "run_ids": sorted(selection.run_ids) if selection.run_ids else None,
        },
    )
    if selection.since is not None:
        con.execute(
            "delete from stale_cells where run_key in (select run_key from raw.runs "
            "where coalesce(created_at, first_loaded_at) < cast(? as timestamp))",
            [parse_day(selection.since).isoformat()],
        )
    counted = con.execute(
        "select definition, reason, count(*) from (select definition, run_key, min(reason) as reason "
        "from stale_cells group by definition, run_key) group by definition, reason order by definition, reason"
    ).fetchall()
    runs = con.execute("select run_id from stale_cells group by run_id, run_no order by run_no").fetchall()
    seconds = con.execute(_COSTS).fetchall()[0][0]
    meanings = _old_meanings(con, registry)
    reasons: dict[str, dict[str, int]] = {}
    for definition, reason, count in counted:
        reasons.setdefault(definition, {})[reason] = count
    assets = [
        _asset(one, reasons[one.name], meanings.get(one.name)) for one in registry if one.name in reasons
    ]
    return {
        "format": 1,
        "cells": sum(asset["cells"] for asset in assets),
        "runs": [row[0] for row in runs],
        "estimated_seconds": round(float(seconds), 2),
        "judge_calls": 0,
        "warnings": _warnings(registry, meanings),
        "assets": assets,
    }


def _old_meanings(con: Connection, registry: Registry) -> dict[str, dict[str, Any]]:
    """The meaning that most stored cells of a definition were computed with."""
    most_used = con.execute(
        "select definition, arg_max(fingerprint, n) from (select definition, fingerprint, count(*) as n "
        "from ledger.cells where source = '' group by definition, fingerprint) group by definition"
    ).fetchall()
    used = dict(most_used)
    renamed = {f"{one.schema}.{one.header.was}": one.name for one in registry if one.header.was}
    found: dict[str, dict[str, Any]] = {}
    for meaning in meanings_of(con, [*registry.definitions, *renamed]):
        name = renamed.get(meaning["name"], meaning["name"])
        if used.get(meaning["name"]) == meaning["fingerprint"] or name not in used:
            found[name] = meaning
    return found


def _asset(one: Definition, reasons: Mapping[str, int], old: Mapping[str, Any] | None) -> dict[str, Any]:
    return {
        "name": one.name,
        "cells": sum(reasons.values()),
        "reasons": dict(reasons),
        "old_version": old["version"] if old else None,
        "new_version": one.header.version,
        "old_fingerprint": old["fingerprint"] if old else None,
        "new_fingerprint": one.fingerprint,
        "diff": _diff(one, old),
    }


def _diff(one: Definition, old: Mapping[str, Any] | None) -> str:
    """What changed in the definition itself; empty when only something it reads changed."""
    if old is None or old["own_fingerprint"] == one.own_fingerprint:
        return ""
    header = {
        "parameters": dict(one.header.parameters),
        "applies": one.header.applies,
        "undefined": one.header.undefined,
        "aggregate": one.header.aggregate,
    }
    before = meaning_text(json.loads(old["header"]), old["body"]).splitlines(keepends=True)
    after = meaning_text(header, one.body).splitlines(keepends=True)
    if before == after:
        return "a helper that it calls changed\n"
    return "".join(
        difflib.unified_diff(
            before, after, f"{one.name} version {old['version']}", f"version {one.header.version}"
        )
    )


def _warnings(registry: Registry, meanings: Mapping[str, Mapping[str, Any]]) -> list[str]:
    return [
        f"{one.name} means something else than version {old['version']} did and still says version "
        f"{one.header.version}: raise `version` in {one.path.name}"
        for one in registry
        if (old := meanings.get(one.name)) is not None
        and old["own_fingerprint"] != one.own_fingerprint
        and old["version"] >= one.header.version
        and not _is_agreed(registry, one)
    ]


def _is_agreed(registry: Registry, one: Definition) -> bool:
    """Whether the lock file holds this meaning, or eval-pipeline.toml made it: then no version waits to be raised."""
    if one.short_name in registry.config.formulas or one.name in registry.config.formulas:
        return True
    locked = read_lock(one.path.parent.parent / FILE) or read_lock(shipped_sql() / FILE)
    return locked.get(one.name, (0, ""))[1] == one.own_fingerprint


def as_markdown(plan: Mapping[str, Any]) -> str:
    """The plan for a pull request."""
    if not plan["cells"]:
        return "Nothing is stale.\n"
    lines = [
        f"**{plan['cells']:,} cells of {len(plan['runs']):,} runs are stale**, "
        f"about {plan['estimated_seconds']:.1f} s to compute, {plan['judge_calls']} judge calls.",
        "",
        "| table | cells | why | version |",
        "|---|---:|---|---|",
    ]
    for asset in plan["assets"]:
        why = ", ".join(f"{n:,} {reason}" for reason, n in asset["reasons"].items())
        version = f"{asset['old_version'] or '–'} → {asset['new_version']}"
        lines.append(f"| `{asset['name']}` | {asset['cells']:,} | {why} | {version} |")
    lines += _preview_lines(plan.get("preview") or {})
    for asset in plan["assets"]:
        if asset["diff"]:
            lines += ["", "```diff", asset["diff"].rstrip(), "```"]
    lines += [f"\n> {warning}" for warning in plan["warnings"]]
    return "\n".join(lines) + "\n"


def _preview_lines(preview: Mapping[str, Any]) -> Sequence[str]:
    if not preview:
        return []
    lines = ["", "| metric | queries that change | run | old | new |", "|---|---:|---|---:|---:|"]
    for key, entry in preview.items():
        changed = [(run, values) for run, values in entry["runs"].items() if values["old"] != values["new"]]
        for run, values in changed[-5:] or [("–", {"old": None, "new": None})]:
            old, new = (("–" if v is None else f"{v:.4f}") for v in (values["old"], values["new"]))
            lines.append(f"| {key} | {entry['changed_queries']:,} | {run} | {old} | {new} |")
        if len(changed) > 5:
            lines.append(f"| {key} | | … {len(changed) - 5:,} more runs | | |")
    return lines
