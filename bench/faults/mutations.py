"""Files made wrong: a value replaced inside a document, a line of it, or bytes anywhere."""

from __future__ import annotations

import gzip
import io
import json
import random
from collections.abc import Iterator
from typing import Any

Place = tuple[str | int, ...]


def _deep(levels: int) -> str:
    return "[" * levels + "]" * levels


# Texts of values as JSON has them, or nearly.
IN_JSON = (
    *(
        "1e400",
        "-1e400",
        "-0",
        "-0.0",
        "NaN",
        "Infinity",
        "1" + "0" * 400,
        "9223372036854775808",
        "2147483648",
    ),
    *(
        "18446744073709551616",
        "-9223372036854775809",
        "1e308",
        "5e-324",
        "1.0000000000000000000000001",
        "0x10",
    ),
    *(
        '"\\ud800"',
        '"\\u0000"',
        '"\\udc00\\ud800"',
        _deep(100),
        _deep(2000),
        '{"a":' * 3000 + "1" + "}" * 3000,
    ),
    *('"' + "x" * 70000 + '"', "[]", "{}", "null", "true", '""', '" "', "[null]", "[[]]", "[{}]", '{"":1}'),
    *(
        '{"a":1,"a":2}',
        '"\u202e"',
        '"e\u0301"',
        '"\u00e9"',
        '"\\u2028"',
        '"\x7f"',
        '"\\u001b[31m"',
        '"<script>"',
    ),
    *(
        "'",
        "01",
        "+1",
        ".5",
        "1.",
        "tru",
        "undefined",
        "1_000",
        '"2026-13-45T99:99:99Z"',
        '"0000-00-00"',
        "\ufeff1",
    ),
    *('"9999-12-31T23:59:59.9999999999+99:99"', '"-5000-01-01"', "4611686018427387904", '"../../x"'),
)
IN_YAML = (
    *(
        "&a [*a]",
        "!!python/object/apply:os.getcwd []",
        "!!binary aGVsbG8=",
        "!!set {a, b}",
        "2026-01-01",
        "2026-99-01",
    ),
    *(
        ".nan",
        ".inf",
        "1_000",
        "0o17",
        "1:30:00",
        "~",
        "yes",
        "? [a, b]\n  : 1",
        "<<: {query_id: z}",
        "*nope",
    ),
    *(
        "!local x",
        "!!timestamp x",
        "!!int xx",
        "!!float 1e999",
        "1e400",
        _deep(300),
        "{" * 120 + "}" * 120,
        "'",
    ),
    *(
        "|\n    text",
        "%TAG",
        "!!omap [a: 1]",
        "9" * 400,
        "=",
        "0b2",
        "!!null x",
        "- - - -",
        '"\\ud800"',
        '"\\0"',
    ),
)
IN_TOML = (
    *("1", "1e400", "nan", "inf", "[1]", "{a=1}", '""', '"a.b.c.d.e.f.g"', '"."', '"\\u0000"', "2026-01-01"),
    *("9" * 30, "true", _deep(400), '"' + "a." * 5000 + '"'),
)
ODD_BYTES = (0, 10, 13, 34, 44, 58, 91, 92, 93, 123, 125, 128, 192, 237, 255)
MARK = "\u0001MARK\u0001"


def wrong_bytes(rng: random.Random, data: bytes) -> bytes:
    """Some bytes replaced, removed, put in or said twice."""
    made = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 5, 20])):
        if not made:
            break
        place, how = rng.randrange(len(made)), rng.random()
        if how < 0.4:
            made[place] = rng.choice([*ODD_BYTES, rng.randrange(256)])
        elif how < 0.6:
            del made[place : place + rng.randrange(1, 30)]
        elif how < 0.8:
            made[place:place] = rng.randbytes(rng.randrange(1, 8))
        else:
            start = rng.randrange(len(made))
            made[place:place] = made[start : start + rng.randrange(1, 60)]
    return bytes(made)


def _places(value: Any, before: Place = ()) -> Iterator[Place]:
    yield before
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, one in inner:
        yield from _places(one, (*before, name))


def _replaced(value: Any, place: Place) -> Any:
    if not place:
        return MARK
    if isinstance(value, dict):
        return {name: _replaced(one, place[1:]) if name == place[0] else one for name, one in value.items()}
    return [_replaced(one, place[1:]) if number == place[0] else one for number, one in enumerate(value)]


def wrong_document(rng: random.Random, text: str) -> str:
    """A JSON document with another value somewhere in it."""
    document = json.loads(text)
    marked = json.dumps(
        _replaced(document, rng.choice(list(_places(document)))), ensure_ascii=rng.random() < 0.5
    )
    return marked.replace(json.dumps(MARK), rng.choice(IN_JSON), 1).replace(MARK, "x")


def wrong_json(rng: random.Random, data: bytes) -> bytes:
    """Lines of JSON, or one document: some wrong in their values, some in their bytes."""
    lines = []
    for line in data.decode().splitlines():
        lines += [wrong_document(rng, line) if rng.random() < 0.5 else line] * rng.choice([1, 1, 2])
    joined = rng.choice(["\n", "\n", "\r\n", "\n\n"]).join(lines) + rng.choice(["\n", "", "\r"])
    made = joined.encode("utf-16" if rng.random() < 0.02 else "utf-8", "surrogatepass")
    return wrong_bytes(rng, made) if rng.random() < 0.3 else made


def wrong_lines(rng: random.Random, data: bytes, sign: str, values: tuple[str, ...]) -> bytes:
    """A file of names and values, with another value for one of the names, or wrong bytes."""
    lines = data.decode().split("\n")
    number = rng.randrange(len(lines))
    if sign in lines[number] and rng.random() < 0.8:
        lines[number] = f"{lines[number].split(sign)[0]}{sign} {rng.choice(values)}"
        return "\n".join(lines).encode("utf-8", "surrogatepass")
    return wrong_bytes(rng, data)


def packed(rng: random.Random, data: bytes, how: str) -> bytes:
    """Packed, and then every other time wrong."""
    if how == "gz":
        made = gzip.compress(data, 1, mtime=0) * rng.choice([1, 1, 2])
    else:
        import zstandard

        made = zstandard.ZstdCompressor(level=1).compress(data)
    return wrong_bytes(rng, made) if rng.random() < 0.5 else made


def wrong_parquet(rng: random.Random, data: bytes) -> bytes:
    """The lines as a Parquet file with columns of other types, and then every other time wrong."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.Table.from_pylist([json.loads(line) for line in data.decode().splitlines()])
    for _ in range(rng.choice([0, 1, 2])):
        number = rng.randrange(table.num_columns)
        column = _odd_column(rng, table.num_rows)
        table = table.set_column(number, table.schema.names[number], column)
    file = io.BytesIO()
    try:
        pq.write_table(table, file, compression=rng.choice(["none", "snappy", "zstd"]))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        # Not every type can stand in such a file.
        return b"PAR1" + rng.randbytes(50) + b"PAR1"
    return wrong_bytes(rng, file.getvalue()) if rng.random() < 0.5 else file.getvalue()


def _odd_column(rng: random.Random, rows: int) -> Any:
    import pyarrow as pa

    chunk = pa.struct([("chunk_id", pa.int64()), ("doc_id", pa.string())])
    types = [
        *(
            pa.int8(),
            pa.uint64(),
            pa.float16(),
            pa.float32(),
            pa.decimal128(38, 3),
            pa.date32(),
            pa.timestamp("ns"),
        ),
        *(
            pa.time64("us"),
            pa.duration("s"),
            pa.binary(),
            pa.binary(4),
            pa.large_string(),
            pa.bool_(),
            pa.null(),
        ),
        *(
            pa.list_(pa.string()),
            pa.list_(pa.int64(), 2),
            pa.map_(pa.string(), pa.int64()),
            pa.list_(chunk),
            chunk,
        ),
        *(pa.dictionary(pa.int32(), pa.string()), pa.list_(pa.list_(pa.struct([("start", pa.float64())])))),
    ]
    kind = rng.choice(types)
    if pa.types.is_floating(kind) and kind != pa.float16():
        return pa.array([rng.choice([float("nan"), float("inf"), 1.0]) for _ in range(rows)], kind)
    if kind == pa.list_(chunk):
        return pa.array([rng.choice([None, [], [{"chunk_id": 1, "doc_id": "d"}]]) for _ in range(rows)], kind)
    return pa.nulls(rows, kind)
