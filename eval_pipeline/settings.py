"""The only reader of the environment: where things are, for one call of the product."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Settings:
    """Paths the product works with."""

    db: Path
    inbox: Path
    reports: Path
    config: Path
    own_sql: Path | None
    dagster_home: Path


PACKAGE = Path(__file__).resolve().parent


def project_folder() -> Path | None:
    """The checkout this package runs from, or None when it was installed from a wheel."""
    root = PACKAGE.parent
    return root if (root / "pyproject.toml").is_file() and (root / "sql").is_dir() else None


def shipped_sql() -> Path:
    """The folder of shipped definitions: the checkout's own, else the copy inside the wheel."""
    project = project_folder()
    return project / "sql" if project else PACKAGE / "sql"


def load_settings(environ: Mapping[str, str] | None = None, *, db: str | Path | None = None) -> Settings:
    """Read the environment once; an explicit `db` wins over EVAL_PIPELINE_DB."""
    env = os.environ if environ is None else environ
    own_sql = Path(env.get("EVAL_PIPELINE_SQL", "sql"))
    is_own = own_sql.is_dir() and own_sql.resolve() != shipped_sql().resolve()
    project = project_folder()
    home = env.get("DAGSTER_HOME") or str((project or Path.cwd()) / "dagster_home")
    return Settings(
        db=Path(db or env.get("EVAL_PIPELINE_DB", "data/eval.duckdb")).absolute(),
        inbox=Path(env.get("EVAL_PIPELINE_INBOX", "data/inbox")).absolute(),
        reports=Path(env.get("EVAL_PIPELINE_REPORTS", "data/reports")).absolute(),
        config=Path(env.get("EVAL_PIPELINE_CONFIG", "eval-pipeline.toml")).absolute(),
        own_sql=own_sql.absolute() if is_own else None,
        dagster_home=Path(home).absolute(),
    )
