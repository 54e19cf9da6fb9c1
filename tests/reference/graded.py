"""Graded labels of one query and what a list of hits is worth by them, in plain Python."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .rows import Row, labels

Scores = dict[str, float | None]


@dataclass(frozen=True)
class Judged:
    """What is known of the ids: their grades, which are relevant, which have a label, and whether others are unknown."""

    grades: dict[str, int]
    relevant: frozenset[str]
    labelled: frozenset[str]
    is_judged: bool


def judged_of(golden: Row, *, relevant_from: int = 1, setting: str | None = None) -> Judged:
    expected = labels(golden, "expected_chunk_ids")
    grades = golden.get("grades")
    is_judged = grades is not None if setting is None else setting == "judged"
    if grades is None:
        named = {} if golden.get("expected_doc_ids") == [] else dict.fromkeys(expected, 1)
        return Judged(named, frozenset(named), frozenset(expected), is_judged)
    relevant = frozenset(name for name, grade in grades.items() if grade >= relevant_from)
    return Judged(dict(grades), relevant, frozenset(grades) | frozenset(expected), is_judged)


def places(ids: Sequence[str]) -> list[str | None]:
    """An id counts where it stands first; its later places hold nothing."""
    return [None if name in ids[:place] else name for place, name in enumerate(ids)]


def gains_of(gain: str) -> Callable[[int], float]:
    return lambda grade: float(2 ** max(grade, 0) - 1) if gain == "exponential" else float(max(grade, 0))


def dcg(gains: Sequence[float]) -> float:
    return math.fsum(gain / math.log2(place + 2) for place, gain in enumerate(gains))


def ndcg(list_: Sequence[str | None], known: Judged, k: int, gain: str) -> float | None:
    value = gains_of(gain)
    best = sorted((value(grade) for grade in known.grades.values()), reverse=True)
    if not best or best[0] <= 0:
        return None
    got = [0.0 if name is None else value(known.grades.get(name, 0)) for name in list_]
    return dcg(got[:k]) / dcg(best[:k])


def average_precision(found: Sequence[bool], n_relevant: int, k: int) -> float:
    return sum(
        sum(found[:place]) / place for place in range(1, k + 1) if found[place - 1 : place] == [True]
    ) / (n_relevant)


def rank_scores(ids: Sequence[str], known: Judged, ks: Sequence[int], *, gain: str = "linear") -> Scores:
    """Every key that grades decide about, but judged@k."""
    list_ = places(ids)
    found = [name in known.relevant for name in list_]
    n = len(known.relevant)
    scores: Scores = {f"ndcg@{k}": ndcg(list_, known, k, gain) for k in ks}
    scores |= {f"ap@{k}": average_precision(found, n, k) if n else None for k in ks}
    scores["rprec"] = sum(found[:n]) / n if n else None
    scores |= {f"recall@{k}_chunk": sum(found[:k]) / n if n else None for k in ks}
    scores |= {f"precision@{k}_chunk": sum(found[:k]) / k if n else None for k in ks}
    return scores


def judged_shares(ids: Sequence[str], known: Judged, ks: Sequence[int]) -> Scores:
    list_ = places(ids)
    if not known.is_judged or not ids:
        return {f"judged@{k}": None for k in ks}
    return {f"judged@{k}": sum(name in known.labelled for name in list_[:k]) / min(k, len(ids)) for k in ks}


def covers(hit_spans: Sequence[Any], wanted: Any, share: float) -> bool:
    """Whether the characters of one hit hold at least this share of a labelled span."""
    characters = set(range(wanted.start, wanted.end))
    held = {
        place
        for span in hit_spans
        if span.doc_id == wanted.doc_id
        for place in range(max(span.start, wanted.start), min(span.end, wanted.end))
    }
    return bool(characters) and len(held) / len(characters) >= share
