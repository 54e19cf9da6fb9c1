"""The state of every derived table and run, and of every pair of runs: fresh or not, and why."""

from __future__ import annotations

from typing import Any

from eval_pipeline.comparing.pairs import PAIRS, find_pairs, status_entry
from eval_pipeline.computing.states import states_of_cells
from eval_pipeline.formulas.registry import Registry
from eval_pipeline.loading.deliveries import count_problems
from eval_pipeline.loading.lint import all_findings, count_findings
from eval_pipeline.settings import Settings, utc_now
from eval_pipeline.store.lock import Notify
from eval_pipeline.store.open import first_value, open_reader
from eval_pipeline.store.project import Store
from eval_pipeline.store.runs import attempts, waiting_runs

STATES = ("fresh", "stale", "missing", "pinned", "frozen")


def find_status(settings: Settings, registry: Registry, *, notify: Notify | None = None) -> dict[str, Any]:
    """The document of `status --json`."""
    with open_reader(settings.db, notify=notify) as con:
        states = states_of_cells(Store(con, lambda: registry, utc_now))
        rows = states.counts()
        pairs = status_entry(find_pairs(con, registry, states), registry)
        runs = int(first_value(con, "select count(*) from raw.runs"))
        waiting = waiting_runs(con)
        frozen = states.frozen_runs()
        known = attempts(con).values()
        warnings = count_findings(con)
        quarantined = count_problems(con)
    assets: dict[str, dict[str, Any]] = {
        one.name: {
            "name": one.name,
            "version": one.header.version,
            "fingerprint": one.fingerprint,
            **dict.fromkeys(STATES, 0),
            "reasons": {},
        }
        for one in registry
    }
    for definition, state, reason, count in rows:
        asset = assets[definition]
        asset[state] += count
        if reason and state == "stale":
            asset["reasons"][reason] = asset["reasons"].get(reason, 0) + count
    assets[PAIRS] = pairs
    cells = {state: sum(asset[state] for asset in assets.values()) for state in STATES}
    return {
        "format": 1,
        "runs": runs,
        "cells": cells,
        "assets": list(assets.values()),
        "waiting": waiting,
        "frozen_runs": frozen,
        "incomplete": [run.run_id for run in known if run.has_golden_set and not run.is_complete],
        "superseded": {run.run_id: run.superseded_by for run in known if run.superseded_by},
        "quarantined": quarantined,
        "warnings": warnings,
    }


def find_lint(settings: Settings, *, notify: Notify | None = None) -> list[dict[str, Any]]:
    """What looks odd in the golden sets and in the runs, as `status --lint` shows it."""
    with open_reader(settings.db, notify=notify) as con:
        return [finding.entry() for finding in all_findings(con)]
