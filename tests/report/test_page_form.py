"""The form of a page: readable by everybody, small, and drawn in its own colours."""

from __future__ import annotations

import re
from itertools import pairwise
from xml.etree import ElementTree

import msgspec
import pytest

from eval_pipeline.comparing.documents import CompareReport
from eval_pipeline.report.pages.figures import drawn, inline_svg
from eval_pipeline.report.pages.material import (
    ChunkRow,
    FormulaState,
    MetricFacts,
    PairMaterial,
    QueryRow,
    QueryTexts,
    RunFacts,
    RunMaterial,
)
from eval_pipeline.report.pages.pair_page import render_pair_page
from eval_pipeline.report.pages.run_charts import labels_of, latency_chart
from eval_pipeline.report.pages.run_page import render_run_page
from eval_pipeline.showing.run_report import RunReport
from tests.report.page_reader import PageReader

PAGES = ("run", "pair", "fallback", "suite")
LIMIT = 2_000_000


@pytest.mark.parametrize("name", PAGES)
def test_headings_go_down_one_level_at_a_time(readers: dict[str, PageReader], name: str) -> None:
    levels = [int(one.name[1]) for one in readers[name].elements if re.fullmatch(r"h[1-6]", one.name)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


@pytest.mark.parametrize("name", PAGES)
def test_a_keyboard_reaches_everything(readers: dict[str, PageReader], name: str) -> None:
    reader = readers[name]
    first = next(reader.named("a"))
    ids = {one.attributes["id"] for one in reader.elements if "id" in one.attributes}
    assert first.attributes["href"] == "#content"
    leads = [str(one.attributes["href"]).removeprefix("#") for one in reader.named("a")]
    assert all(place in ids or place.startswith(("kind=", "slice=", "metric=")) for place in leads)
    frames = [one for one in reader.named("div") if one.attributes.get("class") == "scroll"]
    assert frames
    assert all(one.attributes["tabindex"] == "0" and one.attributes["role"] == "region" for one in frames)
    named = [
        str(one.attributes[key])
        for one in reader.elements
        for key in ("aria-labelledby",)
        if key in one.attributes
    ]
    assert all(part in ids for names in named for part in names.split())


@pytest.mark.parametrize("name", PAGES)
def test_ids_are_unique(readers: dict[str, PageReader], name: str) -> None:
    ids = [one.attributes["id"] for one in readers[name].elements if "id" in one.attributes]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("name", PAGES)
def test_every_table_has_a_caption_and_every_chart_a_title_and_words(
    pages: dict[str, str], name: str
) -> None:
    page = pages[name]
    assert page.count("<caption") == page.count("<table")
    drawings = re.findall(r'<svg role="img".*?</svg>', page, re.DOTALL)
    assert len(drawings) == page.count("<svg") - page.count('aria-hidden="true" class="joins"')
    for drawing in drawings:
        root = ElementTree.fromstring(drawing)
        title, words = root.find("title"), root.find("desc")
        assert title is not None and title.text
        assert words is not None and re.search(r"\d|no difference|never", words.text or "")
    assert page.count("<figcaption") == len(drawings)


@pytest.mark.parametrize("name", PAGES)
def test_charts_take_their_colours_from_the_page(pages: dict[str, str], name: str) -> None:
    colours = set(re.findall(r'(?:fill|stroke)="([^"]*)"', pages[name]))
    assert colours
    assert all(colour == "none" or re.fullmatch(r"var\(--\w+\)", colour) for colour in colours)


def test_a_drawing_keeps_nothing_that_could_act() -> None:
    drawing = (
        '<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1" onload="x()"><script>x()</script>'
        '<a href="javascript:x()"><text>in a link</text></a><image href="https://example.org/a.png"/>'
        '<g style="fill:red" onclick="x()"><text fill="#010101" class="q">ok &lt;b&gt;</text></g>'
        "<foreignObject><p>no</p></foreignObject></svg>"
    )
    page = inline_svg(drawing, name="n", title="<t>", alternative='"a"')
    assert 'fill="var(--ink)">ok &lt;b&gt;</text>' in page
    for forbidden in ("script", "href", "onload", "onclick", "style", "image", "foreignObject", "<t>"):
        assert forbidden not in page


def test_a_chart_of_one_value_can_be_drawn() -> None:
    page = drawn(latency_chart([5.0], 5.0, 5.0))
    assert "Half of 1 query took at most 5 ms" in page
    assert "<path" in page


def test_names_that_are_cut_alike_stay_apart_in_a_chart() -> None:
    long = "x" * 60
    labels = labels_of([long + "1", long + "2", "short", long + "1"])
    assert labels[long + "1"] == "x" * 39 + "…"
    assert labels[long + "2"] == "x" * 39 + "… (2)"
    assert labels["short"] == "short"


@pytest.mark.parametrize("letter", ["a", "<", "語"])
def test_a_thousand_queries_stay_below_two_megabytes(letter: str) -> None:
    for page in (render_run_page(big_run(letter)), render_pair_page(big_pair(letter))):
        assert len(page.encode()) < LIMIT
        assert page.count("<details>") > 10
        assert "To keep this page small" in page or "more queries are not listed" in page


def test_what_had_no_room_is_said_and_the_most_important_is_there() -> None:
    reader = PageReader(render_run_page(big_run("語")))
    rows = [row for row in reader.tables["run-queries"] if len(row) > 1][1:]
    kinds = [row[1] for row in rows]
    assert kinds == sorted(kinds, key=("failed", "not found", "found").index)
    assert kinds.count("failed") == 100
    listed = re.search(r"([\d,]+) more queries are not listed", reader.text)
    assert len(rows) + (int(listed[1].replace(",", "")) if listed else 0) == 1_000


def big_queries(letter: str) -> list[QueryRow]:
    return [
        QueryRow(
            query_key=number,
            query_id=f"{number} " + letter * 200,
            question=letter * 400,
            category=letter * 30,
            error=letter * 2_000 if number % 10 == 0 else None,
            is_failed=number % 10 == 0,
            n_expected=1,
            first_rank=number % 4 or None,
            answer=letter * 2_000,
        )
        for number in range(1_000)
    ]


def big_texts(letter: str, n_runs: int) -> dict[str, QueryTexts]:
    chunks = [ChunkRow(f"chunk {place} " + letter * 40, letter * 1_500) for place in range(10)]
    return {row.query_id: QueryTexts(chunks[:2], [chunks] * n_runs) for row in big_queries(letter)}


METRIC = MetricFacts("hit@5", "hit_at_k", "hit_at_k", "Whether", "n > 0", None, "binary", (0, 1), "higher")
FACTS = RunFacts("run", "data", None, None, None, None, None, None, None, {})
STATES = {"hit_at_k": FormulaState("hit_at_k", 1, "fp1:0", "fresh")}


def big_run(letter: str) -> RunMaterial:
    document = {
        "format": 1,
        "run_id": "run",
        "dataset": "data",
        "total_queries": 1_000,
        "failed_queries": 100,
        "missing_query_ids": [],
        "unknown_query_ids": [],
        "metrics": {"hit@5": {"value": 0.75, "n": 1_000}},
        "slices": {
            "tag": {
                f"{number} {letter * 60}": {
                    "n_queries": 2,
                    "is_small": True,
                    "metrics": {"hit@5": {"value": 0.5, "n": 2}},
                }
                for number in range(500)
            }
        },
        "performance": {
            "latency_ms": {"n": 0, "p50": None, "p95": None, "mean": None},
            "latency_breakdown_ms": {},
            "total_suite_ms": None,
            "judge_tokens": 0,
            "judge_cost": None,
        },
        "judge_coverage": {"groundedness_n": 0, "correctness_n": 0, "inconsistent_n": 0, "uncited_fives": 0},
        "judge_reliability": {"disagreement_rate": None, "spot_check_n": 0},
        "judge_config_problems": [],
        "extraction": None,
        "indexing": None,
        "readings": {},
        "formulas": {},
        "night": {
            "night": "2026-09-01",
            "is_complete": True,
            "is_last_complete": True,
            "superseded_by": None,
            "golden_queries": 1_000,
            "not_asked": 0,
        },
        "quarantined": {},
    }
    return RunMaterial(
        document=msgspec.convert(document, RunReport),
        facts=FACTS,
        metrics=[METRIC],
        states=STATES,
        queries=big_queries(letter),
        values={},
        texts=big_texts(letter, 1),
        latencies=[],
        field_errors={},
        guide_version="1.0.0",
    )


def big_pair(letter: str) -> PairMaterial:
    rows = {row.query_id: row for row in big_queries(letter)}
    per_query = [
        {
            "query_id": query_id,
            "kind": "loss",
            "regression": True,
            "regressed_chunk_ids": ["c"],
            "a_hit_rank": 1 + row.query_key % 10,
            "b_hit_rank": None,
            "note": None,
        }
        for query_id, row in rows.items()
    ]
    tested = {
        "delta": -0.5,
        "ci_low": -0.6,
        "ci_high": -0.4,
        "p_value": 0.0,
        "p_adjusted": 0.0,
        "n": 1_000,
        "mde": 0.1,
    }
    document = {
        "format": 1,
        "run_a": "a",
        "run_b": "b",
        "aggregate_a": {"hit@5": 0.75},
        "aggregate_b": {"hit@5": 0.25},
        "deltas": {"chunker_version_match": "exact", "hit@5": -0.5},
        "per_query": per_query,
        "counts": {"win": 0, "loss": 1_000, "draw": 0, "rank_up": 0, "rank_down": 0, "regressions": 1_000}
        | {"not_applicable": 0, "not_comparable": 0},
        "causes": [],
        "only_in_a": [],
        "only_in_b": [],
        "warnings": [],
        "fallback_metrics": None,
        "significance": {"hit@5": {**tested, "test": "imagined_moves"}},
        "adjustment": "benjamini_hochberg",
        "caveats": {},
        "fallback_significance": None,
        "slices": [],
        "noise": {"hit@5": {"low": -0.1, "high": 0.1, "pairs": 19}},
        "identical_pairs": {"n": 19, "needed": 19},
        "flaky_queries": [{"query_id": "flaky", "flips": 2, "pairs": 19}],
        "parts": {"latency_p50_ms": {"a": 10, "b": 12, "delta": 2}},
        "sensitivity": None,
    }
    return PairMaterial(
        document=msgspec.convert(document, CompareReport),
        facts=(FACTS, FACTS),
        metrics=[METRIC],
        states=(STATES, STATES),
        queries=(rows, rows),
        texts=big_texts(letter, 2),
    )
