"""Records as Arrow columns: the schema follows from the record types, so that there is one place to change."""

from __future__ import annotations

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
    """Whether no floating-point number anywhere inside is NaN or infinite."""
    kind = array.type
    if pa.types.is_floating(kind):
        return bool(pc.all(pc.is_finite(array), min_count=0).as_py() is not False)
    if pa.types.is_struct(kind):
        return all(numbers_are_finite(part) for part in array.flatten())
    if pa.types.is_list(kind):
        return numbers_are_finite(array.flatten())
    return True


def positions_in_lists(array: pa.ListArray) -> tuple[pa.Array, pa.Array]:
    """For every element of every list: the row it belongs to (from 0) and its place there (from 1)."""
    parents = pc.list_parent_indices(array)
    starts = pc.take(array.offsets, parents)
    first = array.offsets[0] if len(array.offsets) else pa.scalar(0, pa.int32())
    numbers = pa.array(np.arange(len(parents)), pa.int64())
    place = pc.add(pc.subtract(numbers, pc.cast(pc.subtract(starts, first), pa.int64())), 1)
    return pc.cast(parents, pa.int64()), place
