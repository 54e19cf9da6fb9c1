"""The one interface of all adapters: a tool recognises its files and reads them piece by piece."""

# An adapter is one module `from_<tool>` with a `TOOL`. It refuses no row for what stands in it: the reader of bundles
# does that once for all. It raises InputRejected for a file that is none of its tool's after all.

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from eval_pipeline.adapters._head import Head

Row = dict[str, Any]
Missing = Literal["drop", "empty"]
Order = Literal["file", "trec_eval"]
CERTAIN, LIKELY, POSSIBLE = 1.0, 0.7, 0.3


@dataclass(frozen=True)
class Seen:
    """What a file was taken for, in words, and how surely: CERTAIN, LIKELY or POSSIBLE."""

    sure: float
    words: str


@dataclass(frozen=True)
class ReadOptions:
    """How a file is read. `scattered`: rows that belong together need not stand together."""

    order: Order = "file"
    chunker: str | None = None
    golden: bool = False
    scattered: bool = False


@dataclass(frozen=True)
class ResultRow:
    """What one run did with one query; without a `query_id` in the row its question names it.

    `run` tells the runs of a file apart, `epoch` the repeats of one. `number` is the row's line, or its place. A row
    that cannot be read has a `reason` instead.
    """

    row: Row
    number: int | None = None
    run: str = ""
    epoch: int = 1
    question: str | None = None
    reason: str | None = None
    text: str = ""


@dataclass(frozen=True)
class LabelRow:
    """What a file says about a query, whatever was retrieved: a golden row, named like a result."""

    row: Row
    number: int | None = None


@dataclass(frozen=True)
class ChunkRow:
    """A line of a chunk archive: of the chunker version that the file names, else of the one that somebody says."""

    row: Row
    chunker: str | None = None


@dataclass(frozen=True)
class RunSaid:
    """What run.json is to say of a run beside its name."""

    document: Row
    run: str = ""


@dataclass(frozen=True)
class Unused:
    """A field whose values could not be used."""

    name: str


@dataclass(frozen=True)
class Remark:
    """What somebody should know who reads the numbers."""

    words: str


@dataclass(frozen=True)
class Named:
    """What the file calls its only run, and its dataset."""

    run_id: str | None = None
    dataset: str | None = None


Piece: TypeAlias = ResultRow | LabelRow | ChunkRow | RunSaid | Unused | Remark | Named


@dataclass(frozen=True)
class Page:
    """What the documentation says of a tool. `file`: which file of the tool, and how to get it."""

    title: str
    file: str
    gives: tuple[str, ...]
    cannot: tuple[str, ...] = ()
    ids: str = ""
    notes: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    example: str = "results.json"


@dataclass(frozen=True)
class Tool:
    """One tool's files."""

    name: str
    page: Page
    recognise: Callable[[Head], Seen | None]
    read: Callable[[Path, ReadOptions], Iterator[Piece]] = field(repr=False)
