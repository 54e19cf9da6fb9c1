"""Partitions: runs and pairs of runs in run order, datasets, chunker versions."""

from __future__ import annotations

from collections.abc import Sequence

import dagster as dg
from sqlalchemy.exc import IntegrityError

EVAL_RUN = dg.DynamicPartitionsDefinition(name="eval_run")
EVAL_DATASET = dg.DynamicPartitionsDefinition(name="eval_dataset")
EVAL_CHUNKER = dg.DynamicPartitionsDefinition(name="eval_chunker")
EVAL_COMPARISON = dg.DynamicPartitionsDefinition(name="eval_comparison")

# Deleting one key costs about ten milliseconds: more than this is put off until a command has the time.
MOVES_PER_TICK = 1_000


def register_runs(
    instance: dg.DagsterInstance, run_ids: Sequence[str], *, may_move: bool, most_moves: int | None = None
) -> None:
    """Make the registered runs these, in this order, which is the order of plots and ranges.

    A run that came late is put in its place by taking the later ones out and registering them again. While something
    is being computed (`may_move` False) nothing is taken out: a range that is under way would lose its ends.
    """
    _register_in_order(instance, EVAL_RUN, run_ids, may_move=may_move, most_moves=most_moves)


def register_comparisons(
    instance: dg.DagsterInstance, pairs: Sequence[str], *, may_move: bool, most_moves: int | None = None
) -> None:
    """Make these pairs known, in this order; a pair that somebody registered by hand stays, before all others."""
    wanted = set(pairs)
    by_hand = [pair for pair in registered_comparisons(instance) if pair not in wanted]
    _register_in_order(
        instance, EVAL_COMPARISON, [*by_hand, *pairs], may_move=may_move, most_moves=most_moves
    )


def _register_in_order(
    instance: dg.DagsterInstance,
    definition: dg.DynamicPartitionsDefinition,
    keys: Sequence[str],
    *,
    may_move: bool,
    most_moves: int | None,
) -> None:
    name = str(definition.name)
    registered = list(instance.get_dynamic_partitions(name))
    same = 0
    while same < min(len(registered), len(keys)) and registered[same] == keys[same]:
        same += 1
    displaced = registered[same:]
    if displaced and may_move and (most_moves is None or len(displaced) <= most_moves):
        for key in displaced:
            instance.delete_dynamic_partition(name, key)
        missing = list(keys[same:])
    else:
        known = set(registered)
        missing = [key for key in keys if key not in known]
    _add(instance, name, missing)


def registered_runs(instance: dg.DagsterInstance) -> list[str]:
    """The registered runs, in order."""
    return list(instance.get_dynamic_partitions(str(EVAL_RUN.name)))


def registered_comparisons(instance: dg.DagsterInstance) -> list[str]:
    """The registered pairs, in order."""
    return list(instance.get_dynamic_partitions(str(EVAL_COMPARISON.name)))


def register_sources(
    instance: dg.DagsterInstance, datasets: Sequence[str], chunker_versions: Sequence[str]
) -> None:
    """Make these datasets and chunker versions known."""
    for definition, keys in ((EVAL_DATASET, datasets), (EVAL_CHUNKER, chunker_versions)):
        known = set(instance.get_dynamic_partitions(str(definition.name)))
        _add(instance, str(definition.name), [key for key in dict.fromkeys(keys) if key not in known])


def _add(instance: dg.DagsterInstance, name: str, keys: Sequence[str]) -> None:
    """Register keys; where another process registers some of them meanwhile, those that are still missing."""
    missing = list(keys)
    while missing:
        try:
            instance.add_dynamic_partitions(name, missing)
            return
        except IntegrityError:
            known = set(instance.get_dynamic_partitions(name))
            still = [key for key in missing if key not in known]
            if len(still) == len(missing):
                raise
            missing = still
