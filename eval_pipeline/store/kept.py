"""Deliveries as they came, kept beside the store: what everything else can be computed from again."""

# Every load leaves one bundle folder, named by its time, so that loading the folders in order rebuilds the store.

from __future__ import annotations

import datetime as dt
import io
import shutil
from pathlib import Path

from eval_pipeline.errors import StoreError


def kept_folder(db: Path) -> Path:
    """Where deliveries to this store are kept."""
    return db.with_name(db.name + ".deliveries")


def stamp_of(time: dt.datetime) -> str:
    """What the folder of a load's deliveries is called."""
    return time.strftime("%Y%m%dT%H%M%S.%f")


def kept_places(db: Path, time: dt.datetime) -> list[Path]:
    """The folders that a load at this time has kept its deliveries in, the newest first."""
    return sorted(kept_folder(db).glob(f"{stamp_of(time)}*"), reverse=True)


def keep(source: Path, target: Path, held: bytes | None = None) -> None:
    """Keep one delivered file; plain JSON Lines are packed, everything else stays byte for byte.

    `held` are the bytes of the file, where somebody has them already.
    """
    packed = source.suffix == ".jsonl"
    final = target.with_name(target.name + ".zst") if packed else target
    unfinished = final.with_name(final.name + ".part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with source.open("rb") if held is None else io.BytesIO(held) as file, unfinished.open("wb") as copy:
            if packed:
                import zstandard

                zstandard.ZstdCompressor(level=1).copy_stream(file, copy)
            else:
                shutil.copyfileobj(file, copy)
        unfinished.replace(final)
    except OSError as error:
        raise StoreError(
            f"{source} cannot be kept in {target.parent}: {error.strerror or error}; "
            "make room there, then load again"
        ) from error
