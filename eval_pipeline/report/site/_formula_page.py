"""The page of a formula: its text as it is, its history, its last values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

from eval_pipeline.report.numbers import NOTHING, value
from eval_pipeline.report.pages._about_runs import footer_line
from eval_pipeline.report.pages._page import Page, Section, render_page
from eval_pipeline.report.pages._widgets import (
    Column,
    breakable_name,
    data_table,
    facts_list,
    linked,
    metric_name,
    more,
)
from eval_pipeline.report.pages.html import Child, Html, _data_text, _join, tag
from eval_pipeline.report.site._material import FormulaMaterial, LastValue
from eval_pipeline.report.site._style import site_style
from eval_pipeline.words import count


def render_formula_page(material: FormulaMaterial) -> str:
    """The whole page as text."""
    found, name = material.described, material.short_name
    return render_page(
        Page(
            kind="Formula",
            title=f"{name} · formula",
            heading=tag("span", _data_text(name), class_="id"),
            lead=[
                tag("p", _data_text(found["about"]), class_="lead") if found["about"] else None,
                facts_list(_facts(material)),
            ],
            sections=list(_sections(material)),
            footer=[footer_line(1)],
            crumbs=[("all runs", material.links.home())],
            style=site_style(),
        )
    )


def _facts(material: FormulaMaterial) -> dict[str, Child]:
    found = material.described
    return {
        "Version": f"{found['version']}",
        "Fingerprint": tag("span", found["fingerprint"], class_="id"),
        "Applies": tag("code", " ".join(found["applies"].split())) if found["applies"] else "to every row",
        "Undefined": material.undefined,
        "Scale": f"{found['scale']}, {found['direction']} is better",
        "Aggregate": found["aggregate"],
        "Family": found["family"],
        "Written in": "Python" if found["language"] == "python" else "SQL",
        "File": tag("span", _data_text(PurePath(found["file"]).name), class_="id"),
        "Decided in": found["why"],
    }


def _sections(material: FormulaMaterial) -> Iterator[Section]:
    found = material.described
    rows: list[list[Child]] = [[metric_name(key), meaning] for key, meaning in found["keys"].items()]
    columns = [Column("metric"), Column("what it says", style="meaning")]
    yield Section("metrics", "Metrics", [data_table("metrics", "What it yields.", columns, rows)])
    if material.last:
        yield Section("values", "Newest values", [_last_values(material)])
    yield Section("text", "Definition", [*_parameters(found), _listing("Definition", found["body"].strip())])
    if found["examples"]:
        lines = "\n".join(found["examples"])
        yield Section("examples", "Examples", [_listing("Examples", lines)])
    yield Section("used", "Where it is used", [facts_list(_uses(material))])
    yield Section("history", "History", list(_history(material)))


def _listing(name: str, text: str) -> Html:
    """Lines that a keyboard can scroll."""
    return tag("pre", tag("code", text), role="group", tabindex="0", aria_label=name)


def _parameters(found: Mapping[str, Any]) -> Iterator[Html]:
    if found["parameters"]:
        rows: list[list[Child]] = [
            [
                tag("span", name, class_="id"),
                f"{setting}",
                ", ".join(f"{one}" for one in found["choices"].get(name, ()) if one != setting) or NOTHING,
            ]
            for name, setting in found["parameters"].items()
        ]
        columns = [Column("parameter"), Column("value"), Column("or")]
        caption = "As it is set here; eval-pipeline.toml may set it otherwise."
        yield data_table("parameters", caption, columns, rows)


def _last_values(material: FormulaMaterial) -> Html:
    keys = [key for key in material.described["keys"] if any(key in one.values for one in material.last)]
    columns = [
        Column("suite"),
        Column("run"),
        *(Column(breakable_name(key), is_number=True) for key in keys),
    ]
    rows = [_last_row(one, keys, material) for one in material.last]
    caption = "Of the newest complete night of every suite: the mean, and n in brackets."
    return data_table("values", caption, columns, rows)


def _last_row(one: LastValue, keys: list[str], material: FormulaMaterial) -> list[Child]:
    links, run = material.links, one.run
    name = _data_text(f"{run.suite or 'no suite'} on {run.dataset}")
    shown = [one.values.get(key, (None, 0)) for key in keys]
    return [
        linked(name, links.suite(run.suite, run.dataset)),
        tag("span", linked(_data_text(run.run_id), links.run(run.run_id)), class_="id"),
        *(f"{value(number)} ({n:,})" if n else NOTHING for number, n in shown),
    ]


def _uses(material: FormulaMaterial) -> dict[str, Child]:
    found, links = material.described, material.links

    def names(full: list[str]) -> Child:
        pieces: list[Child] = []
        for place, name in enumerate(full):
            address = links.formula(name.split(".", 1)[1]) if name.startswith("metrics.") else None
            pieces += [", " if place else None, linked(_data_text(name), address)]
        return _join(pieces) if pieces else None

    return {
        "Reads": names(found["reads"]),
        "Read by": names(found["read_by"]),
        "A reading of": names([found["reading_of"]]) if found["reading_of"] else None,
        "Headline of its family": ", ".join(found["headline"]),
        "Judged by the gate": ", ".join(material.rules),
    }


def _history(material: FormulaMaterial) -> Iterator[Html]:
    if not material.history:
        yield tag("p", "No value was computed with it in this store.")
        return
    for one in material.history:
        said = (
            f"Version {one.version}, first used {one.first_used_at.replace('T', ' ')} UTC, "
            f"now behind {count(one.runs, 'run')}"
        )
        yield tag("p", said, ": ", tag("span", one.fingerprint, class_="id"))
        if one.diff:
            yield more("What it changed", _listing("Change", one.diff.rstrip()))
