"""Judges: the request each kind takes, what an endpoint refuses of it, and what a reply costs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from eval_pipeline.bundle.secrets import Masker
from eval_pipeline.evaluating.baseline import VERSION
from eval_pipeline.evaluating.budget import Tokens, _most_usd
from eval_pipeline.evaluating.calls import Answered
from eval_pipeline.evaluating.channels import Channel, _text_of
from eval_pipeline.evaluating.executor import Bound, Call
from eval_pipeline.evaluating.http import NoAnswer, Reply
from eval_pipeline.evaluating.identity import canonical
from eval_pipeline.evaluating.prompt_files import Prompt
from eval_pipeline.evaluating.setup import (
    ANTHROPIC,
    AUTO,
    BASELINE,
    JSON_OBJECT,
    JSON_SCHEMA,
    MODELS,
    OPENAI,
    PLAIN,
    Judge,
    Limits,
)

PATHS: Final = {OPENAI: "/chat/completions", ANTHROPIC: "/messages"}
_MOST_TOKENS: Final = 10**8


@dataclass(frozen=True)
class Material:
    """One answer to judge, with the question, what was retrieved, and a reference where there is one."""

    query_id: str
    query: str
    answer: str
    contexts: tuple[str, ...] = ()
    reference: str | None = None


def _body_for(judge: Judge, prompt: Prompt, material: Material) -> dict[str, Any]:
    """The request in full: it is what the judgement is known by, whatever of it an endpoint turns out to refuse."""
    text = prompt.fill(material.query, material.answer, material.contexts, material.reference)
    if judge.kind in MODELS:
        return {
            "model": judge.model,
            "messages": [{"role": "user", "content": text}],
            "temperature": 0,
            "max_tokens": judge.max_tokens,
            **_structured_as(judge, prompt),
        }
    body: dict[str, Any] = {"query_id": material.query_id, "ask": prompt.ask}
    body |= {"query": material.query, "answer": material.answer}
    body |= {"contexts": list(material.contexts), "reference": material.reference}
    return body if judge.kind == BASELINE else body | {"model": judge.model, "prompt": text}


def _identity_of(judge: Judge) -> str:
    """Who is asked: of what runs on this machine its version, too."""
    if judge.kind in MODELS:
        return judge.identity
    return f"{judge.identity}/{VERSION if judge.kind == BASELINE else judge.version or ''}"


def _structured_as(judge: Judge, prompt: Prompt) -> dict[str, Any]:
    mode = JSON_SCHEMA if judge.structured == AUTO else judge.structured
    if judge.kind == ANTHROPIC:
        wanted = {"format": {"type": "json_schema", "schema": prompt.schema}}
        return {"output_config": wanted} if mode == JSON_SCHEMA else {}
    if mode == JSON_SCHEMA:
        described = {"name": prompt.ask.replace(".", "_"), "schema": prompt.schema, "strict": True}
        return {"response_format": {"type": "json_schema", "json_schema": described}}
    return {"response_format": {"type": "json_object"}} if mode == JSON_OBJECT else {}


def _with_more_tokens(body: Mapping[str, Any]) -> dict[str, Any]:
    """The same request, with twice the room for an answer."""
    return {**body, "max_tokens": body["max_tokens"] * 2} if "max_tokens" in body else dict(body)


def _structured_of(body: Mapping[str, Any]) -> str:
    """How a request that was sent asked for its structure."""
    if "output_config" in body:
        return JSON_SCHEMA
    found = body.get("response_format")
    return str(found["type"]) if isinstance(found, dict) and "type" in found else PLAIN


@dataclass
class _Refused:
    """What an endpoint does not take; learnt once, for all its calls."""

    schema: bool = False
    structure: bool = False
    temperature: bool = False
    old_limit: bool = False


@dataclass(frozen=True)
class JudgeParty:
    """A judge as somebody who is asked."""

    judge: Judge
    channel: Channel
    tokens: Tokens = field(default_factory=Tokens)
    refused: _Refused = field(default_factory=_Refused)

    @property
    def name(self) -> str:
        return f"judge {self.judge.name}"

    @property
    def limits(self) -> Limits:
        return self.judge.limits

    def wording(self, call: Call) -> bytes:
        """The request without what was refused."""
        body = dict(call.body)
        if self.judge.kind in MODELS:
            if self.refused.schema and "response_format" in body:
                body["response_format"] = {"type": "json_object"}
            if self.refused.structure:
                body = {
                    name: value
                    for name, value in body.items()
                    if name not in ("response_format", "output_config")
                }
            if self.refused.temperature:
                body.pop("temperature", None)
            if self.refused.old_limit:
                body["max_completion_tokens"] = body.pop("max_tokens")
        return canonical(body)

    def bound(self, sent: bytes, call: Call) -> Bound:
        prompt = self.tokens.bound(len(sent))
        return Bound(prompt + call.max_tokens, _most_usd(self.judge.price, prompt, call.max_tokens))

    async def post(self, sent: bytes, call: Call) -> Reply:
        return await self.channel.post(sent, call.about.query_id)

    def read(self, sent: bytes, call: Call, reply: Reply) -> Answered:
        text = _text_of(reply)
        body = _object(text)
        if self.judge.kind not in MODELS:
            return Answered(reply.status, sent, text, self.judge.model)
        if not isinstance(body.get("choices", body.get("content")), list):
            raise NoAnswer("a broken body: neither an answer nor an error")
        prompt, completion = _usage(self.judge.kind, body.get("usage"))
        if prompt is not None:
            self.tokens.saw(len(sent), prompt)
        price = self.judge.price
        return Answered(
            reply.status,
            sent,
            text,
            _word(body.get("model")),
            _word(body.get("system_fingerprint")),
            prompt,
            completion,
            None if price is None or prompt is None or completion is None else price.of(prompt, completion),
        )

    def fault(self, call: Call, answer: Answered) -> str | None:
        # What cannot be read is asked for again.
        return None

    def adapt(self, sent: bytes, reply: Reply) -> bool:
        """Learn from a refusal what to leave out; False where the refusal is of the request itself."""
        if self.judge.kind not in MODELS:
            return False
        said = reply.body[:8192].decode("utf-8", errors="replace").lower()
        body = json.loads(sent)
        if "max_completion_tokens" in said and "max_tokens" in body:
            self.refused.old_limit = True
            return True
        if "temperature" in said and "temperature" in body:
            self.refused.temperature = True
            return True
        if self.judge.structured == AUTO and any(word in said for word in _STRUCTURE_WORDS):
            return self._adapt_structure(body)
        return False

    def _adapt_structure(self, body: Mapping[str, Any]) -> bool:
        mode = _structured_of(body)
        if mode == PLAIN:
            return False
        if mode == JSON_SCHEMA and self.judge.kind == OPENAI:
            self.refused.schema = True
        else:
            self.refused.structure = True
        return True

    def masked(self, text: str) -> str:
        return Masker(self.judge.secrets).mask(text)


_STRUCTURE_WORDS: Final = ("response_format", "json_schema", "json_object", "output_config", "output_format")


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NoAnswer("a broken body: it is not JSON") from error
    if not isinstance(found, dict):
        raise NoAnswer("a broken body: it is no object")
    return found


def _usage(kind: str, usage: Any) -> tuple[int | None, int | None]:
    """Tokens as the endpoint counts them; what is no count is not known."""
    if not isinstance(usage, dict):
        return None, None
    if kind != ANTHROPIC:
        return _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
    prompt = [
        _count(usage.get(name))
        for name in ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    ]
    return (None if prompt[0] is None else sum(one or 0 for one in prompt)), _count(
        usage.get("output_tokens")
    )


def _count(value: Any) -> int | None:
    return (
        value
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_TOKENS
        else None
    )


def _word(value: Any) -> str | None:
    return value[:200] if isinstance(value, str) else None


def judge_config(
    judge: Judge, prompts: Sequence[Prompt], sent: Iterable[Mapping[str, Any]]
) -> dict[str, Any]:
    """What run.json says of a judge (S2.16), by what it was really sent: a temperature that was refused is none."""
    bodies = list(sent)
    is_cold = judge.kind not in MODELS or all("temperature" in body for body in bodies)
    modes = sorted({_structured_of(body) for body in bodies}) if judge.kind in MODELS else []
    return {
        "model": judge.model,
        "version": judge.version,
        "temperature": 0 if is_cold else None,
        "prompt_version": ", ".join(one.version for one in prompts),
        "structured": ", ".join(modes) or None,
    }
