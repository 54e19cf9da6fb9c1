"""A knowledge base of kebab: runs, configuration and results in SQLite, and its lines of results."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from eval_pipeline.adapters._answers import citation_of
from eval_pipeline.adapters._head import Head, look_at
from eval_pipeline.adapters._lines import rows_of
from eval_pipeline.adapters._values import as_id, as_number, as_object, as_text, listed, opened, utc_text
from eval_pipeline.adapters.tool import (
    CERTAIN,
    ChunkRow,
    Named,
    Page,
    Piece,
    ReadOptions,
    ResultRow,
    Row,
    RunSaid,
    Seen,
    Tool,
    Unused,
)
from eval_pipeline.bundle.parts import name_fault
from eval_pipeline.errors import InputRejected

TABLES = {"eval_runs", "eval_query_results"}
LINE = {"query_id", "hits_top_k"}
OWN = {"elapsed_ms", "mode"}


def recognise(head: Head) -> Seen | None:
    """A database with eval_runs and eval_query_results; or lines of results with elapsed_ms."""
    if head.kind == "sqlite":
        with suppress(sqlite3.Error), closing(_open(head.path)) as con:
            found = {name for (name,) in con.execute("SELECT name FROM sqlite_master")}
            runs = con.execute("SELECT count(*) FROM eval_runs").fetchone()[0] if found >= TABLES else 0
            return (
                Seen(CERTAIN, f"a knowledge base with {runs:,} evaluation runs") if found >= TABLES else None
            )
        return None
    is_own = head.columns >= LINE and OWN & head.columns and "latency_ms" not in head.columns
    return Seen(CERTAIN, "results of a knowledge base") if is_own else None


def _open(path: Path) -> sqlite3.Connection:
    """To be read only: the database belongs to somebody else."""
    return sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)


def read(path: Path, _options: ReadOptions) -> Iterator[Piece]:
    """A run per row of eval_runs, or one of the lines."""
    if look_at(path).kind != "sqlite":
        for number, row in rows_of(path):
            yield row if isinstance(row, ResultRow) else ResultRow(_result(row), number)
        return
    try:
        with closing(_open(path)) as con:
            yield from _of_database(con)
    except sqlite3.Error as error:
        raise InputRejected(f"{path.name} cannot be read: {error}") from error


def _of_database(con: sqlite3.Connection) -> Iterator[Piece]:
    names = [row[1] for row in con.execute("PRAGMA table_info(eval_runs)")]
    for values in con.execute("SELECT * FROM eval_runs ORDER BY created_at, run_id"):
        run = dict(zip(names, values, strict=True))
        run_id = str(run["run_id"])
        if as_text(run.get("suite")):
            yield Named(dataset=run["suite"])
        yield RunSaid({"run_id": run_id, "dataset": as_text(run.get("suite")), **_said(run)}, run_id)
        rows = con.execute(
            "SELECT query_id, result_json FROM eval_query_results WHERE run_id = ? ORDER BY rowid", [run_id]
        )
        for number, (query_id, text) in enumerate(rows, start=1):
            found = opened(text)
            if isinstance(found, dict):
                yield ResultRow(_result({"query_id": query_id, **found}), number, run=run_id)
            else:
                yield ResultRow(
                    {"query_id": query_id},
                    number,
                    run=run_id,
                    reason="result_json is no object",
                    text=str(text)[:200],
                )
    if con.execute("SELECT 1 FROM sqlite_master WHERE name = 'chunks'").fetchone():
        yield from _archives(con)


def _archives(con: sqlite3.Connection) -> Iterator[Piece]:
    """Its chunks, each of the chunker version that cut it."""
    names = [row[1] for row in con.execute("PRAGMA table_info(chunks)")]
    for values in con.execute("SELECT * FROM chunks ORDER BY rowid"):
        row = dict(zip(names, values, strict=True))
        chunker, chunk_id, doc_id = (
            as_id(row.get(name)) for name in ("chunker_version", "chunk_id", "doc_id")
        )
        if chunk_id is None or doc_id is None:
            yield Unused("a chunk without chunk_id or doc_id")
        elif chunker is None or name_fault(chunker):
            yield Unused("a chunk without a usable chunker_version")
        else:
            spans, headings = listed(row.get("source_spans_json")), listed(row.get("heading_path_json"))
            found = {
                "chunk_id": chunk_id,
                "doc_id": doc_id,
                "heading_path": " > ".join(map(str, headings)) if headings else None,
                "source_spans": [span for one in spans or () if (span := _span(one))] or None,
                "text": as_text(row.get("text")),
            }
            if spans and found["source_spans"] is None:
                yield Unused("spans of chunks without start and end")
            yield ChunkRow({name: value for name, value in found.items() if value is not None}, chunker)


def _span(one: Any) -> Row | None:
    """A span of characters; one that counts something else, such as lines, is none."""
    if isinstance(one, list) and len(one) == 2:
        one = dict(zip(("start", "end"), one, strict=True))
    if not isinstance(one, dict) or not {"start", "end"} <= one.keys() or one.get("kind") in ("line", "page"):
        return None
    return {name: one[name] for name in ("start", "end", "doc_id") if one.get(name) is not None}


def _said(run: Row) -> Row:
    snapshot = opened(run.get("config_snapshot_json"))
    config = dict(snapshot) if isinstance(snapshot, dict) else {}
    embedding, llm = config.get("embedding"), config.get("llm")
    found = {
        "chunker_version": as_text(config.get("chunker_version")),
        "embedding_model": as_text(embedding.get("model"))
        if isinstance(embedding, dict)
        else as_text(embedding),
        "llm_model": as_text(llm.get("model_id")) if isinstance(llm, dict) else as_text(llm),
        "prompt_version": as_text(config.get("prompt_template_version")),
        "index_version": as_text(config.get("index_version")),
    }
    said = {
        "suite": as_text(run.get("suite")),
        "commit_hash": as_text(run.get("commit_hash")),
        "created_at": utc_text(run.get("created_at")),
        "config": {name: value for name, value in found.items() if value},
    }
    return {name: value for name, value in said.items() if value}


def _result(row: Row) -> Row:
    found: Row = {"query_id": as_id(row.get("query_id"))}
    hits = listed(row.get("hits_top_k"))
    if hits is not None:
        found["hits_top_k"] = [_hit(one) for one in hits]
    answer = row.get("answer")
    if isinstance(answer, dict):
        found["answer"] = _answer(answer)
    if as_text(row.get("error")):
        found["error"] = row["error"]
    took = as_number(row.get("elapsed_ms"))
    return found | ({"latency_ms": {"total": took}} if took is not None else {})


def _hit(one: Any) -> Any:
    if not isinstance(one, dict):
        return one
    retrieval = as_object(one.get("retrieval"))
    found = {
        "chunk_id": as_id(one.get("chunk_id")),
        "doc_id": as_id(one.get("doc_id")),
        "rank": one.get("rank"),
        "score": as_number(retrieval.get("fusion_score")),
        "rel_path": as_text(one.get("doc_path")),
        "heading_path": one.get("heading_path"),
        "text": as_text(one.get("snippet")),
    }
    return {name: value for name, value in found.items() if value is not None}


def _answer(answer: Row) -> Row:
    cited = listed(answer.get("citations")) or []
    found = {
        "text": as_text(answer.get("answer")) or as_text(answer.get("text")),
        "grounded": answer.get("grounded"),
        "abstained": True if as_text(answer.get("refusal_reason")) else None,
        "citations": [citation_of(citation) for citation in cited] or None,
    }
    return {name: value for name, value in found.items() if value is not None}


PAGE = Page(
    title="a knowledge base",
    file=(
        "The database of a knowledge base with `eval_runs` and `eval_query_results`, or its "
        "`per_query.jsonl`."
    ),
    gives=(
        "every run under its own name, with configuration, suite, commit and time",
        "hits with paths, headings and snippets; answers, citations, refusals, errors, times",
        "the table `chunks`, as the archive of each `chunker_version` in it",
    ),
    cannot=(
        "the golden set: load its YAML or JSON Lines as a bundle",
        "spans of chunks that count lines or pages",
    ),
    ids="`query_id`",
    notes=(
        "The database is opened for reading only, but with `--write-back`.",
        "The dataset of a run is its suite, unless `--dataset` says otherwise.",
        "`load kb.sqlite --write-back` computes what is new, then writes every run's `aggregate_json` into its "
        "`eval_runs`: all in one transaction, and no other column. It asks first whether the database can be written; "
        "what cannot be computed stays as it is, and is named.",
    ),
    example="kb.sqlite",
)
TOOL = Tool("kebab", PAGE, recognise, read)
