"""Cells that are stale because another version of the product replaced the one that computed them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from eval_pipeline.computing.definition_versions import _helpers_behind
from eval_pipeline.computing.states import States
from eval_pipeline.formulas.definition import Definition
from eval_pipeline.formulas.fingerprint import combined
from eval_pipeline.formulas.lock_file import is_locked
from eval_pipeline.formulas.registry import Registry
from eval_pipeline.settings import product_version

# Beside the reasons for which a cell is stale: somebody may ask for these cells, or leave them out.
UPGRADE = "upgrade"

# (definition, source, stored fingerprint)
StoredMeaning = tuple[str, str, str]


class _Meaning(NamedTuple):
    own_fingerprint: str
    header: str
    body: str
    parents: str
    helpers: str


Meanings = Mapping[tuple[str, str], _Meaning]


def upgraded_cells(states: States, registry: Registry) -> dict[StoredMeaning, str]:
    """What of these cells is stale over an upgrade → the version that computed it."""
    rows = states.rows(
        "distinct definition, source, stored_fingerprint, stored_source_fingerprint, stored_version",
        "reason in ('formula', 'parent') and stored_version <> ?",
        [product_version()],
    )
    if not rows:
        return {}
    known: Meanings = {
        (name, fingerprint): _Meaning(*rest)
        for name, fingerprint, *rest in states.con.execute(
            "select name, fingerprint, own_fingerprint, header, body, parents, helpers from ledger.definitions"
        ).fetchall()
    }
    return {
        (definition, source, fingerprint): version
        for definition, source, fingerprint, source_fingerprint, version in rows
        if any(
            _is_the_products(one, then, registry)
            for name, meant in _ends(known, definition, source, fingerprint, source_fingerprint)
            for one, then in _moved(known, registry, name, meant)
        )
    }


def _ends(
    known: Meanings, definition: str, source: str, fingerprint: str, source_fingerprint: str
) -> Iterator[tuple[str, str]]:
    """What a cell was computed with, by name and fingerprint; an aggregate's is made of its own and its formula's."""
    if not source:
        yield definition, fingerprint
        return
    yield source, source_fingerprint
    for name, meant in known:
        if name == definition and combined(meant, source_fingerprint) == fingerprint:
            yield name, meant


def _moved(
    known: Meanings, registry: Registry, name: str, fingerprint: str
) -> Iterator[tuple[Definition, _Meaning]]:
    """Which definitions behind a meaning mean something else today, with what they meant."""
    one = registry.definitions.get(name)
    if one is None or one.fingerprint == fingerprint:
        return
    then = known.get((name, fingerprint)) or known.get((f"{one.schema}.{one.header.was}", fingerprint))
    if then is None:
        return
    if then.own_fingerprint != one.own_fingerprint:
        yield one, then
    for parent, meant in json.loads(then.parents).items():
        yield from _moved(known, registry, parent, meant)


def _is_the_products(one: Definition, then: _Meaning, registry: Registry) -> bool:
    """Whether the product moved it, not the user: by a helper, as shipped, or by more than parameters."""
    header: dict[str, Any] = json.loads(then.header)
    now = (one.body, one.header.applies, one.header.undefined, one.header.aggregate)
    is_rewritten = now != (then.body, header["applies"], header["undefined"], header["aggregate"])
    if not is_rewritten and _shipped_helpers_moved(one, then, registry):
        return True
    if one.is_own:
        return False
    if one.variant_of is None and not {one.short_name, one.name} & set(registry.config.formulas):
        return is_locked(one)
    return is_rewritten


def _shipped_helpers_moved(one: Definition, then: _Meaning, registry: Registry) -> bool:
    """Whether it calls what it called, and the product says otherwise what that computes."""
    before, now = json.loads(then.helpers), _helpers_behind(one, registry.helpers)
    moved = {name for name in {*before, *now} if before.get(name) != now.get(name)}
    return bool(moved) and not any(
        name in registry.helpers and registry.helpers[name].is_own for name in moved
    )
