"""Forms that lead to a server of these pages."""

from __future__ import annotations

from collections.abc import Sequence

from eval_pipeline.report.pages.html import Html, tag, visible


def search_form(address: str, words: str = "") -> Html:
    """Finds runs and questions."""
    field = tag("input", type="search", name="q", value=words or None, required=True)
    return _form(address, tag("label", "Run or question", field), tag("button", "Search"))


def pair_form(address: str, runs: Sequence[str]) -> Html:
    """Chooses any two runs: the newer one is the newest, the older one the run before it in the list."""
    return _form(
        address,
        tag("label", "Run", _choice("b", runs, runs[0])),
        tag("label", "against", _choice("a", runs, runs[1])),
        tag("button", "Compare"),
    )


def sql_form(address: str, sql: str) -> Html:
    """One question to the store."""
    field = tag("textarea", "\n" + sql, name="q", required=True, spellcheck="false")
    return _form(address, tag("label", "SQL, read-only", field, class_="full"), tag("button", "Ask"))


def _choice(name: str, runs: Sequence[str], chosen: str) -> Html:
    options = [tag("option", visible(run), value=run, selected=run == chosen) for run in runs]
    return tag("select", options, name=name)


def _form(address: str, *content: Html) -> Html:
    return tag("form", content, action=address, method="get", class_="ask")
