"""The newest answered night against the one before and against the baseline."""

from __future__ import annotations

from collections.abc import Iterator

from eval_pipeline.report.nights._compared import comparisons
from eval_pipeline.report.pages._pair_first import GATE_MOODS
from eval_pipeline.report.pages._widgets import badge, linked
from eval_pipeline.report.pages.html import Child, Html, _data_text, _join, tag
from eval_pipeline.report.pages.material import SuiteMaterial, SuiteRun


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
        *comparisons(suite.compared, suite.links),
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
