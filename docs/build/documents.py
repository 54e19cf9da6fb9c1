"""The page and the JSON Schema of the documents that commands print, from the types that they are made of."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import inspect

from docs.build.pages import NOTICE, table_lines
from eval_pipeline.comparing.documents import CompareReport, GateReport
from eval_pipeline.documents import Document
from eval_pipeline.planning.asking_reports import (
    CallsReport,
    EvaluatePlan,
    EvaluateReport,
    JudgeCheckReport,
    JudgesReport,
    JudgeTrial,
    PruneReport,
    RejudgePlan,
    RejudgeReport,
)
from eval_pipeline.planning.reports import ExplainReport, PlanReport, StatusReport
from eval_pipeline.showing.run_list import RunDiff, RunList
from eval_pipeline.showing.run_report import RunReport

# The command that prints each with `--json`.
DOCUMENTS: Final[Mapping[str, type[Document]]] = {
    "runs": RunList,
    "show": RunReport,
    "status": StatusReport,
    "plan": PlanReport,
    "explain": ExplainReport,
    "compare": CompareReport,
    "gate": GateReport,
    "diff": RunDiff,
    "evaluate": EvaluateReport,
    "evaluate --dry-run": EvaluatePlan,
    "rejudge": RejudgeReport,
    "rejudge --dry-run": RejudgePlan,
    "judges": JudgesReport,
    "judges --try": JudgeTrial,
    "judges --check": JudgeCheckReport,
    "calls": CallsReport,
    "calls --prune": PruneReport,
}
INTRODUCTION = (
    "What commands print with `--json`, and what the product's functions return. The same as JSON Schema: "
    "[documents.schema.json](documents.schema.json). Keys stand in the order of the tables; all of them are always "
    "there, but for those that say when. New ones stand at the end."
)
PLAIN: Final = {
    inspect.StrType: "text",
    inspect.IntType: "whole number",
    inspect.FloatType: "number",
    inspect.BoolType: "true or false",
    inspect.NoneType: "null",
    inspect.AnyType: "anything",
}


def documents_schema() -> str:
    """Every document as JSON Schema, for readers in other languages."""
    references, components = msgspec.json.schema_components(DOCUMENTS.values(), ref_template="#/$defs/{name}")
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Documents of the commands",
        "description": "What a command prints with --json, named under properties.",
        "type": "object",
        "properties": dict(zip(DOCUMENTS, references, strict=True)),
        "$defs": dict(sorted(components.items())),
    }
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def documents_page() -> str:
    """A section per document, below it one per part; a part of several documents is described once."""
    lines = ["# Documents", "", INTRODUCTION, ""]
    seen: set[type] = set()
    for command, kind in DOCUMENTS.items():
        lines += [f"## {command}", "", *_table_of(kind)]
        for part in _parts_of(kind, seen):
            lines += [f"### {part.__name__}", "", *_table_of(part)]
    return NOTICE + "\n".join(lines)


def _table_of(kind: type) -> list[str]:
    rows = [_row(one) for one in _fields_of(kind)]
    return [kind.__doc__ or "", "", *table_lines(["field", "type", "meaning"], rows), ""]


def _fields_of(kind: type) -> Sequence[inspect.Field]:
    described = inspect.type_info(kind)
    assert isinstance(described, inspect.StructType)
    return described.fields


def _row(one: inspect.Field) -> Sequence[str]:
    if isinstance(one.type, inspect.Metadata):
        schema = one.type.extra_json_schema or {}
        return f"`{one.name}`", _words(one.type.type), str(schema.get("description", ""))
    return f"`{one.name}`", _words(one.type), ""


def _words(kind: inspect.Type) -> str:
    if isinstance(kind, inspect.UnionType):
        return " or ".join(_words(one) for one in kind.types)
    if isinstance(kind, inspect.ListType):
        return f"list of {_words(kind.item_type)}"
    if isinstance(kind, inspect.DictType):
        return f"object: {_words(kind.value_type)}"
    if isinstance(kind, inspect.StructType):
        return f"[{kind.cls.__name__}](#{kind.cls.__name__.lower()})"
    return PLAIN[type(kind)]


def _parts_of(kind: type, seen: set[type]) -> Iterator[type]:
    for one in _fields_of(kind):
        for part in _structs_in(one.type):
            if part not in seen:
                seen.add(part)
                yield part
                yield from _parts_of(part, seen)


def _structs_in(kind: Any) -> Iterator[type]:
    if isinstance(kind, inspect.StructType):
        yield kind.cls
    for inner in (getattr(kind, name, None) for name in ("type", "item_type", "value_type")):
        if isinstance(inner, inspect.Type):
            yield from _structs_in(inner)
    for inner in getattr(kind, "types", ()):
        yield from _structs_in(inner)
