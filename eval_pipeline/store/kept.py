"""Deliveries as they came, kept beside the store: what everything else can be computed from again."""

# Every load leaves a bundle folder, named by a number that is given out under the writer lock: loading the folders in
# the order of their names rebuilds the store. The time in the name is information, as clocks go back. Earlier versions
# named their folders by time alone, which sorts before.
#
# A file is staged while others still write, and placed under the lock before the commit that relies on it. What is
# placed is noted first, so that the next writer can ask the ledger whether the commit came: then the files stay, and
# nobody but `forget` removes them; else they are discarded.

from __future__ import annotations

import datetime as dt
import hashlib
import io
import json
import re
import shutil
import uuid
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import IO, Any

import portalocker

from eval_pipeline.errors import StoreError
from eval_pipeline.store.damage import _KEPT, _refuse_lost, is_there
from eval_pipeline.store.durable import _to_disk, place_durably
from eval_pipeline.store.open import Connection, first_row

MANIFEST = "manifest.json"
FORMAT = 1
PENDING = ".pending.json"
STAGED = ".incoming-"
LOCK = "lock"
CHUNK_BYTES = 1 << 20
SYNCS_AT_ONCE = 16
TIME = "%Y%m%dT%H%M%S.%f"
_NUMBERED = re.compile(r"d(\d{7,})\.(.+)\Z")
_TIMED = re.compile(r"\d{8}T\d{6}\.\d{6}")


def kept_folder(db: Path) -> Path:
    """Where deliveries to this store are kept."""
    return db.with_name(db.name + _KEPT)


@dataclass(frozen=True)
class KeptFile:
    """A file of a kept delivery.

    `content_hash` is what the ledger calls the delivered bytes; `hash` is of the bytes that lie here, None while
    `forget` writes the file anew.
    """

    part: str
    name: str
    content_hash: str
    hash: str | None
    bytes: int
    dataset: str | None = None
    run_id: str | None = None
    chunker_version: str | None = None
    # What the ledger called the lost bytes that this file was written for, from the store's rows.
    written_instead_of: str | None = None
    # The place of the run among those of its load; None is the first.
    place: int | None = None

    @property
    def owner(self) -> tuple[str | None, ...]:
        """What one delivery holds once: a run with all its parts, a golden set, an archive."""
        if self.run_id is not None:
            return ("run", self.run_id)
        return (self.part, self.dataset, self.chunker_version)

    @property
    def unit(self) -> str:
        """What is moved as one: the folder of a run, or the file."""
        return "/".join(self.name.split("/")[:2]) if self.run_id is not None else self.name

    def measured(self, path: Path) -> KeptFile:
        """With the bytes that lie there."""
        digest = hashlib.sha256()
        size = 0
        with path.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                digest.update(chunk)
                size += len(chunk)
        return replace(self, hash=digest.hexdigest(), bytes=size)

    def is_in(self, units: Collection[str]) -> bool:
        """Whether the file is one of these, or in one of these folders."""
        return any(self.name == unit or self.name.startswith(f"{unit}/") for unit in units)


@dataclass(frozen=True)
class KeptDelivery:
    """The folder that one load has left."""

    path: Path

    @classmethod
    def all(cls, db: Path) -> list[KeptDelivery]:
        """Every kept delivery, oldest first."""
        parent = kept_folder(db)
        if not parent.is_dir():
            return []
        # A link is followed: somebody has moved the delivery to another disk.
        found = [cls(path) for path in parent.iterdir() if path.is_dir() and not path.name.startswith(".")]
        return sorted(found, key=lambda one: (one.number, one.path.name))

    @classmethod
    def at(cls, db: Path, time: dt.datetime) -> list[KeptDelivery]:
        """What a load at this time has left, the newest first."""
        return [one for one in reversed(cls.all(db)) if one.time == time]

    @classmethod
    def next(cls, db: Path, time: dt.datetime) -> KeptDelivery:
        """The place of the next delivery."""
        # Also after one that is linked to a disk which is not there at the moment.
        names = kept_folder(db).iterdir() if kept_folder(db).is_dir() else ()
        number = max((cls(path).number for path in names), default=0) + 1
        return cls(kept_folder(db) / f"d{number:07}.{time.strftime(TIME)}")

    @staticmethod
    def require_store(db: Path) -> None:
        """Raise StoreLost if the store is missing although deliveries to it are kept."""
        if not is_there(db):
            _refuse_lost(db)

    @property
    def number(self) -> int:
        """Its place in the order of all; 0 for those of earlier versions, which had none."""
        matched = _NUMBERED.match(self.path.name)
        return int(matched[1]) if matched else 0

    @property
    def time(self) -> dt.datetime | None:
        """When it came, as its name says."""
        matched = _TIMED.search(self.path.name)
        try:
            return dt.datetime.strptime(matched[0], TIME) if matched else None
        except ValueError:
            return None

    @property
    def has_lost_manifest(self) -> bool:
        """Whether nothing says what was delivered, though it was written; while a load places its files it is not."""
        return self.number > 0 and not self.is_being_placed and not (self.path / MANIFEST).exists()

    @property
    def is_being_placed(self) -> bool:
        """Whether the commit that relies on its files is not confirmed yet."""
        placed = _pending(self.path.parent)
        return placed is not None and placed["folder"] == self.path.name

    def files(self) -> list[KeptFile] | None:
        """The files that it consists of; None where nothing says so, as in earlier versions."""
        path = self.path / MANIFEST
        try:
            document = json.loads(path.read_text("utf-8"))
            if document["hash"] != _hash_of(document["files"]):
                raise ValueError("it is not what was written")
            return [KeptFile(**one) for one in document["files"]]
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StoreError(
                f"{path} says what was delivered and cannot be read ({error}); put it right, or move it away: without "
                "it the files of this delivery cannot be checked"
            ) from error

    def write(self, files: Iterable[KeptFile]) -> None:
        """Say which files it consists of."""
        listed = [
            {name: value for name, value in asdict(one).items() if value is not None or name == "hash"}
            for one in sorted(files, key=lambda one: one.name)
        ]
        document = {
            "format": FORMAT,
            "number": self.number,
            "delivered_at": self.time.isoformat() if self.time else None,
            "files": listed,
            "hash": _hash_of(listed),
        }
        _write_json(self.path / MANIFEST, document)

    def drop(self, units: Collection[str]) -> None:
        """Take files and folders out of it; the folder of a delivery that holds nothing else goes with them."""
        known = self.files()
        if known is not None:
            self.write(one for one in known if not one.is_in(units))
        for unit in units:
            place = self.path / unit
            if place.is_dir():
                shutil.rmtree(place)
            else:
                place.unlink(missing_ok=True)
            _remove_empty(place.parent, self.path)
        if self.path.is_dir() and {one.name for one in self.path.iterdir()} <= {MANIFEST, MANIFEST + ".part"}:
            shutil.rmtree(self.path.resolve())
            if self.path.is_symlink():
                self.path.unlink()
            _to_disk(self.path.parent)


def _hash_of(document: list[dict[str, Any]]) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def _write_json(target: Path, document: dict[str, Any]) -> None:
    unfinished = target.with_name(target.name + ".part")
    unfinished.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    place_durably(unfinished, target)


class _Hashing:
    """A file that knows what was written to it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._digest, self.bytes = file, hashlib.sha256(), 0

    def write(self, data: bytes) -> int:
        self._digest.update(data)
        self.bytes += len(data)
        return self._file.write(data)

    @property
    def hash(self) -> str:
        return self._digest.hexdigest()


def _copy(source: Path, target: Path, held: bytes | None, *, packed: bool) -> tuple[str, int]:
    import zstandard

    with source.open("rb") if held is None else io.BytesIO(held) as file, target.open("wb") as opened:
        copy = _Hashing(opened)
        if packed:
            zstandard.ZstdCompressor(level=1, write_checksum=True).copy_stream(file, copy)  # type: ignore[arg-type]
        else:
            shutil.copyfileobj(file, copy)
    return copy.hash, copy.bytes


@dataclass
class Keeping:
    """What one load keeps. `staged` is a folder of its own, in which nobody else looks for anything."""

    db: Path
    now: dt.datetime
    staged: Path
    keeps: bool = True
    _number: int = 0
    _before: int = 0
    _lock: IO[str] | None = field(default=None, repr=False)

    @classmethod
    def of(cls, db: Path, now: dt.datetime) -> Keeping:
        """What a load at this time keeps."""
        return cls(db, now, kept_folder(db) / f"{STAGED}{uuid.uuid4().hex}")

    def settle(self, con: Connection) -> None:
        """Discard what killed writers have staged, or placed without a commit; call it behind the writer lock."""
        parent = kept_folder(self.db)
        if not parent.is_dir():
            return
        _settle_placed(con, self.db)
        for folder in parent.glob(f"{STAGED}*"):
            with suppress(OSError, portalocker.LockException), (folder / LOCK).open("a") as lock:
                portalocker.lock(lock, portalocker.LockFlags.EXCLUSIVE | portalocker.LockFlags.NON_BLOCKING)
                shutil.rmtree(folder)

    def begin(self, con: Connection) -> None:
        """Put right what killed writers have left, and make the folder to stage in; call it behind the writer lock."""
        self.settle(con)
        self.staged.mkdir(parents=True)
        self._lock = (self.staged / LOCK).open("a")
        portalocker.lock(self._lock, portalocker.LockFlags.EXCLUSIVE | portalocker.LockFlags.NON_BLOCKING)

    def begin_batch(self, con: Connection) -> None:
        """The first thing of a transaction that places something."""
        if self.keeps:
            _settle_placed(con, self.db)
            newest = first_row(con, "select max(delivery_key) from ledger.deliveries")
            self._before = (newest and newest[0]) or 0

    def end(self) -> None:
        """Remove what was staged and never placed."""
        if self._lock is None:
            return
        shutil.rmtree(self.staged, ignore_errors=True)
        self._lock.close()
        with suppress(OSError):
            kept_folder(self.db).rmdir()

    def keep(
        self, source: Path, file: KeptFile, held: bytes | None = None, *, as_it_is: bool = False
    ) -> KeptFile:
        """Stage one delivered file; plain JSON Lines are packed, everything else stays byte for byte.

        `held` are the bytes of the file, where somebody has them already.
        """
        packed = source.suffix == ".jsonl" and not as_it_is
        name = file.name + ".zst" if packed else file.name
        target = self.staged / name
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            found, size = _copy(source, target, held, packed=packed)
        except OSError as error:
            raise self._cannot_be_kept(source, error) from error
        return replace(file, name=name, hash=found, bytes=size)

    def keep_named(self, source: Path, file: KeptFile) -> KeptFile:
        """The same for a file that is called after the bytes that lie here."""
        kept = self.keep(source, file, as_it_is=True)
        return replace(kept, content_hash=kept.hash or "")

    def keep_staged(self, file: KeptFile) -> KeptFile:
        """The same for a file that was written where it is staged."""
        target = self.staged / file.name
        try:
            return file.measured(target)
        except OSError as error:
            raise self._cannot_be_kept(target, error) from error

    def _cannot_be_kept(self, source: Path, error: OSError) -> StoreError:
        return StoreError(
            f"{source} cannot be kept in {kept_folder(self.db)}: {error.strerror or error}; "
            "make room there, then load again"
        )

    def discard(self, name: str) -> None:
        """Remove what was staged under this name; what cannot be removed goes with everything that is staged."""
        place = self.staged / name
        with suppress(OSError):
            if place.is_dir():
                shutil.rmtree(place)
            else:
                place.unlink()

    def place(self, con: Connection, files: Sequence[KeptFile]) -> None:
        """Put staged files into their delivery; the last thing before the commit that writes their rows."""
        if not files:
            return
        try:
            self._place(con, files)
        except OSError as error:
            raise self._cannot_be_kept(self.staged / files[0].name, error) from error

    def _place(self, con: Connection, files: Sequence[KeptFile]) -> None:
        delivery, known = self._delivery_for(files)
        parent = kept_folder(self.db)
        written = first_row(
            con,
            "select delivery_key, content_hash from ledger.deliveries order by delivery_key desc limit 1",
        )
        units = sorted({one.unit for one in files})
        parent.mkdir(parents=True, exist_ok=True)
        placed = {
            "folder": delivery.path.name,
            "units": units,
            "before": self._before,
            "sign": list(written or ()),
        }
        _write_json(parent / PENDING, {"format": FORMAT, "placed": placed, "hash": _hash_of([placed])})
        _all_to_disk({self.staged / one.name for one in files} | {self.staged / unit for unit in units})
        targets = [delivery.path / unit for unit in units]
        for unit, target in zip(units, targets, strict=True):
            target.parent.mkdir(parents=True, exist_ok=True)
            (self.staged / unit).rename(target)
        _all_to_disk({up for one in targets for up in _folders_between(one, delivery.path)})
        delivery.write([*known, *files])
        _to_disk(parent)

    def confirm(self) -> None:
        """The commit came: what was placed stays."""
        if not self.keeps:
            return
        (kept_folder(self.db) / PENDING).unlink(missing_ok=True)

    def _delivery_for(self, files: Sequence[KeptFile]) -> tuple[KeptDelivery, list[KeptFile]]:
        """The folder of this load, or a new one: where another load was first since, or something comes again."""
        newest = max(KeptDelivery.all(self.db), key=lambda one: one.number, default=None)
        if newest and self._number and self._number == newest.number:
            known = newest.files() or []
            if not {one.owner for one in known} & {one.owner for one in files}:
                return newest, known
        delivery = KeptDelivery.next(self.db, self.now)
        self._number = delivery.number
        return delivery, []


def _all_to_disk(paths: Collection[Path]) -> None:
    """Force files and folders to the disk; what is asked for at once, a file system writes together."""
    with ThreadPoolExecutor(SYNCS_AT_ONCE) as pool:
        list(pool.map(_to_disk, paths))


def _folders_between(path: Path, top: Path) -> Iterator[Path]:
    """The folders above a file, below the topmost."""
    for folder in path.parents:
        if folder == top:
            return
        yield folder


def _settle_placed(con: Connection, db: Path) -> None:
    """The ledger says whether the last commit came: then what was placed for it stays, else it is discarded."""
    document = _pending(kept_folder(db))
    if document and not _is_committed(con, document):
        KeptDelivery(kept_folder(db) / document["folder"]).drop(document["units"])
    (kept_folder(db) / PENDING).unlink(missing_ok=True)


def _pending(kept: Path) -> dict[str, Any] | None:
    """What was placed last, until its commit is confirmed; what is not as it was written names nothing to remove."""
    try:
        document = json.loads((kept / PENDING).read_text("utf-8"))
        is_whole = document["hash"] == _hash_of([document["placed"]])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None
    return document["placed"] if is_whole else None


def _is_committed(con: Connection, pending: dict[str, Any]) -> bool:
    """Also where it cannot be known: a ledger that knows less than before the commit was made anew or brought back."""
    if not pending["sign"]:
        return True
    newest = first_row(con, "select max(delivery_key) from ledger.deliveries")
    if ((newest and newest[0]) or 0) < pending["before"]:
        return True
    found = first_row(
        con,
        "select 1 from ledger.deliveries where delivery_key = ? and content_hash = ?",
        pending["sign"],
    )
    return found is not None


def _remove_empty(folder: Path, top: Path) -> None:
    """Remove folders that hold nothing, up to the topmost; the one that stays is forced to the disk."""
    while folder != top and folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
        folder = folder.parent
    if folder.is_dir():
        _to_disk(folder)
