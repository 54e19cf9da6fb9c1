"""Relevance labels as TREC, BEIR and ranx keep them: a query, an item and a grade."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from eval_pipeline.adapters._head import Head, look_at
from eval_pipeline.adapters._lines import document_items, rows_of, text_lines
from eval_pipeline.adapters._values import as_id, graded
from eval_pipeline.adapters.tool import CERTAIN, LabelRow, Page, Piece, ReadOptions, Remark, Seen, Tool
from eval_pipeline.errors import InputRejected
from eval_pipeline.words import count

BEIR_COLUMNS = {"query-id", "corpus-id", "score"}
PARQUET_COLUMNS = {"q_id", "doc_id", "score"}
Grades = dict[str, dict[str, int]]


def recognise(head: Head) -> Seen | None:
    """Four cells a line with a whole number at the end, BEIR's three named columns, or grades by item in JSON."""
    if head.columns >= BEIR_COLUMNS:
        return Seen(CERTAIN, "qrels with BEIR's line of names")
    if head.kind == "parquet" and head.columns >= PARQUET_COLUMNS:
        return Seen(CERTAIN, "ranx qrels") if all(_is_whole(row["score"]) for row in head.rows) else None
    if head.kind == "document":
        return Seen(CERTAIN, "ranx qrels") if _is_graded(head.document) else None
    if head.kind not in ("text", "table") or not head.lines:
        return None
    rows = [line.split() for line in head.lines]
    good = [row for row in rows if len(row) == 4 and row[3].removeprefix("-").isdigit()]
    is_qrels = len(good) * 3 >= len(rows) * 2
    return Seen(CERTAIN, "TREC qrels") if is_qrels else None


def _is_graded(document: Any) -> bool:
    if not isinstance(document, dict) or not document:
        return False
    inner = [one for one in document.values() if isinstance(one, dict)]
    grades = [grade for one in inner for grade in one.values()]
    return len(inner) == len(document) and bool(grades) and all(_is_whole(grade) for grade in grades)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def read(path: Path, _options: ReadOptions) -> Iterator[Piece]:
    """A golden row per query, with the grade of every item that was judged."""
    grades, bad = _read_grades(path)
    for query, found in grades.items():
        yield LabelRow({"query_id": query, **graded(found)})
    if bad:
        yield Remark(
            f"{count(bad, 'line')} of {path.name} could not be read as labels: expected are query, "
            f"item and a whole number"
        )
    none = sum(all(grade < 1 for grade in found.values()) for found in grades.values())
    if none:
        yield Remark(
            f"{count(none, 'query', plural='queries')} without an item of a grade of at least 1: "
            f"nothing is expected there"
        )


def _read_grades(path: Path) -> tuple[Grades, int]:
    """The grades by query and item, and how many lines could not be read."""
    head = look_at(path)
    found: Grades = {}
    bad = 0
    for query, item, grade in _triples(path, head):
        whole = _whole(grade)
        if query is None or item is None or whole is None:
            bad += 1
        else:
            found.setdefault(query, {})[item] = whole
    if bad and not found:
        raise InputRejected(
            f"none of the {bad:,} lines of {path.name} holds a query, an item and a whole number"
        )
    return found, bad


def _whole(value: Any) -> int | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return int(number) if number.is_integer() else None


def _triples(path: Path, head: Head) -> Iterator[tuple[str | None, str | None, Any]]:
    if head.kind == "document":
        for _, query, items in document_items(path, ()):
            for item, grade in items.items() if isinstance(items, dict) else []:
                yield str(query), str(item), grade
    elif head.columns >= BEIR_COLUMNS or head.columns >= PARQUET_COLUMNS:
        query, item = ("query-id", "corpus-id") if head.columns >= BEIR_COLUMNS else ("q_id", "doc_id")
        for _, row in rows_of(path):
            yield (
                (as_id(row[query]), as_id(row[item]), row["score"])
                if isinstance(row, dict)
                else (None, None, None)
            )
    else:
        for _, line in text_lines(path):
            cells = line.decode("utf-8", errors="replace").split()
            yield (cells[0], cells[2], cells[3]) if len(cells) == 4 else (None, None, None)


PAGE = Page(
    title="qrels",
    file=(
        "Labels: `qid 0 docno grade` a line (trec_eval), the same as a table with BEIR's line of "
        "names, or ranx' JSON and Parquet."
    ),
    gives=(
        "a golden set with `grades`; an item with a grade of at least 1 is an expected chunk, or an expected document "
        "if hits of the load or of the dataset name it as their document",
        "grades of 0 and below: judged, not relevant",
    ),
    cannot=(
        "questions and answers",
        "refusals: a query without a relevant item is not one that should be refused",
    ),
    ids="the first column",
    notes=(
        "Replaces the golden set of the dataset; `--replace-labels` is needed if many of its queries are missing.",
    ),
    example="qrels.txt",
)
TOOL = Tool("qrels", PAGE, recognise, read)
