"""Dagster and nothing else: what it shows and schedules, made from the registry; other rooms do the work.

assets           Every fact, metric and aggregate as an asset, made from the registry.
checks           Asset checks: one statement for the whole range, the failing runs by name.
comparisons      Comparisons as an asset: a partition per pair of runs, written A..B, with what moved as metadata.
event_log        Dagster's SQLite storage for a command that computes many partitions at once.
jobs             Jobs: the nightly evaluation with its comparisons and pages, recomputation, and taking in sources.
launches         From due cells to Dagster runs: contiguous ranges of partitions, each launched once.
location         The code location: everything Dagster shows, for one set of settings.
metadata         What the web interface says about an asset: words from the header, columns, and the numbers of a
                 computation.
partitions       Partitions: runs and pairs of runs in run order, datasets, chunker versions.
processes        Runs whose process has died: Dagster goes on showing them as started, and here they are marked as
                 failed.
report_existing  Bringing what Dagster shows up to what the store and the inbox hold.
resources        The store as a Dagster resource: our lock, our configuration, and the settings of the call.
schedule         The nightly schedule: its hour stands in eval-pipeline.toml, and it is off until somebody switches
                 it on.
sensors          The inbox, the ledger and the comparisons, watched.
sources          What is delivered, as assets: golden sets and archives by version, the parts of runs by run.
stale_memory     What the sensor stale_metrics remembers between two looks, and what it is therefore free to launch.
tags             What a Dagster run is told by its tags.
"""
