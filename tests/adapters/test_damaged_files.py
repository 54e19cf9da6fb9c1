"""Files of every tool, damaged at random in bytes and values: rows or a refusal, never a traceback, never zeros."""

from __future__ import annotations

import io
import json
import random
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from bench.faults import mutations
from eval_pipeline.errors import EvalPipelineError
from tests.adapters.made.make import TOOLS
from tests.adapters.taken import MADE, Bundle, take

FILES = sorted(
    path
    for path in MADE.rglob("*")
    if path.is_file() and path.suffix not in (".py", ".pyc") and path.name != "printed.json"
)
DAMAGES, MANY_DAMAGES = 6, 60
IN_CELLS = ("", "nan", "-1", "1e999", "inf", "\x00", "[1", "['a'", "x" * 300)
# A row that says nothing of a query would end as a zero.
SAID = ("hits_top_k", "answer", "scores", "error", "judge")
Wrong = Callable[[random.Random, bytes], bytes]


def wrong_values(path: Path) -> Wrong:
    """How a value in the file becomes another, where its form is known; else its bytes."""
    by_ending: dict[str, Wrong] = {
        ".json": lambda dice, data: mutations.wrong_document(dice, data.decode()).encode(
            "utf-8", "surrogatepass"
        ),
        ".jsonl": mutations.wrong_json,
        ".parquet": lambda dice, data: mutations.wrong_parquet(dice, as_lines(data)),
        ".csv": lambda dice, data: mutations.wrong_lines(dice, data, ",", IN_CELLS),
        ".tsv": lambda dice, data: mutations.wrong_lines(dice, data, "\t", IN_CELLS),
        ".txt": lambda dice, data: mutations.wrong_lines(dice, data, " ", IN_CELLS),
        ".run": lambda dice, data: mutations.wrong_lines(dice, data, " ", IN_CELLS),
        ".eval": wrong_member,
    }
    return by_ending.get(path.suffix, mutations.wrong_bytes)


def as_lines(parquet: bytes) -> bytes:
    rows = pq.read_table(io.BytesIO(parquet)).to_pylist()
    return "\n".join(json.dumps(row, default=str) for row in rows).encode()


def wrong_member(dice: random.Random, data: bytes) -> bytes:
    """An archive of the same names, with another value in one of its documents."""
    names = zipfile.ZipFile(io.BytesIO(data)).namelist()
    chosen = dice.choice(names)
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name in names:
            document = dice.choice([b"", b"{", b"[]", b'{"eval": 1}', b'{"scores": {"a": {"value": []}}}'])
            archive.writestr(name, document if name == chosen else b"{}")
    return made.getvalue()


def taken(source: Path, folder: Path, wrong: Wrong, dice: random.Random) -> Bundle | None:
    """What becomes of the file, or of the folder it is in, once it is wrong; None of what was refused."""
    place = source.relative_to(MADE)
    top = folder / place.parts[0]
    if len(place.parts) > 1:
        shutil.copytree(MADE / place.parts[0], top)
    (folder / place).write_bytes(wrong(dice, source.read_bytes()))
    try:
        return take(top)
    except EvalPipelineError:
        return None


def is_something(bundle: Bundle) -> bool:
    """Labels, or rows of which some say something."""
    rows = [row for run in bundle.runs.values() for row in run.values()]
    return bool(
        bundle.golden or bundle.remarks or bundle.refused or any(set(SAID) & row.keys() for row in rows)
    )


def damage(source: Path, folder: Path, times: int) -> None:
    for number in range(times):
        dice = random.Random(f"{source.name} {number}")
        wrong = wrong_values(source) if number % 2 else mutations.wrong_bytes
        place = folder / str(number)
        place.mkdir()
        bundle = taken(source, place, wrong, dice)
        assert bundle is None or is_something(bundle), number


def test_every_tool_has_a_file_to_be_damaged():
    assert len(FILES) >= len(TOOLS)


@pytest.mark.parametrize("source", FILES, ids=lambda path: path.relative_to(MADE).as_posix())
def test_a_damaged_file_becomes_rows_or_a_refusal(tmp_path, source):
    damage(source, tmp_path, DAMAGES)


@pytest.mark.slow
@pytest.mark.parametrize("source", FILES, ids=lambda path: path.relative_to(MADE).as_posix())
def test_a_file_damaged_by_the_dozen_becomes_rows_or_a_refusal(tmp_path, source):
    damage(source, tmp_path, MANY_DAMAGES)


@pytest.mark.parametrize("document", [b"", b"{", b"[]", b"1"])
def test_a_log_whose_header_is_no_header_is_refused_or_incomplete(tmp_path, document):
    path = tmp_path / "log.eval"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.json", document)
        archive.writestr("samples/q1_epoch_1.json", b'{"id": "q1", "epoch": 1}')
    with pytest.raises(EvalPipelineError):
        take(path, tool="inspect")


def test_a_mark_of_byte_order_in_the_midst_of_lines_is_no_end_of_them(tmp_path):
    path = tmp_path / "rows.jsonl"
    first, second, *rest = (MADE / "ragas-dataset.jsonl").read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([first, b"\xef\xbb\xbf" + second, *rest]))
    assert take(path).rows
