"""What pages say of runs and formulas: origin, what values are computed from, what is stale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from eval_pipeline.report.numbers import NOTHING
from eval_pipeline.report.pages._widgets import Column, badge, bullets, callout, data_table, or_nothing
from eval_pipeline.report.pages.html import Child, Html, _data_text, tag
from eval_pipeline.report.pages.material import FormulaState, RunFacts
from eval_pipeline.settings import product_version
from eval_pipeline.words import count

COMMIT_LENGTH = 12
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


def formula_table(states: Sequence[Mapping[str, FormulaState]], names: Sequence[str]) -> Html:
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
            [tag("span", formula, class_="id"), ", ".join(keys), *(_once(cell, names) for cell in cells)]
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
