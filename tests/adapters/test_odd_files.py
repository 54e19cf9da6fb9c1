"""`init` and odd files: other separators, wide tables, frames of pandas, UTF-16, a document per run."""

from __future__ import annotations

import io
import json

import pandas as pd
import pytest

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
