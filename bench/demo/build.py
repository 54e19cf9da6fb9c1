"""Builds the example bundle: `python -m bench.demo.build OUT_DIR`.

The corpus, the chunkers, the retriever, the answers and the labels are real. Simulated, from seeded chance, are the
judge, the citation habits of the prompt versions, latencies, failures and the field extraction. Nothing depends on the
clock or the machine, so that building again gives the same bytes.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from bench.demo.chunkers import BY_HEADING, CHUNKERS, chunk_corpus
from bench.demo.corpus import Document, read_corpus
from bench.demo.golden import Question, golden_row, read_questions, span_row
from bench.demo.listings import extraction_rows
from bench.demo.nights import Night, nights
from bench.demo.reports import DATASET, index_report, run_row, spot_check_rows
from bench.demo.results import build_engine_of, result_rows
from eval_pipeline.demo.chunks import Chunk

GOLDEN_HEADER = """\
# Golden set of the example handbook.
#
# expected_doc_ids: []     an empty list: the corpus has no answer and the system should refuse
# expected_doc_ids absent  (or null): the query is not labelled, and metrics that need the label leave it out
#
# Spans are half-open ranges of code points. expected_chunk_ids name chunks of the chunker version heading-1.
# required_support_groups hold indices into gold_supports; one complete group is enough.
"""


def build_bundle(target: Path) -> None:
    """Writes the whole bundle below a folder; files that are not part of it are left alone."""
    documents = read_corpus()
    questions = read_questions(documents)
    _write_dataset(target / "datasets" / DATASET, documents, questions=questions)
    for night in nights():
        _write_run(target / "runs" / night.run_id, documents, questions=questions, night=night)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.demo.build", description="Builds the example bundle."
    )
    parser.add_argument("out_dir", type=Path, metavar="OUT_DIR", help="folder to write the bundle to")
    build_bundle(parser.parse_args(arguments).out_dir)
    return 0


def _write_dataset(folder: Path, documents: Sequence[Document], *, questions: Sequence[Question]) -> None:
    labelled_chunks = chunk_corpus(documents, BY_HEADING)
    rows = [golden_row(question, labelled_chunks) for question in questions]
    _write_text(folder / "queries.yaml", GOLDEN_HEADER + "\n" + _yaml(rows))
    for chunker_version in CHUNKERS:
        chunks = chunk_corpus(documents, chunker_version)
        lines = _json_lines(_archive_row(chunk) for chunk in chunks)
        _write_text(folder / "inventories" / f"{chunker_version}.jsonl", lines)


def _write_run(
    folder: Path, documents: Sequence[Document], *, questions: Sequence[Question], night: Night
) -> None:
    rows = result_rows(questions, build_engine_of(documents, night), night=night)
    if night.compressed:
        _write_compressed(folder / "results.jsonl.gz", _json_lines(rows))
    else:
        _write_text(folder / "results.jsonl", _json_lines(rows))
    _write_text(folder / "index_report.json", _report_json(index_report(documents, night)))
    if night.with_extractions:
        _write_text(folder / "extractions.jsonl", _json_lines(extraction_rows(night.prompt_version)))
    if night.spot_check:
        checked = spot_check_rows(questions, rows, night=night, kind=night.spot_check)
        _write_text(folder / "judge_spot_check.jsonl", _json_lines(checked))
    _write_text(folder / "run.json", json.dumps(run_row(night, rows), ensure_ascii=False, indent=2) + "\n")


def _archive_row(chunk: Chunk) -> dict[str, Any]:
    return {
        "chunk_id": chunk.chunk_id,
        "doc_id": chunk.doc_id,
        "rel_path": chunk.rel_path,
        "heading_path": chunk.heading_path,
        "source_spans": [span_row(span) for span in chunk.source_spans],
        "token_count": chunk.token_count,
        "text": chunk.text,
    }


def _yaml(rows: Sequence[Mapping[str, Any]]) -> str:
    """One block a row with a blank line between; short lists and spans on one line."""
    dumped = (
        yaml.safe_dump([row], allow_unicode=True, sort_keys=False, default_flow_style=None, width=10_000)
        for row in rows
    )
    return "\n".join(dumped)


def _json_lines(rows: Iterable[Mapping[str, Any]]) -> str:
    return "".join(_one_line(row) + "\n" for row in rows)


def _report_json(report: Mapping[str, Any]) -> str:
    """JSON with one list entry a line."""
    members = []
    for key, value in report.items():
        if isinstance(value, list):
            entries = ",\n    ".join(_one_line(entry) for entry in value)
            members.append(f"  {_one_line(key)}: [\n    {entries}\n  ]")
        else:
            members.append(f"  {_one_line(key)}: {_one_line(value)}")
    return "{\n" + ",\n".join(members) + "\n}\n"


def _one_line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(", ", ": "))


def _write_text(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode("utf-8"))


def _write_compressed(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    packed = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=packed, compresslevel=9, mtime=0) as stream:
        stream.write(text.encode("utf-8"))
    path.write_bytes(packed.getvalue())


if __name__ == "__main__":
    sys.exit(main())
