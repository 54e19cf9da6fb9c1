"""What the pages of a site are made of."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eval_pipeline.computing.definition_versions import PastVersion
from eval_pipeline.report.links import NO_LINKS, Links
from eval_pipeline.report.pages.material import ChunkRow
from eval_pipeline.report.verdict import Verdict
from eval_pipeline.store.runs import NightRun


@dataclass(frozen=True)
class Asked:
    """What one run made of a question; `is_failed` is None where the labels in force do not ask it.

    `is_named` is whether labels name chunks of its chunker.
    """

    run: NightRun
    before: str | None
    is_judged: bool
    values: Mapping[str, float | None]
    is_failed: bool | None
    error: str | None
    n_expected: int | None
    first_rank: int | None
    answer: str | None

    @property
    def is_scored(self) -> bool:
        """Whether labels say anything of it: they ask it, and something knows the run's ids."""
        return self.is_failed is not None and self.is_judged

    @property
    def is_ranked(self) -> bool:
        """Whether its rank says anything: a chunk is expected, of the run's own chunker."""
        return self.is_scored and bool(self.n_expected)


@dataclass(frozen=True)
class LabelState:
    """What a golden set said of a question, by what it is about; empty where it did not ask it."""

    loaded_at: dt.datetime
    labels: Mapping[str, str]


@dataclass(frozen=True)
class QuestionMaterial:
    """Everything on the page of a question; runs and states of its labels with the newest first.

    `metrics` has the formula of each.
    """

    dataset: str
    query_id: str
    question: str | None
    asked: Sequence[Asked]
    metrics: Mapping[str, str]
    labels: Sequence[LabelState]
    expected: Sequence[ChunkRow]
    with_text: bool = True
    links: Links = NO_LINKS


@dataclass(frozen=True)
class LastValue:
    """What the newest night of a suite has of a formula."""

    run: NightRun
    values: Mapping[str, tuple[float | None, int]]


@dataclass(frozen=True)
class FormulaMaterial:
    """Everything on the page of a formula; versions with the newest first."""

    described: Mapping[str, Any]
    undefined: str | None
    short_name: str
    history: Sequence[PastVersion]
    last: Sequence[LastValue]
    rules: Sequence[str]
    links: Links = NO_LINKS


@dataclass(frozen=True)
class IndexRun:
    """A run in the list of all, with what it is held against."""

    run: NightRun
    before: str | None
    baseline: str | None
    values: Mapping[str, tuple[float | None, int]]
    gate: str | None
    is_judged: bool


@dataclass(frozen=True)
class IndexSuite:
    """A suite on a dataset: its shown runs with the newest first, and what its newest answer came to."""

    suite: str | None
    dataset: str
    runs: Sequence[IndexRun]
    n_runs: int
    verdict: Verdict | None
    verdict_pair: tuple[str, str] | None


@dataclass(frozen=True)
class IndexMaterial:
    """Everything on the first page."""

    suites: Sequence[IndexSuite]
    formulas: Sequence[tuple[str, str, str]]
    datasets: Sequence[tuple[str, int]]
    links: Links = NO_LINKS


@dataclass(frozen=True)
class QuestionsMaterial:
    """The questions of a dataset: (id, question) in golden order."""

    dataset: str
    questions: Sequence[tuple[str, str | None]]
    links: Links = NO_LINKS
