"""What a judge said: a score that was given, or the reason why there is none; nothing is clipped, guessed or imputed."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval_pipeline.formulas.polars.facts.judgements import parse_judgement


def completed(content, ended="stop", **message):
    return json.dumps({"choices": [{"message": {"content": content, **message}, "finish_reason": ended}]})


def messages(text, ended="end_turn"):
    return json.dumps({"content": [{"type": "text", "text": text}], "stop_reason": ended})


@pytest.mark.parametrize(
    ("raw", "status", "score"),
    [
        ('{"score": 4}', "ok", 4),
        (completed('{"score": 0}'), "ok", 0),
        (completed('{"score": 4.5}'), "ok", 4.5),
        (messages('{"score": 5}'), "ok", 5),
        (completed('```json\n{"score": 4}\n```'), "repaired", 4),
        (completed('I say {"score": 4} and again {"score": 4}.'), "repaired", 4),
        (completed('{"note": 1} so {"score": 2}'), "repaired", 2),
        (completed('{"score": 4} or {"score": 3}'), "unparsed", None),
        (completed('{"score": 4, "score": 5}'), "unparsed", None),
        (completed('{"score": 6}'), "unparsed", None),
        (completed('{"score": -0.1}'), "unparsed", None),
        (completed('{"score": "4"}'), "unparsed", None),
        (completed('{"score": true}'), "unparsed", None),
        (completed('{"score": NaN}'), "unparsed", None),
        (completed('{"score": 1e999}'), "unparsed", None),
        (completed('{"score": null}'), "unparsed", None),
        (completed('{"score": 4, "supported_claims": "all"}'), "unparsed", None),
        (completed("four"), "unparsed", None),
        (completed(""), "unparsed", None),
        (completed(None), "unparsed", None),
        (completed('{"score": 4, "supp', ended="length"), "truncated", None),
        (completed('{"score": 4}', ended="length"), "ok", 4),
        (messages('{"score": 4, "supp', ended="max_tokens"), "truncated", None),
        (completed(None, refusal="I cannot judge this"), "refused", None),
        (messages("", ended="refusal"), "refused", None),
        (completed("", ended="content_filter"), "filtered", None),
        ('{"error": {"message": "overloaded"}}', "error", None),
        (None, "error", None),
        ("", "unparsed", None),
        ("[1, 2]", "unparsed", None),
    ],
)
def test_a_score_is_what_was_said_or_there_is_none(raw, status, score):
    found = parse_judgement("correctness", raw)
    assert (found.status, found.score) == (status, score)


def test_claims_come_as_lists_with_the_contexts_that_they_cite():
    claims = [{"claim": "a", "citations": [2, 1]}, {"claim": "b", "citations": []}, "c"]
    said = {"score": 5, "supported_claims": claims, "unsupported_claims": ["d"], "reasoning": "so"}
    found = parse_judgement("groundedness", json.dumps(said))
    assert (found.supported, found.unsupported) == (("a", "b", "c"), ("d",))
    assert (sorted(found.citations), found.reasoning) == ([1, 2], "so")
    assert parse_judgement("groundedness", '{"score": 5}').citations is None
    assert parse_judgement("groundedness", '{"score": 5, "supported_claims": []}').citations == ()


@pytest.mark.parametrize(("ask", "name"), [("abstention", "abstained"), ("conflict", "acknowledged")])
def test_a_verdict_is_true_or_false(ask, name):
    assert parse_judgement(ask, json.dumps({name: True})).verdict is True
    assert parse_judgement(ask, completed(json.dumps({name: False}))).verdict is False
    for wrong in ("yes", 1, None):
        assert parse_judgement(ask, json.dumps({name: wrong})).status == "unparsed"
    assert parse_judgement(ask, '{"score": 4}').status == "unparsed"


@pytest.mark.parametrize(
    "text", ['{"a":' * 100_000, "x" + '{"a":[' * 100_000, "{" * 500_000, 'x{"a":"' + "b" * 2_000_000]
)
def test_an_answer_made_to_take_for_ever_does_not(text):
    began = time.process_time()
    assert parse_judgement("correctness", completed(text)).status == "unparsed"
    assert time.process_time() - began < 2


@settings(max_examples=300, deadline=None)
@given(st.text(), st.sampled_from(["correctness", "groundedness", "abstention", "tone"]))
def test_no_text_makes_it_fail(text, ask):
    for raw in (text, completed(text), messages(text)):
        found = parse_judgement(ask, raw)
        assert found.score is None or 0 <= found.score <= 5
