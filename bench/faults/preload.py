"""The library that injects faults below libc, compiled on first use."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).with_name("preload.c")
COUNT = 1
KINDS = {"kill": 2, "torn": 3, "full": 4, "eio": 5, "power": 6}


class NoCompiler(Exception):
    """There is nothing to compile with, or it does not compile here; the text says why."""


def compile_into(folder: Path) -> Path:
    """The library, in this folder."""
    if not sys.platform.startswith("linux"):
        raise NoCompiler(f"faults are injected by a library for Linux, and this is {sys.platform}")
    compiler = shutil.which("cc")
    if compiler is None:
        raise NoCompiler("there is no C compiler: cc is not on the PATH")
    folder.mkdir(parents=True, exist_ok=True)
    library, unfinished = folder / "preload.so", folder / f"preload-{os.getpid()}.so"
    call = [compiler, "-O1", "-shared", "-fPIC", "-o", str(unfinished), str(SOURCE), "-ldl", "-lpthread"]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoCompiler(f"{SOURCE.name} does not compile: {done.stderr.strip()[:500]}")
    unfinished.replace(library)
    return library


def environment_with(library: Path) -> dict[str, str]:
    """The environment of a process in whose copies faults can be injected."""
    return {**os.environ, "LD_PRELOAD": str(library)}


@cache
def _loaded(library: str) -> ctypes.CDLL:
    loaded = ctypes.CDLL(library)
    loaded.faults_arm.argtypes = [ctypes.c_int, ctypes.c_long, ctypes.c_char_p, ctypes.c_char_p]
    loaded.faults_disarm.restype = ctypes.c_long
    return loaded


def arm(library: str, kind: int, number: int, folder: str, journal: str | None) -> None:
    """From now on operations below this folder are counted."""
    _loaded(library).faults_arm(kind, number, folder.encode(), journal.encode() if journal else None)


def disarm(library: str) -> int:
    """How many operations there were."""
    return int(_loaded(library).faults_disarm())


def die(library: str) -> None:
    """Die now, as at a chosen operation."""
    _loaded(library).faults_die()
