"""Dagster and nothing else: what it shows and schedules, made from the registry.

assets           Every fact, metric and aggregate as an asset, made from the registry.
checks           Asset checks: one statement for the range and all of history, the failing runs by name.
comparisons      Comparisons and published pages as assets, and the gate as a check.
evaluating       Suites: a job and a schedule for each, and what targets and judges said, as assets.
event_log        Dagster's SQLite storage for runs of many partitions: the events of a table are written together.
events           What a step shows: one event for each partition that it computed, saying what is true of that one.
home_faults      What is wrong with the files that Dagster keeps its events in, in words, once something failed.
jobs             The jobs: the nightly evaluation, recomputation, comparisons, pages, loading sources.
launches         From due cells to Dagster runs: contiguous ranges of partitions, each launched once.
location         The code location: everything Dagster shows, for one set of settings.
metadata         What the web interface says about an asset: words, columns, and the numbers of a computation.
partitions       Partitions: runs and pairs of runs in run order, datasets, chunker versions.
postgres         Dagster's events in PostgreSQL; needs the extra `postgres`.
processes        Which process executes a run: dead runs are failed, servers end with their supervisor.
resources        The store as a Dagster resource, and what a command hears of its computation.
schedule         The schedule that takes the night in, at the hour that eval-pipeline.toml says.
sensors          The sensors of inbox, ledger and comparisons.
sources          What is delivered, as assets: golden sets and archives by version, the parts of runs by run.
stale_memory     What the sensor stale_metrics remembers between two looks, and what it may launch.
tags             What a Dagster run is told: by its configuration in the launchpad, or by its tags.
telling          What people are told without having a run: that one has failed, and what was computed elsewhere.
"""
