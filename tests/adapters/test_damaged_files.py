"""Files of every tool, damaged at random: they end as rows or as a refusal, never as a traceback."""

from __future__ import annotations

import random

import pytest

from eval_pipeline.errors import EvalPipelineError
from tests.adapters.made.make import TOOLS
from tests.adapters.taken import MADE, take

FILES = sorted(
    path.name
    for path in MADE.iterdir()
    if path.is_file() and path.suffix != ".py" and path.name != "printed.json"
)
DAMAGES = 12


def damaged(data: bytes, dice: random.Random) -> bytes:
    """Cut off, with a piece turned round, doubled or left out, or with a value of another kind."""
    place, length = dice.randrange(len(data)), dice.randrange(1, 40)
    piece = data[place : place + length]
    return dice.choice(
        [
            data[:place],
            data[:place] + piece[::-1] + data[place + length :],
            data[:place] + data[place + length :],
            data[:place] + piece + data[place:],
            data.replace(
                dice.choice([b'"q1"', b"1", b"[", b"true", b'""']),
                dice.choice([b"null", b"[]", b"{}", b"-7"]),
                3,
            ),
        ]
    )


def test_every_tool_has_a_file_to_be_damaged():
    assert len(FILES) >= len(TOOLS)


@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_becomes_rows_or_a_refusal(tmp_path, name):
    data = (MADE / name).read_bytes()
    dice = random.Random(name)
    for number in range(DAMAGES):
        path = tmp_path / f"{number}-{name}"
        path.write_bytes(damaged(data, dice))
        try:
            bundle = take(path)
        except EvalPipelineError:
            continue
        assert bundle.runs or bundle.golden or bundle.remarks
