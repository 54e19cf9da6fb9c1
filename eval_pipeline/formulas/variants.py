"""Variants: parameters changed under a definition's name, or a second name beside the first."""

# A parameter may belong to the definition that is named, or to a fact behind it. In the second case the named one
# gets facts of its own: `recall_any_loose` then reads `facts.support_ranks__recall_any_loose`, and nobody else's
# numbers move.

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from eval_pipeline.config import Config
from eval_pipeline.errors import InvalidConfig, UnknownName
from eval_pipeline.formulas.definition import Definition, _expand_keys
from eval_pipeline.formulas.header import Parameter
from eval_pipeline.formulas.tokens import Token, meaningful

WHOLE_NUMBER = "whole number"
# Parameters that say how far down a list of hits is looked at.
RANKS = ("ks", "cutoff")
# What may follow a table in a statement without being its alias.
JOINS = ("anti", "asof", "cross", "full", "inner", "join", "left", "natural", "positional", "right", "semi")
CLAUSES = ("group", "having", "limit", "offset", "on", "order", "qualify", "using", "where", "window")
COMBINATIONS = ("except", "intersect", "union")
NO_ALIAS = frozenset((*JOINS, *CLAUSES, *COMBINATIONS))

Values = Mapping[str, Any]
Definitions = dict[str, Definition]


def with_variants(drafts: Mapping[str, Definition], config: Config) -> Definitions:
    """The definitions with what [formulas.NAME] changes, and the new ones that `reading_of` adds."""
    found = dict(drafts)
    changed = {name: entry for name, entry in config.formulas.items() if "reading_of" not in entry}
    added = {name: entry for name, entry in config.formulas.items() if "reading_of" in entry}
    for name, entry in changed.items():
        base = _find(found, name, config=config)
        own = {key: value for key, value in entry.items() if key in base.header.parameters}
        found[base.name] = _with_parameters(base, own, config=config)
    for name in sorted(changed, key=lambda one: len(_facts_behind(_find(found, one, config=config), found))):
        base, entry = _find(found, name, config=config), changed[name]
        behind = {key: value for key, value in entry.items() if key not in base.header.parameters}
        found[base.name] = _with_own_facts(base, behind, found, suffix=base.short_name, config=config)
    for name, entry in added.items():
        variant = _variant(name, entry, found, config=config)
        found[variant.name] = variant
    return found


def _variant(name: str, entry: Values, found: Definitions, *, config: Config) -> Definition:
    base = _find(found, entry["reading_of"], config=config)
    full_name = f"{base.schema}.{name}"
    if full_name in found:
        raise InvalidConfig(f"{config.path}: formulas.{name}: there is a definition of that name already")
    values = {key: value for key, value in entry.items() if key != "reading_of"}
    own = {key: value for key, value in values.items() if key in base.header.parameters}
    behind = {key: value for key, value in values.items() if key not in own}
    variant = replace(_with_parameters(base, own, config=config), name=full_name, variant_of=base.name)
    variant = _with_own_facts(variant, behind, found, suffix=name, config=config)
    if base.schema != "metrics":
        return variant
    first = base
    while first.variant_of:
        first = found[first.variant_of]
    columns = tuple(_expand_keys(first.header.keys, variant.header.parameters))
    return replace(variant, header=replace(variant.header, keys=_renamed_keys(first, name)), columns=columns)


def _find(drafts: Mapping[str, Definition], name: str, *, config: Config) -> Definition:
    matching = [one for one in drafts.values() if name in (one.name, one.short_name)]
    if len(matching) != 1:
        raise UnknownName(
            "definition", name, [one.short_name for one in drafts.values()], hint=f"(in {config.path})"
        )
    return matching[0]


def _with_parameters(base: Definition, values: Values, *, config: Config) -> Definition:
    if not values:
        return base
    parameters = dict(base.header.parameters)
    for name, value in values.items():
        allowed = base.header.choices.get(name)
        if allowed and not _is_choice(value, allowed):
            listed = ", ".join(str(option) for option in allowed)
            raise InvalidConfig(f"{config.path}: {base.short_name}.{name} is {value!r}; allowed: {listed}")
        default = parameters[name]
        if not allowed and not _same_type(default, value):
            raise InvalidConfig(
                f"{config.path}: {base.short_name}.{name} is {value!r}; expected something like {default!r}"
            )
        if name in RANKS and any(one < 1 for one in (value if isinstance(value, list) else [value])):
            raise InvalidConfig(
                f"{config.path}: {base.short_name}.{name} is {value!r}; ranks count from 1, as in {default!r}"
            )
        parameters[name] = value
    return replace(base, header=replace(base.header, parameters=parameters))


def _is_choice(value: Any, allowed: list[Any]) -> bool:
    if any(value == option and _same_type(option, value) for option in allowed):
        return True
    return WHOLE_NUMBER in allowed and type(value) is int and value > 0


def _same_type(default: Parameter, value: Any) -> bool:
    if isinstance(default, bool) or isinstance(value, bool):
        return isinstance(default, bool) and isinstance(value, bool)
    if isinstance(default, list):
        return _is_list_like(default, value)
    if isinstance(default, int | float):
        return isinstance(value, int | float) and math.isfinite(value)
    return isinstance(value, type(default))


def _is_list_like(default: list[Any], value: Any) -> bool:
    """Of the same kind, and every element once: each makes keys of its own."""
    if not isinstance(value, list) or any(value.count(item) > 1 for item in value):
        return False
    return not default or all(type(item) is type(default[0]) for item in value)


def _with_own_facts(
    base: Definition, values: Values, found: Definitions, *, suffix: str, config: Config
) -> Definition:
    """The definition reading copies of the facts that these parameters belong to; the copies are added to `found`."""
    if not values:
        return base
    facts = _facts_behind(base, found)
    for name in values:
        known = {parameter for fact in (base, *facts) for parameter in fact.header.parameters}
        if not any(name in fact.header.parameters for fact in facts):
            where = f"(of {base.name} and the facts behind it, in {config.path})"
            raise UnknownName("parameter", name, known, hint=where)
    copies: dict[str, str] = {}
    for fact in facts:
        own = {name: value for name, value in values.items() if name in fact.header.parameters}
        if not own and not copies.keys() & set(fact.reads):
            continue
        changed = _reading_copies(_with_parameters(fact, own, config=config), copies)
        copies[fact.name] = f"{fact.name}__{suffix}"
        found[copies[fact.name]] = replace(changed, name=copies[fact.name], variant_of=fact.name)
    return _reading_copies(base, copies)


def _facts_behind(base: Definition, found: Definitions) -> list[Definition]:
    """Every fact the definition is computed from, parents before children."""
    done: dict[str, Definition] = {}
    for name in base.reads:
        if name in found and name.startswith("facts."):
            done |= {fact.name: fact for fact in _facts_behind(found[name], found)}
            done[name] = found[name]
    return list(done.values())


def _reading_copies(one: Definition, copies: Mapping[str, str]) -> Definition:
    reads = tuple(copies.get(table, table) for table in one.reads)
    body = one.body if one.is_python else _with_tables(one.body, copies)
    return replace(one, reads=reads, body=body)


def _with_tables(sql: str, names: Mapping[str, str]) -> str:
    """The statement reading other tables, each under the name the first one had in it."""
    tokens = meaningful(sql)
    pieces: list[str] = []
    position = 0
    for place, (schema, dot, table) in enumerate(zip(tokens, tokens[1:], tokens[2:], strict=False)):
        short_name = table.meaning.strip('"')
        new = names.get(f"{schema.meaning}.{short_name}") if dot.text == "." else None
        if new is None:
            continue
        following = tokens[place + 3] if place + 3 < len(tokens) else None
        pieces.append(sql[position : schema.start] + _as_before(new, short_name, following))
        position = table.start + len(table.text)
    return "".join(pieces) + sql[position:]


def _as_before(new: str, short_name: str, following: Token | None) -> str:
    """The new table under an alias of its own, or under the first one's name; a column keeps that name before it."""
    if following is not None and following.text == ".":
        return short_name
    schema, table = new.split(".", 1)
    has_alias = (
        following is not None and following.kind in ("word", "quoted") and following.meaning not in NO_ALIAS
    )
    return f'{schema}."{table}"' + ("" if has_alias else f" as {short_name}")


def _renamed_keys(base: Definition, name: str) -> dict[str, str]:
    """One key takes the reading's name; several keep theirs with the name behind."""
    keys = base.header.keys
    if len(keys) == 1 and "$" not in next(iter(keys)):
        return {name: next(iter(keys.values()))}
    return {f"{key}:{name}": meaning for key, meaning in keys.items()}
