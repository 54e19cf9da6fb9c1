"""The fast reader of results and the careful one: one outcome for every input, and no input ends the process."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from functools import cache
from random import Random

import pytest

from eval_pipeline.bundle import results as reader
from eval_pipeline.bundle.files import LineBlock
from eval_pipeline.errors import InputRejected
from tests.reference.bundles import random_bundle

TABLES = ("results", "hits", "hit_spans", "citations", "references")
ODD_VALUES = (
    *(None, True, False, 0, 1, -1, 1.5, -0.0, 1e308, 10**19, 10**30, 2**53 + 1, 2**63 - 1, 2**62),
    *("", " ", "a", "\u0000", "\ud800", "x" * 1024, "x" * 1025, "NaN", "null", "1"),
    *([], {}, [None], [[]], [{}], {"a": None}, [1, "a"], float("nan"), float("inf")),
    *({"start": 5, "end": 1}, {"start": -1, "end": 1}, {"start": 0, "end": 2**62}),
)
ODD_BYTES = (
    *(b"null", b"NaN", b"Infinity", b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b"\\u0000", b"\\ud800"),
    *(
        b"\n",
        b"\r\n",
        b"\r",
        b"\xff",
        b"\xef\xbb\xbf",
        b"{}",
        b"[]",
        b"\x00",
        b"1e999",
        b"-0",
        b"01",
        b"\xed\xa0\x80",
    ),
    *(b"}\n{", b"}{", b"  ", b"/*", b"\x1f", b'"query_id":"z",'),
)


@cache
def plain_rows(seed):
    """Results that the fast reader takes: hits as objects, headings as text, scores as numbers."""
    bundle = random_bundle(seed, queries=6, runs=2)
    return [plain(row) for run in bundle.runs.values() for row in run["results"]]


def plain(row):
    row = json.loads(json.dumps(row))
    answer, judge = row.get("answer") or {}, row.get("judge") or {}
    row["hits_top_k"] = [
        {"chunk_id": hit, "doc_id": hit} if isinstance(hit, str) else hit
        for hit in row.get("hits_top_k") or []
    ][:4]
    for passage in [*row["hits_top_k"], *(answer.get("references") or [])]:
        if isinstance(passage.get("heading_path"), list):
            passage["heading_path"] = " > ".join(passage["heading_path"])
    for verdict in (judge.get("groundedness") or {}, judge.get("correctness") or {}):
        if not isinstance(verdict.get("score"), int | float | None) or isinstance(verdict.get("score"), bool):
            verdict["score"] = 3
    if isinstance(judge.get("input"), dict):
        judge["input"] = "asked"
    return row


def places(value, path=()):
    """Every place inside a row."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield (*path, key)
        yield from places(item, (*path, key))


def with_another_value(rng, row):
    row = json.loads(json.dumps(row))
    *way, last = rng.choice(list(places(row)))
    owner = row
    for step in way:
        owner = owner[step]
    change = rng.random()
    if change < 0.7:
        owner[last] = rng.choice(ODD_VALUES)
    elif isinstance(owner, list):
        owner.insert(last, rng.choice(ODD_VALUES))
    elif change < 0.85:
        del owner[last]
    else:
        owner[rng.choice(["x", "text", "doc_id", "score", "null", "\ud800"])] = rng.choice(ODD_VALUES)
    return row


def with_other_bytes(rng, line):
    data = bytearray(line)
    place = rng.randrange(len(data))
    change = rng.randrange(5)
    if change == 0:
        data[place] = rng.randrange(256)
    elif change == 1:
        del data[place : place + rng.choice([1, 2, 20])]
    elif change == 2:
        data[place:place] = rng.choice(ODD_BYTES)
    elif change == 3:
        data[place:place] = data[place : place + rng.randrange(30)]
    else:
        del data[place:]
    return bytes(data)


def random_block(seed):
    """A few lines, most of them valid, joined in one of the ways files are joined."""
    rng = Random(seed)
    rows = plain_rows(seed % 8)
    lines = []
    for row in rng.sample(rows, k=rng.randint(1, 4)):
        kind = rng.random()
        changed = with_another_value(rng, row) if 0.6 < kind < 0.85 else row
        line = json.dumps(changed, ensure_ascii=changed is not row or rng.random() < 0.5).encode()
        lines.append(with_other_bytes(rng, line) if kind >= 0.85 else line)
    if rng.random() < 0.1:
        lines.insert(
            rng.randrange(len(lines) + 1), rng.choice([b"", b"null", b" ", b"{}", b"[]", b"1", b"\t"])
        )
    return rng.choice([b"\n"] * 6 + [b"\r\n", b"\n\n"]).join(lines) + rng.choice([b"", b"\n"])


def rows_of(block):
    return [(name, row) for name in TABLES for row in getattr(block, name).to_pylist()]


def is_same(one, other):
    if isinstance(one, float) and isinstance(other, float):
        return one == other and math.copysign(1, one) == math.copysign(1, other)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(is_same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(is_same, one, other))
    return type(one) is type(other) and one == other


# A line that sends all the others of its block to the careful reader, and its own rows.
CAREFUL = b'{"query_id": "sent to the careful reader", "judge": {"correctness": {"score": "odd"}}}\n'


def read(folder, data):
    path = folder / "results.jsonl"
    # A last line without an end would be a block by itself.
    path.write_bytes(data if data.endswith(b"\n") else data + b"\n")
    (block,) = reader.read_results(path, run_id="r")
    return block


def read_carefully(folder, data):
    """The same rows as by the careful reader, with the numbers they have without the line before them."""
    block = read(folder, CAREFUL + data)
    rows = [
        (name, row | {place: row[place] - 1 for place in ("row_no", "result") if place in row})
        for name, row in rows_of(block)
    ]
    return [(name, row) for name, row in rows if row.get("row_no") != 0], block.problems


def disagreement(folder, data):
    """How the readers differ on a block, and whether the fast one took it."""
    if reader.read_fast(LineBlock(data, 1)) is None:
        return None, False
    try:
        rows, problems = read_carefully(folder, data)
    except InputRejected as rejected:
        return f"taken, though cut off: {rejected.reason}", True
    if problems:
        return f"taken, though {problems[0].field}: {problems[0].reason}", True
    return ("other rows" if not is_same(rows_of(read(folder, data)), rows) else None), True


@pytest.mark.parametrize("part", range(2))
def test_both_readers_find_the_same_rows_in_mutated_lines(part, tmp_path):
    taken = 0
    for seed in range(part * 200, part * 200 + 200):
        data = random_block(seed)
        difference, was_taken = disagreement(tmp_path, data)
        assert difference is None, (seed, data)
        taken += was_taken
    assert taken > 40


HOSTILE = {
    "null alone": b"null\n",
    "null after blank lines": b"\n \nnull\n",
    "null behind four megabytes": b'{"query_id": "a", "x": "'
    + b"p" * ((4 << 20) - 29)
    + b'"}\n'
    + b"null\n" * 9,
    "only brackets": b"[" * 300_000,
    "deep list under an unknown key": b'{"query_id": "a", "x": ' + b"[" * 300_000 + b"]" * 300_000 + b"}\n",
    "deep list under a known key": b'{"query_id": "a", "error": ' + b"[" * 300_000 + b"]" * 300_000 + b"}\n",
    "deep object": b'{"query_id": "a", "x": ' + b'{"a":' * 200_000 + b"1" + b"}" * 200_000 + b"}\n",
    "keys without end": b'{"query_id": "a", ' + b", ".join(b'"k%d": 1' % n for n in range(50_000)) + b"}\n",
    "a key of five megabytes": b'{"' + b"k" * 5_000_000 + b'": 1, "query_id": "a"}\n',
    "one key twice": b'{"query_id": "a", "query_id": "b", "answer": {"text": "x", "text": null}}\n',
    "a number of a million digits": b'{"query_id": "a", "latency_ms": {"total": '
    + b"9" * 1_000_000
    + b"}}\n",
    "nothing but a brace": b"{\n",
    "an empty object": b"{}\n",
    "invalid UTF-8 everywhere": b'{"query_id": "\xff\xfe", "\xc0\x80": "\xed\xa0\x80"}\n',
    "half a surrogate pair": b'{"query_id": "\\ud800", "\\udc00": "\\udfff"}\n',
    "two objects on one line": b'{"query_id": "a"}{"query_id": "b"}\n\n',
    "an object over two lines": b'{"query_id": "a"}{"query_id": "b", "answer":\n{"text": "x"}}\n',
}

READ = """
import sys
from pathlib import Path
from eval_pipeline.errors import InputRejected
from eval_pipeline.bundle.results import read_results
for path in map(Path, sys.argv[1:]):
    try:
        rows = sum(block.results.num_rows for block in read_results(path, run_id="r"))
    except InputRejected:
        rows = -1
    print(path.name, rows, flush=True)
"""


@pytest.mark.needs_process
def test_no_hostile_file_ends_the_process(tmp_path):
    """In a process of its own, because what is feared is a crash no except clause can catch."""
    paths = []
    for name, data in HOSTILE.items():
        path = tmp_path / name.replace(" ", "-") / "results.jsonl"
        path.parent.mkdir()
        path.write_bytes(data)
        paths.append(str(path))
    done = subprocess.run([sys.executable, "-c", READ, *paths], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (list(HOSTILE)[len(done.stdout.splitlines())], done.stderr[-2000:])
    assert len(done.stdout.splitlines()) == len(HOSTILE)


@pytest.mark.parametrize("name", ["two objects on one line", "an object over two lines", "one key twice"])
def test_what_is_no_line_per_object_is_left_to_the_careful_reader(name):
    assert reader.read_fast(LineBlock(HOSTILE[name], 1)) is None


def test_lines_longer_than_arrows_blocks_are_read_whole(tmp_path):
    rows = [
        {"query_id": f"q{n}", "answer": {"text": "x" * size}} for n, size in enumerate([5 << 20, 10, 3 << 20])
    ]
    path = tmp_path / "results.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = [row for block in reader.read_results(path, run_id="r") for row in block.results.to_pylist()]
    assert [len(row["answer_text"]) for row in found] == [5 << 20, 10, 3 << 20]


def test_blank_lines_are_read_in_bulk_and_rows_keep_the_numbers_of_their_lines(tmp_path):
    """As rows of other tools come: what was several lines stands on the first of them."""
    rows = [
        b'{"query_id": "q%d", "hits_top_k": [{"chunk_id": "a", "doc_id": "a"}]}' % number
        for number in range(3)
    ]
    data = b"\n\n" + rows[0] + b"\n\n\n" + rows[1] + b"\n" + rows[2] + b"\n\n"
    table = reader.read_fast(LineBlock(data, 11))
    assert table is not None
    assert table["row_no"].to_pylist() == [13, 16, 17]
    path = tmp_path / "results.jsonl"
    path.write_bytes(data)
    (block,) = reader.read_results(path, run_id="r")
    assert block.results["row_no"].to_pylist() == [3, 6, 7]
