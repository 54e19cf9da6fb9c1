"""Files that the tools themselves have written: what was asked, retrieved, answered and scored comes out of each."""

from __future__ import annotations

import hashlib
import json

import pytest

from tests.adapters.made.make import QUERIES, TEXTS
from tests.adapters.taken import MADE, ids, mean_score, take

PRINTED = json.loads((MADE / "printed.json").read_text("utf-8"))
BY_ID = {one["id"]: one for one in QUERIES}
LABELLED = {one["id"] for one in QUERIES if one["expected"] and not one.get("error")}
FOUND = {one["id"] for one in QUERIES if one["hits"]}
EVERY = set(BY_ID)


def hashed(*values):
    """The documented name of what has none."""
    text = json.dumps(list(values), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


BY_HASH = {hashed(one["question"]): one for one in QUERIES}

# File → the tool it is recognised as, the queries in it, and whether its rows have answers and labels by id.
FILES = {
    "demo.run": ("trec", FOUND, False, False),
    "ranx.json": ("ranx", LABELLED, False, False),
    "ranx.lz4": ("ranx", LABELLED, False, False),
    "ranx.parquet": ("ranx", LABELLED, False, False),
    "ragas-dataset.jsonl": ("ragas", LABELLED, True, True),
    "ragas-results.csv": ("ragas", LABELLED, True, True),
    "llamaindex.jsonl": ("llamaindex", LABELLED, False, True),
    "langsmith.jsonl": ("langsmith", EVERY, True, True),
    "mlflow-traces.jsonl": ("mlflow", EVERY, True, True),
    "otlp.jsonl": ("otlp", EVERY, True, False),
    "langfuse": ("langfuse", EVERY, True, False),
    "phoenix-spans.jsonl": ("phoenix", EVERY, True, False),
    "autorag-node.parquet": ("autorag", EVERY, False, True),
    "per_query.jsonl": ("kebab", EVERY, True, False),
}

# A node of AutoRAG knows no errors.
UNAWARE = {"autorag"}


def known(query_id):
    """The query of the system that goes by this name in the file."""
    return BY_ID.get(query_id.removeprefix("example-")) or BY_HASH[query_id]


@pytest.mark.parametrize("name", FILES)
def test_every_file_says_what_its_tool_was_fed_with(name):
    tool, queries, has_answers, has_labels = FILES[name]
    bundle = take(MADE / name)
    assert bundle.tool == tool
    assert bundle.refused == []
    assert {known(query_id)["id"] for query_id in bundle.rows} == queries
    for query_id, row in bundle.rows.items():
        one = known(query_id)
        assert ids(row) == [chunk for chunk, _ in one["hits"]]
        assert (one.get("error", "") if tool not in UNAWARE else "") in row.get("error", "")
        if has_answers:
            assert (row.get("answer") or {}).get("text", "").strip(" .") == one.get("answer", "").strip(" .")
    if has_labels:
        expected = {
            known(query_id)["id"]: set(row["expected_chunk_ids"]) for query_id, row in bundle.golden.items()
        }
        assert expected == {query_id: set(BY_ID[query_id]["expected"]) for query_id in queries}
    else:
        assert bundle.golden == {}


REPEATED = {
    "promptfoo.json": (
        "promptfoo",
        ["promptfoo.small", "promptfoo.small.e2", "promptfoo.large", "promptfoo.large.e2"],
    ),
    "inspect.eval": ("inspect", ["inspect", "inspect.e2"]),
    "inspect.json": ("inspect", ["inspect", "inspect.e2"]),
    "phoenix-experiment.json": ("phoenix", ["phoenix-experiment", "phoenix-experiment.e2"]),
    "kb.sqlite": ("kebab", ["first", "second"]),
}


@pytest.mark.parametrize("name", REPEATED)
def test_epochs_repetitions_and_runs_of_one_file_are_runs_of_their_own(name):
    tool, runs = REPEATED[name]
    bundle = take(MADE / name)
    assert (bundle.tool, sorted(bundle.runs)) == (tool, sorted(runs))
    for rows in bundle.runs.values():
        assert {known(query_id)["id"]: ids(row) for query_id, row in rows.items()} == {
            one["id"]: [chunk for chunk, _ in one["hits"]] for one in QUERIES
        }
    for run, said in bundle.said.items():
        assert said.get("replicate_of") == (run.removesuffix(".e2") if run.endswith(".e2") else None)


SCORES = {
    ("ragas-results.csv", "exact_match"): ("ragas", "exact_match"),
    ("ragas-results.csv", "id_based_context_recall"): ("ragas", "id_based_context_recall"),
    ("llamaindex.jsonl", "mrr"): ("llamaindex", "mrr"),
    ("llamaindex.jsonl", "recall"): ("llamaindex", "recall"),
    ("langsmith.jsonl", "rr"): ("langsmith", "rr"),
    ("mlflow.json", "words"): ("mlflow", "words"),
    ("mlflow.json", "is_right"): ("mlflow", "is_right"),
    ("mlflow-traces.jsonl", "words"): ("mlflow", "words"),
    ("deepeval.json", "Exact, in words"): ("deepeval", "Exact, in words"),
    ("langfuse", "rr"): ("langfuse", "rr"),
    ("autorag-node.parquet", "retrieval_recall"): ("autorag", "retrieval_recall"),
}


@pytest.mark.parametrize(("name", "score"), SCORES)
def test_the_mean_of_a_score_is_what_the_tool_printed_about_its_own_file(name, score):
    tool, printed = SCORES[name, score]
    assert mean_score(take(MADE / name).rows, score) == pytest.approx(PRINTED[tool][printed], abs=1e-12)


def test_the_scores_of_both_epochs_together_are_what_inspect_printed():
    bundle = take(MADE / "inspect.eval")
    both = {f"{run} {query_id}": row for run, rows in bundle.runs.items() for query_id, row in rows.items()}
    assert mean_score(both, "graded") == PRINTED["inspect"]["graded.graded"]
    assert mean_score(both, "retrieval.rr") == PRINTED["inspect"]["retrieval.rr"]


def test_texts_come_along_under_the_ids_that_lie_beside_them():
    row = take(MADE / "ragas-results.csv").rows[hashed(BY_ID["q2"]["question"])]
    assert [(hit["chunk_id"], hit["text"]) for hit in row["hits_top_k"]] == [
        (chunk, TEXTS[chunk]) for chunk, _ in BY_ID["q2"]["hits"]
    ]


def test_a_beir_dataset_is_a_golden_set_and_with_a_name_an_archive():
    bundle = take(MADE / "beir", chunker="passages")
    assert {row["query_id"]: row.get("expected_chunk_ids", []) for row in bundle.golden.values()} == {
        one["id"]: one["expected"] for one in QUERIES
    }
    assert {row["chunk_id"]: row["text"] for row in bundle.archive} == TEXTS
    assert take(MADE / "beir").archive == []


def test_labels_of_texts_name_hits_that_are_texts():
    bundle = take(MADE / "deepeval.json")
    for query_id, row in bundle.rows.items():
        assert ids(row) == [hashed(TEXTS[chunk]) for chunk, _ in BY_ID[query_id]["hits"]]
        assert set(bundle.golden[query_id]["expected_chunk_ids"]) == {
            hashed(TEXTS[chunk]) for chunk in BY_ID[query_id]["expected"]
        }


def test_named_scores_of_a_provider_add_up_to_what_promptfoo_printed():
    bundle = take(MADE / "promptfoo.json")
    for provider in ("small", "large"):
        rows = [
            *bundle.runs[f"promptfoo.{provider}"].values(),
            *bundle.runs[f"promptfoo.{provider}.e2"].values(),
        ]
        said = [row["scores"]["said"] for row in rows if "scores" in row]
        assert sum(said) == PRINTED["promptfoo"][f"said of {provider}"]
