"""Scores of others as metrics: each name a key, with the direction and range it is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from eval_pipeline.formulas.definition import Definition
from eval_pipeline.formulas.registry import Registry

PREFIX: Final = "scores."

# Run, name, models, versions, sources, n, `is_binary` and `has_numbers` of the scores of these runs, or (null) of all.
# Human scores are a metric of their own if a judge or a program also gave scores of that name, as in metrics.scores.
DELIVERED_SCORES: Final = """
select run_key,
    name || case when is_human and not bool_and(is_human) over (partition by run_key, name) then '.human' else '' end,
    models, versions, sources, n, is_binary, has_numbers
from (
    select run_key, name, coalesce(source = 'human', false) as is_human,
        list(distinct model order by model) filter (model is not null) as models,
        list(distinct version order by version) filter (version is not null) as versions,
        list(distinct source order by source) filter (source is not null) as sources,
        count(coalesce(cast(value as varchar), label)) as n,
        bool_and(value is null or value in (0, 1)) as is_binary,
        count(value) > 0 as has_numbers
    from (
        select run_key, name, value, label, source, model, version from raw.scores
        union all
        select run_key, name, value, label, source, model, version from raw.run_scores
    )
    where $run_keys is null
        or run_key between list_min($run_keys) and list_max($run_keys) and run_key in (select unnest($run_keys))
    group by run_key, name, is_human
)
order by all
"""


class Delivered(NamedTuple):
    """Whether the numbers of a score are 0 and 1 alone, and whether there are any."""

    is_binary: bool
    has_numbers: bool


def score_metric(registry: Registry, by_name: Definition, name: str, *, of: Delivered) -> Definition:
    """The definition of all scores as that of this one alone; a family of its own, since nothing relates it to others.

    Without a range nothing is known of how far a query can move, unless all values there are are 0 and 1.
    """
    said = registry.config.scores.get(name, {})
    labels = said.get("labels", {}).values()
    is_binary = of.is_binary and (of.has_numbers or bool(labels)) and set(labels) <= {0, 1}
    low, high = said.get("range") or ((0, 1) if is_binary else (None, None))
    key = PREFIX + name
    header = replace(
        by_name.header,
        keys={key: _meaning(said)},
        scale="binary" if is_binary and (low, high) == (0, 1) else "fraction" if low is not None else "count",
        value_range=(low, high),
        direction=said.get("direction", by_name.header.direction),
        family=key,
        headline=(key,),
    )
    return replace(by_name, header=header, columns=())


def score_of(registry: Registry, key: str) -> dict[str, Definition]:
    """The score of that key, whether or not anybody has delivered one yet; nothing for keys of other metrics."""
    by_name = next((one for one in registry if one.is_scored_by_name), None)
    if by_name is None or not key.startswith(PREFIX) or key == PREFIX:
        return {}
    nothing = Delivered(is_binary=False, has_numbers=False)
    return {key: score_metric(registry, by_name, key.removeprefix(PREFIX), of=nothing)}


def _meaning(said: Mapping[str, Any]) -> str:
    unit = said.get("unit")
    return "The score of this name, as it was delivered" + (f", in {unit}" if unit else "")
