"""The command line as somebody calls it who works in a folder of their own."""

from __future__ import annotations

import contextlib
import datetime as dt
import io
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from eval_pipeline.cli.main import main
from tests.made_once import made_once

HOME = "dagster_home"
PROGRAM = "eval-pipeline"
DEMO = f"{PROGRAM} demo"
EXAMPLE, PRINTED, BEGAN = "example", "printed.txt", "began.txt"
COLOURS = ("FORCE_COLOR", "CLICOLOR_FORCE", "TTY_COMPATIBLE", "TTY_INTERACTIVE")


def environment_in(folder: Path) -> dict[str, str]:
    """What somebody who works in this folder has set."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("EVAL_PIPELINE", "DAGSTER")) and name not in COLOURS
    }
    return kept | {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
        "DAGSTER_HOME": str(folder / HOME),
        "LC_ALL": "C.UTF-8",
        "PYTHONUNBUFFERED": "1",
        "COLUMNS": "80",
    }


@contextlib.contextmanager
def working_in(folder: Path):
    """Within the block this process works in the folder."""
    environment = environment_in(folder)
    with pytest.MonkeyPatch.context() as here:
        for name in os.environ.keys() - environment.keys():
            here.delenv(name)
        for name, value in environment.items():
            here.setenv(name, value)
        here.chdir(folder)
        # Some commands say how they were called.
        here.setattr(sys, "argv", [shutil.which(PROGRAM) or PROGRAM])
        yield


def call(words: Sequence[str], folder: Path, *, apart: bool = False) -> tuple[int, str, str]:
    """Exit code and what is printed; done in this process, which spares the imports.

    With `apart` remarks come by themselves, else they stand among the rest as on a terminal.
    """
    out = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
    err = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) if apart else out
    with working_in(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(list(words))
        except SystemExit as left:
            texts = [stream.buffer.getvalue().decode("utf-8") for stream in (out, err)]
            return int(left.code or 0), texts[0], texts[1] if apart else ""
    raise AssertionError("the program ends with an exit code")


def call_in_shell(text: str, folder: Path) -> tuple[int, str]:
    """Exit code and everything that is printed, as somebody who works in this folder would see it."""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text],
        cwd=folder,
        env=environment_in(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )
    return done.returncode, done.stdout


def make_demo(folder: Path) -> None:
    """The example, loaded and computed, what the command printed, and when it was called."""
    (folder / EXAMPLE).mkdir(parents=True)
    (folder / BEGAN).write_text(dt.datetime.now(dt.UTC).isoformat(), "utf-8")
    code, text, _ = call(DEMO.split()[1:], folder / EXAMPLE)
    assert code == 0, text
    (folder / PRINTED).write_text(text, "utf-8")


def demo_once(factory: pytest.TempPathFactory) -> Path:
    """The folder that `make_demo` fills, once for all tests."""
    return made_once(factory, "demo", make_demo)
