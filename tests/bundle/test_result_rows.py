"""results.jsonl: what is taken, what is kept as delivered, and what goes to quarantine with a reason."""

from __future__ import annotations

import json
import math

import pytest

from eval_pipeline.bundle.golden import read_golden_set
from eval_pipeline.bundle.results import read_results
from eval_pipeline.errors import InputRejected
from tests.bundle_files import write_lines

HIT = {"chunk_id": "c", "doc_id": "d"}


def read(folder, *rows, ends_with_newline=True):
    """(results, hits, spans, problems) of a file with these lines."""
    path = write_lines(folder / "results.jsonl", rows)
    if not ends_with_newline:
        path.write_bytes(path.read_bytes().removesuffix(b"\n"))
    blocks = list(read_results(path, run_id="run-1"))
    tables = [
        [row for block in blocks for row in getattr(block, name).to_pylist()]
        for name in ("results", "hits", "hit_spans", "citations", "references")
    ]
    return *tables, [problem for block in blocks for problem in block.problems]


def taken(folder, *rows):
    """The results of lines that must all be good."""
    results, *_, problems = read(folder, *rows)
    assert problems == []
    return results


def rejected(folder, row):
    """The one problem of a file in which the second of three lines is bad."""
    results, *_, problems = read(folder, {"query_id": "before"}, row, {"query_id": "after"})
    assert [one["query_id"] for one in results] == ["before", "after"]
    assert [one["row_no"] for one in results] == [1, 3]
    (problem,) = problems
    assert problem.path.endswith("results.jsonl")
    assert problem.run_id == "run-1"
    assert problem.line == 2
    return problem


def test_a_query_id_alone_is_a_result(tmp_path):
    (row,) = taken(tmp_path, {"query_id": "q"})
    assert row["query_id"] == "q"
    assert row["n_hits"] == 0
    assert row["has_answer"] is False
    assert row["judge_scores_delivered"] is None


def test_null_is_the_same_as_absent(tmp_path):
    everything = {
        "query_id": "q",
        "hits_top_k": None,
        "answer": None,
        "error": None,
        "timed_out": None,
        "folder_mode": None,
        "selected_folders": None,
        "judge": None,
        "latency_ms": None,
    }
    (with_nulls,) = taken(tmp_path, everything)
    (without,) = taken(tmp_path, {"query_id": "q"})
    assert with_nulls == without


def test_an_answer_without_any_content_is_still_an_answer(tmp_path):
    empty, absent = taken(tmp_path, {"query_id": "a", "answer": {}}, {"query_id": "b"})
    assert (empty["has_answer"], absent["has_answer"]) == (True, False)


def test_unknown_keys_at_any_depth_do_not_disturb(tmp_path):
    row = {
        "query_id": "q",
        "trace": {"id": [1, None, {"x": "y"}]},
        "hits_top_k": [{**HIT, "extra": [[]]}],
        "answer": {"text": "t", "model": {"name": None}},
    }
    (result,) = taken(tmp_path, row)
    assert (result["n_hits"], result["answer_text"]) == (1, "t")


def test_a_bare_text_hit_names_chunk_and_document(tmp_path):
    _, found, *_ = read(tmp_path, {"query_id": "q", "hits_top_k": ["a", {"chunk_id": "b", "doc_id": "d"}]})
    assert [(hit["rank"], hit["chunk_id"], hit["doc_id"]) for hit in found] == [(1, "a", "a"), (2, "b", "d")]


def test_the_position_in_the_list_is_the_rank_whatever_the_rank_field_says(tmp_path):
    delivered = [{**HIT, "rank": 0}, {**HIT, "rank": 17.5}, HIT]
    _, found, *_ = read(tmp_path, {"query_id": "q", "hits_top_k": delivered})
    assert [(hit["rank"], hit["delivered_rank"]) for hit in found] == [(1, 0), (2, 17.5), (3, None)]


def test_a_span_of_a_hit_lies_in_the_hits_document_unless_it_names_another(tmp_path):
    spans = [{"start": 0, "end": 5}, {"start": 5, "end": 5, "doc_id": "other"}]
    _, _, found, *_ = read(tmp_path, {"query_id": "q", "hits_top_k": [{**HIT, "source_spans": spans}]})
    assert [(span["span_no"], span["doc_id"], span["start"], span["end"]) for span in found] == [
        (1, "d", 0, 5),
        (2, "other", 5, 5),
    ]


def test_a_heading_path_may_be_a_list_in_hits_and_in_references(tmp_path):
    row = {
        "query_id": "q",
        "hits_top_k": [{**HIT, "heading_path": ["A", "B"]}],
        "answer": {"references": [{"heading_path": ["C", "D"]}, {"heading_path": "E > F"}]},
    }
    _, found, _, _, references, problems = read(tmp_path, row)
    assert problems == []
    assert [hit["heading_path"] for hit in found] == ["A > B"]
    assert [reference["heading_path"] for reference in references] == ["C > D", "E > F"]


def test_citations_that_are_null_or_empty_are_stored_as_they_came(tmp_path):
    delivered = [{"citation": "c"}, {"citation": None}, {}, {"citation": ""}]
    _, _, _, citations, _, problems = read(tmp_path, {"query_id": "q", "answer": {"citations": delivered}})
    assert problems == []
    assert [one["chunk_id"] for one in citations] == ["c", None, None, ""]


@pytest.mark.parametrize("score", ["4", True, [4], {"value": 4}, "", 10**400], ids=repr)
def test_a_judge_score_that_is_no_number_counts_as_none_and_stays_readable(tmp_path, score):
    (row,) = taken(tmp_path, {"query_id": "q", "judge": {"groundedness": {"score": score}}})
    assert row["judge_groundedness"] is None
    delivered = json.loads(row["judge_scores_delivered"])
    assert str(score)[:10] in str(delivered["groundedness"])


@pytest.mark.parametrize("score", [-1, 5.001, 6, 1e308, 2**53 + 1, 10**30], ids=repr)
def test_a_judge_score_out_of_range_is_a_number_all_the_same(tmp_path, score):
    bare, beside_an_odd_one = {"score": score}, {"score": score, "unsupported_claims": ["x"]}
    fast, careful = taken(
        tmp_path,
        {"query_id": "a", "judge": {"groundedness": bare}},
        {"query_id": "b", "judge": {"groundedness": beside_an_odd_one, "correctness": {"score": "odd"}}},
    )
    assert fast["judge_groundedness"] == careful["judge_groundedness"] == float(score)


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_judge_score_that_is_not_finite_counts_as_none_and_rejects_nothing(tmp_path, literal):
    (row,) = taken(tmp_path, '{"query_id": "q", "judge": {"correctness": {"score": ' + literal + "}}}")
    assert row["judge_correctness"] is None
    assert row["judge_scores_delivered"] is not None


def test_the_judges_input_may_be_text_or_an_object(tmp_path):
    text, thing = taken(
        tmp_path,
        {"query_id": "a", "judge": {"input": "asked"}},
        {"query_id": "b", "judge": {"input": {"question": "asked", "chunks": [1, None]}}},
    )
    assert text["judge_input"] == "asked"
    assert json.loads(thing["judge_input"]) == {"question": "asked", "chunks": [1, None]}


@pytest.mark.parametrize(
    ("row", "field", "reason"),
    [
        ({}, "query_id", "is required"),
        ({"query_id": None}, "query_id", "expected text"),
        ({"query_id": 7}, "query_id", "expected text, got a whole number"),
        ({"query_id": ""}, "query_id", "must not be empty"),
        ({"query_id": "x" * 1025}, "query_id", "at most 1024"),
        ({"query_id": "a\x00b"}, "query_id", "NUL"),
        ({"query_id": "a\ud800b"}, "query_id", "surrogate"),
        ({"query_id": "q", "hits_top_k": {}}, "hits_top_k", "expected a list"),
        ({"query_id": "q", "hits_top_k": [None]}, "hits_top_k[0]", "expected an object"),
        ({"query_id": "q", "hits_top_k": [{"doc_id": "d"}]}, "hits_top_k[0].chunk_id", "is required"),
        ({"query_id": "q", "hits_top_k": [{"chunk_id": "c"}]}, "hits_top_k[0].doc_id", "is required"),
        (
            {"query_id": "q", "hits_top_k": [{"chunk_id": 1, "doc_id": "d"}]},
            "hits_top_k[0].chunk_id",
            "text",
        ),
        (
            {"query_id": "q", "hits_top_k": [HIT, {"chunk_id": "", "doc_id": "d"}]},
            "hits_top_k[1].chunk_id",
            "empty",
        ),
        ({"query_id": "q", "hits_top_k": [""]}, "hits_top_k[0].chunk_id", "empty"),
        (
            {"query_id": "q", "hits_top_k": [{**HIT, "source_spans": [{"start": 5, "end": 4}]}]},
            "hits_top_k[0].source_spans[0]",
            "must not end before it starts",
        ),
        (
            {"query_id": "q", "hits_top_k": [{**HIT, "source_spans": [{"start": -1, "end": 4}]}]},
            "hits_top_k[0].source_spans[0]",
            "must not be negative",
        ),
        (
            {"query_id": "q", "hits_top_k": [{**HIT, "source_spans": [{"start": 0, "end": 2**63 - 1}]}]},
            "hits_top_k[0].source_spans[0]",
            "too large",
        ),
        (
            {"query_id": "q", "hits_top_k": [{**HIT, "source_spans": [{"start": 0, "end": 10**30}]}]},
            "hits_top_k[0].source_spans[0]",
            "too large",
        ),
        ({"query_id": "q", "hits_top_k": [{**HIT, "source_spans": [{"end": 4}]}]}, "start", "is required"),
        (
            {"query_id": "q", "hits_top_k": [{**HIT, "rank": "1"}]},
            "hits_top_k[0].rank",
            "a number, got text",
        ),
        ({"query_id": "q", "timed_out": "no"}, "timed_out", "true or false"),
        ({"query_id": "q", "answer": "yes"}, "answer", "expected an object"),
        ({"query_id": "q", "answer": {"grounded": 1}}, "answer.grounded", "true or false"),
        ({"query_id": "q", "answer": {"citations": ["c"]}}, "answer.citations[0]", "an object, got text"),
        ({"query_id": "q", "selected_folders": ["a", None]}, "selected_folders[1]", "text, got nothing"),
        ({"query_id": "q", "answer": {"text": "\udc00"}}, "answer.text", "surrogate"),
        ({"query_id": "q", "error": "a\x00"}, "error", "NUL"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_bad_row_is_quarantined_with_field_and_reason_and_stops_no_other(tmp_path, row, field, reason):
    problem = rejected(tmp_path, row)
    assert problem.field is not None and problem.field.endswith(field)
    assert reason in problem.reason
    assert problem.text == json.dumps(row)
    named = row.get("query_id")
    is_storable = isinstance(named, str) and "\x00" not in named and "\ud800" not in named
    assert problem.query_id == (named if is_storable else None)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("nonsense", "not JSON"),
        ('{"query_id": "q"', "not JSON"),
        ('{"query_id": "q",}', "not JSON"),
        ("[]", "holds a list"),
        ("null", "holds null"),
        ("3", "holds a number"),
        ('"q"', "holds text"),
        ('{"query_id": "a"}{"query_id": "b"}', "not JSON"),
        (b'{"query_id": "caf\xe9"}', "not UTF-8 at byte"),
        (b'{"query_id": "\xed\xa0\x80"}', "not UTF-8 at byte"),
        (b'{"query_id": "q", "unknown": "\xff"}', "not UTF-8 at byte"),
        (b'{"query_id": "q\x00"}', "not JSON"),
        ('{"query_id": "q", "error": ' + "[" * 100_000 + "]" * 100_000 + "}", "nested too deeply"),
        ('{"query_id": "q", "answer": {"text": ' + '{"a":' * 600 + "1" + "}" * 600 + "}}", "text"),
        ('{"query_id": "q", "hits_top_k": [{"heading_path": ' + "[" * 950 + "]" * 950 + "}]}", ""),
        ('{"query_id": "q", "latency_ms": {"total": NaN}}', "finite"),
        ('{"query_id": "q", "latency_ms": {"total": -Infinity}}', "finite"),
        ('{"query_id": "q", "latency_ms": {"total": 1e999}}', "finite"),
        ('{"query_id": "q", "latency_ms": {"total": ' + "9" * 400 + "}}", ""),
        ('{"query_id": "q", "latency_ms": {"total": ' + "9" * 5000 + "}}", ""),
        ('{"query_id": "q", "hits_top_k": [{"chunk_id": "c", "doc_id": "d", "score": NaN}]}', "finite"),
        ('{"query_id": "q", "\\ud800": 1}', "surrogate"),
    ],
    ids=lambda value: str(value[:40]),
)
def test_a_line_that_cannot_be_read_is_quarantined_with_its_text(tmp_path, line, reason):
    problem = rejected(tmp_path, line)
    assert reason in problem.reason
    text = line if isinstance(line, str) else line.decode("utf-8", "replace")
    assert problem.text.startswith(text[:2000])
    assert len(problem.text) <= 2001


def test_what_is_not_finite_under_an_unknown_key_is_nobodys_business(tmp_path):
    (row,) = taken(tmp_path, '{"query_id": "q", "debug": {"x": [NaN, Infinity, 1e999]}}')
    assert row["query_id"] == "q"


@pytest.mark.parametrize(
    "query_id",
    [
        "'; drop table raw.runs; --",
        "a|b",
        "日本語",
        "\U0001f469\u200d\U0001f467",
        " padded ",
        "null",
        "../up",
        "x" * 1024,
    ],
)
def test_any_text_up_to_1024_characters_is_an_id(tmp_path, query_id):
    (row,) = taken(tmp_path, {"query_id": query_id})
    assert row["query_id"] == query_id


def test_a_byte_order_mark_blank_lines_and_crlf_are_no_content(tmp_path):
    path = tmp_path / "results.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"query_id": "a"}\r\n\r\n  \t\r\n{"query_id": "b"}\r\n')
    (block,) = read_results(path, run_id="r")
    assert block.problems == []
    assert [(row["query_id"], row["row_no"]) for row in block.results.to_pylist()] == [("a", 1), ("b", 4)]


def test_a_byte_order_mark_in_the_middle_is_content_that_is_no_json(tmp_path):
    assert "not JSON" in rejected(tmp_path, b'\xef\xbb\xbf{"query_id": "q"}').reason


@pytest.mark.parametrize("ends_with_newline", [True, False])
@pytest.mark.parametrize("last", ['{"query_id": "b", "ans', "{", b'{"query_id": "\xc3'])
def test_an_undecodable_last_line_rejects_the_file_as_a_whole(tmp_path, last, ends_with_newline):
    with pytest.raises(InputRejected, match="looks cut off") as caught:
        read(tmp_path, {"query_id": "a"}, last, ends_with_newline=ends_with_newline)
    assert caught.value.line == 2
    assert caught.value.text


def test_a_last_line_that_decodes_but_is_wrong_rejects_only_itself(tmp_path):
    *_, problems = read(tmp_path, {"query_id": "a"}, "[1]", ends_with_newline=False)
    assert [problem.line for problem in problems] == [2]


def test_a_last_line_without_a_line_break_is_read(tmp_path):
    results, *_ = read(tmp_path, {"query_id": "a"}, {"query_id": "b"}, ends_with_newline=False)
    assert [row["query_id"] for row in results] == ["a", "b"]


def test_an_empty_file_holds_no_results(tmp_path):
    assert read(tmp_path) == ([], [], [], [], [], [])


def test_latencies_are_kept_as_recorded_negative_ones_too(tmp_path):
    (row,) = taken(tmp_path, {"query_id": "q", "latency_ms": {"total": -1, "retrieval": 0.25, "judge": None}})
    assert (row["total_ms"], row["retrieval_ms"], row["judge_ms"]) == (-1, 0.25, None)


def test_numbers_keep_every_bit_in_either_reader(tmp_path):
    awkward = [0.1, 1e-320, -0.0, 2**53 + 1, 123456789.12345679]
    row = {"query_id": "q", "hits_top_k": [{**HIT, "score": number} for number in awkward]}
    _, fast, *_ = read(tmp_path, row)
    _, careful, *_ = read(tmp_path, {**row, "hits_top_k": [*row["hits_top_k"], "bare"]})
    for one, other, number in zip(fast, careful, awkward, strict=False):
        assert one["score"] == other["score"] == float(number)
        assert math.copysign(1, one["score"]) == math.copysign(1, other["score"]) == math.copysign(1, number)


WHITE_SPACE = [chr(code) for code in range(0x3100) if chr(code).isspace()]


@pytest.mark.parametrize("character", [*WHITE_SPACE, "\u200b", "\u2060", "\u180e", "\ufeff"], ids=ascii)
def test_a_blank_answer_is_one_that_python_strips_to_nothing(tmp_path, character):
    (row,) = taken(tmp_path, {"query_id": "q", "answer": {"text": f" {character}\n"}})
    assert row["answer_text_is_blank"] is (f" {character}\n".strip() == "")


def test_a_whole_number_may_be_written_with_a_point_and_a_fraction_may_not(tmp_path):
    span = {"start": 3.0, "end": 5.0}
    _, _, (stored,), _, _, problems = read(
        tmp_path,
        {"query_id": "q", "hits_top_k": [{**HIT, "source_spans": [span]}], "latency_ms": {"total": 7.0}},
    )
    assert (stored["start"], stored["end"], problems) == (3, 5, [])
    bad = rejected(
        tmp_path, {"query_id": "q", "hits_top_k": [{**HIT, "source_spans": [{"start": 3.0, "end": 5.5}]}]}
    )
    assert (bad.field, bad.reason) == (
        "hits_top_k[0].source_spans[0].end",
        "expected a whole number, got a number",
    )


def test_beyond_every_key_of_a_mapping_too(tmp_path):
    spans = {
        name: [{"doc_id": "d", "start": 0.0, "end": 2.0}, {"doc_id": "d", "start": 4, "end": 5}]
        for name in "ab"
    }
    path = write_lines(tmp_path / "queries.jsonl", [{"query_id": "q", "expected_chunk_spans": spans}])
    (row,) = read_golden_set(path).rows
    found = {
        name: [(one.start, one.end) for one in own] for name, own in (row.expected_chunk_spans or {}).items()
    }
    assert found == {"a": [(0, 2), (4, 5)], "b": [(0, 2), (4, 5)]}


def test_what_may_be_anything_stays_as_it_was_delivered(tmp_path):
    span = {"start": 0.0, "end": 1.0}
    (result,) = taken(
        tmp_path,
        {
            "query_id": "q",
            "hits_top_k": [{**HIT, "source_spans": [span]}],
            "judge": {"input": {"asked": 2.0}},
        },
    )
    assert json.loads(result["judge_input"]) == {"asked": 2.0} and "2.0" in result["judge_input"]
