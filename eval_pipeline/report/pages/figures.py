"""A chart drawn as a figure inside a page, in the page's own colours."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final
from xml.etree import ElementTree

from eval_pipeline.report.pages.html import Child, Html, _escape, _join, tag

# Charts are drawn in colours that stand for a variable of the page's style, so that they follow light and dark.
COLOURS: Final = {
    "ink": "#010101",
    "muted": "#020202",
    "line": "#030303",
    "accent": "#040404",
    "worse": "#050505",
    "soft": "#060606",
    "paper": "#070707",
}
_VARIABLE_OF: Final = {colour: f"var(--{name})" for name, colour in COLOURS.items()}

_ELEMENTS: Final = frozenset(
    ("svg", "g", "path", "line", "rect", "circle", "text", "tspan", "defs", "clipPath")
)
_ATTRIBUTES: Final = frozenset(
    (
        "clip-path",
        "d",
        "dx",
        "dy",
        "fill",
        "fill-opacity",
        "font-size",
        "font-style",
        "font-weight",
        "height",
        "id",
        "opacity",
        "r",
        "stroke",
        "stroke-dasharray",
        "stroke-linecap",
        "stroke-linejoin",
        "stroke-miterlimit",
        "stroke-opacity",
        "stroke-width",
        "text-anchor",
        "transform",
        "viewBox",
        "width",
        "x",
        "x1",
        "x2",
        "y",
        "y1",
        "y2",
    )
)
_REDUNDANT: Final = {"opacity": "1", "fill-opacity": "1", "stroke-opacity": "1", "y2": "0", "x2": "0"}
_SHAPES: Final = frozenset(("path", "line", "rect", "circle"))
_NUMBER: Final = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")
VEGA_LITE: Final = "6.4"
# Its letters are as wide as those of Arial and Helvetica, which stand in for it on other machines.
FONT: Final = "Liberation Sans"
ROOM: Final = {"left": 14, "right": 10, "top": 5, "bottom": 5}


def inline_svg(drawing: str, *, name: str, title: str, alternative: str) -> Html:
    """The drawing as an image with a title and a text alternative; `name` keeps its ids apart from other charts'."""
    root = ElementTree.fromstring(drawing)
    width, height = (_escape(root.get(side, "0")) for side in ("width", "height"))
    view = _escape(root.get("viewBox", f"0 0 {width} {height}"))
    body = "".join(_written(child, name) for child in root)
    return Html(
        f'<svg role="img" width="{width}" height="{height}" viewBox="{view}" '
        f'aria-labelledby="{_escape(name)}-title {_escape(name)}-text">'
        f'<title id="{_escape(name)}-title">{_escape(title)}</title>'
        f'<desc id="{_escape(name)}-text">{_escape(alternative)}</desc>{body}</svg>'
    )


def _written(element: ElementTree.Element, name: str) -> str:
    kind = element.tag.rsplit("}", 1)[-1]
    if kind not in _ELEMENTS or element.get("display") == "none":
        return ""
    if kind in _SHAPES and not (element.get("fill") or element.get("stroke")):
        return "" if "background" in element.get("class", "") else _plain(element, kind, name)
    return _plain(element, kind, name)


def _plain(element: ElementTree.Element, kind: str, name: str) -> str:
    content = _escape(element.text or "") + "".join(_written(child, name) for child in element)
    if kind == "g" and not content:
        return ""
    attributes = "".join(
        f' {key}="{_escape(_value(key, value, name))}"'
        for key, value in element.attrib.items()
        if key in _ATTRIBUTES and _REDUNDANT.get(key) != value
    )
    if kind == "g" and attributes in ("", ' transform="translate(0,0)"'):
        return content
    return f"<{kind}{attributes}>{content}</{kind}>" if content else f"<{kind}{attributes}/>"


def _value(key: str, value: str, name: str) -> str:
    if key in ("fill", "stroke"):
        return _VARIABLE_OF.get(value, value)
    if key == "id":
        return f"{name}-{value}"
    if key == "clip-path":
        return value.replace("url(#", f"url(#{name}-")
    return _NUMBER.sub(_rounded, value) if key in ("d", "transform", "x", "y", "x2", "y2") else value


def _rounded(found: re.Match[str]) -> str:
    return f"{round(float(found[0]), 1) + 0.0:g}"


@dataclass(frozen=True)
class Chart:
    """What is drawn (a Vega-Lite specification), what it is called and what it says in words."""

    name: str
    title: str
    alternative: str
    specification: dict[str, object]


def _figure(chart: Chart, *beside: Child, is_split: bool = False) -> Html:
    """The chart as a figure of the page; `beside` is the table or the numbers that say the same."""
    frame = tag(
        "div",
        drawn(chart),
        class_="scroll",
        role="region",
        tabindex="0",
        aria_labelledby=f"{chart.name}-caption",
    )
    content = tag("div", frame, tag("div", beside), class_="split") if is_split else _join(frame, *beside)
    return tag("figure", tag("figcaption", chart.title, id=f"{chart.name}-caption"), content, class_="chart")


def drawn(chart: Chart) -> Html:
    """The chart as an image inside the page."""
    import vl_convert

    specification = {**chart.specification, "config": _config()}
    drawing = vl_convert.vegalite_to_svg(json.dumps(specification), vl_version=VEGA_LITE)
    return inline_svg(drawing, name=chart.name, title=chart.title, alternative=chart.alternative)


def _altair() -> Any:
    """The charting library, which takes half a second to import."""
    import altair as library

    return library


def _specification_of(chart: Any) -> dict[str, object]:
    """An altair chart as plain values; the product's own charts need no validation at every call."""
    found: dict[str, object] = chart.to_dict(validate=False)
    return found


def _config() -> dict[str, object]:
    """No clutter: text in the page's ink, hair lines, no frames."""
    text = {
        "labelColor": COLOURS["muted"],
        "titleColor": COLOURS["muted"],
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "labelLimit": 220,
    }
    return {
        "font": FONT,
        "background": None,
        "padding": ROOM,
        "view": {"stroke": None},
        "axis": {
            **text,
            "gridColor": COLOURS["line"],
            "domain": False,
            "tickColor": COLOURS["line"],
            "ticks": False,
            "labelPadding": 6,
        },
        "header": {**text, "labelColor": COLOURS["ink"], "labelFontSize": 13, "labelFontWeight": "bold"},
        "title": {
            "color": COLOURS["ink"],
            "fontSize": 13,
            "fontWeight": "bold",
            "anchor": "start",
            "frame": "group",
            "offset": 10,
        },
        "legend": text,
        "text": {"color": COLOURS["ink"], "fontSize": 11},
    }
