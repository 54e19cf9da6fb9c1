"""What a file of another tool costs beside the bundle of the same rows: time of the processors, and peak memory.

python bench/adapters.py [--rows 100000] [--few 10000]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

HITS = 5
ROUNDS = 2
TEXT = "What is owed when a ship lies in the harbour for longer than it said it would, and who is asked to pay it?"


def rows(n: int) -> Iterator[tuple[str, list[str], str]]:
    for number in range(n):
        yield (
            f"q{number}",
            [f"d{(number * 7 + place) % 9973}#{place}" for place in range(HITS)],
            f"{TEXT} ({number})",
        )


def bundle_of(with_answer: bool, **also: Any) -> Callable[[Path, int], Path]:
    def write(folder: Path, n: int) -> Path:
        run = folder / "bundle" / "runs" / "same"
        run.mkdir(parents=True)
        (run / "run.json").write_text('{"run_id": "same", "dataset": "d"}')
        with (run / "results.jsonl").open("w") as file:
            for query, chunks, text in rows(n):
                hits = [
                    {"chunk_id": one, "doc_id": one, "score": 1 - place / 10}
                    for place, one in enumerate(chunks)
                ]
                row: dict[str, Any] = {"query_id": query, "hits_top_k": hits}
                _line(file, row | ({"answer": {"text": text}} if with_answer else {}) | also)
        return folder / "bundle"

    return write


def _line(file: TextIO, row: Any) -> None:
    file.write(json.dumps(row) + "\n")


def trec(folder: Path, n: int) -> Path:
    path = folder / "same.run"
    with path.open("w") as file:
        for query, chunks, _ in rows(n):
            for place, one in enumerate(chunks):
                file.write(f"{query} Q0 {one} {place + 1} {1 - place / 10} tag\n")
    return path


def ragas(folder: Path, n: int) -> Path:
    path = folder / "same.jsonl"
    with path.open("w") as file:
        for query, chunks, text in rows(n):
            _line(file, {"user_input": f"{query}?", "retrieved_context_ids": chunks, "response": text})
    return path


def promptfoo(folder: Path, n: int) -> Path:
    path = folder / "same.json"
    with path.open("w") as file:
        file.write(
            '{"evalId": "e", "results": {"version": 3, "timestamp": "2026-11-01T00:00:00Z", "results": [\n'
        )
        for number, (query, chunks, text) in enumerate(rows(n)):
            metadata = {"hits": [{"chunk_id": one} for one in chunks]}
            row = {
                "id": query,
                "promptIdx": 0,
                "testIdx": number,
                "vars": {"query_id": query, "question": f"{query}?"},
                "provider": {"id": "p"},
                "response": {"output": text, "metadata": metadata},
                "success": True,
                "score": 1,
                "failureReason": 0,
                "latencyMs": 5,
                "namedScores": {},
            }
            file.write((",\n" if number else "") + json.dumps(row))
        file.write('\n], "prompts": [], "stats": {}}, "config": {}}\n')
    return path


def table(folder: Path, n: int) -> Path:
    import csv

    path = folder / "same.csv"
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["query_id", "retrieved_ids", "answer"])
        for query, chunks, text in rows(n):
            out.writerow([query, json.dumps(chunks), text])
    return path


def inspect(folder: Path, n: int) -> Path:
    import zipfile

    path = folder / "same.eval"
    header = {"status": "success", "eval": {"task": "t", "model": "m", "dataset": {"name": "d"}}}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps(header))
        for query, chunks, text in rows(n):
            sample = {
                "id": query,
                "epoch": 1,
                "input": f"{query}?",
                "target": "",
                "output": {"completion": text},
                "scores": {"right": {"value": 1}},
                "metadata": {"retrieved": chunks},
                "total_time": 0.005,
            }
            archive.writestr(f"samples/{query}_epoch_1.json", json.dumps(sample))
    return path


def mlflow(folder: Path, n: int) -> Path:
    path = folder / "same.json"
    columns = ["trace_id", "right/value", "request", "response", "state", "execution_duration", "tags"]
    with path.open("w") as file:
        file.write(json.dumps({"columns": columns})[:-1] + ', "data": [\n')
        for number, (query, chunks, text) in enumerate(rows(n)):
            answer = {"answer": text, "retrieved": chunks}
            cells = [f"t{query}", 1, {"question": f"{query}?"}, answer, "OK", 5, {"query_id": query}]
            file.write((",\n" if number else "") + json.dumps(cells))
        file.write("\n]}\n")
    return path


def otlp(folder: Path, n: int) -> Path:
    path = folder / "same.jsonl"
    with path.open("w") as file:
        for number, (query, chunks, text) in enumerate(rows(n)):
            trace, begin = f"{number:032x}", 1_700_000_000_000_000_000 + number * 1_000_000_000
            root = {
                "openinference.span.kind": "CHAIN",
                "input.value": f"{query}?",
                "output.value": text,
                "metadata": json.dumps({"query_id": query}),
            }
            found = {"openinference.span.kind": "RETRIEVER"}
            found |= {f"retrieval.documents.{at}.document.id": one for at, one in enumerate(chunks)}
            spans = [
                {
                    "traceId": trace,
                    "spanId": f"{number:08x}{place:08x}",
                    "parentSpanId": f"{number:08x}{0:08x}" if place else "",
                    "startTimeUnixNano": str(begin),
                    "endTimeUnixNano": str(begin + 5_000_000),
                    "attributes": [{"key": key, "value": {"stringValue": one}} for key, one in said.items()],
                }
                for place, said in enumerate((root, found))
            ]
            _line(file, {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]})
    return path


def langfuse(folder: Path, n: int) -> Path:
    (folder / "export" / "observations_v2").mkdir(parents=True)
    (folder / "export" / "scores").mkdir()
    with (
        (folder / "export" / "observations_v2" / "1.jsonl").open("w") as observed,
        (folder / "export" / "scores" / "1.jsonl").open("w") as scored,
    ):
        for query, chunks, text in rows(n):
            both = {"trace_id": f"t{query}", "start_time": "2026-11-01 02:00:00.000000"}
            both |= {"end_time": "2026-11-01 02:00:00.005000", "level": "DEFAULT", "name": "n"}
            root = {"id": f"r{query}", "type": "SPAN", "parent_observation_id": "", "input": f"{query}?"}
            root |= {"output": text, "metadata": {"query_id": query}}
            found = {"id": f"f{query}", "type": "RETRIEVER", "parent_observation_id": root["id"]}
            _line(observed, both | root)
            _line(observed, both | found | {"output": json.dumps(chunks)})
            score = {"id": f"s{query}", "trace_id": f"t{query}", "name": "right", "value": 1}
            _line(scored, score | {"data_type": "NUMERIC", "source": "EVAL"})
    return folder / "export"


# Each form, and the bundle of the same rows.
Form = Callable[[Path, int], Path]
SCORED = bundle_of(with_answer=True, latency_ms={"total": 5}, scores={"right": 1})
FORMS: dict[str, tuple[Form, Form]] = {
    "trec": (trec, bundle_of(with_answer=False)),
    "ragas": (ragas, bundle_of(with_answer=True)),
    "promptfoo": (
        promptfoo,
        bundle_of(with_answer=True, latency_ms={"total": 5}, scores={"score": 1, "success": True}),
    ),
    "table": (table, bundle_of(with_answer=True)),
    "inspect": (inspect, SCORED),
    "mlflow": (mlflow, SCORED),
    "otlp": (otlp, bundle_of(with_answer=True, latency_ms={"total": 5, "retrieval": 5})),
    "langfuse": (
        langfuse,
        bundle_of(with_answer=True, latency_ms={"total": 5, "retrieval": 5}, scores={"right": 1}),
    ),
}


def cost(path: Path, folder: Path) -> tuple[float, int]:
    """Seconds of the processors and bytes of one load into a store of its own."""
    code = (
        "import resource, sys\nfrom eval_pipeline.cli.main import main\n"
        "try:\n    main(sys.argv[1:])\nexcept SystemExit as left:\n    assert left.code == 0, left.code\n"
        "used = resource.getrusage(resource.RUSAGE_SELF)\n"
        "print(used.ru_utime + used.ru_stime, used.ru_maxrss * 1024)"
    )
    words = ["load", str(path), *([] if path.name == "bundle" else ["--dataset", "d"])]
    environment = {**os.environ, "EVAL_PIPELINE_DB": str(folder / "e.duckdb")}
    done = subprocess.run(
        [sys.executable, "-c", code, *words], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    seconds, size = done.stdout.splitlines()[-1].split()
    return float(seconds), int(size)


def measure(forms: Sequence[Callable[[Path, int], Path]], n: int) -> list[tuple[float, int]]:
    """Of each form the least of several rounds, in turns: what else the machine does falls on all of them."""
    found: list[list[tuple[float, int]]] = [[] for _ in forms]
    for _ in range(ROUNDS):
        for form, costs in zip(forms, found, strict=True):
            with tempfile.TemporaryDirectory() as folder:
                costs.append(cost(form(Path(folder), n), Path(folder)))
    return [(min(seconds for seconds, _ in one), min(size for _, size in one)) for one in found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--few", type=int, default=10_000)
    parser.add_argument("--form", choices=FORMS, action="append")
    chosen = parser.parse_args()
    table = []
    for name in chosen.form or FORMS:
        write, as_bundle = FORMS[name]
        (seconds, size), (own, own_size) = measure((write, as_bundle), chosen.rows)
        ((_, few),) = measure((write,), chosen.few)
        table.append(
            {
                "form": name,
                "seconds": round(seconds, 2),
                "bundle": round(own, 2),
                "ratio": round(seconds / own, 2),
                "MiB": size >> 20,
                f"MiB of {chosen.few:,} rows": few >> 20,
                "MiB of the bundle": own_size >> 20,
            }
        )
        print(json.dumps(table[-1]), flush=True)
    results = Path(__file__).parent / "results"
    results.mkdir(exist_ok=True)
    (results / "adapters.json").write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
