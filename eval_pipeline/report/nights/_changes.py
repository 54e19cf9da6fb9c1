"""What changed from one night to the next: settings, golden sets, labels, definitions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from eval_pipeline.report.pages._about_runs import changed_settings
from eval_pipeline.report.pages._widgets import Column, data_table, linked
from eval_pipeline.report.pages.html import Child, Html, _data_text, clipped, tag
from eval_pipeline.report.pages.material import SuiteMaterial, SuiteRun

CHANGES_SHOWN: Final = 200
VALUE_SHOWN: Final = 100
DEFINITIONS: Final = "definitions behind the values"
LABELS: Final = "labels behind the values"
GOLDEN_SET: Final = "golden set"


@dataclass(frozen=True)
class Change:
    """Something else than the night before; the changes of a night have one number, by which charts name them."""

    number: int
    run: SuiteRun
    what: str
    names: Sequence[str]


def changes_of(suite: SuiteMaterial) -> list[Change]:
    """Every change from one shown night to the next, oldest first."""
    runs = [run for run in suite.runs if run.is_shown]
    found: list[Change] = []
    for before, run in pairwise(runs):
        number = found[-1].number + 1 if found else 1
        found += [Change(number, run, what, names) for what, names in _between(before, run)]
    return found


def _between(before: SuiteRun, run: SuiteRun) -> Iterator[tuple[str, list[str]]]:
    for name, values in changed_settings(before.facts, run.facts).items():
        yield name, [" → ".join(clipped(one, VALUE_SHOWN) for one in values)]
    if before.golden and run.golden and before.golden != run.golden:
        yield GOLDEN_SET, [f"{before.golden} → {run.golden}"]
    relabelled = _unlike(before.labels, run.labels)
    if relabelled:
        yield LABELS, relabelled
    redefined = _unlike(before.fingerprints, run.fingerprints)
    if redefined:
        yield DEFINITIONS, redefined


def _unlike(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """The formulas of which both are known, and are not the same."""
    return sorted(name for name in old.keys() & new.keys() if old[name] != new[name])


def definition_changed(before: SuiteRun, run: SuiteRun, formula: str) -> bool:
    """Whether the values of the two nights rest on different definitions or labels."""
    return any(
        formula in old and formula in new and old[formula] != new[formula]
        for old, new in ((before.fingerprints, run.fingerprints), (before.labels, run.labels))
    )


def change_table(suite: SuiteMaterial, changes: Sequence[Change], prefix: str) -> Html:
    """The newest first."""
    rows: list[list[Child]] = [
        [
            f"{one.number:,}",
            one.run.night.isoformat(),
            linked(
                tag("span", _data_text(one.run.facts.run_id), class_="id"),
                suite.links.run(one.run.facts.run_id),
            ),
            _data_text(one.what, most=VALUE_SHOWN),
            _data_text(", ".join(one.names), most=300),
        ]
        for one in changes[: -CHANGES_SHOWN - 1 : -1]
    ]
    columns = [
        Column("mark", is_number=True),
        Column("night", style="short"),
        Column("run"),
        Column("what changed", style="short"),
        Column("which", style="short"),
    ]
    caption = (
        "What changed since the night before, and may be why values moved; the numbers are those in the charts. Under "
        "another definition or other labels values are not of one kind; nor are metrics of expected chunks under "
        "another chunker, or judge scores under another judge."
    )
    if len(changes) > CHANGES_SHOWN:
        caption += f" {len(changes) - CHANGES_SHOWN:,} older changes are left out."
    return data_table(f"{prefix}changes", caption, columns, rows)
