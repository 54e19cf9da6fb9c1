"""Two runs that do not say their chunker: unknown is not different, as far as their ids tell."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.comparing.gate import gate
from eval_pipeline.comparing.pairs import find_pairs, store_comparisons
from eval_pipeline.errors import RefusedError
from eval_pipeline.planning.explain import explain_movement
from eval_pipeline.settings import Settings
from tests.bundle_files import Row, compute, load, write_run
from tests.comparing.pairs_of_runs import compared, ranked, store_of
from tests.projects import project_of

FEW = [
    *("facts.chunk_ranks", "facts.found_chunks", "facts.outcomes"),
    *("metrics.hit_at_k", "metrics.reciprocal_rank", "metrics.empty_results", "aggregates.run_metrics"),
]
N = 40
UNSAID = {"chunker_version": None}


def store(folder: Path, a: Sequence[Row], b: Sequence[Row], **config: dict[str, Any]) -> Settings:
    golden = [{"query_id": f"q{number:02}", "expected_chunk_ids": [f"d{number}/1"]} for number in range(N)]
    runs = {"run-a": a, "run-b": b}
    return store_of(
        folder,
        golden,
        {run_id: {f"q{number:02}": row for number, row in enumerate(rows)} for run_id, rows in runs.items()},
        config={run_id: config.get(run_id.replace("-", "_"), UNSAID) for run_id in runs},
        definitions=FEW,
    )


def finding(*missed: int, filler: str = "x") -> list[Row]:
    """Every expected chunk but these at rank 1, then one more."""
    return [
        ranked(f"{filler}{number}/1" if number in missed else f"d{number}/1", f"{filler}{number}/2")
        for number in range(N)
    ]


def warning(document: Any, start: str) -> str:
    (found,) = [one for one in document["warnings"] if one.startswith(start)]
    return str(found)


def test_runs_without_a_chunker_are_compared_by_id_and_tested(tmp_path: Path) -> None:
    settings = store(tmp_path, finding(), finding(*range(10)))
    document = compared(settings)
    assert document["deltas"]["chunker_version_match"] == "exact"
    assert (document["counts"]["loss"], document["counts"]["draw"]) == (10, 30)
    assert document["counts"]["not_comparable"] == 0
    assert document["significance"]["hit@1"]["p_value"] is not None
    assert not document["caveats"]
    told = warning(document, "no chunker version recorded on either side: matched by id")
    # a retrieved 80 ids; of b's 80 the ten that took the place of an expected one are its own.
    assert "70 of 80 retrieved ids (88%)" in told
    judged = gate(project_of(settings), "run-b", "run-a")
    assert judged.verdict == "fail"
    assert any("no chunker version recorded on either side: matched by id" in one for one in judged.notes)


def test_ids_that_only_labels_have_in_common_are_compared_too(tmp_path: Path) -> None:
    a = [ranked(f"d{number}/1", *(f"x{number}/{rank}" for rank in range(8))) for number in range(N)]
    b = [ranked(*(f"y{number}/{rank}" for rank in range(8))) for number in range(N - 1)] + [
        ranked("d0/1", "d39/1")
    ]
    document = compared(store(tmp_path, a, b))
    assert document["deltas"]["chunker_version_match"] == "exact"
    assert document["counts"]["loss"] == N - 1


def test_ids_of_two_worlds_are_not_comparable_and_nothing_is_lost(tmp_path: Path) -> None:
    # Both are known, each to its own half of the labels' documents; labels name no chunk that b retrieved.
    b = [ranked(f"d{number}/9", f"y{number}/2") for number in range(N)]
    golden_documents = {"expected_doc_ids": ["d0"]}
    settings = store_of(
        tmp_path,
        [
            {"query_id": f"q{number:02}", "expected_chunk_ids": [f"d{number}/1"], **golden_documents}
            for number in range(N)
        ],
        {
            run_id: {f"q{number:02}": row for number, row in enumerate(rows)}
            for run_id, rows in {"run-a": finding(), "run-b": b}.items()
        },
        config={"run-a": UNSAID, "run-b": UNSAID},
        definitions=FEW,
    )
    document = compared(settings)
    assert document["counts"]["not_comparable"] == N
    assert document["counts"]["loss"] == 0
    assert document["significance"]["hit@1"]["p_value"] is None
    told = warning(document, "no chunker version recorded on either side")
    assert "0 of 80 retrieved ids (0%)" in told
    assert "--chunker NAME" in told
    assert set(document["caveats"].values()) == {"the runs are not known to be of one chunker version"}
    judged = gate(project_of(settings), "run-b", "run-a")
    assert judged.verdict == "inconclusive"


def test_one_side_alone_names_the_way_out_and_strict_refuses_every_unknown(tmp_path: Path) -> None:
    settings = store(tmp_path, finding(), finding(3), run_a={"chunker_version": "v1"})
    document = compared(settings)
    assert document["deltas"]["chunker_version_match"] == "fallback_doc_span"
    assert document["counts"]["not_comparable"] == N
    assert "--chunker NAME" in warning(document, "no chunker version is recorded for run-b")
    for a, b in (("run-a", "run-b"), ("run-b", "run-b")):
        with pytest.raises(RefusedError, match=r"no version recorded.*--chunker NAME"):
            compared(settings, a, b, strict_chunker_version=True)


def test_an_implausible_run_is_compared_with_nobody_and_refused_by_the_gate(tmp_path: Path) -> None:
    unknown = [ranked(f"z{number}/1") for number in range(N)]
    settings = store(
        tmp_path, finding(), unknown, run_a={"chunker_version": "v1"}, run_b={"chunker_version": "v1"}
    )
    document = compared(settings)
    assert document["counts"]["not_comparable"] == N
    assert document["aggregate_b"]["hit@1"] is None
    assert document["aggregate_b"]["empty_result_rate"] == 0.0
    assert document["undefined"]["hit@1"].startswith("implausible: 0 of 40 retrieved ids")
    assert "Fix: " in warning(document, "run-b is implausible")
    with pytest.raises(RefusedError, match=r"run-b is implausible: .*Fix: ") as refused:
        gate(project_of(settings), "run-b", "run-a")
    assert refused.value.exit_code == 5
    with pytest.raises(RefusedError, match="hit@1 of run-b is not shown: implausible"):
        explain_movement(project_of(settings), "hit@1", ("run-a", "run-b"))


def test_a_kept_comparison_is_made_again_when_an_earlier_run_makes_its_ids_known(tmp_path: Path) -> None:
    unknown = [ranked(f"z{number}/1") for number in range(N)]
    version = {"chunker_version": "v1"}
    settings = store(tmp_path, finding(), unknown, run_a=version, run_b=version)
    compute(settings)
    pair = [("run-a", "run-b")]
    store_comparisons(project_of(settings), pair)
    assert state_of(settings) is None
    bundle = tmp_path / "later"
    write_run(
        bundle, "first", [{"query_id": "q00", **ranked("d0/1", "z7/1")}], created_at="2026-08-01T02:00:00Z"
    )
    load(settings, bundle)
    assert state_of(settings) == "parent"
    assert store_comparisons(project_of(settings), pair, reasons=["results"]).reasons == {pair[0]: "parent"}
    assert state_of(settings) is None


def state_of(settings: Settings) -> str | None:
    with project_of(settings).read() as opened:
        (found,) = [one.reason for one in find_pairs(opened) if one.run_b == "run-b"]
    return found
