"""Take bundles in: golden sets and archives first, then runs."""

from __future__ import annotations

import datetime as dt
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from eval_pipeline.formulas.config import load_config
from eval_pipeline.ingest.bundle import Bundle, find_bundle
from eval_pipeline.pipeline.beforehand import look_beforehand
from eval_pipeline.pipeline.forgotten_deliveries import leave_out_sources
from eval_pipeline.pipeline.load_runs import Progress, load_runs
from eval_pipeline.pipeline.load_sources import load_archive, load_golden_set
from eval_pipeline.pipeline.loading import Load, LoadOptions, quarantine
from eval_pipeline.pipeline.loading import LoadReport as LoadReport
from eval_pipeline.pipeline.settling import settle
from eval_pipeline.settings import Settings
from eval_pipeline.store.kept import kept_folder, stamp_of
from eval_pipeline.store.lock import Tell


def load_bundles(
    paths: Sequence[Path],
    settings: Settings,
    *,
    now: dt.datetime,
    tell: Tell | None = None,
    progress: Progress | None = None,
    options: LoadOptions | None = None,
    stop: Callable[[], bool] | None = None,
) -> LoadReport:
    """Take in everything the folders deliver; what cannot be taken is quarantined, the rest goes on."""
    return load_found(
        [find_bundle(path) for path in paths],
        settings,
        now=now,
        tell=tell,
        progress=progress,
        options=options,
        stop=stop,
    )


def load_found(
    bundles: Sequence[Bundle],
    settings: Settings,
    *,
    now: dt.datetime,
    tell: Tell | None = None,
    progress: Progress | None = None,
    options: LoadOptions | None = None,
    stop: Callable[[], bool] | None = None,
) -> LoadReport:
    """Take in these bundles; between two runs `stop` is asked whether to end with what is written."""
    chosen = options or LoadOptions()
    with _kept(settings, chosen, now) as kept:
        before = look_beforehand(
            settings, bundles, scopes=chosen.forgotten_scopes, dry_run=chosen.dry_run, tell=tell
        )
        inverted_spans = load_config(settings.config).inverted_spans
        load = Load(
            settings, LoadReport(), now, kept, before, inverted_spans, tell, chosen, stop or (lambda: False)
        )
        for bundle in bundles:
            quarantine(load, bundle.problems)
            leave_out_sources(load, bundle)
            for golden in bundle.golden_sets:
                load_golden_set(load, golden)
            for archive in bundle.archives:
                load_archive(load, archive)
        load_runs(load, [run for bundle in bundles for run in bundle.runs], progress=progress)
        if not chosen.dry_run:
            settle(load, bundles)
    return load.report


@contextmanager
def _kept(settings: Settings, options: LoadOptions, now: dt.datetime) -> Iterator[Path]:
    """Where the deliveries of this load are kept; those of a dry run end with it."""
    stamp = stamp_of(now)
    if not options.dry_run:
        yield kept_folder(settings.db) / stamp
        return
    with tempfile.TemporaryDirectory(prefix="eval-pipeline-") as scratch:
        yield Path(scratch) / stamp
