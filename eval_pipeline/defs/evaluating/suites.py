"""A job and a schedule for every suite."""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import dagster as dg

from eval_pipeline.config import Config
from eval_pipeline.defs.evaluating.nights import MAKES, _name_of_night, _run_to_make
from eval_pipeline.defs.evaluating.steps import Night, _publish, _take_in, ask, compare, compute
from eval_pipeline.defs.jobs import QUIET
from eval_pipeline.defs.processes import EVALUATES
from eval_pipeline.defs.resources import StoreResource
from eval_pipeline.errors import InvalidConfig
from eval_pipeline.formulas.registry import Registry
from eval_pipeline.loading.inbox import digest

_HOUR = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)")
_NO_NAME = re.compile(r"\W", re.ASCII)
JOB_DESCRIPTION = (
    "Evaluates the suite {suite} for one night: asks target and judges, takes the run in, computes it, compares "
    "it, asks the gate, and writes the pages where the gate does not fail. It costs what its judges cost. A run that "
    "stopped is continued by re-executing it, and nothing is paid twice. The run is called by the night; the tag "
    f"{MAKES} names another."
)


@dataclass(frozen=True)
class Suite:
    """What Dagster has to know of a suite; everything else is read and checked when it is evaluated."""

    name: str
    job: str
    hour: str | None
    timezone: str
    repeats: int


def _suites_of(config: Config) -> list[Suite]:
    """The suites of eval-pipeline.toml; two whose names Dagster could not tell apart get a few letters more."""
    names = job_names(config.suites)
    return [_suite(config, name, entry, names[name]) for name, entry in config.suites.items()]


def job_names(suites: Collection[str]) -> dict[str, str]:
    """A name for each that Dagster takes: letters, digits and _."""
    plain = {name: f"evaluate_{_NO_NAME.sub('_', name)}" for name in suites}
    taken = list(plain.values())
    return {
        name: job if taken.count(job) == 1 else f"{job}_{digest([name])[:6]}" for name, job in plain.items()
    }


def _suite(config: Config, name: str, entry: Mapping[str, Any], job: str) -> Suite:
    at, repeats = entry.get("at"), entry.get("repeats", 1)
    if at is not None and not (isinstance(at, str) and _HOUR.fullmatch(at)):
        raise InvalidConfig(f'{config.path}: [suites.{name}] at is {at!r}; it is an hour such as "02:00"')
    is_number = isinstance(repeats, int) and repeats > 0
    return Suite(name, job, at, str(entry.get("timezone", "UTC")), repeats if is_number else 1)


def _suite_job(suite: Suite, registry: Registry) -> dg.JobDefinition:
    """Every step begins where the one before has ended; a re-execution begins with the one that failed."""

    def night(context: dg.OpExecutionContext) -> Night:
        from eval_pipeline.planning.evaluate import runs_made

        run_id = _run_to_make(context.instance, context.run, suite.name, suite.timezone)
        return Night(suite.name, runs_made(run_id, suite.repeats))

    after = {"after": dg.In(dg.Nothing)}

    @dg.op(name=f"{suite.job}_asks", out=dg.Out(dg.Nothing))
    def asks(context: dg.OpExecutionContext, store: StoreResource) -> None:
        ask(context, store, night(context))

    @dg.op(name=f"{suite.job}_takes_in", ins=after, out=dg.Out(dg.Nothing))
    def takes_in(context: dg.OpExecutionContext, store: StoreResource) -> None:
        _take_in(context, store, night(context))

    @dg.op(name=f"{suite.job}_computes", ins=after, out=dg.Out(dg.Nothing))
    def computes(context: dg.OpExecutionContext, store: StoreResource) -> None:
        compute(context, store, registry, night(context).run_ids)

    @dg.op(name=f"{suite.job}_compares", ins=after, out=dg.Out(dg.Nothing))
    def compares(
        context: dg.OpExecutionContext, store: StoreResource
    ) -> Iterator[dg.AssetCheckEvaluation | dg.Output[None]]:
        yield from compare(context, store, registry, night(context).run_ids)

    @dg.op(name=f"{suite.job}_publishes", ins=after, out=dg.Out(dg.Nothing))
    def publishes(context: dg.OpExecutionContext, store: StoreResource) -> None:
        _publish(context, store, registry)

    @dg.job(
        name=suite.job,
        config=QUIET,
        tags=EVALUATES,
        description=JOB_DESCRIPTION.format(suite=suite.name),
    )
    def evaluate() -> None:
        publishes(compares(computes(takes_in(asks()))))

    return evaluate


def _suite_schedule(suite: Suite, job: dg.JobDefinition, config: Config) -> dg.ScheduleDefinition | None:
    """Every night at the hour of the suite; none where the suite names no hour."""
    if suite.hour is None:
        return None
    hour, minute = map(int, suite.hour.split(":"))

    def launch(context: dg.ScheduleEvaluationContext) -> dg.RunRequest:
        run_id = _name_of_night(suite.name, suite.timezone, context.scheduled_execution_time)
        return dg.RunRequest(tags={MAKES: run_id})

    try:
        return dg.schedule(
            name=suite.job,
            cron_schedule=f"{minute} {hour} * * *",
            execution_timezone=suite.timezone,
            job=job,
            default_status=dg.DefaultScheduleStatus.STOPPED,
            description=f"Evaluates the suite {suite.name} every night. Off until it is switched on: it costs money.",
        )(launch)
    except dg.DagsterInvalidDefinitionError as error:
        raise InvalidConfig(
            f"{config.path}: [suites.{suite.name}] timezone is {suite.timezone!r}; it is the name of a time zone, "
            'such as "Europe/Berlin"'
        ) from error
