"""`init` and odd files: other separators, wide tables, frames of pandas, UTF-16, a document per run."""

from __future__ import annotations

import gzip
import hashlib
import io
import json

import numpy as np
import pandas as pd
import pytest
import zstandard

from eval_pipeline.adapters.mapped_rows import mapped_rows
from eval_pipeline.adapters.mapping import read_mapping
from eval_pipeline.adapters.proposal import propose_mapping
from eval_pipeline.errors import UsageError

FRAME = pd.DataFrame({"qid": ["a", "b"], "retrieved_ids": [["x", "y"], ["z"]], "answer": ["yes; but", "no"]})
FOUND = {"a": ["x", "y"], "b": ["z"]}


def through_its_own_mapping(path):
    """What the file becomes when the mapping that is proposed for it is used."""
    proposal = propose_mapping(path)
    mapping = path.with_name("mapping.toml")
    mapping.write_text(proposal.text, "utf-8")
    rows = mapped_rows(path, read_mapping(mapping, data_file=path))
    return {
        line.record["query_id"]: [hit["chunk_id"] for hit in line.record["hits_top_k"]] for line in rows
    }, proposal


@pytest.mark.parametrize("orientation", ["records", "split", "index", "columns", "table"])
def test_a_frame_that_pandas_wrote_as_json_in_any_orientation(tmp_path, orientation):
    path = tmp_path / "own.json"
    FRAME.to_json(path, orient=orientation)
    assert through_its_own_mapping(path)[0] == FOUND


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_table_with_any_separator_and_encoding_and_lists_as_pandas_prints_them(
    tmp_path, separator, encoding
):
    path = tmp_path / "own.csv"
    written = io.StringIO()
    FRAME.to_csv(written, sep=separator, index=False)
    path.write_bytes(written.getvalue().encode(encoding))
    assert through_its_own_mapping(path)[0] == FOUND


@pytest.mark.parametrize("packed", [gzip.compress, zstandard.compress])
def test_a_packed_table_in_utf_16_is_read_like_any_other(tmp_path, packed):
    path = tmp_path / f"own.tsv.{'gz' if packed is gzip.compress else 'zst'}"
    path.write_bytes(packed(FRAME.to_csv(sep="\t", index=False).encode("utf-16")))
    assert through_its_own_mapping(path)[0] == FOUND


def test_a_column_per_rank(tmp_path):
    path = tmp_path / "wide.csv"
    names = [f"doc_{place}" for place in range(1, 11)]
    path.write_text(f"qid,{','.join(names)}\na,x,y{',' * 8}\nb,z{',' * 9}\n", "utf-8")
    found, proposal = through_its_own_mapping(path)
    assert found == FOUND
    assert any("A column per rank" in remark for remark in proposal.unsure)


def test_one_object_for_a_run_with_its_rows_inside(tmp_path):
    path = tmp_path / "run.json"
    rows = [{"qid": query, "retrieved_ids": chunks} for query, chunks in FOUND.items()]
    path.write_text(json.dumps({"name": "nightly", "config": {"k": 10}, "results": rows}), "utf-8")
    assert through_its_own_mapping(path)[0] == FOUND


def test_a_table_whose_name_says_nothing(tmp_path):
    path = tmp_path / "export.txt"
    FRAME.to_csv(path, sep="\t", index=False)
    assert through_its_own_mapping(path)[0] == FOUND


def test_labels_are_named_with_the_command_that_takes_them(tmp_path):
    path = tmp_path / "labels.txt"
    path.write_text("a 0 x 1\nb 0 z 1\n", "utf-8")
    with pytest.raises(UsageError, match="is labels and no results"):
        propose_mapping(path)


def test_separators_of_thousands_are_said_and_not_guessed(tmp_path):
    path = tmp_path / "own.csv"
    path.write_text('qid,answer,latency_ms\na,yes,"1,234"\n', "utf-8")
    assert any("what the comma separates is not guessed" in one for one in propose_mapping(path).unsure)


@pytest.mark.parametrize("number", ["1.234,5", "0,85", "12,5"])
def test_a_comma_before_decimals_is_said_and_not_guessed(tmp_path, number):
    path = tmp_path / "own.csv"
    path.write_text(f"qid;answer;latency_ms\na;yes;{number}\n", "utf-8")
    assert any(f"such as {number}: what the comma" in one for one in propose_mapping(path).unsure)


@pytest.mark.parametrize(
    "hits_of",
    [
        lambda ids: [[one, 0.5] for one in ids],
        lambda ids: [[one] for one in ids],
        lambda ids: [ids],
        ",".join,
        "|".join,
    ],
    ids=["pairs", "lists of one", "a list in a list", "commas", "bars"],
)
def test_ids_in_nested_lists_or_joined(tmp_path, hits_of):
    path = tmp_path / "own.jsonl"
    rows = [{"qid": query, "retrieved_ids": hits_of(chunks)} for query, chunks in FOUND.items()]
    path.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    assert through_its_own_mapping(path)[0] == FOUND


@pytest.mark.parametrize("found", [FOUND, {"a": ["x", "y"], "b": ["z", "w"]}], ids=["uneven", "equally long"])
def test_one_object_of_queries_and_their_ids(tmp_path, found):
    path = tmp_path / "run.json"
    path.write_text(json.dumps(found), "utf-8")
    assert through_its_own_mapping(path)[0] == found


def test_objects_in_a_list_in_the_list_are_the_hits(tmp_path):
    path = tmp_path / "own.jsonl"
    rows = [
        {"qid": query, "retrieval": [[{"id": one, "score": 0.5} for one in chunks]]}
        for query, chunks in FOUND.items()
    ]
    path.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    assert through_its_own_mapping(path)[0] == FOUND


@pytest.mark.parametrize(
    "inside", [lambda found: found, lambda found: [found]], ids=["lists", "lists in lists"]
)
@pytest.mark.parametrize("texts", ["contexts", "documents", "retrieved_contexts"])
def test_ids_name_the_texts_of_an_equally_long_list(tmp_path, texts, inside):
    path = tmp_path / "own.jsonl"
    rows = [
        {"qid": query, texts: inside([f"about {one}" for one in chunks]), "retrieved_ids": inside(chunks)}
        for query, chunks in FOUND.items()
    ]
    path.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    assert through_its_own_mapping(path)[0] == FOUND
    mapping = read_mapping(path.with_name("mapping.toml"), data_file=path)
    first, _ = (line.record for line in mapped_rows(path, mapping))
    assert [hit["text"] for hit in first["hits_top_k"]] == ["about x", "about y"]


def test_ids_of_another_length_name_no_text(tmp_path):
    path = tmp_path / "own.jsonl"
    row = {"qid": "a", "contexts": ["about x", "about y"], "retrieved_ids": ["x", "y", "z"]}
    path.write_text(json.dumps(row), "utf-8")
    assert "retrieved_ids" in propose_mapping(path).unused


def test_ranks_without_a_hit_are_none_and_scores_stay_beside_their_ids(tmp_path):
    path = tmp_path / "wide.csv"
    path.write_text("qid,doc_1,doc_2,doc_3,score_1,score_2,score_3\na,x,,y,3,2,1\nb,z,,,3,2,1\n", "utf-8")
    found, _ = through_its_own_mapping(path)
    assert found == FOUND
    mapping = read_mapping(path.with_name("mapping.toml"), data_file=path)
    first, _ = (line.record for line in mapped_rows(path, mapping))
    assert [(hit["chunk_id"], hit["score"]) for hit in first["hits_top_k"]] == [("x", 3), ("y", 1)]


def test_arrays_as_numpy_prints_them_are_lists(tmp_path):
    path = tmp_path / "own.csv"
    frame = FRAME.assign(retrieved_ids=[np.array(ids) for ids in FRAME["retrieved_ids"]])
    frame.to_csv(path, index=False)
    assert through_its_own_mapping(path)[0] == FOUND


def test_a_question_without_id_has_the_same_hash_through_a_mapping_as_from_an_adapter(tmp_path):
    path = tmp_path / "own.jsonl"
    path.write_text('{"question": "Wie groß?", "retrieved_ids": ["x"]}', "utf-8")
    mapping = tmp_path / "mapping.toml"
    mapping.write_text(
        '[result]\nquery_id = { hash_of = ["question"] }\n[hits]\nlist = "retrieved_ids"\nchunk_id = "."\n'
    )
    (line,) = mapped_rows(path, read_mapping(mapping, data_file=path))
    documented = json.dumps(["Wie groß?"], ensure_ascii=False)
    assert line.record["query_id"] == hashlib.sha256(documented.encode()).hexdigest()[:32]
