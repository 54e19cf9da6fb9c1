"""Partitions that two processes register at the same moment."""

from __future__ import annotations

import dagster as dg
import pytest
from sqlalchemy.exc import IntegrityError

from eval_pipeline.defs.partitions import register_runs, registered_runs


class Overtaken:
    """Dagster's home, in which somebody else registers a run between a look and a write."""

    def __init__(self, instance: dg.DagsterInstance, by_others: list[str]) -> None:
        self.instance, self.by_others = instance, by_others

    def get_dynamic_partitions(self, name: str) -> list[str]:
        return list(self.instance.get_dynamic_partitions(name))

    def add_dynamic_partitions(self, name: str, keys: list[str]) -> None:
        if self.by_others:
            self.instance.add_dynamic_partitions(name, [self.by_others.pop()])
            raise IntegrityError("insert", {}, Exception("UNIQUE constraint failed"))
        self.instance.add_dynamic_partitions(name, keys)


def test_a_run_that_another_process_registers_meanwhile_is_registered_once_and_the_others_too():
    with dg.DagsterInstance.ephemeral() as instance:
        register_runs(Overtaken(instance, ["b", "a"]), ["a", "b", "c"], may_move=True)
        assert sorted(registered_runs(instance)) == ["a", "b", "c"]


def test_what_cannot_be_registered_for_another_reason_is_not_tried_for_ever():
    with dg.DagsterInstance.ephemeral() as instance, pytest.raises(IntegrityError):
        register_runs(Overtaken(instance, ["elsewhere"]), ["a"], may_move=True)
