"""Parquet parts: taken as columns where they fit, row by row where not, and refused for the reasons of lines."""

from __future__ import annotations

import json
from decimal import Decimal
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eval_pipeline.bundle.extractions import read_extractions
from eval_pipeline.bundle.files import UNPACKED_BYTES
from eval_pipeline.bundle.golden import read_golden_set
from eval_pipeline.bundle.parquet import row_batches
from eval_pipeline.bundle.parts import read_archive, read_spot_checks
from eval_pipeline.bundle.results import read_fast_rows, read_results
from eval_pipeline.errors import InputRejected
from tests.bundle_files import ask, load, settings_in, write_golden, write_lines, write_run
from tests.reference.bundles import random_bundle

TABLES = ("results", "hits", "hit_spans", "citations", "references")
HIT = pa.struct([("chunk_id", pa.string()), ("doc_id", pa.string())])


def parquet(path, table, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    if not isinstance(table, pa.Table):
        names = dict.fromkeys(name for row in table for name in row)
        table = pa.Table.from_pylist([{name: row.get(name) for name in names} for row in table])
    pq.write_table(table, path, **options)
    return path


def rows_of(path):
    """All flat rows of a results file and what was refused of it."""
    blocks = list(read_results(path, run_id="r"))
    rows = {name: [row for block in blocks for row in getattr(block, name).to_pylist()] for name in TABLES}
    problems = [(one.line, one.field, one.reason) for block in blocks for one in block.problems]
    return rows, problems


def is_taken_as_columns(path):
    return [read_fast_rows(batch) is not None for batch in row_batches(path, most_bytes=UNPACKED_BYTES)]


def one_shape(rows):
    """The rows with one type per place, as a column needs them."""
    for row in rows:
        row["hits_top_k"] = [
            {"chunk_id": hit, "doc_id": hit} if isinstance(hit, str) else hit
            for hit in row.get("hits_top_k") or []
        ]
        for passage in [*row["hits_top_k"], *((row.get("answer") or {}).get("references") or [])]:
            if isinstance(passage.get("heading_path"), list):
                passage["heading_path"] = " > ".join(passage["heading_path"])
        for name, verdict in (row.get("judge") or {}).items():
            if name in ("groundedness", "correctness") and isinstance(verdict, dict):
                score = verdict.get("score")
                is_number = isinstance(score, int | float) and not isinstance(score, bool)
                verdict["score"] = float(score) if is_number else None
        if isinstance((row.get("judge") or {}).get("input"), dict):
            row["judge"]["input"] = "asked"
    return [{name: value for name, value in row.items() if not name.startswith("x")} for row in rows]


@pytest.mark.parametrize("seed", range(4))
def test_columns_hold_the_same_results_as_lines(tmp_path, seed):
    runs = random_bundle(seed, queries=8, runs=3).runs.values()
    rows = one_shape(json.loads(json.dumps([row for run in runs for row in run["results"]])))
    from_lines = rows_of(write_lines(tmp_path / "results.jsonl", rows))
    path = parquet(tmp_path / "results.parquet", rows)
    assert rows_of(path) == from_lines
    assert all(is_taken_as_columns(path))


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(HIT),
        pa.large_list(HIT),
        pa.list_(pa.struct([("chunk_id", pa.large_string()), ("doc_id", pa.large_string())])),
        pa.list_(pa.struct([("doc_id", pa.string()), ("chunk_id", pa.string()), ("own", pa.int8())])),
    ],
    ids=["plain", "large list", "large text", "other order and a column of their own"],
)
def test_every_way_to_write_a_list_of_hits_is_taken_as_columns(tmp_path, kind):
    hits = [[{"chunk_id": "a", "doc_id": "d"}], None, [], [{"chunk_id": "b", "doc_id": "e"}] * 3]
    ids = [f"q{number}" for number in range(4)]
    path = parquet(
        tmp_path / "results.parquet", pa.table({"query_id": ids, "hits_top_k": pa.array(hits, kind)})
    )
    rows, problems = rows_of(path)
    assert is_taken_as_columns(path) == [True]
    assert [row["n_hits"] for row in rows["results"]] == [1, 0, 0, 3]
    assert [(row["result"], row["rank"], row["chunk_id"]) for row in rows["hits"]] == [
        (0, 1, "a"),
        (3, 1, "b"),
        (3, 2, "b"),
        (3, 3, "b"),
    ]
    assert problems == []


def test_ids_of_a_dictionary_and_bare_ids_are_read_row_by_row(tmp_path):
    table = pa.table(
        {
            "query_id": pa.array(["a", "b", "a2"]).dictionary_encode(),
            "hits_top_k": pa.array([["c", "d"], [], ["e"]], pa.list_(pa.string())),
        }
    )
    rows, problems = rows_of(parquet(tmp_path / "results.parquet", table))
    assert [row["query_id"] for row in rows["results"]] == ["a", "b", "a2"]
    assert [(row["chunk_id"], row["doc_id"]) for row in rows["hits"]] == [("c", "c"), ("d", "d"), ("e", "e")]
    assert problems == []


def test_a_file_of_many_batches_keeps_its_row_numbers(tmp_path, monkeypatch):
    monkeypatch.setattr("eval_pipeline.bundle.parquet.MOST_ROWS", 7)
    rows = [
        {"query_id": f"q{number}", "latency_ms": {"total": float("nan") if number in (20, 33) else 1.0}}
        for number in range(1, 41)
    ]
    path = parquet(tmp_path / "results.parquet", rows, row_group_size=11)
    found, problems = rows_of(path)
    assert len(is_taken_as_columns(path)) > 4
    assert [row["row_no"] for row in found["results"]] == [n for n in range(1, 41) if n not in (20, 33)]
    assert [(line, field) for line, field, _ in problems] == [
        (20, "latency_ms.total"),
        (33, "latency_ms.total"),
    ]


@pytest.mark.parametrize(
    ("columns", "field"),
    [
        ({"query_id": pa.array([1, 2])}, "query_id"),
        ({"query_id": pa.array(["a", "b"]), "hits_top_k": pa.array(["c", "d"])}, "hits_top_k"),
        ({"query_id": pa.array(["a", "b"]), "timed_out": pa.array([0, 1])}, "timed_out"),
        ({"query_id": pa.array(["a", "b"]), "answer": pa.array(["yes", "no"])}, "answer"),
        ({"query_id": pa.array(["a", "b"]), "error": pa.array([1.5, 2.5])}, "error"),
        ({"query_id": pa.array([None, ""], pa.string())}, "query_id"),
    ],
)
def test_a_column_of_a_wrong_type_refuses_every_row_with_its_field(tmp_path, columns, field):
    _, problems = rows_of(parquet(tmp_path / "results.parquet", pa.table(columns)))
    assert [(line, place) for line, place, _ in problems] == [(1, field), (2, field)]


@pytest.mark.parametrize(
    ("column", "kind", "good", "bad", "field"),
    [
        ("hits_top_k", pa.list_(HIT), [{"chunk_id": "c", "doc_id": "d"}], [None], "hits_top_k[0]"),
        ("hits_top_k", pa.list_(HIT), [], [{"chunk_id": None, "doc_id": "d"}], "hits_top_k[0].chunk_id"),
        ("hits_top_k", pa.list_(HIT), [], [{"chunk_id": "c", "doc_id": ""}], "hits_top_k[0].doc_id"),
        ("selected_folders", pa.list_(pa.string()), ["a"], ["a", None], "selected_folders[1]"),
        ("error", pa.string(), "late", "NUL \x00 inside", "error"),
        ("own_words", pa.string(), "fine", "NUL \x00 inside", "own_words"),
        ("own_words", pa.list_(pa.string()), ["fine"], ["a", "\x00"], "own_words[1]"),
    ],
)
def test_one_bad_row_goes_to_quarantine_alone(tmp_path, column, kind, good, bad, field):
    table = pa.table({"query_id": ["a", "b", "c"], column: pa.array([good, bad, good], kind)})
    rows, problems = rows_of(parquet(tmp_path / "results.parquet", table))
    assert [row["query_id"] for row in rows["results"]] == ["a", "c"]
    assert [(line, place) for line, place, _ in problems] == [(2, field)]


def test_a_text_that_is_no_utf8_refuses_its_row_and_no_other(tmp_path):
    texts = pa.array([b"fine", b"caf\xe9", b"fine too"]).view(pa.string())
    table = pa.table({"query_id": ["a", "b", "c"], "error": texts})
    rows, problems = rows_of(parquet(tmp_path / "results.parquet", table))
    assert [row["error"] for row in rows["results"]] == ["fine", "fine too"]
    assert [(line, place) for line, place, _ in problems] == [(2, "error")]


def test_exact_decimals_and_small_floats_are_numbers(tmp_path):
    table = pa.table(
        {
            "query_id": ["a"],
            "hits_top_k": pa.array(
                [[{"chunk_id": "c", "doc_id": "d", "score": Decimal("0.25"), "rank": 1}]],
                pa.list_(
                    pa.struct(
                        [
                            ("chunk_id", pa.string()),
                            ("doc_id", pa.string()),
                            ("score", pa.decimal128(5, 2)),
                            ("rank", pa.uint8()),
                        ]
                    )
                ),
            ),
            "latency_ms": pa.array([{"total": 1.5}], pa.struct([("total", pa.float16())])),
        }
    )
    rows, problems = rows_of(parquet(tmp_path / "results.parquet", table))
    assert problems == []
    assert (rows["hits"][0]["score"], rows["hits"][0]["delivered_rank"]) == (0.25, 1)
    assert rows["results"][0]["total_ms"] == 1.5


def test_absent_structs_and_null_structs_are_the_same(tmp_path):
    kind = pa.struct([("text", pa.string()), ("grounded", pa.bool_())])
    table = pa.table(
        {"query_id": ["a", "b"], "answer": pa.array([None, {"text": None, "grounded": None}], kind)}
    )
    rows, _ = rows_of(parquet(tmp_path / "results.parquet", table))
    assert [row["has_answer"] for row in rows["results"]] == [False, True]


def test_damaged_bytes_anywhere_are_refused_and_never_a_crash(tmp_path):
    rows = [{"query_id": f"q{n}", "hits_top_k": [{"chunk_id": "c", "doc_id": "d"}]} for n in range(50)]
    whole = parquet(tmp_path / "whole.parquet", rows).read_bytes()
    rng = Random(5)
    outcomes = set()
    for _ in range(120):
        data = bytearray(whole)
        for _ in range(rng.choice([1, 1, 4, 30])):
            data[rng.randrange(len(data))] = rng.randrange(256)
        path = tmp_path / "results.parquet"
        path.write_bytes(bytes(data))
        try:
            outcomes.add(len(rows_of(path)[1]) == 0)
        except InputRejected as rejected:
            assert "Parquet" in rejected.reason or "UTF-8" in rejected.reason
            outcomes.add("refused")
    assert "refused" in outcomes


def test_extractions_golden_sets_archives_and_spot_checks_may_be_parquet(tmp_path):
    cases = [
        {"case_id": "a", "ground_truth": {"x": 1, "y": "b"}, "extracted": {"x": 1, "y": "c"}},
        {"case_id": "", "ground_truth": {"x": 1, "y": None}, "extracted": {"x": 1, "y": None}},
    ]
    good, bad = read_extractions(parquet(tmp_path / "extractions.parquet", cases))
    assert good.record is not None and good.record.ground_truth == {"x": 1, "y": "b"}
    assert (bad.number, bad.field) == (2, "case_id")

    spans = pa.map_(
        pa.string(),
        pa.list_(pa.struct([("doc_id", pa.string()), ("start", pa.int64()), ("end", pa.int64())])),
    )
    golden = pa.table(
        {
            "query_id": ["a", "b"],
            "expected_doc_ids": pa.array([[], None], pa.list_(pa.string())),
            "expected_chunk_spans": pa.array([[("c", [{"doc_id": "d", "start": 0, "end": 3}])], None], spans),
        }
    )
    first, second = read_golden_set(parquet(tmp_path / "queries.parquet", golden)).rows
    assert (first.expected_doc_ids, second.expected_doc_ids) == ([], None)
    assert [one.end for one in (first.expected_chunk_spans or {})["c"]] == [3]

    chunks = [
        {"chunk_id": "c", "doc_id": "d", "heading_path": ["A", "B"], "source_spans": [{"start": 0, "end": 1}]}
    ]
    (chunk,) = read_archive(parquet(tmp_path / "v1.parquet", chunks))
    assert chunk.record is not None and chunk.record.heading_path == "A > B"

    checks = [{"query_id": "a", "first": {"score": 4.0}, "second": {"score": 1.0}, "kind": "replicate"}]
    (check,) = read_spot_checks(parquet(tmp_path / "judge_spot_check.parquet", checks))
    assert check.record is not None and check.record.second is not None and check.record.second.score == 1.0


def test_a_whole_bundle_of_parquet_gives_the_rows_of_one_of_lines(tmp_path):
    results = [
        {"query_id": "q1", "hits_top_k": [{"chunk_id": "d/1", "doc_id": "d"}], "answer": {"text": "yes"}},
        {"query_id": "q2", "hits_top_k": [], "answer": None},
    ]
    checks = [{"query_id": "q1", "first": {"score": 4.0}, "second": {"score": 2.0}, "kind": "replicate"}]
    cases = [{"case_id": "c", "ground_truth": {"x": "1"}, "extracted": {"x": "2"}}]
    found = []
    for form in ("lines", "parquet"):
        bundle = tmp_path / form
        golden = write_golden(bundle, [{"query_id": "q1", "expected_chunk_ids": ["d/1"]}, {"query_id": "q2"}])
        folder = write_run(bundle, "run-1", results)
        parts = {"results": results, "judge_spot_check": checks, "extractions": cases}
        for name, rows in parts.items():
            write_lines(folder / f"{name}.jsonl", rows)
            if form == "parquet":
                (folder / f"{name}.jsonl").unlink()
                parquet(folder / f"{name}.parquet", rows)
        if form == "parquet":
            parquet(
                golden.with_suffix(".parquet"), [json.loads(line) for line in golden.read_text().splitlines()]
            )
            golden.unlink()
        settings = settings_in(tmp_path / f"store of {form}")
        report = load(settings, bundle)
        assert (report.runs, report.golden_sets, report.problems) == (["run-1"], ["kb"], [])
        tables = ("results", "hits", "spot_checks", "extraction_cases", "runs")
        found.append({name: ask(settings, f"from raw.{name}") for name in tables})
        found[-1]["labels"] = ask(settings, "from labels.expected_chunks")
    assert found[0] == found[1]


def test_a_file_that_says_it_is_larger_than_the_limit_is_refused_with_the_limit(tmp_path):
    path = parquet(tmp_path / "results.parquet", [{"query_id": "q" * 100}] * 100)
    with pytest.raises(InputRejected, match="unpacks to more than"):
        list(row_batches(path, most_bytes=10))


def test_the_careful_reader_sees_what_the_columns_refused(tmp_path):
    """One row in doubt sends its batch to the reader of lines; nothing else of the outcome changes."""
    rows = [{"query_id": f"q{n}", "error": None, "latency_ms": {"total": 1.0}} for n in range(5)]
    clean = rows_of(parquet(tmp_path / "clean" / "results.parquet", rows))[0]
    rows.append({"query_id": "q9", "error": None, "latency_ms": {"total": float("inf")}})
    mixed, problems = rows_of(parquet(tmp_path / "mixed" / "results.parquet", rows))
    assert mixed == clean
    assert [line for line, _, _ in problems] == [6]
