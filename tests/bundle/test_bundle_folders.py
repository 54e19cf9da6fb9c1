"""A bundle as a folder: which files are looked at, in which packing, and what rejects a run or an archive as a whole."""

from __future__ import annotations

import gzip
import json
import os

import pyarrow as pa
import pyarrow.parquet
import pytest
import zstandard

from eval_pipeline.bundle.files import content_hash, line_blocks
from eval_pipeline.bundle.golden import read_golden_set
from eval_pipeline.bundle.layout import find_bundle
from eval_pipeline.bundle.parts import read_archive, read_run
from eval_pipeline.bundle.results import read_results
from eval_pipeline.errors import InputRejected, UsageError
from tests.bundle_files import write_archive, write_golden, write_lines, write_run

LINES = b"".join(json.dumps({"query_id": f"q{number}"}).encode() + b"\n" for number in range(20_000))


def run_file(folder, text, *, name="run-1"):
    path = folder / "runs" / name / "run.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(text if isinstance(text, bytes) else json.dumps(text).encode())
    return path


def query_ids(path):
    return [row["query_id"] for block in read_results(path, run_id="r") for row in block.results.to_pylist()]


@pytest.mark.parametrize("name", ["a", "A1", "nightly-2026.09.01_x:y@z+1", "1", "x" * 128, "a.b"])
def test_a_name_of_allowed_characters_is_taken(tmp_path, name):
    run = read_run(run_file(tmp_path, {"run_id": name, "dataset": "kb"}, name=name))
    assert run.run_id == name


@pytest.mark.parametrize("name", ["", "-a", "a-", ".a", "a..b", "a b", "a/b", "é", "x" * 129, "a\n", "..."])
@pytest.mark.parametrize("field", ["run_id", "dataset", "replaces", "replicate_of"])
def test_a_name_of_other_characters_rejects_the_run(tmp_path, field, name):
    path = run_file(tmp_path, {"run_id": "run-1", "dataset": "kb", field: name})
    with pytest.raises(InputRejected, match="cannot be a name") as caught:
        read_run(path)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (b"", "not JSON"),
        (b'{"run_id": "run-1", "data', "not JSON"),
        (b"\xff\xfe{\x00}\x00", "not UTF-8"),
        (b"[]", "holds a list"),
        (b"[" * 100_000, "nested too deeply"),
        ({"dataset": "kb"}, "is required"),
        ({"run_id": "run-1"}, "is required"),
        ({"run_id": "run-1", "dataset": None}, "expected text"),
        ({"run_id": "run-2", "dataset": "kb"}, "is not the name of its folder"),
        ({"run_id": "run-1", "dataset": "kb", "created_at": "yesterday"}, "ISO 8601"),
        ({"run_id": "run-1", "dataset": "kb", "created_at": "0001-01-01T00:00:00+14:00"}, "ISO 8601"),
        ({"run_id": "run-1", "dataset": "kb", "created_at": 1756684800}, "expected text"),
        ({"run_id": "run-1", "dataset": "kb", "night": "2026-13-01"}, "ISO 8601"),
        ({"run_id": "run-1", "dataset": "kb", "attempt": 10**12}, "out of range"),
        ({"run_id": "run-1", "dataset": "kb", "config": {"top_k": 10**40}}, "out of range"),
        ({"run_id": "run-1", "dataset": "kb", "config": {"top_k": 2.5}}, "a whole number"),
        ({"run_id": "run-1", "dataset": "kb", "config": {"chunker_version": "a b"}}, "cannot be a name"),
        (b'{"run_id": "run-1", "dataset": "kb", "suite_time_ms": NaN}', "finite"),
        ({"run_id": "run-1", "dataset": "kb", "suite": "a\x00"}, "NUL"),
    ],
    ids=lambda value: str(value)[:50],
)
def test_a_broken_run_file_rejects_the_run(tmp_path, document, reason):
    with pytest.raises(InputRejected, match=reason):
        read_run(run_file(tmp_path, document))


def test_a_run_file_may_begin_with_a_byte_order_mark_and_hold_unknown_keys(tmp_path):
    document = json.dumps({"run_id": "run-1", "dataset": "kb", "host": {"x": [1]}, "config": {"seed": 7}})
    assert read_run(run_file(tmp_path, b"\xef\xbb\xbf" + document.encode())).dataset == "kb"


def test_a_folder_without_a_run_file_is_not_looked_at(tmp_path):
    write_lines(tmp_path / "runs" / "unfinished" / "results.jsonl", [{"query_id": "q"}])
    write_run(tmp_path, "finished", [{"query_id": "q"}])
    bundle = find_bundle(tmp_path)
    assert [run.path.name for run in bundle.runs] == ["finished"]
    assert bundle.problems == []


def test_a_runs_folder_and_a_datasets_folder_are_bundles_of_their_own(tmp_path):
    write_golden(tmp_path, [{"query_id": "q"}])
    folder = write_run(tmp_path, "run-1", [{"query_id": "q"}])
    assert [run.path.name for run in find_bundle(folder).runs] == ["run-1"]
    assert [golden.dataset for golden in find_bundle(tmp_path / "datasets" / "kb").golden_sets] == ["kb"]


@pytest.mark.parametrize("make", [lambda path: None, lambda path: path.touch(), lambda path: path.mkdir()])
def test_what_is_no_bundle_is_refused_with_what_is_expected(tmp_path, make):
    make(tmp_path / "x")
    with pytest.raises(UsageError, match="datasets/, inventories/ or runs/"):
        find_bundle(tmp_path / "x")


def test_a_dataset_or_archive_with_an_impossible_name_is_a_problem_and_the_others_stay(tmp_path):
    write_golden(tmp_path, [{"query_id": "q"}], dataset="good")
    write_golden(tmp_path, [{"query_id": "q"}], dataset="not good")
    write_archive(tmp_path, "v1", [], dataset=None)
    write_archive(tmp_path, "v 2", [], dataset=None)
    bundle = find_bundle(tmp_path)
    assert [golden.dataset for golden in bundle.golden_sets] == ["good"]
    assert [archive.chunker_version for archive in bundle.archives] == ["v1"]
    assert len(bundle.problems) == 2


@pytest.mark.parametrize(
    ("first", "second"), [("results.jsonl", "results.jsonl.gz"), ("results.jsonl.zst", "results.parquet")]
)
def test_one_part_in_two_packings_is_a_contradiction(tmp_path, first, second):
    folder = write_run(tmp_path, "run-1", [])
    (folder / "results.jsonl").unlink()
    (folder / first).touch()
    (folder / second).touch()
    bundle = find_bundle(tmp_path)
    assert bundle.runs == []
    assert "keep one of them" in bundle.problems[0].reason


def test_two_golden_sets_of_one_dataset_are_a_contradiction(tmp_path):
    write_golden(tmp_path, [])
    (tmp_path / "datasets" / "kb" / "queries.yaml").touch()
    bundle = find_bundle(tmp_path)
    assert (bundle.golden_sets, len(bundle.problems)) == ([], 1)


def packed(folder, suffix):
    path = folder / f"results{suffix}"
    if suffix == ".jsonl.gz":
        path.write_bytes(gzip.compress(LINES))
    elif suffix == ".jsonl.zst":
        path.write_bytes(zstandard.ZstdCompressor().compress(LINES))
    elif suffix == ".parquet":
        rows = [json.loads(line) for line in LINES.splitlines()]
        pyarrow.parquet.write_table(pa.Table.from_pylist(rows), path)
    else:
        path.write_bytes(LINES)
    return path


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz", ".jsonl.zst", ".parquet"])
def test_every_packing_holds_the_same_rows(tmp_path, suffix):
    assert query_ids(packed(tmp_path, suffix)) == [f"q{number}" for number in range(20_000)]


def test_the_same_lines_in_another_packing_are_the_same_delivery(tmp_path):
    hashes = {content_hash(packed(tmp_path, suffix)) for suffix in (".jsonl", ".jsonl.gz", ".jsonl.zst")}
    assert len(hashes) == 1


@pytest.mark.parametrize("suffix", [".jsonl.gz", ".jsonl.zst", ".parquet"])
@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[: len(data) // 2],
        lambda data: data[:-1],
        lambda data: data[:40],
        lambda data: b"",
        lambda data: LINES,
    ],
    ids=["half", "one byte short", "beginning", "empty", "not packed"],
)
def test_a_damaged_packing_is_rejected_and_never_read_halfway(tmp_path, suffix, damage):
    path = packed(tmp_path, suffix)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(InputRejected, match=r"results"):
        content_hash(path)
        list(line_blocks(path))


def test_several_members_in_one_packed_file_are_read_one_after_the_other(tmp_path):
    path = tmp_path / "results.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"query_id": "a"}\n') + gzip.compress(b'{"query_id": "b"}\n'))
    assert query_ids(path) == ["a", "b"]


def test_a_parquet_file_of_nested_columns_is_read_like_json_lines(tmp_path):
    rows = [
        {
            "query_id": "a",
            "hits_top_k": [
                {"chunk_id": "c", "doc_id": "d", "score": 0.5, "source_spans": [{"start": 0, "end": 3}]},
                {"chunk_id": "e", "doc_id": "d", "score": None, "source_spans": None},
            ],
            "answer": {"text": "yes", "grounded": True},
        },
        {"query_id": "b", "hits_top_k": [], "answer": None},
    ]
    parquet = tmp_path / "results.parquet"
    pyarrow.parquet.write_table(pa.Table.from_pylist(rows), parquet)
    lines = write_lines(tmp_path / "results.jsonl", rows)
    (from_parquet,), (from_lines,) = read_results(parquet, run_id="r"), read_results(lines, run_id="r")
    for name in ("results", "hits", "hit_spans", "citations", "references"):
        assert getattr(from_parquet, name).to_pylist() == getattr(from_lines, name).to_pylist()


def test_a_parquet_row_that_is_bad_goes_to_quarantine_alone(tmp_path):
    path = tmp_path / "results.parquet"
    rows = [
        {"query_id": "a", "latency_ms": {"total": 1.0}},
        {"query_id": "b", "latency_ms": {"total": float("nan")}},
    ]
    pyarrow.parquet.write_table(pa.Table.from_pylist(rows), path)
    (block,) = read_results(path, run_id="r")
    assert [row["query_id"] for row in block.results.to_pylist()] == ["a"]
    assert [(problem.line, problem.field) for problem in block.problems] == [(2, "latency_ms.total")]


def test_a_golden_set_may_be_parquet(tmp_path):
    path = tmp_path / "queries.parquet"
    pyarrow.parquet.write_table(
        pa.Table.from_pylist([{"id": "q", "expected_doc_ids": []}, {"id": "r", "expected_doc_ids": None}]),
        path,
    )
    assert [(row.query_id, row.expected_doc_ids) for row in read_golden_set(path).rows] == [
        ("q", []),
        ("r", None),
    ]


@pytest.mark.parametrize("target", ["file outside", "folder outside", "nothing", "itself"])
def test_a_link_out_of_the_bundle_is_refused(tmp_path, target):
    bundle = tmp_path / "bundle"
    outside = write_run(tmp_path / "elsewhere", "linked", [{"query_id": "secret"}])
    write_run(bundle, "honest", [{"query_id": "q"}])
    if target == "folder outside":
        (bundle / "runs" / "linked").symlink_to(outside)
    else:
        folder = write_run(bundle, "linked", [])
        (folder / "results.jsonl").unlink()
        places = {"file outside": outside / "results.jsonl", "nothing": tmp_path / "gone"}
        (folder / "results.jsonl").symlink_to(places.get(target, folder / "results.jsonl"))
    found = find_bundle(bundle)
    assert [run.path.name for run in found.runs] == ["honest"]
    assert [problem.run_id for problem in found.problems] == ["linked"]
    assert "link" in found.problems[0].reason


def test_a_golden_set_or_archive_that_is_a_link_out_of_the_bundle_is_refused(tmp_path):
    bundle = tmp_path / "bundle"
    golden = write_golden(tmp_path / "elsewhere", [{"query_id": "q"}])
    for name in ("queries.jsonl", "inventories/v1.jsonl"):
        path = bundle / "datasets" / "kb" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(golden)
    assert find_bundle(bundle).golden_sets == []
    assert find_bundle(bundle).archives == []
    assert find_bundle(bundle).problems


def test_a_bundle_that_is_itself_reached_by_a_link_and_links_inside_it_are_fine(tmp_path):
    real = tmp_path / "real"
    folder = write_run(real, "run-1", [{"query_id": "q"}])
    (folder / "results.jsonl").rename(real / "shared.jsonl")
    (folder / "results.jsonl").symlink_to("../../shared.jsonl")
    (tmp_path / "link").symlink_to(real)
    found = find_bundle(tmp_path / "link")
    assert [run.path.name for run in found.runs] == ["run-1"]
    assert found.problems == []


def test_a_part_that_is_no_ordinary_file_is_not_waited_for(tmp_path):
    folder = write_run(tmp_path, "run-1", [])
    os.mkfifo(folder / "extractions.jsonl")
    found = find_bundle(tmp_path)
    assert set(found.runs[0].parts) == {"results"}
    assert [(problem.run_id, problem.reason) for problem in found.problems] == [
        ("run-1", "extractions.jsonl is no file: a part is one file, plain or packed")
    ]


@pytest.mark.parametrize(
    "place",
    [
        "runs/run-1/results.parquet",
        "runs/run-2/run.json",
        "datasets/kb/queries.yaml",
        "datasets/kb/inventories/v1.jsonl",
        "inventories/v1.parquet",
    ],
)
def test_a_folder_in_the_place_of_a_file_is_named_and_not_passed_over(tmp_path, place):
    (write_run(tmp_path, "run-1", []) / "results.jsonl").unlink()
    (tmp_path / place).mkdir(parents=True)
    (problem,) = find_bundle(tmp_path).problems
    assert problem.path == str(tmp_path / place)
    assert "is no file" in problem.reason


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ({"doc_id": "d"}, "chunk_id"),
        ({"chunk_id": "c", "doc_id": ""}, "doc_id"),
        ({"chunk_id": "c", "doc_id": "d", "source_spans": [{"start": 2, "end": 1}]}, "source_spans[0]"),
        (
            {"chunk_id": "c", "doc_id": "d", "source_spans": [{"start": 0, "end": 1, "doc_id": ""}]},
            "source_spans[0]",
        ),
        ({"chunk_id": "c", "doc_id": "d", "token_count": "many"}, "token_count"),
    ],
)
def test_a_bad_archive_line_goes_to_quarantine_alone(tmp_path, line, field):
    path = write_archive(tmp_path, "v1", [{"chunk_id": "a", "doc_id": "d", "heading_path": ["A", "B"]}, line])
    good, bad = read_archive(path)
    assert good.record is not None and good.record.heading_path == "A > B"
    assert (bad.record, bad.number, bad.field) == (None, 2, field)
