"""The first screen of two runs: the verdict, what it rests on, its numbers, where to look."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from eval_pipeline.comparing.documents import BETTER, WORSE
from eval_pipeline.report.comparison_rows import Row, shown_first
from eval_pipeline.report.numbers import NOTHING, _brief
from eval_pipeline.report.pages._about_runs import DECIDING_NAMES, changed_settings
from eval_pipeline.report.pages._widgets import badge, bullets, callout, metric_name, more, with_code
from eval_pipeline.report.pages.html import Child, Html, _data_text, _join, clipped, tag
from eval_pipeline.report.pages.material import PairMaterial
from eval_pipeline.report.verdict import Verdict, verdict_on
from eval_pipeline.words import count

MOODS: Final = {BETTER: "good", WORSE: "bad"}
GATE_MOODS: Final = {"pass": "good", "fail": "bad"}
# So many warnings are read before the numbers; the rest are folded behind them.
WARNINGS_SHOWN: Final = 3
SETTINGS_SHOWN: Final = 4
SETTING_SHOWN: Final = 40


def first_screen(material: PairMaterial) -> list[Child]:
    """What somebody who has to decide reads first."""
    verdict = verdict_on(material.document)
    return [
        _sentence(verdict, material),
        tag("p", _data_text(verdict.latency), ".", class_="note") if verdict.latency else None,
        tag("p", f"Trust: {verdict.trust}.", _also_different(material), class_="trust")
        if verdict.trust
        else None,
        _tiles(verdict, material),
        _where(verdict),
        _warnings(material),
    ]


def _sentence(verdict: Verdict, material: PairMaterial) -> Html:
    return tag("p", _findings_of(verdict), _gate(material), class_="lead verdict")


def _findings_of(verdict: Verdict) -> list[Child]:
    """The verdict as sentences, each with its word in bold."""
    return [
        _join(
            tag("strong", head, class_=MOODS.get(head.lower())) if head else None,
            ": " if head and text else None,
            _data_text(text) if text else None,
            ". ",
        )
        for head, text in verdict.findings
    ]


def _gate(material: PairMaterial) -> Html | None:
    if material.gate is None:
        return None
    return badge(f"gate: {material.gate.verdict}", GATE_MOODS.get(material.gate.verdict))


def _also_different(material: PairMaterial) -> Html | None:
    """What else the runs recorded otherwise: settings that the line before does not speak of."""
    changed = {
        name: sides for name, sides in changed_settings(*material.facts).items() if name not in DECIDING_NAMES
    }
    if not changed:
        return None
    told = [
        f"{name} {' → '.join(clipped(one, SETTING_SHOWN) for one in sides)}"
        for name, sides in changed.items()
    ]
    return _join(
        " ",
        tag("a", "Also different", href="#runs"),
        ": ",
        _data_text(shown_first(told, SETTINGS_SHOWN)),
        ".",
    )


def _tiles(verdict: Verdict, material: PairMaterial) -> Html | None:
    if not verdict.tiles:
        return None
    moved = {key for keys in material.moved.values() for key in keys}
    return tag("dl", [_tile(row, row.key in moved) for row in verdict.tiles], class_="tiles first")


def _tile(row: Row, has_questions: bool) -> Html:
    """A number with its interval; its name leads to the questions in which it moved."""
    name: Child = metric_name(row.name)
    if has_questions:
        name = tag("a", name, href=f"#metric={quote(row.key, safe='')}")
    verdict = row.verdict if row.verdict in MOODS else None
    undecided = "no significant change" if row.is_asked else "no verdict"
    return tag(
        "div",
        tag("dt", name),
        tag("dd", _brief(*row.numbers[:2]), class_="figure"),
        tag("dd", badge(verdict, MOODS[verdict]) if verdict else undecided, class_="note"),
        tag("dd", " · ".join([*_range(row), f"n {row.n}"]), class_="note"),
    )


def _range(row: Row) -> list[str]:
    """The factor of a time and the interval, as far as there are any."""
    known = [text for text in (row.factor, row.interval) if text not in ("", NOTHING)]
    return [", ".join(known)] if known else []


def _where(verdict: Verdict) -> Html | None:
    if not verdict.places:
        return None
    links = [
        tag("li", tag("a", _data_text(place.words), href=f"#{place.address}")) for place in verdict.places
    ]
    return tag(
        "nav",
        tag("p", "Where to look", class_="muted"),
        tag("ul", links),
        class_="where",
        aria_label="Where to look",
    )


def _warnings(material: PairMaterial) -> Html | None:
    warnings = material.document.warnings
    if not warnings:
        return None
    shown, rest = warnings[:WARNINGS_SHOWN], warnings[WARNINGS_SHOWN:]
    return callout(
        tag("p", tag("strong", "Before reading on")),
        bullets(with_code(one) for one in shown),
        more(count(len(rest), "more remark"), bullets(with_code(one) for one in rest)) if rest else None,
    )
