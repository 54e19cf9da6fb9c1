"""The header of a definition file: what it asks, when it applies, and worked examples, as YAML behind `-- `."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eval_pipeline.errors import DefinitionError

SCALES = ("binary", "fraction", "ordinal", "count", "ms")
DIRECTIONS = ("higher", "lower", "none")
FIELDS = frozenset(
    [
        "keys",
        "grain",
        "version",
        "parameters",
        "choices",
        "applies",
        "undefined",
        "scale",
        "range",
        "direction",
        "aggregate",
        "why",
        "examples",
        "was",
        "replaces",
        "arguments",
    ]
)
_AGGREGATE = re.compile(r"mean|sum|ratio\(\s*[^,()]+\s*,\s*[^,()]+\s*\)|quantile\(\s*0?\.\d+\s*\)")
_EXAMPLE = re.compile(r"\s*-\s+(?P<given>.+?)\s+=>\s+(?P<expected>.+?)\s*$")

Parameter = int | float | str | bool | list[Any]


@dataclass(frozen=True)
class Example:
    """Given this row, the definition yields that."""

    given: Any
    expected: Any
    line: str


@dataclass(frozen=True)
class Header:
    """Everything a definition says about itself."""

    keys: Mapping[str, str]
    version: int = 1
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    choices: Mapping[str, list[Any]] = field(default_factory=dict)
    applies: str | None = None
    undefined: str | None = None
    scale: str = "fraction"
    value_range: tuple[float | None, float | None] = (None, None)
    direction: str = "higher"
    aggregate: str = "mean"
    why: str | None = None
    examples: tuple[Example, ...] = ()
    was: str | None = None
    replaces: str | None = None
    arguments: tuple[str, ...] = ()
    grain: tuple[str, ...] = ()


def split_file(text: str) -> tuple[str, str]:
    """The comment block at the top without its dashes, and the statement below it."""
    lines = text.splitlines()
    count = 0
    while count < len(lines) and lines[count].startswith("--"):
        count += 1
    header = "\n".join(line.removeprefix("--").removeprefix(" ") for line in lines[:count])
    return header, "\n".join(lines[count:]).strip() + "\n"


def parse_header(text: str, *, path: Path) -> Header:
    """Read the YAML of a header; an error names the file and what is allowed."""
    import yaml

    plain, example_lines = _take_examples(text)
    try:
        values = _load_yaml(plain) or {}
    except yaml.YAMLError as error:
        reason = " ".join(str(error).split())
        raise DefinitionError(
            f"{path}: the header is not YAML: {reason}. A remark in prose stands below the header, after a blank line."
        ) from error
    if not isinstance(values, dict):
        raise DefinitionError(f"{path}: the header is a list of `name: value` lines")
    examples = tuple(_example(line, path=path) for line in example_lines)
    return header_of(values, examples=examples, path=path)


def _load_yaml(text: str) -> Any:
    """The parser in C where there is one: every command reads every header."""
    import yaml

    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def _take_examples(text: str) -> tuple[str, list[str]]:
    """Examples are cut out before YAML sees the header: `=>` between two mappings is ours, not YAML's."""
    plain: list[str] = []
    examples: list[str] = []
    inside = False
    for line in text.splitlines():
        if line.startswith("examples:"):
            inside = True
        elif inside and (line.startswith((" ", "-")) or not line.strip()):
            if line.strip():
                examples.append(line)
        else:
            inside = False
            plain.append(line)
    return "\n".join(plain), examples


def _example(line: str, *, path: Path) -> Example:
    import yaml

    matched = _EXAMPLE.match(line)
    if not matched:
        raise DefinitionError(
            f"{path}: an example reads `- GIVEN => EXPECTED`, this one does not: {line.strip()}"
        )
    try:
        given, expected = _load_yaml(matched["given"]), _load_yaml(matched["expected"])
    except yaml.YAMLError:
        # A call such as `count_within([1, 3], 2)` is no YAML: it stays text.
        given, expected = matched["given"], matched["expected"]
    return Example(given, expected, line.strip().removeprefix("- "))


def header_of(values: Mapping[str, Any], *, path: Path, examples: tuple[Example, ...] = ()) -> Header:
    """Check the fields of a header against what each of them allows."""
    unknown = sorted(set(values) - FIELDS)
    if unknown:
        raise DefinitionError(
            f"{path}: unknown header field {unknown[0]!r}; there is: {', '.join(sorted(FIELDS))}"
        )
    keys = values.get("keys") or {}
    if not isinstance(keys, dict):
        raise DefinitionError(f"{path}: keys is a mapping of column to what it means")
    _check_member(values, "scale", SCALES, path=path)
    _check_member(values, "direction", DIRECTIONS, path=path)
    version = values.get("version", 1)
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise DefinitionError(f"{path}: version is a whole number from 1, not {version!r}")
    aggregate = str(values.get("aggregate", "mean"))
    if not _AGGREGATE.fullmatch(aggregate):
        raise DefinitionError(
            f"{path}: aggregate {aggregate!r} is none of mean, sum, ratio(a, b), quantile(0.95)"
        )
    return Header(
        keys={str(key): str(meaning) for key, meaning in keys.items()},
        version=version,
        parameters=_parameters(values.get("parameters") or {}, path=path),
        choices={str(name): list(options) for name, options in (values.get("choices") or {}).items()},
        applies=values.get("applies"),
        undefined=values.get("undefined"),
        scale=values.get("scale", "fraction"),
        value_range=_range(values.get("range"), path=path),
        direction=values.get("direction", "higher"),
        aggregate=aggregate,
        why=values.get("why"),
        examples=examples,
        was=values.get("was"),
        replaces=values.get("replaces"),
        arguments=tuple(values.get("arguments") or ()),
        grain=_grain(values.get("grain"), path=path),
    )


def _grain(value: Any, *, path: Path) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list | tuple) or list(value[:1]) != ["run_key"]:
        raise DefinitionError(f"{path}: grain is a list of columns that starts with run_key, not {value!r}")
    return tuple(str(column) for column in value)


def _check_member(values: Mapping[str, Any], name: str, allowed: tuple[str, ...], *, path: Path) -> None:
    if name in values and values[name] not in allowed:
        raise DefinitionError(f"{path}: {name} {values[name]!r} is none of {', '.join(allowed)}")


def _parameters(values: Any, *, path: Path) -> dict[str, Parameter]:
    if not isinstance(values, dict):
        raise DefinitionError(f"{path}: parameters is a mapping of name to value")
    for name, value in values.items():
        if not isinstance(value, int | float | str | bool | list):
            raise DefinitionError(
                f"{path}: parameter {name} is {value!r}; allowed are numbers, texts, true, false and lists of them"
            )
    return {str(name): value for name, value in values.items()}


def _range(value: Any, *, path: Path) -> tuple[float | None, float | None]:
    if value is None:
        return (None, None)
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise DefinitionError(f"{path}: range is [lowest, highest], with null for an open end")
    return (value[0], value[1])
