"""The code location: everything Dagster shows, for one set of settings."""

from __future__ import annotations

import warnings

import dagster as dg

from eval_pipeline.defs.assets import _computed_assets, computed_definitions
from eval_pipeline.defs.checks import _all_checks, _up_to_date_key
from eval_pipeline.defs.comparisons import _comparison_assets, _comparison_checks, _report_assets
from eval_pipeline.defs.jobs import make_jobs
from eval_pipeline.defs.launches import all_names
from eval_pipeline.defs.resources import BUSY_RETRIES, Listener, StoreResource
from eval_pipeline.defs.schedule import nightly
from eval_pipeline.defs.sensors import new_comparisons, new_runs, stale_metrics
from eval_pipeline.defs.sources import _delivered_assets
from eval_pipeline.defs.telling.existing import _show_existing_job
from eval_pipeline.defs.telling.failures import failed_runs
from eval_pipeline.store.project import Project


def build_definitions(project: Project, *, listener: Listener | None = None) -> dg.Definitions:
    """Assets from the definitions, their checks, jobs, sensors and the schedule; needs no store."""
    registry = project.definitions()
    hears = listener or Listener(retries=BUSY_RETRIES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)
        names = all_names(registry)
        jobs = make_jobs([_up_to_date_key(one) for one in computed_definitions(registry)])
        return dg.Definitions(
            assets=[
                *_delivered_assets(hears, registry.config),
                _computed_assets(registry, hears),
                *_comparison_assets(registry, hears),
                *_report_assets(registry, hears),
            ],
            asset_checks=[*_all_checks(registry), *_comparison_checks()],
            jobs=[*jobs.all(), _show_existing_job()],
            schedules=[nightly(jobs, names, registry.config)],
            sensors=[
                new_runs(jobs, names),
                new_comparisons(jobs),
                failed_runs(registry.config),
                stale_metrics(jobs, names, seconds=registry.config.stale_metrics_seconds),
            ],
            resources={"store": StoreResource.of(project.settings)},
            executor=dg.in_process_executor,
        )
