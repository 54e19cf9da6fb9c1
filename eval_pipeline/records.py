"""The input contract as types: one place that readers, validation, storage and documentation share."""

# `None` means absent, as `null` does in the files. `JudgeScore` and `Json` are taken as delivered, whatever they are:
# the formulas decide by value what counts.

from __future__ import annotations

import typing
from functools import cache
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec

ID_LENGTH = 1024
# Stands where a text has been; nothing is computed from it.
FORGOTTEN = "(forgotten)"
# The part that says which extraction cases runs should hold.
CASES: Final = "cases"


# What was asked, said, retrieved, archived or extracted; what a golden set demands of an answer; what people, judges
# and programs say about it in words of their own.
Kind = Literal["passage", "label", "words"]
KINDS: Final[tuple[Kind, ...]] = typing.get_args(Kind)


class Text(NamedTuple):
    """Declares that a field holds a text, of which kind, the column it is stored in, and what stays without it.

    `mark`: as many marks as there were texts. `fields`: the names of fields. `number`: a number, which is no text.
    `id`: what is known as an id. `word`: a number, and what is one word. `verdict`: what was read of it.
    """

    kind: Kind
    column: str
    stays: Literal["nothing", "mark", "fields", "number", "id", "word", "verdict"] = "nothing"


# Every text of a record is one of these, or declared as a text. Versions, models, times, paths, headings and languages
# are names.
Id = Annotated[str, "id"]
Name = Annotated[str, "name"]

JudgeScore = Annotated[Any, Text("words", "raw.results.judge_scores_delivered", "number")]
SpotScore = Annotated[Any, Text("words", "raw.spot_checks.judge_scores_delivered", "number")]
JudgeInput = Annotated[Any, Text("passage", "raw.results.judge_input_key")]
ScoreValue = Annotated[Any, Text("words", "raw.scores.label", "word")]
RunScoreValue = Annotated[Any, Text("words", "raw.run_scores.label", "word")]
# Who gave a score.
Source = Literal["judge", "human", "code"]
DiscrepantValue = Annotated[Any, Text("passage", "raw.extraction_cases.discrepancies")]
GroundTruth = Annotated[dict[str, Any], Text("passage", "raw.extraction_cases.ground_truth", "fields")]
Extracted = Annotated[dict[str, Any], Text("passage", "raw.extraction_cases.extracted", "fields")]
RequestBody = Annotated[Any, Text("passage", "raw.judge_requests.body_key")]
# The version that a judge says who counts words in common: no model, so that it has neither a model nor a temperature.
LEXICAL_BASELINE: Final = "lexical-baseline-1"
# What became of asking a judge: an answer came, none came, it was not asked; with answers taken in without their
# texts what was read of them stands here.
JudgementStatus = Literal[
    "ok", "error", "skipped", "repaired", "unparsed", "truncated", "refused", "filtered"
]
# Why a judge was asked: to score the run, to see how far another agrees, to see whether it is still the same.
Purpose = Literal["main", "spot_check", "canary"]
ExpectedTruth = Annotated[dict[str, Any], Text("passage", "ledger.expected_cases.ground_truth_hash")]


class Record(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Base of all records."""


class Span(Record):
    """Characters of one document, half-open, in code points."""

    doc_id: Id
    start: int
    end: int


class HitSpan(Record):
    """A span of a hit; its document is the hit's own unless it names another."""

    start: int
    end: int
    doc_id: Id | None = None


class Support(Record):
    """A passage that an answer needs, named by file and heading."""

    rel_path: Name
    heading_path: Name | list[Name] | None = None
    snippets: list[Annotated[str, Text("label", "labels.supports.snippets", "mark")]] | None = None
    recency: Name | None = None


class GoldenRow(Record):
    """One query of a golden set."""

    query_id: Id
    query: Annotated[str, Text("passage", "labels.query_details.text_key")] | None = None
    lang: Name | None = None
    group: Name | None = None
    expected_chunk_ids: list[Id] | None = None
    expected_doc_ids: list[Id] | None = None
    expected_chunk_spans: dict[Id, list[Span]] | None = None
    must_contain: list[Annotated[str, Text("label", "labels.strings.text", "mark")]] | None = None
    forbidden: list[Annotated[str, Text("label", "labels.strings.text", "mark")]] | None = None
    answerable: bool | None = None
    gold_supports: list[Support] | None = None
    required_support_groups: list[list[int]] | None = None
    multi_hop: bool | None = None
    recency_conflict_rule: Name | None = None
    ground_truth_spans: list[Span] | None = None
    category: Name | None = None
    difficulty: Name | None = None
    tags: list[Name] | None = None
    vault: Name | None = None
    vaults: list[Name] | None = None
    folders: list[Name] | None = None
    grades: dict[Id, int] | None = None
    reference: Annotated[str, Text("passage", "labels.query_details.reference_key")] | None = None
    chunker_version: Name | None = None

    @property
    def has_labels(self) -> bool:
        """Whether it names anything that hits or answers are compared with."""
        return any(
            (
                self.expected_chunk_ids,
                self.expected_doc_ids,
                self.must_contain,
                self.forbidden,
                self.gold_supports,
                self.ground_truth_spans,
                self.grades,
            )
        )


# The dimensions that queries are sliced by, in the order in which they are shown.
SLICES: Final = ("tag", "category", "difficulty", "vault", "answerable")
# What judges are asked for that is answered by a score of ours.
SCORED_ASKS: Final = ("groundedness", "correctness")


class Hit(Record):
    """One retrieved chunk; its place in the list is its rank."""

    chunk_id: Id
    doc_id: Id
    rank: float | None = None
    score: float | None = None
    rel_path: Name | None = None
    heading_path: Name | None = None
    text: Annotated[str, Text("passage", "raw.hits.text_key")] | None = None
    token_count: float | None = None
    source_spans: list[HitSpan] | None = None


class Citation(Record):
    """What an answer cites: a chunk, or the path of a document; an empty path marks an unrecognized citation.

    Null and empty chunk ids are stored and resolve to nothing.
    """

    citation: Annotated[str, Text("words", "raw.citations.chunk_key", "id")] | None = None
    path: Name | None = None


class Reference(Record):
    """A passage an answer refers to."""

    rel_path: Name | None = None
    heading_path: Name | None = None
    chunk_id: Id | None = None
    text: Annotated[str, Text("passage", "raw.references.text_key")] | None = None


class Answer(Record):
    """What the system said; `text_withheld`: it said something, and the text is kept back."""

    text: Annotated[str, Text("passage", "raw.results.answer_text_key")] | None = None
    text_withheld: bool | None = None
    grounded: bool | None = None
    abstained: bool | None = None
    citations: list[Citation] | None = None
    references: list[Reference] | None = None


class GroundednessJudgement(Record):
    score: JudgeScore = None
    supported_claims: list[Annotated[str, Text("words", "raw.results.supported_claims", "mark")]] | None = (
        None
    )
    unsupported_claims: (
        list[Annotated[str, Text("words", "raw.results.unsupported_claims", "mark")]] | None
    ) = None


class CorrectnessJudgement(Record):
    score: JudgeScore = None
    reasoning: Annotated[str, Text("words", "raw.results.judge_reasoning_key")] | None = None


class AbstentionJudgement(Record):
    abstained: bool | None = None


class ConflictJudgement(Record):
    acknowledged: bool | None = None


class Tokens(Record):
    prompt: float | None = None
    completion: float | None = None


class Judge(Record):
    """What a judge model said of an answer."""

    groundedness: GroundednessJudgement | None = None
    correctness: CorrectnessJudgement | None = None
    abstention: AbstentionJudgement | None = None
    conflict: ConflictJudgement | None = None
    tokens: Tokens | None = None
    input: JudgeInput = None


class Latency(Record):
    """Milliseconds, as recorded."""

    total: float | None = None
    folder_selection: float | None = None
    retrieval: float | None = None
    generation: float | None = None
    judge: float | None = None


class Score(Record):
    """What somebody else's judge, rater or program says of an answer; `label`: in words, beside or without a number."""

    value: ScoreValue = None
    label: Annotated[str, Text("words", "raw.scores.label", "word")] | None = None
    reason: Annotated[str, Text("words", "raw.scores.reason_key")] | None = None
    source: Source | None = None
    model: Name | None = None
    version: Name | None = None


class RunScore(Record):
    """The same of a run as a whole."""

    value: RunScoreValue = None
    label: Annotated[str, Text("words", "raw.run_scores.label", "word")] | None = None
    reason: Annotated[str, Text("words", "raw.run_scores.reason_key")] | None = None
    source: Source | None = None
    model: Name | None = None
    version: Name | None = None


class Result(Record):
    """What one run did with one query."""

    query_id: Id
    hits_top_k: list[Hit] | None = None
    answer: Answer | None = None
    error: Annotated[str, Text("words", "raw.results.error", "mark")] | None = None
    timed_out: bool | None = None
    folder_mode: Name | None = None
    selected_folders: list[Name] | None = None
    judge: Judge | None = None
    latency_ms: Latency | None = None
    scores: dict[Id, Score] | None = None


class ArchiveChunk(Record):
    """One chunk of one chunker version."""

    chunk_id: Id
    doc_id: Id
    source_spans: list[HitSpan] | None = None
    rel_path: Name | None = None
    heading_path: Name | None = None
    token_count: float | None = None
    text: Annotated[str, Text("passage", "raw.archive_chunks.text_key")] | None = None


class JudgeConfig(Record):
    model: Name | None = None
    version: Name | None = None
    temperature: float | None = None
    prompt_version: Name | None = None


class RunConfig(Record):
    """The configuration that a run was made with."""

    chunker_version: Name | None = None
    embedding_model: Name | None = None
    index_version: Name | None = None
    prompt_version: Name | None = None
    llm_model: Name | None = None
    top_k: int | None = None
    folder_mode: Name | None = None
    judge: JudgeConfig | None = None
    judge_price_per_1k: Tokens | None = None


class Run(Record):
    """One evaluation run."""

    run_id: Id
    dataset: Name
    suite: Name | None = None
    created_at: Name | None = None
    night: Name | None = None
    attempt: int | None = None
    replaces: Id | None = None
    replicate_of: Id | None = None
    commit_hash: Name | None = None
    suite_time_ms: float | None = None
    config: RunConfig | None = None
    scores: dict[Id, RunScore] | None = None
    evaluation: Evaluation | None = None


class Discrepancy(Record):
    """One field that an extraction got wrong."""

    field: Name
    error_type: Name
    expected: DiscrepantValue = None
    actual: DiscrepantValue = None


class ExtractionCase(Record):
    """One document whose fields were extracted."""

    case_id: Id
    ground_truth: GroundTruth | None = None
    extracted: Extracted | None = None
    total_gt_fields: int | None = None
    discrepancies: list[Discrepancy] | None = None
    error: Annotated[str, Text("words", "raw.extraction_cases.error", "mark")] | None = None


class ExpectedCase(Record):
    """A case that every run of a dataset should hold."""

    case_id: Id
    ground_truth: ExpectedTruth | None = None


class IndexedDocument(Record):
    doc_id: Id | None = None
    doc_type: Name | None = None
    n_chunks: int | None = None


class IndexedChunk(Record):
    doc_id: Id | None = None
    chunk_id: Id | None = None
    status: Name | None = None
    skip_reason: Name | None = None
    tokens: float | None = None


class IndexReport(Record):
    """What the indexer did."""

    chunker_version: Name | None = None
    embedding_model: Name | None = None
    index_version: Name | None = None
    docs: list[IndexedDocument] | None = None
    chunks: list[IndexedChunk] | None = None


class Verdict(Record):
    score: SpotScore = None
    binary: bool | None = None


class SpotCheck(Record):
    """One answer judged twice."""

    query_id: Id | None = None
    first: Verdict | None = None
    second: Verdict | None = None
    kind: Name | None = None


class Judgement(Record):
    """What a judge was asked of one answer and what it said, as it came.

    `version` and `temperature` are those that it was set up with.
    """

    query_id: Id
    ask: Name
    judge: Name
    request: Id | None = None
    status: JudgementStatus = "ok"
    raw: Annotated[str, Text("words", "raw.judgements.raw_answer", "verdict")] | None = None
    reason: Annotated[str, Text("words", "raw.judgements.reason")] | None = None
    model: Name | None = None
    version: Name | None = None
    temperature: float | None = None
    fingerprint: Name | None = None
    prompt_version: Name | None = None
    season: Name | None = None
    usage: Tokens | None = None
    usd: float | None = None
    latency_ms: float | None = None
    attempts: int | None = None
    from_cache: bool | None = None
    repeat: int | None = None
    purpose: Purpose = "main"


class JudgeRequest(Record):
    """What was sent to a judge, by its hash: enough to ask it again."""

    request: Id
    body: RequestBody = None


class Evaluation(Record):
    """How far an evaluation came that asked the system and the judges itself."""

    run_id: Id | None = None
    state: Literal["complete", "incomplete"] | None = None
    stopped: Name | None = None
    bundle: Name | None = None
    target_calls: int | None = None
    judge_calls: int | None = None
    cached: int | None = None
    failed: int | None = None
    uncertain: int | None = None
    usd: float | None = None
    waited_s: float | None = None


@cache
def texts_of(kind: type[Record]) -> dict[str, Text]:
    """The fields of a record that hold texts, as they are declared."""
    hints = typing.get_type_hints(kind, include_extras=True)
    return {name: text for name, hint in hints.items() for text in _declared_in(hint)}


def _declared_in(hint: Any) -> list[Text]:
    own = [one for one in getattr(hint, "__metadata__", ()) if isinstance(one, Text)]
    return own or [text for part in typing.get_args(hint) for text in _declared_in(part)]


def text_columns_of_records() -> dict[str, Text]:
    """Column of the store → the text that it holds."""
    return {text.column: text for kind in Record.__subclasses__() for text in texts_of(kind).values()}
