"""Rows written as packed JSON Lines, each on the line number it came from."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from eval_pipeline.bundle.lines import Line
from eval_pipeline.bundle.problems import Problem, _refuse_too_many

PACKED = ".jsonl.zst"
T = TypeVar("T")


def write_numbered(
    target: Path,
    rows: Iterable[Line[T]],
    document: Callable[[T], Mapping[str, Any]],
    refused: Callable[[Line[T]], Problem],
) -> list[Problem]:
    """Write the rows, in the order of their lines; of those that hold none the problems are returned."""
    import zstandard

    problems: list[Problem] = []
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(target.name + ".part")
    try:
        compressor = zstandard.ZstdCompressor(level=1, write_checksum=True)
        with unfinished.open("wb") as file, compressor.stream_writer(file) as packed:
            for piece in _lines(rows, document, refused, problems):
                packed.write(piece)
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)
    return problems


def _lines(
    rows: Iterable[Line[T]],
    document: Callable[[T], Mapping[str, Any]],
    refused: Callable[[Line[T]], Problem],
    problems: list[Problem],
) -> Iterator[bytes]:
    written = 0
    for line in rows:
        if line.record is None:
            problems.append(refused(line))
            _refuse_too_many(len(problems))
            continue
        try:
            text = json.dumps(document(line.record), default=str)
        except (RecursionError, ValueError) as error:
            problems.append(refused(replace(line, record=None, reason=f"cannot be written: {error}")))
            continue
        yield b"\n" * (line.number - written - 1)
        yield text.encode() + b"\n"
        written = max(written + 1, line.number)
