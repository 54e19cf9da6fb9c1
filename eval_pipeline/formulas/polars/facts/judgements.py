"""What a judge's answer says, read of the answer as it came."""

# An answer is a chat completion of an OpenAI-compatible endpoint, an Anthropic message, or the object itself. What is
# not exactly one object that fits is no verdict: nothing is rounded, clipped or guessed.

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

import polars as pl

from eval_pipeline.formulas.decorator import formula

OK, REPAIRED, UNPARSED, TRUNCATED = "ok", "repaired", "unparsed", "truncated"
REFUSED, FILTERED, ERROR = "refused", "filtered", "error"
LOWEST, HIGHEST = 0, 5
# Asks that are answered by yes or no; every other one by a score.
VERDICT_OF = {"abstention": "abstained", "conflict": "acknowledged"}
CUT_OFF = ("length", "max_tokens", "model_context_window_exceeded")
# An answer with more braces than this is no answer with an object in it.
MOST_STARTS = 500
_FENCE = "```"
# Punctuation that may follow the last object of a reply.
_AFTER_LAST = " \t\r\n.!`*_\"')]"
# One text of several that an answer is made of.
TEXT = "text"

SCHEMA = {
    "run_key": pl.Int32,
    "judgement_no": pl.Int32,
    "status": pl.String,
    "score": pl.Float64,
    "verdict": pl.Boolean,
    "n_supported": pl.Int32,
    "n_unsupported": pl.Int32,
    "n_cited": pl.Int32,
}


class Parsed(NamedTuple):
    """What an answer says, nothing of which is known but with the statuses ok and repaired.

    `citations` are the numbers of the contexts that supported claims cite, each once; None where no claim was listed.
    """

    status: str
    score: float | None = None
    verdict: bool | None = None
    supported: tuple[str, ...] | None = None
    unsupported: tuple[str, ...] | None = None
    citations: tuple[int, ...] | None = None
    reasoning: str | None = None


@formula(
    reads={"raw.judgements": ["run_key", "judgement_no", "ask", "status", "raw_answer"]},
    keys={
        "status": "ok, repaired (the one fitting object in a fence or at the end of prose), unparsed, truncated, "
        "refused, filtered, error or skipped",
        "score": "The score from 0 to 5",
        "verdict": "Yes or no, of asks that are answered so",
        "n_supported": "How many claims of the answer the judge calls supported",
        "n_unsupported": "How many it calls unsupported",
        "n_cited": "How many contexts the supported ones cite; null where no claim is listed",
    },
    grain=["run_key", "judgement_no"],
    about="What each judgement says, read from the answer as it came.",
    version=3,
    why="docs/decisions.md#a2-12",
    examples=[
        """{judgements: [{ask: groundedness, raw: '{"score": 4, "unsupported_claims": ["x"]}'}]} => """
        "{status: ok, score: 4, n_unsupported: 1}",
        """{judgements: [{ask: correctness, raw: 'Sure: {"score": 4.5}'}]} => {status: repaired, score: 4.5}""",
        """{judgements: [{ask: correctness, raw: '{"score": 7}'}]} => {status: unparsed, score: null}""",
        """{judgements: [{ask: correctness, raw: '{"score": "4"}'}]} => {status: unparsed, score: null}""",
        """{judgements: [{ask: correctness, raw: '{"score": 4} or {"score": 3}'}]} => {status: unparsed}""",
        r"""{judgements: [{ask: correctness, raw: "It says {\"score\": 5}.\n```\n{\"score\": 2}\n```"}]} => """
        "{status: repaired, score: 2}",
        """{judgements: [{ask: correctness, status: unparsed, raw: 'It says {"score": 5}'}]} => {status: unparsed}""",
        """{judgements: [{ask: abstention, raw: '{"abstained": true}'}]} => {status: ok, verdict: true, score: null}""",
        """{judgements: [{ask: correctness, raw: '{"choices": [{"finish_reason": "length", """
        """"message": {"content": "The answer"}}]}'}]} => {status: truncated, score: null}""",
        "{judgements: [{ask: correctness, status: skipped, reason: no context}]} => {status: skipped, score: null}",
    ],
)
def judgements(given: pl.DataFrame) -> pl.DataFrame:
    """One row per judgement, whatever it was asked for."""
    rows = [
        (run_key, judgement_no, *_columns_of(parse_delivered(ask, status, raw)))
        for run_key, judgement_no, ask, status, raw in given.iter_rows()
    ]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def _columns_of(found: Parsed) -> tuple[Any, ...]:
    return (
        found.status,
        found.score,
        found.verdict,
        None if found.supported is None else len(found.supported),
        None if found.unsupported is None else len(found.unsupported),
        None if found.citations is None else len(found.citations),
    )


def parse_delivered(ask: str, status: str, raw: str | None) -> Parsed:
    """The same of a judgement with the status it was delivered with: no answer says more than that none came."""
    if status in (ERROR, "skipped", UNPARSED) or (raw is None and status != OK):
        return Parsed(status)
    found = parse_judgement(ask, raw)
    return found._replace(status=REPAIRED) if status == REPAIRED and found.status == OK else found


def parse_judgement(ask: str, raw: str | None, *, shown: str = "") -> Parsed:
    """Parse the verdict of a judge for this ask; `raw` is the body of the reply.

    An object in a fence or in prose whose score or verdict also occurs in `shown` is a quotation. `shown` is what the
    judge was shown, in lower case and without escapes.
    """
    if raw is None:
        return Parsed(ERROR)
    try:
        body = _as_object(raw)
        halted, said = (OK, raw) if body is None else _of_envelope(body)
        if halted not in (OK, TRUNCATED):
            return Parsed(halted)
        whole = _as_object(said) if isinstance(said, str) else said
        found = _fitting(ask, whole) if whole is not None else None
        if found is not None or halted == TRUNCATED:
            return found or Parsed(TRUNCATED)
        return _one_inside(ask, said, shown) if isinstance(said, str) and whole is None else Parsed(UNPARSED)
    except RecursionError:
        return Parsed(UNPARSED)


# Why there is no more of an answer, or ok; and the object that was answered, or the text that should hold one.
Said = tuple[str, dict[str, Any] | str]


def _of_envelope(body: dict[str, Any]) -> Said:
    choices, content = body.get("choices"), body.get("content")
    if body.get("error"):
        return (FILTERED if "content_filter" in str(body["error"]) else ERROR), ""
    if isinstance(choices, list):
        return _of_choice(choices[0] if len(choices) == 1 and isinstance(choices[0], dict) else {})
    if isinstance(content, list) and "stop_reason" in body:
        halted, said = _of_parts(content)
        return (
            REFUSED if body["stop_reason"] == "refusal" else _or_cut_off(halted, body["stop_reason"])
        ), said
    return OK, body


def _of_choice(choice: dict[str, Any]) -> Said:
    """The only answer of a chat completion."""
    message, ended = choice.get("message"), choice.get("finish_reason")
    message = message if isinstance(message, dict) else {}
    if ended == "content_filter":
        return FILTERED, ""
    if message.get("refusal"):
        return REFUSED, ""
    content = message.get("content")
    halted, said = _of_parts(content) if isinstance(content, list) else (OK, content)
    return _or_cut_off(halted, ended), said if isinstance(said, dict | str) else ""


def _or_cut_off(halted: str, ended: Any) -> str:
    return TRUNCATED if halted == OK and ended in CUT_OFF else halted


def _of_parts(parts: list[Any]) -> Said:
    """What a message in several parts says: the input of the one tool that it calls, else its text."""
    known = [one for one in parts if isinstance(one, dict)]
    if any(one.get("type") == "refusal" for one in known):
        return REFUSED, ""
    called = [one["input"] for one in known if isinstance(one.get("input"), dict)]
    if len(called) == 1:
        return OK, called[0]
    return OK, "" if called else "".join(one[TEXT] for one in known if isinstance(one.get(TEXT), str))


def _one_inside(ask: str, text: str, shown: str) -> Parsed:
    """Parse the only object in fences, or else at the end of prose; objects that differ are unparsed."""
    name = _name_of(ask)
    inside = [
        (value, start, end)
        for value, start, end in _objects_in(text) or ()
        if name in value and not _is_quoted(name, value[name], shown)
    ]
    fenced = [value for value, start, end in inside if _is_fenced(text, start, end)]
    is_last = bool(inside) and not text[inside[-1][2] :].strip(_AFTER_LAST)
    found = [_fitting(ask, value) for value in fenced or (value for value, *_ in inside if is_last)]
    first = found[0] if found else None
    if first is None or any(one != first for one in found):
        return Parsed(UNPARSED)
    return first._replace(status=REPAIRED)


def _is_fenced(text: str, start: int, end: int) -> bool:
    """Whether the object is all of a fenced block."""
    before = text[:start].rstrip().rpartition("\n")[2].strip()
    is_first = before.startswith(_FENCE) and text.count(_FENCE, 0, start) % 2 == 1
    return is_first and text[end:].lstrip().startswith(_FENCE)


def _is_quoted(name: str, value: object, shown: str) -> bool:
    """Whether the name with this value occurs in a text, in any notation."""
    written = re.findall(rf"{name}\W{{1,12}}(true|false|\d+(?:\.\d+)?(?:e[+-]?\d{{1,2}})?)", shown)
    if isinstance(value, bool):
        return str(value).lower() in written
    return isinstance(value, int | float) and any(
        float(number) == value for number in written if number not in ("true", "false")
    )


def _objects_in(text: str) -> list[tuple[dict[str, Any], int, int]] | None:
    """Every outermost object of a text with its start and end; None if the text has too many braces."""
    found: list[tuple[dict[str, Any], int, int]] = []
    place = text.find("{")
    for _ in range(MOST_STARTS):
        if place < 0:
            return found
        try:
            value, end = DECODER.raw_decode(text, place)
            found.append((value, place, end))
            place = end
        except ValueError:
            place += 1
        place = text.find("{", place)
    return None


def _as_object(text: str) -> dict[str, Any] | None:
    try:
        value = DECODER.decode(text.lstrip("\ufeff"))
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _only_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object that says one thing twice says nothing."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands twice")
    return found


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number")


DECODER = json.JSONDecoder(object_pairs_hook=_only_once, parse_constant=_no_number)


def _name_of(ask: str) -> str:
    return VERDICT_OF.get(ask, "score")


def _fitting(ask: str, said: dict[str, Any]) -> Parsed | None:
    """What the object says, where it is an answer to what was asked."""
    value = said.get(_name_of(ask))
    if ask in VERDICT_OF:
        return Parsed(OK, verdict=value) if isinstance(value, bool) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not LOWEST <= value <= HIGHEST:
        return None
    supported, unsupported = (_claims(said.get(f"{kind}_claims")) for kind in ("supported", "unsupported"))
    reasoning = said.get("reasoning")
    if supported is None or unsupported is None or not isinstance(reasoning, str | None):
        return None
    return Parsed(
        OK,
        score=float(value),
        supported=_texts(supported),
        unsupported=_texts(unsupported),
        citations=_cited(supported[0]) if supported else None,
        reasoning=reasoning,
    )


Claim = tuple[str, tuple[int, ...]]


def _claims(said: Any) -> tuple[list[Claim], ...] | None:
    """The claims of a list, none where there is no list; None where it is no list of claims."""
    if said is None:
        return ()
    if not isinstance(said, list):
        return None
    claims = [_claim(one) for one in said]
    known = [one for one in claims if one is not None]
    return (known,) if len(known) == len(claims) else None


def _claim(said: Any) -> Claim | None:
    if isinstance(said, str):
        return said, ()
    if not isinstance(said, dict) or not isinstance(said.get("claim"), str):
        return None
    cited = said.get("citations") or []
    if not isinstance(cited, list):
        return None
    return said["claim"], tuple(one for one in cited if isinstance(one, int) and not isinstance(one, bool))


def _cited(claims: list[Claim]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(number for _, cited in claims for number in cited))


def _texts(claims: tuple[list[Claim], ...]) -> tuple[str, ...] | None:
    return tuple(text for text, _ in claims[0]) if claims else None


def without_words(ask: str, status: str, raw: str | None, mark: str) -> tuple[str, str | None]:
    """What the answer came to, and an answer that holds its score or verdict alone, and its claims as marks."""
    found = parse_delivered(ask, status, raw)
    if raw is None or found.status not in (OK, REPAIRED):
        return found.status if status == OK else status, None
    if ask in VERDICT_OF:
        return found.status, json.dumps({VERDICT_OF[ask]: found.verdict})
    values: dict[str, Any] = {"score": found.score}
    if found.supported is not None:
        # What all of them cite stands beside the first.
        marks: list[Any] = [mark for _ in found.supported]
        values["supported_claims"] = (
            [{"claim": mark, "citations": found.citations}, *marks[1:]] if marks else []
        )
    if found.unsupported is not None:
        values["unsupported_claims"] = [mark for _ in found.unsupported]
    return found.status, json.dumps(values)
