"""Text ids and texts as keys: looked up, and given out where new."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eval_pipeline.bundle.columns import only_chunk
from eval_pipeline.store.open import Connection, first_value

_LOOKUPS = {
    "dataset": ("raw.datasets", "dataset_key", "dataset_id"),
    "query": ("raw.query_ids", "query_key", "query_id"),
    "chunk": ("raw.chunk_ids", "chunk_key", "chunk_id"),
    "doc": ("raw.doc_ids", "doc_key", "doc_id"),
    "case": ("raw.case_ids", "case_key", "case_id"),
}


def keys_of(con: Connection, kind: str, ids: pa.ChunkedArray | pa.Array) -> pa.Array:
    """One key per id, null for null; ids never seen before get the next free keys."""
    encoded = pc.dictionary_encode(only_chunk(ids))
    return pc.take(_keys_of_distinct(con, kind, encoded.dictionary), encoded.indices)


def _keys_of_distinct(con: Connection, kind: str, ids: pa.Array) -> pa.Array:
    if not len(ids):
        return pa.array([], pa.int32())
    table, key, name = _LOOKUPS[kind]
    wanted = pa.table({"id": ids, "place": pa.array(np.arange(len(ids)))})
    con.register("wanted_ids", wanted)
    try:
        con.execute(
            f"insert into {table} "
            f"select (select coalesce(max({key}), 0) from {table}) + row_number() over (order by w.place), w.id "
            f"from wanted_ids w anti join {table} t on t.{name} = w.id"
        )
        return (
            con.sql(
                f"select cast(t.{key} as integer) as key from wanted_ids w join {table} t on t.{name} = w.id "
                "order by w.place"
            )
            .to_arrow_table()["key"]
            .combine_chunks()
        )
    finally:
        con.unregister("wanted_ids")


def key_of(con: Connection, kind: str, value: str) -> int:
    """The key of one id, given out when new."""
    known = find_key(con, kind, value)
    return int(keys_of(con, kind, pa.array([value], pa.string()))[0].as_py()) if known is None else known


def find_key(con: Connection, kind: str, value: str) -> int | None:
    """The key of one id, or None when it was never seen."""
    table, key, name = _LOOKUPS[kind]
    found: int | None = first_value(con, f"select {key} from {table} where {name} = ?", [value])
    return found


def add_texts(con: Connection, column: pa.ChunkedArray | pa.Array) -> None:
    """Keep the texts of a column that are not there yet."""
    if column.null_count == len(column):
        return
    con.register("new_texts", pa.table({"text": pc.unique(pc.drop_null(column))}))
    con.execute(
        "insert into raw.texts "
        "with fresh as (select md5_number(text) as text_key, text from new_texts) "
        "select f.text_key, f.text from fresh f "
        "where f.text_key not in (select t.text_key from raw.texts t semi join fresh using (text_key))"
    )
    con.unregister("new_texts")
