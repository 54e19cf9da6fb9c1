"""Dagster's events in PostgreSQL; needs the extra `postgres`.

storage  Dagster's PostgreSQL storage for runs of many partitions, as `event_log` is for its files.
"""
