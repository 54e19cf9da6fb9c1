"""Killed, torn, full, broken, damaged, wrong: afterwards everything is as if nothing had been, or it is said what is not."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from bench.faults import crowd, fuzz
from bench.faults.__main__ import outcomes, parser
from bench.faults.world import World
from tests.prepared import Prepared

# As `python -m bench.faults` takes them.
FEW = (
    "kill --cases 2 --of first",
    "torn --cases 1 --of first",
    "full --cases 1 --of first",
    "eio --cases 1 --of first",
)
CHANGING = "compute,again,compact,forget,forget-text,rebuild"
DOZENS = (
    "kill --cases 24",
    "power --cases 24",
    f"torn --cases 12 --of {CHANGING}",
    f"full --cases 12 --of {CHANGING}",
    f"eio --cases 12 --of {CHANGING}",
    "damage --cases 24 --of store,log,kept,dagster",
    *(f"crowd --cases 1 --of {kind} --processes 16" for kind in crowd.KINDS),
    f"fuzz --cases 900 --of {','.join(fuzz.KINDS)}",
)


@pytest.fixture(scope="module")
def world(prepared: Prepared, faults_library: Path, tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("world"), prepared, faults_library)


def differences(world: World, words: str) -> list[tuple[str, str, str]]:
    """What the cases of a call of the harness show, each with how to have it again."""
    asked = parser().parse_args(words.split())
    found = list(outcomes(world, asked.what, asked))
    assert found
    return [(one.again, one.hit, difference) for one in found for difference in one.differences]


@pytest.mark.parametrize("words", FEW)
def test_after_a_fault_the_same_command_ends_as_if_it_had_not_been(words, world):
    assert differences(world, words) == []


def test_a_torn_write_in_the_place_of_what_is_in_use_is_undone_by_whoever_opens_the_store(world):
    """Of a checkpoint the last block before each sync: where everything lies, and the header."""
    operations = [*enumerate(world.twin("again").operations, 1)]
    last = [
        number
        for (number, one), (_, following) in pairwise(operations)
        if (one, following) == ("pwrite e.duckdb", "fdatasync e.duckdb")
    ]
    assert len(last) >= 4
    assert [found for number in last for found in differences(world, f"torn --only again:{number}")] == []


def test_what_is_laid_ready_and_cannot_be_removed_stops_nothing(world):
    operations = world.twin("again").operations
    numbers = [
        number
        for number, one in enumerate(operations, 1)
        if one.startswith("unlink ") and ".incoming-" in one
    ]
    assert numbers
    assert [found for number in numbers for found in differences(world, f"eio --only again:{number}")] == []


def test_whatever_the_bytes_every_reader_gives_rows_or_refuses(world):
    for kind in fuzz.KINDS:
        assert differences(world, f"fuzz --of {kind} --cases {len(fuzz.kept(kind)) + 5}") == []


@pytest.mark.slow
@pytest.mark.parametrize("words", DOZENS)
def test_after_dozens_of_faults_it_does_so_too(words, world):
    assert differences(world, words) == []
