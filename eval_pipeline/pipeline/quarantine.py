"""What was rejected and why; and another try after a fix."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

from eval_pipeline.errors import UnknownName
from eval_pipeline.formulas.config import load_config
from eval_pipeline.pipeline.load import LoadReport, load_found
from eval_pipeline.pipeline.loading import LoadOptions
from eval_pipeline.pipeline.rereading import plan_rereading
from eval_pipeline.settings import Settings
from eval_pipeline.store.connect import Connection, open_reader
from eval_pipeline.store.deliveries import OpenProblem, count_problems, find_problems, names_delivered
from eval_pipeline.store.lock import Tell

TIME = "%Y-%m-%dT%H:%M:%SZ"


def find_quarantine(
    settings: Settings,
    *,
    run_ids: Sequence[str] | None = None,
    datasets: Sequence[str] | None = None,
    resolved: bool = False,
    tell: Tell | None = None,
) -> list[dict[str, Any]]:
    """Every piece of input that is in quarantine now, or that was and is resolved, oldest first."""
    with open_reader(settings.db, tell=tell) as con:
        _require_known(con, run_ids, datasets)
        found = find_problems(con, run_ids=run_ids, datasets=datasets, resolved=resolved)
    return [_entry(one) for one in found]


def _require_known(con: Connection, run_ids: Sequence[str] | None, datasets: Sequence[str] | None) -> None:
    """A name that was misspelt must not read as if all were well; what was only ever rejected has a name, too."""
    known_runs, known_datasets = names_delivered(con)
    for kind, asked, known in (("run", run_ids, known_runs), ("dataset", datasets, known_datasets)):
        for name in asked or ():
            if name not in known:
                raise UnknownName(kind, name, known)


def _entry(problem: OpenProblem) -> dict[str, Any]:
    """A row of the document."""
    names = ("path", "line", "run_id", "query_id", "field", "reason", "text")
    entry: dict[str, Any] = {name: getattr(problem, name) for name in names}
    entry |= {"at": problem.rejected_at.strftime(TIME), "dataset": problem.dataset}
    if problem.resolved_at:
        entry["resolved_at"] = problem.resolved_at.strftime(TIME)
    return entry


def count_resolved(
    settings: Settings,
    *,
    run_ids: Sequence[str] | None = None,
    datasets: Sequence[str] | None = None,
    tell: Tell | None = None,
) -> int:
    """How much was in quarantine and is resolved."""
    with open_reader(settings.db, tell=tell) as con:
        return count_problems(con, run_ids=run_ids, datasets=datasets, resolved=True)


def retry_quarantine(
    settings: Settings,
    *,
    now: dt.datetime,
    run_ids: Sequence[str] | None = None,
    datasets: Sequence[str] | None = None,
    no_text: bool = False,
    tell: Tell | None = None,
) -> dict[str, Any]:
    """Read the files behind quarantine again, take in what is good now, and say what is mended and what is not."""
    inverted_spans = load_config(settings.config).inverted_spans
    with open_reader(settings.db, tell=tell) as con:
        _require_known(con, run_ids, datasets)
        before = find_problems(con, run_ids=run_ids, datasets=datasets)
        plan = plan_rereading(con, settings.db, before, inverted_spans=inverted_spans)
    reports: list[LoadReport] = []
    for is_textless, bundles in ((False, plan.bundles), (True, plan.textless_bundles)):
        if bundles:
            options = LoadOptions(
                no_text=no_text or is_textless, texts_again=False, read_again=frozenset(plan.read_again)
            )
            reports.append(load_found(bundles, settings, now=now, tell=tell, options=options))
    with open_reader(settings.db, tell=tell) as con:
        after = find_problems(con, run_ids=run_ids, datasets=datasets)
    still = {one.place for one in after}
    return {
        "format": 1,
        "mended": [_entry(one) for one in before if one.place not in still],
        "rows": [_entry(one) for one in after],
        "unread": [{"path": path, "why": why} for path, why in sorted(plan.unread.items())],
        "taken_in": sorted(
            {name for report in reports for name in (*report.golden_sets, *report.archives, *report.runs)}
        ),
    }
