"""What is wrong with the files that Dagster keeps its events in, in words, once something failed."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

# Whose exceptions are about Dagster's files: nothing else of ours uses these.
STORING = frozenset(("sqlalchemy", "sqlite3", "alembic", "yaml"))
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# How these exceptions, and a full disk, look in the text of a step's failure.
IN_A_STEP = ("sqlite3.", "sqlalchemy.", "No space left on device")
SETTINGS = "dagster.yaml"
AWAY, ANEW = "move it away, and Dagster begins a new one", "move it away and it is made anew"


class EventsLost(Exception):
    """A step failed because Dagster could not note what it had done."""


def events_lost(failure: str) -> EventsLost | None:
    """The failure of a step, if its text is about noting events."""
    lines = [line.strip() for line in failure.splitlines() if "File " not in line]
    return next((EventsLost(line) for line in lines if any(word in line for word in IN_A_STEP)), None)


def why_untold(home: Path, error: BaseException) -> str | None:
    """Which of Dagster's files stands in the way, and the way out; None where the error is about something else."""
    chain = list(_chain(error))
    if any(SETTINGS in str(one) for one in chain if _package_of(one).startswith("dagster")):
        return f"{home / SETTINGS} has settings that Dagster does not know; correct it, or {ANEW}"
    about_files = [one for one in chain if _is_of_storage(one, home)]
    broken = None
    # Without the right to look there nothing is known to be broken.
    with suppress(PermissionError):
        broken = _broken_file(home) if about_files or _is_of_dagster(chain) else None
    if broken is not None:
        return broken
    if not about_files:
        return None
    if any(_package_of(one) == "yaml" or isinstance(one, UnicodeDecodeError) for one in about_files):
        return f"{home / SETTINGS} is not YAML; correct it, or {ANEW}"
    said = str(getattr(about_files[-1], "orig", None) or about_files[-1]).strip().splitlines()[0]
    is_full = "full" in said or any(isinstance(one, OSError) and one.errno in NO_ROOM for one in about_files)
    out = "make room there" if is_full else "make it a folder that can be written to, or name another"
    return f"{home} (DAGSTER_HOME) cannot be written: {said}; {out}"


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        yield found
        found = found.__cause__ or found.__context__


def _package_of(error: BaseException) -> str:
    return type(error).__module__.split(".")[0]


def _is_of_dagster(chain: list[BaseException]) -> bool:
    return any(_package_of(one).startswith("dagster") for one in chain)


def _is_of_storage(error: BaseException, home: Path) -> bool:
    if isinstance(error, OSError):
        return error.errno in NO_ROOM or str(error.filename or "").startswith(str(home))
    if isinstance(error, UnicodeDecodeError):
        return _is_in_settings(error, home)
    return isinstance(error, EventsLost) or _package_of(error) in STORING


def _is_in_settings(error: UnicodeDecodeError, home: Path) -> bool:
    """Whether these bytes are those of Dagster's settings: such an error names no file."""
    settings = home / SETTINGS
    return settings.is_file() and bytes(error.object) in settings.read_bytes()


def _broken_file(home: Path) -> str | None:
    """The first file that cannot be read as what it is."""
    places = [home / "history" / "runs.db", home / "schedules" / "schedules.db"]
    places += sorted((home / "history" / "runs").glob("*.db"))
    for place in places:
        fault = _fault_of(place)
        if fault:
            return f"{place} is broken ({fault}); {AWAY}"
    return None


def _fault_of(place: Path) -> str | None:
    if not place.exists():
        return None
    if not place.is_file():
        return "no file"
    if place.stat().st_size == 0:
        return "empty"
    try:
        with closing(sqlite3.connect(f"file:{place}?mode=ro", uri=True)) as con:
            ((said,),) = con.execute("pragma quick_check(1)").fetchall()
            return None if said == "ok" else str(said).splitlines()[-1]
    except sqlite3.OperationalError:
        # Busy, or without rights: not broken for all we know.
        return None
    except sqlite3.Error as error:
        return str(error)
