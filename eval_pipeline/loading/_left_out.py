"""Deliveries of what was forgotten on purpose: they stay out, and the load says so."""

from __future__ import annotations

from collections.abc import Sequence

from eval_pipeline.bundle.layout import Bundle, RunFolder
from eval_pipeline.loading._write_runs import RunDelivery
from eval_pipeline.loading.context import Load
from eval_pipeline.records import Run
from eval_pipeline.store.open import Connection
from eval_pipeline.store.tombstones import find_forgotten


def leave_out_sources(load: Load, bundle: Bundle) -> None:
    """Take the golden sets and archives of forgotten datasets out of the bundle."""
    forgotten = load.before.forgotten
    stay_out = [one.dataset for one in bundle.golden_sets if one.dataset in forgotten.datasets]
    stay_out += [one.dataset for one in bundle.archives if one.dataset and one.dataset in forgotten.datasets]
    stay_out += [one.dataset for one in bundle.case_lists if one.dataset in forgotten.datasets]
    _say(load, stay_out)
    bundle.golden_sets = [one for one in bundle.golden_sets if one.dataset not in stay_out]
    bundle.case_lists = [one for one in bundle.case_lists if one.dataset not in stay_out]
    bundle.archives = [one for one in bundle.archives if one.dataset not in stay_out]


def leave_out_runs(load: Load, runs: Sequence[tuple[RunFolder, Run]]) -> list[tuple[RunFolder, Run]]:
    """The runs without those that were forgotten, alone or with their dataset."""
    forgotten = load.before.forgotten
    _say(load, [run.run_id for _, run in runs if forgotten.keeps_out(run.run_id, run.dataset)])
    return [entry for entry in runs if not forgotten.keeps_out(entry[1].run_id, entry[1].dataset)]


def leave_out_written(load: Load, con: Connection, batch: Sequence[RunDelivery]) -> list[RunDelivery]:
    """Asked inside the transaction that writes them: without what was forgotten since the batch was read and kept."""
    forgotten = find_forgotten(con, scopes=load.options.forgotten_scopes)
    remaining: list[RunDelivery] = []
    for delivery in batch:
        if not forgotten.keeps_out(delivery.run.run_id, delivery.run.dataset):
            remaining.append(delivery)
            continue
        _say(load, [delivery.run.run_id])
    return remaining


def was_forgotten_meanwhile(load: Load, con: Connection, dataset: str | None) -> bool:
    """The same for a golden set or an archive of a dataset."""
    if dataset is None or dataset not in find_forgotten(con, scopes=load.options.forgotten_scopes).datasets:
        return False
    _say(load, [dataset])
    return True


def _say(load: Load, names: Sequence[str]) -> None:
    known = set(load.report.forgotten)
    load.report.forgotten += [name for name in dict.fromkeys(names) if name not in known]
