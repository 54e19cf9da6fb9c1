"""The header of a definition file, YAML behind `-- `: keys, when it applies, worked examples."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from eval_pipeline.bundle.guarded_yaml import read_mapping_once
from eval_pipeline.errors import DefinitionError, InputRejected

SCALES = ("binary", "fraction", "ordinal", "count", "ms")
DIRECTIONS = ("higher", "lower", "none")
WHOLE_NUMBER = "whole number"
FIELDS = frozenset(
    [
        "keys",
        "grain",
        "about",
        "family",
        "headline",
        "slices",
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
# Far more than any header has.
_read_yaml = partial(read_mapping_once, most_values=100_000)
_FAMILY = re.compile(r"[a-z][a-z0-9_]{0,62}")
_PARAMETER = re.compile(r"(\$\{\w+\}|\$\w+)")
_EXAMPLE = re.compile(r"\s*-\s+(?P<given>.+?)\s+=>\s+(?P<expected>.+?)\s*$")

Parameter = int | float | str | bool | list[Any]


@dataclass(frozen=True)
class Example:
    """Given this row, the definition yields that; read as YAML when somebody asks, since most commands do not."""

    line: str
    given_text: str
    expected_text: str

    @cached_property
    def given(self) -> Any:
        """A row, or the text of a call such as `count_within([1, 3], 2)`."""
        return self._values[0]

    @cached_property
    def expected(self) -> Any:
        """What the definition yields for it."""
        return self._values[1]

    @cached_property
    def _values(self) -> tuple[Any, Any]:
        try:
            return _read_yaml(self.given_text), _read_yaml(self.expected_text)
        except InputRejected:
            return self.given_text, self.expected_text


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
    # As written: a whole number is shown without a point.
    value_range: tuple[int | float | None, int | float | None] = (None, None)
    direction: str = "higher"
    aggregate: str = "mean"
    why: str | None = None
    examples: tuple[Example, ...] = ()
    was: str | None = None
    replaces: str | None = None
    arguments: tuple[str, ...] = ()
    grain: tuple[str, ...] = ()
    about: str | None = None
    family: str | None = None
    headline: tuple[str, ...] | None = None
    slices: bool = True


def _split_file(text: str) -> tuple[str, str]:
    """The comment block at the top without its dashes, and the statement below it."""
    lines = text.splitlines()
    count = _n_header_lines(lines)
    header = "\n".join(line.removeprefix("--").removeprefix(" ") for line in lines[:count])
    return header, "\n".join(lines[count:]).strip() + "\n"


def _n_header_lines(lines: Sequence[str]) -> int:
    return next((number for number, line in enumerate(lines) if not line.startswith("--")), len(lines))


def _body_line(text: str) -> int:
    """The line of the file that the statement begins on."""
    lines = text.splitlines()
    first = _n_header_lines(lines)
    return 1 + next((number for number in range(first, len(lines)) if lines[number].strip()), first)


def _parse_header(text: str, *, path: Path) -> Header:
    """Read the YAML of a header; an error names the file and what is allowed."""
    plain, example_lines = _take_examples(text)
    try:
        values = _read_yaml(plain) or {}
    except InputRejected as refused:
        reason = refused.reason.removeprefix("not YAML: ")
        raise DefinitionError(
            f"{path}: the header is not YAML: {reason}. A remark in prose stands below the header, after a blank line."
        ) from refused
    if not isinstance(values, dict):
        raise DefinitionError(f"{path}: the header is a list of `name: value` lines")
    examples = tuple(_example(line, path=path) for line in example_lines)
    return _header_of(values, examples=examples, path=path)


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
    matched = _EXAMPLE.match(line)
    if not matched:
        raise DefinitionError(
            f"{path}: an example reads `- GIVEN => EXPECTED`, this one does not: {line.strip()}"
        )
    return Example(line.strip().removeprefix("- "), matched["given"], matched["expected"])


def _header_of(values: Mapping[str, Any], *, path: Path, examples: tuple[Example, ...] = ()) -> Header:
    """Check the fields of a header against what each of them allows."""
    unknown = sorted(map(str, set(values) - FIELDS))
    if unknown:
        raise DefinitionError(
            f"{path}: unknown header field {unknown[0]!r}; there is: {', '.join(sorted(FIELDS))}"
        )
    keys = values.get("keys") or {}
    if not isinstance(keys, dict) or None in keys.values():
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
    parameters = _parameters(values.get("parameters") or {}, path=path)
    undefined = values.get("undefined")
    return Header(
        keys={str(key): str(meaning) for key, meaning in keys.items()},
        version=version,
        parameters=parameters,
        choices=_choices(values.get("choices") or {}, parameters, path=path),
        applies=_text(values, "applies", path=path),
        undefined=None if undefined is None else str(undefined),
        scale=values.get("scale", "fraction"),
        value_range=_range(values.get("range"), path=path),
        direction=values.get("direction", "higher"),
        aggregate=aggregate,
        why=_text(values, "why", path=path),
        examples=examples,
        was=_text(values, "was", path=path),
        replaces=_text(values, "replaces", path=path),
        arguments=_arguments(values.get("arguments") or [], path=path),
        grain=_grain(values.get("grain"), path=path),
        about=_text(values, "about", path=path),
        family=_family(values, path=path),
        slices=_is_sliced(values, path=path),
        headline=_headline(values.get("headline"), keys, path=path),
    )


def _text(values: Mapping[str, Any], name: str, *, path: Path) -> str | None:
    value = values.get(name)
    if value is not None and not isinstance(value, str):
        raise DefinitionError(f"{path}: {name} is a text, not {value!r}: put it in quotes")
    return value


def _choices(values: Any, parameters: Mapping[str, Parameter], *, path: Path) -> dict[str, list[Any]]:
    if not isinstance(values, dict) or not all(isinstance(options, list) for options in values.values()):
        raise DefinitionError(f"{path}: choices is a mapping of a parameter to the list of what it may be")
    for name, options in values.items():
        if name not in parameters:
            raise DefinitionError(
                f"{path}: choices of {name!r}, and there is no such parameter; there is: "
                f"{', '.join(parameters) or 'none'}"
            )
        default = parameters[name]
        is_counted = WHOLE_NUMBER in options and isinstance(default, int)
        if default not in options and not is_counted:
            listed = ", ".join(str(option) for option in options)
            raise DefinitionError(
                f"{path}: parameter {name} is {parameters[name]!r}; its choices are: {listed}"
            )
    return {str(name): list(options) for name, options in values.items()}


def _arguments(values: Any, *, path: Path) -> tuple[str, ...]:
    if not isinstance(values, list) or not all(
        isinstance(name, str) and name.isidentifier() for name in values
    ):
        raise DefinitionError(f"{path}: arguments is a list of names, such as [haystack, needle]")
    return tuple(values)


def _grain(value: Any, *, path: Path) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list | tuple) or list(value[:1]) != ["run_key"]:
        raise DefinitionError(f"{path}: grain is a list of columns that starts with run_key, not {value!r}")
    return tuple(str(column) for column in value)


def _is_sliced(values: Mapping[str, Any], *, path: Path) -> bool:
    found = values.get("slices", True)
    if not isinstance(found, bool):
        raise DefinitionError(f"{path}: slices is true or false, not {found!r}")
    return found


def _family(values: Mapping[str, Any], *, path: Path) -> str | None:
    family = _text(values, "family", path=path)
    if family is not None and not _FAMILY.fullmatch(family):
        raise DefinitionError(
            f"{path}: family {family!r} is no name such as retrieval: small letters, digits and underscores"
        )
    return family


def _headline(value: Any, keys: Mapping[str, str], *, path: Path) -> tuple[str, ...] | None:
    """The keys that stand for the file; a key may be one of those that a list parameter writes, such as hit@5."""
    if value is None:
        return None
    named = value if isinstance(value, list | tuple) else [value]
    for one in named:
        if not any(_may_be_written(str(key), str(one)) for key in keys):
            raise DefinitionError(
                f"{path}: headline {one!r} is no key; the keys are: {', '.join(map(str, keys))}"
            )
    return tuple(str(one) for one in named)


def _may_be_written(key: str, name: str) -> bool:
    pattern = "".join(
        ".+" if _PARAMETER.fullmatch(part) else re.escape(part) for part in _PARAMETER.split(key)
    )
    return bool(re.fullmatch(pattern, name))


def _check_member(values: Mapping[str, Any], name: str, allowed: tuple[str, ...], *, path: Path) -> None:
    if name in values and values[name] not in allowed:
        raise DefinitionError(f"{path}: {name} {values[name]!r} is none of {', '.join(allowed)}")


def _parameters(values: Any, *, path: Path) -> dict[str, Parameter]:
    if not isinstance(values, dict):
        raise DefinitionError(f"{path}: parameters is a mapping of name to value")
    for name, value in values.items():
        if not _may_be_parameter(value):
            raise DefinitionError(
                f"{path}: parameter {name} is {value!r}; allowed are numbers, texts, true, false and lists of them"
            )
    return {str(name): value for name, value in values.items()}


def _may_be_parameter(value: Any) -> bool:
    if isinstance(value, list):
        return all(_may_be_parameter(item) for item in value)
    return isinstance(value, int | float | str) and (not isinstance(value, float) or math.isfinite(value))


def _range(value: Any, *, path: Path) -> tuple[float | None, float | None]:
    if value is None:
        return (None, None)
    ends = list(value) if isinstance(value, list | tuple) else []
    numbers = [end for end in ends if isinstance(end, int | float) and not isinstance(end, bool)]
    is_range = len(ends) == 2 and len(numbers) + ends.count(None) == 2 and numbers == sorted(numbers)
    if not is_range:
        raise DefinitionError(f"{path}: range is [lowest, highest], with null for an open end, not {value!r}")
    return (ends[0], ends[1])
