"""A golden set written as a version of the labels, one table per family, each with a hash."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import pyarrow as pa

from eval_pipeline.loading._write_runs import count_runs_of_dataset
from eval_pipeline.loading.deliveries import Delivery, _add_delivery
from eval_pipeline.records import SLICES, GoldenRow
from eval_pipeline.store.frozen import GOLDEN_SET, is_emptied
from eval_pipeline.store.keys import add_texts, key_of, keys_of
from eval_pipeline.store.open import Connection, first_row, first_value
from eval_pipeline.store.project import Store

NO_LABEL = "(none)"

# table → its columns after golden_key; `…_id` columns are stored as keys.
FAMILIES: dict[str, dict[str, pa.DataType]] = {
    "queries": {"query_id": pa.string()},
    "expected_chunks": {"query_id": pa.string(), "item_no": pa.int32(), "chunk_id": pa.string()},
    "expected_chunk_counts": {"query_id": pa.string(), "n_expected": pa.int32()},
    "expected_documents": {"query_id": pa.string(), "item_no": pa.int32(), "doc_id": pa.string()},
    "expected_document_counts": {"query_id": pa.string(), "n_expected": pa.int32()},
    "expected_chunk_spans": {
        "query_id": pa.string(),
        "chunk_id": pa.string(),
        "span_no": pa.int32(),
        "doc_id": pa.string(),
        "start": pa.int64(),
        "end": pa.int64(),
    },
    "strings": {"query_id": pa.string(), "item_no": pa.int32(), "kind": pa.string(), "text": pa.string()},
    "answerable": {"query_id": pa.string(), "answerable": pa.bool_()},
    "supports": {
        "query_id": pa.string(),
        "support_no": pa.int32(),
        "rel_path": pa.string(),
        "heading_path": pa.string(),
        "snippets": pa.list_(pa.string()),
    },
    "support_groups": {"query_id": pa.string(), "group_no": pa.int32(), "support_no": pa.int32()},
    "support_recency": {"query_id": pa.string(), "support_no": pa.int32(), "recency": pa.string()},
    "multi_hop": {"query_id": pa.string()},
    "conflict_rules": {"query_id": pa.string(), "conflict_rule": pa.string()},
    "spans": {
        "query_id": pa.string(),
        "span_no": pa.int32(),
        "doc_id": pa.string(),
        "start": pa.int64(),
        "end": pa.int64(),
    },
    "slices": {"query_id": pa.string(), "slice": pa.string(), "slice_value": pa.string()},
    "grades": {"query_id": pa.string(), "chunk_id": pa.string(), "grade": pa.int32()},
    "grade_counts": {"query_id": pa.string(), "n_grades": pa.int32()},
}
# Families that came later have a hash only where a golden set has them: without them it hashes as it always did.
LATER_FAMILIES = frozenset(("grades", "grade_counts"))

Row = tuple[Any, ...]


@dataclass(frozen=True)
class GoldenDelivery:
    """A golden set as it arrived."""

    dataset: str
    path: str
    content_hash: str
    n_bytes: int
    rows: Sequence[GoldenRow]
    n_quarantined: int


def _current_golden_hash(con: Connection, dataset: str) -> str | None:
    """Content hash of the golden set that scores now; None where its texts were forgotten since."""
    found = first_row(
        con,
        "select content_hash, golden_key from ledger.golden_sets_in_force join raw.datasets using (dataset_key) "
        "where dataset_id = ?",
        [dataset],
    )
    return found[0] if found and not is_emptied(con, GOLDEN_SET, found[1]) else None


_LABELLED: Final = " union all ".join(
    f"select golden_key, query_key from labels.{table}"
    for table in ("expected_chunks", "expected_documents", "strings", "supports", "spans", "grades")
)


def _current_queries(con: Connection, dataset: str) -> dict[str, bool]:
    """The queries of the golden set in force, and whether each has labels; none if the dataset has no golden set."""
    rows = con.execute(
        f"select query_id, (golden_key, query_key) in ({_LABELLED}) "
        "from ledger.golden_sets_in_force join raw.datasets using (dataset_key) "
        "join labels.queries using (golden_key) join raw.query_ids using (query_key) where dataset_id = ?",
        [dataset],
    ).fetchall()
    return dict(rows)


def _write_golden_set(store: Store, golden: GoldenDelivery) -> None:
    """Make this golden set the one that scores; call it inside a transaction."""
    con = store.con
    dataset_key = key_of(con, "dataset", golden.dataset)
    delivery_key = _add_delivery(
        store,
        Delivery(
            part="golden_set",
            path=golden.path,
            content_hash=golden.content_hash,
            n_bytes=golden.n_bytes,
            n_rows=len(golden.rows),
            n_quarantined=golden.n_quarantined,
            dataset_id=golden.dataset,
        ),
    )
    con.execute(
        "update labels.golden_sets set superseded_at = ? where dataset_key = ? and superseded_at is null",
        [store.clock(), dataset_key],
    )
    golden_key = first_value(
        con,
        "select coalesce(max(golden_key), 0) + 1 from (select golden_key from labels.golden_sets "
        "union all select variant_key from ledger.label_chunkers)",
    )
    con.execute(
        "insert into labels.golden_sets values (?, ?, ?, ?, ?, ?, null, ?)",
        [
            *(golden_key, dataset_key, golden.content_hash, delivery_key, len(golden.rows), store.clock()),
            next((row.chunker_version for row in golden.rows if row.chunker_version), None),
        ],
    )
    _write_details(con, golden.rows, golden_key)
    for family, rows in _families_of(golden.rows).items():
        if not rows and family in LATER_FAMILIES:
            continue
        con.execute(
            "insert into labels.family_hashes values (?, ?, ?)", [golden_key, family, _family_hash(rows)]
        )
        _write_family(con, family, rows, golden_key)
    count_runs_of_dataset(con, dataset_key)


def _write_details(con: Connection, rows: Sequence[GoldenRow], golden_key: int) -> None:
    texts = pa.array([row.query for row in rows], pa.string())
    references = pa.array([row.reference for row in rows], pa.string())
    for added in (texts, references):
        add_texts(con, added)
    table = pa.table(
        {
            "golden_key": pa.array([golden_key] * len(rows), pa.int32()),
            "query_key": keys_of(con, "query", pa.array([row.query_id for row in rows], pa.string())),
            "query_no": pa.array(range(1, len(rows) + 1), pa.int32()),
            "text": texts,
            "lang": pa.array([row.lang for row in rows], pa.string()),
            "query_group": pa.array([row.group for row in rows], pa.string()),
            "reference": references,
        }
    )
    con.register("new_rows", table)
    con.execute(
        "insert into labels.query_details "
        "select golden_key, query_key, query_no, md5_number(text), lang, query_group, md5_number(reference) "
        "from new_rows"
    )
    con.unregister("new_rows")


def _write_family(con: Connection, family: str, rows: Sequence[Row], golden_key: int) -> None:
    if not rows:
        return
    columns: dict[str, pa.Array] = {"golden_key": pa.array([golden_key] * len(rows), pa.int32())}
    for place, (name, kind) in enumerate(FAMILIES[family].items()):
        values = pa.array([row[place] for row in rows], kind)
        if name.endswith("_id"):
            entity = name.removesuffix("_id")
            columns[f"{entity}_key"] = keys_of(con, entity, values)
        else:
            columns[name] = values
    con.register("new_rows", pa.table(columns))
    con.execute(f"insert into labels.{family} by name from new_rows")
    con.unregister("new_rows")


def _family_hash(rows: Sequence[Row]) -> str:
    """The same labels give the same hash, whatever the order of the queries."""
    lines = sorted(msgspec.json.encode(row) for row in rows)
    return hashlib.sha256(b"\n".join(lines)).hexdigest()


def _families_of(rows: Sequence[GoldenRow]) -> dict[str, list[Row]]:
    """The golden set taken apart into its label families."""
    found: dict[str, list[Row]] = {family: [] for family in FAMILIES}
    for row in rows:
        for family, entry in _entries(row):
            found[family].append((row.query_id, *entry))
    return found


def _entries(row: GoldenRow) -> Iterator[tuple[str, Row]]:
    yield "queries", ()
    yield from _identity_entries(row)
    yield from _passage_entries(row)
    yield "answerable", (_is_answerable(row),)
    if row.multi_hop or row.category == "multi_hop":
        yield "multi_hop", ()
    if row.category == "recency/conflict" and row.recency_conflict_rule is not None:
        yield "conflict_rules", (row.recency_conflict_rule,)
    for kind, texts in (("must_contain", row.must_contain), ("forbidden", row.forbidden)):
        for number, text in enumerate(texts or [], start=1):
            if text:
                yield "strings", (number, kind, text)
    for entry in _slices_of(row):
        yield "slices", entry


def _is_answerable(row: GoldenRow) -> bool:
    """As labelled; without a label, a query that expects no document at all should be refused."""
    return row.answerable if row.answerable is not None else row.expected_doc_ids != []


def _identity_entries(row: GoldenRow) -> Iterator[tuple[str, Row]]:
    for ids, items, counts in (
        (row.expected_chunk_ids, "expected_chunks", "expected_chunk_counts"),
        (row.expected_doc_ids, "expected_documents", "expected_document_counts"),
    ):
        if ids is None:
            continue
        distinct = list(dict.fromkeys(ids))
        yield counts, (len(distinct),)
        for number, value in enumerate(distinct, start=1):
            yield items, (number, value)
    if row.grades is not None:
        yield "grade_counts", (len(row.grades),)
        for name, grade in row.grades.items():
            yield "grades", (name, grade)


def _passage_entries(row: GoldenRow) -> Iterator[tuple[str, Row]]:
    for chunk_id, spans in (row.expected_chunk_spans or {}).items():
        for number, span in enumerate(spans, start=1):
            yield "expected_chunk_spans", (chunk_id, number, span.doc_id, span.start, span.end)
    for number, span in enumerate(row.ground_truth_spans or [], start=1):
        yield "spans", (number, span.doc_id, span.start, span.end)
    for number, support in enumerate(row.gold_supports or []):
        heading = support.heading_path
        joined = " > ".join(heading) if isinstance(heading, list) else heading
        yield "supports", (number, support.rel_path, joined, support.snippets)
        if support.recency is not None:
            yield "support_recency", (number, support.recency)
    for group_no, group in enumerate(row.required_support_groups or [], start=1):
        for support_no in sorted(set(group)):
            yield "support_groups", (group_no, support_no)


def _slices_of(row: GoldenRow) -> list[tuple[str, str]]:
    """The (slice, value) pairs a query stands in."""
    vaults = [*([row.vault] if row.vault else []), *(row.vaults or [])]
    values = (
        row.tags or [],
        [row.category or NO_LABEL],
        [row.difficulty or NO_LABEL],
        vaults,
        ["answerable" if _is_answerable(row) else "unanswerable"],
    )
    return [
        (name, value)
        for name, found in zip(SLICES, values, strict=True)
        for value in dict.fromkeys(found) or [NO_LABEL]
    ]
