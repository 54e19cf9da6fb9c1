"""What has led astray in files of other tools: each trap, seen in a real file, with what is made of it."""

from __future__ import annotations

import gzip
import json
import sqlite3
import zipfile

import pandas as pd
import pytest

from eval_pipeline.adapters.writing import Wanted
from eval_pipeline.errors import UsageError
from tests.adapters.made.make import QUERIES
from tests.adapters.taken import MADE, ids, mean_score, number, take
from tests.bundle_files import write_lines

QRELS = "a 0 x 1\nb 0 y 1\nnever 0 z 1\n"


def text(path, content):
    path.write_text(content, "utf-8")
    return path


def test_blanks_tabs_exponents_and_no_last_newline_are_a_trec_run_like_any_other_and_packed_too(tmp_path):
    content = "a Q0 x 1 1e-3 t\na\tQ0\ty  2 -2.5E-4 t\n\nb Q0 x 1 7 t"
    plain = take(text(tmp_path / "plain.txt", content))
    (tmp_path / "odd.name").write_bytes(gzip.compress(content.encode()))
    packed = take(tmp_path / "odd.name")
    assert plain.tool == packed.tool == "trec"
    assert plain.rows == packed.rows
    assert {query: ids(row) for query, row in plain.rows.items()} == {"a": ["x", "y"], "b": ["x"]}
    assert [(hit["chunk_id"], hit["doc_id"]) for hit in plain.rows["b"]["hits_top_k"]] == [("x", "x")]


def test_ties_stand_as_in_the_file_and_on_demand_as_trec_eval_sorts_them(tmp_path):
    path = text(tmp_path / "ties.run", "q Q0 a 1 2 t\nq Q0 b 2 2 t\nq Q0 c 3 2 t\n")
    assert ids(take(path).rows["q"]) == ["a", "b", "c"]
    assert ids(take(path, order="trec_eval").rows["q"]) == ["c", "b", "a"]


def test_the_order_of_trec_eval_gives_its_own_reciprocal_ranks():
    printed = json.loads((MADE / "printed.json").read_text("utf-8"))["trec"]
    expected = {one["id"]: set(one["expected"]) for one in QUERIES}
    for query, row in take(MADE / "demo.run", order="trec_eval").rows.items():
        places = [place for place, chunk in enumerate(ids(row), start=1) if chunk in expected[query]]
        assert (1 / places[0] if places else 0.0) == printed[f"recip_rank of {query}"]


def test_ranks_that_tell_nothing_apart_give_way_to_the_score_and_contradicting_scores_are_said(tmp_path):
    same = text(tmp_path / "same.run", "q Q0 a 0 1 t\nq Q0 b 0 3 t\n")
    assert ids(take(same).rows["q"]) == ["b", "a"]
    against = take(text(tmp_path / "against.run", "q Q0 a 1 1 t\nq Q0 b 2 3 t\n"))
    assert ids(against.rows["q"]) == ["a", "b"]
    assert "scores do not fall with the rank" in against.remarks[0]


def test_lines_of_a_query_that_lie_apart_come_together_and_a_broken_one_is_refused_by_its_number(tmp_path):
    path = text(tmp_path / "apart.run", "a Q0 x 1 3 t\nb Q0 x 1 3 t\na Q0 y 2 2 t\nb Q0 z 2 much t\n")
    bundle = take(path)
    assert {query: ids(row) for query, row in bundle.rows.items()} == {"a": ["x", "y"], "b": ["x"]}
    assert bundle.refused == [(4, "the score 'much' is no number")]


def asking(*queries, fill=False):
    return Wanted(dataset="demo", asked=lambda _dataset: frozenset(queries), fill=fill)


def test_queries_without_a_line_are_counted_and_on_demand_count_as_found_nothing(tmp_path):
    path = text(tmp_path / "few.run", "a Q0 x 1 3 t\n")
    dropped = take(path, wanted=asking("a", "b", "c"))
    assert list(dropped.rows) == ["a"]
    assert "2 queries of the golden set without a row" in dropped.remarks[0]
    filled = take(path, wanted=asking("a", "b", "c", fill=True))
    assert {query: ids(row) for query, row in filled.rows.items()} == {"a": ["x"], "b": [], "c": []}


def test_grades_below_one_are_judged_and_not_expected_and_no_refusal(tmp_path):
    golden = take(text(tmp_path / "labels.txt", "a 0 x 2\na 0 y 0\nb 0 z -1\n")).golden
    assert golden["a"] == {
        "query_id": "a",
        "grades": {"x": 2, "y": 0},
        "expected_chunk_ids": ["x"],
    }
    assert golden["b"] == {"query_id": "b", "grades": {"z": -1}}


def test_only_what_its_dataset_calls_relevant_is_expected_and_every_grade_stays(tmp_path):
    strict = Wanted(dataset="demo", relevant_from=lambda _dataset: 2)
    golden = take(text(tmp_path / "labels.txt", "a 0 x 2\na 0 y 1\nb 0 z 1\n"), wanted=strict).golden
    assert golden["a"]["expected_chunk_ids"] == ["x"] and "expected_doc_ids" not in golden["a"]
    assert golden["a"]["grades"] == {"x": 2, "y": 1}
    assert golden["b"] == {"query_id": "b", "grades": {"z": 1}}


def test_nan_and_failed_graders_are_unscored_and_never_zero():
    rows = take(MADE / "inspect.eval").runs["inspect"]
    assert number(rows["q5"]["scores"]["retrieval.rr"]) is None
    assert "scores" not in rows["q4"]
    # The epochs of one sample agree, and letters stay beside their numbers.
    assert rows["q2"]["scores"]["graded"] == {"value": 1.0, "label": "C"}


PROMPTFOO_ROW = {
    "vars": {"question": "why?"},
    "provider": {"id": "openai:small", "label": ""},
    "response": {"output": "so"},
    "latencyMs": 5,
    "promptIdx": 0,
    "promptId": "the same",
    "success": False,
    "score": 0,
}


def promptfoo(path, *rows):
    results = [{**PROMPTFOO_ROW, "testIdx": place, **row} for place, row in enumerate(rows)]
    path.write_text(
        json.dumps({"results": {"version": 3, "results": results, "stats": {}}, "config": {}}), "utf-8"
    )
    return take(path)


def test_a_failed_assertion_of_promptfoo_is_a_score_and_only_failure_reason_2_an_error(tmp_path):
    bundle = promptfoo(
        tmp_path / "r.json",
        {
            "vars": {"question": "one"},
            "error": "Expected output to contain",
            "failureReason": 1,
            "namedScores": {"said": 0},
        },
        {
            "vars": {"question": "two"},
            "error": "no answer",
            "failureReason": 2,
            "response": {"error": "no answer"},
        },
        {
            "vars": {"question": "three"},
            "failureReason": 1,
            "namedScores": {"said": 0},
            "gradingResult": {
                "componentResults": [
                    {"assertion": {"metric": "said"}, "metadata": {"graderError": True}, "score": 0}
                ]
            },
        },
    )
    one, two, three = bundle.rows.values()
    assert "error" not in one and one["answer"]["text"] == "so" and one["scores"]["said"] == 0
    assert two["error"] == "no answer" and "scores" not in two
    assert number(three["scores"]["said"]) is None and number(three["scores"]["score"]) is None
    assert any("a grader failed" in remark for remark in bundle.remarks)


def test_providers_are_runs_and_repeats_replicates(tmp_path):
    bundle = promptfoo(
        tmp_path / "r.json",
        *(
            {"testIdx": test, "vars": {"question": f"q{test}"}, "provider": {"id": provider}}
            for provider in ("small", "large")
            for _ in range(2)
            for test in range(2)
        ),
    )
    assert list(bundle.runs) == ["r.small", "r.small.e2", "r.large", "r.large.e2"]
    assert all(len(rows) == 2 for rows in bundle.runs.values())
    assert bundle.said["r.large.e2"]["replicate_of"] == "r.large"
    assert bundle.words == "promptfoo results v3: 2 tests × 2 providers"


@pytest.mark.parametrize(
    ("said", "expected"), [("a b#1", ["a b#1"]), (7, ["7"]), (["x"], ["x"]), ("x, y", None)]
)
def test_an_expected_id_that_stands_alone_is_one_and_what_looks_like_several_is_none(
    tmp_path, said, expected
):
    """promptfoo makes a test of every member of a list among the variables."""
    bundle = promptfoo(tmp_path / "r.json", {"vars": {"question": "why?", "expected_chunk_ids": said}})
    assert [row.get("expected_chunk_ids") for row in bundle.golden.values()] == (
        [expected] if expected else []
    )


def test_of_several_runs_it_is_said_which_one_lacks_a_query(tmp_path):
    asked = [("small", "one"), ("small", "two"), ("large", "one")]
    bundle = promptfoo(
        tmp_path / "r.json",
        *(
            {"vars": {"question": question, "expected_chunk_ids": ["x"]}, "provider": {"id": provider}}
            for provider, question in asked
        ),
    )
    assert any(one.startswith("r.large: 1 query of the golden set") for one in bundle.remarks)


def test_ids_that_repeat_name_nothing_and_the_question_does(tmp_path):
    same = {"metadata": {"query_id": "x"}}
    bundle = promptfoo(
        tmp_path / "r.json", {**same, "vars": {"question": "one"}}, {**same, "vars": {"question": "two"}}
    )
    assert len(bundle.rows) == 2 and "x" not in bundle.rows
    assert "The ids of the file repeat: 2 are named by a hash of their question" in bundle.remarks


def test_a_question_that_the_golden_set_asks_goes_by_its_id(tmp_path):
    path = write_lines(
        tmp_path / "r.jsonl",
        [{"user_input": "why?", "response": "so"}, {"user_input": "who?", "response": "he"}],
    )
    bundle = take(path, wanted=Wanted(dataset="demo", ids_of=lambda _dataset: {"why?": "q7"}))
    assert [query for query in bundle.rows if len(query) < 32] == ["q7"]
    assert any("1 were named by the same question" in remark for remark in bundle.remarks)


def test_gaps_old_names_and_conversations_of_ragas(tmp_path):
    gaps = take(text(tmp_path / "gaps.csv", "user_input,response,faithfulness\nwhy?,so,0.5\nwho?,,\n"))
    assert [number(row["scores"]["faithfulness"]) for row in gaps.rows.values()] == [0.5, None]
    old = take(
        write_lines(
            tmp_path / "old.jsonl",
            [{"question": "why?", "contexts": ["t"], "answer": "so", "ground_truth": "because"}],
        )
    )
    (row,) = old.rows.values()
    assert (row["answer"]["text"], row["hits_top_k"][0]["text"]) == ("so", "t")
    assert [one["reference"] for one in old.golden.values()] == ["because"]
    turns = [
        {"content": "hi", "type": "human"},
        {"content": "yes?", "type": "ai"},
        {"content": "why?", "type": "human"},
        {"content": "so", "type": "ai"},
    ]
    spoken = take(write_lines(tmp_path / "turns.jsonl", [{"user_input": turns, "reference": "r"}]))
    assert [row["answer"]["text"] for row in spoken.rows.values()] == ["so"]


def test_what_mlflow_cut_in_its_preview_comes_whole_from_the_spans():
    answers = [
        row["answer"]["text"] for row in take(MADE / "mlflow-traces.jsonl").rows.values() if "answer" in row
    ]
    assert answers and all(len(answer) > 1200 for answer in answers)


def test_the_reranker_beats_the_retriever():
    rows = take(MADE / "otlp.jsonl").rows
    assert ids(rows["q1"]) == [chunk for chunk, _ in QUERIES[0]["hits"]]


def test_what_langfuse_wrote_twice_is_taken_once_and_its_latency_not_believed():
    bundle = take(MADE / "langfuse")
    assert [remark for remark in sorted(bundle.remarks) if "twice" in remark] == [
        "rows of observations_v2 that stand twice and were taken once: 1",
        "rows of scores that stand twice and were taken once: 1",
    ]
    assert {row["latency_ms"]["total"] for row in bundle.rows.values()} == {250.0}
    scores = bundle.rows["q1"]["scores"]
    assert (scores["verdict"]["value"], number(scores["note"])) == ("good", None)


def test_a_log_that_was_cut_off_is_an_incomplete_run(tmp_path):
    log = json.loads((MADE / "inspect.json").read_text("utf-8"))
    log["status"], log["samples"] = "error", log["samples"][:2]
    bundle = take(text(tmp_path / "cut.json", json.dumps(log)))
    assert any("the run is incomplete" in remark for remark in bundle.remarks)
    assert set(bundle.golden) == {one["id"] for one in QUERIES}


@pytest.mark.parametrize(
    ("name", "content", "seen"),
    [
        ("r.json", '{"colour": 1}', "a JSON document with colour"),
        ("r.jsonl", '{"a": 1}\n{"a": 2}\n', "JSON Lines with the fields a"),
        ("r.csv", "colour,size\nred,1\n", "a table with the fields colour, size"),
        ("r.txt", "once upon a time\n", "lines of text that begin 'once upon"),
        ("r.bin", "\x00\x01", "bytes of an unknown kind"),
        ("r.csv", "", "an empty file"),
    ],
)
def test_a_file_that_nobody_knows_is_refused_with_what_was_seen(tmp_path, name, content, seen):
    with pytest.raises(UsageError, match=seen):
        take(text(tmp_path / name, content))


def test_rows_without_hits_answers_and_scores_are_refused_and_no_zeros(tmp_path):
    path = write_lines(
        tmp_path / "r.jsonl",
        [{"user_input": "why?", "reference": ""}, {"user_input": "who?", "reference": ""}],
    )
    with pytest.raises(UsageError, match="neither hits nor answers nor scores were recognised"):
        take(path)


def test_a_table_whose_lists_are_all_empty_is_refused_and_no_run_of_zeros(tmp_path):
    path = text(tmp_path / "own.csv", "query_id,retrieved_ids\nq1,\nq2,[]\n")
    with pytest.raises(UsageError, match="none of its 2 rows has a hit"):
        take(path, tool="table")


def test_lists_that_pandas_printed_are_lists(tmp_path):
    path = text(tmp_path / "own.csv", "question_id,retrieved_ids,answer\na,\"['x', 'y']\",yes\nb,[],no\n")
    bundle = take(path)
    assert bundle.tool == "table"
    assert {query: ids(row) for query, row in bundle.rows.items()} == {"a": ["x", "y"], "b": []}


def without_metadata(value: object) -> object:
    """The same request without what names the query."""
    if isinstance(value, list):
        named = [one for one in value if isinstance(one, dict) and one.get("key") == "metadata"]
        return [without_metadata(one) for one in value if one not in named]
    return {name: without_metadata(one) for name, one in value.items()} if isinstance(value, dict) else value


def test_requests_by_line_or_in_one_file_are_the_same_and_without_metadata_the_trace_names_the_query(
    tmp_path,
):
    by_line = take(MADE / "otlp.jsonl").rows
    requests = [json.loads(line) for line in (MADE / "otlp.jsonl").read_text("utf-8").split("\n") if line]
    together = {"resourceSpans": [one for request in requests for one in request["resourceSpans"]]}
    assert take(text(tmp_path / "one.json", json.dumps(together, indent=1))).rows == by_line
    scopes = [scope for one in together["resourceSpans"] for scope in one["scopeSpans"]]
    traces = {span["traceId"] for scope in scopes for span in scope["spans"]}
    unnamed = text(tmp_path / "unnamed.json", json.dumps(without_metadata(together)))
    assert set(take(unnamed).rows) == traces


def test_spans_of_several_traces_that_lie_among_each_other_are_the_same_results(tmp_path):
    requests = [json.loads(line) for line in (MADE / "otlp.jsonl").read_text("utf-8").split("\n") if line]
    scopes = [scope for one in requests for part in one["resourceSpans"] for scope in part["scopeSpans"]]
    spans = sorted((span for scope in scopes for span in scope["spans"]), key=lambda one: one["traceId"])
    found = []
    for name, ordered in (("together", spans), ("apart", [*spans[::2], *spans[1::2]])):
        lines = [{"resourceSpans": [{"scopeSpans": [{"spans": [one]}]}]} for one in ordered]
        write_lines(tmp_path / f"{name}.jsonl", lines)
        found.append(take(tmp_path / f"{name}.jsonl").rows)
    assert len(found[0]) > 1
    assert found[0] == found[1]


def test_a_page_of_the_rest_interface_of_phoenix_is_its_spans(tmp_path):
    lines = (MADE / "phoenix-spans.jsonl").read_text("utf-8").splitlines()
    spans = []
    for row in map(json.loads, lines):
        attributes = {
            name.removeprefix("attributes."): row[name] for name in row if name.startswith("attributes.")
        }
        context = {name: row[f"context.{name}"] for name in ("trace_id", "span_id")}
        plain = {name: row[name] for name in row if "." not in name}
        spans.append({**plain, "context": context, "attributes": attributes})
    page = take(text(tmp_path / "page.json", json.dumps({"data": spans, "next_cursor": None})))
    frame = take(MADE / "phoenix-spans.jsonl")
    assert {query: (ids(row), row.get("answer")) for query, row in page.rows.items()} == {
        query: (ids(row), row.get("answer")) for query, row in frame.rows.items()
    }


@pytest.mark.parametrize("name", ["answer", "text", "content", "response", "output"])
def test_an_answer_of_mlflow_inside_an_object_is_found_by_its_usual_names(tmp_path, name):
    table = json.loads((MADE / "mlflow.json").read_text("utf-8"))
    place = table["columns"].index("response")
    for row in table["data"]:
        row[place] = {name: "thirty days", "retrieved": []}
    found = take(text(tmp_path / "table.json", json.dumps(table))).rows
    assert {row["answer"]["text"] for row in found.values() if "answer" in row} == {"thirty days"}


def test_evaluators_of_llamaindex_in_columns_are_scores_of_their_questions(tmp_path):
    asked = ["why?", "who?"]
    said = {"response": "so", "contexts": ["c"], "passing": None, "feedback": None, "score": None}
    batch = {
        "faithfulness": [{**said, "query": one, "score": 1.0} for one in asked],
        "relevancy": [{**said, "query": one, "passing": one == "why?"} for one in asked],
    }
    rows = take(text(tmp_path / "batch.json", json.dumps(batch)), tool="llamaindex").rows
    assert sorted(number(row["scores"]["relevancy"]) for row in rows.values()) == [0.0, 1.0]
    assert all(row["answer"]["text"] == "so" and len(row["hits_top_k"]) == 1 for row in rows.values())


def test_the_example_names_a_row_of_langsmith_before_its_run_does(tmp_path):
    row = {
        "run": {"id": "r1", "reference_example_id": "e1", "outputs": {"answer": "so"}},
        "example": {"inputs": {"question": "why?"}, "outputs": {}},
        "evaluation_results": {"results": [{"key": "right", "score": 1}]},
    }
    assert list(take(text(tmp_path / "rows.jsonl", json.dumps(row)), tool="langsmith").rows) == ["e1"]


def test_members_of_an_inspect_log_are_packed_as_inspect_packs_them():
    """With zstd, which Python's own module does not unpack before 3.14."""
    with zipfile.ZipFile(MADE / "inspect.eval") as archive:
        assert {one.compress_type for one in archive.infolist()} == {93}
    assert take(MADE / "inspect.eval").runs


def test_ids_kept_beside_the_texts_of_ragas_name_them_and_labels_of_ids_find_them(tmp_path):
    path = text(
        tmp_path / "own.csv",
        "question,contexts,retrieved_ids,expected_chunk_ids,ground_truth\n"
        "why?,\"['about x', 'about y']\",\"['x', 'y']\",['y'],because\n",
    )
    bundle = take(path)
    assert bundle.tool == "ragas"
    (row,), (golden,) = bundle.rows.values(), bundle.golden.values()
    assert [(hit["chunk_id"], hit["text"]) for hit in row["hits_top_k"]] == [
        ("x", "about x"),
        ("y", "about y"),
    ]
    assert golden["expected_chunk_ids"] == ["y"]
    assert bundle.unused == {}


def test_expected_chunks_of_a_file_label_no_documents_and_an_empty_list_expects_a_refusal(
    tmp_path,
):
    rows = [
        {"qid": "a", "retrieved": [{"chunk_id": "x#1", "doc_id": "x"}], "expected_chunk_ids": ["x#1"]},
        {"qid": "b", "retrieved": [], "expected_chunk_ids": ["y#1"]},
        {"qid": "c", "retrieved": [], "expected_chunk_ids": []},
    ]
    golden = take(text(tmp_path / "own.jsonl", "\n".join(map(json.dumps, rows)))).golden
    assert {query: row.get("expected_doc_ids") for query, row in golden.items()} == {
        "a": None,
        "b": None,
        "c": [],
    }


def test_a_run_of_other_queries_is_not_filled_with_those_of_the_golden_set(tmp_path):
    path = text(tmp_path / "other.run", "other Q0 x 1 1 t\n")
    wanted = Wanted(dataset="demo", asked=lambda _: frozenset({"a", "b"}), fill=True)
    bundle = take(path, wanted=wanted)
    assert set(bundle.rows) == {"other"}
    assert any("none of its queries is in the golden set" in one for one in bundle.remarks)


def test_chunks_of_a_knowledge_base_are_the_archive_of_each_chunker_version(tmp_path):
    path = tmp_path / "kb.sqlite"
    path.write_bytes((MADE / "kb.sqlite").read_bytes())
    with sqlite3.connect(path) as con:
        con.execute(
            "create table chunks (chunk_id, doc_id, heading_path_json, source_spans_json, chunker_version)"
        )
        con.executemany(
            "insert into chunks values (?, ?, ?, ?, ?)",
            [
                ("leave#1", "leave", '["Leave", "Days"]', '[{"start": 0, "end": 9}]', "md@1"),
                ("leave#2", "leave", None, '[{"kind": "line", "start": 1, "end": 2}]', "md@2"),
                ("lost", None, None, None, "md@1"),
            ],
        )
    bundle = take(path)
    assert bundle.archive == [
        {
            "chunk_id": "leave#1",
            "doc_id": "leave",
            "heading_path": "Leave > Days",
            "source_spans": [{"start": 0, "end": 9}],
        },
        {"chunk_id": "leave#2", "doc_id": "leave"},
    ]
    assert bundle.unused == {
        "a chunk without chunk_id or doc_id": 1,
        "spans of chunks without start and end": 1,
    }


def test_each_reducer_of_epochs_keeps_its_own_numbers_of_an_inspect_log(tmp_path):
    log = json.loads((MADE / "inspect.json").read_text("utf-8"))
    of_mean = {**log["results"]["scores"][0], "reducer": "mean", "metrics": {"accuracy": {"value": 0.25}}}
    of_mode = {**of_mean, "reducer": "mode", "metrics": {"accuracy": {"value": 0.75}}}
    log["results"]["scores"] = [of_mean, of_mode]
    said = take(text(tmp_path / "log.json", json.dumps(log))).said["log"]["scores"]
    assert said == {"graded/accuracy": 0.25, "graded/accuracy/mode": 0.75}


def test_the_place_of_a_test_in_its_file_is_no_id_of_promptfoo(tmp_path):
    """promptfoo calls the tests of a file `Row #1` and so on: one more at the beginning would rename them all."""
    asked = {"vars": {"question": "why?"}}
    first = promptfoo(tmp_path / "a.json", {**asked, "testCase": {"description": "Row #1"}})
    second = promptfoo(tmp_path / "b.json", {**asked, "testCase": {"description": "Row #2"}})
    assert first.rows.keys() == second.rows.keys()
    named = promptfoo(tmp_path / "c.json", {**asked, "testCase": {"description": "why so"}})
    assert list(named.rows) == ["why so"]


def test_the_table_of_promptfoo_is_refused_with_the_file_to_take(tmp_path):
    names = "Description,question,[p] Say,Status,Score,Named Scores,Grader Reason,Comment"
    path = text(tmp_path / "r.csv", f'{names}\nRow #1,why?,so,PASS,1.00,"{{""a"":1}}",fine,\n')
    with pytest.raises(UsageError, match=r"results\.json"):
        take(path)


def test_a_question_that_stands_twice_in_a_batch_of_llamaindex_is_refused_and_not_overwritten(tmp_path):
    said = {"response": "so", "contexts": ["c"], "passing": None, "feedback": None}
    rows = [{**said, "query": one, "score": score} for one, score in (("why?", 1), ("why?", 0), (None, 1))]
    bundle = take(text(tmp_path / "batch.json", json.dumps({"faithfulness": rows})))
    assert [number(row["scores"]["faithfulness"]) for row in bundle.rows.values()] == [1.0]
    assert sorted(line for line, _ in bundle.refused) == [2, 3]
    assert "The file has no query ids: 2 are named by a hash of their question" in bundle.remarks


def test_traces_as_mlflow_finds_them_are_traces_also_as_a_table_that_pandas_printed(tmp_path):
    traces = take(MADE / "mlflow-traces.jsonl").rows
    table = json.loads((MADE / "mlflow.json").read_text("utf-8"))
    kept = [place for place, name in enumerate(table["columns"]) if "/" not in name]
    frame = pd.DataFrame(
        [[row[place] for place in kept] for row in table["data"]],
        columns=[table["columns"][at] for at in kept],
    )
    frame.to_csv(tmp_path / "found.csv", index=False)
    frame.to_json(tmp_path / "found.jsonl", orient="records", lines=True)
    for name in ("found.csv", "found.jsonl"):
        found = take(tmp_path / name)
        assert found.tool == "mlflow"
        assert found.rows.keys() == traces.keys() and not found.refused
        assert {row["answer"]["text"] for row in found.rows.values() if "answer" in row} <= {
            row["answer"]["text"] for row in traces.values() if "answer" in row
        }


def test_objects_that_pandas_printed_into_a_table_of_phoenix_are_read(tmp_path):
    spans = [json.loads(line) for line in (MADE / "phoenix-spans.jsonl").read_text("utf-8").splitlines()]
    for span in spans:
        for name, value in span.items():
            span[name] = json.loads(value) if isinstance(value, str) and value[:1] in "[{" else value
    pd.DataFrame(spans).to_csv(tmp_path / "spans.csv", index=False)
    printed, whole = take(tmp_path / "spans.csv"), take(MADE / "phoenix-spans.jsonl")
    assert {query: ids(row) for query, row in printed.rows.items()} == {
        query: ids(row) for query, row in whole.rows.items()
    }


def test_metrics_of_retrievers_in_the_table_of_mlflow_are_scores_and_its_lists_hits_and_labels(tmp_path):
    table = {
        "columns": ["query_id", "question", "targets", "outputs", "recall_at_5/score"],
        "data": [["q1", "why?", ["x", "y"], ["y", "z"], 0.5], ["q2", "who?", ["x"], [], 0.0]],
    }
    bundle = take(text(tmp_path / "eval_results_table.json", json.dumps(table)))
    assert bundle.tool == "mlflow"
    assert {query: ids(row) for query, row in bundle.rows.items()} == {"q1": ["y", "z"], "q2": []}
    assert mean_score(bundle.rows, "recall_at_5") == 0.25
    assert bundle.golden["q1"]["expected_chunk_ids"] == ["x", "y"]
    assert bundle.golden["q2"]["query"] == "who?"


def test_rows_nested_deeper_than_usual_and_texts_with_brackets_are_read(tmp_path):
    deep = {"a": ']}\\"'}
    for _ in range(20):
        deep = {"in": [deep, "{["]}
    bundle = promptfoo(
        tmp_path / "r.json", *({"vars": {"question": f"{n}?", "deep": deep}} for n in range(3))
    )
    assert len(bundle.rows) == 3
