"""What was rejected, until it is put right: shown with its reason, read again after a fix, and then gone."""

from __future__ import annotations

import json
import shutil

import pytest
from click.testing import CliRunner

from eval_pipeline.bundle import parts
from eval_pipeline.cli.main import cli
from eval_pipeline.computing.measure import measure
from eval_pipeline.errors import UnknownName
from eval_pipeline.formulas.registry import load_registry
from eval_pipeline.loading.quarantine import find_quarantine, retry_quarantine
from eval_pipeline.showing.checks import undelivered_rows
from eval_pipeline.showing.show import show_run
from tests.bundle_files import (
    ask,
    compute,
    day,
    hits,
    load,
    settings_in,
    write_archive,
    write_golden,
    write_lines,
    write_run,
)
from tests.projects import open_reader, project_of

GOLDEN = [
    {"query_id": "q1", "expected_chunk_ids": ["d/1"]},
    {"query_id": "q2", "expected_chunk_ids": ["d/1"]},
]
GOOD = [{"query_id": "q1", "hits_top_k": hits("d/1")}, {"query_id": "q2", "hits_top_k": hits("d/1")}]
BAD = [GOOD[0], {"query_id": "q2", "answer": "yes " * 100}]


@pytest.fixture
def settings(empty_store, tmp_path):
    shutil.copyfile(empty_store, tmp_path / "e.duckdb")
    return settings_in(tmp_path)


@pytest.fixture
def bundle(tmp_path):
    folder = tmp_path / "bundle"
    write_golden(folder, GOLDEN)
    write_run(folder, "run-1", BAD)
    return folder


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    return load_registry(settings_in(tmp_path_factory.mktemp("no-configuration")))


def retry(settings, *, on, **options):
    return retry_quarantine(project_of(settings, now=day(on)), **options)


def waiting(settings, **filters):
    return [
        (row["run_id"] or row["dataset"], row["line"])
        for row in find_quarantine(project_of(settings), **filters)
    ]


def called(command, settings, *arguments):
    return CliRunner().invoke(cli, [command, *arguments, "--db", str(settings.db)])


def test_the_reason_is_in_words_and_the_text_is_clipped_on_screen_only(settings, bundle):
    load(settings, bundle)
    shown = called("quarantine", settings)
    assert shown.exit_code == 0
    assert "answer: expected an object, got text" in shown.stdout
    assert max(len(line) for line in shown.stdout.splitlines() if "yes" in line) < 180
    (row,) = json.loads(called("quarantine", settings, "--json").stdout)["rows"]
    assert json.loads(row["text"]) == BAD[1]
    assert (row["run_id"], row["query_id"], row["line"], row["dataset"]) == ("run-1", "q2", 2, "kb")


def test_rows_are_counted_by_their_reason(settings, bundle):
    rows = [{"query_id": f"q{n}", "answer": 3} for n in range(12)]
    write_run(bundle, "run-1", [*rows, {"query_id": 5}])
    load(settings, bundle)
    shown = " ".join(called("quarantine", settings).stdout.split())
    assert (
        "12 answer expected an object, got a whole number 1 query_id expected text, got a whole number"
        in shown
    )
    assert "… and 3 rows more" in shown


def test_a_run_or_a_dataset_is_shown_by_itself(settings, bundle):
    write_run(bundle, "run-2", BAD)
    write_golden(bundle, [{"query_id": "q1", "expected_chunk_ids": "d/1"}], dataset="other")
    write_run(bundle, "run-3", BAD, dataset="other")
    load(settings, bundle)
    assert waiting(settings, run_ids=["run-2"]) == [("run-2", 2)]
    assert waiting(settings, datasets=["other"]) == [("other", 1), ("run-3", 2)]
    assert "run-1 and 2 more" in called("quarantine", settings).stdout


def test_a_misspelt_name_is_an_error_and_not_an_empty_quarantine(settings, bundle):
    write_run(bundle, "run-2", GOOD)
    write_run(bundle, "rejected", ["{"])
    load(settings, bundle)
    for words, close in (
        (("--run", "run-22"), "did you mean run-2"),
        (("--dataset", "kbb"), "did you mean kb?"),
        (("--retry", "--run", "rejectet"), "did you mean rejected?"),
    ):
        done = called("quarantine", settings, *words)
        assert isinstance(done.exception, UnknownName) and close in str(done.exception)
    nothing = called("quarantine", settings, "--run", "run-2").stdout
    assert "Nothing is in quarantine for what you asked." in nothing


def test_a_good_delivery_of_the_part_resolves_its_rows(settings, bundle):
    load(settings, bundle, on=1)
    write_run(bundle, "run-1", GOOD)
    load(settings, bundle, on=2)
    assert waiting(settings) == []
    assert waiting(settings, resolved=True) == [("run-1", 2)]
    shown = called("quarantine", settings)
    assert "Nothing is in quarantine." in shown.stdout
    assert "1 row resolved since: --resolved shows them" in shown.stderr


def test_bad_bytes_that_come_back_are_in_quarantine_again(settings, bundle):
    load(settings, bundle, on=1)
    write_run(bundle, "run-1", GOOD)
    load(settings, bundle, on=2)
    write_run(bundle, "run-1", BAD)
    load(settings, bundle, on=3)
    assert waiting(settings) == [("run-1", 2)]
    assert ask(settings, "select count(*) from quarantine") == [(1,)]


def test_a_broken_file_that_is_put_back_as_it_was_is_resolved(settings, bundle):
    write_run(bundle, "run-1", GOOD)
    load(settings, bundle, on=1)
    write_run(bundle, "run-1", [GOOD[0], "{"])
    load(settings, bundle, on=2)
    assert waiting(settings) == [("run-1", 2)]
    write_run(bundle, "run-1", GOOD)
    assert load(settings, bundle, on=3).runs == []
    assert waiting(settings) == []


def test_a_rejected_part_stays_in_quarantine_while_only_other_parts_are_delivered(settings, bundle, tmp_path):
    folder = write_run(bundle, "run-1", GOOD)
    write_lines(folder / "extractions.jsonl", ["{"])
    load(settings, bundle, on=1)
    assert ask(settings, "select count(*) from runs") == [(0,)]
    other = tmp_path / "other"
    write_run(other, "run-1", GOOD)
    load(settings, other, on=2)
    assert waiting(settings) == [("run-1", 1)]


def test_retry_without_a_fix_changes_nothing_and_exits_with_3(settings, bundle):
    write_archive(bundle, "v1", [{"chunk_id": 1, "doc_id": "d"}])
    load(settings, bundle, on=1)
    before = ask(settings, "from deliveries order by all")
    shown = called("quarantine", settings, "--retry")
    assert shown.exit_code == 3
    assert "0 rows mended, 2 still in quarantine." in shown.stdout
    assert ask(settings, "from deliveries order by all") == before


def test_retry_takes_in_what_is_good_now_and_says_what_is_not(settings, bundle):
    write_run(bundle, "cut-off", [GOOD[0], '{"query_id": "q2", "hi'])
    write_run(bundle, "still-bad", BAD)
    write_golden(bundle, [*GOLDEN, {"query_id": "q3", "expected_chunk_ids": "d/1"}])
    write_archive(bundle, "v1", [{"chunk_id": "d/1", "doc_id": "d"}, {"chunk_id": 1, "doc_id": "d"}])
    load(settings, bundle, on=1)
    assert len(waiting(settings)) == 5
    write_run(bundle, "run-1", GOOD)
    write_run(bundle, "cut-off", GOOD)
    write_golden(bundle, GOLDEN)
    write_archive(bundle, "v1", [{"chunk_id": "d/1", "doc_id": "d"}])
    document = retry(settings, on=2)
    assert document["taken_in"] == ["cut-off", "kb", "kb/v1", "run-1"]
    assert sorted((row["run_id"] or "", row["line"]) for row in document["mended"]) == [
        ("", 2),
        ("", 3),
        ("cut-off", 2),
        ("run-1", 2),
    ]
    assert [(row["run_id"], row["query_id"]) for row in document["rows"]] == [("still-bad", "q2")]
    assert ask(settings, "select run_id, results from runs order by 1") == [
        ("cut-off", 2),
        ("run-1", 2),
        ("still-bad", 1),
    ]


def test_retry_of_one_run_leaves_the_others_alone(settings, bundle):
    write_run(bundle, "run-2", BAD)
    load(settings, bundle, on=1)
    for run_id in ("run-1", "run-2"):
        write_run(bundle, run_id, GOOD)
    document = retry(settings, on=2, run_ids=["run-2"])
    assert (document["taken_in"], document["rows"]) == (["run-2"], [])
    assert waiting(settings) == [("run-1", 2)]


def test_a_fix_that_is_another_fault_is_told_as_a_fault(settings, bundle):
    load(settings, bundle, on=1)
    write_run(bundle, "run-1", [*GOOD, {"query_id": "q3", "hits_top_k": "none"}])
    document = retry(settings, on=2)
    assert [row["query_id"] for row in document["mended"]] == ["q2"]
    assert [(row["query_id"], row["field"]) for row in document["rows"]] == [("q3", "hits_top_k")]


def test_a_file_that_is_gone_and_was_never_taken_in_is_said_to_be_gone(settings, bundle):
    write_run(bundle, "run-1", ["{"])
    load(settings, bundle, on=1)
    shutil.rmtree(bundle / "runs")
    shown = called("quarantine", settings, "--retry")
    assert shown.exit_code == 3
    assert "results.jsonl is not there" in shown.stderr


def taking_numbers(monkeypatch):
    """A later version of the product that takes numbers as ids of chunks and of queries."""
    each_line = parts.each_line

    def with_texts(row):
        return row | {name: str(row[name]) for name in ("chunk_id", "query_id") if name in row}

    monkeypatch.setattr(
        parts, "each_line", lambda path, read: each_line(path, lambda row: read(with_texts(row)))
    )


@pytest.mark.parametrize("original", ["stays", "gone"])
def test_rows_that_a_changed_rule_accepts_come_in_from_the_file_or_from_what_was_kept(
    settings, bundle, registry, monkeypatch, original
):
    folder = write_run(bundle, "run-1", GOOD)
    score = {"score": 1}
    checks = [{"query_id": query_id, "first": score, "second": score} for query_id in ("q1", 2)]
    write_lines(folder / "judge_spot_check.jsonl", checks)
    write_archive(bundle, "v1", [{"chunk_id": 1, "doc_id": "d"}])
    load(settings, bundle, on=1)
    wanted = {"definitions": {"facts.spot_checks", "metrics.hit_at_k"}}
    compute(settings, registry, on=2, **wanted)
    assert len(waiting(settings)) == 2
    if original == "gone":
        shutil.rmtree(bundle)
    taking_numbers(monkeypatch)
    document = retry(settings, on=3)
    assert (document["rows"], document["unread"], len(document["mended"])) == ([], [], 2)
    assert ask(settings, "select count(*) from raw.spot_checks") == [(2,)]
    assert ask(settings, "select count(*) from raw.archive_chunks") == [(1,)]
    # The bytes are the same, the rows are not: what was computed from this part is due, and nothing else is.
    done = measure(project_of(settings, registry, now=day(4)), **wanted)
    assert dict(done.cells) == {"facts.spot_checks": 1}


def test_the_counts_of_deliveries_agree_with_quarantine_after_everything(settings, bundle):
    load(settings, bundle, on=1)
    write_run(bundle, "run-1", GOOD)
    retry(settings, on=2)
    write_run(bundle, "run-1", BAD)
    load(settings, bundle, on=3)
    with open_reader(settings.db) as con:
        assert undelivered_rows(con, None) == {}


def test_show_counts_what_was_rejected_of_every_part(settings, bundle, registry):
    folder = bundle / "runs" / "run-1"
    write_lines(
        folder / "extractions.jsonl", [{"case_id": "c", "ground_truth": {}, "extracted": {}}, {"case_id": 1}]
    )
    write_lines(folder / "judge_spot_check.jsonl", [{"query_id": 1}, {"query_id": 2}])
    load(settings, bundle)
    shown = show_run(project_of(settings, registry), "run-1")
    assert shown["quarantined"] == {"extractions": 1, "judge_spot_check": 2, "results": 1}
    assert shown["missing_query_ids"] == ["q2"]
    printed = called("show", settings, "run-1", "--no-slices")
    assert "in quarantine: 1 extraction case, 1 result, 2 spot check lines" in printed.output


def test_options_that_contradict_each_other_are_refused(settings, bundle):
    load(settings, bundle)
    assert called("quarantine", settings, "--retry", "--resolved").exit_code == 2
    assert called("quarantine", settings, "--no-text").exit_code == 2
