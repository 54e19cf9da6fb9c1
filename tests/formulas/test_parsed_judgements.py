"""What a judge's answer says, whatever it is wrapped in; what is not exactly one fitting object says nothing."""

from __future__ import annotations

import json

import pytest

from eval_pipeline.formulas.polars.facts.judgements import parse_judgement


def chat(content, **choice):
    return json.dumps({"choices": [{"message": {"content": content}, "finish_reason": "stop", **choice}]})


def message(text, stop_reason="end_turn"):
    content = [{"type": "text", "text": text}]
    return json.dumps({"type": "message", "stop_reason": stop_reason, "content": content})


FOUR = '{"score": 4}'


@pytest.mark.parametrize(
    ("raw", "status", "score"),
    [
        (FOUR, "ok", 4),
        (chat(FOUR), "ok", 4),
        (message(FOUR), "ok", 4),
        (chat([{"type": "text", "text": FOUR}]), "ok", 4),
        (chat(f"```json\n{FOUR}\n```"), "repaired", 4),
        (f"The braces {{of prose}} and then {FOUR}.", "repaired", 4),
        (f"{FOUR} as I said: {FOUR}", "repaired", 4),
        (f'{FOUR} or rather {{"score": 3}}', "unparsed", None),
        (f'{FOUR} or rather {{"score": 9}}', "unparsed", None),
        ('{"score": 4, "score": 5}', "unparsed", None),
        ('{"score": "4"}', "unparsed", None),
        ('{"score": true}', "unparsed", None),
        ('{"score": 5.1}', "unparsed", None),
        ('{"score": -0.1}', "unparsed", None),
        ('{"score": NaN}', "unparsed", None),
        ('{"score": 1' + "0" * 400 + "}", "unparsed", None),
        ('{"score": 4, "unsupported_claims": "none"}', "unparsed", None),
        ('{"result": {"score": 4}}', "unparsed", None),
        ("downgrade: 4", "unparsed", None),
        ("", "unparsed", None),
        ("{" * 100_000, "unparsed", None),
        ('{"a":' * 100_000, "unparsed", None),
        (chat('{"score": ', finish_reason="length"), "truncated", None),
        (message('{"sco', "max_tokens"), "truncated", None),
        (message("I will not", "refusal"), "refused", None),
        (json.dumps({"choices": [{"message": {"content": None, "refusal": "No"}}]}), "refused", None),
        (chat("", finish_reason="content_filter"), "filtered", None),
        ('{"error": {"code": "content_filter"}}', "filtered", None),
        ('{"error": {"message": "overloaded"}}', "error", None),
        (None, "error", None),
    ],
)
def test_a_score_is_read_of_every_shape_and_never_guessed(raw, status, score):
    found = parse_judgement("correctness", raw)
    assert (found.status, found.score) == (status, score)


@pytest.mark.parametrize(
    ("ask", "raw", "verdict"),
    [
        ("abstention", '{"abstained": true}', True),
        ("conflict", '{"acknowledged": false}', False),
        ("abstention", '{"abstained": 1}', None),
        ("abstention", FOUR, None),
    ],
)
def test_yes_and_no_are_true_and_false_alone(ask, raw, verdict):
    assert parse_judgement(ask, raw).verdict is verdict


def test_claims_are_texts_or_objects_with_the_contexts_that_they_cite():
    claims = ["one", {"claim": "two", "citations": [2, 1]}, {"claim": "three", "citations": [2]}]
    found = parse_judgement("groundedness", json.dumps({"score": 5, "supported_claims": claims}))
    assert (found.supported, found.unsupported, found.citations) == (("one", "two", "three"), None, (2, 1))
