"""The published pages of new runs, comparisons and suites: which are due, and writing them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from eval_pipeline.comparing.pair_states import WantedPairs
from eval_pipeline.comparing.pairs import wanted_pairs
from eval_pipeline.computing.measure import Progress
from eval_pipeline.errors import EvalPipelineError
from eval_pipeline.exporting.documents import DOCUMENTS, export_documents
from eval_pipeline.records import CASES
from eval_pipeline.report.pages.collect import pair_page, run_page, suite_page, write_page
from eval_pipeline.settings import Settings, default_file, documents_beside
from eval_pipeline.store.open import Connection, first_value
from eval_pipeline.store.project import Project, Store


class ComputedRun(NamedTuple):
    """A run, its suite, and when the last of its tables was computed."""

    run_id: str
    suite: str | None
    made_at: dt.datetime


def _computed_recently(con: Connection, pairs: WantedPairs) -> list[ComputedRun]:
    """Those of the newest runs that are computed, in run order.

    Whether a target is met also rests on the list of cases, which makes no value stale.
    """
    rows = con.execute(
        "with lists as (select dataset_id, delivered_at from ledger.deliveries where part = ? "
        "and superseded_at is null) "
        "select r.run_id, r.suite, greatest(max(c.computed_at), max(l.delivered_at)) "
        f"from {pairs.recent.table} r join ledger.cells c using (run_key) join raw.datasets d using (dataset_key) "
        "left join lists l using (dataset_id) "
        "group by r.run_id, r.suite, r.ordered_at order by r.ordered_at, r.run_id",
        [CASES],
    ).fetchall()
    return [ComputedRun(*row) for row in rows]


def _stored_recently(con: Connection, pairs: WantedPairs) -> list[tuple[str, str, dt.datetime]]:
    """The stored comparisons of the newest runs that are wanted now, with when they were made."""
    return con.execute(
        "select a.run_id, r.run_id, p.computed_at from comparisons.pairs p "
        f"join {pairs.table} w on w.run_a_key = p.run_a_key and w.run_b_key = p.run_b_key "
        f"join {pairs.recent.table} r on r.run_key = p.run_b_key join raw.runs a on a.run_key = p.run_a_key "
        "order by r.ordered_at, r.run_id, a.run_id"
    ).fetchall()


def _recent_verdict(con: Connection, pairs: WantedPairs) -> dt.datetime | None:
    """When the last gate about one of the newest runs was judged."""
    found: dt.datetime | None = first_value(
        con,
        "select max(judged_at) from comparisons.gates "
        f"where run_b_key in (select run_key from {pairs.recent.table})",
    )
    return found


@dataclass(frozen=True)
class Page:
    """A page to publish: of a run, of a pair, or of a suite (None: of all); `made_at` is when its numbers were made."""

    runs: tuple[str, ...]
    suite: str | None
    path: Path
    made_at: dt.datetime

    @property
    def name(self) -> str:
        """What it is called in a list of pages."""
        if self.runs:
            return " → ".join(self.runs)
        return "all suites" if self.suite is None else f"suite {self.suite}"

    @property
    def documents(self) -> Path | None:
        """The folder beside the page of one run that holds its documents."""
        return documents_beside(self.path) if len(self.runs) == 1 else None

    @property
    def is_due(self) -> bool:
        """Whether it or a document beside it is not there, or was written before its numbers were made."""
        if not self.path.is_file():
            return True
        if self.documents and not all((self.documents / name).is_file() for name in DOCUMENTS):
            return True
        written = dt.datetime.fromtimestamp(self.path.stat().st_mtime, dt.UTC).replace(tzinfo=None)
        return written < self.made_at


@dataclass(frozen=True)
class Published:
    """What one call wrote, and what of it could not be written."""

    pages: Sequence[Page]
    errors: Sequence[EvalPipelineError]


def wanted_pages(store: Store, settings: Settings) -> list[Page]:
    """The pages of the newest runs of every suite, of their comparisons, and of the suites; oldest first."""
    con = store.con
    pairs = wanted_pairs(store)
    runs = _computed_recently(con, pairs)
    found = [_page(settings, (one.run_id,), one.made_at) for one in runs]
    found += [_page(settings, (a, b), made_at) for a, b, made_at in _stored_recently(con, pairs)]
    if not runs:
        return found
    judged_at = _recent_verdict(con, pairs)
    made_at = max([one.made_at for one in runs] + ([judged_at] if judged_at else []))
    named = sorted({one.suite for one in runs if one.suite is not None})
    for suite in named if len(named) > 1 or any(one.suite is None for one in runs) else []:
        own = max(one.made_at for one in runs if one.suite == suite)
        found.append(Page((), suite, default_file(settings, (), suite), own))
    return [*found, Page((), None, default_file(settings, (), None), made_at)]


def _page(settings: Settings, runs: tuple[str, ...], made_at: dt.datetime) -> Page:
    return Page(runs, None, default_file(settings, runs, None), made_at)


def due_pages(store: Store, settings: Settings) -> list[Page]:
    """Those of the wanted pages that are missing or older than their numbers."""
    return [page for page in wanted_pages(store, settings) if page.is_due]


def publish_pages(project: Project, *, progress: Progress | None = None) -> Published:
    """Write what is due into the folder of reports; a page that cannot be made keeps no other from being written."""
    with project.read() as store:
        due = due_pages(store, project.settings)
    written: list[Page] = []
    errors: list[EvalPipelineError] = []
    for position, page in enumerate(due, start=1):
        try:
            if page.documents:
                export_documents(project, page.runs[0], page.documents)
            write_page(_text(project, page), page.path)
            written.append(page)
        except EvalPipelineError as error:
            errors.append(error)
        if progress:
            progress(position, len(due))
    return Published(written, errors)


def _text(project: Project, page: Page) -> str:
    if not page.runs:
        return suite_page(project, suite=page.suite)
    if len(page.runs) == 1:
        return run_page(project, page.runs[0])
    return pair_page(project, page.runs[0], page.runs[1])
