"""Whatever stands in questions, ids, answers and settings appears as text, and nothing can be loaded or run."""

from __future__ import annotations

import base64
import hashlib
import json
import re

import pytest

from eval_pipeline.report.pages.html import clipped, json_block, tag, visible
from tests.report.hostile_world import HOSTILE, query_id_of, question_of
from tests.report.page_reader import PageReader

PAGES = ("run", "pair", "fallback", "suite")
READING = ("run", "pair", "fallback")
HTML_ELEMENTS = frozenset(
    [
        "a",
        "bdi",
        "body",
        "caption",
        "code",
        "dd",
        "details",
        "div",
        "dl",
        "dt",
        "figcaption",
        "figure",
        "footer",
        "form",
        "h1",
        "h2",
        "h3",
        "h4",
        "head",
        "header",
        "html",
        "input",
        "label",
        "li",
        "link",
        "main",
        "meta",
        "nav",
        "ol",
        "option",
        "output",
        "p",
        "script",
        "section",
        "select",
        "span",
        "strong",
        "style",
        "summary",
        "table",
        "button",
        "mark",
        "tbody",
        "td",
        "th",
        "thead",
        "title",
        "tr",
        "ul",
        "wbr",
        "svg",
        "desc",
        "g",
        "path",
        "line",
        "rect",
        "circle",
        "text",
        "tspan",
        "defs",
        "clippath",
    ]
)


@pytest.mark.parametrize("name", READING)
def test_hostile_questions_and_ids_are_readable_as_they_are(
    readers: dict[str, PageReader], name: str
) -> None:
    shown = readers[name].text
    for number in range(len(HOSTILE)):
        assert visible(question_of(number)) in shown
        assert visible(query_id_of(number)) in shown


@pytest.mark.parametrize("name", PAGES)
def test_no_text_becomes_an_element_or_an_attribute(readers: dict[str, PageReader], name: str) -> None:
    reader = readers[name]
    assert {one.name for one in reader.elements} <= HTML_ELEMENTS
    handlers = [
        key for one in reader.elements for key in one.attributes if key.startswith("on") or key == "style"
    ]
    assert handlers == []


@pytest.mark.parametrize("name", PAGES)
def test_only_the_pages_own_script_can_be_executed(readers: dict[str, PageReader], name: str) -> None:
    executed = [
        text for attributes, text in readers[name].scripts if attributes.get("type") != "application/json"
    ]
    assert len(executed) == 2
    assert "hacked" not in "".join(executed)


@pytest.mark.parametrize("name", PAGES)
def test_the_policy_names_exactly_this_style_and_these_scripts(
    readers: dict[str, PageReader], name: str
) -> None:
    reader = readers[name]
    (policy,) = (
        one.attributes["content"]
        for one in reader.named("meta")
        if one.attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy is not None
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    scripts = [text for attributes, text in reader.scripts if "type" not in attributes]
    assert len(scripts) == 2
    assert rules["default-src"] == "'none'"
    assert rules["script-src"].split() == [f"'sha256-{_digest(script)}'" for script in scripts]
    assert rules["style-src"] == f"'sha256-{_digest(reader.styles[0])}'"
    assert rules["img-src"] == "data:"
    assert len(reader.styles) == 1


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@pytest.mark.parametrize("name", PAGES)
def test_nothing_points_outside_of_the_page(
    readers: dict[str, PageReader], pages: dict[str, str], name: str
) -> None:
    for one in readers[name].elements:
        for key in ("href", "src", "action", "data", "xlink:href", "srcset"):
            target = one.attributes.get(key)
            assert target is None or target.startswith(("#", "data:"))
    assert not re.search(r"https?:|url\((?!#)|@import", pages[name])


def test_data_for_the_script_cannot_close_its_element() -> None:
    block = json_block("rows", {"rows": ["</script><script>alert(1)</script>", "<!--", "&", "\u2028"]})
    assert block.count("<") == 2
    body = block.removeprefix('<script type="application/json" id="rows">').removesuffix("</script>")
    assert json.loads(body) == {"rows": ["</script><script>alert(1)</script>", "<!--", "&", "\u2028"]}


def test_what_cannot_be_seen_is_shown_by_a_picture_or_a_number() -> None:
    assert visible("a\x1b[31m\x07") == "a␛[31m␇"
    assert visible("abc\u202edef") == "abc⟨U+202E⟩def"
    assert visible("tab\tand\r\nlines\n") == "tab\tand\nlines\n"
    assert visible("lone \ud800") == "lone ⟨U+D800⟩"
    assert visible("שלום 👩‍👩‍👧 é") == "שלום 👩‍👩‍👧 é"


def test_text_is_escaped_wherever_it_stands_unless_it_is_markup_already() -> None:
    inner = tag("b", '<i> "&"')
    assert inner == "<b>&lt;i&gt; &quot;&amp;&quot;</b>"
    assert tag("p", inner, ["<", None], title='"><script>') == (
        '<p title="&quot;&gt;&lt;script&gt;"><b>&lt;i&gt; &quot;&amp;&quot;</b>&lt;</p>'
    )


def test_a_long_text_says_that_it_goes_on() -> None:
    assert clipped("abcdef", 6) == "abcdef"
    assert clipped("abcdefg", 6) == "abcde…"
