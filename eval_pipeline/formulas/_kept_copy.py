"""Definitions as they were read last: a copy in the user's cache folder, by a hash of their files."""

# Reading sixty files, their headers and the syntax of their Python costs a command a tenth of a second; reading the
# copy costs a thirtieth of that. It holds plain values alone, which run nowhere, and is believed only where nobody
# else can have written it: the statements in it were held against the rules when they were read.

from __future__ import annotations

import hashlib
import os
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import yaml

from eval_pipeline.config import Config
from eval_pipeline.formulas._definition_text import MOST_BYTES
from eval_pipeline.formulas.definition import Definition, Helper
from eval_pipeline.settings import product_version

FOLDER = ("eval-pipeline", "definitions")
# Projects, branches and versions that are worked with in turn.
MOST_COPIES = 8
_CHECKSUM_BYTES = hashlib.sha256().digest_size
_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH


@dataclass(frozen=True)
class Kept:
    """What a registry has but its configuration; the grain of a statement takes longest to find out."""

    definitions: Mapping[str, Definition]
    helpers: Mapping[str, Helper]
    grains: Mapping[str, tuple[str, ...]]


def key_of(places: Iterable[Path], config: Config) -> str | None:
    """A hash of every byte that is looked at and of what looks at it; None where a place holds no plain file."""
    found = hashlib.sha256(repr((product_version(), sys.version, yaml.__version__, config)).encode())
    try:
        for place in places:
            found.update(b"in " + os.fsencode(place) + b"\0")
            for path in _files(place):
                data = _bytes_of(path)
                found.update(b"%b\0%d\0" % (os.fsencode(path), len(data)))
                found.update(data)
    except OSError:
        return None
    return found.hexdigest()


def _files(place: Path) -> Iterator[str]:
    if not place.is_dir():
        yield from [str(place)] if os.path.lexists(place) else []
        return
    with os.scandir(place) as entries:
        names = [entry.path for entry in entries if entry.name.endswith((".sql", ".py"))]
    yield from sorted(names)


def _bytes_of(path: str) -> bytes:
    """A pipe is opened without waiting for who fills it."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(f"{path}: not a file")
        data = os.read(handle, MOST_BYTES + 1)
        while len(data) <= MOST_BYTES and (more := os.read(handle, MOST_BYTES)):
            data += more
        return data
    finally:
        os.close(handle)


def find_kept(cache: Path | None, key: str | None) -> Kept | None:
    """The copy under this key, or None where there is none that can be believed."""
    if cache is None or key is None:
        return None
    folder = cache.joinpath(*FOLDER)
    try:
        if not _is_ours_alone(folder.stat()):
            return None
        with open(folder / key, "rb", opener=_open_plain) as file:
            if not _is_ours_alone(os.fstat(file.fileno())):
                return None
            data = file.read()
        return _decoded(data, key)
    except (OSError, msgspec.MsgspecError, RecursionError):
        return None


def _open_plain(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _is_ours_alone(found: os.stat_result) -> bool:
    return found.st_uid == os.geteuid() and not found.st_mode & _OTHERS_MAY_WRITE


def keep(cache: Path | None, key: str | None, definitions: Mapping[str, Definition], helpers: Any) -> None:
    """Write the copy; where that cannot be, the next command reads the files as this one did."""
    if cache is None or key is None:
        return
    kept = Kept(definitions, helpers, {name: one.grain for name, one in definitions.items()})
    with suppress(OSError, msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError):
        data = _encoded(kept, key)
        # A header may hold what comes back as something else: 1 as 1.0, or a date as its text.
        if repr(_decoded(data, key)) == repr(kept):
            _write(cache.joinpath(*FOLDER), key, data)


def _write(folder: Path, key: str, data: bytes) -> None:
    above = next(place for place in folder.parents if place.exists())
    if above.stat().st_uid != os.geteuid():
        # Somebody who works in another's name leaves no folder there that its owner cannot write to.
        return
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=folder, suffix=".new", delete=False) as file:
        file.write(data)
    Path(file.name).replace(folder / key)
    newest = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns, reverse=True)
    for path in newest[MOST_COPIES:]:
        path.unlink()


def _encoded(kept: Kept, key: str) -> bytes:
    data = msgspec.msgpack.encode(kept, enc_hook=str)
    return _checksum(data, key) + data


def _decoded(data: bytes, key: str) -> Kept | None:
    content = data[_CHECKSUM_BYTES:]
    if data[:_CHECKSUM_BYTES] != _checksum(content, key):
        return None
    found = msgspec.msgpack.decode(content, type=Kept, dec_hook=lambda kind, value: kind(value))
    for name, grain in found.grains.items():
        vars(found.definitions[name])["grain"] = grain
    return found


def _checksum(data: bytes, key: str) -> bytes:
    return hashlib.sha256(key.encode() + data).digest()
