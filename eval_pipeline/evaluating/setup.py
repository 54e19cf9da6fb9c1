"""[targets], [judges] and [suites] of eval-pipeline.toml, checked before anything is asked."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit, urlunsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from eval_pipeline.config import Config
from eval_pipeline.errors import InvalidConfig, UnknownName
from eval_pipeline.evaluating._fields import FIELD, Fields, Remembered, Variable, filled, variables_in
from eval_pipeline.records import LEXICAL_BASELINE, GoldenRow, RunConfig

HTTP, COMMAND, PYTHON = "http", "command", "python"
OPENAI, ANTHROPIC, BASELINE = "openai", "anthropic", "lexical-baseline"
TARGET_KINDS: Final = (HTTP, COMMAND, PYTHON)
JUDGE_KINDS: Final = (OPENAI, ANTHROPIC, COMMAND, PYTHON, BASELINE)
# Those that go over a network, and have a model and a price.
MODELS: Final = (OPENAI, ANTHROPIC)
AUTO, JSON_SCHEMA, JSON_OBJECT, PLAIN = "auto", "json_schema", "json_object", "plain"
STRUCTURED: Final = (AUTO, JSON_SCHEMA, JSON_OBJECT, PLAIN)
SHIPPED_ASKS: Final = ("groundedness", "correctness", "abstention", "conflict")
_HOUR: Final = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)")
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_.-]{0,62}")
_CALL: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_KEY: Final = re.compile("auth|key|token|secret|cookie|password", re.IGNORECASE)
_HEADER: Final = re.compile(r"[!#$%&'*+.^`|~0-9A-Za-z-]+")
_ANTHROPIC_VERSION: Final = "anthropic-version"
ANTHROPIC_URL: Final = "https://api.anthropic.com/v1"

_LIMITS: Final = (
    *("concurrency", "timeout_s", "attempts", "max_wait_s", "requests_per_minute", "tokens_per_minute"),
    "most_bytes",
)
_WORKERS: Final = ("argv", "call", "workers")
_HTTP: Final = ("url", "headers", "body", "answer", "started_by")
_TARGET: Final = ("kind", *_HTTP, "identity", "config", *_WORKERS, *_LIMITS)
_JUDGE: Final = (
    *("kind", "base_url", "api_key", "headers", "model", "version", "season", "asks", "structured"),
    *("max_tokens", "price_per_1m", "identity", *_WORKERS, *_LIMITS),
)
_SUITE: Final = (
    *("dataset", "target", "judges", "at", "timezone", "repeats", "budget_usd", "spot_check", "canary"),
    "limit",
)


@dataclass(frozen=True)
class Limits:
    """How fast and how long somebody is asked."""

    concurrency: int
    timeout_s: float
    attempts: int
    max_wait_s: float = 300.0
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    most_bytes: int = 8 << 20


@dataclass(frozen=True)
class Program:
    """What answers on this machine: a command that reads lines, or a function in Python, in so many processes."""

    argv: tuple[str, ...] = ()
    call: str | None = None
    workers: int = 1


@dataclass(frozen=True)
class Price:
    """USD for a million tokens."""

    prompt: float
    completion: float

    def of(self, prompt: float, completion: float) -> float:
        """USD for so many tokens."""
        return (prompt * self.prompt + completion * self.completion) / 1e6


@dataclass(frozen=True)
class Target:
    """The system under test. `headers` hold secrets, and so may `url`: neither is shown, hashed or stored.

    `started_by` is the command that somebody starts it with.
    """

    name: str
    kind: str
    limits: Limits
    identity: str
    url: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: Any = None
    answer: Mapping[str, Any] = field(default_factory=dict)
    program: Program = field(default_factory=Program)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    config: Mapping[str, Any] = field(default_factory=dict)
    started_by: str | None = None


@dataclass(frozen=True)
class Judge:
    """Whoever says how good an answer is. `headers` hold its key: they are never shown, hashed or stored."""

    name: str
    kind: str
    limits: Limits
    identity: str
    asks: tuple[str, ...]
    model: str | None = None
    version: str | None = None
    season: str | None = None
    structured: str = AUTO
    max_tokens: int = 1000
    price: Price | None = None
    url: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    program: Program = field(default_factory=Program)
    secrets: tuple[str, ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class SpotCheck:
    """A second opinion on some answers: of another judge, or of the same by another prompt."""

    n: int
    judge: str | None = None
    prompt: str | None = None


@dataclass(frozen=True)
class Canary:
    """The season's first answers, asked again each night."""

    n: int
    alarm: float


@dataclass(frozen=True)
class Suite:
    """Which questions go to which target, and who judges the answers."""

    name: str
    dataset: str
    target: str
    judges: tuple[str, ...]
    at: str | None = None
    timezone: str = "UTC"
    repeats: int = 1
    limit: int | None = None
    budget_usd: float | None = None
    spot_check: SpotCheck | None = None
    canary: Canary | None = None


def read_target(config: Config, name: str, variable: Variable) -> Target:
    """The target of this name, with what the environment adds."""
    check_variables(config, variable, target=name)
    fields = Fields(f"targets.{name}", _entries(config.targets, "target", name), _TARGET)
    kind = fields.choice("kind", TARGET_KINDS, HTTP)
    limits = _limits(fields, concurrency=8, timeout_s=60, attempts=4)
    if kind != HTTP:
        _refuse(fields, _HTTP, kind)
        program = _program(fields, kind, limits)
        identity = _own_identity(fields, program)
        return Target(name, kind, limits, identity, program=program, config=_run_config(fields))
    _refuse(fields, _WORKERS, kind)
    said = Remembered(variable)
    url, headers = _url(fields, "url", said), _headers(fields, said)
    return Target(
        name,
        kind,
        limits,
        _own_identity(fields, None),
        url=url,
        headers=headers,
        body=_body(fields),
        answer=_answer(fields),
        secrets=_secrets(said, headers, url),
        config=_run_config(fields),
        started_by=fields.optional_text("started_by"),
    )


def read_judge(config: Config, name: str, variable: Variable) -> Judge:
    """The judge of this name, with what the environment adds."""
    check_variables(config, variable, judges=[name])
    fields = Fields(f"judges.{name}", _entries(config.judges, "judge", name), _JUDGE)
    kind = fields.choice("kind", JUDGE_KINDS, OPENAI)
    asks = _asks(fields, config)
    limits = _limits(fields, concurrency=16, timeout_s=120, attempts=4)
    season = fields.optional_text("season")
    version = fields.optional_text("version")
    if kind not in MODELS:
        _refuse(fields, ("base_url", "api_key", "headers", "structured", "max_tokens", "price_per_1m"), kind)
        program = Program(workers=1) if kind == BASELINE else _program(fields, kind, limits)
        identity = kind if kind == BASELINE else _own_identity(fields, program)
        model = fields.optional_text("model")
        if kind == BASELINE:
            for name_said, value in (("model", model), ("version", version)):
                if value is not None:
                    raise fields.fault(
                        name_said, "not said: the lexical baseline is no model, its version is its own"
                    )
            version = LEXICAL_BASELINE
        return Judge(name, kind, limits, identity, asks, model, version, season, program=program)
    _refuse(fields, _WORKERS, kind)
    default = ANTHROPIC_URL if kind == ANTHROPIC else None
    said = Remembered(variable)
    url = _url(fields, "base_url", said, default).rstrip("/")
    headers = _judge_headers(fields, kind, said)
    return Judge(
        name,
        kind,
        limits,
        _own_identity(fields, None, "base_url", default),
        asks,
        fields.text("model"),
        version,
        season,
        fields.choice("structured", STRUCTURED, AUTO),
        fields.whole("max_tokens", 1000),
        _price(fields),
        url=url,
        headers=headers,
        secrets=_secrets(said, headers, url),
    )


def read_suite(config: Config, name: str, variable: Variable, *, datasets: Collection[str]) -> Suite:
    """The suite of this name: whom it names is there, and what a budget is to hold has a price."""
    fields = Fields(f"suites.{name}", _entries(config.suites, "suite", name), _SUITE)
    suite = Suite(
        name,
        dataset=fields.text("dataset"),
        target=fields.text("target"),
        judges=fields.texts("judges") if fields.raw("judges") != [] else (),
        at=fields.optional_text("at"),
        timezone=fields.text("timezone", "UTC"),
        repeats=fields.whole("repeats", 1, most=100),
        limit=fields.whole("limit", 1) if fields.raw("limit") is not None else None,
        budget_usd=fields.optional_number("budget_usd"),
        spot_check=_spot_check(fields),
        canary=_canary(fields),
    )
    _check_time(fields, suite)
    _check_named(fields, suite, config, datasets)
    check_variables(config, variable, judges=judges_of(suite), target=suite.target)
    judges = [read_judge(config, one, variable) for one in judges_of(suite)]
    read_target(config, suite.target, variable)
    for judge in judges:
        check_budget(judge, suite.budget_usd)
    return suite


def judges_of(suite: Suite) -> tuple[str, ...]:
    """Everybody whom the suite has judge, the one of its spot check last."""
    second = suite.spot_check.judge if suite.spot_check else None
    return tuple(dict.fromkeys([*suite.judges, *([second] if second else [])]))


def check_budget(judge: Judge, budget_usd: float | None) -> None:
    """A budget can only be kept where the judge has a price."""
    if budget_usd is not None and judge.kind in MODELS and judge.price is None:
        raise InvalidConfig(
            f"a budget of {budget_usd:g} USD and no price of the judge {judge.name!r}: say "
            f"price_per_1m = {{prompt = …, completion = …}} in [judges.{judge.name}]"
        )


def check_variables(
    config: Config, variable: Variable, *, judges: Collection[str] = (), target: str | None = None
) -> None:
    """Everything that these want of the environment is there; all that is not is named at once."""
    places = [(f"judges.{name}", _entries(config.judges, "judge", name)) for name in judges]
    if target is not None:
        places.append((f"targets.{target}", _entries(config.targets, "target", target)))
    wanted = {place: _missing(entries, variable) for place, entries in places}
    said = [f"[{place}] wants {_variables(names)}" for place, names in wanted.items() if names]
    if said:
        missing = list(dict.fromkeys(name for names in wanted.values() for name in names))
        exports = " ".join(f"{name}=…" for name in missing)
        raise InvalidConfig(
            f"{'; '.join(said)}, which {'is' if len(missing) == 1 else 'are'} not set: export {exports}"
        )


def _variables(names: Collection[str]) -> str:
    return f"the variable{'s' if len(names) > 1 else ''} {', '.join(names)}"


def _missing(entries: Mapping[str, Any], variable: Variable) -> list[str]:
    return [name for name in variables_in(entries) if variable(name) is None]


def missing_variables(config: Config, judge: str, variable: Variable) -> list[str]:
    """The variables that a judge wants and the environment does not have."""
    return _missing(_entries(config.judges, "judge", judge), variable)


def unset(_name: str) -> str:
    """Whoever asks nobody needs no keys, and what a request is known by has none in it."""
    return "http://unset.invalid"


def own_prompts(config: Config) -> Path | None:
    """Where prompts of one's own lie: beside eval-pipeline.toml."""
    return None if config.path is None else config.path.parent / "prompts" / "judge"


def _entries(table: Mapping[str, Mapping[str, Any]], kind: str, name: str) -> Mapping[str, Any]:
    if name not in table:
        raise UnknownName(kind, name, table, hint=f"([{kind}s.NAME] in eval-pipeline.toml says what it is)")
    if not _NAME.fullmatch(name):
        raise InvalidConfig(f"[{kind}s.{name}]: a name is lower-case letters, digits, '.', '-' and '_'")
    return table[name]


def _limits(fields: Fields, *, concurrency: int, timeout_s: float, attempts: int) -> Limits:
    return Limits(
        fields.whole("concurrency", concurrency, most=1024),
        fields.number("timeout_s", timeout_s, most=86400),
        fields.whole("attempts", attempts, most=100),
        fields.number("max_wait_s", 300, most=86400),
        fields.optional_number("requests_per_minute"),
        fields.optional_number("tokens_per_minute"),
        fields.whole("most_bytes", 8 << 20, least=1 << 10, most=1 << 30),
    )


def _refuse(fields: Fields, names: tuple[str, ...], kind: str) -> None:
    for name in names:
        if fields.raw(name) is not None:
            raise fields.fault(name, f"not said where kind is {kind}")


def _program(fields: Fields, kind: str, limits: Limits) -> Program:
    workers = fields.whole("workers", min(4, limits.concurrency), most=256)
    if kind == COMMAND:
        _refuse(fields, ("call",), kind)
        argv = fields.raw("argv")
        if not isinstance(argv, list) or not argv or not all(isinstance(one, str) and one for one in argv):
            raise fields.fault("argv", 'the program and its arguments, such as ["./ask", "--json"]')
        return Program(argv=tuple(argv), workers=workers)
    _refuse(fields, ("argv",), kind)
    if not _CALL.fullmatch(fields.text("call")):
        raise fields.fault("call", 'a module and its function, such as "my_rag:ask"')
    return Program(call=fields.text("call"), workers=workers)


def _url(fields: Fields, name: str, variable: Variable, default: str | None = None) -> str:
    url = filled(fields.place, fields.text(name, default), variable)
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address:
        # What came from the environment is not repeated.
        raise fields.fault(name, "an address that begins http:// or https://")
    return url


def _own_identity(
    fields: Fields, program: Program | None, name: str = "url", default: str | None = None
) -> str:
    """What is asked, as requests are known by it: no key, no user, nothing that the environment adds."""
    said = fields.optional_text("identity")
    if said is not None:
        return said
    if program is not None:
        return program.call or " ".join(program.argv)
    parts = urlsplit(fields.text(name, default).rstrip("/"))
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _secrets(said: Remembered, headers: Mapping[str, str], url: str) -> tuple[str, ...]:
    """What must never be shown: what came from the environment, and what is a key by its name or place."""
    keys = [*said.values, *(value for name, value in headers.items() if _KEY.search(name))]
    parts = urlsplit(url)
    in_url = [parts.password or parts.username or "", *(value for _, value in parse_qsl(parts.query))]
    # `Bearer KEY` contains a key.
    return (*keys, *(key.rpartition(" ")[2] for key in keys), *in_url)


def _headers(fields: Fields, variable: Variable) -> dict[str, str]:
    found = {}
    for name, value in fields.table("headers").items():
        if not isinstance(value, str) or not _HEADER.fullmatch(name):
            raise fields.fault("headers", 'a table of texts, such as {Authorization = "Bearer ${TOKEN}"}')
        found[name] = _header_value(fields, name, filled(fields.place, value, variable))
    return found


def _header_value(fields: Fields, name: str, value: str) -> str:
    """A key that was pasted with a line break would end the header, and what follows be a header of its own."""
    stripped = value.strip()
    if any(ord(one) < 32 or ord(one) == 127 for one in stripped):
        raise InvalidConfig(
            f"[{fields.place}] {name}: its value has a line break or a control character in it"
        )
    return stripped


def _judge_headers(fields: Fields, kind: str, variable: Variable) -> dict[str, str]:
    found = _headers(fields, variable)
    key = fields.optional_text("api_key")
    if key is not None:
        said = _header_value(fields, "api_key", filled(fields.place, key, variable))
        found |= {"x-api-key": said} if kind == ANTHROPIC else {"Authorization": f"Bearer {said}"}
    if kind == ANTHROPIC:
        found = {_ANTHROPIC_VERSION: "2023-06-01"} | found
    return found


def _body(fields: Fields) -> Any:
    body = fields.raw("body")
    if body is None:
        return {"question": "{query}"}
    if not isinstance(body, dict | list):
        raise fields.fault("body", 'what is sent, such as {question = "{query}"}')
    known = GoldenRow.__struct_fields__
    if unknown := sorted(set(_fields_in(body)) - set(known)):
        raise InvalidConfig(
            f"[{fields.place}] body: a golden row has no {{{unknown[0]}}}; there is: {', '.join(sorted(known))}"
        )
    return body


def _fields_in(template: Any) -> Iterator[str]:
    if isinstance(template, dict):
        for name, value in template.items():
            yield from (*_fields_in(name), *_fields_in(value))
    elif isinstance(template, list):
        for one in template:
            yield from _fields_in(one)
    elif isinstance(template, str):
        yield from (name for name in FIELD.findall(template) if name)


def _answer(fields: Fields) -> Mapping[str, Any]:
    answer = fields.table("answer")
    hits = answer.get("hits")
    for name, pointer in answer.items():
        if name not in ("text", "abstained", "grounded", "hits", "error"):
            raise fields.fault("answer", "where in the reply to find: text, abstained, grounded, hits, error")
        if name != "hits" and not _is_pointer(pointer):
            raise fields.fault("answer", f'places in the reply, such as {{{name} = "/{name}"}}')
    if hits is not None and not _is_hits(hits):
        raise fields.fault(
            "answer", 'with hits = {each = "/sources", chunk_id = "/id", doc_id = "/file", text = "/body"}'
        )
    return answer


def _run_config(fields: Fields) -> Mapping[str, Any]:
    """What its runs say of their configuration; of the judge the suite says more."""
    said = fields.table("config")
    try:
        if "judge" in said or "judge_price_per_1k" in said:
            raise ValueError
        msgspec.convert(said, RunConfig, strict=True)
        if unknown := sorted(set(said) - set(RunConfig.__struct_fields__)):
            raise ValueError(unknown[0])
    except ValueError as error:
        known = [name for name in RunConfig.__struct_fields__ if not name.startswith("judge")]
        raise fields.fault("config", f"what its runs say of themselves: {', '.join(known)}") from error
    return said


def _is_hits(hits: Any) -> bool:
    known = {"each", "chunk_id", "doc_id", "text", "score", "rank", "rel_path", "heading_path"}
    return (
        isinstance(hits, dict)
        and {"each", "chunk_id"} <= hits.keys() <= known
        and all(_is_pointer(one) for one in hits.values())
    )


def _is_pointer(value: Any) -> bool:
    return isinstance(value, str) and (value == "" or value.startswith("/"))


def _asks(fields: Fields, config: Config) -> tuple[str, ...]:
    asks = fields.texts("asks")
    folder = own_prompts(config)
    own = sorted(path.stem for path in folder.glob("*.md")) if folder and folder.is_dir() else []
    for ask in asks:
        if ask not in SHIPPED_ASKS and ask not in own:
            raise fields.fault(
                "asks", "of " + ", ".join([*SHIPPED_ASKS, *own]) + ", or a file prompts/judge/NAME.md"
            )
    return asks


def _price(fields: Fields) -> Price | None:
    if fields.raw("price_per_1m") is None:
        return None
    price = Fields(f"{fields.place}.price_per_1m", fields.table("price_per_1m"), ("prompt", "completion"))
    found = [price.raw(name) for name in ("prompt", "completion")]
    if not all(
        isinstance(one, int | float) and not isinstance(one, bool) and 0 <= one < 1e9 for one in found
    ):
        raise fields.fault("price_per_1m", "USD for a million tokens: {prompt = 2.0, completion = 8.0}")
    return Price(float(found[0]), float(found[1]))


def _spot_check(fields: Fields) -> SpotCheck | None:
    if fields.raw("spot_check") is None:
        return None
    check = Fields(f"{fields.place}.spot_check", fields.table("spot_check"), ("judge", "prompt", "n"))
    judge, prompt = check.optional_text("judge"), check.optional_text("prompt")
    if (judge is None) == (prompt is None):
        raise fields.fault("spot_check", 'of another judge or by another prompt: {judge = "second", n = 20}')
    return SpotCheck(check.whole("n", 20, most=10_000), judge, prompt)


def _canary(fields: Fields) -> Canary | None:
    if fields.raw("canary") is None:
        return None
    canary = Fields(f"{fields.place}.canary", fields.table("canary"), ("n", "alarm"))
    return Canary(canary.whole("n", 20, most=10_000), canary.number("alarm", 0.2, most=1))


def _check_time(fields: Fields, suite: Suite) -> None:
    if suite.at is not None and not _HOUR.fullmatch(suite.at):
        raise fields.fault("at", 'an hour such as "02:00"')
    try:
        ZoneInfo(suite.timezone)
    except (ValueError, OSError, ZoneInfoNotFoundError) as error:
        raise fields.fault("timezone", 'the name of a time zone, such as "Europe/Berlin"') from error


def _check_named(fields: Fields, suite: Suite, config: Config, datasets: Collection[str]) -> None:
    if suite.dataset not in datasets:
        known = ", ".join(sorted(datasets)) or "none yet: load a golden set first"
        raise fields.fault("dataset", f"a dataset with a golden set ({known})")
    if suite.target not in config.targets:
        raise fields.fault("target", f"a target of this file ({', '.join(config.targets) or 'none yet'})")
    for name in judges_of(suite):
        if name not in config.judges:
            raise InvalidConfig(
                f"[{fields.place}] names the judge {name!r}, which is not in this file; "
                f"there is: {', '.join(config.judges) or 'none yet'}"
            )
    if suite.spot_check and not suite.judges:
        raise fields.fault("spot_check", "not said without judges")
