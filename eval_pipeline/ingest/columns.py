"""Records as Arrow columns: the schema follows from the record types, so that there is one place to change."""

from __future__ import annotations

import math
import types
import typing
from collections.abc import Sequence
from functools import cache
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eval_pipeline.records import ID_LENGTH, Record

_PLAIN = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}


@cache
def arrow_schema(kind: type[Record]) -> pa.Schema:
    """One column per field; what is taken as delivered is a number under `score` and text elsewhere."""
    return pa.schema(list(_fields(kind)))


def _fields(kind: type[Record]) -> typing.Iterator[pa.Field]:
    hints = typing.get_type_hints(kind)
    for field in msgspec.structs.fields(kind):
        yield pa.field(field.name, _arrow_type(hints[field.name], field.name))


def _arrow_type(hint: Any, name: str) -> pa.DataType:
    if hint is Any:
        return pa.float64() if name == "score" else pa.string()
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        chosen = next(option for option in typing.get_args(hint) if option is not type(None))
        return _arrow_type(chosen, name)
    if typing.get_origin(hint) is list:
        return pa.list_(_arrow_type(typing.get_args(hint)[0], name))
    if isinstance(hint, type) and issubclass(hint, Record):
        return pa.struct(list(_fields(hint)))
    return _PLAIN[hint]


def table_of(records: Sequence[Record], kind: type[Record]) -> pa.Table:
    """Checked records as the same columns that the fast reader makes."""
    rows = [msgspec.to_builtins(record) for record in records]
    return pa.Table.from_pylist(rows, schema=arrow_schema(kind))


def ids_are_clean(column: pa.ChunkedArray | pa.Array) -> bool:
    """Whether every id is there, not empty and not too long."""
    if column.null_count:
        return False
    if not len(column):
        return True
    lengths = pc.min_max(pc.utf8_length(column))
    return bool(lengths["min"].as_py() > 0 and lengths["max"].as_py() <= ID_LENGTH)


def numbers_are_finite(array: pa.Array) -> bool:
    """Whether no floating-point number anywhere inside is NaN or infinite; a sum that overflows counts as doubt."""
    kind = array.type
    if pa.types.is_floating(kind):
        return math.isfinite(pc.sum(array).as_py() or 0.0)
    if pa.types.is_struct(kind):
        return all(numbers_are_finite(array.field(number)) for number in range(kind.num_fields))
    if pa.types.is_list(kind):
        return numbers_are_finite(array.flatten())
    return True


def only_chunk(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """A column in one piece, without copying one that is."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def positions_in_lists(array: pa.ListArray) -> tuple[pa.Array, pa.Array]:
    """For every element of every list: the row it belongs to (from 0) and its place there (from 1)."""
    starts = array.offsets.to_numpy()
    lengths = np.diff(starts)
    parents = np.repeat(np.arange(len(array), dtype=np.int64), lengths)
    before = np.repeat(starts[:-1] - starts[:1], lengths)
    places = np.arange(1, len(parents) + 1, dtype=np.int64) - before
    return pa.array(parents), pa.array(places)
