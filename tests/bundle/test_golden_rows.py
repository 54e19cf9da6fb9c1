"""Golden sets: aliases, label rules, and YAML with its own surprises."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from eval_pipeline.bundle.golden import read_golden_set
from eval_pipeline.errors import InputRejected
from tests.bundle_files import write_lines

SUPPORTS = [{"rel_path": "a.md"}, {"rel_path": "b.md"}, {"rel_path": "c.md"}]


def read(folder, *rows):
    return read_golden_set(write_lines(folder / "queries.jsonl", rows))


def read_yaml(folder, text):
    path = folder / "queries.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_golden_set(path)


def only_problem(found):
    (problem,) = found.problems
    return problem


def test_id_and_question_are_other_names_of_query_id_and_query(tmp_path):
    first, second = read(
        tmp_path, {"query_id": "q", "query": "why?"}, {"id": "r", "question": "how?", "query": None}
    ).rows
    assert (first.query_id, first.query) == ("q", "why?")
    assert (second.query_id, second.query) == ("r", "how?")


def test_both_names_may_be_given_when_they_agree(tmp_path):
    (row,) = read(tmp_path, {"query_id": "q", "id": "q"}).rows
    assert row.query_id == "q"


@pytest.mark.parametrize(("name", "also"), [("query_id", "id"), ("query", "question")])
def test_two_names_that_contradict_each_other_are_rejected(tmp_path, name, also):
    problem = only_problem(read(tmp_path, {"query_id": "q", name: "one", also: "two"}))
    assert problem.field == also
    assert "'one'" in problem.reason and "'two'" in problem.reason


def test_an_empty_list_of_documents_is_not_the_same_as_none_given(tmp_path):
    refuse, unlabelled, null = read(
        tmp_path,
        {"query_id": "a", "expected_doc_ids": []},
        {"query_id": "b"},
        {"query_id": "c", "expected_doc_ids": None},
    ).rows
    assert (refuse.expected_doc_ids, unlabelled.expected_doc_ids, null.expected_doc_ids) == ([], None, None)


def test_null_spans_of_a_chunk_are_no_spans_of_it(tmp_path):
    frozen = {"a": None, "b": [{"doc_id": "d", "start": 0, "end": 3}]}
    (row,) = read(tmp_path, {"query_id": "q", "expected_chunk_spans": frozen}).rows
    assert list(row.expected_chunk_spans or {}) == ["b"]


@pytest.mark.parametrize(
    ("labels", "field", "reason"),
    [
        ({"expected_chunk_ids": "c"}, "expected_chunk_ids", "expected a list"),
        ({"expected_chunk_ids": ["c", None]}, "expected_chunk_ids[1]", "expected text"),
        ({"expected_chunk_ids": [""]}, "expected_chunk_ids[0]", "must not be empty"),
        ({"expected_doc_ids": ["d", 7]}, "expected_doc_ids[1]", "expected text, got a whole number"),
        ({"expected_chunk_spans": {"": []}}, "expected_chunk_spans", "must not be empty"),
        ({"expected_chunk_spans": {"a\x00": []}}, "expected_chunk_spans", "NUL"),
        (
            {"ground_truth_spans": [{"doc_id": "d", "start": 4, "end": 3}]},
            "ground_truth_spans[0]",
            "[4, 3)",
        ),
        (
            {"ground_truth_spans": [{"doc_id": "d", "start": -2, "end": 3}]},
            "ground_truth_spans[0]",
            "[-2, 3)",
        ),
        ({"ground_truth_spans": [{"doc_id": "", "start": 0, "end": 3}]}, "ground_truth_spans[0]", "empty"),
        ({"ground_truth_spans": [{"start": 0, "end": 3}]}, "ground_truth_spans[0].doc_id", "is required"),
        ({"ground_truth_spans": [{"doc_id": "d", "start": 0.5, "end": 3}]}, "start", "a whole number"),
        ({"gold_supports": [{"heading_path": "A"}]}, "gold_supports[0].rel_path", "is required"),
        (
            {"gold_supports": [{"rel_path": "a", "recency": "new"}]},
            "gold_supports[0].recency",
            "newer, older",
        ),
        ({"recency_conflict_rule": "cite_older"}, "recency_conflict_rule", "cite_newer, acknowledge_both"),
        ({"gold_supports": SUPPORTS, "required_support_groups": [[0, 3]]}, "[0]", "index 3 is outside"),
        ({"gold_supports": SUPPORTS, "required_support_groups": [[0], [-1]]}, "[1]", "index -1 is outside"),
        ({"gold_supports": SUPPORTS, "required_support_groups": [[0, 1], []]}, "[1]", "empty one"),
        ({"required_support_groups": [[0]]}, "[0]", "has 0"),
        ({"tags": "work"}, "tags", "expected a list"),
        ({"vault": ["work"]}, "vault", "expected text"),
        ({"answerable": "yes"}, "answerable", "true or false"),
    ],
    ids=lambda value: json.dumps(value)[:60] if isinstance(value, dict) else "",
)
def test_a_bad_golden_row_goes_to_quarantine_and_the_others_stay(tmp_path, labels, field, reason):
    found = read(tmp_path, {"query_id": "good"}, {"query_id": "bad", **labels})
    assert [row.query_id for row in found.rows] == ["good"]
    problem = only_problem(found)
    assert (problem.line, problem.query_id) == (2, "bad")
    assert (problem.field or "").endswith(field)
    assert reason in problem.reason


@pytest.mark.parametrize("groups", [[[0, 1], [2]], [[2]], [], [[0, 0]]])
def test_groups_of_indices_into_the_supports_are_taken(tmp_path, groups):
    (row,) = read(
        tmp_path, {"query_id": "q", "gold_supports": SUPPORTS, "required_support_groups": groups}
    ).rows
    assert row.required_support_groups == groups


@pytest.mark.parametrize("rule", ["cite_newer", "acknowledge_both", "cite_both", None])
def test_the_three_rules_of_a_conflict_are_taken(tmp_path, rule):
    (row,) = read(tmp_path, {"query_id": "q", "recency_conflict_rule": rule}).rows
    assert row.recency_conflict_rule == rule


def test_a_query_named_twice_rejects_the_set_and_names_both_lines(tmp_path):
    with pytest.raises(InputRejected, match="stands on line 1 and again on line 3") as caught:
        read(tmp_path, {"query_id": "q"}, {"query_id": "r"}, {"id": "q"})
    assert (caught.value.line, caught.value.field) == (3, "query_id")


def test_an_undecodable_last_line_rejects_the_set(tmp_path):
    with pytest.raises(InputRejected, match="looks cut off"):
        read(tmp_path, {"query_id": "q"}, '{"query_id": "r", "exp')


def test_yaml_and_json_lines_say_the_same(tmp_path):
    rows = [{"id": "q", "question": "why?", "tags": ["a|b", "日本"], "expected_doc_ids": []}]
    yaml_text = (
        "# refuse: an empty list\n- {id: q, question: 'why?', tags: ['a|b', 日本], expected_doc_ids: []}\n"
    )
    assert read_yaml(tmp_path, yaml_text) == read(tmp_path, *rows)


def test_a_yaml_mapping_with_the_key_queries_is_taken(tmp_path):
    found = read_yaml(tmp_path, "about: two of them\nqueries:\n- query_id: a\n- query_id: b\n")
    assert [row.query_id for row in found.rows] == ["a", "b"]


@pytest.mark.parametrize("text", ["", "# nothing\n", "[]", "queries: []\n"])
def test_an_empty_yaml_file_is_an_empty_set(tmp_path, text):
    assert read_yaml(tmp_path, text).rows == []


@pytest.mark.parametrize(
    ("written", "got"),
    [
        ("1", "a whole number"),
        ("yes", "true or false"),
        ("2026-01-01", "date"),
        ("1.5", "a number"),
        ("~", "nothing"),
    ],
)
def test_what_yaml_reads_as_something_else_than_text_is_no_id_and_the_reason_says_quote_it(
    tmp_path, written, got
):
    problem = only_problem(read_yaml(tmp_path, f"- query_id: good\n- query_id: {written}\n"))
    assert problem.line == 2
    assert got in problem.reason and "quote it" in problem.reason
    assert problem.text == f"- query_id: {written}" or problem.text == f"query_id: {written}"


def test_one_impossible_value_in_yaml_costs_one_row(tmp_path):
    text = "- query_id: a\n- query_id: b\n  when: 2026-99-99\n- query_id: c\n  x: !!python/name:os.system\n- query_id: d\n"
    found = read_yaml(tmp_path, text)
    assert [row.query_id for row in found.rows] == ["a", "d"]
    assert [problem.line for problem in found.problems] == [2, 4]


@pytest.mark.parametrize(
    "value",
    [
        "!!timestamp x",
        "!!int ''",
        "!!bool perhaps",
        "!!binary é",
        "!!float x",
        "9" * 5000,
        "!!python/name:os.system x",
    ],
)
def test_a_value_that_is_not_what_its_tag_says_costs_one_row(tmp_path, value):
    found = read_yaml(tmp_path, f"- query_id: a\n- query_id: b\n  note: {value}\n- query_id: c\n")
    assert [row.query_id for row in found.rows] == ["a", "c"]
    assert "not YAML" in only_problem(found).reason


def test_a_yaml_anchor_and_a_merge_key_fill_in_a_row(tmp_path):
    text = "- &first {query_id: a, category: factual}\n- {<<: *first, query_id: b}\n"
    assert [(row.query_id, row.category) for row in read_yaml(tmp_path, text).rows] == [
        ("a", "factual"),
        ("b", "factual"),
    ]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("- [unfinished\n", "not YAML"),
        ("just words\n", "a list of rows"),
        ("rows: []\n", "a list of rows"),
        ("- a: 1\n---\n- a: 2\n", "not YAML"),
        (b"- query_id: caf\xe9\n", "not YAML"),
        ("- query_id: q\n  x: &x [*x]\n", "contains itself"),
        ("- &x\n  query_id: q\n  y: *x\n", "contains itself"),
        ("- query_id: q\n  x: " + "[" * 5000 + "]" * 5000, "nested too deeply"),
        ("- " * 5000 + "a", "nested too deeply"),
        ("- &x {query_id: q}\n" + "- *x\n" * 1001, "aliases"),
    ],
    ids=lambda value: str(value[:25]),
)
def test_a_yaml_file_that_cannot_be_read_is_rejected_as_a_whole(tmp_path, text, reason):
    with pytest.raises(InputRejected, match=reason):
        read_yaml(tmp_path, text)


def test_aliases_that_multiply_into_billions_are_refused_before_they_are_built(tmp_path):
    levels = [f"  l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]\n" for n in range(1, 12)]
    text = "- query_id: q\n  l0: &l0 [x, x, x]\n" + "".join(levels)
    with pytest.raises(InputRejected, match="multiply"):
        read_yaml(tmp_path, text)


@pytest.mark.needs_process
def test_nesting_that_would_overflow_the_parsers_own_stack_ends_in_a_message(tmp_path):
    path = tmp_path / "queries.yaml"
    path.write_text("- query_id: a\n  x: " + "[" * 300_000)
    program = (
        "import sys; from pathlib import Path; from eval_pipeline.bundle.golden import read_golden_set\n"
        "from eval_pipeline.errors import InputRejected\n"
        "try: read_golden_set(Path(sys.argv[1]))\n"
        "except InputRejected as rejected: print(rejected.reason)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (0, "nested too deeply to be read"), done.stderr
