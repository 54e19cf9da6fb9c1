"""A copy of store and kept deliveries, taken beside running work and verified."""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from eval_pipeline.errors import StoreError, StoreMissing, UsageError
from eval_pipeline.settings import Settings
from eval_pipeline.store.durable import copy_durably
from eval_pipeline.store.inspection import inspecting
from eval_pipeline.store.kept import kept_folder
from eval_pipeline.store.project import Project
from eval_pipeline.upkeep._findings import Finding, kept_findings, read_everything


@dataclass(frozen=True)
class Backup:
    """What was copied where, and for how long nobody could write."""

    db: Path
    n_bytes: int
    files: int
    held_seconds: float
    findings: tuple[Finding, ...]


def back_up(project: Project, to: Path) -> Backup:
    """Copy into a folder that is new or empty; it is there when the copy is whole, and not before."""
    settings = project.settings
    target = to.absolute()
    _refuse_taken(settings, target)
    with _unfinished(target) as folder:
        copy = replace(project, settings=replace(settings, db=folder / settings.db.name), notify=None)
        kept, held_seconds = _copy_store(project, copy.settings.db)
        files = _copy_kept(settings.db, copy.settings.db, kept)
        findings = _verify(copy, settings.db)
        n_bytes = copy.settings.db.stat().st_size
        with suppress(FileNotFoundError):
            target.rmdir()
        folder.rename(target)
    _to_disk(target.parent)
    return Backup(target / settings.db.name, n_bytes, files, held_seconds, findings)


def _refuse_taken(settings: Settings, target: Path) -> None:
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UsageError(
            f"{target} is there and not empty: name a folder that is not there yet, or an empty one"
        )
    if kept_folder(settings.db) in (target, *target.parents):
        raise UsageError(f"{target} lies among the kept deliveries themselves: name a folder elsewhere")


@contextmanager
def _unfinished(target: Path) -> Iterator[Path]:
    """A folder beside the target, which is gone afterwards unless it took another name."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        folder = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
        folder.mkdir()
    except OSError as error:
        raise _failed(target, error) from error
    try:
        yield folder
    except OSError as error:
        raise _failed(target, error) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _failed(target: Path, error: OSError) -> StoreError:
    return StoreError(
        f"the copy in {target} could not be made: {error.strerror or error}; make room or give the right to write "
        "there, then call `eval-pipeline backup` again. Nothing was changed"
    )


def _copy_store(project: Project, copy: Path) -> tuple[list[Path], float]:
    """Copy the file, its log, and the list of what is kept at that moment; nobody writes meanwhile."""
    db = project.settings.db
    with inspecting(project) as store:
        if store is None:
            raise StoreMissing(f"there is no store at {db}: nothing to copy; --db names another place")
        began = time.monotonic()
        store.copy_to(copy)
        kept = list(_kept_files(db))
    return kept, time.monotonic() - began


def _kept_files(db: Path) -> Iterable[Path]:
    return (path for path in sorted(kept_folder(db).rglob("*")) if path.is_file() and path.suffix != ".part")


def _copy_kept(db: Path, copy: Path, kept: Iterable[Path]) -> int:
    """Kept files never change but by `forget`: what is gone by now was to go, and is missed when verified if not."""
    copied = 0
    for path in kept:
        with suppress(FileNotFoundError):
            copy_durably(path, kept_folder(copy) / path.relative_to(kept_folder(db)))
            copied += 1
    return copied


def _verify(project: Project, db: Path) -> tuple[Finding, ...]:
    """Read all of the copy; what is wrong with a delivery in it is wrong with that of the store, and said as such."""
    copy = project.settings.db
    try:
        with inspecting(project) as store:
            assert store is not None
            read_everything(store.con)
            is_current = store.schema >= store.known_schema
            found = kept_findings(copy, store.con if is_current else None)
    except StoreError as error:
        raise StoreError(
            "the store was copied and the copy cannot be read, so it was thrown away; `eval-pipeline doctor` says what "
            f"is wrong with the store: {str(error).replace(str(copy), str(db))}"
        ) from None
    return tuple(replace(one, where=one.where.replace(str(copy), str(db))) for one in found)


def _to_disk(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
