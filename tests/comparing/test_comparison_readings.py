"""[comparison] of eval-pipeline.toml holds for everybody who compares, and every comparison says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.comparing.compare import compare
from eval_pipeline.comparing.pairs import own_fingerprint
from eval_pipeline.comparing.verdicts import ComparisonOptions
from eval_pipeline.formulas.registry import load_registry
from eval_pipeline.settings import Settings
from tests.bundle_files import compute, hits, load, settings_in, write_golden, write_run
from tests.projects import project_of


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """`up` moves from rank 4 to 2, `lost` from 1 to nowhere."""
    folder = tmp_path_factory.mktemp("two-runs")
    write_golden(
        folder / "bundle", [{"query_id": name, "expected_chunk_ids": ["d/a"]} for name in ("up", "lost")]
    )
    places = {
        "a": {"up": ["d/x", "d/y", "d/z", "d/a"], "lost": ["d/a"]},
        "b": {"up": ["d/x", "d/a"], "lost": []},
    }
    for run_id, found in places.items():
        results = [{"query_id": name, "hits_top_k": hits(*chunks)} for name, chunks in found.items()]
        write_run(folder / "bundle", run_id, results, config={"chunker_version": "v1"})
    settings = settings_in(folder)
    load(settings, folder / "bundle")
    names = {"metrics.hit_at_k", "metrics.reciprocal_rank", "facts.found_chunks", "facts.outcomes"}
    compute(settings, definitions=names)
    return settings


def compared(settings: Settings, toml: str, **options: Any) -> dict[str, Any]:
    settings.config.write_text(toml, "utf-8")
    return compare(project_of(settings), "a", "b", **options)


def kinds(document: dict[str, Any]) -> dict[str, str]:
    return {entry["query_id"]: entry["kind"] for entry in document["per_query"]}


@pytest.mark.parametrize(
    ("toml", "expected"),
    [
        ("", {"up": "rank_up", "lost": "loss"}),
        ("[comparison]\ncompare_k = 3\n", {"up": "win", "lost": "loss"}),
        ('[comparison]\nrank_change = "draw"\n', {"up": "draw", "lost": "loss"}),
        ('[comparison]\nregression_kind = "exclusive"\n', {"up": "rank_up", "lost": "regression"}),
    ],
)
def test_the_file_says_how_queries_are_judged(
    settings: Settings, toml: str, expected: dict[str, str]
) -> None:
    assert kinds(compared(settings, toml)) == expected


def test_a_comparison_that_is_read_otherwise_says_how_and_the_shipped_one_says_nothing(
    settings: Settings,
) -> None:
    other = compared(settings, '[comparison]\ncompare_k = 3\nrank_change = "draw"\n')
    assert any("read with compare_k = 3, rank_change = draw" in one for one in other["warnings"])
    assert not any("[comparison]" in one for one in compared(settings, "")["warnings"])


def test_a_reading_given_in_python_wins_over_the_file(settings: Settings) -> None:
    document = compared(settings, "[comparison]\ncompare_k = 3\n", options=ComparisonOptions())
    assert kinds(document)["up"] == "rank_up"


def test_another_reading_makes_kept_comparisons_stale_and_the_same_one_does_not(
    settings: Settings, tmp_path: Path
) -> None:
    def fingerprint(toml: str) -> str:
        settings.config.write_text(toml, "utf-8")
        return own_fingerprint(load_registry(settings))

    assert fingerprint("") == fingerprint("[comparison]\ncompare_k = 10\n")
    assert fingerprint("") != fingerprint("[comparison]\ncompare_k = 3\n")
