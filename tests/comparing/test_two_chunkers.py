"""Two runs whose chunkers differ: matched by document and span, with one criterion for both."""

from __future__ import annotations

import pytest

from eval_pipeline.comparing.compare import compare
from eval_pipeline.comparing.pair_states import PAIR_FACTS
from eval_pipeline.comparing.verdicts import ComparisonOptions
from eval_pipeline.errors import RefusedError
from eval_pipeline.formulas.registry import load_registry
from tests.bundle_files import Row, compute, load, settings_in, write_archive, write_golden, write_run
from tests.comparing.pairs_of_runs import compared, query
from tests.projects import project_of


def piece(chunk_id: str, *ranges: tuple[int, int], doc: str = "doc", span_doc: str | None = None) -> Row:
    """A hit or an archive line with its spans."""
    owner = {"doc_id": span_doc} if span_doc else {}
    return {
        "chunk_id": chunk_id,
        "doc_id": doc,
        "source_spans": [{"start": start, "end": end, **owner} for start, end in ranges],
    }


def frozen(start: int, end: int) -> dict[str, list[Row]]:
    return {"expected_chunk_spans": {"h1": [{"doc_id": "doc", "start": start, "end": end}]}}


FAR = piece("far", (9000, 9100))
H1 = {"expected_chunk_ids": ["h1"], "expected_doc_ids": ["doc"]}

# What the golden row says beside its id, what a (chunked like the labels) and b (chunked otherwise) retrieved.
CASES: dict[str, tuple[Row, list[Row], list[Row]]] = {
    "same text": (H1, [FAR, piece("h1", (0, 100))], [FAR, piece("w1", (0, 100))]),
    "exactly half": (H1, [piece("h1", (0, 100))], [piece("w1", (50, 150))]),
    "less than half": (H1, [piece("h1", (0, 100))], [piece("w1", (51, 151))]),
    "small piece inside": (H1, [piece("h1", (0, 100))], [piece("w1", (40, 60))]),
    "two hits do not add up": (H1, [piece("h1", (0, 100))], [piece("w1", (60, 160)), piece("w2", (70, 170))]),
    "doubled spans count once": (H1, [piece("h1", (0, 100))], [piece("w1", (0, 30), (0, 30), (90, 170))]),
    "hit without spans": (H1, [piece("h1", (0, 100))], [{"chunk_id": "w1", "doc_id": "doc"}]),
    "wrong document": (H1, [piece("h1", (0, 100))], [piece("w1", (0, 100), doc="other", span_doc="doc")]),
    "same place elsewhere": (H1, [piece("h1", (0, 100))], [piece("w1", (0, 100), span_doc="other")]),
    "no document may match": (
        {**H1, "expected_doc_ids": []},
        [piece("h1", (0, 100))],
        [piece("w1", (0, 100))],
    ),
    "documents from the chunks": ({"expected_chunk_ids": ["h1"]}, [FAR], [piece("w1", (0, 100))]),
    "frozen spans win": ({**H1, **frozen(500, 600)}, [piece("h1", (0, 100))], [piece("w1", (500, 600))]),
    "frozen to nothing": ({**H1, **frozen(7, 7)}, [piece("h1", (7, 7))], [piece("w1", (0, 100))]),
    "in no archive": ({"expected_chunk_ids": ["gone"]}, [piece("gone", (0, 100))], [piece("w1", (0, 100))]),
    "one of two known": (
        {"expected_chunk_ids": ["gone", "h1"]},
        [FAR, piece("h1", (0, 100))],
        [piece("w1", (0, 100))],
    ),
    "one of two lost": (
        {"expected_chunk_ids": ["h1", "h2"]},
        [piece("h2", (100, 200)), piece("h1", (0, 100))],
        [piece("w1", (0, 90))],
    ),
    "nothing expected": ({"expected_chunk_ids": []}, [FAR], [FAR]),
}
UNUSABLE = ("not_comparable", "not_applicable")
COMPUTED = [
    *PAIR_FACTS,
    *(f"aggregates.run_metrics:metrics.{name}" for name in ("hit_at_k", "reciprocal_rank")),
]


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    folder = tmp_path_factory.mktemp("two-chunkers")
    write_golden(folder / "bundle", [{"query_id": name, **labels} for name, (labels, _, _) in CASES.items()])
    write_archive(folder / "earlier", "v1", [piece("h1", (4000, 4100)), piece("gone", (0, 100))])
    write_archive(folder / "bundle", "v1", [piece("h1", (0, 100)), piece("h2", (100, 200))])
    for run_id, side, config in (
        ("run-a", 1, {"chunker_version": "v1"}),
        ("run-b", 2, {"chunker_version": "v2"}),
        ("unsaid", 1, {}),
        ("unsaid-too", 1, {}),
    ):
        write_run(
            folder / "bundle",
            run_id,
            [{"query_id": name, "hits_top_k": case[side]} for name, case in CASES.items()],
            config=config,
        )
    settings = settings_in(folder)
    load(settings, folder / "earlier", on=0)
    load(settings, folder / "bundle")
    compute(settings, definitions=COMPUTED)
    return settings


@pytest.fixture(scope="module")
def document(settings):
    return compared(settings)


@pytest.mark.parametrize(
    ("query_id", "kind", "rank_a", "rank_b"),
    [
        ("same text", "draw", 2, 2),
        ("exactly half", "draw", 1, 1),
        ("less than half", "loss", 1, None),
        ("small piece inside", "draw", 1, 1),
        ("two hits do not add up", "loss", 1, None),
        ("doubled spans count once", "loss", 1, None),
        ("hit without spans", "not_comparable", None, None),
        ("wrong document", "loss", 1, None),
        ("same place elsewhere", "loss", 1, None),
        ("no document may match", "draw", None, None),
        ("documents from the chunks", "win", None, 1),
        ("frozen spans win", "win", None, 1),
        ("frozen to nothing", "draw", None, None),
        ("in no archive", "not_comparable", None, None),
        ("one of two known", "rank_up", 2, 1),
        ("one of two lost", "draw", 1, 1),
        ("nothing expected", "not_applicable", None, None),
    ],
)
def test_a_hit_counts_by_document_and_half_of_the_smaller(document, query_id, kind, rank_a, rank_b) -> None:
    entry = query(document, query_id)
    assert (entry["kind"], entry["a_hit_rank"], entry["b_hit_rank"]) == (kind, rank_a, rank_b)


def test_a_lost_chunk_is_named_although_the_query_is_a_draw(document) -> None:
    assert query(document, "one of two lost")["regressed_chunk_ids"] == ["h2"]
    assert query(document, "less than half")["regressed_chunk_ids"] == ["h1"]


def test_the_mode_is_always_said_and_chunk_level_deltas_are_marked(document) -> None:
    assert document["deltas"]["chunker_version_match"] == "fallback_doc_span"
    assert document["causes"] == ["chunker version diff"]
    assert set(document["caveats"]) >= {"hit@1", "mrr", "chunk_recall"}
    assert "recall@5_doc" not in document["caveats"]
    assert document["significance"]["hit@1"]["p_value"] is None
    assert any("unstable across chunkers" in warning for warning in document["warnings"])
    assert document["aggregate_b"]["hit@10"] is None


def test_what_cannot_be_matched_is_counted_and_said(document) -> None:
    assert document["counts"]["not_comparable"] == 2
    assert any(warning.startswith("not comparable: 1 query;") for warning in document["warnings"])


def test_a_query_whose_hits_have_no_spans_is_not_comparable(document) -> None:
    (warning,) = [line for line in document["warnings"] if line.startswith("without source_spans in ")]
    assert "hits of 1 query, which are not comparable" in warning


def test_fallback_metrics_are_over_the_comparable_queries_of_both_runs(document) -> None:
    metrics = document["fallback_metrics"]
    usable = [entry for entry in document["per_query"] if entry["kind"] not in UNUSABLE]
    assert metrics["a"]["n"] == metrics["b"]["n"] == len(usable) == 14
    for side in ("a", "b"):
        ranks = [entry[f"{side}_hit_rank"] for entry in usable]
        assert metrics[side]["hit@1"] == round(sum(rank == 1 for rank in ranks) / 14, 4)
        assert metrics[side]["mrr"] == round(sum(1 / rank for rank in ranks if rank) / 14, 4)
    assert metrics["deltas"]["mrr"] == round(metrics["b"]["mrr"] - metrics["a"]["mrr"], 4)


def test_fallback_metrics_have_the_cutoffs_that_the_formulas_have(settings, document, tmp_path) -> None:
    own = settings_in(tmp_path)
    own.config.write_text(
        "[formulas.reciprocal_rank]\ncutoff = 1\n[formulas.hit_at_k]\nks = [1, 2]\n", "utf-8"
    )
    with_own = compare(project_of(settings, load_registry(own)), "run-a", "run-b")
    metrics, tested = with_own["fallback_metrics"], with_own["fallback_significance"]
    assert list(metrics["deltas"]) == list(tested) == ["hit@1", "hit@2", "mrr"]
    ranks = [entry["a_hit_rank"] for entry in document["per_query"] if entry["kind"] not in UNUSABLE]
    assert 2 in ranks
    assert metrics["a"]["mrr"] == metrics["a"]["hit@1"] == round(ranks.count(1) / 14, 4)
    assert metrics["a"]["hit@2"] == round(sum(rank in (1, 2) for rank in ranks) / 14, 4)


def test_the_verdicts_are_counted_for_other_thresholds_too(settings, document) -> None:
    assert list(document["sensitivity"]) == ["0.25", "0.5", "0.75"]
    assert document["sensitivity"]["0.5"] == document["counts"]
    for threshold in (0.25, 0.75):
        strict = compared(settings, options=ComparisonOptions(overlap_threshold=threshold))
        assert document["sensitivity"][f"{threshold:g}"] == strict["counts"]
    assert document["sensitivity"]["0.25"]["loss"] < document["counts"]["loss"]


def test_the_same_hits_without_a_version_are_all_draws(settings) -> None:
    document = compared(settings, "unsaid", "unsaid-too")
    assert document["deltas"]["chunker_version_match"] == "fallback_doc_span"
    assert {entry["kind"] for entry in document["per_query"]} == {
        "draw",
        "not_comparable",
        "not_applicable",
    }
    assert any(
        "no chunker version is recorded for unsaid and unsaid-too" in warning
        for warning in document["warnings"]
    )


def test_strict_mode_refuses_other_and_missing_versions(settings) -> None:
    with pytest.raises(RefusedError, match="v1, v2"):
        compared(settings, strict_chunker_version=True)
    with pytest.raises(RefusedError, match="no version recorded"):
        compared(settings, "unsaid", "unsaid-too", strict_chunker_version=True)
    assert compared(settings, "run-a", "run-a", strict_chunker_version=True)["counts"]["win"] == 0


@pytest.mark.parametrize(
    ("basis", "query_id", "kind"),
    [
        ("expected", "small piece inside", "loss"),
        ("hit", "small piece inside", "draw"),
        ("iou", "exactly half", "loss"),
        ("iou", "same text", "draw"),
    ],
)
def test_the_basis_of_the_share_can_be_read_otherwise(settings, basis, query_id, kind) -> None:
    document = compared(settings, options=ComparisonOptions(overlap_basis=basis))
    assert query(document, query_id)["kind"] == kind


def test_a_regression_needs_both_ranks_within_the_first_ten(tmp_path) -> None:
    late = [FAR] * 10
    write_golden(
        tmp_path / "bundle", [{"query_id": "q", "expected_chunk_ids": ["h1", "h2"], **frozen(0, 100)}]
    )
    write_archive(tmp_path / "bundle", "v1", [piece("h2", (100, 200))], dataset=None)
    for run_id, hits in (
        ("run-a", [piece("h1", (0, 100)), *late, piece("h2", (100, 200))]),
        ("run-b", [piece("w2", (100, 200)), *late, piece("w1", (0, 100))]),
    ):
        write_run(
            tmp_path / "bundle",
            run_id,
            [{"query_id": "q", "hits_top_k": hits}],
            config={"chunker_version": run_id},
        )
    settings = settings_in(tmp_path)
    load(settings, tmp_path / "bundle")
    compute(settings, definitions=PAIR_FACTS)
    entry = query(compared(settings), "q")
    assert (entry["kind"], entry["regressed_chunk_ids"]) == ("draw", ["h1"])
