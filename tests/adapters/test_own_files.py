"""Somebody's own files through a mapping: what it can say, what it makes of rows, and what it says of its own mistakes."""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
import tomllib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eval_pipeline.adapters import mapped_rows as rows_module
from eval_pipeline.adapters.mapped_rows import ScatteredRows, mapped_rows
from eval_pipeline.adapters.mapping import check_mapping, read_mapping
from eval_pipeline.adapters.tables import form_of
from eval_pipeline.errors import InputRejected, InvalidConfig, UsageError
from tests.bundle_files import write_lines


def mapped(path, toml, **options):
    """What the rows of a file become, by their line."""
    mapping = check_mapping(tomllib.loads(toml), "mapping.toml", data_file=path)
    return {line.number: line.record or line.reason for line in mapped_rows(path, mapping, **options)}


def write_table(path, rows, *, separator=","):
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter=separator).writerows(rows)
    return path


def chunk_ids(result):
    return [hit["chunk_id"] for hit in result["hits_top_k"]]


def test_a_list_of_objects_with_places_inside_them(tmp_path):
    path = write_lines(
        tmp_path / "own.jsonl",
        [
            {
                "q": {"id": "a"},
                "found": [{"node": {"id": "c1"}, "meta": {"file": "d"}, "s": 0.5}],
                "out": "yes",
            }
        ],
    )
    toml = """
        result = { query_id = "q.id" }
        answer = { text = "out" }
        [hits]
        list = "found"
        chunk_id = "node.id"
        doc_id = "meta.file"
        score = "s"
    """
    assert mapped(path, toml) == {
        1: {
            "query_id": "a",
            "hits_top_k": [{"chunk_id": "c1", "doc_id": "d", "score": 0.5}],
            "answer": {"text": "yes"},
        }
    }


@pytest.mark.parametrize("value", [["d#1", "d#2"], '["d#1", "d#2"]', "d#1|d#2"])
def test_bare_ids_as_a_list_as_json_in_a_cell_or_joined(tmp_path, value):
    path = write_lines(tmp_path / "own.jsonl", [{"id": 7, "found": value}])
    toml = """
        result = { query_id = "id" }
        hits = { list = "found", separator = "|", chunk_id = ".", doc_id = { place = ".", before = "#" } }
    """
    result = mapped(path, toml)[1]
    assert result["query_id"] == "7"
    assert result["hits_top_k"] == [{"chunk_id": "d#1", "doc_id": "d"}, {"chunk_id": "d#2", "doc_id": "d"}]


def test_without_a_document_the_chunk_stands_for_it_as_a_bare_id_does_in_a_bundle(tmp_path):
    path = write_lines(tmp_path / "own.jsonl", [{"id": "a", "found": [1, 2.0, "x"]}])
    result = mapped(path, 'result = {query_id = "id"}\nhits = {list = "found", chunk_id = "."}')[1]
    assert [(hit["chunk_id"], hit["doc_id"]) for hit in result["hits_top_k"]] == [
        ("1", "1"),
        ("2", "2"),
        ("x", "x"),
    ]


@pytest.mark.parametrize(
    ("order", "expected"), [("list", ["b", "c", "a"]), ("rank", ["a", "b", "c"]), ("score", ["c", "b", "a"])]
)
def test_hits_stand_as_listed_or_by_rank_or_by_score(tmp_path, order, expected):
    found = [{"id": "b", "r": 1, "s": 0.5}, {"id": "c", "r": 2, "s": 0.5001}, {"id": "a", "r": 0, "s": -1}]
    path = write_lines(tmp_path / "own.jsonl", [{"id": "q", "found": found}])
    hits = f'hits = {{list = "found", chunk_id = "id", rank = "r", score = "s", order = "{order}", first_rank = 0}}'
    result = mapped(path, f'result = {{query_id = "id"}}\n{hits}')[1]
    assert chunk_ids(result) == expected
    assert {hit["chunk_id"]: hit["rank"] for hit in result["hits_top_k"]} == {"a": 1, "b": 2, "c": 3}


def test_level_scores_keep_their_order_and_a_hit_without_one_keeps_them_all_as_listed(tmp_path):
    level = [{"id": "b", "s": 1}, {"id": "a", "s": 1}, {"id": "c", "s": 2}]
    lacking = [{"id": "b", "s": 1}, {"id": "a"}, {"id": "c", "s": 2}]
    path = write_lines(tmp_path / "own.jsonl", [{"id": "q", "f": level}, {"id": "r", "f": lacking}])
    found = mapped(path, 'result={query_id="id"}\nhits={list="f", chunk_id="id", score="s", order="score"}')
    assert [chunk_ids(found[1]), chunk_ids(found[2])] == [["c", "b", "a"], ["b", "a", "c"]]


LONG = (
    'rows="hit"\nresult={query_id="q"}\nanswer={text="answer"}\nhits={chunk_id="c", rank="r", order="rank"}'
)


def test_a_row_per_hit_becomes_a_result_per_query_on_the_line_of_its_first_row(tmp_path):
    path = write_table(
        tmp_path / "own.csv",
        [
            ["q", "c", "r", "answer"],
            ["a", "c2", 2, "one\ntwo"],
            ["a", "c1", 1, ""],
            ["b", "c3", 1, "x"],
            ["n", "", "", ""],
        ],
    )
    found = mapped(path, LONG)
    assert list(found) == [2, 5, 6]
    assert chunk_ids(found[2]) == ["c1", "c2"]
    assert found[2]["answer"]["text"].splitlines() == ["one", "two"]
    assert found[6]["hits_top_k"] == []


def test_rows_of_a_query_that_stand_apart_are_brought_together(tmp_path):
    rows = [["q", "c", "r", "answer"], ["a", "c1", 1, ""], ["b", "c3", 1, ""], ["a", "c2", 2, ""]]
    path = write_table(tmp_path / "own.csv", rows)
    with pytest.raises(ScatteredRows):
        mapped(path, LONG)
    found = mapped(path, LONG, scattered=True)
    assert [chunk_ids(result) for result in found.values()] == [["c1", "c2"], ["c3"]]


def test_so_many_rows_that_stand_apart_that_no_memory_holds_them_are_refused_with_what_to_do(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(rows_module, "MOST_SCATTERED_HITS", 3)
    path = write_table(
        tmp_path / "own.csv", [["q", "c", "r", "answer"], *[["ab"[n % 2], n, n, ""] for n in range(4)]]
    )
    with pytest.raises(InputRejected, match="sort the file by query"):
        mapped(path, LONG, scattered=True)


def test_a_trec_run_needs_its_columns_from_nobody(tmp_path):
    path = tmp_path / "bm25.run"
    path.write_text("30 Q0 ZF08-175 1 4238.0 tag\n30\tQ0\tZF09  2 4240.5 tag\n\n31 Q0 ZF08-175 1 1.0 tag\n")
    toml = 'rows="hit"\nresult={query_id="qid"}\nhits={chunk_id="docno", rank="rank", score="sim", order="score"}'
    found = mapped(path, toml)
    assert {result["query_id"]: chunk_ids(result) for result in found.values()} == {
        "30": ["ZF09", "ZF08-175"],
        "31": ["ZF08-175"],
    }


def test_an_object_of_ids_and_scores_counts_as_its_keys_and_values(tmp_path):
    path = tmp_path / "ranx.json"
    path.write_text(json.dumps({"q1": {"d1": 0.2, "d2": 0.9}, "q2": {}}))
    toml = 'result={query_id="key"}\nhits={list="value", chunk_id="key", score="value", order="score"}'
    found = mapped(path, toml)
    assert {result["query_id"]: chunk_ids(result) for result in found.values()} == {
        "q1": ["d2", "d1"],
        "q2": [],
    }


def test_lists_side_by_side_go_together_by_place_and_a_query_without_id_is_named_by_a_hash(tmp_path):
    row = {
        "user_input": "why?",
        "retrieved_context_ids": [3, "b"],
        "retrieved_contexts": ["t", "u"],
        "faithfulness": 0.8,
    }
    path = write_lines(tmp_path / "ragas.jsonl", [row])
    toml = """
        result = { query_id = { hash_of = ["user_input"] } }
        hits = { chunk_id = "retrieved_context_ids", text = "retrieved_contexts" }
        judge = { groundedness = "faithfulness", best_score = 1 }
    """
    result = mapped(path, toml)[1]
    assert result["query_id"] == hashlib.sha256(b'["why?"]').hexdigest()[:32]
    assert [(hit["chunk_id"], hit["text"]) for hit in result["hits_top_k"]] == [("3", "t"), ("b", "u")]
    assert result["judge"] == {"groundedness": {"score": 4.0}}


def test_a_list_that_is_shorter_than_its_neighbour_leaves_hits_without_an_id_for_the_reader_to_refuse(
    tmp_path,
):
    path = write_lines(tmp_path / "own.jsonl", [{"id": "a", "ids": ["x"], "texts": ["t", "u"]}])
    result = mapped(path, 'result={query_id="id"}\nhits={chunk_id="ids", text="texts"}')[1]
    assert chunk_ids(result) == ["x", None]


def test_rows_inside_a_document_and_only_some_of_them(tmp_path):
    path = tmp_path / "log.json"
    samples = [
        {"id": n, "epoch": n % 2, "output": {"completion": f"c{n}"}, "total_time": 1.5} for n in range(4)
    ]
    path.write_text(json.dumps({"version": 2, "samples": samples, "score": float("nan")}))
    toml = """
        file = { records = "samples", only = { epoch = 1 } }
        result = { query_id = "id" }
        answer = { text = "output.completion", grounded = { constant = true } }
        latency_ms = { total = "total_time", unit = "s" }
    """
    found = mapped(path, toml)
    assert {number: row["query_id"] for number, row in found.items()} == {2: "1", 4: "3"}
    assert found[2]["answer"] == {"text": "c1", "grounded": True}
    assert found[2]["latency_ms"] == {"total": 1500.0}


def test_keys_with_dots_and_spans_and_citations(tmp_path):
    row = {
        "context.trace_id": "t",
        "attributes.retrieval.documents": [{"document.id": "c", "from": "4", "to": 9}],
        "cited": [{"ref": "c"}, {"ref": None}],
        "says": "x",
    }
    toml = """
        result = { query_id = "context.trace_id" }
        hits = { list = "attributes.retrieval.documents", chunk_id = "document.id", start = "from", end = "to" }
        answer = { text = "says", citations = "cited", citation = "ref" }
    """
    result = mapped(write_lines(tmp_path / "own.jsonl", [row]), toml)[1]
    assert result["hits_top_k"][0]["source_spans"] == [{"start": 4, "end": 9}]
    assert result["answer"]["citations"] == [{"citation": "c"}, {"citation": None}]


def test_references_truths_in_words_and_packed_parquet_and_tables(tmp_path):
    table = pa.table(
        {
            "id": [1, 2],
            "refs": [[{"file": "a.md"}], None],
            "no": ["yes", "False"],
            "late": [1, 0],
            "t": ["", "x"],
        }
    )
    pq.write_table(table, tmp_path / "own.parquet")
    toml = """
        result = { query_id = "id", timed_out = "late" }
        answer = { text = "t", abstained = "no" }
        references = { list = "refs", rel_path = "file" }
    """
    found = mapped(tmp_path / "own.parquet", toml)
    assert found[1]["answer"] == {"text": "", "abstained": True, "references": [{"rel_path": "a.md"}]}
    assert (found[1]["timed_out"], found[2]["answer"]["abstained"]) == (True, False)
    packed = tmp_path / "own.csv.gz"
    packed.write_bytes(gzip.compress(b"\xef\xbb\xbfid,found\n1,c1\n"))
    assert chunk_ids(mapped(packed, 'result={query_id="id"}\nhits={list="found",chunk_id="."}')[2]) == ["c1"]


def test_a_row_with_cells_too_few_is_a_reason_and_the_others_stay(tmp_path):
    path = tmp_path / "own.csv"
    path.write_text("id,found\n1,c1\n2\n3,c3\n")
    found = mapped(path, 'result={query_id="id"}\nhits={list="found",chunk_id="."}')
    assert found[3] == "has 1 cells, and there are 2 columns"
    assert [found[2]["query_id"], found[4]["query_id"]] == ["1", "3"]


@pytest.mark.parametrize(
    ("toml", "words"),
    [
        ("rows = 'hits'", "rows is 'hits'; it is one of query, hit"),
        ("[results]\nquery_id='a'", "does not know 'results'; it knows rows, file, run, result"),
        ("[result]\nquery='a'", "[result] does not know 'query'; it knows query_id"),
        ("[result]\nquery_idd='a'", "Did you mean query_id?"),
        ("[result]\nerror='a'", "[result] needs query_id"),
        ("[result]\nquery_id=3", "[result] query_id is 3; it is a place such as"),
        ("[result]\nquery_id={place='a', constant=1}", "exactly one of place, hash_of and constant"),
        ("[result]\nquery_id={hash_of='a'}", "hash_of is 'a'; it is a list of texts"),
        ("[result]\nquery_id={before='#', constant='x'}", "before goes with place"),
        ("[result]\nquery_id='a'\n[hits]\nlist='h'", "[hits] needs chunk_id"),
        ("rows='hit'\n[result]\nquery_id='a'", "[hits] needs chunk_id"),
        ("rows='hit'\n[result]\nquery_id='a'\n[hits]\nlist='h'\nchunk_id='c'", "here every row is a hit"),
        (
            "[result]\nquery_id='a'\n[hits]\nchunk_id='c'\norder='rank'",
            "needs rank, the place of each hit's rank",
        ),
        ("[result]\nquery_id='a'\n[hits]\nchunk_id='c'\nstart='s'", "both start and end"),
        ("[result]\nquery_id='a'\n[hits]\nchunk_id='c'\nfirst_rank=2", "counted from 0 or from 1"),
        ("[result]\nquery_id='a'\n[latency_ms]\nunit='h'", "unit is 'h'; it is one of s, ms, us"),
        ("[result]\nquery_id='a'\n[latency_ms]\nunit=[1]", "unit is [1]; it is one of s, ms, us"),
        ("[result]\nquery_id='a'\n[judge]\nbest_score=0", "the score of a perfect answer"),
        ("[result]\nquery_id='a'\n[references]\nrel_path='p'", "[references] needs list"),
        (
            "[result]\nquery_id='a'\n[file]\nformat='xls'",
            "format is 'xls'; it is one of jsonl, json, csv, parquet",
        ),
        ("[result]\nquery_id='a'\n[file]\nseparator='||'", "it is one character"),
        ("[result]\nquery_id='a'\n[run]\nrun_id='r'", "[run] does not know 'run_id'"),
        ("[result]\nquery_id='a'\n[run]\nattempt='first'", "[run] attempt expected a whole number, got text"),
        ("result = 3", "result is a table: write [result]"),
        ("= 3", "is no TOML"),
    ],
)
def test_every_mistake_in_a_mapping_is_named_with_its_place_and_what_is_allowed(tmp_path, toml, words):
    path = tmp_path / "mapping.toml"
    path.write_text(toml)
    with pytest.raises(InvalidConfig) as refused:
        read_mapping(path, data_file=tmp_path / "own.jsonl")
    assert str(refused.value).startswith(str(path))
    assert words in str(refused.value)


def test_a_file_of_no_known_kind_is_refused_with_the_known_ones(tmp_path):
    with pytest.raises(UsageError, match=r"\.jsonl.*\.csv.*\.parquet"):
        form_of(tmp_path / "results.xlsx")
