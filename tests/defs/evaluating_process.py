"""A process that evaluates one night by its job, to be cancelled or killed in the middle of it."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import dagster as dg

from eval_pipeline.defs.evaluating.nights import MAKES
from eval_pipeline.defs.location import build_definitions
from eval_pipeline.settings import Settings
from tests.few_definitions import shipping
from tests.projects import project_of

from .deliveries import make_settings

JOB = "evaluate_small_one"


def settings_of(folder: Path) -> Settings:
    return replace(make_settings(folder), calls=folder / "calls.sqlite")


def job_in(folder: str) -> dg.JobDefinition:
    """The job as a run in another process finds it again."""
    return build_definitions(project_of(settings_of(Path(folder)))).resolve_job_def(JOB)


if __name__ == "__main__":
    with shipping(Path(sys.argv[2])), dg.DagsterInstance.ephemeral() as instance:
        found = job_in(sys.argv[1]).execute_in_process(
            instance=instance, tags={MAKES: sys.argv[3]}, raise_on_error=False
        )
    sys.exit(0 if found.success else 1)
