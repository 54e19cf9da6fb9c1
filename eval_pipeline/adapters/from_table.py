"""Somebody's own rows: a table, JSON Lines, JSON or Parquet whose fields have usual names."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

from eval_pipeline.adapters._answers import labels_in, question_in
from eval_pipeline.adapters._head import Head
from eval_pipeline.adapters._names import QUERY_IDS, plain_name
from eval_pipeline.adapters._values import NO_DOCUMENT
from eval_pipeline.adapters.mapped_rows import _id, _value, mapped_rows
from eval_pipeline.adapters.mapping import RowMapping, check_mapping
from eval_pipeline.adapters.proposal import Proposal, propose_mapping
from eval_pipeline.adapters.tables import own_rows
from eval_pipeline.adapters.tool import (
    POSSIBLE,
    LabelRow,
    Page,
    Piece,
    ReadOptions,
    Remark,
    ResultRow,
    Seen,
    Tool,
    Unused,
)
from eval_pipeline.errors import EvalPipelineError, UsageError
from eval_pipeline.words import count

SAID = ("hits_top_k", "answer", "scores", "error", "judge")
QUERIES = frozenset(QUERY_IDS) - {"docid", "key"}


def recognise(head: Head) -> Seen | None:
    """Rows in which a query id and hits or an answer are found by their names."""
    if head.kind in ("folder", "zip", "sqlite", "empty", "binary"):
        return None
    try:
        found = propose_mapping(head.path)
    except EvalPipelineError:
        return None
    if not found.rows or not found.fields.keys() & {"hits", "answer"} or not _names_queries(found):
        return None
    fields = [f"{table}.{name}" for table, names in found.fields.items() for name in names]
    return Seen(POSSIBLE, f"a table of your own, a row per {found.rows_per} ({', '.join(fields[:6])})")


def _names_queries(found: Proposal) -> bool:
    """Whether the query id is more than a column that was left: passages have ids too."""
    place = found.fields["result"]["query_id"]
    return isinstance(place, dict) or plain_name(place.rpartition(".")[2]) in QUERIES


def _mapping(path: Path) -> tuple[Proposal, RowMapping]:
    found = propose_mapping(path)
    return found, check_mapping(tomllib.loads(found.text), "the proposed mapping", data_file=path)


def read(path: Path, options: ReadOptions) -> Iterator[Piece]:
    """The rows through the mapping that `init` would propose."""
    proposal, mapping = _mapping(path)
    for remark in proposal.unsure:
        if remark != NO_DOCUMENT:  # The writer reports it for files of every tool.
            yield Remark(f"not sure: {remark}")
    rows, saying = 0, 0
    for line in mapped_rows(path, mapping, scattered=options.scattered):
        if line.record is None:
            yield ResultRow({}, line.number, reason=line.reason or "", text=line.text)
        else:
            rows += 1
            saying += any(line.record.get(name) for name in SAID)
            yield ResultRow(line.record, line.number)
    if rows and not saying and not options.golden:
        # A place that was guessed, and holds nothing anywhere, would end as a run of zeros.
        raise UsageError(
            f"{path} was taken for a table of your own, and none of its {count(rows, 'row')} has a hit, an answer, "
            "a score or an error"
        )
    yield from _labels(path, mapping, proposal.unused)


def _labels(path: Path, mapping: RowMapping, others: Sequence[str]) -> Iterator[Piece]:
    """Labels and questions in the same rows, then those of the other columns that contain no labels."""
    query = mapping.of("result")["query_id"]
    used: set[str] = set()
    for line in own_rows(path, mapping.file):
        found = labels_in(line.record)
        if line.record is not None and found:
            used.update(name for name in others if labels_in({name: line.record.get(name)}))
            query_id = _id(_value(line.record, query))
            yield LabelRow({"query_id": query_id, "query": question_in(line.record), **found}, line.number)
    for name in others:
        if name not in used:
            yield Unused(name)


PAGE = Page(
    title="a table of your own",
    file=(
        "CSV (also with `;` or tabs), JSON Lines, JSON or Parquet with a row per query, or per query and hit."
    ),
    gives=(
        "what `eval-pipeline init` finds by the names of the fields: ids, hits, answers, times, errors",
        "labels in columns `expected_chunk_ids`, `expected_doc_ids`, `reference` and the like",
    ),
    cannot=(
        (
            "fields with unusual names: `eval-pipeline init FILE` writes a mapping to be corrected, and "
            "`--mapping` uses it"
        ),
    ),
    ids="the column that looks like one; it is said which",
    notes=("What the mapping is not sure of is said with every load.",),
    example="results.csv",
)
TOOL = Tool("table", PAGE, recognise, read)
