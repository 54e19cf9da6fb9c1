"""What the product says of its example is what it said before; a commit that means to change it renews the kept file."""

from __future__ import annotations

import datetime as dt
import difflib
from importlib.metadata import version
from itertools import islice
from pathlib import Path

import pytest

from tests.called import demo_once
from tests.made_once import made_once

from .documents import DOCUMENTS, KEPT, Example, prepare, text_of
from .plain_words import outline, without_what_differs

SHOWN_LINES = 40
LONGEST_LINE = 300
MOST_BYTES = 1_000_000
BEGAN = dt.datetime(2026, 9, 18, 3, tzinfo=dt.UTC)


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    demo = demo_once(tmp_path_factory)
    return made_once(tmp_path_factory, "documents", lambda folder: prepare(folder, demo))


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_document_is_as_it_was_kept(name, prepared, tmp_path):
    text = text_of(name, Example(prepared, tmp_path / "out"))
    path = KEPT / name
    kept = path.read_bytes().decode("utf-8") if path.is_file() else ""
    if text != kept:
        pytest.fail(what_changed(name, kept, text), pytrace=False)


def test_every_kept_file_is_a_document_and_together_they_are_small():
    assert {path.name for path in KEPT.iterdir()} == set(DOCUMENTS)
    assert sum(path.stat().st_size for path in KEPT.iterdir()) < MOST_BYTES


def what_changed(name: str, kept: str, text: str) -> str:
    lines = difflib.unified_diff(kept.splitlines(), text.splitlines(), "kept", "now", lineterm="", n=1)
    diff = [line[:LONGEST_LINE] for line in islice(lines, SHOWN_LINES + 1)]
    if len(diff) > SHOWN_LINES:
        diff[-1] = "…"
    return "\n".join(
        [
            f"{name} is not what was kept:",
            *(diff or ["only ends of lines differ"]),
            f"Is that meant? Then: python -m tests.documents.renew {name}",
        ]
    )


# ------------------------------------------------------------------ what is taken out, and what is not


def plain(text: str, **places: str) -> str:
    return without_what_differs(text, {Path(place): word for word, place in places.items()}, began=BEGAN)


def test_a_changed_value_is_found_and_the_message_says_how_to_renew():
    message = what_changed("show.txt", "mrr 0.8150\nhit@5 0.9125\n", "mrr 0.8151\nhit@5 0.9125\n")
    assert "-mrr 0.8150\n+mrr 0.8151" in message
    assert message.endswith("python -m tests.documents.renew show.txt")


@pytest.mark.parametrize(
    "text",
    [
        '"value": 0.8150, "n": 89, "p": 1e-05, "seconds_mean": 4.5',
        '"created_at": "2026-09-18T02:00:00Z", "night": "2026-09-18"',
        "latency: p50 2,621 ms, p95 3,386 ms; 12.5 s",
        "fp1:4613fd0dcdd4ca93a7d1ad95",
        "0a5b23f39e76d819cb95ff48050a12f025f8e6b9",
        "eval-pipeline show nightly-2026-09-18",
    ],
)
def test_numbers_and_the_times_of_the_example_stay(text):
    assert plain(text) == text


def test_places_times_of_the_clock_durations_and_the_version_go():
    now = dt.datetime.now(dt.UTC)
    assert plain("file:///here/a.html and /here/a/b", here="/here/a") == "file://here.html and here/b"
    assert plain(f"at {now.isoformat()}, {now:%Y-%m-%d %H:%M:%S}Z") == "at <day>T<time>+00:00, <day> <time>Z"
    assert plain('"estimated_seconds": 0.25, about 1.5 s') == '"estimated_seconds": SECONDS, about SECONDS'
    assert plain(f"eval-pipeline {version('eval-pipeline')}, format 1") == "eval-pipeline VERSION, format 1"
    assert plain('"delivered_by": "me@here"') == '"delivered_by": "SOMEBODY"'


def test_a_page_is_held_block_by_block():
    page = '<html><h1 class="x">Run</h1><p>0.5</p><svg><title id="t">Chart</title></svg></html>'
    before, after = (outline(text).splitlines() for text in (page, page.replace("0.5", "0.6")))
    assert [line.split(maxsplit=2)[2] for line in before[1:]] == ["head", "h1 Run", "svg Chart"]
    assert [one == other for one, other in zip(before, after, strict=True)] == [False, True, False, True]
