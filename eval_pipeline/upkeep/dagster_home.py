"""The settings in Dagster's home: made where there are none, renewed where nobody changed them."""

from __future__ import annotations

import hashlib
import shutil
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from eval_pipeline.errors import UsageError
from eval_pipeline.settings import PACKAGE, Settings, project_folder

SETTINGS = "dagster.yaml"
# What was shipped before, by its SHA-256: a file of these is nobody's own.
SHIPPED_BEFORE = frozenset(
    (
        "e64c9c486c390b9805dd36131054e54926399bd1ea2ef4df141243413b7f4c27",
        "ff6f0a28ee8b9ce547e145fc68aa116be892bed78bb0d48205b6c7554557e1d6",
        "611c34cdc3fbc12b86db6474cc4dc18164a835425348d0eb80a893c5b2cc40b0",
    )
)
STORAGES = ("storage", "run_storage", "event_log_storage", "schedule_storage", "instance_class")


def _shipped_settings() -> Path:
    """The settings that a new home begins with."""
    return (project_folder() or PACKAGE) / "dagster_home" / SETTINGS


def prepare_home(settings: Settings) -> None:
    """Make the folder that Dagster keeps its events in, with the settings that are shipped now."""
    wanted = settings.dagster_home / SETTINGS
    if not wanted.exists() or _was_shipped_before(wanted):
        settings.dagster_home.mkdir(parents=True, exist_ok=True)
        fresh = wanted.with_name(f".{SETTINGS}.new")
        shutil.copyfile(_shipped_settings(), fresh)
        fresh.replace(wanted)
    _check_database(wanted)


def _was_shipped_before(wanted: Path) -> bool:
    return wanted.is_file() and hashlib.sha256(wanted.read_bytes()).hexdigest() in SHIPPED_BEFORE


def _check_database(wanted: Path) -> None:
    """Refuse settings that name PostgreSQL where what speaks to it is not installed."""
    said = _said_in(wanted)
    if "postgres" not in str([said.get(name) for name in STORAGES]):
        return
    too_new = metadata.version("sqlalchemy").split(".")[:2] >= ["2", "1"]
    missing = [name for name in ("dagster-postgres", "psycopg2") if not find_spec(name.replace("-", "_"))]
    if missing or too_new:
        what = (
            f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed"
            if missing
            else (f"SQLAlchemy {metadata.version('sqlalchemy')} is too new for dagster-postgres")
        )
        raise UsageError(
            f"{wanted} keeps Dagster's events in PostgreSQL, and {what}: pip install 'eval-pipeline[postgres]', or "
            "take `storage` out of it"
        )


def _said_in(wanted: Path) -> dict[str, Any]:
    """The settings; empty where they cannot be read, which is said when they are used."""
    import yaml

    try:
        said = yaml.safe_load(wanted.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return {}
    return said if isinstance(said, dict) else {}


def missing_storage(home: Path) -> str | None:
    """The lines that somebody's own settings lack; None where there are none, or a storage was chosen."""
    import yaml

    said = _said_in(home / SETTINGS)
    if not said or any(name in said for name in STORAGES):
        return None
    shipped = yaml.safe_load(_shipped_settings().read_text("utf-8"))
    return str(yaml.safe_dump({"storage": shipped["storage"]}, sort_keys=False)).rstrip()
