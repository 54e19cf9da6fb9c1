"""Fields that no record has and that are named almost like one: whoever wrote them meant that one."""

from __future__ import annotations

import difflib
import json
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pyarrow.parquet as pq

from eval_pipeline.bundle._yaml_items import yaml_items
from eval_pipeline.bundle.files import BLOCK_BYTES, PARQUET, line_blocks
from eval_pipeline.errors import InputRejected
from eval_pipeline.records import GoldenRow, Judgement, Record, Result

SAMPLED_ROWS = 100
CLOSE = 0.8
_RESULT_COLUMNS = frozenset(("hits_top_k", "retrieved", "retrieved_contexts", "retrieved_ids", "response"))
# What is known beside the fields of the record.
_OTHERS: dict[type[Record], frozenset[str]] = {
    Result: frozenset({"query", "question"}),
    GoldenRow: frozenset({"id", "question"}),
    Judgement: frozenset(),
}
_MEANT: dict[type[Record], dict[str, str]] = {
    Result: {
        **dict.fromkeys(("hits", "retrieved", "retrieved_ids", "top_k", "hits_top", "chunks"), "hits_top_k"),
        **dict.fromkeys(("latency", "latency_s", "elapsed_ms", "latencies"), "latency_ms"),
        **dict.fromkeys(("qid", "queryid", "question_id"), "query_id"),
        **dict.fromkeys(("response", "output"), "answer"),
    },
    GoldenRow: {
        **dict.fromkeys(
            ("expected_chunks", "expected", "expected_ids", "relevant_ids"), "expected_chunk_ids"
        ),
        **dict.fromkeys(("expected_docs", "expected_documents", "relevant_docs"), "expected_doc_ids"),
        **dict.fromkeys(("qid", "queryid", "question_id"), "query_id"),
        **dict.fromkeys(("required", "contains"), "must_contain"),
    },
    Judgement: {
        **dict.fromkeys(("response", "output", "answer", "raw_answer", "raw_response"), "raw"),
        **dict.fromkeys(("qid", "queryid", "question_id"), "query_id"),
        **dict.fromkeys(("metric", "question", "criterion"), "ask"),
        **dict.fromkeys(("request_hash", "hash"), "request"),
        **dict.fromkeys(("tokens", "token_usage"), "usage"),
        **dict.fromkeys(("cost", "cost_usd"), "usd"),
        **dict.fromkeys(("system_fingerprint",), "fingerprint"),
    },
}


def near_misses(path: Path, record: type[Record], held: bytes | None = None) -> list[str]:
    """A sentence for each such field of JSON Lines or YAML, with its rows as far as a block of lines goes."""
    if path.name.endswith(PARQUET):
        return []
    try:
        sample = {name for names in islice(_names(path, held), SAMPLED_ROWS) for name in names}
    except InputRejected:
        return []
    meant = {name: field for name in sorted(sample) if (field := _meant(name, record))}
    if not meant:
        return []
    rows = Counter(name for names in _names(path, held) for name in names & meant.keys())
    return [
        f"{path.name}: {name} ({rows[name]:,} row{'s' if rows[name] != 1 else ''}) is no field; did you mean {field}?"
        for name, field in meant.items()
    ]


def refuse_results(path: Path) -> None:
    """Raise InputRejected if the rows of a golden set have columns of results."""
    if path.name.endswith(PARQUET):
        names = set(pq.read_schema(path).names)
    else:
        names = {name for found in islice(_names(path, None), SAMPLED_ROWS) for name in found}
    if columns := sorted(names & _RESULT_COLUMNS):
        raise InputRejected(
            f"the file contains results ({', '.join(columns)}) and is no golden set: "
            "load results as a file with another name, or remove these columns"
        )


def _names(path: Path, held: bytes | None) -> Iterator[set[str]]:
    """The names of the fields of each row."""
    if path.name.endswith((".yaml", ".yml")):
        yield from (set(item.value) for item in yaml_items(path) if isinstance(item.value, dict))
        return
    block = next(line_blocks(path, held), None)
    for line in block.data[:BLOCK_BYTES].split(b"\n") if block else []:
        try:
            found = json.loads(line) if line.strip() else None
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict):
            yield set(found)


def _meant(name: str, record: type[Record]) -> str | None:
    known = record.__struct_fields__
    if name in known or name in _OTHERS[record]:
        return None
    if name.lower() in _MEANT[record]:
        return _MEANT[record][name.lower()]
    return next(iter(difflib.get_close_matches(name.lower(), known, n=1, cutoff=CLOSE)), None)
