"""Extractive answers: the sentences of the hits that cover the question best, or a refusal."""

# The sentences are real; what is simulated is how the prompt versions cite: some cite nothing, some invent a chunk id.

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from eval_pipeline.demo.chance import draw
from eval_pipeline.demo.chunks import Chunk
from eval_pipeline.demo.retriever import SCORE_DECIMALS, Hit, Index, coverage
from eval_pipeline.demo.words import STOP_WORDS, sentences, without_ending, words

REFUSAL = "The notes do not say."
OLDER_NOTE_DIFFERS = "An older note says otherwise."
_WORTH_OF_HEADING = 0.5
_WORTH_OF_RANK = 0.02
_NEAR_THE_BEST = 0.6
_SUBHEADING = " > "
_YEAR = re.compile(r"\b20\d\d\b")


@dataclass(frozen=True)
class PromptVersion:
    """How one version of the prompt answers; shares are of the answers."""

    hits_read: int
    most_sentences: int
    refuse_below: float
    says_when_it_abstains: bool
    cites_every_sentence: bool
    share_without_citation: float
    share_with_invented_citation: float
    minds_conflicts: bool


PROMPTS: Mapping[str, PromptVersion] = MappingProxyType(
    {
        "prompt-1": PromptVersion(3, 1, 0.1, False, False, 0.1, 0.08, False),
        "prompt-2": PromptVersion(5, 2, 0.24, True, True, 0.03, 0.04, False),
        "prompt-3": PromptVersion(5, 2, 0.28, True, True, 0.0, 0.0, True),
    }
)


@dataclass(frozen=True)
class Answer:
    sentences: tuple[str, ...]
    sources: tuple[Chunk, ...]
    cited: tuple[str, ...]
    abstained: bool
    acknowledges_conflict: bool

    @property
    def text(self) -> str:
        return REFUSAL if self.abstained else " ".join(self.sentences)


@dataclass(frozen=True)
class _Candidate:
    worth: float
    sentence: str
    chunk: Chunk


def answer_from(
    index: Index, query: str, *, hits: Sequence[Hit], prompt_version: str, years: Mapping[str, int]
) -> Answer:
    """The answer that a prompt version gives to a query; `years` dates the documents that carry a date."""
    prompt = PROMPTS[prompt_version]
    candidates = _candidates(index, query, hits=hits[: prompt.hits_read])
    known = max(
        (_chunk_coverage(index, query, chunk=hit.chunk) for hit in hits[: prompt.hits_read]), default=0.0
    )
    if not candidates or known < prompt.refuse_below:
        return Answer((), (), (), abstained=True, acknowledges_conflict=False)
    older = _older_counterpart(candidates, years) if prompt.minds_conflicts else None
    if older:
        older_document = older.chunk.doc_id
        candidates = [other for other in candidates if other.chunk.doc_id != older_document]
    chosen = _chosen(candidates, prompt.most_sentences)
    sources = [candidate.chunk for candidate in chosen] + ([older.chunk] if older else [])
    spoken = [candidate.sentence for candidate in chosen]
    if older:
        spoken.append(OLDER_NOTE_DIFFERS)
    return Answer(
        sentences=tuple(spoken),
        sources=tuple(sources),
        cited=_citations(query, sources, prompt_version=prompt_version),
        abstained=False,
        acknowledges_conflict=older is not None,
    )


def document_years(chunks: Iterable[Chunk]) -> dict[str, int]:
    """The year of each document that has one: in its title, or in what stands below no heading but the title."""
    openings: dict[str, str] = {}
    for chunk in chunks:
        title, subheading, _ = chunk.heading_path.partition(_SUBHEADING)
        openings[chunk.doc_id] = openings.get(chunk.doc_id, title) if subheading else chunk.text
    found = {doc_id: _YEAR.search(opening) for doc_id, opening in openings.items()}
    return {doc_id: int(match.group()) for doc_id, match in found.items() if match}


def answer_row(answer: Answer, *, prompt_version: str) -> dict[str, Any]:
    """The answer as delivered; the first prompt version says nothing about abstaining."""
    row: dict[str, Any] = {"text": answer.text, "grounded": not answer.abstained}
    if PROMPTS[prompt_version].says_when_it_abstains:
        row["abstained"] = answer.abstained
    row["citations"] = [{"citation": chunk_id} for chunk_id in answer.cited]
    sources = {chunk.chunk_id: chunk for chunk in answer.sources}
    row["references"] = [
        {"rel_path": chunk.rel_path, "heading_path": chunk.heading_path, "chunk_id": chunk.chunk_id}
        for chunk in sources.values()
    ]
    return row


def _candidates(index: Index, query: str, *, hits: Sequence[Hit]) -> list[_Candidate]:
    found = []
    for rank, hit in enumerate(hits):
        heading = coverage(index, query, text=hit.chunk.heading_path)
        for sentence in sentences(hit.chunk.text):
            told = coverage(index, query, text=sentence)
            worth = round(told + _WORTH_OF_HEADING * heading - _WORTH_OF_RANK * rank, SCORE_DECIMALS)
            found.append(_Candidate(worth, sentence, hit.chunk))
    return sorted(found, key=lambda candidate: -candidate.worth)


def _chunk_coverage(index: Index, query: str, *, chunk: Chunk) -> float:
    return coverage(index, query, text=f"{chunk.heading_path}\n{chunk.text}")


def _chosen(candidates: Sequence[_Candidate], most: int) -> list[_Candidate]:
    least = candidates[0].worth * _NEAR_THE_BEST
    distinct = {candidate.sentence: candidate for candidate in reversed(candidates)}
    near = [candidate for candidate in candidates if distinct[candidate.sentence] is candidate]
    return [candidate for candidate in near[:most] if candidate.worth >= least]


def _older_counterpart(candidates: Sequence[_Candidate], years: Mapping[str, int]) -> _Candidate | None:
    """The best sentence of an older note on a subject that a newer note speaks of about as well."""
    least = candidates[0].worth * _NEAR_THE_BEST
    near = [
        candidate for candidate in candidates if candidate.worth >= least and candidate.chunk.doc_id in years
    ]
    for older in near:
        for newer in near:
            dated_before = years[older.chunk.doc_id] < years[newer.chunk.doc_id]
            if dated_before and _same_subject(older.chunk, newer.chunk):
                return older
    return None


def _same_subject(one: Chunk, other: Chunk) -> bool:
    """Two notes in one folder whose titles share a word."""
    same_folder = one.rel_path.rpartition("/")[0] == other.rel_path.rpartition("/")[0]
    return same_folder and not _title_words(one).isdisjoint(_title_words(other))


def _title_words(chunk: Chunk) -> set[str]:
    title = chunk.heading_path.partition(_SUBHEADING)[0]
    return {without_ending(word) for word in words(title) if word not in STOP_WORDS}


def _citations(query: str, sources: Sequence[Chunk], *, prompt_version: str) -> tuple[str, ...]:
    prompt = PROMPTS[prompt_version]
    cited = list(dict.fromkeys(chunk.chunk_id for chunk in sources))
    if not prompt.cites_every_sentence:
        cited = cited[:1]
    chance = draw("citations", prompt_version, query)
    if chance < prompt.share_without_citation:
        return ()
    if chance < prompt.share_without_citation + prompt.share_with_invented_citation:
        return (*cited[:-1], f"{sources[-1].doc_id}#s99")
    return tuple(cited)
