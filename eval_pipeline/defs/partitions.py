"""Partitions: runs in run order, datasets, chunker versions."""

from __future__ import annotations

from collections.abc import Sequence

import dagster as dg

EVAL_RUN = dg.DynamicPartitionsDefinition(name="eval_run")
EVAL_DATASET = dg.DynamicPartitionsDefinition(name="eval_dataset")
EVAL_CHUNKER = dg.DynamicPartitionsDefinition(name="eval_chunker")

# Deleting one key costs about ten milliseconds: more than this is put off until a command has the time.
MOVES_PER_TICK = 1_000


def register_runs(
    instance: dg.DagsterInstance, run_ids: Sequence[str], *, may_move: bool, most_moves: int | None = None
) -> None:
    """Make the registered runs these, in this order, which is the order of plots and ranges.

    A run that came late is put in its place by taking the later ones out and registering them again. While something
    is being computed (`may_move` False) nothing is taken out: a range that is under way would lose its ends.
    """
    name = str(EVAL_RUN.name)
    registered = list(instance.get_dynamic_partitions(name))
    same = 0
    while same < min(len(registered), len(run_ids)) and registered[same] == run_ids[same]:
        same += 1
    displaced = registered[same:]
    if displaced and may_move and (most_moves is None or len(displaced) <= most_moves):
        for run_id in displaced:
            instance.delete_dynamic_partition(name, run_id)
        missing = list(run_ids[same:])
    else:
        known = set(registered)
        missing = [run_id for run_id in run_ids if run_id not in known]
    if missing:
        instance.add_dynamic_partitions(name, missing)


def registered_runs(instance: dg.DagsterInstance) -> list[str]:
    """The registered runs, in order."""
    return list(instance.get_dynamic_partitions(str(EVAL_RUN.name)))


def register_sources(
    instance: dg.DagsterInstance, datasets: Sequence[str], chunker_versions: Sequence[str]
) -> None:
    """Make these datasets and chunker versions known."""
    for definition, keys in ((EVAL_DATASET, datasets), (EVAL_CHUNKER, chunker_versions)):
        known = set(instance.get_dynamic_partitions(str(definition.name)))
        missing = [key for key in dict.fromkeys(keys) if key not in known]
        if missing:
            instance.add_dynamic_partitions(str(definition.name), missing)
