"""The system under test: what it is sent for a golden row, and the result row that its reply makes."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from eval_pipeline.bundle.lines import BadRow
from eval_pipeline.bundle.results import read_result
from eval_pipeline.bundle.secrets import Masker
from eval_pipeline.errors import UsageError
from eval_pipeline.evaluating._fields import FIELD
from eval_pipeline.evaluating.calls import Answered
from eval_pipeline.evaluating.channels import Channel, _text_of
from eval_pipeline.evaluating.executor import TIMED_OUT, Bound, Call
from eval_pipeline.evaluating.http import NoAnswer, Reply
from eval_pipeline.evaluating.identity import _request_hash, canonical
from eval_pipeline.evaluating.setup import HTTP, Limits, Target

Row = Mapping[str, Any]
_MISSING: Final = object()
_LISTENS_SECONDS: Final = 5.0
NO_RESULT: Final = "the reply is no result"


@dataclass(frozen=True)
class TargetParty:
    """A target as somebody who is asked."""

    target: Target
    channel: Channel

    @property
    def name(self) -> str:
        return f"target {self.target.name}"

    @property
    def limits(self) -> Limits:
        return self.target.limits

    def wording(self, call: Call) -> bytes:
        return canonical(call.body)

    def bound(self, sent: bytes, call: Call) -> Bound:
        return Bound()

    async def post(self, sent: bytes, call: Call) -> Reply:
        return await self.channel.post(sent, call.about)

    def read(self, sent: bytes, call: Call, reply: Reply) -> Answered:
        text = _text_of(reply)
        try:
            json.loads(text)
        except (ValueError, RecursionError) as error:
            raise NoAnswer("a broken body: it is not JSON") from error
        return Answered(reply.status, sent, text)

    def fault(self, call: Call, answer: Answered) -> str | None:
        """Why the row of the reply says that the target failed: its own word, or a reply that is no result."""
        error = _result_of(self.target, call.about, answer.raw, answer.latency_ms).get("error")
        return None if error is None else str(error)

    def adapt(self, sent: bytes, reply: Reply) -> bool:
        return False

    def masked(self, text: str) -> str:
        return Masker(self.target.secrets).mask(text)


def check_listens(target: Target) -> None:
    """Of a target that somebody has to start first: refuse to ask where nothing listens."""
    if target.started_by is None:
        return
    parts = urlsplit(target.url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        with socket.create_connection((parts.hostname or "", port), _LISTENS_SECONDS):
            return
    except OSError as error:
        raise UsageError(
            f"nothing listens at {target.identity}: start the target {target.name} in another terminal with "
            f"`{target.started_by}`"
        ) from error


def _call_of(target: Target, row: Row, *, run_id: str) -> Call:
    """The question of a golden row. Last night's answer is not tonight's: the run is part of what is asked."""
    body = _filled_body(target.body, row) if target.kind == HTTP else dict(row)
    request = _request_hash(target.identity, body, season=None, repeat=0, run=run_id)
    return Call(request, body, about=row["query_id"])


def _filled_body(template: Any, row: Row) -> Any:
    """The template with the row's fields; `{field}` alone keeps its type, and what a field says is never looked at."""
    if isinstance(template, dict):
        return {_filled_body(name, row): _filled_body(value, row) for name, value in template.items()}
    if isinstance(template, list):
        return [_filled_body(one, row) for one in template]
    if not isinstance(template, str):
        return template
    alone = FIELD.fullmatch(template)
    if alone is not None and alone[1]:
        return row.get(alone[1])
    return FIELD.sub(lambda found: _as_text(row.get(found[1])) if found[1] else found[0][0], template)


def _as_text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _result_of(target: Target, query_id: str, raw: str, latency_ms: float) -> dict[str, Any]:
    """The result row of a reply; one that is no result is the target's failure."""
    try:
        found = json.loads(raw)
        row = _mapped(target.answer, found) if target.answer else found
        if not isinstance(row, dict):
            raise BadRow("", "it is no object")
        times = row.get("latency_ms") if isinstance(row.get("latency_ms"), dict) else {}
        row = {**row, "query_id": query_id, "latency_ms": {"total": latency_ms} | (times or {})}
        record, _ = read_result(row)
    except (BadRow, ValueError, RecursionError) as error:
        return _failed_result(query_id, f"{NO_RESULT}: {error}")
    document: dict[str, Any] = msgspec.to_builtins(record)
    return document


def _failed_result(query_id: str, reason: str) -> dict[str, Any]:
    """A target that fails is a fact: a row that says so."""
    return {"query_id": query_id, "error": reason, "timed_out": reason.startswith(TIMED_OUT)}


def _mapped(answer: Mapping[str, Any], reply: Any) -> dict[str, Any]:
    """The result row, by where in the reply its parts are said to stand."""
    error = _at(reply, answer["error"]) if "error" in answer else None
    if error not in (None, _MISSING, "", False):
        return {"error": _as_text(error)}
    said = {name: _at(reply, answer[name]) for name in ("text", "abstained", "grounded") if name in answer}
    if said.get("text") is _MISSING and said.get("abstained") is not True:
        raise BadRow(str(answer["text"]), "is not in the reply")
    row: dict[str, Any] = {}
    if known := {name: value for name, value in said.items() if value is not _MISSING}:
        row["answer"] = known
    if "hits" in answer and (hits := _hits(answer["hits"], reply)) is not None:
        row["hits_top_k"] = hits
    return row


def _hits(places: Mapping[str, str], reply: Any) -> list[dict[str, Any]] | None:
    """What was retrieved; a reply that says nothing of it leaves it unknown, which is not nothing."""
    listed = _at(reply, places["each"])
    if listed is None or listed is _MISSING:
        return None
    if not isinstance(listed, list):
        raise BadRow(places["each"], "is no list")
    return [_hit(places, one) for one in listed]


def _hit(places: Mapping[str, str], one: Any) -> dict[str, Any]:
    hit = {
        name: value
        for name, place in places.items()
        if name != "each" and (value := _at(one, place)) not in (None, _MISSING)
    }
    for name in ("chunk_id", "doc_id"):
        if isinstance(hit.get(name), int) and not isinstance(hit[name], bool):
            hit[name] = str(hit[name])
    if "doc_id" not in hit and "chunk_id" in hit:
        hit["doc_id"] = hit["chunk_id"]
    return hit


def _at(value: Any, pointer: str) -> Any:
    """What a JSON pointer leads to, or _MISSING."""
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        else:
            return _MISSING
    return value
