"""Long texts, each kept once under its hash."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from eval_pipeline.store.connect import Connection


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
