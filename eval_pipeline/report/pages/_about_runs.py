"""What pages say of runs and formulas: origin, what values are computed from, what is stale."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from eval_pipeline.report.comparison_rows import shown_first
from eval_pipeline.report.links import NO_LINKS, Links
from eval_pipeline.report.numbers import NOTHING
from eval_pipeline.report.pages._widgets import (
    Column,
    badge,
    bullets,
    callout,
    data_table,
    linked,
    or_nothing,
)
from eval_pipeline.report.pages.html import Child, Html, _data_text, tag
from eval_pipeline.report.pages.material import FormulaState, RunFacts
from eval_pipeline.settings import product_version
from eval_pipeline.words import count

COMMIT_LENGTH = 12
NOT_RECORDED: Final = "not recorded"
NAMED: Final = 20
CONFIGURATION = {
    "chunker_version": "Chunker",
    "embedding_model": "Embedding",
    "index_version": "Index",
    "prompt_version": "Prompt",
    "llm_model": "Language model",
    "top_k": "Hits asked for",
    "folder_mode": "Folder mode",
}
JUDGE = {
    "model": "Judge",
    "version": "Judge version",
    "temperature": "Judge temperature",
    "prompt_version": "Judge prompt",
}
# By their place in a run's configuration.
SETTING_NAMES: Final = {
    **{key: name.lower() for key, name in CONFIGURATION.items()},
    **{f"judge.{key}": name.lower() for key, name in JUDGE.items()},
}
DECIDING: Final = (
    "chunker_version",
    "embedding_model",
    "prompt_version",
    "llm_model",
    *(f"judge.{key}" for key in JUDGE),
)
DECIDING_NAMES: Final = frozenset(SETTING_NAMES[place] for place in DECIDING)


def run_facts(facts: RunFacts) -> dict[str, Child]:
    """Where a run comes from and how it was set up."""
    return {
        "Dataset": _data_text(facts.dataset),
        "Suite": _text(facts.suite),
        "Night": facts.night.isoformat() if facts.night else None,
        "Started": f"{facts.created_at:%Y-%m-%d %H:%M} UTC" if facts.created_at else None,
        "Attempt": str(facts.attempt) if facts.attempt is not None else None,
        "Replaces": _text(facts.replaces),
        "Repeats": _text(facts.replicate_of),
        "Commit": _text(facts.commit_hash and facts.commit_hash[:COMMIT_LENGTH]),
        **{name: _text(value) for name, value in configuration(facts).items()},
    }


def configuration(facts: RunFacts) -> dict[str, object]:
    """The settings that a reader compares, judge and all, by their shown names."""
    judge = facts.config.get("judge")
    known: Mapping[str, object] = judge if isinstance(judge, Mapping) else {}
    return {
        **{name: facts.config.get(key) for key, name in CONFIGURATION.items()},
        **{name: known.get(key) for key, name in JUDGE.items()},
    }


def recorded_settings(facts: RunFacts) -> dict[str, str]:
    """Every setting that the run says of itself, by its shown name or else its place: `retriever.alpha`."""
    return {SETTING_NAMES.get(place, place): text for place, text in _settings(facts.config, "")}


def _settings(settings: Mapping[str, object], before: str) -> Iterator[tuple[str, str]]:
    for name, value in settings.items():
        if before.startswith("judges.") and name == "n":
            continue  # The number of its scores is a result.
        if isinstance(value, Mapping):
            yield from _settings(value, f"{before}{name}.")
        elif value is not None:
            told = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
            yield f"{before}{name}", told


def changed_settings(a: RunFacts, b: RunFacts) -> dict[str, tuple[str, str]]:
    """Name → what a and b recorded, for every setting that is not the same."""
    before, after = recorded_settings(a), recorded_settings(b)
    return {
        name: (before.get(name, NOT_RECORDED), after.get(name, NOT_RECORDED))
        for name in {**before, **after}
        if before.get(name) != after.get(name)
    }


def settings_sentence(a: RunFacts, b: RunFacts) -> str:
    """What differs; of what makes answers and scores also what is the same, and what neither run recorded."""
    changed, recorded = changed_settings(a, b), recorded_settings(a)
    rest = [SETTING_NAMES[place] for place in DECIDING if SETTING_NAMES[place] not in changed]
    told = {
        "Differs": [name for name, sides in changed.items() if NOT_RECORDED not in sides],
        "Recorded for one run alone": [name for name, sides in changed.items() if NOT_RECORDED in sides],
        "The same": [name for name in rest if name in recorded],
        "Not recorded": [name for name in rest if name not in recorded],
    }
    return " ".join(f"{what}: {shown_first(names, NAMED)}." for what, names in told.items() if names)


def _text(value: Any) -> Child:
    return None if value is None else _data_text(str(value), most=200)


def stale_callout(states: Mapping[str, FormulaState]) -> Html | None:
    """Which values do not hold any more, and what to do."""
    marked: dict[str, list[str]] = {}
    for state in states.values():
        if state.mark is not None and state.state not in ("frozen", "failed"):
            marked.setdefault(state.mark, []).append(state.formula)
    if not marked:
        return None
    items = [f"{mark}: {', '.join(formulas)}" for mark, formulas in sorted(marked.items())]
    total = sum(map(len, marked.values()))
    return callout(
        tag(
            "p",
            f"{count(total, 'formula')} not up to date. ",
            tag("code", "eval-pipeline run --all"),
            " computes them anew.",
        ),
        bullets(items),
    )


def state_badge(state: FormulaState | None) -> Html | None:
    """Nothing for what is fresh."""
    if state is None or state.mark is None:
        return None
    return badge(state.mark, None if state.state in ("pinned", "frozen") else "bad")


def formula_table(
    states: Sequence[Mapping[str, FormulaState]], names: Sequence[str], links: Links = NO_LINKS
) -> Html:
    """Version, fingerprint and state of every formula; of two runs both where they differ."""
    columns = [
        Column("formula"),
        Column("metrics", style="meaning"),
        Column("version", is_number=True),
        Column("fingerprint"),
        Column("state"),
    ]
    rows: list[list[Child]] = []
    for formula in sorted({name for known in states for name in known}):
        own = [known.get(formula) for known in states]
        keys = next(state.keys for state in own if state)
        cells = zip(*(_formula_cells(state) for state in own), strict=True)
        rows.append(
            [
                tag("span", linked(formula, links.formula(formula)), class_="id"),
                ", ".join(keys),
                *(_once(cell, names) for cell in cells),
            ]
        )
    caption = "A fingerprint changes exactly when the meaning of a formula can change."
    return data_table("formulas", caption, columns, rows)


def _formula_cells(state: FormulaState | None) -> list[Html | str]:
    if state is None:
        return [NOTHING, NOTHING, NOTHING]
    return [
        NOTHING if state.version is None else str(state.version),
        tag("span", or_nothing(state.fingerprint), class_="id"),
        state_badge(state) or "fresh",
    ]


def _once(cells: Sequence[Html | str], names: Sequence[str]) -> Child:
    """What is the same in all runs once, else each with the name of its run."""
    if len(set(cells)) == 1:
        return cells[0]
    return [
        tag("div", tag("span", f"{name}: ", class_="muted"), cell)
        for name, cell in zip(names, cells, strict=True)
    ]


def footer_line(format_number: int) -> Html:
    """Which product wrote the page."""
    return tag(
        "p",
        f"Written by eval-pipeline {product_version()}, document format {format_number}. Values are rounded to "
        "4 decimals; n is the number of queries that a value is a mean of.",
    )
