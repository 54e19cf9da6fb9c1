"""A delivered part written again from the rows that the store has of it, where its kept file is lost."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from eval_pipeline.computing.history import Row
from eval_pipeline.records import CASES, SLICES
from eval_pipeline.store.kept import KeptFile
from eval_pipeline.store.open import Connection, first_value

# (line number, row): a row stands on the line that it came from.
Rows = list[tuple[int, Row]]
NO_LABEL = "(none)"


def n_quarantined(con: Connection, file: KeptFile) -> int:
    """How many rows of these bytes were rejected: the store has not got them."""
    return int(
        first_value(
            con,
            "select max(n_quarantined) from ledger.deliveries where content_hash = ?",
            [file.content_hash],
        )
        or 0
    )


def rows_of(con: Connection, file: KeptFile) -> Rows | Row | None:
    """Lines, or the document of a part that is one; None where the store has other bytes or none."""
    if file.part == "golden_set":
        return _golden_set(con, file)
    if file.part == "archive":
        return _archive(con, file)
    if file.part == CASES:
        return _case_list(con, file)
    if file.part in _ADDED:
        return _added_rows_of(con, file)
    run_key = first_value(
        con,
        "select run_key from raw.run_parts join raw.runs using (run_key) "
        "where run_id = ? and part = ? and content_hash = ?",
        [file.run_id, file.part, file.content_hash],
    )
    if run_key is None:
        return None
    return _RUN_PARTS[file.part](con, int(run_key))


def _ask(con: Connection, sql: str, parameters: Sequence[object]) -> list[Row]:
    result = con.execute(sql, list(parameters))
    names = [column[0] for column in result.description or []]
    return [dict(zip(names, row, strict=True)) for row in result.fetchall()]


def _without_nulls(row: Row) -> Row:
    return {name: value for name, value in row.items() if value is not None}


def _take(row: Row, *names: str) -> Row:
    return _without_nulls({name: row[name] for name in names})


def _parsed(text: str | None) -> Any:
    return None if text is None else json.loads(text)


def _grouped(rows: Iterable[Row], *names: str) -> dict[Any, list[Row]]:
    found: dict[Any, list[Row]] = {}
    for row in rows:
        key = tuple(row[name] for name in names)
        found.setdefault(key[0] if len(key) == 1 else key, []).append(row)
    return found


def _run(con: Connection, run_key: int) -> Row:
    document: Row = json.loads(first_value(con, "select document from raw.runs where run_key = ?", [run_key]))
    return document


_RESULTS = """
select r.*, i.query_id, a.text as answer_text, j.text as reasoning, p.text as judge_input
from raw.results r
join raw.query_ids i using (query_key)
left join raw.texts a on a.text_key = r.answer_text_key
left join raw.texts j on j.text_key = r.judge_reasoning_key
left join raw.texts p on p.text_key = r.judge_input_key
where r.run_key = ? order by r.row_no
"""
_HITS = """
select h.*, c.chunk_id, d.doc_id, t.text
from raw.hits h join raw.chunk_ids c using (chunk_key) join raw.doc_ids d using (doc_key)
left join raw.texts t using (text_key)
where h.run_key = ? order by h.query_key, h.rank
"""
_HIT_SPANS = """
select s.query_key, s.rank, d.doc_id, s."start", s."end" from raw.hit_spans s join raw.doc_ids d using (doc_key)
where s.run_key = ? order by s.query_key, s.rank, s.span_no
"""
_CITATIONS = """
select x.query_key, c.chunk_id as citation, x.path from raw.citations x left join raw.chunk_ids c using (chunk_key)
where x.run_key = ? order by x.query_key, x.item_no
"""
_REFERENCES = """
select x.query_key, x.rel_path, x.heading_path, c.chunk_id, t.text
from raw."references" x left join raw.chunk_ids c using (chunk_key) left join raw.texts t using (text_key)
where x.run_key = ? order by x.query_key, x.item_no
"""


_SCORES = """
select s.query_key, s.name, s.value, s.label, t.text as reason, s.source, s.model, s.version
from raw.scores s left join raw.texts t on t.text_key = s.reason_key
where s.run_key = ? order by s.rowid
"""


def _results(con: Connection, run_key: int) -> Rows:
    spans = _grouped(_ask(con, _HIT_SPANS, [run_key]), "query_key", "rank")
    hits = _grouped(_ask(con, _HITS, [run_key]), "query_key")
    citations = _grouped(_ask(con, _CITATIONS, [run_key]), "query_key")
    references = _grouped(_ask(con, _REFERENCES, [run_key]), "query_key")
    scores = _grouped(_ask(con, _SCORES, [run_key]), "query_key")
    rows: Rows = []
    for row in _ask(con, _RESULTS, [run_key]):
        key = row["query_key"]
        found = _take(row, "query_id", "error", "timed_out", "folder_mode", "selected_folders")
        if key in hits:
            found["hits_top_k"] = [_hit(hit, spans.get((key, hit["rank"]))) for hit in hits[key]]
        if row["has_answer"]:
            found["answer"] = _answer(row, citations.get(key, []), references.get(key, []))
        stages = ("total", "folder_selection", "retrieval", "generation", "judge")
        latency = _without_nulls({stage: row[f"{stage}_ms"] for stage in stages})
        judge = _judge(row)
        if key in scores:
            said = ("value", "label", "reason", "source", "model", "version")
            # A score without a number was delivered, too.
            found["scores"] = {one["name"]: {"value": None} | _take(one, *said) for one in scores[key]}
        rows.append(
            (
                row["row_no"],
                found | ({"latency_ms": latency} if latency else {}) | ({"judge": judge} if judge else {}),
            )
        )
    return rows


def _hit(hit: Row, spans: list[Row] | None) -> Row:
    found = _take(hit, "chunk_id", "doc_id", "score", "rel_path", "heading_path", "token_count", "text")
    if hit["delivered_rank"] is not None:
        found["rank"] = hit["delivered_rank"]
    if spans:
        found["source_spans"] = [_take(span, "doc_id", "start", "end") for span in spans]
    return found


def _answer(row: Row, citations: list[Row], references: list[Row]) -> Row:
    found = _take(row, "grounded", "abstained") | _without_nulls({"text": row["answer_text"]})
    if row["answer_text"] is None and row["answer_is_blank"] is not None:
        # There was a text, and it was left out or forgotten.
        found |= {"text": ""} if row["answer_is_blank"] else {"text_withheld": True}
    if citations:
        found["citations"] = [_take(one, "citation", "path") for one in citations]
    if references:
        found["references"] = [
            _take(one, "rel_path", "heading_path", "chunk_id", "text") for one in references
        ]
    return found


def _judge(row: Row) -> Row:
    odd = _parsed(row["judge_scores_delivered"]) or {}
    groundedness = {
        "score": odd.get("groundedness", row["judge_groundedness"]),
        "supported_claims": row["supported_claims"],
        "unsupported_claims": row["unsupported_claims"],
    }
    correctness = {"score": odd.get("correctness", row["judge_correctness"]), "reasoning": row["reasoning"]}
    tokens = {"prompt": row["judge_prompt_tokens"], "completion": row["judge_completion_tokens"]}
    parts = {
        "groundedness": _without_nulls(groundedness),
        "correctness": _without_nulls(correctness),
        "abstention": _without_nulls({"abstained": row["judge_abstained"]}),
        "conflict": _without_nulls({"acknowledged": row["judge_acknowledged"]}),
        "tokens": _without_nulls(tokens),
        "input": row["judge_input"],
    }
    return {name: value for name, value in parts.items() if value not in (None, {})}


def _extractions(con: Connection, run_key: int) -> Rows:
    rows = _ask(
        con,
        "select x.*, i.case_id from raw.extraction_cases x join raw.case_ids i using (case_key) where run_key = ? "
        "order by row_no",
        [run_key],
    )
    documents = ("ground_truth", "extracted", "discrepancies")
    return [
        (
            row["row_no"],
            _take(row, "case_id", "error", "total_gt_fields")
            | _without_nulls({name: _parsed(row[name]) for name in documents}),
        )
        for row in rows
    ]


def _spot_checks(con: Connection, run_key: int) -> Rows:
    rows = _ask(
        con,
        "select x.*, i.query_id from raw.spot_checks x left join raw.query_ids i using (query_key) where run_key = ? "
        "order by check_no",
        [run_key],
    )
    found: Rows = []
    for row in rows:
        odd = _parsed(row["judge_scores_delivered"]) or {}
        verdicts = {
            side: _without_nulls(
                {"score": odd.get(side, row[f"{side}_score"]), "binary": row[f"{side}_binary"]}
            )
            for side in ("first", "second")
        }
        found.append(
            (row["check_no"], _take(row, "query_id", "kind") | {k: v for k, v in verdicts.items() if v})
        )
    return found


def _added_rows_of(con: Connection, file: KeptFile) -> Rows | None:
    """Lines of one of several deliveries that stand side by side; None where a later one took the place of some."""
    found = con.execute(
        "select r.run_key, d.delivery_key, d.n_rows from ledger.deliveries d join raw.runs r using (run_id) "
        "where run_id = ? and part = ? and content_hash = ? and superseded_at is null",
        [file.run_id, file.part, file.content_hash],
    ).fetchone()
    if found is None:
        return None
    run_key, delivery_key, n_rows = found
    rows = _ADDED[file.part](con, run_key, delivery_key)
    return rows if len(rows) == n_rows else None


_JUDGEMENTS = """
select j.*, i.query_id from raw.judgements j join raw.query_ids i using (query_key)
where run_key = ? and delivery_key = ? order by row_no
"""
_OF_JUDGEMENTS = (
    *("query_id", "ask", "judge", "request", "status", "reason", "model", "version", "temperature"),
    *("fingerprint", "prompt_version", "season", "usd", "latency_ms", "attempts", "from_cache", "repeat"),
    "purpose",
)


def _judgements(con: Connection, run_key: int, delivery_key: int) -> Rows:
    rows = _ask(con, _JUDGEMENTS, [run_key, delivery_key])
    return [
        (
            row["row_no"],
            _take(row, *_OF_JUDGEMENTS)
            | _without_nulls(
                {
                    "raw": row["raw_answer"],
                    "usage": _without_nulls(
                        {side: row[f"{side}_tokens"] for side in ("prompt", "completion")}
                    )
                    or None,
                }
            ),
        )
        for row in rows
    ]


def _requests(con: Connection, run_key: int, delivery_key: int) -> Rows:
    rows = _ask(
        con,
        "select q.row_no, q.request, t.text from raw.judge_requests q left join raw.texts t on t.text_key = q.body_key "
        "where run_key = ? and delivery_key = ? order by row_no",
        [run_key, delivery_key],
    )
    return [
        (row["row_no"], _without_nulls({"request": row["request"], "body": _parsed(row["text"])}))
        for row in rows
    ]


_ADDED = {"judgements": _judgements, "requests": _requests}


def _index_report(con: Connection, run_key: int) -> Row:
    (report,) = _ask(con, "from raw.index_reports where run_key = ?", [run_key])
    documents = _ask(
        con,
        "select doc_id, doc_type, n_chunks from raw.indexed_documents left join raw.doc_ids using (doc_key) "
        "where run_key = ? order by document_no",
        [run_key],
    )
    chunks = _ask(
        con,
        "select doc_id, chunk_id, status, skip_reason, tokens from raw.indexed_chunks "
        "left join raw.doc_ids using (doc_key) left join raw.chunk_ids using (chunk_key) where run_key = ? "
        "order by chunk_no",
        [run_key],
    )
    return _take(report, "chunker_version", "embedding_model", "index_version") | {
        "docs": [_without_nulls(one) for one in documents],
        "chunks": [_without_nulls(one) for one in chunks],
    }


_RUN_PARTS: dict[str, Callable[[Connection, int], Rows | Row]] = {
    "run": _run,
    "results": _results,
    "extractions": _extractions,
    "judge_spot_check": _spot_checks,
    "index_report": _index_report,
}


def _case_list(con: Connection, file: KeptFile) -> Rows | None:
    """The cases by name: of what is in them the store has no more than a hash."""
    rows = con.execute(
        "select e.case_no, i.case_id from ledger.expected_cases e join raw.case_ids i using (case_key) "
        "join raw.datasets d using (dataset_key) where d.dataset_id = $dataset and exists (from ledger.deliveries v "
        "where v.part = $part and v.dataset_id = $dataset and v.content_hash = $hash and v.superseded_at is null) "
        "order by e.case_no",
        {"dataset": file.dataset, "part": CASES, "hash": file.content_hash},
    ).fetchall()
    return [(number, {"case_id": case_id}) for number, (_, case_id) in enumerate(rows, start=1)] or None


def _archive(con: Connection, file: KeptFile) -> Rows | None:
    key = first_value(
        con,
        "select max(archive_key) from raw.archives left join raw.datasets using (dataset_key) "
        "where dataset_id is not distinct from ? and chunker_version = ? and content_hash = ?",
        [file.dataset, file.chunker_version, file.content_hash],
    )
    if key is None:
        return None
    spans = _grouped(
        _ask(
            con,
            'select chunk_key, doc_id, "start", "end" from raw.archive_spans join raw.doc_ids using (doc_key) '
            "where archive_key = ? order by chunk_key, span_no",
            [key],
        ),
        "chunk_key",
    )
    rows = _ask(
        con,
        "select x.*, chunk_id, doc_id, text from raw.archive_chunks x join raw.chunk_ids using (chunk_key) "
        "join raw.doc_ids using (doc_key) left join raw.texts using (text_key) where archive_key = ? order by x.rowid",
        [key],
    )
    found: Rows = []
    for number, row in enumerate(rows, start=1):
        chunk = _take(row, "chunk_id", "doc_id", "rel_path", "heading_path", "token_count", "text")
        own = spans.get(row["chunk_key"])
        if own:
            chunk["source_spans"] = [_take(span, "doc_id", "start", "end") for span in own]
        found.append((number, chunk))
    return found


def _golden_set(con: Connection, file: KeptFile) -> Rows | None:
    key = first_value(
        con,
        "select max(golden_key) from labels.golden_sets join raw.datasets using (dataset_key) "
        "where dataset_id = ? and content_hash = ?",
        [file.dataset, file.content_hash],
    )
    if key is None:
        return None
    labels = {table: _labels(con, table, key) for table in _LABELS}
    rows = _ask(
        con,
        'select query_key, query_id, query_no, t.text as query, lang, query_group as "group", m.text as reference, '
        "g.chunker_version from labels.query_details q join labels.golden_sets g using (golden_key) "
        "join raw.query_ids using (query_key) left join raw.texts t using (text_key) "
        "left join raw.texts m on m.text_key = q.reference_key where golden_key = ? order by query_no",
        [key],
    )
    return [
        (
            row["query_no"],
            _take(row, "query_id", "query", "lang", "group", "reference", "chunker_version")
            | _query_labels({table: found.get(row["query_key"], []) for table, found in labels.items()}),
        )
        for row in rows
    ]


# What the rows of a query are ordered by, and the ids that stand in them as keys.
_LABELS = {
    "expected_chunks": ("item_no", "chunk"),
    "expected_chunk_counts": ("n_expected", ""),
    "expected_documents": ("item_no", "doc"),
    "expected_document_counts": ("n_expected", ""),
    "expected_chunk_spans": ("span_no", "chunk doc"),
    "strings": ("item_no", ""),
    "answerable": ("answerable", ""),
    "supports": ("support_no", ""),
    "support_groups": ("group_no, support_no", ""),
    "support_recency": ("support_no", ""),
    "multi_hop": ("golden_key", ""),
    "conflict_rules": ("conflict_rule", ""),
    "spans": ("span_no", "doc"),
    "slices": ("x.rowid", ""),
    "grades": ("x.rowid", "chunk"),
    "grade_counts": ("n_grades", ""),
}


def _labels(con: Connection, table: str, key: int) -> dict[int, list[Row]]:
    order, ids = _LABELS[table]
    joins = "".join(f" join raw.{name}_ids using ({name}_key)" for name in ids.split())
    listed = "".join(f", {name}_id" for name in ids.split())
    rows = _ask(
        con, f"select x.*{listed} from labels.{table} x{joins} where x.golden_key = ? order by {order}", [key]
    )
    return _grouped(rows, "query_key")


def _query_labels(labels: Mapping[str, list[Row]]) -> Row:
    found: Row = {}
    for name, items, counts in (
        ("chunk", "expected_chunks", "expected_chunk_counts"),
        ("doc", "expected_documents", "expected_document_counts"),
    ):
        if labels[counts]:
            found[f"expected_{name}_ids"] = [one[f"{name}_id"] for one in labels[items]]
    if labels["grade_counts"]:
        found["grades"] = {one["chunk_id"]: one["grade"] for one in labels["grades"]}
    spans = _grouped(labels["expected_chunk_spans"], "chunk_id")
    for kind in ("must_contain", "forbidden"):
        found[kind] = [one["text"] for one in labels["strings"] if one["kind"] == kind] or None
    found |= {
        "expected_chunk_spans": {
            chunk: [_take(one, "doc_id", "start", "end") for one in rows] for chunk, rows in spans.items()
        }
        or None,
        "answerable": labels["answerable"][0]["answerable"],
        "gold_supports": _supports(labels) or None,
        "required_support_groups": _support_groups(labels["support_groups"]) or None,
        "multi_hop": True if labels["multi_hop"] else None,
        "recency_conflict_rule": next((one["conflict_rule"] for one in labels["conflict_rules"]), None),
        "ground_truth_spans": [_take(one, "doc_id", "start", "end") for one in labels["spans"]] or None,
    }
    return _without_nulls(found | _slices(labels["slices"]))


def _supports(labels: Mapping[str, list[Row]]) -> list[Row]:
    recency = {one["support_no"]: one["recency"] for one in labels["support_recency"]}
    return [
        _take(one, "rel_path", "heading_path", "snippets")
        | _without_nulls({"recency": recency.get(one["support_no"])})
        for one in labels["supports"]
    ]


def _support_groups(rows: list[Row]) -> list[list[int]]:
    groups: list[list[int]] = [[] for _ in range(max((row["group_no"] for row in rows), default=0))]
    for row in rows:
        groups[row["group_no"] - 1].append(row["support_no"])
    return groups


def _slices(rows: list[Row]) -> Row:
    values = {name: [row["slice_value"] for row in rows if row["slice"] == name] for name in SLICES}
    one = {name: next(iter(values[name]), NO_LABEL) for name in ("category", "difficulty")}
    return {
        **{name: value for name, value in one.items() if value != NO_LABEL},
        **{
            many: values[name]
            for name, many in (("tag", "tags"), ("vault", "vaults"))
            if values[name] and values[name] != [NO_LABEL]
        },
    }
