"""Other readings: parameters changed for a name, or a second name beside the first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from eval_pipeline.errors import InvalidConfig, UnknownName
from eval_pipeline.formulas.config import Config
from eval_pipeline.formulas.definition import Definition, expand_keys
from eval_pipeline.formulas.header import Parameter


def with_readings(drafts: Mapping[str, Definition], config: Config) -> dict[str, Definition]:
    """The definitions with what [formulas.NAME] changes, and the new ones that `reading_of` adds."""
    found = dict(drafts)
    for name, entry in config.formulas.items():
        values = {key: value for key, value in entry.items() if key != "reading_of"}
        base_name = entry.get("reading_of", name)
        base = _find(drafts, base_name, config=config)
        header = replace(base.header, parameters=_changed(base, values, config=config))
        if "reading_of" not in entry:
            found[base.name] = replace(base, header=header)
            continue
        reading = f"{base.schema}.{name}"
        if reading in drafts:
            raise InvalidConfig(f"{config.path}: formulas.{name}: there is a definition of that name already")
        columns = tuple(expand_keys(header.keys, header.parameters))
        header = replace(header, keys=_renamed_keys(base, name))
        found[reading] = replace(base, name=reading, header=header, reading_of=base.name, columns=columns)
    return found


def _find(drafts: Mapping[str, Definition], name: str, *, config: Config) -> Definition:
    matching = [one for one in drafts.values() if name in (one.name, one.short_name)]
    if len(matching) != 1:
        raise UnknownName(
            "definition", name, [one.short_name for one in drafts.values()], hint=f"(in {config.path})"
        )
    return matching[0]


def _changed(base: Definition, values: Mapping[str, Any], *, config: Config) -> dict[str, Parameter]:
    parameters = dict(base.header.parameters)
    for name, value in values.items():
        if name not in parameters:
            raise UnknownName("parameter", name, parameters, hint=f"(of {base.name}, in {config.path})")
        default = parameters[name]
        if not _same_type(default, value):
            raise InvalidConfig(
                f"{config.path}: {base.short_name}.{name} is {value!r}; expected something like {default!r}"
            )
        allowed = base.header.choices.get(name)
        if allowed and value not in allowed:
            listed = ", ".join(str(option) for option in allowed)
            raise InvalidConfig(f"{config.path}: {base.short_name}.{name} is {value!r}; allowed: {listed}")
        parameters[name] = value
    return parameters


def _same_type(default: Parameter, value: Any) -> bool:
    if isinstance(default, bool) or isinstance(value, bool):
        return isinstance(default, bool) and isinstance(value, bool)
    if isinstance(default, int | float):
        return isinstance(value, int | float)
    return isinstance(value, type(default))


def _renamed_keys(base: Definition, name: str) -> dict[str, str]:
    """One key takes the reading's name; several keep theirs with the name behind."""
    keys = base.header.keys
    if len(keys) == 1 and "$" not in next(iter(keys)):
        return {name: next(iter(keys.values()))}
    return {f"{key}:{name}": meaning for key, meaning in keys.items()}
