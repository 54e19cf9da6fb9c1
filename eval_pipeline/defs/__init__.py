"""Dagster and nothing else: what it shows and schedules, made from the registry; the work is done by the pipeline."""
