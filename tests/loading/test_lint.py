"""What looks odd in a golden set or in a delivery is said by name, and changes nothing."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from eval_pipeline.bundle.golden import read_golden_row
from eval_pipeline.cli.main import cli
from eval_pipeline.loading.lint import lint_rows
from tests.bundle_files import ask, hits, load, settings_in, write_archive, write_golden, write_run
from tests.projects import open_writer

SUPPORT = {"rel_path": "a.md"}
NOWHERE = {"doc_id": "d", "start": 5, "end": 5}
SOMEWHERE = {"doc_id": "d", "start": 5, "end": 9}


def found(*rows):
    """(rule, query id, decision) of every finding."""
    findings = lint_rows([read_golden_row({"query_id": f"q{n}", **row}) for n, row in enumerate(rows, 1)])
    return [(one.rule, one.query_id, one.decision) for one in findings]


@pytest.mark.parametrize(
    ("row", "rule", "decision"),
    [
        ({"answerable": True, "expected_doc_ids": []}, "contradictory_answerable", "AX.5"),
        ({"answerable": False, "expected_doc_ids": ["d"]}, "contradictory_answerable", "AX.5"),
        ({"expected_doc_ids": [], "expected_chunk_ids": ["c"]}, "refusal_with_expected_chunks", "A3.22"),
        ({"multi_hop": True, "gold_supports": [SUPPORT]}, "multi_hop_without_groups", "A2.7"),
        ({"category": "multi_hop", "required_support_groups": []}, "multi_hop_without_groups", "A2.7"),
        ({"ground_truth_spans": [NOWHERE]}, "zero_length_span", "A0.6"),
        ({"ground_truth_spans": [SOMEWHERE, NOWHERE]}, "zero_length_span", "A0.6"),
        ({"expected_chunk_spans": {"c": [NOWHERE]}}, "zero_length_span", "A3.16"),
        ({"must_contain": ["x", ""]}, "empty_string", "A3.9"),
        ({"forbidden": [""]}, "empty_string", "A3.9"),
        ({"category": "recency/conflict"}, "conflict_rule", "A2.11"),
        ({"category": "factual", "recency_conflict_rule": "cite_both"}, "conflict_rule", "A2.11"),
        ({"category": "recency/conflict", "recency_conflict_rule": "cite_newer"}, "conflict_rule", "A2.11"),
    ],
)
def test_an_odd_label_is_named_with_its_query_and_its_decision(row, rule, decision):
    assert found(row) == [(rule, "q1", decision)]


@pytest.mark.parametrize(
    "row",
    [
        {},
        {"answerable": False, "expected_doc_ids": []},
        {"answerable": True, "expected_doc_ids": ["d"]},
        {"answerable": False, "expected_doc_ids": None, "expected_chunk_ids": []},
        {"expected_doc_ids": [], "expected_chunk_ids": []},
        {"multi_hop": True, "gold_supports": [SUPPORT], "required_support_groups": [[0]]},
        {"multi_hop": False},
        {"ground_truth_spans": []},
        {"must_contain": [" "], "forbidden": []},
        {
            "category": "recency/conflict",
            "recency_conflict_rule": "cite_newer",
            "gold_supports": [{**SUPPORT, "recency": "newer"}],
        },
    ],
)
def test_labels_that_agree_are_no_finding(row):
    assert found(row) == []


def test_one_path_in_two_vaults_is_told_once():
    work, home = (
        {"vault": "work", "gold_supports": [SUPPORT]},
        {"vaults": ["home"], "gold_supports": [SUPPORT]},
    )
    assert found(work, home, work, home) == [("path_in_two_vaults", "q2", "A2.23")]
    assert (
        found(work, {"vaults": ["home", "work"], "gold_supports": [SUPPORT]}, {"gold_supports": [SUPPORT]})
        == []
    )


def test_the_same_question_with_other_labels_is_told_and_with_the_same_labels_is_not():
    one = {"query": "Who?", "expected_chunk_ids": ["a", "b"]}
    assert found(one, {**one, "query": " Who? ", "expected_chunk_ids": ["b", "a", "a"]}) == []
    assert found(one, {**one, "expected_chunk_ids": ["a"]}) == [("same_question", "q2", "N.6")]
    assert found({"query": ""}, {"query": " ", "answerable": False}) == []


@pytest.fixture
def settings(tmp_path):
    return settings_in(tmp_path)


@pytest.fixture
def bundle(tmp_path):
    folder = tmp_path / "bundle"
    write_golden(folder, [{"query_id": "q1", "expected_chunk_ids": ["d/1", "d/2", "d/3"]}])
    return folder


def warnings(settings):
    return ask(settings, "select rule, coalesce(dataset, run_id), query_id, finding from lint order by all")


def archive(bundle, *chunk_ids, version="v1", dataset="kb"):
    write_archive(bundle, version, [{"chunk_id": one, "doc_id": "d"} for one in chunk_ids], dataset=dataset)


def test_expected_chunks_that_no_inventory_has_are_counted(settings, bundle):
    archive(bundle, "d/1", "d/9")
    report = load(settings, bundle)
    ((rule, dataset, query_id, words),) = warnings(settings)
    assert (rule, dataset, query_id) == ("stale_labels", "kb", "q1")
    assert words == "has 2 expected chunk ids in no inventory of its dataset: 'd/2', 'd/3'"
    assert [one.rule for one in report.warnings] == ["stale_labels"]


def test_where_a_load_was_killed_before_it_came_to_that_the_next_holds_labels_against_archives(
    settings, bundle
):
    archive(bundle, "d/1")
    load(settings, bundle)
    before = warnings(settings)
    with open_writer(settings.db) as con:
        con.execute("delete from ledger.lint")
    load(settings, bundle, on=2)
    assert warnings(settings) == before != []


def test_labels_are_held_against_every_chunker_and_only_against_what_stands_now(settings, bundle):
    archive(bundle, "d/1")
    archive(bundle, "d/2", "d/3", version="v2", dataset=None)
    load(settings, bundle, on=1)
    assert warnings(settings) == []
    archive(bundle, "d/7")
    load(settings, bundle, on=2)
    assert [words for *_, words in warnings(settings)] == [
        "has 1 expected chunk id in no inventory of its dataset: 'd/1'"
    ]
    archive(bundle, "d/1")
    load(settings, bundle, on=3)
    assert warnings(settings) == []


def test_a_dataset_without_any_inventory_has_no_stale_labels(settings, bundle):
    archive(bundle, "x", dataset="other")
    load(settings, bundle)
    assert warnings(settings) == []


def test_a_file_that_counts_ranks_from_zero_is_one_warning(settings, bundle):
    rows = [
        {
            "query_id": f"q{number}",
            "hits_top_k": [{**hit, "rank": place} for place, hit in enumerate(hits("d/1", "d/2"))],
        }
        for number in range(3)
    ]
    write_run(bundle, "run-1", rows)
    load(settings, bundle)
    ((rule, run_id, query_id, words),) = warnings(settings)
    assert (rule, run_id, query_id) == ("rank_disagrees", "run-1", None)
    assert "counts from 0" in words


def test_a_rank_that_is_not_the_place_is_told_with_its_query(settings, bundle):
    good = [{**hit, "rank": place} for place, hit in enumerate(hits("d/1", "d/2"), 1)]
    swapped = [good[1], good[0]]
    rows = [{"query_id": "q1", "hits_top_k": good}]
    rows += [{"query_id": query_id, "hits_top_k": swapped} for query_id in ("q3", "q2")]
    write_run(bundle, "run-1", [*rows, {"query_id": "q4", "hits_top_k": hits("d/1")}])
    load(settings, bundle, on=1)
    ((_, run_id, query_id, words),) = warnings(settings)
    assert (run_id, query_id) == ("run-1", "q3")
    assert words.startswith("the hit at place 1 says rank 2 (and other hits in 1 more query)")
    write_run(bundle, "run-1", rows[:1])
    load(settings, bundle, on=2)
    assert warnings(settings) == []


def judged(query_id, given, *chunks):
    return {"query_id": query_id, "hits_top_k": [*chunks], "judge": {"input": given}}


def test_an_input_of_the_judge_without_any_retrieved_text_is_told(settings, bundle):
    """Texts stand in the hits, or in the archive of the run's chunker; what nobody knows cannot be missed."""
    spoken = 'He said "no",\nand\tmeant *äh*.'
    write_archive(bundle, "v1", [{"chunk_id": "d/1", "doc_id": "d", "text": spoken}])
    first, second, unknown = ({"chunk_id": f"d/{n}", "doc_id": "d"} for n in (1, 2, 3))
    second["text"] = "Of the second."
    rows = [
        judged("q1", {"context": [f"Found: {spoken}"]}, first),
        judged("q2", f"Judge this: {spoken}", second, first),
        judged("q3", {"context_chunk_ids": ["d/3"]}, unknown),
        judged("q4", {"context_chunk_ids": []}),
        {"query_id": "q5", "hits_top_k": [first]},
    ]
    write_run(bundle, "whole", rows, config={"chunker_version": "v1"})
    lacking = [judged(query_id, {"context_chunk_ids": ["d/1"]}, first, second) for query_id in ("q8", "q7")]
    write_run(bundle, "lacking", [rows[0], *lacking], config={"chunker_version": "v1"})
    load(settings, bundle)
    ((run_id, query_id, words),) = [
        rest for rule, *rest in warnings(settings) if rule == "judge_input_incomplete"
    ]
    assert (run_id, query_id) == ("lacking", "q8")
    assert "lacks the text of every hit, and so do those of 1 more query" in words


def test_findings_are_those_of_the_golden_set_that_scores(settings, bundle):
    write_golden(bundle, [{"query_id": "q1", "must_contain": [""]}, {"query_id": "q2", "multi_hop": True}])
    load(settings, bundle, on=1)
    assert [row[0] for row in warnings(settings)] == ["empty_string", "multi_hop_without_groups"]
    write_golden(bundle, [{"query_id": "q1", "must_contain": ["x"]}])
    load(settings, bundle, on=2)
    assert warnings(settings) == []


def test_warnings_change_neither_the_exit_code_nor_a_row(settings, bundle):
    write_golden(bundle, [{"query_id": f"q{n}", "forbidden": ["", "x"]} for n in range(5)])
    shown = CliRunner().invoke(cli, ["load", str(bundle), "--db", str(settings.db)])
    assert shown.exit_code == 0
    assert "warning: kb: 'q0' has \"\" in forbidden" in shown.stderr
    assert "5 warnings, nothing was left out: `eval-pipeline status --lint`" in shown.stderr
    assert "warning" not in shown.stdout
    assert ask(settings, "select count(*) from labels.strings") == [(5,)]
    assert ask(settings, "select count(*) from quarantine") == [(0,)]


def test_load_and_status_give_the_warnings_as_documents(settings, bundle):
    write_golden(bundle, [{"query_id": "q1", "answerable": True, "expected_doc_ids": []}])
    runner = CliRunner()
    loaded = json.loads(runner.invoke(cli, ["load", str(bundle), "--json", "--db", str(settings.db)]).stdout)
    kept = json.loads(runner.invoke(cli, ["status", "--lint", "--json", "--db", str(settings.db)]).stdout)
    (entry,) = loaded["warnings"]
    assert kept == {"format": 1, "warnings": [entry]}
    assert (entry["rule"], entry["dataset"], entry["query_id"], entry["decision"]) == (
        "contradictory_answerable",
        "kb",
        "q1",
        "AX.5",
    )
    assert "1 warning" in runner.invoke(cli, ["status", "--lint", "--db", str(settings.db)]).stdout


def test_a_dry_run_tells_the_warnings_and_keeps_none(settings, bundle):
    write_golden(bundle, [{"query_id": "q1", "forbidden": [""]}])
    shown = CliRunner().invoke(cli, ["load", str(bundle), "--dry-run", "--db", str(settings.db)])
    assert "warning: kb: 'q1' has \"\" in forbidden" in shown.stderr
    assert not settings.db.exists()
