"""The page around the content: its policy, style, script, headings and navigation."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from eval_pipeline.report.pages.html import Child, Html, _data_text, _join, tag

FOLDER: Final = Path(__file__).parent
# Said before anything is drawn: rows that the script will page are not laid out first.
SCRIPTED: Final = 'document.documentElement.classList.add("scripted");'


@dataclass(frozen=True)
class Section:
    """A part of the page with a heading; `name` is its place in the address."""

    name: str
    title: str
    content: Sequence[Child]


@dataclass(frozen=True)
class Page:
    """A whole page; `crumbs` are the pages above it, with their addresses where there are any.

    `style` stands behind what all pages have; a page that `asks` has forms that lead to its own server, and one that is
    `begun` has sections that follow from there.
    """

    kind: str
    title: str
    heading: Child
    lead: Sequence[Child]
    sections: Sequence[Section]
    footer: Sequence[Child]
    crumbs: Sequence[tuple[str, str | None]] = ()
    style: str = ""
    asks: bool = False
    begun: bool = False


def size_of(sections: Iterable[Section]) -> int:
    """How many bytes their contents take."""
    return sum(len(_join(one.content).encode()) for one in sections)


def render_page(page: Page) -> str:
    """One file that asks nobody for anything."""
    style, script = page_style() + page.style, _source("follow.js" if page.begun else "page.js")
    policy = policy_of([style], asks=page.asks, follows=page.begun)
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("link", rel="icon", href="data:,"),
        tag("title", page.title),
        tag("style", Html(style)),
        tag("script", Html(SCRIPTED)),
    )
    body = tag(
        "body",
        tag("a", "Skip to the content", class_="skip", href="#content"),
        _header(page),
        tag("main", [_section(one) for one in page.sections], id="content", tabindex="-1"),
        tag("footer", page.footer),
        tag("script", Html(script)),
    )
    return "<!doctype html>\n" + tag("html", head, body, lang="en") + "\n"


def _source(name: str) -> str:
    return (FOLDER / name).read_text("utf-8")


def page_style() -> str:
    """What every page has."""
    return _source("page.css")


def policy_of(styles: Sequence[str], *, asks: bool, follows: bool = False) -> str:
    """Nothing may be loaded or run but one of these styles and the script of all pages.

    A page of which more follows may ask its own server for that.
    """
    own = [SCRIPTED, _source("page.js"), *([_source("follow.js")] if follows else [])]
    hashes = " ".join(f"'{_hash(style)}'" for style in styles)
    scripts = " ".join(f"'{_hash(script)}'" for script in own)
    return (
        f"default-src 'none'; style-src {hashes}; script-src {scripts}; img-src data:; "
        + ("connect-src 'self'; " if follows else "")
        + f"base-uri 'none'; form-action '{'self' if asks else 'none'}'"
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _header(page: Page) -> Html:
    links = [tag("li", tag("a", one.title, href=f"#{one.name}")) for one in page.sections]
    return tag(
        "header",
        _crumbs(page),
        tag("p", page.kind, class_="kind-of-page"),
        tag("h1", page.heading),
        page.lead,
        tag("nav", tag("ul", links), aria_label="On this page") if links else None,
    )


def _crumbs(page: Page) -> Html | None:
    linked = [(text, address) for text, address in page.crumbs if address is not None]
    if not linked:
        return None
    items = [tag("li", tag("a", _data_text(text), href=address)) for text, address in linked]
    return tag("nav", tag("ul", items), class_="crumbs", aria_label="Pages above")


def _section(one: Section) -> Html:
    return tag(
        "section",
        tag("h2", one.title, id=f"{one.name}-heading"),
        one.content,
        id=one.name,
        aria_labelledby=f"{one.name}-heading",
    )
