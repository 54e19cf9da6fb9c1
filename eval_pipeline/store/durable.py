"""Files that are there after a power loss: forced to the disk, then renamed, then their folder."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def place_durably(unfinished: Path, target: Path) -> None:
    """Put a written file in its place: whoever looks afterwards finds all of it, also when the power went.

    Call it before the commit that relies on the file.
    """
    _to_disk(unfinished)
    unfinished.replace(target)
    _to_disk(target.parent)


def remove_durably(path: Path) -> None:
    """Remove a file, and have it stay removed."""
    path.unlink(missing_ok=True)
    _to_disk(path.parent)


def copy_durably(source: Path, target: Path) -> None:
    """Copy a file, and its folder where that is not there, and have the bytes stay."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with source.open("rb") as read, target.open("wb") as written:
        shutil.copyfileobj(read, written, 1 << 20)
        written.flush()
        os.fsync(written.fileno())


def _to_disk(path: Path) -> None:
    """Force a file's bytes, or the names that a folder holds, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
