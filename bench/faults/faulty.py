"""A command under the library, as a copy of the prepared process calls it."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

from bench.faults import preload
from eval_pipeline.errors import EvalPipelineError
from tests.prepared import command_line
from tests.projects import project_of

# Computing without Dagster, whose files are most of what `run` touches.
COMPUTE = "compute"


def call(library: str, kind: int, number: int, folder: str, journal: str | None, *words: str) -> None:
    """The command, with a fault of this kind at the operation with this number below the folder."""
    preload.arm(library, kind, number, folder, journal)
    code = 1
    try:
        undisturbed(*words)
        code = 0
    except SystemExit as left:
        code = int(left.code or 0)
    finally:
        # What was said to be done before the power went has to be there afterwards.
        if kind == preload.KINDS["power"]:
            preload.die(library)
        preload.disarm(library)
    sys.exit(code)


def undisturbed(*words: str) -> None:
    """A command of the command line, or computing."""
    if words[0] != COMPUTE:
        command_line(*words)
        return
    from eval_pipeline.computing.measure import measure
    from eval_pipeline.formulas.registry import load_registry
    from eval_pipeline.settings import load_settings

    settings = load_settings(db=Path(words[-1]))
    try:
        measure(project_of(settings, load_registry(settings)))
    except EvalPipelineError as error:
        # As the command line does.
        print(f"error: {error}")
        sys.exit(error.exit_code)


def read_from_outside(db: str, times: int) -> None:
    """Another program that reads the store's file, briefly and without asking for the lock."""
    import duckdb

    for _ in range(times):
        # A writer keeps it out, which is its own affair.
        with suppress(duckdb.IOException), duckdb.connect(db, read_only=True) as con:
            con.execute("select count(*) from raw.hits").fetchall()
