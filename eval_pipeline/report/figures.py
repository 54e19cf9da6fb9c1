"""A chart with everything around it: title, text alternative, and room to scroll where it is wider than the screen."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from eval_pipeline.report.markup import Child, Html, join, tag
from eval_pipeline.report.svg import COLOURS, inline_svg

VEGA_LITE: Final = "6.4"
# Its letters are as wide as those of Arial and Helvetica, which stand in for it on other machines.
FONT: Final = "Liberation Sans"
ROOM: Final = {"left": 14, "right": 10, "top": 5, "bottom": 5}


@dataclass(frozen=True)
class Chart:
    """What is drawn (a Vega-Lite specification), what it is called and what it says in words."""

    name: str
    title: str
    alternative: str
    specification: dict[str, Any]


def figure(chart: Chart, *beside: Child, is_split: bool = False) -> Html:
    """The chart as a figure of the page; `beside` is the table or the numbers that say the same."""
    frame = tag(
        "div",
        drawn(chart),
        class_="scroll",
        role="region",
        tabindex="0",
        aria_labelledby=f"{chart.name}-caption",
    )
    content = tag("div", frame, tag("div", beside), class_="split") if is_split else join(frame, *beside)
    return tag("figure", tag("figcaption", chart.title, id=f"{chart.name}-caption"), content, class_="chart")


def drawn(chart: Chart) -> Html:
    """The chart as an image inside the page."""
    import vl_convert

    specification = {**chart.specification, "config": _config()}
    drawing = vl_convert.vegalite_to_svg(json.dumps(specification), vl_version=VEGA_LITE)
    return inline_svg(drawing, name=chart.name, title=chart.title, alternative=chart.alternative)


def altair() -> Any:
    """The charting library, which takes half a second to import."""
    import altair as library

    return library


def specification_of(chart: Any) -> dict[str, Any]:
    """An altair chart as plain values; the product's own charts need no validation at every call."""
    found: dict[str, Any] = chart.to_dict(validate=False)
    return found


def _config() -> dict[str, Any]:
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
