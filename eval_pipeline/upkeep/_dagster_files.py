"""Whether Dagster's files can be read, and whether its settings are as they should be."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from eval_pipeline.upkeep._findings import ERROR, WARNING, Finding
from eval_pipeline.upkeep.dagster_home import SETTINGS, missing_storage

FOLDERS = ("history", "schedules")


def dagster_findings(home: Path) -> Iterator[Finding]:
    """A finding for each SQLite file that is broken; the numbers are in the store and need none of them.

    Settings of one's own that name no storage are one, too: what the web interface launches is dear with them.
    """
    lines = missing_storage(home)
    if lines:
        what = "the settings name no storage: what the web interface launches takes ten times as long as it needs to"
        yield Finding(what, str(home / SETTINGS), WARNING, f"add these lines to it:\n{lines}")
    for folder in FOLDERS:
        try:
            paths = sorted((home / folder).rglob("*.db"))
        except OSError as error:
            mend = "give this user the right to read it, or name another folder in DAGSTER_HOME"
            yield Finding(
                f"Dagster's files cannot be read: {error.strerror}", str(home / folder), ERROR, mend
            )
            continue
        for path in paths:
            problem = _problem(path)
            if problem:
                yield Finding(
                    f"a file of Dagster's cannot be read: {problem}",
                    str(path),
                    ERROR,
                    f"end `eval-pipeline ui` and move {home / folder} away: Dagster begins anew, and the numbers "
                    "stay, which are in the store",
                )


def _problem(path: Path) -> str | None:
    # A log beside it says that somebody may be writing; without one nothing must be made there by looking.
    mode = "mode=ro" if path.with_name(path.name + "-wal").exists() else "mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?{mode}", uri=True)) as con:
            said = con.execute("pragma quick_check(1)").fetchone()
    except sqlite3.Error as error:
        return str(error)
    return None if said == ("ok",) else str(said[0]).splitlines()[0]
