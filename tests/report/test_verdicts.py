"""The verdict of a comparison: what is said first, what it rests on, and where to look."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from eval_pipeline.comparing.documents import (
    CompareReport,
    Counts,
    PartCompared,
    QueryVerdict,
    SliceMoved,
)
from eval_pipeline.comparing.documents import (
    Tested as Answer,
)
from eval_pipeline.report.comparison_rows import rows_of, short_names, surest_metric
from eval_pipeline.report.markdown import render_report_md, render_short_md
from eval_pipeline.report.verdict import verdict_on

COUNTS = dict.fromkeys(Counts.__struct_fields__, 0)


def judged(delta: float | None, **more: Any) -> Answer:
    own = {
        "ci_low": -1.0,
        "ci_high": 1.0,
        "p_value": 0.5,
        "p_adjusted": 0.5,
        "test": "imagined_moves",
        "n": 9,
    }
    return Answer(delta=delta, **(own | {"mde": 0.25, "family": "retrieval", "verdict": "not shown"} | more))


def report(significance: dict[str, Answer], **more: Any) -> CompareReport:
    own: dict[str, Any] = {
        "aggregate_a": dict.fromkeys(significance, 0.5),
        "aggregate_b": {key: 0.5 + (one.delta or 0) for key, one in significance.items()},
        "deltas": {"chunker_version_match": "exact", **{key: one.delta for key, one in significance.items()}},
    }
    return CompareReport(
        **(
            own | {"run_a": "night-1", "run_b": "night-2", "per_query": [], "counts": Counts(**COUNTS)} | more
        ),
        causes=[],
        warnings=[],
        fallback_metrics=None,
        significance=significance,
        caveats={},
        fallback_significance=None,
    )


WORSE = {"verdict": "worse", "p_adjusted": 0.01}
BETTER = {"verdict": "better", "p_adjusted": 0.001}


@pytest.mark.parametrize(
    ("found", "word"),
    [
        ({"hit@5": judged(-0.2, **WORSE), "mrr": judged(0.0)}, "worse"),
        ({"hit@5": judged(0.2, **BETTER)}, "better"),
        (
            {"hit@5": judged(0.2, **BETTER), "error_rate": judged(0.1, family="failures", **WORSE)},
            "mixed",
        ),
        ({"hit@5": judged(0.2)}, "no significant change"),
        ({"hit@5": judged(0.0, test="identical", is_identical=True)}, "the same"),
        ({"hit@5": judged(0.3, verdict=None)}, "nothing to compare"),
        ({}, "nothing to compare"),
    ],
)
def test_one_word_sums_up_what_was_shown(found: dict[str, Answer], word: str) -> None:
    assert verdict_on(report(found)).word == word


def test_what_is_worse_is_said_before_what_is_better_and_one_family_does_not_fill_the_sentence() -> None:
    losses = {f"hit@{k}": judged(-0.2, **WORSE) for k in range(1, 9)}
    found = {**losses, "groundedness": judged(0.1, family="answers", **BETTER)}
    found["error_rate"] = judged(0.1, family="failures", **WORSE)
    sentence = verdict_on(report(found)).sentence
    assert sentence.startswith("Mixed. Worse: hit@1 0.50 → 0.30, error_rate 0.50 → 0.60, ")
    assert " more. Better: groundedness 0.50 → 0.60." in sentence and len(sentence) <= 160


def test_without_a_change_the_sentence_says_how_much_would_have_shown() -> None:
    sentence = verdict_on(report({"hit@5": judged(0.02), "mrr": judged(0.01)})).sentence
    assert sentence == "No significant change. Smallest detectable change: hit@5 ±0.25 (details)."


def test_times_have_a_line_of_their_own_with_their_factor() -> None:
    times = PartCompared(
        a=2000.0,
        b=4000.0,
        delta=2000.0,
        ci_low=1500.0,
        ci_high=2500.0,
        p_value=0.001,
        p_adjusted=0.002,
        test="between_runs",
        n=9,
        mde=None,
        adjusted_as=None,
        ratio=2.0,
        ratio_low=1.5,
        ratio_high=2.5,
        delta_in_both=2000.0,
        family="latency",
        verdict="worse",
    )
    document = report({"hit@5": judged(0.0)}, parts={"latency_mean_ms": times})
    verdict = verdict_on(document)
    assert (verdict.word, "latency" in verdict.sentence) == ("no significant change", False)
    assert verdict.latency == (
        "Latency: mean 2,000.0 → 4,000.0 ms (per query ×2.00); worse, by more than runs of one configuration differ"
    )
    (row,) = [row for row in rows_of(document) if row.key == "latency_mean_ms"]
    assert row.interval == "×1.50 to ×2.50"


def test_four_tiles_say_four_things() -> None:
    found = {f"hit@{k}": judged(-0.2, **WORSE) for k in range(1, 9)}
    found |= {"error_rate": judged(0.0, family="failures"), "citations": judged(0.0, family="answers")}
    tiles = verdict_on(report(found)).tiles
    assert [tile.family for tile in tiles] == ["retrieval", "answers", "failures", "retrieval"]


def test_where_to_look_names_the_runs_and_leads_to_the_queries() -> None:
    lost = [
        QueryVerdict(
            query_id=f"q{place}",
            kind="loss",
            regression=True,
            regressed_chunk_ids=[],
            a_hit_rank=1,
            b_hit_rank=None,
            note="prompt diff; error in b",
        )
        for place in range(3)
    ]
    moved = SliceMoved(
        slice="tag",
        slice_value="a b",
        metric="mrr",
        n_queries=2,
        n=2,
        delta=-0.5,
        p_value=0.01,
        p_adjusted=0.02,
    )
    document = report(
        {"hit@5": judged(-0.2, **WORSE)},
        per_query=lost,
        counts=Counts(**{**COUNTS, "loss": 3}),
        slices=[moved],
        trust=["3 queries in both", "same labels"],
    )
    verdict = verdict_on(document)
    assert [(place.words, place.address) for place in verdict.places] == [
        ("3 errors in night-2", "kind=error"),
        ("3 lost", "kind=loss"),
        ("tag = a b: mrr −0.5000", "slice=tag%3Da%20b"),
    ]
    for text in (render_report_md(document), render_short_md(document)):
        assert "3 errors in night-2 · 3 lost" in text
        assert "Trust: 3 queries in both · same labels." in text


def test_a_slice_that_is_all_there_is_and_the_same_movement_under_a_second_name_are_no_places_to_look() -> (
    None
):
    def moved(name: str, n: int, delta: float) -> SliceMoved:
        return SliceMoved(
            slice="tag",
            slice_value=name,
            metric="hit@5",
            n_queries=n,
            n=n,
            delta=delta,
            p_value=0.01,
            p_adjusted=0.02,
        )

    slices = [moved("answerable", 9, -0.4), moved("work", 4, -0.5), moved("office", 4, -0.5)]
    asked = [
        QueryVerdict(
            query_id=f"q{place}",
            kind="draw",
            regression=False,
            regressed_chunk_ids=[],
            a_hit_rank=1,
            b_hit_rank=1,
            note=None,
        )
        for place in range(12)
    ]
    document = report({"hit@5": judged(-0.4, **WORSE)}, per_query=asked, slices=slices)
    assert [place.words for place in verdict_on(document).places] == ["tag = work: hit@5 −0.5000"]


def test_what_is_proposed_to_be_explained_is_what_the_verdict_is_about() -> None:
    within_noise = judged(0.3, p_adjusted=0.001, verdict="not shown")
    assert surest_metric(report({"mrr": within_noise})) is None
    assert surest_metric(report({"mrr": within_noise, "hit@5": judged(-0.2, **WORSE)})) == "hit@5"


def test_what_cannot_be_compared_stands_last() -> None:
    document = report(
        {"ap@5": judged(-0.5, verdict=None), "mrr": judged(0.1), "ndcg": judged(0.1, verdict=None)}
    )
    document = replace(document, caveats={"ap@5": "labels name the chunks of one chunker version"})
    assert [row.key for row in rows_of(document)] == ["mrr", "ndcg", "ap@5"]


def test_every_way_of_showing_a_comparison_has_the_same_rows_in_the_same_order() -> None:
    document = report(
        {"mrr": judged(0.01), "hit@5": judged(-0.2, **WORSE), "error_rate": judged(0.1, **BETTER)}
    )
    assert [row.key for row in rows_of(document)] == ["hit@5", "error_rate", "mrr"]
    for text in (render_report_md(document), render_short_md(document)):
        lines = [
            line
            for line in text.splitlines()
            if line.startswith(("| mrr", "| hit@5", "| error\\_rate", "| error_rate"))
        ]
        assert [line.split(" | ")[0].removeprefix("| ").replace("\\", "") for line in lines] == [
            "hit@5",
            "error_rate",
            "mrr",
        ]


@pytest.mark.parametrize(
    ("a", "b", "shown"),
    [
        ("nightly-2026-09-15", "nightly-2026-09-18", ("09-15", "09-18")),
        ("old", "new", ("old", "new")),
        ("nightly-17", "nightly-17-retry", ("17", "17-retry")),
        ("0123456789abcdef1", "0123456789abcdef2", ("…1", "…2")),
        ("a-very-long-name-of-one", "another-long-name", ("a-very-…", "another…")),
    ],
)
def test_columns_are_headed_by_what_tells_the_runs_apart(a: str, b: str, shown: tuple[str, str]) -> None:
    assert short_names(a, b) == shown
