"""The generated pages of docs/: written from what the product itself says, so that they cannot say anything else.

`make docs` renews them; a test fails when one is out of date.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from eval_pipeline import errors as product_errors
from eval_pipeline import records
from eval_pipeline.errors import EvalPipelineError, UsageError
from eval_pipeline.formulas.catalogue import shown_key
from eval_pipeline.formulas.definition import PER_QUERY, Definition
from eval_pipeline.formulas.registry import Registry, load_registry
from eval_pipeline.metrics import errors as metric_errors
from eval_pipeline.settings import load_settings, project_folder, shipped_sql, utc_now
from eval_pipeline.stats import errors as statistics_errors
from eval_pipeline.store.open import open_in_memory

NOTICE = "<!-- Written by `make docs` from the product itself. Do not edit. -->\n\n"
BUNDLE_RECORDS: dict[str, type[records.Record]] = {
    "golden_row": records.GoldenRow,
    "archive_line": records.ArchiveChunk,
    "run": records.Run,
    "result": records.Result,
    "extraction_case": records.ExtractionCase,
    "expected_case": records.ExpectedCase,
    "index_report": records.IndexReport,
    "spot_check": records.SpotCheck,
    "judgement": records.Judgement,
    "judge_request": records.JudgeRequest,
}
SCHEMAS = {
    "raw": "What was delivered, typed.",
    "labels": "The golden sets' versions, one table per label family.",
    "aggregates": "Run aggregates.",
    "comparisons": "Pairs of runs.",
    "ledger": "Who delivered what, who was computed from what.",
}
_CREATED = re.compile(
    r'(?P<remark>(?:^--[^\n]*\n)+)create (?:table|or replace view) (?P<name>[\w."]+)', re.MULTILINE
)


def project_root() -> Path:
    """The checkout whose pages are written."""
    root = project_folder()
    if root is None:
        raise UsageError("the pages under docs/ belong to a checkout; this package was installed without one")
    return root


def shipped_registry() -> Registry:
    """The definitions as they are shipped, without anybody's folder or configuration."""
    nowhere = shipped_sql() / "no-configuration.toml"
    return load_registry(replace(load_settings({}), own_sql=None, config=nowhere))


def generated_pages() -> dict[str, str]:
    """What the records, definitions, tables and errors say of themselves: place below the project, and text."""
    registry = shipped_registry()
    return {
        "docs/bundle.schema.json": bundle_schema(),
        "docs/reference/metrics.md": metrics_page(registry, project_root()),
        "docs/reference/tables.md": tables_page(registry),
        "docs/reference/errors.md": errors_page(),
    }


def bundle_schema() -> str:
    """The records of a bundle as JSON Schema, for producers in other languages."""
    import msgspec

    references, components = msgspec.json.schema_components(
        BUNDLE_RECORDS.values(), ref_template="#/$defs/{name}"
    )
    for record, score in (("Result", "Score"), ("Run", "RunScore")):
        # What stands for itself alone is read as the value of a score that nothing more is said of.
        alone = {"type": ["number", "boolean", "string", "null"]}
        components[record]["properties"]["scores"]["anyOf"][0]["additionalProperties"] = {
            "anyOf": [{"$ref": f"#/$defs/{score}"}, alone]
        }
    document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Records of an input bundle",
        "description": "A file holds one kind of record, named under properties. docs/bundle.md says what fields mean.",
        "type": "object",
        "properties": dict(zip(BUNDLE_RECORDS, references, strict=True)),
        "$defs": dict(sorted(components.items())),
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def metrics_page(registry: Registry, root: Path) -> str:
    """The catalogue: every key, every formula, every fact, every parameter."""
    formulas = sorted((one for one in registry if one.schema == "metrics"), key=lambda one: one.name)
    facts = [one for one in registry if one.schema == "facts"]
    others = [one for one in registry if one.schema not in ("facts", "metrics")]
    lines = [
        "# Metrics",
        "",
        "Every metric with its edge cases, as its definition states them. Where a metric does not apply to a query, "
        "its value is null and the query is outside the denominator. The examples are run by the test suite; "
        "[sql/README.md](../../sql/README.md#examples) says how they are read.",
        "",
        "## All keys",
        "",
        *table_lines(["key", "formula", "what it is"], _key_rows(formulas)),
        "",
        "## All parameters",
        "",
        "The default first. Set them in `eval-pipeline.toml` under `[formulas.NAME]`.",
        "",
        *table_lines(["parameter", "values", "definitions"], _parameter_rows(registry)),
        "",
        "## Formulas",
        "",
    ]
    for one in formulas:
        lines += _definition_section(one, root)
    lines += ["## Facts", "", "What formulas are computed from.", ""]
    for one in facts:
        lines += _definition_section(one, root)
    lines += ["## Aggregates and comparisons", ""]
    for one in others:
        lines += _definition_section(one, root)
    lines += ["## Helpers", "", *table_lines(["helper", "examples"], _helper_rows(registry)), ""]
    return NOTICE + "\n".join(lines)


def _key_rows(formulas: Iterable[Definition]) -> Iterator[Sequence[str]]:
    for one in formulas:
        for key, meaning in one.keys.items():
            yield f"`{shown_key(one, key)}`", f"[{one.short_name}](#{anchor_of(one)})", meaning


def _parameter_rows(registry: Registry) -> Iterator[Sequence[str]]:
    owners: dict[tuple[str, str], list[str]] = {}
    for one in registry:
        for name, value in one.header.parameters.items():
            if value != []:
                values = ", ".join(f"`{_written(option)}`" for option in [value, *_others(one, name)])
                owners.setdefault((name, values), []).append(f"[{one.short_name}](#{anchor_of(one)})")
    for (name, values), links in sorted(owners.items()):
        yield f"`{name}`", values, ", ".join(sorted(links))


def _others(one: Definition, parameter: str) -> list[Any]:
    """The values that a parameter may have beside the one it has."""
    value = one.header.parameters[parameter]
    return [option for option in one.header.choices.get(parameter, []) if option != value]


def _helper_rows(registry: Registry) -> Iterator[Sequence[str]]:
    for name, helper in sorted(registry.helpers.items()):
        call = f"`{name}({', '.join(helper.header.arguments)})`"
        yield call, "<br>".join(f"`{example.line}`" for example in helper.header.examples)


def _definition_section(one: Definition, root: Path) -> list[str]:
    header = one.header
    file = one.path.relative_to(root).as_posix()
    lines = [f'<a id="{anchor_of(one)}"></a>', f"### {one.name}", ""]
    lines += [f"* `{key}`: {meaning}" for key, meaning in one.keys.items()]
    lines.append("")
    lines += [f"- **{label}:** {value}" for label, value in _statements(one)]
    lines += [f"- **File:** [{file}](../../{file}), version {header.version}", ""]
    if header.examples:
        lines += ["```text", *(example.line for example in header.examples), "```", ""]
    return lines


def _statements(one: Definition) -> Iterator[tuple[str, str]]:
    header = one.header
    is_formula = one.schema == "metrics"
    if is_formula:
        everything = "to every result of a golden query" if one.grain == PER_QUERY else "to every row"
        yield "Applies", f"where `{header.applies}`" if header.applies else everything
    if one.grain != PER_QUERY:
        yield "One row per", ", ".join(f"`{column}`" for column in one.grain)
    if header.undefined:
        yield "Undefined", one.undefined_in_words
    for name, value in header.parameters.items():
        options = ", ".join(f"`{_written(option)}`" for option in _others(one, name))
        yield "Parameter", f"`{name}` = `{_written(value)}`" + (f"; or {options}" if options else "")
    if is_formula:
        low, high = header.value_range
        bounds = f" from {_bound(low)} to {_bound(high)}" if (low, high) != (None, None) else ""
        better = "" if header.direction == "none" else f", {header.direction} is better"
        yield "Scale", f"{header.scale}{bounds}{better}; run value: {header.aggregate}"
    if header.why:
        yield "Why", f"[{header.why.partition('#')[2] or header.why}]({_from_reference(header.why)})"
    yield "Reads", ", ".join(f"`{name}`" for name in one.reads)


def _bound(value: float | None) -> str:
    return "open" if value is None else f"{value:g}"


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _from_reference(place: str) -> str:
    """A link from docs/reference to a place that is named from the project's folder."""
    return "../" + place.removeprefix("docs/") if place.startswith("docs/") else "../../" + place


def anchor_of(one: Definition) -> str:
    """Where the page of metrics describes a definition."""
    return one.name.replace(".", "-")


def tables_page(registry: Registry) -> str:
    """Schema and views of a fresh store, and where the derived tables are described."""
    with open_in_memory(utc_now) as con:
        rows = con.execute(
            "select schema_name, table_name, column_name, lower(data_type) from duckdb_columns() "
            "where not internal order by schema_name, table_name, column_index"
        ).fetchall()
    columns: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for schema, table, column, kind in rows:
        columns.setdefault((schema, table), []).append((column, kind))
    lines = [
        "# Tables and views",
        "",
        "For reading with `eval-pipeline query`, DuckDB or a notebook. The views in schema `main` are public; the "
        "tables behind them may change with a version.",
        "",
        *_view_lines(columns),
        *_derived_lines(registry),
    ]
    for schema, meaning in SCHEMAS.items():
        lines += _schema_lines(schema, meaning, columns)
    return NOTICE + "\n".join(lines)


def _view_lines(columns: Mapping[tuple[str, str], list[tuple[str, str]]]) -> Iterator[str]:
    yield from ("## Public views", "")
    for (schema, view), found in columns.items():
        if schema != "main" or view in ("schema_migrations", "view_texts"):
            continue
        yield from (f"### {view}", "")
        path = shipped_sql() / "views" / f"{view}.sql"
        remark = _remark(path.read_text("utf-8").partition("\nselect")[0]) if path.is_file() else ""
        if remark:
            yield from (remark, "")
        yield from table_lines(["column", "type"], [(f"`{name}`", kind) for name, kind in found])
        yield ""


def _derived_lines(registry: Registry) -> Iterator[str]:
    yield from (
        "## Derived tables",
        "",
        "Made when they are first computed. [Metrics](metrics.md) describes each.",
        "",
    )
    rows = [
        (f"[{one.name}](metrics.md#{anchor_of(one)})", ", ".join(f"`{key}`" for key in one.keys))
        for one in registry
    ]
    yield from table_lines(["table", "columns beside the keys of the row"], rows)
    yield ""


def _schema_lines(
    schema: str, meaning: str, columns: Mapping[tuple[str, str], list[tuple[str, str]]]
) -> Iterator[str]:
    tables = {table: found for (name, table), found in columns.items() if name == schema}
    if not tables:
        return
    remarks = _remarks()
    yield from (f"## Schema {schema}", "", meaning, "")
    for table, found in tables.items():
        yield from (f"### {schema}.{table}", "")
        if f"{schema}.{table}" in remarks:
            yield from (remarks[f"{schema}.{table}"], "")
        yield from (", ".join(f"`{column}` {kind}" for column, kind in found), "")


def _remarks() -> dict[str, str]:
    """What the schema files say right above a table or a view."""
    found: dict[str, str] = {}
    for path in sorted((shipped_sql() / "schema").glob("*.sql")):
        for match in _CREATED.finditer(path.read_text("utf-8")):
            found[match["name"].replace('"', "")] = _remark(match["remark"])
    return found


def _remark(comment: str) -> str:
    """The comment lines as one text."""
    lines = [line.removeprefix("--").strip() for line in comment.splitlines() if line.startswith("--")]
    return " ".join(lines)


def errors_page() -> str:
    """The exception trees, from the classes themselves."""
    lines = [
        "# Errors",
        "",
        "What is raised on purpose. Every message says what, where, what is allowed and what to try. The command line "
        "prints it after `error:` and ends with the exit code. `InputRejected` becomes a row in quarantine instead. "
        "Anything else is an internal error with exit code 70.",
        "",
    ]
    for title, module in (
        ("The product", product_errors),
        ("Metric functions (`eval_pipeline.metrics`)", metric_errors),
        ("Statistics (`eval_pipeline.stats`)", statistics_errors),
    ):
        lines += [f"## {title}", "", *table_lines(["error", "exit code", "when"], _error_rows(module)), ""]
    return NOTICE + "\n".join(lines)


def _error_rows(module: ModuleType) -> Iterator[Sequence[str]]:
    own = [
        value
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, Exception) and value.__module__ == module.__name__
    ]

    def rows(base: type[Exception], depth: int) -> Iterator[Sequence[str]]:
        is_shown = issubclass(base, EvalPipelineError) and base is not product_errors.InputRejected
        code = str(getattr(base, "exit_code", "")) if is_shown else ""
        yield "&emsp;" * depth + f"`{base.__name__}`", code, (inspect.getdoc(base) or "").splitlines()[0]
        for child in own:
            if base in child.__bases__:
                yield from rows(child, depth + 1)

    for one in own:
        if not set(one.__bases__) & set(own):
            yield from rows(one, 0)


def table_lines(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A table in Markdown."""
    yield "| " + " | ".join(columns) + " |"
    yield "|" + "---|" * len(columns)
    for row in rows:
        yield "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) + " |"
