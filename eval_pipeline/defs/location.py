"""The code location: everything Dagster shows, for one set of settings."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

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
from eval_pipeline.formulas.registry import Registry
from eval_pipeline.store.project import Project


def build_definitions(project: Project, *, listener: Listener | None = None) -> dg.Definitions:
    """Assets from the definitions, their checks, jobs, sensors and the schedule; needs no store."""
    registry = project.definitions()
    hears = listener or Listener(retries=BUSY_RETRIES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)
        names = all_names(registry)
        jobs = make_jobs([_up_to_date_key(one) for one in computed_definitions(registry)])
        evaluating = _of_suites(registry, hears)
        return dg.Definitions(
            assets=[
                *_delivered_assets(hears, registry.config),
                _computed_assets(registry, hears),
                *_comparison_assets(registry, hears),
                *_report_assets(registry, hears),
                *evaluating.assets,
            ],
            asset_checks=[*_all_checks(registry), *_comparison_checks()],
            jobs=[*jobs.all(), _show_existing_job(), *evaluating.jobs],
            schedules=[nightly(jobs, names, registry.config), *evaluating.schedules],
            sensors=[
                new_runs(jobs, names),
                new_comparisons(jobs),
                failed_runs(registry.config),
                stale_metrics(jobs, names, seconds=registry.config.stale_metrics_seconds),
            ],
            resources={"store": StoreResource.of(project.settings)},
            executor=dg.in_process_executor,
        )


@dataclass(frozen=True)
class _Evaluating:
    """What there is of suites."""

    assets: Sequence[dg.AssetSpec | dg.AssetsDefinition] = ()
    jobs: Sequence[dg.JobDefinition] = ()
    schedules: Sequence[dg.ScheduleDefinition] = ()


def _of_suites(registry: Registry, listener: Listener) -> _Evaluating:
    """Nothing, and nothing is imported for it, where eval-pipeline.toml names no suite."""
    if not registry.config.suites:
        return _Evaluating()
    from eval_pipeline.defs.evaluating.suites import _suite_job, _suite_schedule, _suites_of
    from eval_pipeline.defs.evaluating.written import _target_responses, judgements

    jobs = [(suite, _suite_job(suite, registry)) for suite in _suites_of(registry.config)]
    schedules = [_suite_schedule(suite, job, registry.config) for suite, job in jobs]
    return _Evaluating(
        [_target_responses(), judgements(listener)],
        [job for _, job in jobs],
        [one for one in schedules if one is not None],
    )
