"""What a form of export is: its page, and the files that it makes of runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eval_pipeline.store.project import Store
from eval_pipeline.store.runs import RunRow
from eval_pipeline.words import count

QUERIES = ("query", "queries")
ROWS = ("row", "rows")
HITS = ("repeated hit", "repeated hits")

# One and many of what is counted.
Noun = tuple[str, str]
# Where a file goes below the folder, and what writes it.
Files = Iterator[tuple[str, Callable[[Path], object]]]


@dataclass(frozen=True)
class Page:
    """What is said of a form: its files, what is in them, what cannot be, and how they are read again."""

    title: str
    files: Sequence[tuple[str, str]]
    carries: Sequence[str]
    cannot: Sequence[str]
    again: str | None = None
    notes: Sequence[str] = ()


@dataclass
class Export:
    """Runs to be written while the store is open, where to, and what has to be said of what was written."""

    store: Store
    runs: Sequence[RunRow]
    target: str
    remarks: dict[str, None] = field(default_factory=dict)
    _counted: dict[tuple[Noun, str], dict[str, int]] = field(default_factory=dict)

    def remark(self, words: str) -> None:
        self.remarks[words] = None

    def remark_of(self, run: RunRow, n: int, noun: Noun, words: str) -> None:
        """So many of a run; what is said of several runs is said once."""
        if n:
            self._counted.setdefault((noun, words), {})[run.run_id] = n

    def said(self) -> list[str]:
        """Every remark."""
        return [*(self._in_words(*what, runs) for what, runs in self._counted.items()), *self.remarks]

    def _in_words(self, noun: Noun, words: str, runs: dict[str, int]) -> str:
        where = next(iter(runs)) if len(runs) == 1 else f"in {count(len(runs), 'run')}"
        return f"{where}: {count(sum(runs.values()), noun[0], plural=noun[1])} {words}"

    def datasets(self) -> dict[str, list[RunRow]]:
        """The runs by the dataset that they are of."""
        found: dict[str, list[RunRow]] = {}
        for run in self.runs:
            found.setdefault(run.dataset, []).append(run)
        return found


@dataclass(frozen=True)
class Form:
    """One form; `files` is asked for one file after the other, each is written before the next is made."""

    name: str
    page: Page
    files: Callable[[Export], Files]


def as_lines(rows: Iterable[dict[str, Any]]) -> Callable[[Path], object]:
    """JSON Lines."""
    return as_text(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows)


def as_text(parts: Iterable[str]) -> Callable[[Path], object]:
    """A text in parts, as they come."""

    def write(path: Path) -> None:
        with path.open("w", encoding="utf-8", newline="") as file:
            file.writelines(parts)

    return write
