"""Dagster brought up to what the store and the inbox hold."""

from __future__ import annotations

import datetime as dt

import dagster as dg

from eval_pipeline.defs.partitions import register_runs
from eval_pipeline.defs.sources import _report_sources
from eval_pipeline.loading.inbox import Inbox, WaitingRun, waiting_runs
from eval_pipeline.showing.runs import run_order
from eval_pipeline.store.open import Connection


def report_existing(
    instance: dg.DagsterInstance,
    con: Connection,
    inbox: Inbox,
    *,
    now: dt.datetime,
    may_move: bool,
    most_moves: int | None = None,
) -> list[WaitingRun]:
    """Register runs, datasets and chunker versions, report new versions of sources; returns what waits in the inbox.

    Runs that wait are registered too: whoever launches them must not find them taken out by somebody else.
    """
    waiting = waiting_runs(con, inbox)
    register_runs(instance, run_order(con, waiting, now=now), may_move=may_move, most_moves=most_moves)
    _report_sources(instance, con)
    return waiting
