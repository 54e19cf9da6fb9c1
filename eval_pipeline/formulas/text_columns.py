"""Which texts a definition reads: what freezes it where those texts were forgotten."""

# Table by table and column by column. A column counts as read when the definition's text names it and the definition
# reads its table; where that cannot be told (`select *`, a whole row, Python that names no columns) every text
# column of the table counts.

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from eval_pipeline.formulas.definition import Definition
from eval_pipeline.formulas.tokens import Token, meaningful
from eval_pipeline.records import text_columns_of_records

if TYPE_CHECKING:
    from eval_pipeline.formulas.registry import Registry

# The order in which they are named to people; others come after these.
_TABLES = (
    *("raw.runs", "raw.results", "raw.hits", "raw.references", "raw.citations", "raw.extraction_cases"),
    *("raw.spot_checks", "raw.archive_chunks", "labels.query_details", "labels.strings", "labels.supports"),
)


def _columns_by_table() -> Mapping[str, tuple[str, ...]]:
    # Under keys of its own run.json may hold any text.
    found: dict[str, tuple[str, ...]] = dict.fromkeys(_TABLES, ()) | {"raw.runs": ("document",)}
    for place in sorted(text_columns_of_records()):
        table, column = place.rsplit(".", 1)
        # What the ledger holds no definition reads.
        if not table.startswith("ledger."):
            found[table] = (*found.get(table, ()), column)
    return MappingProxyType(found)


TEXT_COLUMNS = _columns_by_table()
# Whether there is an error stays known when its words are forgotten, and this helper asks for no more.
ERROR_TEST = "is_failed"


def text_columns(registry: Registry, definition: Definition) -> frozenset[str]:
    """Every `schema.table.column` of text behind a definition, however deep."""
    found = set(read_here(definition))
    for name in definition.reads:
        if name in registry.definitions:
            found |= text_columns(registry, registry.definitions[name])
    return frozenset(found)


def read_here(definition: Definition) -> frozenset[str]:
    """The text columns that the definition itself reads."""
    tables = tuple(name for name in definition.reads if name in TEXT_COLUMNS)
    if definition.is_python:
        return _all_of(tables) & _taken(definition) if definition.taken else _all_of(tables)
    return _named(definition.body, definition.header.applies or "", tables) if tables else frozenset()


def _all_of(tables: Sequence[str]) -> frozenset[str]:
    return frozenset(f"{table}.{column}" for table in tables for column in TEXT_COLUMNS[table])


def _taken(definition: Definition) -> frozenset[str]:
    """Every column that arrives, where a function names them."""
    pairs = zip(definition.reads, definition.taken, strict=True)
    return frozenset(f"{table}.{column}" for table, columns in pairs for column in columns)


@lru_cache(maxsize=1024)
def _named(body: str, applies: str, tables: tuple[str, ...]) -> frozenset[str]:
    tokens = (*meaningful(body), *meaningful(applies))
    if _takes_everything(tokens, tables):
        return _all_of(tables)
    named = {_name(token) for place, token in enumerate(tokens) if not _only_tests(tokens, place)}
    return frozenset(
        f"{table}.{column}" for table in tables for column in TEXT_COLUMNS[table] if column in named
    )


def _name(token: Token) -> str:
    return token.text.strip('"') if token.kind == "quoted" else token.meaning


def _only_tests(tokens: Sequence[Token], place: int) -> bool:
    """Whether this is the `error` of `is_failed(results.error, …)`."""
    if tokens[place].meaning != "error":
        return False
    before = [token.meaning for token in tokens[max(0, place - 4) : place]]
    following = tokens[place + 1].text if place + 1 < len(tokens) else ""
    opened = before[-2:] == [ERROR_TEST, "("] or (
        len(before) == 4 and before[:2] == [ERROR_TEST, "("] and before[3] == "."
    )
    return opened and following == ","


def _takes_everything(tokens: Sequence[Token], tables: Sequence[str]) -> bool:
    """Whether whole rows are taken: a star, a `from` without a select, a table or its alias as a value."""
    words = [token.meaning for token in tokens]
    names = {table.split(".", 1)[1] for table in tables}
    for place, word in enumerate(words):
        before = words[place - 1] if place else ""
        following = words[place + 1] if place + 1 < len(words) else ""
        if word == "*" and before in ("select", "distinct", ",", ".", "all"):
            return True
        if word == "columns" and following == "(":
            return True
        if word == "from" and before in ("", "(", "all", "union", "except", "intersect"):
            return True
        if _name(tokens[place]) in names and _is_value(words, place):
            return True
    return any(_is_value(words, place) for place in _aliases_used(words, names))


def _aliases_used(words: Sequence[str], names: set[str]) -> list[int]:
    """Where the names stand under which the text tables are read."""
    aliases = {
        words[place + 2]
        for place, word in enumerate(words[:-2])
        if word.strip('"') in names and words[place + 1] == "as" and words[place + 2] != "("
    }
    return [place for place, word in enumerate(words) if word in aliases]


def _is_value(words: Sequence[str], place: int) -> bool:
    """Whether the name stands for a whole row: not for a table to read, not before a column, not named by a `with`."""
    before = words[place - 1] if place else ""
    following = words[place + 1] if place + 1 < len(words) else ""
    is_named_here = list(words[place + 1 : place + 3]) == ["as", "("]
    return following != "." and before not in (".", "as", "from", "join") and not is_named_here
