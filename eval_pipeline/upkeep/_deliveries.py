"""Kept deliveries written again without what was forgotten; other rows keep their lines."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec

from eval_pipeline.bundle.files import SUFFIXES, content_hash, stem_of
from eval_pipeline.bundle.layout import ORIGINAL, ROW_PARTS
from eval_pipeline.bundle.lines import BOM, BadRow, decode_object
from eval_pipeline.bundle.parts import read_index_report
from eval_pipeline.bundle.texts import removal_for_good, rows_without_texts, run_without_texts
from eval_pipeline.computing.history import Row
from eval_pipeline.errors import InputRejected, StoreError
from eval_pipeline.formulas.polars.facts.judgements import without_words
from eval_pipeline.records import CASES
from eval_pipeline.store.durable import place_durably, remove_durably
from eval_pipeline.store.kept import KeptDelivery, KeptFile

PACKED = ".jsonl.zst"
GOLDEN = "queries"
GOLDEN_SUFFIXES = (*SUFFIXES, ".yaml", ".yml")


def forget_in_run_folder(folder: Path, citations: Collection[str]) -> list[Path]:
    """Write every part of a kept run anew; returns what could not be read and is removed: it may hold anything."""
    removed: list[Path] = []
    for path in sorted(folder.iterdir()):
        if not path.is_file():
            continue
        stem = stem_of(path)
        if path.name == "run.json":
            is_read = _rewrite_json(path, lambda document: run_without_texts(document, folder.name))
        elif path.name == "index_report.json":
            is_read = _rewrite_report(path)
        elif path.name.endswith(SUFFIXES) and stem in ROW_PARTS:
            is_read = _rewrite(path, partial(_documents, stem, citations))
        else:
            is_read = _remove(path)
        removed += [] if is_read else [path]
    return removed


def forget_in_dataset_folder(folder: Path) -> list[Path]:
    """Write the golden set, the list of cases and the archives of a kept dataset anew."""
    removed: list[Path] = []
    for path in sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        if (
            path.parent == folder
            and path.name.startswith(f"{GOLDEN}.")
            and path.name.endswith(GOLDEN_SUFFIXES)
        ):
            is_read = _rewrite(path, partial(_documents, "golden_set", ()), stem=GOLDEN)
        elif path.parent == folder and path.name.endswith(SUFFIXES) and stem_of(path) == CASES:
            is_read = _rewrite(path, partial(_documents, CASES, ()))
        elif path.parent.name == "inventories" and path.name.endswith(SUFFIXES):
            is_read = _rewrite(path, partial(_documents, "archive", ()))
        else:
            is_read = _remove(path)
        removed += [] if is_read else [path]
    return removed


def _remove(path: Path) -> bool:
    """Remove what is no part; what somebody had only begun to write is nothing to tell of."""
    remove_durably(path)
    return path.name.endswith(".part")


Documents = Iterator[tuple[int, Row]]


def _documents(part: str, ids: Collection[str], path: Path) -> Documents:
    """(line number, document) of every row that can be taken."""
    for line in rows_without_texts(part, path, removal_for_good(ids, without_words)):
        if line.record is not None:
            yield line.number, line.record


def _rewrite(path: Path, read: Callable[[Path], Documents], *, stem: str | None = None) -> bool:
    """Put a packed file in the place of this one; a process that dies leaves the old one, the new one, or both.

    Returns whether it could be read.
    """
    target = path.with_name((stem or stem_of(path)) + PACKED)
    unfinished = path.with_name(target.name + ".part")
    try:
        _write(unfinished, read(path))
    except InputRejected:
        unfinished.unlink(missing_ok=True)
        remove_durably(path)
        return False
    place_durably(unfinished, target)
    if path != target:
        remove_durably(path)
    return True


def _write(target: Path, documents: Documents) -> None:
    import zstandard

    written = 0
    compressor = zstandard.ZstdCompressor(level=1, write_checksum=True)
    with target.open("wb") as file, compressor.stream_writer(file) as packed:
        for number, document in documents:
            packed.write(b"\n" * (number - written - 1))
            packed.write(json.dumps(document).encode() + b"\n")
            written = number


def _rewrite_json(path: Path, change: Callable[[Row], Row]) -> bool:
    try:
        document = change(decode_object(path.read_bytes().removeprefix(BOM)))
    except BadRow:
        remove_durably(path)
        return False
    _replace_text(path, json.dumps(document, ensure_ascii=False))
    return True


def _rewrite_report(path: Path) -> bool:
    """An index report names documents and chunks; under keys of its own it may say anything."""
    try:
        report = read_index_report(path)
    except InputRejected:
        remove_durably(path)
        return False
    _replace_text(path, json.dumps(msgspec.to_builtins(report), ensure_ascii=False))
    return True


def _replace_text(path: Path, text: str) -> None:
    unfinished = path.with_name(path.name + ".part")
    unfinished.write_text(text, "utf-8")
    place_durably(unfinished, path)


def kept_folders_of(db: Path, *, run_ids: Collection[str], dataset: str | None) -> list[Path]:
    """The folders of these runs in every kept delivery; with a dataset its own folders, and those of all its runs."""
    found: list[Path] = []
    for stamp in (one.path for one in KeptDelivery.all(db)):
        for folder in _folders(stamp / "runs"):
            if folder.name in run_ids or (dataset is not None and _dataset_of(folder) == dataset):
                found.append(folder)
        if dataset is not None:
            found += [folder for folder in _folders(stamp / "datasets") if folder.name == dataset]
    return found


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
    for delivery, within in _by_delivery(folders).items():
        try:
            KeptDelivery(delivery).drop([_name_in(delivery, folder) for folder in within])
        except OSError as error:
            raise StoreError(
                f"{error.filename or delivery} cannot be removed: {error.strerror or error}; put that right and call "
                "`forget` again"
            ) from error


def empty_kept(folders: Collection[Path], citations: Collection[str]) -> list[Path]:
    """Write the files of these folders anew without texts; `citations` are ids and stay.

    Returns the files that were removed, because nobody can say what they held.
    """
    removed: list[Path] = []
    for delivery, within in _by_delivery(folders).items():
        manifest = KeptDelivery(delivery)
        known = manifest.files() or []
        names = [_name_in(delivery, folder) for folder in within]
        before = {one.name: one for one in known if one.is_in(names)}
        for folder in within:
            removed += _remove_damaged(delivery, folder, before)
        files = [path for folder in within for path in _files_below(folder)]
        for path in files:
            if found := describe(delivery, path):
                before.setdefault(found.name, found)
        others = [one for one in known if not one.is_in(names)]
        # Until the file is written anew nothing is known of its bytes.
        manifest.write([*others, *(replace(one, hash=None) for one in before.values())])
        for folder in within:
            if folder.parent.name == "runs":
                removed += forget_in_run_folder(folder, citations)
            else:
                removed += forget_in_dataset_folder(folder)
        manifest.write([*others, *_described_anew(delivery, within, before.values())])
    return removed


def remove_originals(db: Path, folders: Collection[Path]) -> None:
    """Remove the files of other tools that these were made from; one may lie with another run that it holds, too."""
    wanted = {original for folder in folders if (original := _made_from(folder))}
    for delivery in KeptDelivery.all(db):
        units = [
            _name_in(delivery.path, place)
            for place in sorted(delivery.path.glob(f"*/*/{ORIGINAL}"))
            if place.parent in folders or _made_from(place.parent) in wanted
        ]
        if units:
            delivery.drop(units)


def _made_from(run: Path) -> str | None:
    """What names the file that a kept run was made from: its hash, or the name of a database, which has none."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        known = json.loads((run / "run.json").read_text("utf-8"))[ORIGINAL]
        return str(known.get("sha256") or known["name"])
    return None


def _by_delivery(folders: Iterable[Path]) -> dict[Path, list[Path]]:
    found: dict[Path, list[Path]] = {}
    for folder in folders:
        found.setdefault(folder.parents[1], []).append(folder)
    return found


def _name_in(delivery: Path, path: Path) -> str:
    return path.relative_to(delivery).as_posix()


def _files_below(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _remove_damaged(delivery: Path, folder: Path, known: Mapping[str, KeptFile]) -> list[Path]:
    """What is not what was delivered must not be written anew as if it were."""
    removed = []
    for path in _files_below(folder):
        one = known.get(_name_in(delivery, path))
        if one and one.hash and one.measured(path) != one:
            remove_durably(path)
            removed.append(path)
    return removed


def _described_anew(delivery: Path, folders: Iterable[Path], before: Iterable[KeptFile]) -> list[KeptFile]:
    """What the files are now; of what is gone, because it was damaged, the entry stays and says so."""
    now = {
        (found.owner, found.part): found
        for folder in folders
        for path in _files_below(folder)
        if (found := describe(delivery, path, with_hash=True))
    }
    files = []
    for one in before:
        found = now.get((one.owner, one.part))
        files.append(replace(one, name=found.name, hash=found.hash, bytes=found.bytes) if found else one)
    return files


def describe(delivery: Path, path: Path, *, with_hash: bool = False) -> KeptFile | None:
    """A kept file as its place and its bytes say, where no manifest does; None of what is no part of a delivery."""
    name = _name_in(delivery, path)
    words = name.split("/")
    stem = stem_of(path)
    kind = None
    if words[2:3] == [ORIGINAL] and len(words) > 3:
        return _described_original(path, name, words)
    if words[0] == "runs" and len(words) == 3:
        is_part = path.name in ("run.json", "index_report.json") or (
            path.name.endswith(SUFFIXES) and stem in ROW_PARTS
        )
        kind = KeptFile(stem, name, "", None, 0, run_id=words[1]) if is_part else None
    elif words[-2:-1] == ["inventories"] and path.name.endswith(SUFFIXES):
        dataset = words[1] if words[0] == "datasets" else None
        kind = KeptFile("archive", name, "", None, 0, dataset, chunker_version=stem)
    elif words[0] == "datasets" and len(words) == 3 and path.name.startswith(f"{GOLDEN}."):
        is_golden = path.name.endswith(GOLDEN_SUFFIXES)
        kind = KeptFile("golden_set", name, "", None, 0, words[1]) if is_golden else None
    elif words[0] == "datasets" and len(words) == 3 and stem == CASES and path.name.endswith(SUFFIXES):
        kind = KeptFile(CASES, name, "", None, 0, words[1])
    if kind is None:
        return None
    with suppress(InputRejected):
        kind = replace(kind, content_hash=content_hash(path))
    return kind.measured(path) if with_hash else kind


def _described_original(path: Path, name: str, words: list[str]) -> KeptFile:
    run_id, dataset = (words[1], None) if words[0] == "runs" else (None, words[1])
    found = KeptFile(ORIGINAL, name, "", None, 0, dataset, run_id).measured(path)
    return replace(found, content_hash=found.hash or "")
