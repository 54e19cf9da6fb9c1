"""A document without what differs from one making of the example to the next: places, times of the clock, versions."""

from __future__ import annotations

import datetime as dt
import hashlib
import re
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

TIME = re.compile(
    r"(?P<day>\d{4}-\d\d-\d\d)(?P<between>[T ])(?P<clock>\d\d:\d\d:\d\d(?:\.\d+)?)(?P<zone>Z|[+-]\d\d:?\d\d)?"
)
WORDS = (
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "DAGSTER-RUN"),
    (re.compile(r'("(?:estimated_)?seconds": )\d[\d.e-]*'), r"\g<1>SECONDS"),
    (re.compile(r'("delivered_by": ")[^"]+'), r"\g<1>SOMEBODY"),
    (re.compile(r"\babout \d+\.\d s\b"), "about SECONDS"),
    (
        re.compile(rf"\beval-pipeline {re.escape(version('eval-pipeline'))}(?![\w.]*\w)"),
        "eval-pipeline VERSION",
    ),
)
BLOCK = re.compile(r"(?=<(?:h1|h2|script|style|svg)\b)")
TITLE = re.compile(r"\A<(?:h1|h2|svg)\b[^>]*>(?:<title[^>]*>)?(.*?)</(?:h1|h2|title)>", re.DOTALL)


def without_what_differs(text: str, places: Mapping[Path, str], *, began: dt.datetime) -> str:
    """`places` names folders of this machine; every time since the example was begun is one of the clock."""
    found = text
    for place in sorted(places, key=lambda place: -len(str(place))):
        found = found.replace(place.as_uri(), f"file://{places[place]}").replace(str(place), places[place])
    for pattern, word in WORDS:
        found = pattern.sub(word, found)
    return TIME.sub(lambda time: unless_of_the_clock(time, began), found)


def unless_of_the_clock(time: re.Match[str], began: dt.datetime) -> str:
    at = dt.datetime.fromisoformat(f"{time['day']}T{time['clock']}{time['zone'] or '+00:00'}")
    if began.replace(microsecond=0) <= at <= dt.datetime.now(dt.UTC):
        return "<day>{between}<time>{zone}".format(**time.groupdict(""))
    return time[0]


def outline(page: str) -> str:
    """A page as a line per heading, chart, style and script: the hash and the length of what stands from there on."""
    head, *blocks = BLOCK.split(page)
    named = [("head", head), *((f"{kind_of(block)} {title_of(block)}", block) for block in blocks)]
    lines = [f"{digest(block)[:12]} {len(block):7,} {name}".rstrip() for name, block in named]
    return "\n".join([f"{digest(page)} the whole page", *lines]) + "\n"


def kind_of(block: str) -> str:
    return re.split(r"[\s>]", block[1:], maxsplit=1)[0]


def title_of(block: str) -> str:
    title = TITLE.search(block)
    return re.sub(r"<[^>]*>", "", title[1]) if title else ""


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
