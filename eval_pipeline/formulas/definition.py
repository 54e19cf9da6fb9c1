"""A definition: one file, one derived table."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from eval_pipeline.errors import DefinitionError, FormulaFailed
from eval_pipeline.formulas.header import Header, Parameter
from eval_pipeline.formulas.tokens import _parameter_names, last_select, selected_names

APPLIES = "applies?"
PER_QUERY = ("run_key", "query_key")
MEAN = "mean"
_KEY_NAME = re.compile(r"\w+_(key|no)")


@dataclass(frozen=True)
class Helper:
    """A named expression that formulas call: sql/functions/NAME.sql."""

    name: str
    header: Header
    body: str
    path: Path
    fingerprint: str
    is_own: bool = False


@dataclass(frozen=True)
class Definition:
    """What stands in one file under sql/, with the parameters that hold now; `is_own`: in a folder of the user's.

    `own_fingerprint` is of what it means, `written_fingerprint` of its text: they are two where definitions.lock says
    that the text was rewritten without another meaning. `taken`: beside each table that a function reads, the columns
    that arrive of it; empty where all do.
    """

    name: str
    header: Header
    body: str
    path: Path
    reads: tuple[str, ...]
    calls: tuple[str, ...] = ()
    is_python: bool = False
    own_fingerprint: str = ""
    fingerprint: str = ""
    variant_of: str | None = None
    columns: tuple[str, ...] = ()
    is_own: bool = False
    written_fingerprint: str = ""
    taken: tuple[tuple[str, ...], ...] = ()

    @property
    def schema(self) -> str:
        """facts, metrics, aggregates or comparisons."""
        return self.name.split(".", 1)[0]

    @property
    def short_name(self) -> str:
        """The name without its schema."""
        return self.name.split(".", 1)[1]

    @cached_property
    def grain(self) -> tuple[str, ...]:
        """The columns that say what a row is about: those the header names, else those named like keys and numbers."""
        if self.header.grain:
            return self.header.grain
        if self.is_python:
            return PER_QUERY
        return tuple(name for name in selected_names(self.sql) if is_key_name(name) and name not in self.keys)

    @property
    def is_scored_per_query(self) -> bool:
        """Whether it gives every query a score whose mean says something about the run."""
        return self.schema == "metrics" and self.grain == PER_QUERY and self.header.aggregate == MEAN

    @property
    def is_scored_by_name(self) -> bool:
        """Whether its rows name their metric themselves, in the column `metric`: one row per query and metric."""
        return (
            self.schema == "metrics"
            and self.grain == (*PER_QUERY, "metric")
            and self.header.aggregate == MEAN
        )

    @cached_property
    def keys(self) -> Mapping[str, str]:
        """Every key the table has, with what it means; a list parameter has written some of them several times."""
        return _expand_keys(self.header.keys, self.header.parameters)

    @property
    def family(self) -> str:
        """What it is asked and told together with; without a family in the header it is one of its own."""
        base = self.variant_of or self.name
        return self.header.family or base.split(".", 1)[1]

    @cached_property
    def headline(self) -> tuple[str, ...]:
        """The keys that ask a question of their own; another reading of a formula asks none."""
        if self.variant_of is not None:
            return ()
        if self.header.headline == ():
            return ()
        # A headline such as hit@5 is gone where a project asks for other cut-offs.
        named = [key for key in self.header.headline or () if key in self.keys]
        return tuple(named or list(self.keys)[:1])

    @cached_property
    def column_of_key(self) -> Mapping[str, str]:
        """Key → the column of the statement that holds it; a second reading renames the keys of the first."""
        keys = list(self.keys)
        return dict(zip(keys, self.columns or keys, strict=True))

    @cached_property
    def sql(self) -> str:
        """The statement with its parameters written in."""
        return render(self.body, self.header.parameters, path=self.path)

    @cached_property
    def applies_where(self) -> str:
        """The condition of `applies` on one line with its parameters written in; empty when it always applies."""
        return " ".join(render(self.header.applies or "", self.header.parameters, path=self.path).split())

    @cached_property
    def applies_in_words(self) -> str:
        """The same for people: what the parameters have settled is left out."""
        return _settled(self.applies_where)

    @cached_property
    def undefined_in_words(self) -> str:
        """What stands where there is no value of its own, with the parameters written in."""
        return _filled_in(self.header.undefined or "", self.header.parameters)

    @cached_property
    def scored_sql(self) -> str:
        """The statement with, as its first column, whether the formula applies to the row."""
        applies = self.header.applies
        if not applies:
            return self.sql
        place = last_select(self.sql)
        if place is None:
            raise FormulaFailed(
                self.path,
                "`applies` needs exactly one outermost select; put unions and subqueries into a `with` above it",
                is_everywhere=True,
            )
        condition = render(applies, self.header.parameters, path=self.path)
        return f'{self.sql[:place]} coalesce(({condition}), false) as "{APPLIES}",{self.sql[place:]}'


def is_key_name(column: str) -> bool:
    """Whether a column is named like a key (`run_key`) or a number within one (`item_no`)."""
    return bool(_KEY_NAME.fullmatch(column))


def _expand_keys(keys: Mapping[str, str], parameters: Mapping[str, Parameter]) -> dict[str, str]:
    """`hit@${k}` with `ks: [1, 3]` is hit@1 and hit@3."""
    found: dict[str, str] = {}
    for key, meaning in keys.items():
        for filled_key, filled_meaning in _each_value(key, meaning, parameters):
            found[filled_key] = filled_meaning
    return found


def _each_value(key: str, meaning: str, parameters: Mapping[str, Parameter]) -> list[tuple[str, str]]:
    for name, value in parameters.items():
        if isinstance(value, list) and _singular(name) in _parameter_names(key):
            return [
                (_fill(key, _singular(name), str(item)), _fill(meaning, _singular(name), str(item)))
                for item in value
            ]
    return [(key, meaning)]


def _singular(name: str) -> str:
    """The name of one element of a list parameter: `ks` → `k`."""
    return name.removesuffix("s")


def render(sql: str, parameters: Mapping[str, Parameter], *, path: Path) -> str:
    """Write the parameters' values into the text.

    A line that names one element of a list parameter is written once per element, so that adding a k is one edit.
    """
    if "$" not in sql:
        return "\n".join(sql.splitlines())
    lines: list[str] = []
    for line in sql.splitlines():
        lines += _each_line(line, parameters) if "$" in line else [line]
    text = "\n".join(lines)
    for name, value in parameters.items():
        if not isinstance(value, list):
            text = _fill(text, name, literal(value))
    unknown = sorted(_parameter_names(text))
    if unknown:
        raise DefinitionError(
            f"{path}: ${unknown[0]} is no parameter; the header declares: {', '.join(parameters) or 'none'}"
        )
    return text


def _each_line(line: str, parameters: Mapping[str, Parameter]) -> list[str]:
    code = line.split("--", 1)[0]
    for name, value in parameters.items():
        if isinstance(value, list) and _singular(name) in _parameter_names(code):
            return [_fill_element(code, _singular(name), item) for item in value]
    return [line]


def _fill_element(line: str, name: str, value: Any) -> str:
    """Inside a quoted name the bare value, elsewhere a literal."""
    parts = re.split(r'("(?:[^"]|"")*")', line)
    return "".join(
        _fill(part, name, str(value).replace('"', '""') if part.startswith('"') else literal(value))
        for part in parts
    )


def _fill(text: str, name: str, value: str) -> str:
    if "$" not in text:
        return text
    return re.sub(r"\$\{" + name + r"\}|\$" + name + r"(?!\w)", lambda _: value, text)


_SAME = re.compile(r"'([^']*)' = '([^']*)'")
_BRACKETS = r"(?:[^()]|\([^()]*\))*"
# What is settled by a part of it, and what is left of it then.
_SETTLED = (
    (re.compile(rf"\((?:true or {_BRACKETS}|{_BRACKETS} or true)\)"), "true"),
    (re.compile(rf"\(false or ({_BRACKETS})\)"), r"(\1)"),
    (re.compile(rf"\(({_BRACKETS}) or false\)"), r"(\1)"),
    (re.compile(r" and true\b|\btrue and "), ""),
    (re.compile(rf"\(\(({_BRACKETS})\)\)"), r"(\1)"),
    (re.compile(r"(?<!\w)\((\w+(?: [<>=] \w+)?|not \w+)\)"), r"\1"),
)


def _settled(condition: str) -> str:
    """A condition without what compares one text with another, as the value of a parameter with its name."""
    if not _SAME.search(condition):
        return condition
    left = _SAME.sub(lambda found: "true" if found[1] == found[2] else "false", condition)
    for pattern, rest in _SETTLED:
        left = pattern.sub(rest, left)
    return left


def _filled_in(text: str, parameters: Mapping[str, Parameter]) -> str:
    """`${name}` as people write the value."""
    values = {
        name: value if isinstance(value, str) else json.dumps(value) for name, value in parameters.items()
    }
    return re.sub(r"\$\{(\w+)\}", lambda found: values.get(found[1], found[0]), text)


def quoted(name: str) -> str:
    """A name as SQL."""
    return '"' + name.replace('"', '""') + '"'


def literal(value: Parameter) -> str:
    """A parameter's value as SQL."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list):
        return "[" + ", ".join(literal(item) for item in value) + "]"
    return "'" + value.replace("'", "''") + "'"
