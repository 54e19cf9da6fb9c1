"""Chunk archives: every state is kept, because citations resolve against all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from eval_pipeline.loading.deliveries import Delivery, _add_delivery
from eval_pipeline.records import ArchiveChunk
from eval_pipeline.store.frozen import ARCHIVE, is_emptied
from eval_pipeline.store.keys import add_texts, find_key, key_of, keys_of
from eval_pipeline.store.open import Connection, first_row, first_value
from eval_pipeline.store.project import Store


@dataclass(frozen=True)
class ArchiveDelivery:
    """The chunks of one chunker version as they arrived."""

    dataset: str | None
    chunker_version: str
    path: str
    content_hash: str
    n_bytes: int
    chunks: Sequence[ArchiveChunk]
    n_quarantined: int


def current_archive_hash(con: Connection, dataset: str | None, chunker_version: str) -> str | None:
    """Content hash of the newest state of an archive; None where its texts were forgotten since."""
    dataset_key = find_key(con, "dataset", dataset) if dataset else None
    if dataset and dataset_key is None:
        return None
    found = first_row(
        con,
        "select content_hash, archive_key from raw.archives where dataset_key is not distinct from ? "
        "and chunker_version = ? and superseded_at is null",
        [dataset_key, chunker_version],
    )
    return found[0] if found and not is_emptied(con, ARCHIVE, found[1]) else None


def write_archive(store: Store, archive: ArchiveDelivery) -> None:
    """Add a state of an archive and make it the newest; call it inside a transaction."""
    con = store.con
    dataset_key = key_of(con, "dataset", archive.dataset) if archive.dataset else None
    delivery_key = _add_delivery(
        store,
        Delivery(
            part="archive",
            path=archive.path,
            content_hash=archive.content_hash,
            n_bytes=archive.n_bytes,
            n_rows=len(archive.chunks),
            n_quarantined=archive.n_quarantined,
            dataset_id=archive.dataset,
            chunker_version=archive.chunker_version,
        ),
    )
    con.execute(
        "update raw.archives set superseded_at = ? where dataset_key is not distinct from ? "
        "and chunker_version = ? and superseded_at is null",
        [store.clock(), dataset_key, archive.chunker_version],
    )
    archive_key = first_value(con, "select coalesce(max(archive_key), 0) + 1 from raw.archives")
    con.execute(
        "insert into raw.archives values (?, ?, ?, ?, ?, ?, ?, null)",
        [
            archive_key,
            dataset_key,
            archive.chunker_version,
            archive.content_hash,
            delivery_key,
            len(archive.chunks),
            store.clock(),
        ],
    )
    _write_chunks(con, archive.chunks, archive_key)
    _write_spans(con, archive.chunks, archive_key)


def _write_chunks(con: Connection, chunks: Sequence[ArchiveChunk], archive_key: int) -> None:
    texts = pa.array([chunk.text for chunk in chunks], pa.string())
    add_texts(con, texts)
    table = pa.table(
        {
            "archive_key": pa.array([archive_key] * len(chunks), pa.int32()),
            "chunk_key": keys_of(con, "chunk", pa.array([chunk.chunk_id for chunk in chunks], pa.string())),
            "doc_key": keys_of(con, "doc", pa.array([chunk.doc_id for chunk in chunks], pa.string())),
            "rel_path": pa.array([chunk.rel_path for chunk in chunks], pa.string()),
            "heading_path": pa.array([chunk.heading_path for chunk in chunks], pa.string()),
            "token_count": pa.array([chunk.token_count for chunk in chunks], pa.float64()),
            "text": texts,
        }
    )
    con.register("new_rows", table)
    con.execute(
        "insert into raw.archive_chunks select archive_key, chunk_key, doc_key, rel_path, heading_path, "
        "token_count, md5_number(text) from new_rows"
    )
    con.unregister("new_rows")


def _write_spans(con: Connection, chunks: Sequence[ArchiveChunk], archive_key: int) -> None:
    spans = [
        (chunk.chunk_id, number, span.doc_id or chunk.doc_id, span.start, span.end)
        for chunk in chunks
        for number, span in enumerate(chunk.source_spans or [], start=1)
    ]
    if not spans:
        return
    chunk_ids, numbers, doc_ids, starts, ends = zip(*spans, strict=True)
    table = pa.table(
        {
            "archive_key": pa.array([archive_key] * len(spans), pa.int32()),
            "chunk_key": keys_of(con, "chunk", pa.array(chunk_ids, pa.string())),
            "span_no": pa.array(numbers, pa.int32()),
            "doc_key": keys_of(con, "doc", pa.array(doc_ids, pa.string())),
            "start": pa.array(starts, pa.int64()),
            "end": pa.array(ends, pa.int64()),
        }
    )
    con.register("new_rows", table)
    con.execute("insert into raw.archive_spans select * from new_rows")
    con.unregister("new_rows")
