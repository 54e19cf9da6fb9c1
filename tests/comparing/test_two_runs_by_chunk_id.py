"""Two runs of one chunker version: matched by chunk id."""

from __future__ import annotations

import json
import re

import pytest

from eval_pipeline.cli.compare_table import print_comparison
from eval_pipeline.comparing.pair_states import PAIR_FACTS
from eval_pipeline.documents import as_json
from eval_pipeline.errors import StoreMissing, UnknownName, UsageError
from eval_pipeline.report.markdown import render_report_md
from eval_pipeline.report.pages.collect import pair_page
from eval_pipeline.settings import load_settings
from tests.bundle_files import compute, load, write_archive, write_golden, write_run
from tests.comparing.pairs_of_runs import answered, compared, copied, expecting_one, query, ranked, store_of
from tests.projects import project_of
from tests.report.page_reader import PageReader

FILLER = [f"doc/x{number}" for number in range(10)]

ONE = {"expected_chunk_ids": ["doc/1"], "expected_doc_ids": ["doc"]}
TWO = {"expected_chunk_ids": ["doc/2", "doc/1", "doc/2"], "expected_doc_ids": ["doc"]}
GOLDEN = [
    {"query_id": "won", **ONE},
    {"query_id": "lost", **ONE},
    {"query_id": "same", **ONE},
    {"query_id": "both missed", **ONE},
    {"query_id": "up", **ONE},
    {"query_id": "down", **ONE},
    {"query_id": "eleventh", **ONE},
    {"query_id": "half lost", **TWO},
    {"query_id": "earlier but other", **TWO},
    {"query_id": "all lost", **TWO},
    {"query_id": "nothing expected", "expected_chunk_ids": []},
    {"query_id": "unlabelled"},
    {"query_id": "failed", **ONE},
    {"query_id": "failed with hits", **ONE},
    {"query_id": "only in a", **ONE},
    {"query_id": "only in b", **ONE},
]
A = {
    "won": ranked("doc/x"),
    "lost": ranked("doc/1"),
    "same": ranked("doc/x", "doc/1"),
    "both missed": ranked("doc/x"),
    "up": ranked("doc/x", "doc/y", "doc/1"),
    "down": ranked("doc/1"),
    "eleventh": ranked(*FILLER, "doc/1"),
    "half lost": ranked("doc/1", "doc/2"),
    "earlier but other": ranked("doc/x", "doc/1"),
    "all lost": ranked("doc/2", "doc/1"),
    "nothing expected": ranked("doc/1"),
    "unlabelled": ranked("doc/1"),
    "failed": ranked("doc/1"),
    "failed with hits": {"error": "no connection"},
    "only in a": ranked("doc/1"),
}
B = {
    "won": ranked("doc/x", "doc/1"),
    "lost": ranked("doc/x"),
    "same": ranked("doc/y", "doc/1"),
    "both missed": ranked(),
    "up": ranked("doc/1", "doc/1"),
    "down": ranked("doc/x", "doc/y", "doc/1"),
    "eleventh": ranked("doc/1"),
    "half lost": ranked("doc/1"),
    "earlier but other": ranked("doc/2"),
    "all lost": ranked("doc/x"),
    "nothing expected": ranked(),
    "unlabelled": ranked(),
    "failed": {"timed_out": True},
    "failed with hits": ranked("doc/x", "doc/1", error="late"),
    "only in b": ranked("doc/1"),
}


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    return store_of(
        tmp_path_factory.mktemp("by-chunk-id"),
        GOLDEN,
        {"run-a": A, "run-b": B, "empty": {}},
        config={"run-b": {"prompt_version": "p2"}},
    )


@pytest.fixture(scope="module")
def document(settings):
    return compared(settings)


@pytest.mark.parametrize(
    ("query_id", "kind", "rank_a", "rank_b", "regressed"),
    [
        ("won", "win", None, 2, []),
        ("lost", "loss", 1, None, ["doc/1"]),
        ("same", "draw", 2, 2, []),
        ("both missed", "draw", None, None, []),
        ("up", "rank_up", 3, 1, []),
        ("down", "rank_down", 1, 3, []),
        ("eleventh", "win", None, 1, []),
        ("half lost", "draw", 1, 1, ["doc/2"]),
        ("earlier but other", "rank_up", 2, 1, ["doc/1"]),
        ("all lost", "loss", 1, None, ["doc/1", "doc/2"]),
        ("nothing expected", "not_applicable", None, None, []),
        ("unlabelled", "not_applicable", None, None, []),
        ("failed", "loss", 1, None, ["doc/1"]),
        ("failed with hits", "win", None, 2, []),
    ],
)
def test_each_query_gets_the_verdict_of_its_stored_hits(
    document, query_id, kind, rank_a, rank_b, regressed
) -> None:
    entry = query(document, query_id)
    assert (entry["kind"], entry["a_hit_rank"], entry["b_hit_rank"]) == (kind, rank_a, rank_b)
    assert entry["regressed_chunk_ids"] == regressed
    assert entry["regression"] is bool(regressed)


def test_notes_carry_the_causes_and_the_errors(document) -> None:
    assert document["causes"] == ["prompt diff"]
    assert query(document, "won")["note"] == "prompt diff"
    assert query(document, "failed")["note"] == "prompt diff; error in b"
    assert query(document, "failed with hits")["note"] == "prompt diff; error in a; error in b"


def test_queries_of_one_run_are_listed_and_have_no_verdict(document) -> None:
    assert (document["only_in_a"], document["only_in_b"]) == (["only in a"], ["only in b"])
    assert [entry["query_id"] for entry in document["per_query"]] == [
        row["query_id"] for row in GOLDEN if not row["query_id"].startswith("only")
    ]
    assert any(
        "only in run-a: 1 query, only in run-b: 1 query" in warning for warning in document["warnings"]
    )


def test_counts_are_those_of_the_entries(document) -> None:
    kinds = [entry["kind"] for entry in document["per_query"]]
    assert document["counts"] == {
        **{
            kind: kinds.count(kind)
            for kind in ("win", "loss", "draw", "rank_up", "rank_down", "not_applicable", "not_comparable")
        },
        "regressions": 5,
    }


def test_deltas_are_of_each_runs_own_rounded_aggregates(document) -> None:
    # 13 labelled queries in each run; 7 of a's and 8 of b's are found at rank 1.
    assert document["aggregate_a"]["hit@1"] == round(6 / 13, 4)
    assert document["aggregate_b"]["hit@1"] == round(5 / 13, 4)
    assert document["deltas"]["hit@1"] == round(round(5 / 13, 4) - round(6 / 13, 4), 4)
    assert document["deltas"]["chunker_version_match"] == "exact"
    assert document["deltas"]["groundedness"] is None


def test_the_document_has_the_keys_of_the_contract(document) -> None:
    wanted = {
        "format",
        "run_a",
        "run_b",
        "aggregate_a",
        "aggregate_b",
        "deltas",
        "per_query",
        "counts",
        "causes",
        "only_in_a",
        "only_in_b",
        "warnings",
        "fallback_metrics",
        "significance",
        "noise",
    }
    assert wanted <= set(document)
    assert (document["format"], document["fallback_metrics"]) == (1, None)
    assert set(document["aggregate_a"]) == set(document["aggregate_b"]) == set(document["significance"])
    assert set(document["deltas"]) == {"chunker_version_match", *document["aggregate_a"]}
    for entry in document["significance"].values():
        assert set(entry) == {
            "a",
            "b",
            "delta",
            "ci_low",
            "ci_high",
            "p_value",
            "p_adjusted",
            "test",
            "n",
            "mde",
            "family",
            "adjusted_as",
            "is_identical",
            "verdict",
        }
    assert set(document["per_query"][0]) == {
        "query_id",
        "kind",
        "regression",
        "regressed_chunk_ids",
        "a_hit_rank",
        "b_hit_rank",
        "note",
    }
    json.dumps(as_json(document), allow_nan=False)


def test_the_same_comparison_is_the_same_bytes(settings, document) -> None:
    assert json.dumps(as_json(compared(settings))) == json.dumps(as_json(document))


def test_swapping_the_runs_turns_wins_into_losses(settings, document) -> None:
    swapped = compared(settings, "run-b", "run-a")
    for one, other in (("win", "loss"), ("rank_up", "rank_down"), ("draw", "draw")):
        assert swapped["counts"][one] == document["counts"][other]
    assert swapped["deltas"]["mrr"] == -document["deltas"]["mrr"]


def test_a_run_against_itself_says_so_and_moves_nothing(settings) -> None:
    document = compared(settings, "run-a", "run-a")
    assert "same run" in document["warnings"][0]
    assert {entry["kind"] for entry in document["per_query"]} == {"draw", "not_applicable"}
    assert all(not delta for key, delta in document["deltas"].items() if key != "chunker_version_match")


def test_a_run_without_results_pairs_nothing_and_says_so(settings) -> None:
    document = compared(settings, "run-a", "empty")
    assert document["per_query"] == []
    assert sorted(document["only_in_a"]) == sorted(A)
    assert any("empty has no results" in warning for warning in document["warnings"])
    assert document["deltas"]["mrr"] is None


def test_an_unknown_run_comes_with_close_names(settings) -> None:
    with pytest.raises(UnknownName, match="did you mean run-b or run-a"):
        compared(settings, "run-a", "run-bb")


def test_without_a_store_the_error_says_how_to_make_one(tmp_path) -> None:
    with pytest.raises(StoreMissing, match="eval-pipeline load"):
        compared(load_settings({}, db=tmp_path / "none.duckdb"))
    assert list(tmp_path.iterdir()) == []


def test_few_queries_are_a_warning(document) -> None:
    assert any(warning.startswith("only 14 queries in both runs") for warning in document["warnings"])


def test_failed_queries_are_counted_in_a_warning(document) -> None:
    assert "failed in run-b: 2 queries, which count as stored" in document["warnings"]


def test_a_common_scope_takes_both_means_over_the_paired_queries(settings) -> None:
    from eval_pipeline.comparing.verdicts import ComparisonOptions

    document = compared(settings, options=ComparisonOptions(delta_scope="common"))
    assert document["aggregate_a"]["hit@1"] == round(5 / 12, 4)
    assert document["aggregate_b"]["hit@1"] == round(4 / 12, 4)


def test_a_difference_beside_an_interval_is_of_the_queries_of_both_runs(settings, document, capsys) -> None:
    own = round(document["aggregate_b"]["hit@1"] - document["aggregate_a"]["hit@1"], 4)
    assert document["deltas"]["hit@1"] == own != round(4 / 12 - 5 / 12, 4)
    # 4 and 5 of 12 common queries, as both are printed.
    shown = ["0.4167", "0.3333", "−0.0834"]
    rows = [line.split(" | ") for line in render_report_md(document).splitlines()]
    (row,) = [row for row in rows if row[0] == "| hit@1"]
    assert row[2:5] == shown
    low, high = (float(end.replace("−", "-")) for end in row[5].strip("[]").split(", "))
    assert low < -0.0834 < high
    page = PageReader(pair_page(project_of(settings), "run-a", "run-b"))
    assert page.rows("deltas-table")["hit@1"][:3] == shown
    print_comparison(document, every=True)
    assert re.search(rf"^hit@1 +{' +'.join(shown)} ", capsys.readouterr().out, re.MULTILINE)


JUDGED = answered(True, answer={"text": "x"}, judge={"groundedness": {"score": 4}})


def judge(version: str) -> dict[str, object]:
    return {"judge": {"model": "m", "version": version, "temperature": 0, "prompt_version": "p"}}


COMPUTED = [
    *PAIR_FACTS,
    *(f"aggregates.run_metrics:metrics.{name}" for name in ("hit_at_k", "reciprocal_rank", "judge_scores")),
]


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Several runs of one query, two judges, two list lengths, and a run of another dataset."""
    folder = tmp_path_factory.mktemp("small")
    other = expecting_one(2)
    other[1]["expected_chunk_ids"] = ["doc/9"]
    write_golden(folder / "bundle", other, dataset="other")
    write_run(
        folder / "bundle",
        "elsewhere",
        [{"query_id": row["query_id"], **answered(False)} for row in other],
        dataset="other",
        config={"chunker_version": "v1"},
    )
    golden = expecting_one(3)
    golden[2]["expected_chunk_ids"] = ["doc/old", "doc/older"]
    both = {"q0000": answered(True), "q0001": answered(True)}
    return store_of(
        folder,
        golden,
        {
            "run-a": both,
            "run-b": both,
            "five": both,
            "embedded": both,
            "all-new": both,
            "judge-1": {"q0000": JUDGED},
            "judge-2": {"q0000": JUDGED},
            "judge-2-again": {"q0000": JUDGED},
        },
        config={
            "five": {"top_k": 5},
            "embedded": {"embedding_model": "other"},
            "all-new": {"prompt_version": "p9", "embedding_model": "other", "chunker_version": "v9"},
            "judge-1": judge("1"),
            "judge-2": judge("2"),
            "judge-2-again": judge("2"),
        },
        definitions=COMPUTED,
    )


def test_every_known_cause_is_named_in_one_order(small) -> None:
    assert compared(small, "run-a", "run-b")["causes"] == []
    assert compared(small, "run-a", "embedded")["causes"] == ["embedding diff"]
    assert compared(small, "run-a", "all-new")["causes"] == [
        "chunker version diff",
        "embedding diff",
        "prompt diff",
    ]


def test_differing_judges_are_a_warning_and_mark_the_judge_metrics(small) -> None:
    document = compared(small, "judge-1", "judge-2")
    assert any("judge configurations differ (version '1' and '2')" in one for one in document["warnings"])
    assert document["caveats"]["judge_groundedness"] == "judge configurations differ"
    unknown = compared(small, "run-a", "judge-1")["warnings"]
    assert any("judge configurations differ (model not recorded and 'm', version" in one for one in unknown)
    alike = compared(small, "judge-2", "judge-2-again")
    assert alike["caveats"] == {}
    assert not any("judge configurations" in one or "pinned" in one for one in alike["warnings"])


def test_runs_of_two_datasets_are_paired_by_id_and_marked(small) -> None:
    document = compared(small, "run-a", "elsewhere")
    assert "different datasets: run-a is scored on 'kb', elsewhere on 'other'" in document["warnings"][0]
    assert [entry["kind"] for entry in document["per_query"]] == ["loss", "not_comparable"]


def test_differing_list_lengths_are_a_warning(small) -> None:
    assert (
        "run-a was configured to retrieve 10 hits, five 5 hits"
        in compared(small, "run-a", "five")["warnings"]
    )


def test_a_run_that_was_not_computed_is_refused_with_the_command_that_computes_it(small, tmp_path) -> None:
    settings = copied(small, tmp_path)
    write_run(tmp_path / "more", "new", [{"query_id": "q0000", **answered(True)}])
    load(settings, tmp_path / "more", on=3)
    with pytest.raises(UsageError, match="'new' has not been computed yet: `eval-pipeline run new`"):
        compared(settings, "run-a", "new")


def test_a_run_delivered_anew_is_refused_until_it_is_computed(small, tmp_path) -> None:
    settings = copied(small, tmp_path)
    write_run(
        tmp_path / "more",
        "run-b",
        [{"query_id": "q0000", **answered(False)}],
        config={"chunker_version": "v1"},
    )
    load(settings, tmp_path / "more", on=3)
    with pytest.raises(UsageError, match="delivered anew"):
        compared(settings)
    compute(settings, on=4, definitions=COMPUTED)
    assert compared(settings)["counts"]["loss"] == 1


def test_corrected_labels_are_refused_until_both_runs_are_computed_with_them(small, tmp_path) -> None:
    settings = copied(small, tmp_path)
    golden = expecting_one(2)
    golden[0]["expected_chunk_ids"] = ["doc/x", "doc/1"]
    write_golden(tmp_path / "more", golden)
    load(settings, tmp_path / "more", on=3)
    with pytest.raises(UsageError, match=r"labels of 'kb' have changed .* `eval-pipeline run --all`"):
        compared(settings)
    compute(
        settings,
        on=4,
        reasons=None,
        run_ids=["run-a", "run-b"],
        definitions=["metrics.hit_at_k", *PAIR_FACTS],
    )
    assert compared(settings)["counts"]["draw"] == 2


def test_labels_of_another_chunker_are_counted_as_stale(small, tmp_path) -> None:
    settings = copied(small, tmp_path)
    assert not any("stale labels" in warning for warning in compared(settings)["warnings"])
    write_archive(tmp_path / "more", "v1", [{"chunk_id": "doc/1", "doc_id": "doc"}])
    load(settings, tmp_path / "more", on=3)
    document = compared(settings)
    assert document["deltas"]["chunker_version_match"] == "exact"
    assert any(
        warning.startswith("stale labels: 2 expected ids not in the run's inventory")
        for warning in document["warnings"]
    )


def test_values_under_different_definitions_are_a_warning(small, tmp_path) -> None:
    settings = copied(small, tmp_path)
    (tmp_path / "eval-pipeline.toml").write_text("[formulas.reciprocal_rank]\ncutoff = 3\n")
    compute(settings, on=4, reasons=None, run_ids=["run-b"], definitions=["metrics.reciprocal_rank"])
    warnings = compared(settings)["warnings"]
    assert any("different definitions: reciprocal_rank" in warning for warning in warnings)
    assert any(warning.startswith("stale for run-a: reciprocal_rank (formula)") for warning in warnings)
