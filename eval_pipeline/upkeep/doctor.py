"""What is wrong with the installation, the settings, the store and what lies beside it."""

# It only looks: an old store stays as old as it is, and nothing is made that was not there.

from __future__ import annotations

import platform
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

from eval_pipeline.config import load_config
from eval_pipeline.errors import EvalPipelineError, NotAStore, StoreBusy, StoreError, StoreLost, StoreNewer
from eval_pipeline.settings import (
    VARIABLES,
    Settings,
    missing_places,
    product_version,
    unread_variables,
    variable,
)
from eval_pipeline.store.inspection import inspecting
from eval_pipeline.store.kept import KeptDelivery
from eval_pipeline.store.project import Project
from eval_pipeline.upkeep._dagster_files import dagster_findings
from eval_pipeline.upkeep._findings import ERROR, WARNING, Finding, kept_findings, read_everything

LIBRARIES = ("duckdb", "polars", "dagster")
HELD_LONG_SECONDS = 60.0
LEAST_FREE_BYTES = 100_000_000


@dataclass
class Diagnosis:
    """What was found, and on what it was looked for."""

    findings: list[Finding] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.findings


def diagnose(project: Project) -> Diagnosis:
    """Look at everything, whatever is found on the way."""
    settings = project.settings
    found = Diagnosis(environment=_versions())
    found.findings += _library_findings()
    found.findings += _setting_findings(project)
    found.findings += _store_findings(project, found.environment)
    found.findings += _room_findings(settings)
    found.findings += dagster_findings(settings.dagster_home)
    return found


def _versions() -> dict[str, str]:
    return {
        "eval_pipeline": product_version(),
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in LIBRARIES},
    }


def _library_findings() -> Iterator[Finding]:
    from packaging.requirements import Requirement

    for text in metadata.requires("eval-pipeline") or ():
        wanted = Requirement(text)
        if wanted.marker and not wanted.marker.evaluate({"extra": ""}):
            continue
        try:
            version = metadata.version(wanted.name)
        except metadata.PackageNotFoundError:
            version = None
        if version is None or not wanted.specifier.contains(version, prereleases=True):
            yield Finding(
                f"{wanted.name} {version or 'is not installed'}, and {wanted.name}{wanted.specifier} is needed",
                "Python's packages",
                ERROR,
                f"pip install '{wanted.name}{wanted.specifier}'",
            )


def _setting_findings(project: Project) -> Iterator[Finding]:
    settings = project.settings
    missing = missing_places(settings)
    for what in missing:
        mend = "correct the name, wait for the mount, or remove what names it: until then every other command refuses"
        yield Finding(what, "the environment", ERROR, mend)
    for name in unread_variables():
        mend = f"there is: {', '.join(VARIABLES)}"
        yield Finding(f"{name} is a setting that nobody reads", "the environment", WARNING, mend)
    readers = () if missing else (lambda: load_config(settings.config), project.definitions)
    for read in readers:
        try:
            read()
        except EvalPipelineError as error:
            yield Finding(str(error), str(settings.config), ERROR, "put right what is named there")
            break
    else:
        yield from () if missing else _judge_findings(settings)
    if not settings.inbox.is_dir():
        yield Finding(
            "there is no inbox, so the nightly schedule and the sensor new_runs take nothing in",
            str(settings.inbox),
            WARNING,
            f"mkdir -p {settings.inbox}, or name the folder of deliveries in EVAL_PIPELINE_INBOX",
        )


def _judge_findings(settings: Settings) -> Iterator[Finding]:
    """Judges that could not be asked."""
    config = load_config(settings.config)
    if not config.judges:
        return
    from eval_pipeline.evaluating.setup import missing_variables, read_judge, unset

    for judge in config.judges:
        try:
            read_judge(config, judge, unset)
        except EvalPipelineError as error:
            yield Finding(str(error), str(settings.config), ERROR, "put right what is named there")
            continue
        for name in missing_variables(config, judge, variable):
            what = f"the judge {judge} wants the variable {name}, which is not set"
            yield Finding(what, str(settings.config), WARNING, f"export {name}=… before it is asked")


def _store_findings(project: Project, environment: dict[str, str]) -> list[Finding]:
    settings = project.settings
    findings: list[Finding] = []
    is_read = False
    try:
        with inspecting(project) as store:
            if store is None:
                return [_no_store(settings)]
            environment["schema"] = f"{store.schema} of {store.known_schema}"
            environment["written_by"] = ", ".join(store.writers)
            is_current = store.schema >= store.known_schema
            findings += _held_findings(
                settings, [(one.pid, one.command, one.seconds(project.clock)) for one in store.holders]
            )
            findings += _age_findings(settings, store.schema, store.known_schema)
            findings += kept_findings(settings.db, store.con if is_current else None)
            is_read = True
            read_everything(store.con)
    except StoreError as error:
        findings.append(_unreadable(settings, error))
        if not is_read:
            findings += kept_findings(settings.db, None)
    return findings


def _no_store(settings: Settings) -> Finding:
    try:
        KeptDelivery.require_store(settings.db)
    except StoreLost as lost:
        return Finding(str(lost), str(settings.db), ERROR, "`eval-pipeline rebuild`")
    mend = "`eval-pipeline load PATH` makes one; --db or EVAL_PIPELINE_DB names another place"
    return Finding("there is no store", str(settings.db), WARNING, mend)


def _unreadable(settings: Settings, error: StoreError) -> Finding:
    mends = {
        StoreBusy: "wait until it has finished, or end it, then call `eval-pipeline doctor` again",
        NotAStore: "name another file with --db or EVAL_PIPELINE_DB",
        StoreNewer: "install the version that wrote it, or a later one",
    }
    rebuild = (
        f"`eval-pipeline rebuild --db {settings.db}`, or take the last `eval-pipeline backup` in its place"
    )
    return Finding(str(error), str(settings.db), ERROR, mends.get(type(error), rebuild))


def _held_findings(settings: Settings, held: Sequence[tuple[int, str, float]]) -> Iterator[Finding]:
    for pid, command, seconds in held:
        if seconds > HELD_LONG_SECONDS:
            what = f"process {pid} ({command}) has held the store for {seconds:.0f} s; who waits for it is refused"
            yield Finding(what, str(settings.db), WARNING, f"let it finish, or end it: kill {pid}")
    if not held:
        for left in sorted(settings.db.parent.glob(f"{settings.db.name}.*.tmp")):
            what = "a query was killed and left behind what did not fit into memory"
            yield Finding(what, str(left), WARNING, f"rm -r {left}")


def _age_findings(settings: Settings, schema: int, known_schema: int) -> Iterator[Finding]:
    if schema < known_schema:
        yield Finding(
            f"the store was written by an earlier version (schema {schema} of {known_schema})",
            str(settings.db),
            WARNING,
            "make a copy with `eval-pipeline backup TO`; the next command, as `eval-pipeline status`, brings it "
            "up to date",
        )


def _room_findings(settings: Settings) -> Iterator[Finding]:
    """The store is written whole by `compact`, `rebuild` and `backup`; Dagster writes events on its own disk."""
    size = settings.db.stat().st_size if settings.db.is_file() else 0
    for place, wanted in (
        (settings.db.parent, size + LEAST_FREE_BYTES),
        (settings.dagster_home, LEAST_FREE_BYTES),
    ):
        there = _nearest(place)
        free = shutil.disk_usage(there).free
        if free < wanted:
            what = f"{free / 1e6:,.1f} MB are free, and up to {wanted / 1e6:,.1f} MB may be needed"
            yield Finding(what, str(there), WARNING, "make room there, or move to a larger disk")


def _nearest(place: Path) -> Path:
    return next(one for one in (place, *place.parents) if one.is_dir())
