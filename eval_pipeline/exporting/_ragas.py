"""ragas: an evaluation dataset of single turns per run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from eval_pipeline.exporting._form import ROWS, Export, Files, Form, Page, as_lines
from eval_pipeline.exporting._material import Answered, Asked, answered, asked
from eval_pipeline.store.runs import RunRow


def files(export: Export) -> Files:
    """A file per run."""
    for _, runs in export.datasets().items():
        questions = asked(export.store.con, runs[0])
        for run in runs:
            yield f"{run.run_id}.jsonl", as_lines(_rows(export, run, questions))


def _rows(export: Export, run: RunRow, questions: Mapping[str, Asked]) -> Iterator[dict[str, Any]]:
    unasked = textless = 0
    for one in answered(export.store.con, run):
        question = questions.get(one.query_id)
        unasked += question is None or question.text is None
        textless += any(hit.text is None for hit in one.hits)
        yield {"query_id": one.query_id, **_sample(one, question)}
    export.remark_of(run, unasked, ROWS, "without a question, because none is stored: ragas needs user_input")
    export.remark_of(
        run, textless, ROWS, "without texts of all hits: these have ids, and no retrieved_contexts"
    )


def _sample(one: Answered, question: Asked | None) -> dict[str, Any]:
    texts = [hit.text for hit in one.hits]
    sample = {
        "user_input": question and question.text,
        "retrieved_contexts": texts if None not in texts else None,
        "retrieved_context_ids": [hit.chunk_id for hit in one.hits],
        "reference_context_ids": question and question.labels().get("expected_chunk_ids"),
        "response": one.answer,
    }
    return {name: value for name, value in sample.items() if value is not None}


PAGE = Page(
    title="a ragas dataset",
    files=(
        (
            "RUN_ID.jsonl",
            "a `SingleTurnSample` a line, for `EvaluationDataset.from_jsonl`; what is not there is left out",
        ),
    ),
    carries=(
        "questions, answers, hits with ids and texts in their order, the expected chunks",
        "`query_id`, an extra column that ragas passes over and `load` reads",
    ),
    cannot=(
        "errors: a failed query is a row without a response",
        "expected documents, and to which document a chunk belongs",
        "queries that should be refused: no expected chunk is read as no label",
        "citations, scores of hits, times, slices and the numbers of this product",
    ),
    again="eval-pipeline load RUN_ID.jsonl --dataset NAME",
)
FORM = Form("ragas", PAGE, files)
