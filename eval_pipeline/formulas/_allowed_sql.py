"""What SQL of a definition may do: compute from the tables it is given, the same again at every call."""

# A definition is read as tokens, so that an error can name its line before any engine sees the text. What gets
# past that meets an engine without access to files: see eval_pipeline/store/engine.py.

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from eval_pipeline.errors import DefinitionError
from eval_pipeline.formulas.tokens import Token, meaningful

CHANGING_FUNCTIONS = frozenset(
    {
        "random",
        "setseed",
        "ago",
        "current_localtime",
        "current_localtimestamp",
        "pg_conf_load_time",
        "pg_postmaster_start_time",
        "setval",
        "sleep_ms",
        "uuid",
        "uuidv4",
        "uuidv7",
        "gen_random_uuid",
        "nextval",
        "currval",
        "getenv",
        "now",
        "today",
        "get_current_timestamp",
        "get_current_time",
        "transaction_timestamp",
        "txid_current",
    }
)
CHANGING_WORDS = frozenset(
    ("current_timestamp", "current_date", "current_time", "localtimestamp", "localtime")
)
# Files, the network, the engine's own state, and text that is run as SQL.
_OUTSIDE_FUNCTION = re.compile(
    r"read_\w+|\w*_scan(_\w+)?|parquet_\w+|pragma_\w+|duckdb_\w+|glob|sniff_\w+|st_read\w*|query|query_table"
    r"|json_execute_serialized_sql|copy_database|import_database|which_secret|current_setting|getvariable"
    r"|(enable|disable|verify)_\w+|(force_)?checkpoint|(database|extension|metadata|storage|table)_(list|size|info)"
    r"|show(_databases|_tables|_tables_expanded)?|\w+_external_resource(_type)?|(parse_)?duckdb_\w+|\w+_duckdb_logs"
    r"|current_((query|transaction|connection)(_id)?|database|catalog|schemas?|user|role)|session_user|user"
    r"|add_parquet_key|collations|extension_versions|format_type|functions|icu_calendar_names|in_search_path"
    r"|pg_\w+|platform|python_map_function|stats|user_agent|test_(all|vector)_types|vector_type|version|write_log"
)
# What the engine says of itself, and of what is stored.
_CATALOGUE = re.compile(r"information_schema|system|(pg|sqlite|duckdb|pragma)_\w+")
_STATEMENTS = frozenset(
    [
        *("alter", "attach", "call", "checkpoint", "comment", "copy", "create", "delete", "detach", "drop"),
        *("execute", "explain", "export", "force", "import", "insert", "install", "load", "merge", "pragma"),
        *("prepare", "reset", "set", "truncate", "update", "use", "vacuum"),
    ]
)
_BEFORE_TABLES = frozenset(
    [
        *("from", "join", "pivot", "pivot_longer", "pivot_wider", "unpivot"),
        *("summarize", "describe", "table"),
    ]
)
_AFTER_TABLES = frozenset(
    [
        *("where", "group", "having", "order", "qualify", "window", "limit", "offset"),
        *("select", "union", "except", "intersect"),
    ]
)
# In these calls `from` stands before a value.
_CALLS_WITH_FROM = frozenset(("extract", "trim", "substring", "overlay"))
_FILE_NAME = re.compile(r"[./\\:*?$]")
_NOTHING = Token("end", "", 0, "")


def _refuse_sql(sql: str, *, path: Path, first_line: int = 1) -> None:
    """Raise for what a definition may not do, with the line it stands on."""
    tokens = meaningful(sql)
    for token, why in sorted(_faults(tokens), key=lambda found: found[0].start):
        line = first_line + sql.count("\n", 0, token.start)
        raise DefinitionError(f"{path}:{line}: {why}")


def _faults(tokens: Sequence[Token]) -> Iterator[tuple[Token, str]]:
    for token, following in pairwise((*tokens, _NOTHING)):
        name = token.meaning.strip('"').lower()
        is_called = following.text == "(" and token.kind in ("word", "quoted")
        is_changing = is_called and name in CHANGING_FUNCTIONS | CHANGING_WORDS
        if is_changing or (token.kind == "word" and token.meaning in CHANGING_WORDS):
            yield (
                token,
                f"{name} gives another answer at every call, so that nothing could be computed again; take times and "
                "numbers from the tables",
            )
        elif is_called and _OUTSIDE_FUNCTION.fullmatch(name):
            yield token, _outside(f"{name}(…)")
        elif token.text == ";":
            yield token, "a definition is one statement; remove what stands behind the semicolon"
    begins = len(tokens) > 1 and (tokens[1].text == "(" or tokens[1].kind in ("word", "quoted", "string"))
    if begins and tokens[0].meaning in _STATEMENTS:
        yield (
            tokens[0],
            f"a definition is one select; {tokens[0].meaning} changes something, or reads other things",
        )
    yield from _changing_parts(tokens)
    for token in _in_place_of_a_table(tokens):
        yield token, _outside(f"from {token.text}")


def _changing_parts(tokens: Sequence[Token]) -> Iterator[tuple[Token, str]]:
    """Samples, and what may stand in parentheses beside a select."""
    for second_last, last, token in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if (
            token.meaning in _STATEMENTS
            and last.text == "("
            and second_last.meaning in ("as", "materialized")
        ):
            yield token, f"a definition only selects; {token.meaning} changes something"
        elif last.meaning == "show" and second_last.text == "(" and token.kind in ("word", "quoted"):
            yield last, _outside("show")
        elif token.meaning == "tablesample" or (token.meaning == "sample" and last.meaning == "using"):
            yield (
                token,
                "a sample is another one at every call; take every row, or choose by what stands in them",
            )


def _outside(what: str) -> str:
    return (
        f"{what} reads files, the network or the engine, which no fingerprint covers; a definition reads tables "
        "such as raw.results and facts.chunk_ranks"
    )


@dataclass
class _Level:
    """What is open between two parentheses: a list of tables, a place for one, a call in which `from` names a value."""

    lists_tables: bool = False
    awaits_table: bool = False
    is_call_with_from: bool = False


def _in_place_of_a_table(tokens: Sequence[Token]) -> Iterator[Token]:
    """Texts, and names like those of files, where a table is expected: DuckDB would open what they name."""
    levels = [_Level()]
    padded = (_NOTHING, _NOTHING, *tokens, _NOTHING)
    for second_last, last, token, following in zip(padded, padded[1:], padded[2:], padded[3:], strict=False):
        level, word = levels[-1], token.meaning if token.kind == "word" else ""
        if token.text in ("(", "[", "{"):
            # `from (…)` may hold a table, a list of them or a statement.
            awaits = level.awaits_table and token.text == "("
            level.awaits_table = False
            levels.append(_Level(awaits, awaits, last.meaning in _CALLS_WITH_FROM))
        elif token.text in (")", "]", "}"):
            del levels[max(len(levels) - 1, 1) :]
        elif word == "from" and (level.is_call_with_from or _compares(second_last, last)):
            continue
        elif word in _BEFORE_TABLES or (word == "desc" and last.text in ("(", "")):
            level.lists_tables = level.awaits_table = True
        elif word in _AFTER_TABLES:
            level.lists_tables = level.awaits_table = False
        elif token.text == "," and level.lists_tables:
            level.awaits_table = True
        elif level.awaits_table:
            if _may_name_a_file(token) or _CATALOGUE.fullmatch(token.meaning.strip('"').lower()):
                yield token
            # `from name: table` names the table first.
            level.awaits_table = token.text == ":" or following.text == ":"


def _compares(second_last: Token, last: Token) -> bool:
    """Of `is distinct from`."""
    return last.meaning == "distinct" and second_last.meaning in ("is", "not")


def _may_name_a_file(token: Token) -> bool:
    return token.kind in ("string", "parameter") or (
        token.kind == "quoted" and _FILE_NAME.search(token.text) is not None
    )
