"""Whatever the bytes: every reader gives rows and reasons, or refuses the file; nothing else ever comes out of it."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval_pipeline.adapters.mapped_rows import ScatteredRows, mapped_rows
from eval_pipeline.adapters.mapping import check_mapping
from eval_pipeline.adapters.proposal import propose_mapping
from eval_pipeline.bundle.extractions import read_extractions
from eval_pipeline.bundle.golden import read_golden_set
from eval_pipeline.bundle.lines import problem_of
from eval_pipeline.bundle.packed_lines import write_numbered
from eval_pipeline.bundle.parts import read_archive, read_index_report, read_run, read_spot_checks
from eval_pipeline.bundle.results import read_results
from eval_pipeline.bundle.texts import write_without_texts
from eval_pipeline.errors import EvalPipelineError, InputRejected, InvalidConfig

FEW = settings(max_examples=25, deadline=None, database=None, derandomize=True)

NAMES = st.sampled_from(
    [
        *(
            "query_id",
            "id",
            "hits_top_k",
            "chunk_id",
            "doc_id",
            "rank",
            "score",
            "answer",
            "text",
            "citations",
        ),
        *("citation", "judge", "groundedness", "latency_ms", "total", "expected_chunk_ids", "gold_supports"),
        *(
            "ground_truth",
            "extracted",
            "discrepancies",
            "case_id",
            "first",
            "second",
            "source_spans",
            "start",
            "end",
        ),
        *(
            "expected_chunk_spans",
            "required_support_groups",
            "rel_path",
            "error",
            "docs",
            "chunks",
            "run_id",
            "a.b",
        ),
    ]
)
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=6),
    st.sampled_from(["a", "", "\x00", "\ud800", "[1", '{"chunk_id": "x"}', "1e999", "a|b"]),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=5),
    max_leaves=12,
)
ROWS = st.dictionaries(NAMES, VALUES, max_size=8)
LINES = st.one_of(
    ROWS.map(lambda row: json.dumps(row).encode()),
    VALUES.map(lambda value: json.dumps(value).encode()),
    st.binary(max_size=30),
    st.tuples(ROWS, st.integers(0, 60)).map(lambda pair: json.dumps(pair[0]).encode()[: pair[1]]),
)
FILES = st.lists(LINES, max_size=5).map(b"\n".join)

READERS = {
    "results.jsonl": lambda path: list(read_results(path, run_id="r")),
    "queries.jsonl": read_golden_set,
    "queries.yaml": read_golden_set,
    "extractions.jsonl": lambda path: list(read_extractions(path)),
    "archive.jsonl": lambda path: list(read_archive(path)),
    "judge_spot_check.jsonl": lambda path: list(read_spot_checks(path)),
    "index_report.json": read_index_report,
    "run.json": read_run,
    "results.jsonl.gz": lambda path: list(read_results(path, run_id="r")),
    "results.jsonl.zst": lambda path: list(read_results(path, run_id="r")),
    "results.parquet": lambda path: list(read_results(path, run_id="r")),
}
MAPPING = {
    "result": {"query_id": "query_id", "error": "error"},
    "hits": {"list": "hits_top_k", "chunk_id": "chunk_id", "doc_id": {"place": "chunk_id", "before": "/"}}
    | {"rank": "rank", "score": "score", "order": "score", "start": "start", "end": "end"},
    "answer": {"text": "answer", "citations": "citations", "grounded": "a.b"},
    "latency_ms": {"total": "total", "unit": "s"},
    "judge": {"groundedness": "score", "best_score": 1},
}


def written(folder: str, name: str, data: bytes) -> Path:
    path = Path(folder) / name
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("name", READERS)
@FEW
@given(data=FILES)
def test_any_bytes_give_rows_and_reasons_or_a_refusal(name, data):
    with tempfile.TemporaryDirectory() as folder:
        path = written(folder, name, data)
        try:
            found = READERS[name](path)
        except InputRejected as rejected:
            assert rejected.reason
            return
    for line in found if isinstance(found, list) else []:
        if hasattr(line, "reason"):
            assert (line.record is None) == bool(line.reason)


@pytest.mark.parametrize("part", ["results", "golden_set", "archive", "extractions", "judge_spot_check"])
@FEW
@given(data=FILES)
def test_without_texts_the_same_rows_are_taken_on_the_same_lines(part, data):
    readers = {
        "results": lambda path: [
            (row["row_no"], row["query_id"])
            for block in read_results(path, run_id="r")
            for row in block.results.to_pylist()
        ],
        "golden_set": lambda path: [row.query_id for row in read_golden_set(path).rows],
        "archive": lambda path: [
            (one.number, one.record.chunk_id) for one in read_archive(path) if one.record
        ],
        "extractions": lambda path: [
            (one.number, one.record.case_id) for one in read_extractions(path) if one.record
        ],
        "judge_spot_check": lambda path: [
            (one.number, one.record.query_id) for one in read_spot_checks(path) if one.record
        ],
    }
    with tempfile.TemporaryDirectory() as folder:
        path = written(folder, "part.jsonl", data)
        target = Path(folder) / "part.jsonl.zst"
        try:
            with_texts = readers[part](path)
        except InputRejected:
            return
        problems = write_without_texts(part, path, target)
        assert readers[part](target) == with_texts
        assert all(problem.text == "" for problem in problems)


@pytest.mark.parametrize("name", ["own.jsonl", "own.csv", "own.tsv", "own.run", "own.json"])
@pytest.mark.parametrize("rows", ["query", "hit"])
@FEW
@given(data=FILES)
def test_any_file_is_mapped_or_refused(name, rows, data):
    document = {**MAPPING, "rows": rows}
    if rows == "hit":
        document["hits"] = {key: value for key, value in MAPPING["hits"].items() if key != "list"}
    if name == "own.run":
        document["result"] = {"query_id": "qid"}
    with tempfile.TemporaryDirectory() as folder:
        path = written(folder, name, data)
        mapping = check_mapping(document, "mapping.toml", data_file=path)
        target = Path(folder) / "results.jsonl.zst"
        try:
            write_numbered(target, mapped_rows(path, mapping), dict, lambda line: problem_of(line, path))
            blocks = list(read_results(target, run_id="r"))
        except (InputRejected, ScatteredRows):
            return
        assert all(problem.reason for block in blocks for problem in block.problems)


@pytest.mark.parametrize("name", ["own.jsonl", "own.csv", "own.json", "own.run"])
@FEW
@given(data=FILES)
def test_a_mapping_is_proposed_for_any_file_or_the_file_refused(name, data):
    with tempfile.TemporaryDirectory() as folder:
        path = written(folder, name, data)
        try:
            proposal = propose_mapping(path)
        except EvalPipelineError as error:
            assert not isinstance(error, InvalidConfig), error
            return
        assert proposal.text.startswith("#")


TOML = st.recursive(
    st.one_of(st.booleans(), st.integers(-3, 3), st.floats(), st.text(max_size=5), st.just("id")),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@FEW
@given(
    document=st.dictionaries(
        st.sampled_from(
            ["rows", "file", "run", "result", "hits", "answer", "judge", "latency_ms", "references", "x"]
        ),
        st.dictionaries(
            st.sampled_from(
                [
                    "query_id",
                    "chunk_id",
                    "list",
                    "order",
                    "unit",
                    "best_score",
                    "first_rank",
                    "format",
                    "only",
                    "text",
                ]
            ),
            TOML,
            max_size=4,
        )
        | TOML,
        max_size=6,
    )
)
def test_any_mapping_is_understood_or_refused_with_its_place(document):
    try:
        check_mapping(document, "mapping.toml", data_file=Path("own.jsonl"))
    except InvalidConfig as error:
        assert str(error).startswith("mapping.toml")
