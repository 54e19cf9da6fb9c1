"""The newest answered night against the one before and against the baseline."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote

from eval_pipeline.report.pages._pair_first import GATE_MOODS, MOODS, _tile
from eval_pipeline.report.pages._widgets import badge, linked, with_code
from eval_pipeline.report.pages.html import Child, Html, _data_text, _join, tag
from eval_pipeline.report.pages.material import SuiteMaterial, SuiteRun
from eval_pipeline.report.verdict import Verdict, verdict_on


def newest_night(suite: SuiteMaterial) -> list[Child]:
    """What somebody who comes in the morning reads first."""
    answered = [run for run in suite.runs if run.is_answer]
    if not answered:
        return [tag("p", "No night has a complete run yet, so there is nothing to judge.", class_="verdict")]
    newest = answered[-1]
    return [
        tag(
            "p",
            tag("strong", f"{newest.night:%-d %B %Y}"),
            ", ",
            _run_name(suite, newest.facts.run_id),
            " ",
            _gate(newest),
            class_="verdict",
        ),
        _left_open(suite, newest),
        *_comparisons(suite),
        *_nothing_beside(suite, newest),
    ]


def _run_name(suite: SuiteMaterial, run_id: str) -> Child:
    return linked(tag("span", _data_text(run_id), class_="id"), suite.links.run(run_id))


def _gate(run: SuiteRun) -> Child:
    if run.gate is None:
        return badge("gate: not judged")
    return _join(
        badge(f"gate: {run.gate.verdict}", GATE_MOODS.get(run.gate.verdict)),
        " against ",
        tag("span", _data_text(run.gate.baseline), class_="id"),
    )


def _left_open(suite: SuiteMaterial, newest: SuiteRun) -> Html | None:
    """That a later night has no answer, which is easily overlooked where an older one stands first."""
    later = [one for one in suite.nights if one.night > newest.night]
    if not later:
        return None
    nights = f"{later[-1].night:%-d %B} has" if len(later) == 1 else f"{len(later):,} later nights have"
    return tag("p", f"{nights} no complete run; this is the newest night that has one.", class_="bad")


def _comparisons(suite: SuiteMaterial) -> Iterator[Child]:
    for place, one in enumerate(suite.compared):
        address = suite.links.pair(one.run_a, one.run_b)
        name = tag("span", _data_text(one.run_a), class_="id")
        head = _join("Against ", one.against, ", ", linked(name, address), ". ")
        if one.document is None:
            command = f"eval-pipeline compare {quote(one.run_a)} {quote(one.run_b)}"
            why = tag(
                "p", head, "What changed is not known: ", with_code(one.why), ". ", tag("code", command)
            )
            yield why
            continue
        verdict = verdict_on(one.document)
        yield tag("p", head, _sentence(verdict), class_="verdict")
        yield tag("p", f"Trust: {verdict.trust}.", class_="trust") if verdict.trust else None
        if place == 0 and verdict.tiles:
            yield tag("dl", [_tile(row, False) for row in verdict.tiles], class_="tiles first")
        yield _where(verdict, address, f"Where to look, against {one.against}")


def _sentence(verdict: Verdict) -> Html:
    return _join(
        *(
            _join(tag("strong", head, class_=MOODS.get(head.lower())), ": ", _data_text(text), ". ")
            for head, text in verdict.findings
        )
    )


def _where(verdict: Verdict, address: str | None, name: str) -> Html | None:
    """The questions behind it, where there is a page that lists them."""
    if address is None:
        return None
    links = [
        tag("li", tag("a", _data_text(place.words), href=f"{address}#{place.address}"))
        for place in verdict.places
    ]
    links.append(tag("li", tag("a", "the page of the two runs", href=address)))
    return tag(
        "nav",
        tag("p", "Where to look", class_="muted"),
        tag("ul", links),
        class_="where",
        aria_label=name,
    )


def _nothing_beside(suite: SuiteMaterial, newest: SuiteRun) -> Iterator[Child]:
    if not any(run.is_answer and run is not newest for run in suite.runs):
        yield tag("p", "It is the first night: there is none before it to compare it with.", class_="note")
    if suite.baseline is None:
        yield tag(
            "p",
            "No baseline is named for this suite; ",
            tag("code", "[baselines]"),
            " in eval-pipeline.toml names one.",
            class_="note",
        )
    elif suite.baseline == newest.facts.run_id:
        yield tag("p", "It is the baseline itself.", class_="note")
