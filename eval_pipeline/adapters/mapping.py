"""mapping.toml: which fields of somebody's own rows mean what; every mistake in it is named."""

# rows = "query"                # a row per query; or "hit": a row per query and hit
#
# [result]
# query_id = "qid"              # a place in the row, with dots
#
# [hits]
# list = "retrieved"            # the list of hits; without it every field names a list of its own
# chunk_id = "id"               # a place in the hit; "." is the hit itself
# doc_id = {place = "id", before = "#"}

from __future__ import annotations

import datetime as dt
import difflib
import sys
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from eval_pipeline.adapters.tables import FORMATS, WHITE_SPACE, FileForm, form_of
from eval_pipeline.bundle.problems import explain_validation
from eval_pipeline.errors import InvalidConfig
from eval_pipeline.records import Run

ROWS = ("query", "hit")
ORDERS = ("list", "rank", "score")
UNITS = {"s": 1000.0, "ms": 1.0, "us": 0.001}
TABLES: Mapping[str, tuple[str, ...]] = {
    "result": ("query_id", "error", "timed_out", "folder_mode", "selected_folders"),
    "hits": (
        "chunk_id",
        "doc_id",
        "rank",
        "score",
        "text",
        "rel_path",
        "heading_path",
        "token_count",
        "start",
        "end",
    ),
    "answer": ("text", "grounded", "abstained", "citations"),
    "references": ("chunk_id", "rel_path", "heading_path", "text"),
    "latency_ms": ("total", "folder_selection", "retrieval", "generation", "judge"),
    "judge": ("groundedness", "correctness", "reasoning", "abstained", "acknowledged"),
}
SETTINGS: Mapping[str, tuple[str, ...]] = {
    "file": ("format", "separator", "columns", "records", "only"),
    "hits": ("list", "order", "first_rank", "separator"),
    "answer": ("citation", "separator"),
    "references": ("list",),
    "latency_ms": ("unit",),
    "judge": ("best_score",),
}


@dataclass(frozen=True)
class Source:
    """Where a value comes from: a place (of its text only what stands before a mark), a hash, or a constant."""

    place: str = ""
    before: str = ""
    hash_of: tuple[str, ...] = ()
    constant: Any = None


@dataclass(frozen=True)
class RowMapping:
    """A checked mapping; `fields` by table, `settings` by table."""

    file: FileForm
    rows: str
    fields: Mapping[str, Mapping[str, Source]]
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    run: Mapping[str, Any] = field(default_factory=dict)

    def of(self, table: str) -> Mapping[str, Source]:
        """The fields of one table."""
        return self.fields.get(table, {})

    def setting(self, table: str, name: str, default: Any) -> Any:
        """A setting of one table."""
        return self.settings.get(table, {}).get(name, default)


def read_mapping(path: Path, *, data_file: Path) -> RowMapping:
    """The mapping in this file, for rows of that one."""
    try:
        document = tomllib.loads(path.read_text("utf-8"))
        repr(document)  # An integer in base 2, 8 or 16 can be too long to be shown in a message.
    except OSError as error:
        raise InvalidConfig(
            f"{path} cannot be read: {error.strerror}; `eval-pipeline init FILE` writes one"
        ) from error
    except UnicodeDecodeError as error:
        raise InvalidConfig(f"{path} is not UTF-8 at byte {error.start}") from error
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InvalidConfig(f"{path} is no TOML: {error}") from error
    except ValueError as error:
        raise InvalidConfig(
            f"{path}: a number has more than {sys.get_int_max_str_digits():,} digits"
        ) from error
    return check_mapping(document, str(path), data_file=data_file)


def check_mapping(document: Mapping[str, Any], named: str, *, data_file: Path) -> RowMapping:
    """The document as a mapping; whatever it says that means nothing raises InvalidConfig."""
    _known(document, ("rows", "file", "run", *TABLES), named)
    rows = _one_of(document.get("rows", "query"), ROWS, f"{named}: rows")
    fields: dict[str, dict[str, Source]] = {}
    settings: dict[str, dict[str, Any]] = {}
    for table, names in TABLES.items():
        given = _table(document, table, named)
        own = SETTINGS.get(table, ())
        _known(given, (*names, *own), f"{named}: [{table}]")
        where = f"{named}: [{table}]"
        fields[table] = {name: _source(given[name], f"{where} {name}") for name in names if name in given}
        settings[table] = {
            name: _setting(name, given[name], f"{where} {name}") for name in own if name in given
        }
    form = _file_form(_table(document, "file", named), f"{named}: [file]", data_file)
    mapping = RowMapping(form, rows, fields, settings, _run(_table(document, "run", named), named))
    _check_together(mapping, named)
    return mapping


def _known(given: Mapping[str, Any], allowed: Collection[str], where: str) -> None:
    for name in given:
        if name not in allowed:
            close = difflib.get_close_matches(name, allowed, n=1)
            hint = f" Did you mean {close[0]}?" if close else ""
            raise InvalidConfig(f"{where} does not know {name!r}; it knows {', '.join(allowed)}.{hint}")


def _table(document: Mapping[str, Any], name: str, named: str) -> Mapping[str, Any]:
    given = document.get(name, {})
    if not isinstance(given, dict):
        raise InvalidConfig(f"{named}: {name} is a table: write [{name}] and its fields below")
    return given


def _one_of(value: Any, allowed: Collection[str], where: str) -> str:
    if not isinstance(value, str) or value not in allowed:
        raise InvalidConfig(f"{where} is {value!r}; it is one of {', '.join(allowed)}")
    return value


def _source(given: Any, where: str) -> Source:
    if isinstance(given, str) and given:
        return Source(place=given)
    if not isinstance(given, dict):
        raise InvalidConfig(
            f'{where} is {given!r}; it is a place such as "answer.text", or one of {{place = "id", before = "#"}}, '
            '{hash_of = ["question"]}, {constant = true}'
        )
    _known(given, ("place", "before", "hash_of", "constant"), where)
    if sum(name in given for name in ("place", "hash_of", "constant")) != 1:
        raise InvalidConfig(f"{where} says exactly one of place, hash_of and constant")
    if "before" in given and "place" not in given:
        raise InvalidConfig(f"{where}: before goes with place")
    for name in ("place", "before"):
        if name in given and not (isinstance(given[name], str) and given[name]):
            raise InvalidConfig(f"{where}: {name} is {given[name]!r}; it is a text that is not empty")
    return Source(
        place=given.get("place", ""),
        before=given.get("before", ""),
        hash_of=_texts(given.get("hash_of", []), f"{where}: hash_of"),
        constant=given.get("constant"),
    )


def _texts(given: Any, where: str) -> tuple[str, ...]:
    if not isinstance(given, list) or not all(isinstance(one, str) and one for one in given):
        raise InvalidConfig(f"{where} is {given!r}; it is a list of texts")
    return tuple(given)


def _setting(name: str, given: Any, where: str) -> Any:
    if name == "order":
        return _one_of(given, ORDERS, where)
    if name == "unit":
        return _one_of(given, UNITS, where)
    if name == "first_rank":
        if given not in (0, 1) or isinstance(given, bool):
            raise InvalidConfig(f"{where} is {given!r}; ranks are counted from 0 or from 1")
        return given
    if name == "best_score":
        if isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given < float("inf"):
            raise InvalidConfig(f"{where} is {given!r}; it is the score of a perfect answer, such as 1 or 5")
        return given
    if not isinstance(given, str) or not given:
        raise InvalidConfig(f"{where} is {given!r}; it is a text that is not empty")
    return given


def _file_form(given: Mapping[str, Any], where: str, data_file: Path) -> FileForm:
    _known(given, SETTINGS["file"], where)
    form = (
        FileForm(_one_of(given["format"], FORMATS, f"{where} format"))
        if "format" in given
        else form_of(data_file)
    )
    if "separator" in given:
        separator = given["separator"]
        if not isinstance(separator, str) or (len(separator) != 1 and separator != WHITE_SPACE):
            raise InvalidConfig(f"{where} separator is {separator!r}; it is one character or {WHITE_SPACE!r}")
        form = replace(form, separator=separator)
    if "columns" in given:
        form = replace(form, columns=_texts(given["columns"], f"{where} columns"))
    if "records" in given:
        form = replace(form, records=_setting("records", given["records"], f"{where} records"))
    only = given.get("only", {})
    if not isinstance(only, dict):
        raise InvalidConfig(f'{where} only is {only!r}; it is a table such as {{ kind = "RETRIEVER" }}')
    return replace(form, only=only)


def _run(given: Mapping[str, Any], named: str) -> Mapping[str, Any]:
    """What of run.json does not come from the command line."""
    run = {name: _plain(value) for name, value in given.items()}
    allowed = [one.name for one in msgspec.structs.fields(Run) if one.name not in ("run_id", "dataset")]
    _known(run, allowed, f"{named}: [run]")
    try:
        msgspec.convert({"run_id": "r", "dataset": "d", **run}, Run)
    except msgspec.ValidationError as error:
        place, reason = explain_validation(error)
        raise InvalidConfig(f"{named}: [run] {place} {reason}") from error
    return run


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, dt.datetime | dt.date) else value


def _check_together(mapping: RowMapping, named: str) -> None:
    hits = mapping.of("hits")
    if "query_id" not in mapping.of("result"):
        raise InvalidConfig(
            f'{named}: [result] needs query_id; where the rows have none: query_id = {{hash_of = ["question"]}}'
        )
    if (hits or mapping.settings.get("hits") or mapping.rows == "hit") and "chunk_id" not in hits:
        raise InvalidConfig(f'{named}: [hits] needs chunk_id; "." is the hit itself')
    if mapping.rows == "hit" and mapping.setting("hits", "list", None):
        raise InvalidConfig(f'{named}: [hits] list goes with rows = "query"; here every row is a hit')
    if mapping.of("references") and not mapping.setting("references", "list", None):
        raise InvalidConfig(f"{named}: [references] needs list, the place of the list of references")
    order = mapping.setting("hits", "order", "list")
    if order != "list" and order not in hits:
        raise InvalidConfig(
            f"{named}: [hits] order = {order!r} needs {order}, the place of each hit's {order}"
        )
    if ("start" in hits) != ("end" in hits):
        raise InvalidConfig(f"{named}: [hits] needs both start and end, or neither")
