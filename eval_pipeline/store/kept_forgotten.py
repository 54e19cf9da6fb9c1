"""Purging kept deliveries of what was forgotten: whole folders, or the files written anew without texts."""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Iterator
from pathlib import Path

from eval_pipeline.errors import StoreError
from eval_pipeline.ingest.forgotten_files import forget_in_dataset_folder, forget_in_run_folder
from eval_pipeline.store.kept import kept_folder


def kept_folders_of(db: Path, *, run_ids: Collection[str], dataset: str | None) -> list[Path]:
    """The folders of these runs in every kept delivery; with a dataset its own folders, and those of all its runs."""
    found: list[Path] = []
    for stamp in stamps(db):
        for folder in _folders(stamp / "runs"):
            if folder.name in run_ids or (dataset is not None and _dataset_of(folder) == dataset):
                found.append(folder)
        if dataset is not None:
            found += [folder for folder in _folders(stamp / "datasets") if folder.name == dataset]
    return found


def stamps(db: Path) -> list[Path]:
    """Every kept delivery, oldest first."""
    return list(_folders(kept_folder(db)))


def _folders(parent: Path) -> Iterator[Path]:
    if parent.is_dir():
        yield from sorted(path for path in parent.iterdir() if path.is_dir() and not path.is_symlink())


def _dataset_of(run: Path) -> str | None:
    try:
        document = json.loads((run / "run.json").read_text("utf-8"))
    except (OSError, ValueError):
        return None
    dataset = document.get("dataset") if isinstance(document, dict) else None
    return dataset if isinstance(dataset, str) else None


def remove_kept(folders: Collection[Path]) -> None:
    """Remove whole folders, and the deliveries that hold nothing else."""
    for folder in folders:
        try:
            shutil.rmtree(folder)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise StoreError(
                f"{folder} cannot be removed: {error.strerror or error}; put that right and call `forget` again"
            ) from error
        for parent in list(folder.parents)[:2]:
            if any(parent.iterdir()):
                break
            parent.rmdir()


def empty_kept(folders: Collection[Path], citations: Collection[str]) -> None:
    """Write the files of these folders anew without texts; `citations` are ids and stay."""
    for folder in folders:
        if folder.parent.name == "runs":
            forget_in_run_folder(folder, citations)
        else:
            forget_in_dataset_folder(folder)
