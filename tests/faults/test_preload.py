"""The faults themselves: each does at the chosen operation what the world does, and nothing anywhere else."""

from __future__ import annotations

import errno
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bench.faults.preload import COUNT, KINDS, environment_with

# Makes a file, writes twice with a sync between, replaces a byte, renames it, and removes another one.
PROGRAM = """
import ctypes, os, sys
library, kind, number, folder, elsewhere = sys.argv[1:]
with open(folder + "/other", "w") as file:
    file.write("other")
faults = ctypes.CDLL(library)
faults.faults_arm(int(kind), ctypes.c_long(int(number)), (folder + "/").encode(), (elsewhere + "/journal").encode())
with open(elsewhere + "/outside", "w") as file:
    file.write("not counted")
place = os.open(folder + "/new", os.O_WRONLY | os.O_CREAT)
os.write(place, b"synced")
os.fsync(place)
os.write(place, b" not synced")
os.pwrite(place, b"S", 0)
os.rename(folder + "/new", folder + "/old")
os.unlink(folder + "/other")
"""
OPERATIONS = [
    "open64 new",
    "write new",
    "fsync new",
    "write new",
    "pwrite64 new",
    "rename old",
    "unlink other",
]


@pytest.fixture
def ended(tmp_path, faults_library):
    """How the program ended, with what it said, and the files below its folder."""

    def run(kind: int, number: int) -> tuple[int, str, dict[str, str]]:
        folder, elsewhere = tmp_path / "below", tmp_path / "elsewhere"
        folder.mkdir()
        elsewhere.mkdir()
        done = subprocess.run(
            [
                sys.executable,
                "-S",
                "-c",
                PROGRAM,
                *map(str, (faults_library, kind, number, folder, elsewhere)),
            ],
            env=environment_with(faults_library),
            capture_output=True,
            text=True,
            check=False,
        )
        left = {path.name: path.read_text("utf-8") for path in sorted(folder.iterdir())}
        return done.returncode, done.stderr, left

    return run


def test_only_operations_below_the_folder_are_counted(ended, tmp_path):
    code, said, left = ended(COUNT, 0)
    assert (code, left) == (0, {"old": "Synced not synced"}), said
    counted = Path(tmp_path / "elsewhere" / "journal").read_text("utf-8").splitlines()
    # C libraries differ in the names that they give to the large-file versions of a function.
    assert [line.replace("64", "") for line in counted] == [line.replace("64", "") for line in OPERATIONS]


def test_killed_before_the_operation_happens(ended):
    code, _, left = ended(KINDS["kill"], 6)
    assert (code, left) == (-signal.SIGKILL, {"new": "Synced not synced", "other": "other"})


def test_of_a_torn_write_the_first_half_is_there(ended):
    code, _, left = ended(KINDS["torn"], 4)
    assert (code, left["new"]) == (-signal.SIGKILL, "synced not ")


def test_an_error_comes_with_the_operation_that_was_chosen(ended):
    code, said, left = ended(KINDS["eio"], 3)
    assert (code, left["new"]) == (1, "synced")
    assert f"[Errno {errno.EIO}]" in said


def test_a_full_disk_takes_no_more(ended):
    code, said, left = ended(KINDS["full"], 3)
    assert (code, left["new"]) == (1, "synced")
    assert f"[Errno {errno.ENOSPC}]" in said


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        pytest.param(2, {"new": "", "other": "other"}, id="nothing-written"),
        pytest.param(3, {"new": "", "other": "other"}, id="written-and-not-synced"),
        pytest.param(6, {"new": "synced", "other": "other"}, id="more-written-after-the-sync"),
        pytest.param(7, {"old": "synced", "other": "other"}, id="renamed-since"),
    ],
)
def test_without_power_a_file_is_what_it_was_when_it_was_last_synced(number, expected, ended):
    code, _, left = ended(KINDS["power"], number)
    assert (code, left) == (-signal.SIGKILL, expected)
