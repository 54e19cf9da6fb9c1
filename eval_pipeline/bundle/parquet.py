"""A Parquet file's rows in batches: as the columns of a record, or as lines of JSON."""

# Columns that fit are taken as they are; whatever does not goes through the careful reader of lines, so that a row of a
# Parquet file is refused for the same reasons as a line.

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eval_pipeline.errors import InputRejected

SAMPLED_ROWS = 64
MOST_ROWS = 20_000
BATCH_BYTES = 16 << 20


@dataclass(frozen=True)
class RowBatch:
    """Some rows of a file; `first_row` counts from 1."""

    rows: pa.RecordBatch
    first_row: int


def row_batches(path: Path, held: bytes | None = None, *, most_bytes: int) -> Iterator[RowBatch]:
    """The file's rows, in batches of about as many bytes as a block of lines has."""
    import pyarrow.parquet as pq

    first = 1
    try:
        with pq.ParquetFile(path if held is None else pa.BufferReader(held)) as file:
            _check_size(path, file.metadata, most_bytes=most_bytes)
            for batch in file.iter_batches(batch_size=_rows_per_batch(file)):
                yield RowBatch(batch, first)
                first += batch.num_rows
    except (pa.ArrowException, OSError, ValueError, NotImplementedError) as error:
        raise InputRejected(f"{path.name} cannot be read as Parquet: {error}") from error


def _check_size(path: Path, metadata: Any, *, most_bytes: int) -> None:
    total = sum(metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups))
    if total > most_bytes:
        raise InputRejected(f"{path.name} unpacks to more than {most_bytes >> 30} GiB; deliver it in parts")


def _rows_per_batch(file: Any) -> int:
    """As the first rows are, so the others are taken to be."""
    sample = next(file.iter_batches(batch_size=SAMPLED_ROWS), None)
    if sample is None or not sample.num_rows:
        return MOST_ROWS
    fitting = BATCH_BYTES * int(sample.num_rows) // max(1, int(sample.nbytes))
    return max(1, min(MOST_ROWS, fitting))


def _json_lines(batch: RowBatch) -> bytes:
    """The rows as lines of JSON: one line per row, whatever stands in it."""
    rows = as_python(batch.rows)
    return "".join(json.dumps(row, default=_plain) + "\n" for row in rows).encode()


def as_python(rows: pa.RecordBatch) -> list[dict[str, Any]]:
    """The rows as Python values; text that is no UTF-8 keeps its odd bytes as halves of surrogate pairs."""
    try:
        found: list[dict[str, Any]] = rows.to_pylist(maps_as_pydicts="lossy")
    except UnicodeDecodeError:
        columns = [column.cast(_texts_as_bytes(column.type)) for column in rows.columns]
        as_bytes = pa.RecordBatch.from_arrays(columns, names=rows.schema.names)
        found = [_decoded(row) for row in as_bytes.to_pylist(maps_as_pydicts="lossy")]
    return found


def _texts_as_bytes(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_string(kind):
        return pa.binary()
    if pa.types.is_large_string(kind):
        return pa.large_binary()
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(one.name, _texts_as_bytes(one.type)) for one in kind])
    if pa.types.is_list(kind):
        return pa.list_(_texts_as_bytes(kind.value_type))
    return kind


def _decoded(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", errors="surrogateescape")
    if isinstance(value, dict):
        return {_decoded(key): _decoded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_decoded(item) for item in value]
    return value


def _plain(value: Any) -> Any:
    """What JSON has no kind of its own for: bytes as text, exact decimals as numbers, times as text."""
    if isinstance(value, bytes):
        return value.decode("utf-8", errors="surrogateescape")
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return str(value)


def _columns_as(rows: pa.RecordBatch, schema: pa.Schema) -> pa.Table | None:
    """The rows in these columns, or None when they cannot be taken without a second look at each."""
    try:
        if not all(_is_plain(column) for column in rows.columns):
            return None
        names = rows.schema.names
        if len(set(names)) < len(names):
            return None
        found = [
            _as_type(rows.column(names.index(one.name)), one.type)
            if one.name in names
            else pa.nulls(rows.num_rows, one.type)
            for one in schema
        ]
    except (_Doubt, pa.ArrowException):
        return None
    return pa.table(found, schema=schema)


class _Doubt(Exception):
    """These columns need a second look."""


def _is_plain(array: pa.Array) -> bool:
    """Whether everything inside, in columns that nobody asked for too, is storable text or of a kind that JSON has."""
    kind = array.type
    if pa.types.is_struct(kind):
        return all(_is_plain(array.field(number)) for number in range(kind.num_fields))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _is_plain(array.flatten())
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        array.validate(full=True)
        return not pc.any(pc.match_substring(array, "\x00")).as_py()
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_null(kind)
    )


def _as_type(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    kind = array.type
    if pa.types.is_null(kind):
        return pa.nulls(len(array), wanted)
    if pa.types.is_struct(wanted) and pa.types.is_struct(kind):
        return _as_struct(array, wanted)
    if pa.types.is_list(wanted) and (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        return _as_list(array, wanted)
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    fits = (
        kind == wanted
        or (pa.types.is_string(wanted) and pa.types.is_large_string(kind))
        or (pa.types.is_floating(wanted) and is_number)
        or (pa.types.is_integer(wanted) and pa.types.is_integer(kind))
    )
    if not fits:
        raise _Doubt
    return array.cast(wanted, safe=pa.types.is_integer(wanted))


def _as_struct(array: pa.StructArray, wanted: pa.StructType) -> pa.StructArray:
    there = [one.name for one in array.type]
    if len(set(there)) < len(there):
        raise _Doubt
    fields = [
        _as_type(array.field(there.index(one.name)), one.type)
        if one.name in there
        else pa.nulls(len(array), one.type)
        for one in wanted
    ]
    return pa.StructArray.from_arrays(fields, fields=list(wanted), mask=array.is_null())


def _as_list(array: pa.ListArray, wanted: pa.ListType) -> pa.ListArray:
    """With offsets of its own, because those of a piece of a column begin anywhere."""
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    values = _as_type(array.flatten(), wanted.value_type)
    return pa.ListArray.from_arrays(offsets, values, type=wanted, mask=array.is_null())
