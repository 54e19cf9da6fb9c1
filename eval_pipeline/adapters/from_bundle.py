"""Files of the bundle's own form that lie outside of a bundle: results, and golden sets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from eval_pipeline.adapters._head import Head, look_at
from eval_pipeline.adapters._lines import rows_of
from eval_pipeline.adapters._mapping_guess import FIELDS, LISTS
from eval_pipeline.adapters._names import plain_name
from eval_pipeline.adapters.tool import (
    CERTAIN,
    LabelRow,
    Page,
    Piece,
    ReadOptions,
    ResultRow,
    Row,
    Seen,
    Tool,
)
from eval_pipeline.adapters.writing import LABELS
from eval_pipeline.records import GoldenRow, Result

OWN = frozenset(Result.__struct_fields__) - {"query_id", "error", "answer"}
OTHERS = {"elapsed_ms"}
RESULTS = "results of the bundle's own form"
RESULTS_AND_LABELS = f"{RESULTS}, with labels"
GOLDEN_FIELDS = frozenset((*GoldenRow.__struct_fields__, "question"))
# Columns with these names, written plainly, contain results.
RESULT_NAMES = frozenset((*LISTS, *(name for names in FIELDS.values() for name in names), "scores", "run"))
# Rows of which nothing but the query id is known are taken so where nobody else knows more.
LAST = 0.1


def recognise(head: Head) -> Seen | None:
    """Rows with a query_id and what the contract says of results, or of golden rows."""
    if head.kind not in ("lines", "parquet"):
        return None
    names = head.columns
    if "query_id" in names and names & OWN and not names & OTHERS:
        return Seen(CERTAIN, RESULTS_AND_LABELS if names & LABELS else RESULTS)
    if _is_golden(names):
        return Seen(CERTAIN, "a golden set of the bundle's own form")
    return Seen(LAST, RESULTS) if "query_id" in names else None


def _is_golden(names: set[str]) -> bool:
    has_results = any(plain_name(name) in RESULT_NAMES for name in names - GOLDEN_FIELDS)
    return bool(names & {"query_id", "id"} and names & (LABELS - {"reference"})) and not has_results


def read(path: Path, options: ReadOptions) -> Iterator[Piece]:
    """The rows as they are, and the labels in rows of results."""
    is_golden = options.golden or _is_golden(look_at(path).columns)
    for number, row in rows_of(path):
        if isinstance(row, ResultRow):
            yield row
        elif is_golden:
            yield LabelRow(_golden(row), number)
        else:
            labels = {name: row[name] for name in row.keys() & GOLDEN_FIELDS if row[name] is not None}
            if labels.keys() & LABELS:
                yield LabelRow(_golden(labels), number)
            yield ResultRow(row, number)


def _golden(row: Row) -> Row:
    """Under the first of the two names that the contract allows."""
    names = {"id": "query_id", "question": "query"}
    return {
        names.get(name, name) if names.get(name) not in row else name: value for name, value in row.items()
    }


PAGE = Page(
    title="the bundle's own form",
    file=(
        "`results.jsonl` or a golden set as docs/bundle.md describes them, also as Parquet, outside "
        "of a bundle."
    ),
    gives=("everything: the rows are taken as they are",),
    ids="`query_id`",
    notes=("A folder that is a bundle is loaded as it is.",),
    example="results.jsonl",
)
TOOL = Tool("bundle", PAGE, recognise, read)
