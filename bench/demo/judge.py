"""A simulated judge. No model is asked: scores follow from labels and citations, with a seeded wobble.

It stands in for a language model so that judge metrics, spot checks and their reports have something to show.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench.demo.golden import Question
from eval_pipeline.demo.answers import Answer
from eval_pipeline.demo.chance import draw
from eval_pipeline.demo.retriever import Hit
from eval_pipeline.demo.words import count_words

_WOBBLE_SHARE = 0.12
_LENIENT_SHARE = 0.6
_TOKENS_OF_THE_PROMPT = 420
_TOKENS_PER_WORD = 1.3


@dataclass(frozen=True)
class JudgeSettings:
    """`lenient` often overlooks unsupported claims; `replicate` draws the wobble anew, as a judge asked twice does."""

    version: str
    prompt_version: str = "judge-1"
    lenient: bool = False
    replicate: str = ""


def judge_row(
    question: Question, answer: Answer, *, hits: Sequence[Hit], settings: JudgeSettings
) -> dict[str, Any]:
    """What the judge says about one answer; groundedness only where something was claimed."""
    row: dict[str, Any] = {}
    if not answer.abstained:
        row["groundedness"] = _groundedness(question, answer, settings=settings)
    row["correctness"] = _correctness(question, answer, settings=settings)
    row["abstention"] = {"abstained": answer.abstained}
    if question.rule:
        row["conflict"] = {"acknowledged": answer.acknowledges_conflict}
    row["tokens"] = _tokens(question, answer, hits=hits)
    context = [hit.chunk.text for hit in hits]
    row["input"] = {"question": question.query, "answer": answer.text, "context": context}
    return row


def correctness_score(question: Question, answer: Answer, *, settings: JudgeSettings) -> int:
    """0 to 5 from the labels of a question, less one where the judge wobbles."""
    score = _plain_correctness(question, answer)
    return max(0, score - _wobble("correctness", question, settings=settings))


def _groundedness(question: Question, answer: Answer, *, settings: JudgeSettings) -> dict[str, Any]:
    by_sentence = list(zip(answer.sentences, answer.sources, strict=True))
    supported = [sentence for sentence, chunk in by_sentence if chunk.chunk_id in answer.cited]
    unsupported = [sentence for sentence, chunk in by_sentence if chunk.chunk_id not in answer.cited]
    overlooked = settings.lenient and draw("lenient", question.query_id) < _LENIENT_SHARE
    plain = 5 if overlooked or not unsupported else 3 if supported else 2
    score = max(0, plain - _wobble("groundedness", question, settings=settings))
    return {"score": score, "supported_claims": supported, "unsupported_claims": unsupported}


def _correctness(question: Question, answer: Answer, *, settings: JudgeSettings) -> dict[str, Any]:
    score = correctness_score(question, answer, settings=settings)
    return {"score": score, "reasoning": _reasoning(question, answer)}


def _plain_correctness(question: Question, answer: Answer) -> int:
    if question.refuse:
        return 5 if answer.abstained else 1
    if answer.abstained:
        return 1
    if any(text in answer.text for text in question.forbidden):
        return 2
    if not question.must_contain:
        return 3
    told = sum(text in answer.text for text in question.must_contain) / len(question.must_contain)
    return round(1 + 4 * told)


def _reasoning(question: Question, answer: Answer) -> str:
    if answer.abstained:
        return "Refuses, rightly." if question.refuse else "Refuses although the notes have an answer."
    if question.refuse:
        return "Answers although the notes have nothing on this."
    outdated = [text for text in question.forbidden if text in answer.text]
    missing = [text for text in question.must_contain if text not in answer.text]
    if outdated:
        return f"States what is out of date: {', '.join(outdated)}."
    return f"Leaves out: {', '.join(missing)}." if missing else "Says what was asked."


def _wobble(score_name: str, question: Question, *, settings: JudgeSettings) -> int:
    purpose = (score_name, settings.version, settings.prompt_version, settings.replicate, question.query_id)
    return int(draw(*purpose) < _WOBBLE_SHARE)


def _tokens(question: Question, answer: Answer, *, hits: Sequence[Hit]) -> dict[str, int]:
    context = sum(hit.chunk.token_count for hit in hits)
    read = context + count_words(question.query) + count_words(answer.text)
    return {
        "prompt": _TOKENS_OF_THE_PROMPT + int(read * _TOKENS_PER_WORD),
        "completion": 60 + int(count_words(answer.text) * _TOKENS_PER_WORD),
    }
