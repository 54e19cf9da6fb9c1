"""The only reader of the environment: where things are, who calls the product, and when."""

from __future__ import annotations

import datetime as dt
import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import eval_pipeline
from eval_pipeline.errors import UsageError

PACKAGE = Path(__file__).resolve().parent
CONFIG: Final = "EVAL_PIPELINE_CONFIG"
OWN_SQL: Final = "EVAL_PIPELINE_SQL"
PYTHON: Final = "EVAL_PIPELINE_PYTHON"
REFUSE: Final = "refuse"
SAFE_NAME: Final = re.compile(r"[^\w.@+-]+", re.ASCII)
# How the files begin that commands write: JSON documents, pages, comparisons and gates in Markdown and as text, JUnit.
_OWN_BEGINNING = re.compile(
    r"""\{\n  "format": \d+,\n  "\w+": """
    r"""|<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" """
    r"""|(?:\# )?[^\n]+ against [^\n]+\n|\# Gate: \w+\n"""
    r"""|<\?xml version="1.0" encoding="UTF-8"\?>\n<testsuites [^>]*>\n  <testsuite name="gate" """
)
_DATABASES = re.compile(rb"SQLite format 3\x00|.{8}DUCK", re.DOTALL)
VARIABLES: Final = tuple(
    f"EVAL_PIPELINE_{name}" for name in ("DB", "INBOX", "REPORTS", "CONFIG", "SQL", "PYTHON", "CALLS")
)


@dataclass(frozen=True)
class Settings:
    """Paths the product works with; `named` are the variables of the environment that chose one which must be there.

    `cache` is where copies of what was read lie; nothing but time is lost where it is None or cannot be written to.
    `patience` is how many seconds whoever reads waits for a writer. `calls` is where answers that were paid are kept.
    """

    db: Path
    inbox: Path
    reports: Path
    config: Path
    own_sql: Path | None
    dagster_home: Path
    named: tuple[str, ...] = field(default=(), compare=False)
    cache: Path | None = field(default=None, compare=False)
    patience: float = field(default=60.0, compare=False)
    calls: Path = field(default=Path("data/calls.sqlite"), compare=False)

    @property
    def evaluations(self) -> Path:
        """Where the bundles of runs lie that are asked for from here: beside the store."""
        return self.db.parent / "evaluations"

    @property
    def rejudged(self) -> Path:
        """Where the bundles of runs lie whose stored answers were judged again; no run is called so."""
        return self.evaluations / ".rejudged"


def product_version() -> str:
    """The version of the program that runs."""
    return str(eval_pipeline.__version__)


def utc_now() -> dt.datetime:
    """The time as the store keeps it."""
    return dt.datetime.now(dt.UTC).replace(tzinfo=None)


def local_now() -> dt.datetime:
    """The time on the clock of whoever looks at the screen."""
    return dt.datetime.now()


def who_calls() -> str:
    """The user and the machine, for the record."""
    import getpass
    import socket

    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        # In a container the user id often has no name.
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


def project_folder() -> Path | None:
    """The checkout this package runs from, or None when it was installed from a wheel."""
    root = PACKAGE.parent
    return root if (root / "pyproject.toml").is_file() and (root / "sql").is_dir() else None


def shipped_sql() -> Path:
    """The folder of shipped definitions: the checkout's own, else the copy inside the wheel."""
    project = project_folder()
    return project / "sql" if project else PACKAGE / "sql"


def own_folder(sql: Path) -> Path | None:
    """As somebody's own folder of definitions; None for that of the shipped ones, which a checkout calls the same."""
    return None if sql.resolve() == shipped_sql().resolve() else sql.absolute()


def load_settings(environ: Mapping[str, str] | None = None, *, db: str | Path | None = None) -> Settings:
    """Read the environment once; an explicit `db` wins over EVAL_PIPELINE_DB."""
    env = os.environ if environ is None else environ
    named = tuple(name for name in (CONFIG, OWN_SQL) if env.get(name))
    own_sql = Path(env.get(OWN_SQL) or "sql")
    is_there = own_sql.is_dir() or own_sql.is_symlink()
    project = project_folder()
    home = env.get("DAGSTER_HOME") or str((project or Path.cwd()) / "dagster_home")
    return Settings(
        db=Path(db or env.get("EVAL_PIPELINE_DB", "data/eval.duckdb")).absolute(),
        inbox=Path(env.get("EVAL_PIPELINE_INBOX", "data/inbox")).absolute(),
        reports=Path(env.get("EVAL_PIPELINE_REPORTS", "data/reports")).absolute(),
        config=Path(env.get(CONFIG) or "eval-pipeline.toml").absolute(),
        own_sql=own_folder(own_sql) if OWN_SQL in named or is_there else None,
        dagster_home=Path(home).absolute(),
        named=named,
        cache=_cache_folder(env),
        calls=Path(env.get("EVAL_PIPELINE_CALLS") or "data/calls.sqlite").absolute(),
    )


def _cache_folder(env: Mapping[str, str]) -> Path | None:
    """The user's own; a name that is not absolute means nothing."""
    said = Path(env.get("XDG_CACHE_HOME", ""))
    if said.is_absolute():
        return said
    home = Path(env.get("HOME", ""))
    return home / ".cache" if home.is_absolute() else None


def missing_places(settings: Settings) -> list[str]:
    """What the environment or a link names and is not there, in words: other settings would be taken in its place."""
    found = []
    if not settings.config.is_file():
        if CONFIG in settings.named:
            found.append(f"{CONFIG} names {settings.config}, and there is no such file")
        elif os.path.lexists(settings.config):
            found.append(f"{settings.config} is no file, or a link to one that is not there")
    if settings.own_sql is not None and not settings.own_sql.is_dir():
        if OWN_SQL in settings.named:
            found.append(f"{OWN_SQL} names {settings.own_sql}, and there is no such folder")
        elif settings.own_sql.is_symlink():
            found.append(f"{settings.own_sql} is a link to a folder that is not there")
    return found


def check_places(settings: Settings) -> None:
    """Raise where the settings name what is not there."""
    missing = missing_places(settings)
    if missing:
        raise UsageError(
            f"{'; '.join(missing)}: correct the name, wait for the mount, or remove what names it"
        )


def variable(name: str) -> str | None:
    """What a variable of the environment says, which eval-pipeline.toml names as ${NAME}."""
    return os.environ.get(name)


def refuses_python(environ: Mapping[str, str] | None = None) -> bool:
    """Whether formulas in Python of one's own folder are refused; nothing but the environment can say so."""
    said = (os.environ if environ is None else environ).get(PYTHON, "")
    if said not in ("", REFUSE):
        raise UsageError(f"{PYTHON} is {said!r}; it is {REFUSE!r}, or not set")
    return said == REFUSE


def unread_variables() -> list[str]:
    """What the environment says under our name and nobody reads."""
    return sorted(name for name in os.environ if name.startswith("EVAL_PIPELINE_") and name not in VARIABLES)


def default_file(settings: Settings, runs: Sequence[str], suite: str | None) -> Path:
    """Where a page goes unless somebody says otherwise; no two pages have one name."""
    if runs:
        return settings.reports / f"{'..'.join(_run_file_name(run_id) for run_id in runs)}.html"
    return settings.reports / ("suites.html" if suite is None else f"suite-{_file_name(suite)}.html")


def documents_beside(page: Path) -> Path:
    """The folder that holds the documents of a run beside its published page."""
    return page.with_suffix(".files")


def _file_name(name: str, *, is_taken: bool = False) -> str:
    """The name as it is, where a file may have it; else made safe, and unlike other names made safe."""
    safe = SAFE_NAME.sub("-", name)[:80].replace("..", "-")
    if safe == name and not is_taken:
        return safe
    return f"{safe}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _run_file_name(run_id: str) -> str:
    """Pages of suites have names of their own; a run that is called like one of them gets another."""
    return _file_name(run_id, is_taken=run_id.lower().startswith("suite"))


def check_overwriting(settings: Settings, path: Path, *, force: bool = False) -> None:
    """Raise if a document must not be written to `path`.

    Databases, the files of this store, and kept deliveries are never replaced; another file is if `force` is given or
    a command of this program wrote it.
    """
    try:
        place = path.resolve()
        is_file, is_there = place.is_file(), os.path.lexists(place)
    except (OSError, RuntimeError, ValueError) as error:
        raise UsageError(f"{path} cannot be written: {getattr(error, 'strerror', None) or error}") from error
    for owner in (settings.db.resolve(), settings.calls.resolve()):
        beside = (part.name for part in (place, *place.parents) if part.parent == owner.parent)
        if any(
            name == owner.name or name.startswith((f"{owner.name}.", f"{owner.name}-")) for name in beside
        ):
            raise UsageError(f"{path} belongs to {owner}, so nothing was written: choose another file")
    if any(folder.name.endswith(".deliveries") for folder in place.parents):
        raise UsageError(
            f"{path} is in a folder of kept deliveries, so nothing was written: choose another file"
        )
    if is_there and not is_file:
        raise UsageError(f"{path} is not a regular file, so nothing was written: choose another file")
    if not is_file:
        return
    with place.open("rb") as file:
        head = file.read(4096)
    if _DATABASES.match(head):
        raise UsageError(f"{path} is a database, so nothing was written: choose another file")
    if head and not force and not _OWN_BEGINNING.match(head.decode("utf-8", "replace")):
        raise UsageError(
            f"{path} was not written by this program, so it was left as it is: choose another file, or replace it "
            "with --force"
        )
