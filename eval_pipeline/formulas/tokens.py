"""SQL as tokens: enough to tell meaning from layout, and to see what a statement reads and calls."""

# Written here and not taken from a parser library, because a fingerprint must not move when somebody else's tool does.

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

_TOKEN = re.compile(
    r"""
      (?P<space>\s+)
    | (?P<comment>--[^\n]*|/\*.*?\*/)
    | (?P<string>'(?:[^']|'')*'|[eE]'(?:[^'\\]|\\.|'')*'|\$\$.*?\$\$)
    | (?P<quoted>"(?:[^"]|"")*")
    | (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
    | (?P<parameter>\$\{\w+\}|\$\w+)
    | (?P<word>[^\W\d]\w*)
    | (?P<sign><=|>=|<>|!=|\|\||::|->>|->|=>|.)
    """,
    re.VERBOSE | re.DOTALL,
)

_COMMENT_SIGN = re.compile(r"/\*|\*/")
_BLANK = frozenset(("space", "comment"))


class Token(NamedTuple):
    """One token; `start` is its place in the text, `meaning` leaves out what cannot change it: the case of words."""

    kind: str
    text: str
    start: int
    meaning: str


def meaningful(sql: str) -> tuple[Token, ...]:
    """The tokens that carry meaning; closing semicolons carry none. The same few texts are asked for often."""
    return _cut(sql.rstrip())


@lru_cache(maxsize=512)
def _cut(sql: str) -> tuple[Token, ...]:
    tokens = []
    for found in _matches(sql):
        kind = found.lastgroup or "sign"
        if kind not in _BLANK:
            text = found.group()
            tokens.append(Token(kind, text, found.start(), text.lower() if kind == "word" else text))
    while tokens and tokens[-1].text == ";":
        tokens.pop()
    return tuple(tokens)


def _matches(sql: str) -> Iterator[re.Match[str]]:
    place = 0
    while found := _TOKEN.match(sql, place):
        yield found
        place = _comment_end(sql, found) if found.lastgroup == "comment" else found.end()


def _comment_end(sql: str, found: re.Match[str]) -> int:
    """Comments nest, as they do in DuckDB; one that is never closed ends with the text."""
    if found.group().startswith("--"):
        return found.end()
    depth = 0
    for sign in _COMMENT_SIGN.finditer(sql, found.start()):
        depth += 1 if sign.group() == "/*" else -1
        if depth == 0:
            return sign.end()
    return len(sql)


@lru_cache(maxsize=512)
def canonical(sql: str) -> str:
    """The text of all meaningful tokens: equal for two texts that differ in layout, comments and keyword case."""
    return " ".join(token.meaning for token in meaningful(sql))


def _qualified_names(sql: str, schemas: frozenset[str]) -> list[str]:
    """Every `schema.table` the text names, in order of first appearance."""
    tokens = meaningful(sql)
    found: dict[str, None] = {}
    for first, dot, second in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if dot.text == "." and first.meaning in schemas and second.kind in ("word", "quoted"):
            found[f"{first.meaning}.{second.meaning.strip(chr(34))}"] = None
    return list(found)


def called_functions(sql: str) -> set[str]:
    """Every name that is followed by an opening parenthesis."""
    tokens = meaningful(sql)
    return {
        name.meaning for name, sign in itertools.pairwise(tokens) if sign.text == "(" and name.kind == "word"
    }


def _parameter_names(sql: str) -> set[str]:
    """Every `$name` and `${name}`, inside quoted names too."""
    if "$" not in sql:
        return set()
    if "--" in sql or "/*" in sql:
        sql = " ".join(token.text for token in meaningful(sql))
    return {name.strip("{}") for name in re.findall(r"\$(\{\w+\}|\w+)", sql)}


def last_select(sql: str) -> int | None:
    """Where the columns of the outermost select begin, or None when there is not exactly one such select."""
    depth = 0
    places: list[int] = []
    for token in meaningful(sql):
        if token.text == "(":
            depth += 1
        elif token.text == ")":
            depth -= 1
        elif depth == 0 and token.kind == "word" and token.meaning == "select":
            places.append(token.start + len(token.text))
    return places[0] if len(places) == 1 else None


def selected_names(sql: str) -> list[str]:
    """What the outermost select calls its columns, as far as its text says so; of a union the first select counts."""
    names: list[str] = []
    depth = 0
    inside = False
    last: Token | None = None
    before = ""
    for token in meaningful(sql):
        depth += (token.text in "([{") - (token.text in ")]}")
        if depth == 0 and token.kind == "word" and token.meaning == "select" and not inside:
            inside = True
            continue
        if not inside:
            continue
        # `is distinct from` compares; any other `from` ends the list of columns.
        is_end = token.kind == "word" and token.meaning == "from" and before != "distinct"
        if depth == 0 and (token.text == "," or is_end):
            names += _column_name(last)
            last = None
            if is_end:
                return names
        else:
            last = token
        before = token.meaning
    return names + _column_name(last)


def _column_name(last: Token | None) -> list[str]:
    if last is None or last.kind not in ("word", "quoted"):
        return []
    return [last.text.strip('"').replace('""', '"') if last.kind == "quoted" else last.meaning]
