"""A run may hold extraction cases alone: it needs no golden set, and nothing is said of queries."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from eval_pipeline.cli.main import cli
from eval_pipeline.comparing.compare import compare
from eval_pipeline.comparing.gate import gate
from eval_pipeline.comparing.pairs import find_pairs
from eval_pipeline.planning.status import find_status
from eval_pipeline.report.markdown import render_report_md, render_short_md
from eval_pipeline.report.pages.collect import pair_page, run_page, suite_page
from eval_pipeline.report.pages.writing import publish_pages
from eval_pipeline.settings import Settings
from eval_pipeline.showing.show import show_run
from tests.bundle_files import compute, hits, load, write_golden, write_run
from tests.comparing.extracted import BAD, GOOD, OF_EXTRACTION, store_of_cases
from tests.comparing.pairs_of_runs import copied
from tests.projects import open_reader, project_of, registry_of, store_with

RULE = "[[gate.rules]]\nmetric = 'extraction.macro_f1'\nat_least = 0.9\n"


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return store_of_cases(tmp_path_factory.mktemp("cases"), {"run-a": [*GOOD, BAD], "run-b": [*GOOD, BAD]})


def printed(settings: Settings, *words: str) -> str:
    settings.config.touch()
    environment = {"EVAL_PIPELINE_CONFIG": str(settings.config), "COLUMNS": "80"}
    called = CliRunner().invoke(cli, [*words, "--db", str(settings.db)], env=environment)
    assert called.exit_code in (0, 4), called.output
    return called.stdout


def test_it_is_scored_and_complete_without_a_golden_set(settings: Settings) -> None:
    status = find_status(project_of(settings))
    assert (status["waiting"], status["incomplete"]) == ([], [])
    shown = show_run(project_of(settings), "run-a")
    assert shown["extraction"]["macro"]["f1"] == round((4 + 2 / 3) / 5, 4)
    assert shown["night"]["is_complete"] and shown["night"]["is_last_complete"]


def test_a_run_with_queries_is_one_without_labels(settings: Settings, tmp_path: Path) -> None:
    own = copied(settings, tmp_path)
    write_run(tmp_path / "more", "asking", [{"query_id": "q"}], dataset="forms")
    assert load(own, tmp_path / "more").waiting == ["asking"]
    assert find_status(project_of(own))["waiting"] == ["asking"]


def test_the_terminal_says_nothing_of_queries(settings: Settings) -> None:
    for words in (("show", "run-a"), ("compare", "run-a", "run-b"), ("gate", "run-b", "--baseline", "run-a")):
        said = printed(settings, *words).replace("metrics of queries: neither run delivered results", "")
        assert "extraction" in said
        for word in ("quer", "undefined", "hit@", "chunk"):
            assert word not in said, said


def test_markdown_and_pages_say_nothing_of_queries(settings: Settings) -> None:
    registry = registry_of(settings)
    document = compare(project_of(settings, registry), "run-a", "run-b")
    assert document["warnings"] == []
    for text in (render_report_md(document), render_short_md(document)):
        assert "extraction.macro_f1" in text or "run-b" in text
        for word in ("quer", "Undefined", "hit@", "chunk"):
            assert word not in text, text
    for page in (
        run_page(project_of(settings, registry), "run-a"),
        pair_page(project_of(settings, registry), "run-a", "run-b"),
    ):
        assert "Macro F1" in page or "extraction.macro_f1" in page
        for word in ("hit@5", "No headline", "Undefined here", 'id="queries"', 'id="verdicts"'):
            assert word not in page
    assert "no golden set" not in suite_page(project_of(settings, registry))


def test_nights_of_cases_are_compared_and_published_like_any(settings: Settings, tmp_path: Path) -> None:
    own, registry = replace(settings, reports=tmp_path / "reports"), registry_of(settings)
    with open_reader(own.db) as con:
        assert [(pair.run_a, pair.run_b) for pair in find_pairs(store_with(con, registry))] == [
            ("run-a", "run-b")
        ]
    assert {("run-a",), ("run-b",)} <= {page.runs for page in publish_pages(project_of(own, registry)).pages}
    assert (tmp_path / "reports" / "run-b.files" / "eval-results.json").is_file()


def test_the_gate_asks_only_for_what_its_rules_read(settings: Settings, tmp_path: Path) -> None:
    for config in (None, tmp_path / "rules.toml"):
        if config:
            config.write_text(RULE, "utf-8")
        found = gate(project_of(settings), "run-b", "run-a", config_file=config)
        assert (found["verdict"], found["preconditions"]) == ("pass", [])
        assert [rule["metric"] for rule in found["rules"]] == ["extraction.macro_f1"]


def test_a_rule_about_queries_still_needs_answers(settings: Settings, tmp_path: Path) -> None:
    config = tmp_path / "rules.toml"
    config.write_text(RULE + "[[gate.rules]]\nmetric = 'hit@5'\n", "utf-8")
    found = gate(project_of(settings), "run-b", "run-a", config_file=config)
    assert found["verdict"] == "inconclusive"
    assert any("golden queries" in one for one in found["preconditions"])


def test_a_candidate_that_lost_its_results_does_not_pass_by_its_cases(
    settings: Settings, tmp_path: Path
) -> None:
    own = copied(settings, tmp_path)
    write_golden(tmp_path / "more", [{"query_id": "q", "expected_chunk_ids": ["c"]}], dataset="forms")
    write_run(tmp_path / "more", "run-a", [{"query_id": "q", "hits_top_k": hits("c")}], dataset="forms")
    load(own, tmp_path / "more", on=3)
    compute(own, on=4, reasons=None, definitions=OF_EXTRACTION)
    found = gate(project_of(own), "run-b", "run-a")
    assert found["verdict"] == "inconclusive"
    assert "the candidate answered 0 of 1 golden queries; at least 98% are needed" in found["preconditions"]
    assert "hit@5: no query is in both runs" in found["skipped"]


def test_a_golden_set_that_comes_later_takes_nothing_away(settings: Settings, tmp_path: Path) -> None:
    own = copied(settings, tmp_path)
    before = show_run(project_of(own), "run-a")["extraction"]
    write_golden(tmp_path / "more", [{"query_id": "q", "expected_chunk_ids": ["c"]}], dataset="forms")
    load(own, tmp_path / "more", on=3)
    shown = show_run(project_of(own), "run-a")
    assert shown["extraction"] == before
    stale = [one["table"] for one in shown["states"] if one["reason"] == "labels"]
    assert stale and not [name for name in stale if "extraction" in name or "field" in name]
    assert gate(project_of(own), "run-b", "run-a")["verdict"] == "pass"
    compute(own, on=4, reasons=None, definitions=OF_EXTRACTION)
    assert gate(project_of(own), "run-b", "run-a")["verdict"] == "pass"
    assert "q" not in printed(own, "show", "run-a")
