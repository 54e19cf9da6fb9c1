"""The input contract as types: one place that readers, validation, storage and documentation share."""

# `None` means absent, as `null` does in the files. `JudgeScore` and `Json` are taken as delivered, whatever they are:
# the formulas decide by value what counts.

from __future__ import annotations

from typing import Any, Final

import msgspec

JudgeScore = Any
Json = Any

ID_LENGTH = 1024
# Stands where a text has been; nothing is computed from it.
FORGOTTEN = "(forgotten)"
# The part that says which extraction cases runs should hold.
CASES: Final = "cases"


class Record(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Base of all records."""


class Span(Record):
    """Characters of one document, half-open, in code points."""

    doc_id: str
    start: int
    end: int


class HitSpan(Record):
    """A span of a hit; its document is the hit's own unless it names another."""

    start: int
    end: int
    doc_id: str | None = None


class Support(Record):
    """A passage that an answer needs, named by file and heading."""

    rel_path: str
    heading_path: str | list[str] | None = None
    snippets: list[str] | None = None
    recency: str | None = None


class GoldenRow(Record):
    """One query of a golden set."""

    query_id: str
    query: str | None = None
    lang: str | None = None
    group: str | None = None
    expected_chunk_ids: list[str] | None = None
    expected_doc_ids: list[str] | None = None
    expected_chunk_spans: dict[str, list[Span]] | None = None
    must_contain: list[str] | None = None
    forbidden: list[str] | None = None
    answerable: bool | None = None
    gold_supports: list[Support] | None = None
    required_support_groups: list[list[int]] | None = None
    multi_hop: bool | None = None
    recency_conflict_rule: str | None = None
    ground_truth_spans: list[Span] | None = None
    category: str | None = None
    difficulty: str | None = None
    tags: list[str] | None = None
    vault: str | None = None
    vaults: list[str] | None = None
    folders: list[str] | None = None


# The dimensions that queries are sliced by, in the order in which they are shown.
SLICES: Final = ("tag", "category", "difficulty", "vault", "answerable")


class Hit(Record):
    """One retrieved chunk; its place in the list is its rank."""

    chunk_id: str
    doc_id: str
    rank: float | None = None
    score: float | None = None
    rel_path: str | None = None
    heading_path: str | None = None
    text: str | None = None
    token_count: float | None = None
    source_spans: list[HitSpan] | None = None


class Citation(Record):
    """What an answer cites; null and empty text are stored and resolve to nothing."""

    citation: str | None = None


class Reference(Record):
    """A passage an answer refers to."""

    rel_path: str | None = None
    heading_path: str | None = None
    chunk_id: str | None = None
    text: str | None = None


class Answer(Record):
    """What the system said; `text_withheld`: it said something, and the text is kept back."""

    text: str | None = None
    text_withheld: bool | None = None
    grounded: bool | None = None
    abstained: bool | None = None
    citations: list[Citation] | None = None
    references: list[Reference] | None = None


class GroundednessJudgement(Record):
    score: JudgeScore = None
    supported_claims: list[str] | None = None
    unsupported_claims: list[str] | None = None


class CorrectnessJudgement(Record):
    score: JudgeScore = None
    reasoning: str | None = None


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
    input: Json = None


class Latency(Record):
    """Milliseconds, as recorded."""

    total: float | None = None
    folder_selection: float | None = None
    retrieval: float | None = None
    generation: float | None = None
    judge: float | None = None


class Result(Record):
    """What one run did with one query."""

    query_id: str
    hits_top_k: list[Hit] | None = None
    answer: Answer | None = None
    error: str | None = None
    timed_out: bool | None = None
    folder_mode: str | None = None
    selected_folders: list[str] | None = None
    judge: Judge | None = None
    latency_ms: Latency | None = None


class ArchiveChunk(Record):
    """One chunk of one chunker version."""

    chunk_id: str
    doc_id: str
    source_spans: list[HitSpan] | None = None
    rel_path: str | None = None
    heading_path: str | None = None
    token_count: float | None = None
    text: str | None = None


class JudgeConfig(Record):
    model: str | None = None
    version: str | None = None
    temperature: float | None = None
    prompt_version: str | None = None


class RunConfig(Record):
    """The configuration that a run was made with."""

    chunker_version: str | None = None
    embedding_model: str | None = None
    index_version: str | None = None
    prompt_version: str | None = None
    llm_model: str | None = None
    top_k: int | None = None
    folder_mode: str | None = None
    judge: JudgeConfig | None = None
    judge_price_per_1k: Tokens | None = None


class Run(Record):
    """One evaluation run."""

    run_id: str
    dataset: str
    suite: str | None = None
    created_at: str | None = None
    night: str | None = None
    attempt: int | None = None
    replaces: str | None = None
    replicate_of: str | None = None
    commit_hash: str | None = None
    suite_time_ms: float | None = None
    config: RunConfig | None = None


class Discrepancy(Record):
    """One field that an extraction got wrong."""

    field: str
    error_type: str
    expected: Json = None
    actual: Json = None


class ExtractionCase(Record):
    """One document whose fields were extracted."""

    case_id: str
    ground_truth: dict[str, Any] | None = None
    extracted: dict[str, Any] | None = None
    total_gt_fields: int | None = None
    discrepancies: list[Discrepancy] | None = None
    error: str | None = None


class ExpectedCase(Record):
    """A case that every run of a dataset should hold."""

    case_id: str
    ground_truth: dict[str, Any] | None = None


class IndexedDocument(Record):
    doc_id: str | None = None
    doc_type: str | None = None
    n_chunks: int | None = None


class IndexedChunk(Record):
    doc_id: str | None = None
    chunk_id: str | None = None
    status: str | None = None
    skip_reason: str | None = None
    tokens: float | None = None


class IndexReport(Record):
    """What the indexer did."""

    chunker_version: str | None = None
    embedding_model: str | None = None
    index_version: str | None = None
    docs: list[IndexedDocument] | None = None
    chunks: list[IndexedChunk] | None = None


class Verdict(Record):
    score: JudgeScore = None
    binary: bool | None = None


class SpotCheck(Record):
    """One answer judged twice."""

    query_id: str | None = None
    first: Verdict | None = None
    second: Verdict | None = None
    kind: str | None = None
