"""What Dagster loads: `dagster dev -m eval_pipeline.definitions`."""

from __future__ import annotations

import dagster as dg

from eval_pipeline.defs.location import build_definitions as build_definitions
from eval_pipeline.defs.processes import end_with_the_supervisor
from eval_pipeline.settings import load_settings
from eval_pipeline.store.project import project_of


@dg.definitions
def definitions() -> dg.Definitions:
    """The code location for the settings of the environment."""
    end_with_the_supervisor()
    return build_definitions(project_of(load_settings()))
