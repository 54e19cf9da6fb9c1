"""A lexical retriever: Okapi BM25 over chunks, with the few switches that the example nights turn."""

# Scores are rounded before they are compared and ties go by chunk id, so that the order is the same on every machine.

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from types import MappingProxyType

from eval_pipeline.demo.chunks import Chunk
from eval_pipeline.demo.words import STOP_WORDS, without_ending, words

SCORE_DECIMALS = 4

# What visitors say and what the handbook says instead.
GLOSSARY: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "backup": ("copies", "copy"),
        "backups": ("copies", "copy"),
        "big": ("main", "primary"),
        "cab": ("taxi",),
        "cleanings": ("washed", "wash"),
        "damp": ("humidity",),
        "late": ("past",),
        "log": ("connecting", "account"),
        "reserve": ("books", "booking"),
        "shut": ("close", "closed"),
        "teacher": ("class", "school"),
        "visit": ("class", "school"),
    }
)


@dataclass(frozen=True)
class RetrieverSettings:
    """`heading_weight` counts each word of the heading path that many times on top of the text."""

    k1: float
    b: float
    heading_weight: int = 0
    drop_stop_words: bool = False
    strip_endings: bool = False
    use_glossary: bool = False


PLAIN = RetrieverSettings(k1=1.6, b=0.9)
TUNED = RetrieverSettings(k1=0.9, b=0.4, heading_weight=1, drop_stop_words=True, strip_endings=True)
WITH_GLOSSARY = replace(TUNED, use_glossary=True)


@dataclass(frozen=True)
class Hit:
    chunk: Chunk
    score: float


@dataclass(frozen=True)
class Index:
    settings: RetrieverSettings
    chunks: tuple[Chunk, ...]
    counts: tuple[Mapping[str, int], ...]
    lengths: tuple[int, ...]
    rarity: Mapping[str, float]
    rarity_of_unseen: float

    @property
    def mean_length(self) -> float:
        return sum(self.lengths) / max(1, len(self.lengths))


def build_index(chunks: Sequence[Chunk], settings: RetrieverSettings) -> Index:
    counts = tuple(_term_counts(chunk, settings) for chunk in chunks)
    document_frequency = Counter(term for count in counts for term in count)
    rarity = {
        term: math.log(1 + (len(chunks) - frequency + 0.5) / (frequency + 0.5))
        for term, frequency in document_frequency.items()
    }
    lengths = tuple(sum(count.values()) for count in counts)
    return Index(settings, tuple(chunks), counts, lengths, rarity, max(rarity.values(), default=1.0))


def search(index: Index, query: str, *, top_k: int, folders: Sequence[str] | None = None) -> tuple[Hit, ...]:
    """The best chunks with a positive score; `folders` limits the search to what lies below them."""
    wanted = query_terms(query, index.settings)
    hits = [
        Hit(chunk, round(_score(index, number, wanted=wanted), SCORE_DECIMALS))
        for number, chunk in enumerate(index.chunks)
        if folders is None or any(chunk.rel_path.startswith(f"{folder}/") for folder in folders)
    ]
    found = sorted((hit for hit in hits if hit.score > 0), key=lambda hit: (-hit.score, hit.chunk.chunk_id))
    return tuple(found[:top_k])


def query_terms(query: str, settings: RetrieverSettings) -> list[str]:
    """The distinct terms of a query, in order, with those that the glossary adds."""
    spoken = words(query)
    added = [other for word in spoken for other in GLOSSARY.get(word, ())] if settings.use_glossary else []
    return list(dict.fromkeys(index_terms([*spoken, *added], settings)))


def index_terms(spoken: Sequence[str], settings: RetrieverSettings) -> list[str]:
    kept = [word for word in spoken if not (settings.drop_stop_words and word in STOP_WORDS)]
    return [without_ending(word) for word in kept] if settings.strip_endings else kept


def coverage(index: Index, query: str, *, text: str) -> float:
    """The share of the query's weight whose terms occur in a text; terms the corpus has never seen weigh most."""
    wanted = query_terms(query, index.settings)
    present: Set[str] = set(index_terms(words(text), index.settings))
    weights = {term: index.rarity.get(term, index.rarity_of_unseen) for term in wanted}
    total = math.fsum(weights.values())
    found = math.fsum(weight for term, weight in weights.items() if term in present)
    return round(found / total, SCORE_DECIMALS) if total else 0.0


def _term_counts(chunk: Chunk, settings: RetrieverSettings) -> Mapping[str, int]:
    counted = Counter(index_terms(words(chunk.text), settings))
    for term in index_terms(words(chunk.heading_path), settings):
        counted[term] += settings.heading_weight
    return {term: count for term, count in counted.items() if count}


def _score(index: Index, number: int, *, wanted: Sequence[str]) -> float:
    settings, counts = index.settings, index.counts[number]
    norm = settings.k1 * (1 - settings.b + settings.b * index.lengths[number] / index.mean_length)
    return math.fsum(
        index.rarity[term] * counts[term] * (settings.k1 + 1) / (counts[term] + norm)
        for term in wanted
        if term in counts
    )
