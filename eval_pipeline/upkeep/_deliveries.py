"""Kept deliveries written again without what was forgotten; other rows keep their lines."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from eval_pipeline.bundle.extractions import read_case, read_expected_case
from eval_pipeline.bundle.files import SUFFIXES, stem_of
from eval_pipeline.bundle.golden import golden_lines
from eval_pipeline.bundle.lines import BOM, BadRow, Line, decode_object
from eval_pipeline.bundle.parts import each_line, read_archive, read_index_report, read_spot_checks
from eval_pipeline.bundle.results import read_result
from eval_pipeline.bundle.texts import (
    case_without_texts,
    check_without_texts,
    chunk_without_text,
    expected_case_without_texts,
    golden_without_texts,
    result_without_texts,
    run_without_texts,
)
from eval_pipeline.errors import InputRejected, StoreError
from eval_pipeline.records import CASES, Record
from eval_pipeline.store.kept import kept_folder

PACKED = ".jsonl.zst"
GOLDEN = "queries"
GOLDEN_SUFFIXES = (*SUFFIXES, ".yaml", ".yml")


def forget_in_run_folder(folder: Path, citations: Collection[str]) -> None:
    """Write every part of a kept run anew; what cannot be read is removed, because nobody can say what it holds."""
    for path in sorted(folder.iterdir()):
        if not path.is_file():
            continue
        stem = stem_of(path)
        if path.name == "run.json":
            _rewrite_json(path, lambda document: run_without_texts(document, folder.name))
        elif path.name == "index_report.json":
            _rewrite_report(path)
        elif path.name.endswith(SUFFIXES) and stem in _RUN_PARTS:
            _rewrite(path, partial(_RUN_PARTS[stem], citations=citations))
        else:
            path.unlink()


def forget_in_dataset_folder(folder: Path) -> None:
    """Write the golden set, the list of cases and the archives of a kept dataset anew."""
    for path in sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        if (
            path.parent == folder
            and path.name.startswith(f"{GOLDEN}.")
            and path.name.endswith(GOLDEN_SUFFIXES)
        ):
            _rewrite(path, lambda source: _documents(golden_lines(source), golden_without_texts), stem=GOLDEN)
        elif path.parent == folder and path.name.endswith(SUFFIXES) and stem_of(path) == CASES:
            _rewrite(path, _expected_cases)
        elif path.parent.name == "inventories" and path.name.endswith(SUFFIXES):
            _rewrite(path, lambda source: _documents(read_archive(source), chunk_without_text))
        else:
            path.unlink()


Documents = Iterator[tuple[int, dict[str, Any]]]


def _results(path: Path, citations: Collection[str]) -> Documents:
    def read(row: dict[str, Any]) -> Record:
        return read_result(row)[0]

    return _documents(each_line(path, read), partial(result_without_texts, citations=citations))


def _cases(path: Path, citations: Collection[str]) -> Documents:
    return _documents(each_line(path, read_case), case_without_texts)


def _expected_cases(path: Path) -> Documents:
    return _documents(each_line(path, read_expected_case), expected_case_without_texts)


def _checks(path: Path, citations: Collection[str]) -> Documents:
    return _documents(read_spot_checks(path), check_without_texts)


_RUN_PARTS: dict[str, Callable[..., Documents]] = {
    "results": _results,
    "extractions": _cases,
    "judge_spot_check": _checks,
}


def _documents(lines: Iterable[Line[Any]], without_texts: Callable[[Any], Any]) -> Documents:
    """(line number, document) of every row that can be taken."""
    for line in lines:
        if line.record is not None:
            yield line.number, msgspec.to_builtins(without_texts(line.record))


def _rewrite(path: Path, read: Callable[[Path], Documents], *, stem: str | None = None) -> None:
    """Put a packed file in the place of this one; a process that dies leaves the old one, the new one, or both."""
    target = path.with_name((stem or stem_of(path)) + PACKED)
    unfinished = path.with_name(target.name + ".part")
    try:
        _write(unfinished, read(path))
    except InputRejected:
        unfinished.unlink(missing_ok=True)
        path.unlink()
        return
    unfinished.replace(target)
    if path != target:
        path.unlink()


def _write(target: Path, documents: Documents) -> None:
    import zstandard

    written = 0
    with target.open("wb") as file, zstandard.ZstdCompressor(level=1).stream_writer(file) as packed:
        for number, document in documents:
            packed.write(b"\n" * (number - written - 1))
            packed.write(json.dumps(document).encode() + b"\n")
            written = number


def _rewrite_json(path: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    try:
        document = change(decode_object(path.read_bytes().removeprefix(BOM)))
    except BadRow:
        path.unlink()
        return
    _replace_text(path, json.dumps(document, ensure_ascii=False))


def _rewrite_report(path: Path) -> None:
    """An index report names documents and chunks; under keys of its own it may say anything."""
    try:
        report = read_index_report(path)
    except InputRejected:
        path.unlink()
        return
    _replace_text(path, json.dumps(msgspec.to_builtins(report), ensure_ascii=False))


def _replace_text(path: Path, text: str) -> None:
    unfinished = path.with_name(path.name + ".part")
    unfinished.write_text(text, "utf-8")
    unfinished.replace(path)


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
