"""BEIR: a folder per dataset with corpus, queries and qrels, and what runs found beside them."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from io import StringIO
from typing import Any

from eval_pipeline.exporting._form import HITS, Export, Files, Form, Page, as_lines, as_text
from eval_pipeline.exporting._material import (
    Asked,
    Level,
    Ranking,
    answered,
    asked,
    levels,
    passages,
    ranking,
)
from eval_pipeline.store.runs import RunRow


def files(export: Export) -> Files:
    """The dataset's three files, and a file of scores for every run."""
    con = export.store.con
    for dataset, runs in export.datasets().items():
        questions = asked(con, runs[0])
        level = levels(questions)[0]
        yield f"{dataset}/corpus.jsonl", as_lines(_corpus(export, dataset, runs, level))
        yield f"{dataset}/queries.jsonl", as_lines(_queries(questions.values()))
        yield f"{dataset}/qrels/test.tsv", as_text(_qrels(questions.values(), level))
        for run in runs:
            found = ranking(answered(con, run), level)
            export.remark_of(run, found.repeated, HITS, "left out, because an object has a name once")
            yield f"{dataset}/results/{run.run_id}.json", as_text(_results(found))


def _corpus(export: Export, dataset: str, runs: Sequence[RunRow], level: Level) -> Iterator[dict[str, Any]]:
    empty = several = 0
    for name, title, text, n in passages(export.store.con, runs, level):
        empty += text is None
        several += n > 1
        yield {"_id": name, "title": title or "", "text": text or ""}
    if empty:
        what = "passages" if level == "chunk" else "documents"
        export.remark(
            f"{dataset}: {empty:,} {what} of the corpus have no text, because none is stored of them"
        )
    if several:
        export.remark(
            f"{dataset}: {several:,} passages have several texts; that of the newest archive stands"
        )


def _queries(questions: Sequence[Asked] | Any) -> Iterator[dict[str, Any]]:
    for one in questions:
        yield {"_id": one.query_id, "text": one.text or "", "metadata": dict(one.about)}


def _qrels(questions: Any, level: Level) -> Iterator[str]:
    yield _cells("query-id", "corpus-id", "score")
    for one in questions:
        for name, grade in (one.grades(level) or {}).items():
            yield _cells(one.query_id, name, grade)


def _cells(*values: object) -> str:
    out = StringIO()
    csv.writer(out, delimiter="\t", lineterminator="\n").writerow(values)
    return out.getvalue()


def _results(found: Ranking) -> Iterator[str]:
    """One object, a query a line: BEIR reads it whole, people by lines."""
    lines = [f"{_text(query)}: {_text(dict(rows))}" for query, rows in found.rows.items()]
    yield "{\n" + ",\n".join(lines) + "\n}\n"


def _text(value: str | Mapping[str, float]) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


PAGE = Page(
    title="a BEIR dataset, with results",
    files=(
        (
            "DATASET/corpus.jsonl",
            "`_id`, `title`, `text`: all that the archives of the runs hold, what they found, and what is expected",
        ),
        ("DATASET/queries.jsonl", "`_id`, `text`, and in `metadata` category, difficulty and language"),
        ("DATASET/qrels/test.tsv", "`query-id`, `corpus-id`, `score`; what is expected has 1"),
        ("DATASET/results/RUN_ID.json", "`{query: {id: score}}`, as BEIR's `evaluate` and ranx take it"),
    ),
    carries=(
        "questions, the texts of chunks, and which chunks are expected; of a golden set that labels documents alone, "
        "these",
        "the order of the hits, by scores as in TREC's form; ids of any kind",
    ),
    cannot=(
        "queries without a hit: they have no entry in the results",
        "queries that should be refused: they have no line in the qrels",
        "a chunk retrieved twice",
        "to which document a chunk belongs; answers, errors, times and the numbers of this product",
    ),
    again="eval-pipeline load DATASET/ --chunker NAME && eval-pipeline load DATASET/results/RUN_ID.json "
    "--dataset DATASET --missing empty",
)
FORM = Form("beir", PAGE, files)
