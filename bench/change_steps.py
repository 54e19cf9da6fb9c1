"""The steps of bench/change.py, each in a process of its own: it prints its times and its peak memory as JSON."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from history import run_name
from spine_steps import Stopwatch, now, peak_megabytes, settings_in

from eval_pipeline.computing.measure import measure
from eval_pipeline.computing.states import states_of_cells
from eval_pipeline.formulas.registry import Registry, load_registry
from eval_pipeline.launch import run_in_dagster
from eval_pipeline.loading.load import load_bundles
from eval_pipeline.planning.plan import find_plan, select_cells
from eval_pipeline.planning.preview import find_preview
from eval_pipeline.planning.preview_verdicts import MOST_PAIRS
from eval_pipeline.planning.status import find_status
from eval_pipeline.settings import Settings
from tests.projects import open_reader, open_writer, project_of, store_with

FORMULA = "metrics.reciprocal_rank"
AGGREGATES = f"aggregates.run_metrics:{FORMULA}"


def changed(settings: Settings, cutoff: int) -> Registry:
    """The definitions with another cut-off of the reciprocal rank."""
    settings.config.write_text(f"[formulas.reciprocal_rank]\ncutoff = {cutoff}\n", "utf-8")
    return load_registry(settings)


def place(store: Path) -> Settings:
    """A store with a configuration and a Dagster home of its own."""
    return replace(settings_in(store), config=store / "change.toml", dagster_home=store / "dagster_home")


def fill(_: Stopwatch, store: Path, bundle: Path) -> None:
    """Take a bundle in and compute everything."""
    settings = place(store)
    load_bundles([bundle], project_of(settings, now=now()))
    measure(project_of(settings, changed(settings, 10), now=now()), reasons=None)


def pad(_: Stopwatch, store: Path, n_runs: str) -> None:
    """Older runs that are known to the ledger alone, all fresh, until there are so many."""
    settings = place(store)
    registry = load_registry(settings)
    with open_writer(settings.db) as con:
        ((key, known),) = con.execute("select max(run_key), count(*) from raw.runs").fetchall()
        more = max(0, int(n_runs) - known)
        con.execute(
            "insert into raw.runs by name select * exclude (i) replace (run_key + i as run_key, "
            "'older-' || i as run_id, "
            "created_at - to_days(cast(1000 + i as integer)) as created_at) "
            "from (from raw.runs where run_key = ?), range(1, ? + 1) t(i)",
            [key, more],
        )
        con.execute(
            "insert into raw.run_parts by name select * exclude (i) replace (run_key + i as run_key, "
            "content_hash || i as content_hash) from (from raw.run_parts where run_key = ?), range(1, ? + 1) t(i)",
            [key, more],
        )
        states = states_of_cells(store_with(con, registry))
        con.execute(
            "insert into ledger.cells by name select s.definition, s.source, s.run_key, s.fingerprint, "
            "s.own_fingerprint, s.source_fingerprint, s.results_hash, s.labels_hash, s.archive_hash, s.golden_key, "
            "0 as n_rows, 0.001 as seconds, now()::timestamp as computed_at, 'missing' as reason "
            f"from {states.table} s where s.reason = 'missing'"
        )


def questions(watch: Stopwatch, store: Path, rounds: str) -> None:
    """What `status` and `plan` ask the ledger, when a formula has changed for every run."""
    settings = place(store)
    registry = changed(settings, 3)
    for _ in range(int(rounds)):
        watch.time("status", lambda: find_status(project_of(settings, registry)))
        watch.time("plan", lambda: find_plan(project_of(settings, registry)))
    with open_reader(settings.db) as con:
        ((cells,),) = con.execute("select count(*) from ledger.cells").fetchall()
    watch.wall["cells"] = watch.cpu["cells"] = float(cells)
    settings.config.unlink()


def change(watch: Stopwatch, store: Path, rounds: str) -> None:
    """The formula alone, with its aggregates, and the preview, each in turn with a scan of the hits."""
    settings = place(store)

    def scan() -> None:
        with open_reader(settings.db) as con:
            ask = con.execute
            watch.time("scan", lambda: ask("select count(*), sum(hash(chunk_key)) from raw.hits").fetchall())

    def preview(registry: Registry, most_pairs: int = 0, runs: tuple[str, ...] = ()) -> None:
        selection = select_cells(registry, only=[FORMULA], runs=runs)
        found = find_preview(project_of(settings, registry), selection, most_pairs=most_pairs)
        assert found["preview"]["mrr"]["changed_queries"]

    one = (run_name(0),)
    for number in range(int(rounds)):
        registry = changed(settings, 1 + number % 5)
        compute = partial(measure, project_of(settings, registry, now=now()), reasons=None)
        scan()
        watch.time("preview, one run", partial(preview, registry, runs=one))
        watch.time("preview", partial(preview, registry))
        watch.time("preview with verdicts", partial(preview, registry, MOST_PAIRS))
        for name, asked in (("formula", FORMULA), ("aggregates", AGGREGATES)):
            scan()
            watch.time(f"{name}, one run", partial(compute, definitions={asked}, run_ids=set(one)))
            watch.time(name, partial(compute, definitions={asked}))


def apply(watch: Stopwatch, store: Path) -> None:
    """The whole of `apply`, with Dagster's events, and the computation alone; runs are shown to Dagster before."""
    settings = place(store)

    def through_dagster(cutoff: int) -> None:
        changed(settings, cutoff)
        run_in_dagster(project_of(settings), reasons=None, definitions={FORMULA, AGGREGATES})

    through_dagster(7)
    watch.time("apply", partial(through_dagster, 8))
    registry = changed(settings, 9)
    asked = {FORMULA, AGGREGATES}
    watch.time(
        "alone", lambda: measure(project_of(settings, registry, now=now()), reasons=None, definitions=asked)
    )


def one_stale(watch: Stopwatch, store: Path, *bundles: Path) -> None:
    """One run is delivered anew with other rows, and computed."""
    settings = place(store)
    registry = load_registry(settings)
    for bundle in bundles:
        load_bundles([bundle], project_of(settings, now=now()))
        watch.time("one stale run", lambda: measure(project_of(settings, registry, now=now())))


STEPS: dict[str, Callable[..., None]] = {
    "fill": fill,
    "pad": pad,
    "questions": questions,
    "change": change,
    "apply": apply,
    "one stale": one_stale,
}


def main() -> None:
    name, *arguments = sys.argv[1:]
    watch = Stopwatch()
    started = time.perf_counter()
    STEPS[name](watch, *(Path(one) if "/" in one else one for one in arguments))
    print(f"  {time.perf_counter() - started:.1f} s", file=sys.stderr)
    print(json.dumps({**watch.times(), "peak_mb": peak_megabytes()}))


if __name__ == "__main__":
    main()
