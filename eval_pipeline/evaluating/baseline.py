"""The lexical baseline counts words in common: no model, and the least that a judge should beat."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from eval_pipeline.records import LEXICAL_BASELINE

VERSION: Final = LEXICAL_BASELINE.rpartition("-")[2]
_WORD: Final = re.compile(r"\w+")
_SENTENCE: Final = re.compile(r"[^.!?\n]+")
_SHORT: Final = 3
# So much of a sentence has to stand in a context for the context to support it.
_ENOUGH: Final = 0.6
_DECLINING: Final = frozenset(
    ("cannot", "unable", "unknown", "sorry", "unfortunately", "insufficient", "nothing")
)
_NEGATING: Final = frozenset(("not", "no", "don", "doesn", "didn", "isn", "couldn"))
_KNOWING: Final = frozenset(
    ("know", "answer", "find", "found", "information", "mention", "documents", "context", "sources")
)
_DISAGREEING: Final = frozenset(
    (
        *(
            "conflict",
            "conflicts",
            "contradict",
            "contradicts",
            "contradictory",
            "disagree",
            "differ",
            "differs",
        ),
        *(
            "however",
            "whereas",
            "although",
            "newer",
            "older",
            "earlier",
            "previously",
            "outdated",
            "superseded",
        ),
    )
)


def _judge_by_words(body: Mapping[str, Any]) -> dict[str, Any]:
    """The same shape that a judge answers in."""
    ask, answer = body["ask"], str(body["answer"])
    words = set(_words(answer))
    if ask == "abstention":
        declines = bool(words & _DECLINING) or bool(words & _NEGATING and words & _KNOWING)
        return {"abstained": declines}
    if ask == "conflict":
        return {"acknowledged": bool(words & _DISAGREEING)}
    if ask == "groundedness":
        return _groundedness(answer, body["contexts"])
    return {"score": _correctness(answer, body.get("reference"), body["contexts"])}


def _groundedness(answer: str, contexts: Sequence[str]) -> dict[str, Any]:
    supported, unsupported = [], []
    known = [set(_words(one)) for one in contexts]
    for sentence in _SENTENCE.findall(answer):
        words = set(_content(sentence))
        if not words:
            continue
        shares = [len(words & one) / len(words) for one in known]
        best = max(shares, default=0.0)
        if best >= _ENOUGH:
            supported.append({"claim": sentence.strip(), "citations": [shares.index(best) + 1]})
        else:
            unsupported.append(sentence.strip())
    claims = len(supported) + len(unsupported)
    score = round(5 * len(supported) / claims) if claims else 0
    return {"score": score, "supported_claims": supported, "unsupported_claims": unsupported}


def _correctness(answer: str, reference: str | None, contexts: Sequence[str]) -> int:
    """Of the words that are right those that are said, and of those that are said the right ones."""
    said = set(_content(answer))
    right = set(_content(reference if reference is not None else " ".join(contexts)))
    if not said or not right:
        return 0
    common = len(said & right)
    if reference is None:
        return round(5 * common / len(said))
    return round(5 * 2 * common / (len(said) + len(right)))


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


def _content(text: str) -> list[str]:
    """Words that say something: numbers, and what is longer than an article."""
    return [word for word in _words(text) if len(word) > _SHORT or any(one.isdigit() for one in word)]
