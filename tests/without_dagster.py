"""Commands that compute, without the Dagster runs that show it: these take three quarters of the time of a small `run`."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from eval_pipeline import launch
from eval_pipeline.comparing.pairs import PAIRS, due_pairs, store_comparisons
from eval_pipeline.comparing.stored import compared_by
from eval_pipeline.computing.measure import measure
from eval_pipeline.computing.progress import computed_by, failures_of
from eval_pipeline.store.project import Project, at_one_time
from eval_pipeline.words import failed_sentence


def run_plainly(
    project: Project,
    *,
    run_ids: Collection[str] | None = None,
    reasons: Collection[str] | None,
    definitions: Collection[str] | None = None,
    note: str | None = None,
    pages: bool = False,
    **told: Any,
) -> launch.Summary:
    """What `run_in_dagster` computes, by the functions that its assets call."""
    assert not pages
    project = at_one_time(project)
    named = {"dagster_run_id": str(uuid.uuid4())}
    measure(
        project,
        reasons=reasons,
        run_ids=run_ids,
        definitions=definitions,
        note=note,
        **told,
        **named,
    )
    if definitions is None or PAIRS in definitions:
        with project.read() as store:
            due = due_pairs(store, reasons=reasons, run_ids=run_ids)
        ready = [(one.run_a, one.run_b) for one in due if one.is_ready]
        done = store_comparisons(project, ready, reasons=reasons, **told, **named)
        assert done.errors == {}
    with project.read() as store:
        computed = computed_by(store.con, [named["dagster_run_id"]])
        pairs = compared_by(store.con, [named["dagster_run_id"]])
        failed = failures_of(store, definitions, run_ids)
    cells = computed.cells | ({PAIRS: len(pairs)} if pairs else {})
    runs = tuple(sorted({*computed.runs, *(run for _, run in pairs)}))
    said = {name: failed_sentence(list(of_runs.items())) for name, of_runs in failed.items()}
    return launch.Summary(replace(computed, cells=cells, runs=runs), (), (), said)


@contextmanager
def without_dagster() -> Iterator[None]:
    """Within the block commands compute without it. That both ways give the same is tested in tests/defs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch, "run_in_dagster", run_plainly)
        yield
