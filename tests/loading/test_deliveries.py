"""What is delivered again, elsewhere, twice, too early, or broken: the store after every kind of delivery."""

from __future__ import annotations

import gzip
import json
import os
import shutil

import pytest

from eval_pipeline.formulas.registry import load_registry
from eval_pipeline.store.kept import kept_folder
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
from tests.upkeep.forgettable import own_copy

GOLDEN = [
    {"query_id": "q1", "expected_chunk_ids": ["d/1"]},
    {"query_id": "q2", "expected_chunk_ids": ["d/2"]},
]
HIT_AT_K = {"definitions": {"metrics.hit_at_k"}}
RAW_TABLES = (
    "runs",
    "results",
    "hits",
    "hit_spans",
    "citations",
    '"references"',
    "run_parts",
    "archive_chunks",
)


@pytest.fixture
def settings(empty_store, tmp_path):
    shutil.copyfile(empty_store, tmp_path / "e.duckdb")
    return settings_in(tmp_path)


def write_bundle(folder):
    write_golden(folder, GOLDEN)
    write_run(folder, "run-1", [{"query_id": "q1", "hits_top_k": hits("d/1")}, {"query_id": "q2"}])
    return folder


@pytest.fixture
def bundle(tmp_path):
    return write_bundle(tmp_path / "bundle")


@pytest.fixture(scope="module")
def delivered_once(tmp_path_factory):
    folder = tmp_path_factory.mktemp("delivered")
    load(settings_in(folder), write_bundle(folder / "bundle"), on=1)
    return folder


@pytest.fixture
def delivered(delivered_once, tmp_path):
    """A store of one's own into which the bundle was loaded on day 1, and the bundle."""
    return own_copy(delivered_once, tmp_path)


@pytest.fixture(scope="session")
def registry(tmp_path_factory):
    return load_registry(settings_in(tmp_path_factory.mktemp("no-configuration")))


def hit_at_1(settings):
    rows = ask(
        settings, "select run_id, query_id, value from per_query_metrics where metric = 'hit@1' order by all"
    )
    return {(run_id, query_id): value for run_id, query_id, value in rows}


def raw_rows(settings):
    return {name: sorted(map(repr, ask(settings, f"from raw.{name}"))) for name in RAW_TABLES}


def deliveries(settings, part):
    return ask(
        settings,
        "select run_id, delivered_at, superseded_at, n_rows from deliveries where part = ? order by delivered_at, run_id",
        part,
    )


def reasons(settings):
    return [row[0] for row in ask(settings, "select reason from quarantine order by all")]


def test_the_same_bytes_again_change_nothing(settings, bundle):
    load(settings, bundle, on=1)
    before = raw_rows(settings), ask(settings, "from deliveries order by all")
    report = load(settings, bundle, on=2)
    assert (report.golden_sets, report.runs, report.unchanged) == ([], [], 2)
    assert (raw_rows(settings), ask(settings, "from deliveries order by all")) == before


def test_the_same_lines_packed_or_at_another_place_change_nothing(delivered, tmp_path):
    settings, bundle = delivered
    before = raw_rows(settings)
    elsewhere = shutil.copytree(bundle, tmp_path / "elsewhere")
    plain = elsewhere / "runs" / "run-1" / "results.jsonl"
    (elsewhere / "runs" / "run-1" / "results.jsonl.gz").write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()
    assert load(settings, elsewhere, on=2).runs == []
    assert raw_rows(settings) == before


def test_a_part_delivered_again_replaces_that_part_and_the_earlier_delivery_stays_on_record(delivered):
    settings, bundle = delivered
    write_run(bundle, "run-1", [{"query_id": "q1", "hits_top_k": hits("d/7", "d/1")}])
    report = load(settings, bundle, on=2)
    assert report.runs == ["run-1"]
    stored = ask(settings, "select query_id, rank, chunk_id from hits order by all")
    assert stored == [("q1", 1, "d/7"), ("q1", 2, "d/1")]
    assert deliveries(settings, "results") == [("run-1", day(1), day(2), 2), ("run-1", day(2), None, 1)]
    assert deliveries(settings, "run") == [("run-1", day(1), None, 1)]


def test_parts_that_are_not_delivered_stay(settings, bundle):
    folder = bundle / "runs" / "run-1"
    write_lines(
        folder / "extractions.jsonl", [{"case_id": "c", "ground_truth": {"a": 1}, "extracted": {"a": 1}}]
    )
    load(settings, bundle, on=1)
    before = raw_rows(settings)
    for name in ("results.jsonl", "extractions.jsonl"):
        (folder / name).unlink()
    (folder / "run.json").write_text(json.dumps({"run_id": "run-1", "dataset": "kb", "suite": "nightly"}))
    assert load(settings, bundle, on=2).runs == ["run-1"]
    after = raw_rows(settings)
    assert ask(settings, "select run_id, suite from runs") == [("run-1", "nightly")]
    assert {name: after[name] for name in ("results", "hits")} == {
        name: before[name] for name in ("results", "hits")
    }
    assert ask(settings, "select count(*) from raw.extraction_cases") == [(1,)]


def test_a_known_run_with_another_dataset_is_rejected_and_the_stored_run_stays(delivered):
    settings, bundle = delivered
    before = raw_rows(settings)
    write_run(bundle, "run-1", [{"query_id": "q9"}], dataset="other")
    write_run(bundle, "run-2", [{"query_id": "q1"}])
    report = load(settings, bundle, on=2)
    assert (report.rejected, report.runs) == (["run-1"], ["run-2"])
    assert "known with another dataset" in reasons(settings)[0]
    assert before["results"] == [row for row in raw_rows(settings)["results"] if row in before["results"]]
    assert ask(settings, "select run_id, dataset from runs order by all") == [
        ("run-1", "kb"),
        ("run-2", "kb"),
    ]


def test_one_run_twice_in_one_load_ends_as_the_last_path_says(settings, bundle, tmp_path):
    later = tmp_path / "later"
    write_run(later, "run-1", [{"query_id": "q1", "hits_top_k": hits("d/9")}], created_at="2020-01-01")
    report = load(settings, bundle, later)
    assert report.runs == ["run-1", "run-1"]
    assert ask(settings, "select run_id from runs") == [("run-1",)]
    assert ask(settings, "select query_id, chunk_id from hits") == [("q1", "d/9")]


def test_one_run_delivered_there_and_back_in_one_load_ends_as_the_last_path_says(delivered, tmp_path):
    settings, bundle = delivered
    other = tmp_path / "other"
    write_run(other, "run-1", [{"query_id": "q1", "hits_top_k": hits("d/9")}])
    load(settings, other, bundle, on=2)
    assert ask(settings, "select query_id, chunk_id from hits") == [("q1", "d/1")]
    assert [row[2] for row in deliveries(settings, "results")] == [day(2), day(2), None]


def test_a_run_is_held_against_labels_when_they_arrive(settings, bundle, registry, tmp_path):
    golden = tmp_path / "golden"
    shutil.move(bundle / "datasets", golden / "datasets")
    load(settings, bundle, on=1)
    compute(settings, registry, **HIT_AT_K)
    assert set(hit_at_1(settings).values()) == {None}
    load(settings, golden, on=3)
    compute(settings, registry, on=4, reasons=None, **HIT_AT_K)
    assert hit_at_1(settings) == {("run-1", "q1"): 1.0, ("run-1", "q2"): 0.0}


def test_the_newest_golden_set_scores_and_the_earlier_one_stays_for_history(delivered, registry):
    settings, bundle = delivered
    compute(settings, registry, on=2, **HIT_AT_K)
    write_golden(bundle, [{"query_id": "q1", "expected_chunk_ids": ["d/5"]}])
    load(settings, bundle, on=3)
    compute(settings, registry, on=4, reasons=None, **HIT_AT_K)
    assert hit_at_1(settings) == {("run-1", "q1"): 0.0}
    assert ask(settings, "select superseded_at from labels.golden_sets order by golden_key") == [
        (day(3),),
        (None,),
    ]
    write_golden(bundle, GOLDEN)
    load(settings, bundle, on=5)
    compute(settings, registry, on=6, reasons=None, **HIT_AT_K)
    assert hit_at_1(settings) == {("run-1", "q1"): 1.0, ("run-1", "q2"): 0.0}


def test_every_state_of_an_archive_is_kept_and_only_the_newest_is_current(settings, bundle):
    for number, chunks in enumerate((["a"], ["a", "b"], ["a"]), start=1):
        write_archive(bundle, "v1", [{"chunk_id": chunk, "doc_id": "d"} for chunk in chunks])
        assert load(settings, bundle, on=number).archives == ["kb/v1"]
    states = ask(settings, "select n_rows, superseded_at from raw.archives order by archive_key")
    assert states == [(1, day(2)), (2, day(3)), (1, None)]


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ([{"query_id": "q1"}, {"query_id": "q2"}, {"query_id": "q1"}], "stands on lines 1 and 3"),
        ([{"query_id": "q1"}, '{"query_id": "q2", "hits'], "looks cut off"),
    ],
)
def test_a_rejected_results_file_rejects_its_run_and_no_other(settings, bundle, lines, reason):
    write_run(bundle, "broken", lines, created_at="2020-01-01")
    report = load(settings, bundle)
    assert (report.rejected, report.runs) == (["broken"], ["run-1"])
    assert [row[0] for row in ask(settings, "select run_id from runs")] == ["run-1"]
    (found,) = ask(settings, "select run_id, line, reason from quarantine")
    assert (found[0], found[1]) == ("broken", 3 if "lines" in reason else 2)
    assert reason in found[2]


def test_a_rejected_redelivery_leaves_what_stood_there(delivered):
    settings, bundle = delivered
    before = raw_rows(settings)
    write_run(bundle, "run-1", [{"query_id": "q1"}, {"query_id": "q1"}])
    assert load(settings, bundle, on=2).rejected == ["run-1"]
    assert raw_rows(settings) == before


def test_a_large_run_survives_that_a_small_one_of_its_batch_is_rejected(settings, bundle, monkeypatch):
    """The large one is read twice then, because its batch is written twice."""
    monkeypatch.setattr("eval_pipeline.loading.runs.IN_MEMORY_BYTES", 1)
    write_run(bundle, "twice", [{"query_id": "q1"}, {"query_id": "q1"}])
    report = load(settings, bundle)
    assert (report.rejected, report.runs, report.results) == (["twice"], ["run-1"], 2)
    assert ask(settings, "select query_id, chunk_id from hits") == [("q1", "d/1")]


def test_a_bad_row_leaves_its_run_visible_and_is_counted_on_its_delivery(settings, bundle):
    write_run(bundle, "run-1", [{"query_id": "q1"}, {"query_id": "q2", "answer": 3}])
    report = load(settings, bundle)
    assert (report.runs, report.quarantined, report.results) == (["run-1"], 1, 1)
    (row,) = ask(settings, "select path, line, run_id, query_id, field, reason, text from quarantine")
    assert row[0].endswith("runs/run-1/results.jsonl")
    assert row[1:5] == (2, "run-1", "q2", "answer")
    assert "expected an object" in row[5]
    assert row[6] == '{"query_id": "q2", "answer": 3}'
    assert ask(settings, "select n_rows, n_quarantined from deliveries where part = 'results'") == [(1, 1)]


def test_what_is_rejected_is_on_record_once_however_often_it_is_delivered(settings, bundle):
    write_run(bundle, "run-2", "{")
    (bundle / "runs" / "run-2" / "run.json").write_text("{")
    for number in (1, 2, 3):
        assert load(settings, bundle, on=number).rejected == ["run-2"]
    assert len(reasons(settings)) == 1


def test_many_bad_rows_are_recorded_each_with_its_line(settings, bundle):
    write_run(bundle, "run-1", [{"query_id": number} for number in range(3000)])
    assert load(settings, bundle).quarantined == 3000
    assert ask(settings, "select count(distinct line), min(line), max(line) from quarantine") == [
        (3000, 1, 3000)
    ]


def test_a_bad_row_of_a_golden_set_is_on_record_with_the_set(settings, bundle):
    write_golden(bundle, [*GOLDEN, {"query_id": "q3", "expected_chunk_ids": "d/3"}])
    report = load(settings, bundle)
    assert (report.golden_sets, report.quarantined) == (["kb"], 1)
    assert ask(settings, "select query_id, field from quarantine") == [("q3", "expected_chunk_ids")]
    assert ask(settings, "select query_id from queries order by query_no") == [("q1",), ("q2",)]


def test_a_folder_whose_name_is_no_text_is_reported_and_stops_nothing(settings, bundle):
    folder = bundle / "runs" / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    (folder / "run.json").write_text('{"run_id": "x", "dataset": "kb"}')
    report = load(settings, bundle)
    assert report.runs == ["run-1"]
    assert "not the name of its folder" in reasons(settings)[0]


def test_the_delivered_bytes_are_kept_beside_the_store_unknown_keys_and_all(settings, bundle, tmp_path):
    write_run(bundle, "run-1", [{"query_id": "q1", "trace_id": "only in the file"}, {"query_id": 3}])
    load(settings, bundle)
    (kept,) = kept_folder(settings.db).iterdir()
    rebuilt = settings_in(tmp_path / "again")
    report = load(rebuilt, kept)
    assert (report.runs, report.golden_sets, report.quarantined) == (["run-1"], ["kb"], 1)
    (results,) = (kept / "runs" / "run-1").glob("results*")
    import zstandard

    with results.open("rb") as packed:
        content = zstandard.ZstdDecompressor().stream_reader(packed).read()
    assert content == (bundle / "runs" / "run-1" / "results.jsonl").read_bytes()
    assert raw_rows(rebuilt)["hits"] == raw_rows(settings)["hits"]


def test_an_empty_results_file_is_kept_so_that_it_can_be_loaded_again(settings, bundle, tmp_path):
    write_run(bundle, "run-1", [])
    load(settings, bundle)
    (kept,) = kept_folder(settings.db).iterdir()
    assert load(settings_in(tmp_path / "again"), kept).runs == ["run-1"]


def test_hostile_ids_come_back_as_they_were_delivered(settings, bundle):
    odd = [
        "'; drop table raw.runs; --",
        "a|b",
        "日本語",
        " padded ",
        "",
        "null",
        '"quoted"',
        "$1 ${x} %s",
        "x\ny",
    ]
    results = [{"query_id": name, "hits_top_k": hits(name)} for name in odd if name]
    write_run(bundle, "run-1", results)
    report = load(settings, bundle)
    assert report.quarantined == 0
    stored = ask(settings, "select query_id, chunk_id from hits order by all")
    assert stored == sorted((name, name) for name in odd if name)
