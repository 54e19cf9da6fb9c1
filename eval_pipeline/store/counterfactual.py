"""A metric as it would be for a run under another meaning or other labels, from the rows that are stored now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from eval_pipeline.formulas.definition import Definition, Helper, quoted
from eval_pipeline.store.connect import Connection
from eval_pipeline.store.meanings import find_meaning
from eval_pipeline.store.visible import CATALOGUE, Scope
from eval_pipeline.store.whatif import drop, evaluate, scratch


@dataclass(frozen=True)
class Outcome:
    """Mean, and the value of every query that has one."""

    values: Mapping[int, float]
    mean: float | None


def compute_under(
    con: Connection, store: str, *, formula: str, fingerprint: str, key: str, scope: Scope
) -> Outcome | None:
    """The key's values for the one run of the scope; None when the meaning is not known well enough."""
    chain = chain_of(con, store, formula, fingerprint)
    if chain is None:
        return None
    names = [definition.name for definition, _ in chain]
    drop(con, names)
    for definition, helpers in chain:
        for helper in helpers:
            arguments = ", ".join(helper.header.arguments)
            con.execute(f"create or replace temp macro {helper.name}({arguments}) as ({helper.body})")
        evaluate(con, store, [definition], scope, standing=names[: names.index(definition.name)])
    target = names[-1]
    if key not in chain[-1][0].keys:
        return None
    rows = con.execute(
        f"select query_key, {quoted(key)} from {scratch(target)} where {quoted(key)} is not null"
    ).fetchall()
    mean = con.execute(
        f"select exact_sum({quoted(key)}) / nullif(count({quoted(key)}), 0) from {scratch(target)}"
    )
    value = mean.fetchall()[0][0]
    drop(con, names)
    return Outcome(dict(rows), value)


def chain_of(
    con: Connection, store: str, name: str, fingerprint: str
) -> list[tuple[Definition, list[Helper]]] | None:
    """The definition at that meaning with everything it read, parents first."""
    con.execute(f'use "{store}"')
    found: dict[str, tuple[Definition, list[Helper]]] = {}

    def collect(one: str, meaning: str) -> bool:
        if one in found:
            return True
        entry = find_meaning(con, one, meaning)
        if entry is None:
            return False
        definition, parents, helpers = entry
        if not all(collect(parent, parents[parent]) for parent in parents):
            return False
        found[one] = (definition, helpers)
        return True

    complete = collect(name, fingerprint)
    con.execute(f"use {CATALOGUE}")
    return list(found.values()) if complete else None
