"""promptfoo: the output of an evaluation as JSON (versions 2 and 3) or JSON Lines."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from eval_pipeline.adapters._answers import ANSWERS, answer_in, labels_in, retrieved_in, text_in
from eval_pipeline.adapters._head import Head, look_at
from eval_pipeline.adapters._json_items import Skeleton
from eval_pipeline.adapters._lines import document_items, rows_of
from eval_pipeline.adapters._values import as_id, as_number, as_object, as_text, score_of, utc_text
from eval_pipeline.adapters.tool import (
    CERTAIN,
    LabelRow,
    Page,
    Piece,
    ReadOptions,
    Remark,
    ResultRow,
    Row,
    RunSaid,
    Seen,
    Tool,
)
from eval_pipeline.errors import UsageError
from eval_pipeline.words import count

ROWS = ("results", "results")
DROPPED = (("results", "table"), ("config", "tests"), ("vars",))
ROW_NAMES = {"testIdx", "promptIdx", "gradingResult"}
TABLE_NAMES = {"Status", "Score", "Named Scores", "Grader Reason"}
# What promptfoo calls the tests of a file that do not say what they are called.
_PLACE_IN_FILE = re.compile(r"Row #\d+")
FAILED, REQUIRED, FORBIDDEN = (
    2,
    ("contains", "icontains", "contains-all", "icontains-all"),
    ("not-contains", "not-icontains"),
)
MODEL_ANSWERS = ("equals", "factuality", "model-graded-factuality", "similar")
QUESTIONS = ("question", "query", "user_input", "input", "prompt")
IDS = ("query_id", "id", "qid", "question_id")


def recognise(head: Head) -> Seen | None:
    """results.results with tests and prompts; or such rows a line."""
    if head.kind == "table" and head.columns >= TABLE_NAMES:
        raise UsageError(
            f"{head.path} is the table of promptfoo, whose columns repeat for every prompt and provider: load what "
            "`promptfoo eval --output results.json` (or `.jsonl`) writes"
        )
    if head.kind == "lines":
        is_own = bool(head.rows) and all(
            row.keys() >= ROW_NAMES - {"gradingResult"} and "provider" in row for row in head.rows
        )
        return Seen(CERTAIN, "promptfoo results as JSON Lines") if is_own else None
    results = as_object(as_object(head.document).get("results"))
    rows = results.get("results")
    if not isinstance(rows, list) or not rows or not isinstance(rows[0], dict):
        return None
    if not {"vars", "provider"} <= rows[0].keys() or not rows[0].keys() & {"gradingResult", "success"}:
        return None
    return Seen(CERTAIN, _words(head.path, results.get("version")))


def _words(path: Path, version: Any) -> str:
    """How many tests and providers there are."""
    tests, providers, _ = _overview(path, path.stat().st_mtime_ns)
    return f"promptfoo results v{version}: {count(tests, 'test')} × {count(providers, 'provider')}"


@lru_cache(maxsize=1)
def _overview(path: Path, _changed: int) -> tuple[int, int, Row]:
    """How many tests and providers there are, and what stands around the rows: once through the whole file."""
    kept = Skeleton()
    tests: set[int] = set()
    providers: set[str] = set()
    for row in _rows_of_document(path, kept):
        if isinstance(row, dict):
            tests.add(_test(row))
            providers.add(_provider(row))
    return len(tests), len(providers), kept.document


def _rows_of_document(path: Path, skeleton: Skeleton | None = None) -> Iterator[Any]:
    for place, _, row in document_items(path, ROWS, *DROPPED, skeleton=skeleton):
        if place == ROWS:
            yield row


def read(path: Path, _options: ReadOptions) -> Iterator[Piece]:
    """A result per test; a run per provider and prompt; repeats are replicates."""
    is_lines = look_at(path).kind == "lines"
    header: Row = {} if is_lines else _overview(path, path.stat().st_mtime_ns)[2]
    results = header.get("results") or {}
    labels = _run_labels(results.get("prompts") or [])
    seen: Counter[tuple[Any, ...]] = Counter()
    said: set[str] = set()
    rows = (row for _, row in rows_of(path)) if not header else _rows_of_document(path)
    ungraded = 0
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, dict):
            yield row if isinstance(row, ResultRow) else ResultRow({}, number, reason="a result is an object")
            continue
        run = labels.get((row.get("promptIdx"), _provider(row))) or _run_label(row, header)
        if run not in said:
            said.add(run)
            yield RunSaid(_config(row, results), run)
        key = (_test(row), run)
        seen[key] += 1
        ungraded += _is_ungraded(row)
        yield from _pieces(row, number, run, seen[key])
    if ungraded:
        yield Remark(f"in {count(ungraded, 'row')} a grader failed: its scores are unscored, and not 0")


def _test(row: Row) -> int:
    """What tells tests apart, within this process: repeats of one have numbers of their own."""
    case = as_object(row.get("testCase"))
    return hash(repr((row.get("vars"), case.get("description"), case.get("metadata"), case.get("assert"))))


def _provider(row: Row) -> str:
    provider = row.get("provider")
    if isinstance(provider, Mapping):
        return as_text(provider.get("label")) or str(provider.get("id") or "")
    return str(provider or "")


def _run_label(row: Row, header: Row) -> str:
    return _provider(row) if header else f"{_provider(row)}.p{row.get('promptIdx', 0)}"


def _run_labels(prompts: list[Any]) -> dict[tuple[Any, str], str]:
    """Provider, and the number of the prompt where a provider has several."""
    named = [one for one in prompts if isinstance(one, dict)]
    per = Counter(str(one.get("provider")) for one in named)
    found: dict[tuple[Any, str], str] = {}
    place: Counter[str] = Counter()
    for index, one in enumerate(named):
        provider = str(one.get("provider"))
        place[provider] += 1
        found[(index, provider)] = provider + (f".p{place[provider]}" if per[provider] > 1 else "")
    return found


def _config(row: Row, results: Row) -> Row:
    provider = row.get("provider")
    model = as_text(provider.get("id")) if isinstance(provider, Mapping) else as_text(provider)
    prompts = results.get("prompts") or []
    index = row.get("promptIdx")
    prompt = prompts[index] if isinstance(index, int) and 0 <= index < len(prompts) else {}
    identity = as_text(prompt.get("id")) if isinstance(prompt, Mapping) else None
    config = {"llm_model": model, "prompt_version": identity[:12] if identity else None}
    found = {
        "created_at": utc_text(results.get("timestamp")),
        "config": {k: v for k, v in config.items() if v},
    }
    return {name: value for name, value in found.items() if value}


def _pieces(row: Row, number: int, run: str, epoch: int) -> Iterator[Piece]:
    variables = as_object(row.get("vars"))
    case = as_object(row.get("testCase"))
    metadata = {**(row.get("metadata") or {}), **(case.get("metadata") or {})}
    query_id = next(
        (found for one in (metadata, variables) for name in IDS if (found := as_id(one.get(name)))), None
    )
    question = text_in({k: v for k, v in variables.items() if k in QUESTIONS}, QUESTIONS) or _all_of(
        variables, row
    )
    result: Row = {"query_id": query_id or _described(case), **_result(row, metadata)}
    labels = labels_in({**metadata, **variables}) | _asserted(row, case)
    yield LabelRow({"query_id": result["query_id"], "query": question, **labels}, number)
    yield ResultRow(result, number, run=run, epoch=epoch, question=question)


def _described(case: Row) -> str | None:
    """What somebody called the test; its place in a file is another one's when a test is put before it."""
    description = as_id(case.get("description"))
    return None if description is None or _PLACE_IN_FILE.fullmatch(description) else description


def _all_of(variables: Row, row: Row) -> str | None:
    if variables:
        return json.dumps(variables, ensure_ascii=False, sort_keys=True, default=str)
    prompt = row.get("prompt")
    return as_text(prompt.get("raw")) if isinstance(prompt, Mapping) else as_text(prompt)


def _result(row: Row, metadata: Row) -> Row:
    found: Row = {}
    response = as_object(row.get("response"))
    if row.get("failureReason") == FAILED or (response.get("error") and response.get("output") is None):
        found["error"] = as_text(row.get("error")) or as_text(response.get("error")) or "error"
    else:
        output = response.get("output")
        # No text in the metadata takes the place of an empty output.
        about = {**metadata, **dict.fromkeys(ANSWERS), "answer": output}
        found |= answer_in(about if isinstance(output, str) else output)
        found |= retrieved_in(output) or retrieved_in(response.get("metadata")) or retrieved_in(metadata)
    latency = as_number(row.get("latencyMs"))
    if latency is not None:
        found["latency_ms"] = {"total": latency}
    scores = _scores(row) if "error" not in found else {}
    return found | ({"scores": scores} if scores else {})


def _is_ungraded(row: Row) -> bool:
    return any(_grader_failed(one) for one in [row.get("gradingResult"), *_components(row)])


def _grader_failed(result: Any) -> bool:
    metadata = result.get("metadata") if isinstance(result, Mapping) else None
    return bool(metadata.get("graderError")) if isinstance(metadata, Mapping) else False


def _components(row: Row) -> list[Row]:
    """Every assertion's result, of sets of assertions too."""
    waiting = [row.get("gradingResult")]
    found: list[Row] = []
    while waiting:
        one = waiting.pop()
        inner = one.get("componentResults") if isinstance(one, Mapping) else None
        for result in inner or []:
            if isinstance(result, dict):
                found.append(result)
                waiting.append(result)
    return found


def _scores(row: Row) -> Row:
    """The named scores, and the whole one; what no grader has decided is unscored."""
    failed = {
        str(one["assertion"].get("metric"))
        for one in _components(row)
        if _grader_failed(one) and isinstance(one.get("assertion"), Mapping)
    }
    named = row.get("namedScores")
    found = {
        str(name): score_of(
            None if str(name) in failed else value, reason="grader error" if str(name) in failed else None
        )
        for name, value in (named.items() if isinstance(named, Mapping) else [])
    }
    is_open = bool(failed) or _is_ungraded(row)
    for name in ("score", "success"):
        if row.get(name) is not None and name not in found:
            found[name] = score_of(None if is_open else row[name], reason="grader error" if is_open else None)
    return found


def _asserted(row: Row, case: Row) -> Row:
    """What assertions demand of the answer's words."""
    found: dict[str, Any] = {}
    # Of the same assertion the rendered form stands in the results, the template in the test.
    for one in [*(one.get("assertion") for one in _components(row)), *(case.get("assert") or [])]:
        if not isinstance(one, Mapping):
            continue
        kind, value = one.get("type"), one.get("value")
        texts = [
            text
            for text in (value if isinstance(value, list) else [value])
            if isinstance(text, str) and text.strip() and "{{" not in text
        ]
        name = "must_contain" if kind in REQUIRED else "forbidden" if kind in FORBIDDEN else None
        if name:
            found[name] = list(dict.fromkeys([*found.get(name, []), *texts]))
        elif kind in MODEL_ANSWERS and texts:
            found.setdefault("reference", texts[0])
    return {name: value for name, value in found.items() if value}


PAGE = Page(
    title="promptfoo results",
    file="`promptfoo eval --output results.json` (or `.jsonl`).",
    gives=(
        "a run per provider and prompt; repeats as replicates of the first",
        "answers, times, and hits where the provider returns them as metadata or inside its output "
        "(`retrieved`, `contexts`, `documents`)",
        "`namedScores`, `score` and `success` as scores",
        "labels: `contains` assertions as required texts, `not-contains` as forbidden ones, "
        "`expected_chunk_ids` among the "
        "variables or the metadata, `equals` as the model answer",
    ),
    cannot=(
        "hits that the provider does not return",
        "assertions whose value is a template, as labels",
        "cost: it is not taken over",
        "its table (`.csv`): that is refused",
    ),
    ids=(
        "`query_id` or `id` of the test's metadata or variables, else its description where that "
        "differs (`Row #3`, as promptfoo calls tests by their place, is none), else the golden row with the same "
        "question, else a hash of the question"
    ),
    notes=(
        "Only `failureReason` 2 is an error of the system; a failed assertion is a score.",
        "Where a grader failed, what it should have scored is unscored.",
    ),
    example="results.json",
)
TOOL = Tool("promptfoo", PAGE, recognise, read)
