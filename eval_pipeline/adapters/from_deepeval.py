"""deepeval: test runs as DEEPEVAL_RESULTS_FOLDER keeps them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from eval_pipeline.adapters._answers import labels_in
from eval_pipeline.adapters._head import Head
from eval_pipeline.adapters._lines import document_items, skeleton_of
from eval_pipeline.adapters._values import (
    as_id,
    as_number,
    as_text,
    labels_of,
    listed,
    score_of,
    side_by_side,
    text_id,
)
from eval_pipeline.adapters.tool import (
    CERTAIN,
    LabelRow,
    Page,
    Piece,
    ReadOptions,
    ResultRow,
    Row,
    RunSaid,
    Seen,
    Tool,
    Unused,
)

CASES = (("testCases",), ("test_cases",))
IDS = ("retrieved_ids", "retrieval_context_ids", "retrieved_context_ids", "chunk_ids", "ids")


def recognise(head: Head) -> Seen | None:
    """A document with testCases that have an input and metricsData."""
    document = head.document
    cases = (document.get("testCases") or document.get("test_cases")) if isinstance(document, dict) else None
    if not isinstance(cases, list) or not cases or not {"input"} <= cases[0].keys():
        return None
    is_run = {"metricsData", "actualOutput"} & cases[0].keys()
    return Seen(CERTAIN, "a deepeval test run") if is_run else None


def read(path: Path, _options: ReadOptions) -> Iterator[Piece]:
    """A result per test case, its metrics as scores."""
    for number, (_, _, case) in enumerate(
        document_items(path, *CASES, ("conversationalTestCases",)), start=1
    ):
        if not isinstance(case, dict) or as_text(case.get("input")) is None:
            yield Unused("a test case without input")
            continue
        query_id, question = as_id(case.get("name")), case["input"]
        result = {"query_id": query_id, **_result(case)}
        yield LabelRow({"query_id": query_id, "query": question, **_labels(case)}, number)
        yield ResultRow(result, number, question=question)
    document = skeleton_of(path, *CASES, ("conversationalTestCases",), ("metricsScores",))
    settings = document.get("hyperparameters") or {}
    model = as_text(settings.get("model")) if isinstance(settings, dict) else None
    prompt = as_text(settings.get("prompt")) if isinstance(settings, dict) else None
    config = {"llm_model": model, "prompt_version": prompt}
    yield RunSaid({"config": {name: value for name, value in config.items() if value is not None}})


def _hits(case: Row) -> tuple[list[Row] | None, bool]:
    """The hits, and whether a list of ids as long as that of the texts names them."""
    texts = listed(case.get("retrievalContext"))
    metadata = _metadata(case)
    found = (listed(metadata.get(name)) for name in IDS)
    ids = next((one for one in found if one and texts is not None and len(one) == len(texts)), None)
    return side_by_side(ids, texts), ids is not None


def _metadata(case: Row) -> Row:
    found = case.get("metadata") or case.get("additionalMetadata")
    return found if isinstance(found, dict) else {}


def _result(case: Row) -> Row:
    hits, _ = _hits(case)
    found: Row = {} if hits is None else {"hits_top_k": hits}
    if isinstance(case.get("actualOutput"), str):
        found["answer"] = {"text": case["actualOutput"]}
    seconds = as_number(case.get("completionTime"))
    if seconds is not None:
        found["latency_ms"] = {"total": seconds * 1000}
    scores = {
        str(one.get("name")): score_of(
            None if one.get("error") else one.get("score"),
            reason=one.get("error") or one.get("reason"),
            model=one.get("evaluationModel"),
        )
        for one in case.get("metricsData") or []
        if isinstance(one, dict)
    }
    return found | ({"scores": scores} if scores else {})


def _labels(case: Row) -> Row:
    found = labels_in({**_metadata(case), "tags": case.get("tags")})
    if as_text(case.get("expectedOutput")):
        found["reference"] = case["expectedOutput"]
    texts = listed(case.get("context"))
    if texts and "expected_chunk_ids" not in found and not _hits(case)[1]:
        found |= labels_of(map(text_id, texts))
    return found


PAGE = Page(
    title="a deepeval test run",
    file="`test_run.json` in the folder that `DEEPEVAL_RESULTS_FOLDER` names.",
    gives=(
        "hits from `retrievalContext`; their ids from the metadata where it has a list of them "
        "(`retrieved_ids`, `ids` and the like), else a hash of each text",
        "answers, the time of completion, model and prompt of the hyperparameters",
        (
            "labels: the texts of `context`, or `expected_chunk_ids` of the metadata; `expectedOutput` "
            "as the model answer"
        ),
        "every metric as a score; one that failed is unscored and not 0",
    ),
    cannot=(
        "conversations",
        "labels of texts where the hits have ids",
        "cases that were not run: deepeval leaves them out",
    ),
    ids="`name`",
    example="test_run.json",
)
TOOL = Tool("deepeval", PAGE, recognise, read)
