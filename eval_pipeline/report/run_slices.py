"""The slices of a run as small multiples, with all their numbers below."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from eval_pipeline.report.families import SLICED, chosen, is_share
from eval_pipeline.report.figures import figure
from eval_pipeline.report.markup import Child, Html, data_text, tag
from eval_pipeline.report.material import RunMaterial
from eval_pipeline.report.numbers import value
from eval_pipeline.report.page import Section
from eval_pipeline.report.parts import Column, data_table, more
from eval_pipeline.report.run_charts import MOST_BARS, Bar, slice_chart

PANELS: Final = 4
LISTED: Final = 100
UNLABELLED: Final = "(none)"
ORDERED: Final = {"difficulty": ("easy", "medium", "hard")}

Values = Mapping[str, Mapping[str, Any]]


def slices_section(material: RunMaterial) -> Iterator[Section]:
    """Every dimension that says more than the whole run does."""
    metrics = material.document["metrics"]
    shares = [one.key for one in material.metrics if is_share(one) and metrics[one.key]["n"]]
    keys = chosen(SLICED, shares, most=PANELS) or shares[:PANELS]
    content: list[Html] = []
    if keys:
        for dimension, values in material.document["slices"].items():
            if set(values) - {UNLABELLED}:
                content.append(_dimension(dimension, values, material, keys))
    if content:
        yield Section(
            "slices",
            "Slices",
            [
                tag(
                    "p", "The dashed line is the whole run. A query can stand under several tags and vaults."
                ),
                *content,
            ],
        )


def _dimension(dimension: str, values: Values, material: RunMaterial, keys: list[str]) -> Html:
    metrics = material.document["metrics"]
    ordered = _ordered(dimension, values)
    shown = ordered[:MOST_BARS]
    bars = [
        Bar(key, label, entry["value"], entry["n"])
        for label in shown
        for key in keys
        if (entry := values[label]["metrics"][key])["n"]
    ]
    table = _numbers(dimension, values, material, ordered[:LISTED])
    left_out = f" The {len(shown)} largest of {len(ordered):,}." if len(ordered) > len(shown) else ""
    summary = f"All numbers by {dimension}" + (
        f" (the first {LISTED} of {len(ordered):,})" if len(ordered) > LISTED else ""
    )
    if not bars:
        return more(summary, table)
    whole = {key: metrics[key]["value"] for key in keys}
    drawn = [key for key in keys if any(bar.metric == key for bar in bars)]
    chart = slice_chart(dimension, bars, whole, drawn)
    return figure(chart, tag("p", left_out, class_="note") if left_out else None, more(summary, table))


def _ordered(dimension: str, values: Values) -> list[str]:
    """In the order that the words have, else the largest first."""
    known = ORDERED.get(dimension, ())
    return sorted(
        values,
        key=lambda label: (
            label == UNLABELLED,
            known.index(label) if label in known else len(known),
            -values[label]["n_queries"],
            label,
        ),
    )


def _numbers(dimension: str, values: Values, material: RunMaterial, labels: list[str]) -> Html:
    metrics = material.document["metrics"]
    keys = [one.key for one in material.metrics if metrics[one.key]["n"]]
    columns = [
        Column(dimension),
        Column("queries", is_number=True),
        *(Column(key, is_number=True) for key in keys),
    ]
    rows: list[list[Child]] = [
        [
            data_text(label, most=80),
            f"{values[label]['n_queries']:,}{'*' if values[label].get('is_small') else ''}",
            *(_cell(values[label]["metrics"][key]) for key in keys),
        ]
        for label in labels
    ]
    caption = "Values, with n in brackets."
    if any(values[label].get("is_small") for label in labels):
        caption += " * few queries: a single one moves a value by more than a tenth."
    return data_table(f"slice-{dimension}-numbers", caption, columns, rows)


def _cell(entry: Mapping[str, Any]) -> str:
    return f"{value(entry['value'])} ({entry['n']:,})" if entry["n"] else "—"
