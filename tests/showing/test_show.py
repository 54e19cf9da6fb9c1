"""What `show` says beside the numbers: parts alone, slices of few queries, and values that do not hold any more."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from eval_pipeline.cli.main import cli, main
from eval_pipeline.planning.apply import pin_older
from eval_pipeline.planning.plan import Selection
from eval_pipeline.settings import Settings, shipped_sql
from tests.bundle_files import compute, day, hits, load, settings_in, write_golden, write_run
from tests.projects import project_of

CASE = {"case_id": "case", "ground_truth": {"a": 1, "b": 2}, "extracted": {"a": 1}}
REPORT = {
    "chunker_version": "v1",
    "docs": [{"doc_id": "d", "doc_type": "pdf", "n_chunks": 0}, {"doc_id": "e", "n_chunks": 1}],
    "chunks": [{"doc_id": "e", "chunk_id": "e/1", "status": "embedded", "tokens": 7}],
}
FORMULAS = '[datasets.kb]\nformulas = ["hit_at_k", "reciprocal_rank", "empty_results"]\n'


def part_only(bundle: Path, run_id: str, name: str, text: str) -> None:
    """A run that delivers this one file and no results."""
    folder = bundle / "runs" / run_id
    folder.mkdir(parents=True)
    (folder / name).write_text(text, "utf-8")
    (folder / "run.json").write_text(json.dumps({"run_id": run_id, "dataset": "kb"}), "utf-8")


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """12 easy and 2 hard queries; a run with results, one with extraction only, one with an index report only."""
    folder = tmp_path_factory.mktemp("shown")
    bundle = folder / "bundle"
    names = [f"q{n:02}" for n in range(14)]
    write_golden(
        bundle,
        [
            {"query_id": name, "expected_chunk_ids": ["d/a"], "difficulty": "hard" if n >= 12 else "easy"}
            for n, name in enumerate(names)
        ],
    )
    write_run(bundle, "results-only", [{"query_id": name, "hits_top_k": hits("d/a")} for name in names])
    part_only(bundle, "cases-only", "extractions.jsonl", json.dumps(CASE) + "\n")
    part_only(bundle, "index-only", "index_report.json", json.dumps(REPORT))
    settings = settings_in(folder)
    settings.config.write_text(FORMULAS, "utf-8")
    assert load(settings, bundle).problems == []
    compute(settings)
    return settings


def shown(settings: Settings, run_id: str, *options: str, toml: str = FORMULAS) -> str:
    """What the command prints."""
    settings.config.write_text(toml, "utf-8")
    environment = {
        "EVAL_PIPELINE_CONFIG": str(settings.config),
        "EVAL_PIPELINE_SQL": str(shipped_sql()),
    }
    result = CliRunner().invoke(cli, ["show", run_id, "--db", str(settings.db), *options], env=environment)
    assert result.exit_code == 0, result.output
    return result.stdout


def document(settings: Settings, run_id: str, *, toml: str = FORMULAS) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(shown(settings, run_id, "--json", toml=toml))
    return found


def test_a_run_with_extraction_alone_is_shown_with_its_numbers(settings: Settings) -> None:
    text = shown(settings, "cases-only")
    assert "macro F1 over 1 case: target 0.90 not met" in text
    found = document(settings, "cases-only")
    # One of two fields is there and right: precision 1, recall 1/2.
    assert found["extraction"]["macro"] == {"precision": 1, "recall": 0.5, "f1": 0.6667}
    assert (found["total_queries"], found["indexing"], found["performance"]["latency_ms"]["n"]) == (
        0,
        None,
        0,
    )


def test_a_run_with_an_index_report_alone_is_shown_with_its_numbers(settings: Settings) -> None:
    assert "indexing: 2 documents, 1 without chunks; 1 chunk, 1 embedded" in shown(settings, "index-only")
    found = document(settings, "index-only")
    assert found["indexing"]["no_chunks_generated_rate"] == 0.5
    assert (found["extraction"], found["metrics"]["hit@1"]) == (None, {"value": None, "n": 0})


def test_a_slice_of_few_queries_is_marked_and_not_hidden(settings: Settings) -> None:
    slices = document(settings, "results-only")["slices"]["difficulty"]
    assert {name: (entry["n_queries"], entry["is_small"]) for name, entry in slices.items()} == {
        "easy": (12, False),
        "hard": (2, True),
    }
    assert slices["hard"]["metrics"]["hit@1"] == {"value": 1, "n": 2}
    text = shown(settings, "results-only")
    assert " 2* " in text and "12* " not in text
    assert "* few queries" in text


def test_what_does_not_hold_any_more_is_said_with_its_reason(settings: Settings) -> None:
    changed = FORMULAS + "[formulas.reciprocal_rank]\ncutoff = 3\n"
    assert document(settings, "results-only")["states"] == []
    assert document(settings, "results-only", toml=changed)["states"] == [
        {"table": "metrics.reciprocal_rank", "state": "stale", "reason": "formula"}
    ]
    text = shown(settings, "results-only", toml=changed)
    assert "stale (formula): reciprocal_rank\n`eval-pipeline run --all`" in text
    assert "stale" not in shown(settings, "results-only")


def test_what_was_never_computed_is_called_missing(tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    write_golden(bundle, [{"query_id": "q"}])
    write_run(bundle, "new", [{"query_id": "q", "hits_top_k": []}])
    settings = settings_in(tmp_path)
    settings.config.write_text(FORMULAS, "utf-8")
    load(settings, bundle)
    states = {entry["table"]: entry["state"] for entry in document(settings, "new")["states"]}
    assert states["metrics.hit_at_k"] == "missing"
    assert "missing: " in shown(settings, "new")


def test_a_value_left_on_an_older_meaning_on_purpose_is_called_pinned(tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    write_golden(bundle, [{"query_id": "q", "expected_chunk_ids": ["d/a"]}])
    write_run(bundle, "old", [{"query_id": "q", "hits_top_k": hits("d/a")}])
    settings = settings_in(tmp_path)
    settings.config.write_text(FORMULAS, "utf-8")
    load(settings, bundle)
    compute(settings)
    changed = FORMULAS + "[formulas.reciprocal_rank]\ncutoff = 3\n"
    settings.config.write_text(changed, "utf-8")
    pin_older(project_of(settings, now=day(3)), Selection(since="2100-01-01"))
    assert document(settings, "old", toml=changed)["states"] == [
        {"table": "metrics.reciprocal_rank", "state": "pinned", "reason": "formula"}
    ]
    text = shown(settings, "old", toml=changed)
    assert "pinned (formula): reciprocal_rank" in text
    assert "computes what is stale" not in text


def test_an_id_cannot_steer_the_terminal_it_is_printed_on(tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    write_golden(bundle, [{"query_id": "asked"}, {"query_id": "red \x1b[31m bell \x07"}])
    write_run(bundle, "r", [{"query_id": "asked", "hits_top_k": []}])
    settings = settings_in(tmp_path)
    load(settings, bundle)
    text = shown(settings, "r")
    assert "missing: red ␛[31m bell ␇ (1)" in text
    assert "\x1b" not in text


def test_neither_can_the_name_of_a_file_that_an_error_repeats(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(["load", str(tmp_path / "clear\x1b[2J"), "--db", str(tmp_path / "e.duckdb")])
    assert left.value.code == 2
    said = capsys.readouterr().err
    assert "clear␛[2J" in said and "\x1b" not in said
