"""Small files of one system, written by the tools themselves: python make.py [TOOL…] in an environment that has them.

    pip install ragas==0.4.3 rapidfuzz inspect_ai==0.3.285 deepeval==4.3.1 ranx==0.3.21 llama-index-core==0.14.25
    pip install langsmith==0.14.17 mlflow==3.17.2 opentelemetry-sdk opentelemetry-exporter-otlp-proto-common

Beside the files stands printed.json: the numbers that each tool computed of its own file. Langfuse, Phoenix, AutoRAG and
knowledge bases are written by their documented forms, because they need a server; promptfoo by `npx promptfoo@0.121.20`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
FAILED = "TimeoutError: no answer within 30 s"
QUERIES: list[dict[str, Any]] = [
    {
        "id": "q1",
        "question": "How many vacation days are there?",
        "reference": "30 days.",
        "expected": ["leave#0", "leave#2"],
        "hits": [("leave#0", 4.0), ("leave#1", 2.0), ("travel#0", 2.0)],
        "answer": "There are 30 days.",
    },
    {
        "id": "q2",
        "question": "Wann verfällt „Resturlaub“?",
        "reference": "Am 31. März.",
        "expected": ["leave#1"],
        "hits": [("travel#0", 2.5), ("leave#1", 2.5), ("leave#0", 1e-3)],
        "answer": "Am 31. März.",
    },
    {
        "id": "q3",
        "question": "휴가는 며칠인가요?",
        "reference": "30일",
        "expected": ["leave#2"],
        "hits": [("travel#0", 1.0)],
        "answer": "It is in the handbook, 'page 3', \"below\".",
    },
    {
        "id": "q4",
        "question": "Who pays?",
        "reference": "The firm.",
        "expected": ["travel#0"],
        "hits": [],
        "error": FAILED,
    },
    {
        "id": "q5",
        "question": "Who won?",
        "reference": "",
        "expected": [],
        "hits": [],
        "answer": "I do not know.",
    },
]
TEXTS = {
    "leave#0": "Everybody has 30 vacation days.",
    "leave#1": "Days that are left expire on 31 March, they say: 'use them', or \"lose them\".",
    "leave#2": "직원은 매년 30일의 휴가를 받습니다.",
    "travel#0": "Trips are paid by the firm, [see below].",
}
ANSWERED = [one for one in QUERIES if not one.get("error")]
LABELLED = [one for one in ANSWERED if one["expected"]]


def lines(name: str, rows: Any) -> None:
    path = HERE / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in rows), "utf-8")


def document(name: str, value: Any) -> None:
    (HERE / name).write_text(json.dumps(value, ensure_ascii=False, default=str), "utf-8")


def rr(one: dict[str, Any]) -> float:
    ranks = [place for place, (name, _) in enumerate(one["hits"], start=1) if name in one["expected"]]
    return 1 / ranks[0] if ranks else 0.0


def trec() -> dict[str, float]:
    import pytrec_eval

    run = {one["id"]: dict(one["hits"]) for one in QUERIES if one["hits"]}
    qrels = {
        one["id"]: {name: 2 - place for place, name in enumerate(one["expected"])}
        for one in QUERIES
        if one["expected"]
    }
    qrels["q1"]["travel#0"] = -1
    text = "".join(
        f"{query} Q0 {name} {rank} {score} demo\n"
        for query, scores in run.items()
        for rank, (name, score) in enumerate(scores.items(), start=1)
    )
    (HERE / "demo.run").write_text(text.removesuffix("\n"), "utf-8")
    (HERE / "qrels.txt").write_text(
        "".join(f"{q} 0 {d}\t{g}\n" for q, items in qrels.items() for d, g in items.items()), "utf-8"
    )
    found = pytrec_eval.RelevanceEvaluator(qrels, {"recip_rank", "success"}).evaluate(run)
    return {f"recip_rank of {query}": values["recip_rank"] for query, values in found.items()}


def ranx() -> dict[str, float]:
    from ranx import Qrels, Run, evaluate

    run = Run({one["id"]: dict(one["hits"]) for one in LABELLED}, name="demo")
    qrels = Qrels({one["id"]: dict.fromkeys(one["expected"], 1) for one in LABELLED})
    for ending in ("json", "lz4", "parquet"):
        run.save(str(HERE / f"ranx.{ending}"))
    qrels.save(str(HERE / "ranx-qrels.json"))
    return {"mrr": float(evaluate(qrels, run, "mrr"))}


def beir() -> dict[str, float]:
    lines("beir/corpus.jsonl", ({"_id": name, "title": "", "text": text} for name, text in TEXTS.items()))
    lines("beir/queries.jsonl", ({"_id": one["id"], "text": one["question"]} for one in QUERIES))
    rows = [f"{one['id']}\t{name}\t1" for one in QUERIES for name in one["expected"]]
    (HERE / "beir" / "qrels").mkdir(exist_ok=True)
    (HERE / "beir" / "qrels" / "test.tsv").write_text(
        "\n".join(["query-id\tcorpus-id\tscore", *rows]) + "\n", "utf-8"
    )
    return {}


def ragas() -> dict[str, float]:
    from ragas import EvaluationDataset, SingleTurnSample, evaluate
    from ragas.metrics import ExactMatch, IDBasedContextRecall

    samples = [
        SingleTurnSample(
            user_input=one["question"],
            retrieved_contexts=[TEXTS[name] for name, _ in one["hits"]],
            retrieved_context_ids=[name for name, _ in one["hits"]],
            reference_context_ids=one["expected"],
            reference_contexts=[TEXTS[name] for name in one["expected"]],
            response=one["answer"],
            reference=one["reference"],
        )
        for one in LABELLED
    ]
    dataset = EvaluationDataset(samples=samples)
    dataset.to_jsonl(str(HERE / "ragas-dataset.jsonl"))
    result = evaluate(dataset, metrics=[ExactMatch(), IDBasedContextRecall()], show_progress=False)
    result.to_pandas().to_csv(HERE / "ragas-results.csv", index=False)
    return {name: sum(row[name] for row in result.scores) / len(result.scores) for name in result.scores[0]}


def inspect() -> dict[str, float]:
    os.environ["INSPECT_LOG_FORMAT"] = "eval"
    from inspect_ai import Task, task
    from inspect_ai import eval as run_eval
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.model import ModelOutput
    from inspect_ai.scorer import Score, accuracy, mean, scorer
    from inspect_ai.solver import solver

    by_id = {one["id"]: one for one in QUERIES}

    @solver
    def answering():
        async def solve(state, generate):
            one = by_id[state.sample_id]
            state.metadata["retrieved"] = [
                {"chunk_id": n, "score": s, "text": TEXTS[n]} for n, s in one["hits"]
            ]
            if one.get("error"):
                raise RuntimeError(one["error"])
            state.output = ModelOutput.from_content("mockllm/model", one["answer"])
            return state

        return solve

    @scorer(metrics=[accuracy()])
    def graded():
        async def score(state, target):
            one = by_id[state.sample_id]
            return Score(value="C" if one["answer"] == one["reference"] else "P" if one["hits"] else "I")

        return score

    @scorer(metrics={"rr": [mean()]})
    def retrieval():
        async def score(state, target):
            one = by_id[state.sample_id]
            return Score(value={"rr": rr(one) if one["expected"] else float("nan")})

        return score

    @task
    def demo():
        samples = [
            Sample(
                id=one["id"],
                input=one["question"],
                target=one["reference"] or "-",
                metadata={"expected_chunk_ids": one["expected"]},
            )
            for one in QUERIES
        ]
        return Task(
            dataset=MemoryDataset(samples, name="demo"),
            solver=answering(),
            scorer=[graded(), retrieval()],
            epochs=2,
        )

    with tempfile.TemporaryDirectory() as folder:
        (log,) = run_eval(demo(), model="mockllm/model", log_dir=folder, fail_on_error=False, display="none")
        from inspect_ai.log import EvalLog, read_eval_log, write_eval_log

        text = read_eval_log(log.location).model_dump_json()
        whole = EvalLog.model_validate_json(without_places(text))
        write_eval_log(whole, str(HERE / "inspect.eval"))
        for sample in whole.samples:
            sample.events = []
        write_eval_log(whole, str(HERE / "inspect.json"))
    return {
        f"{one.scorer}.{one.name}": metric.value
        for one in log.results.scores
        for metric in one.metrics.values()
    }


def deepeval() -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"DEEPEVAL_RESULTS_FOLDER": folder, "DEEPEVAL_TELEMETRY_OPT_OUT": "YES"}
        from deepeval import evaluate
        from deepeval.evaluate import DisplayConfig
        from deepeval.metrics import BaseMetric
        from deepeval.test_case import LLMTestCase

        class Exact(BaseMetric):
            threshold = 0.5
            async_mode = False

            def measure(self, case, *_, **__):
                if "휴가" in case.input:
                    raise ValueError("no words of mine")
                self.score = float(case.actual_output == case.expected_output)
                self.success = self.score >= self.threshold
                return self.score

            async def a_measure(self, case, *_, **__):
                return self.measure(case)

            def is_successful(self):
                return self.success

            @property
            def __name__(self):
                return "Exact, in words"

        cases = [
            LLMTestCase(
                name=one["id"],
                input=one["question"],
                actual_output=one["answer"],
                expected_output=one["reference"],
                retrieval_context=[TEXTS[name] for name, _ in one["hits"]],
                context=[TEXTS[name] for name in one["expected"]],
                completion_time=0.25,
            )
            for one in LABELLED
        ]
        from deepeval.evaluate import ErrorConfig

        evaluate(
            cases,
            [Exact()],
            error_config=ErrorConfig(ignore_errors=True),
            display_config=DisplayConfig(print_results=False),
        )
        path = max(
            (one for one in Path(folder).rglob("*") if one.is_file()), key=lambda one: one.stat().st_size
        )
        shutil.copyfile(path, HERE / "deepeval.json")
        (printed,) = json.loads(path.read_text("utf-8"))["metricsScores"]
    return {printed["metric"]: sum(printed["scores"]) / len(printed["scores"])}


def llamaindex() -> dict[str, float]:
    from llama_index.core.evaluation import RetrievalEvalResult, resolve_metrics

    metrics = [one() for one in resolve_metrics(["mrr", "recall"])]
    found = []
    for one in LABELLED:
        ids = [name for name, _ in one["hits"]]
        computed = {m.metric_name: m.compute(one["question"], one["expected"], ids, [], []) for m in metrics}
        found.append(
            RetrievalEvalResult(
                query=one["question"],
                expected_ids=one["expected"],
                retrieved_ids=ids,
                retrieved_texts=[TEXTS[name] for name in ids],
                metric_dict=computed,
            )
        )
    lines("llamaindex.jsonl", (one.model_dump() for one in found))
    return {
        m.metric_name: sum(one.metric_dict[m.metric_name].score for one in found) / len(found)
        for m in metrics
    }


def langsmith() -> dict[str, float]:
    os.environ |= {
        "LANGSMITH_TRACING": "false",
        "LANGSMITH_ENDPOINT": "http://127.0.0.1:9",
        "LANGSMITH_API_KEY": "none",
    }
    import datetime as dt
    import uuid

    from langsmith import Client, evaluate
    from langsmith.schemas import Example

    by_question = {one["question"]: one for one in QUERIES}
    made = dt.datetime(2026, 10, 1, tzinfo=dt.UTC)
    dataset = uuid.uuid5(uuid.NAMESPACE_DNS, "demo")
    examples = [
        Example(
            id=uuid.uuid5(dataset, one["id"]),
            dataset_id=dataset,
            inputs={"question": one["question"]},
            outputs={"answer": one["reference"], "expected_chunk_ids": one["expected"]},
            metadata={"query_id": one["id"]},
            created_at=made,
            modified_at=made,
        )
        for one in QUERIES
    ]

    def target(inputs):
        one = by_question[inputs["question"]]
        if one.get("error"):
            raise TimeoutError(one["error"])
        return {"answer": one["answer"], "retrieved": [name for name, _ in one["hits"]]}

    def reciprocal(inputs, outputs, reference_outputs):
        one = by_question[inputs["question"]]
        return {"key": "rr", "score": rr(one) if one["expected"] and not one.get("error") else None}

    found = evaluate(
        target,
        data=examples,
        evaluators=[reciprocal],
        client=Client(),
        upload_results=False,
        max_concurrency=0,
    )
    rows = [
        {
            "run": row["run"].dict(),
            "example": row["example"].dict(),
            "evaluation_results": [one.dict() for one in row["evaluation_results"]["results"]],
        }
        for row in found
    ]
    lines("langsmith.jsonl", rows)
    frame = found.to_pandas()
    return {"rr": float(frame["feedback.rr"].astype(float).mean())}


def mlflow() -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        import mlflow as flow
        from mlflow.entities import Document
        from mlflow.genai import scorer

        flow.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")
        flow.set_experiment("demo")
        by_question = {one["question"]: one for one in QUERIES}

        @flow.trace(span_type="RETRIEVER")
        def retrieve(question):
            return [
                Document(page_content=TEXTS[n], metadata={"score": s}, id=n)
                for n, s in by_question[question]["hits"]
            ]

        @flow.trace(span_type="CHAIN")
        def predict(question):
            one = by_question[question]
            flow.update_current_trace(tags={"query_id": one["id"]})
            retrieve(question)
            if one.get("error"):
                raise TimeoutError(one["error"])
            # Longer than what a preview holds.
            return {"text": one["answer"] + " " * 1200 + "."}

        @scorer
        def words(outputs, expectations):
            if outputs is None:
                raise ValueError("nothing to score")
            return len(outputs["text"].split())

        @scorer
        def is_right(outputs, expectations):
            return "yes" if outputs and expectations["expected_response"] in outputs["text"] else "no"

        data = [
            {
                "inputs": {"question": one["question"]},
                "expectations": {
                    "expected_response": one["reference"] or "-",
                    "expected_chunk_ids": one["expected"],
                },
            }
            for one in QUERIES
        ]
        found = flow.genai.evaluate(data=data, predict_fn=predict, scorers=[words, is_right])
        frame = found.result_df.drop(columns=[name for name in ("trace", "spans") if name in found.result_df])
        document("mlflow.json", json.loads(frame.to_json(orient="split", default_handler=str)))
        traces = flow.search_traces(return_type="list")
        lines("mlflow-traces.jsonl", (one.to_dict() for one in traces))
        return {name.removesuffix("/mean"): value for name, value in found.metrics.items()}


def otlp() -> dict[str, float]:
    from google.protobuf.json_format import MessageToDict
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    from opentelemetry.trace import Status, StatusCode

    kept = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    tracer = provider.get_tracer("demo")
    begin = 1_793_494_800_000_000_000
    for one in QUERIES:
        root = tracer.start_span(
            "query",
            start_time=begin,
            attributes={"openinference.span.kind": "CHAIN", "input.value": one["question"]},
        )
        root.set_attribute("metadata", json.dumps({"query_id": one["id"]}))
        from opentelemetry.trace import set_span_in_context

        inside = set_span_in_context(root)
        # The reranker turns the order of the retriever round.
        for kind, name, hits in (
            ("RETRIEVER", "retrieval.documents", one["hits"][::-1]),
            ("RERANKER", "reranker.output_documents", one["hits"]),
        ):
            span = tracer.start_span(kind.lower(), context=inside, start_time=begin + 1)
            span.set_attribute("openinference.span.kind", kind)
            for place, (chunk, score) in enumerate(hits):
                span.set_attribute(f"{name}.{place}.document.id", chunk)
                span.set_attribute(f"{name}.{place}.document.score", score)
            span.end(end_time=begin + 5_000_000)
        if one.get("error"):
            root.set_status(Status(StatusCode.ERROR, one["error"]))
        else:
            root.set_attribute("output.value", one["answer"])
            root.set_attribute("evaluations.0.evaluation.name", "length")
            root.set_attribute("evaluations.0.evaluation.score", float(len(one["answer"])))
        root.end(end_time=begin + 250_000_000)
    requests = []
    for span in kept.get_finished_spans():
        found = MessageToDict(encode_spans([span]))
        for inner in found["resourceSpans"][0]["scopeSpans"][0]["spans"]:
            context = span.get_span_context()
            # OTLP/JSON has ids in hex, where protobuf's own JSON has base64.
            inner["traceId"], inner["spanId"] = f"{context.trace_id:032x}", f"{context.span_id:016x}"
            if span.parent is not None:
                inner["parentSpanId"] = f"{span.parent.span_id:016x}"
        requests.append(found)
    lines("otlp.jsonl", requests)
    return {}


def promptfoo() -> dict[str, float]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "provider.js").write_text(
            "const known = " + json.dumps({one["question"]: one for one in QUERIES}) + ";\n"
            "module.exports = class { constructor(o) { this.label = (o.config || {}).name || 'demo'; } id() { return 'demo:' + this.label; }\n"
            "  async callApi(prompt, context) { const one = known[context.vars.question];\n"
            "    if (one.error) return { error: one.error };\n"
            "    return { output: one.answer, metadata: { retrieved: one.hits.map(h => h[0]) } }; } };\n",
            "utf-8",
        )
        config = {
            "prompts": ["Say: {{question}}"],
            "providers": [
                {"id": f"file://{folder}/provider.js", "label": label, "config": {"name": label}}
                for label in ("small", "large")
            ],
            "tests": [
                {
                    "vars": {"question": one["question"], "expected_chunk_ids": one["expected"]},
                    "metadata": {"query_id": one["id"]},
                    "options": {"disableVarExpansion": True},
                    "assert": [{"type": "contains", "value": one["reference"] or "know", "metric": "said"}],
                }
                for one in QUERIES
            ],
        }
        (folder / "promptfooconfig.json").write_text(json.dumps(config), "utf-8")
        out = HERE / "promptfoo.json"
        environment = os.environ | {
            "PROMPTFOO_DISABLE_TELEMETRY": "1",
            "PROMPTFOO_DISABLE_UPDATE": "1",
            "PROMPTFOO_CONFIG_DIR": name,
        }
        command = [
            "npx",
            "--yes",
            "promptfoo@0.121.20",
            "eval",
            "-c",
            "promptfooconfig.json",
            "--no-cache",
            "--repeat",
            "2",
        ]
        subprocess.run(
            [*command, "-o", str(out), "-o", str(out) + "l"], cwd=folder, env=environment, check=False
        )
        results = json.loads(out.read_text("utf-8"))["results"]
    return {f"said of {one['provider']}": one["metrics"]["namedScores"]["said"] for one in results["prompts"]}


def langfuse() -> dict[str, float]:
    observations: list[dict[str, Any]] = []
    scores: list[dict[str, Any]] = []
    for number, one in enumerate(QUERIES):
        trace, root = f"t{number}", f"o{number}"
        times = {
            "start_time": f"2026-11-01 02:0{number}:00.000000",
            "end_time": f"2026-11-01 02:0{number}:00.250000",
        }
        failed = (
            {"level": "ERROR", "status_message": one["error"]} if one.get("error") else {"level": "DEFAULT"}
        )
        observations.append(
            {
                "id": root,
                "trace_id": trace,
                "type": "CHAIN",
                "parent_observation_id": "",
                **times,
                **failed,
                "latency": 250,
            }
            | {
                "metadata": {"query_id": one["id"]},
                "input": json.dumps({"question": one["question"]}),
                "output": one.get("answer", ""),
            }
        )
        documents = [{"id": name, "score": score, "content": TEXTS[name]} for name, score in one["hits"]]
        observations.append(
            {
                "id": f"r{number}",
                "trace_id": trace,
                "type": "RETRIEVER",
                "parent_observation_id": root,
                **times,
                "level": "DEFAULT",
            }
            | {"input": one["question"], "output": json.dumps(documents)}
        )
        about = {"trace_id": trace, "observation_id": root, "source": "EVAL", "comment": "fixed"}
        scores.append(
            {
                "id": f"s{number}",
                **about,
                "name": "rr",
                "data_type": "NUMERIC",
                "value": rr(one),
                "execution_trace_id": f"e{number}",
            }
        )
        scores.append(
            {
                "id": f"v{number}",
                **about,
                "name": "verdict",
                "data_type": "CATEGORICAL",
                "value": 1,
                "string_value": "good",
            }
        )
        scores.append(
            {
                "id": f"n{number}",
                **about,
                "name": "note",
                "data_type": "TEXT",
                "value": 0,
                "string_value": "looks fine",
            }
        )
    # A row that stands twice, and an evaluation that was written twice under two ids.
    lines("langfuse/demo/observations_v2/2026-11-01.jsonl", [*observations, observations[0]])
    lines("langfuse/demo/scores/2026-11-01.jsonl", [*scores, {**scores[0], "id": "again"}])
    return {"rr": sum(map(rr, QUERIES)) / len(QUERIES)}


def phoenix() -> dict[str, float]:
    rows = []
    for number, one in enumerate(QUERIES):
        base = {"context.trace_id": f"t{number}", "start_time": "2026-11-01T02:00:00+00:00"}
        failed = (
            {"status_code": "ERROR", "status_message": one["error"]}
            if one.get("error")
            else {"status_code": "OK"}
        )
        rows.append(
            {**base, **failed, "context.span_id": f"a{number}", "parent_id": None, "span_kind": "CHAIN"}
            | {"end_time": "2026-11-01T02:00:00.250000+00:00", "attributes.input.value": one["question"]}
            | {"attributes.output.value": one.get("answer"), "attributes.metadata": {"query_id": one["id"]}}
        )
        documents = [
            {"document.id": n, "document.score": s, "document.content": TEXTS[n]} for n, s in one["hits"]
        ]
        rows.append(
            {
                **base,
                "status_code": "OK",
                "context.span_id": f"b{number}",
                "parent_id": f"a{number}",
                "span_kind": "RETRIEVER",
            }
            | {"end_time": "2026-11-01T02:00:00.100000+00:00", "attributes.retrieval.documents": documents}
        )
    lines("phoenix-spans.jsonl", rows)
    experiment = [
        {
            "example_id": f"example-{one['id']}",
            "repetition_number": repetition,
            "input": {"question": one["question"]},
            "reference_output": {"answer": one["reference"], "expected_chunk_ids": one["expected"]},
            "output": None
            if one.get("error")
            else {"answer": one["answer"], "retrieved": [name for name, _ in one["hits"]]},
            "error": one.get("error"),
            "latency_ms": 250.0,
            "annotations": [{"name": "rr", "score": rr(one), "label": None, "explanation": "by rank"}],
        }
        for repetition in (1, 2)
        for one in QUERIES
    ]
    document("phoenix-experiment.json", experiment)
    return {"rr": sum(map(rr, QUERIES)) / len(QUERIES)}


def autorag() -> dict[str, float]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    (HERE / "autorag").mkdir(exist_ok=True)
    questions = [
        {
            "qid": one["id"],
            "query": one["question"],
            "retrieval_gt": [one["expected"]],
            "generation_gt": [one["reference"]],
        }
        for one in QUERIES
    ]
    pq.write_table(pa.Table.from_pylist(questions), HERE / "autorag" / "qa.parquet")
    corpus = [
        {
            "doc_id": name,
            "contents": text,
            "path": f"{name.split('#')[0]}.md",
            "start_end_idx": [0, len(text) - 1],
        }
        for name, text in TEXTS.items()
    ]
    pq.write_table(pa.Table.from_pylist(corpus), HERE / "autorag" / "corpus.parquet")
    results = [
        {
            **row,
            "retrieved_ids": [n for n, _ in one["hits"]],
            "retrieved_contents": [TEXTS[n] for n, _ in one["hits"]],
        }
        | {"retrieve_scores": [score for _, score in one["hits"]], "retrieval_recall": rr(one)}
        for row, one in zip(questions, QUERIES, strict=True)
    ]
    pq.write_table(pa.Table.from_pylist(results), HERE / "autorag-node.parquet")
    return {"retrieval_recall": sum(map(rr, QUERIES)) / len(QUERIES)}


def kebab() -> dict[str, float]:
    path = HERE / "kb.sqlite"
    path.unlink(missing_ok=True)
    with sqlite3.connect(path) as con:
        con.execute(
            "CREATE TABLE eval_runs (run_id, suite, config_snapshot_json, aggregate_json, commit_hash, created_at)"
        )
        con.execute("CREATE TABLE eval_query_results (run_id, query_id, result_json)")
        snapshot = {
            "chunker_version": "md@1",
            "embedding": {"model": "e5"},
            "llm": {"model_id": "small"},
            "eval_k": 10,
        }
        for run in ("first", "second"):
            con.execute(
                "INSERT INTO eval_runs VALUES (?, 'demo', ?, NULL, 'abc', '2026-11-01T02:00:00Z')",
                [run, json.dumps(snapshot)],
            )
            for one in QUERIES:
                con.execute(
                    "INSERT INTO eval_query_results VALUES (?, ?, ?)", [run, one["id"], json.dumps(_own(one))]
                )
    lines("per_query.jsonl", map(_own, QUERIES))
    return {}


def _own(one: dict[str, Any]) -> dict[str, Any]:
    hits = [
        {
            "rank": rank,
            "chunk_id": name,
            "doc_id": name.split("#")[0],
            "doc_path": f"{name.split('#')[0]}.md",
            "snippet": TEXTS[name],
        }
        | {"heading_path": ["A", "B"], "retrieval": {"fusion_score": score}, "chunker_version": "md@1"}
        for rank, (name, score) in enumerate(one["hits"], start=1)
    ]
    answer = (
        {"answer": one["answer"], "grounded": True, "refusal_reason": None, "citations": []}
        if "answer" in one
        else None
    )
    return {
        "query_id": one["id"],
        "query": one["question"],
        "mode": "hybrid",
        "hits_top_k": hits,
        "answer": answer,
    } | {
        "elapsed_ms": 250,
        "error": one.get("error"),
    }


def without_places(text: str) -> str:
    """The text without the folders of the machine that it was written on."""
    return re.sub(r"(file://)?/(?:tmp|work|root|home|opt|usr)/[^\s\"\\',)]*", "/demo", text)


TOOLS = (
    *(trec, ranx, beir, ragas, inspect, deepeval, llamaindex, langsmith, mlflow, otlp, promptfoo),
    *(langfuse, phoenix, autorag, kebab),
)


if __name__ == "__main__":
    chosen = set(sys.argv[1:])
    kept = HERE / "printed.json"
    printed = json.loads(kept.read_text("utf-8")) if kept.exists() else {}
    for make in TOOLS:
        if not chosen or make.__name__ in chosen:
            printed[make.__name__] = make()
            for path in (*HERE.glob("*.json"), *HERE.glob("*.jsonl")):
                path.write_text(without_places(path.read_text("utf-8")), "utf-8")
            kept.write_text(json.dumps(printed, indent=1, sort_keys=True) + "\n", "utf-8")
