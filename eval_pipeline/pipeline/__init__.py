"""The product as plain functions: what the command line and Dagster both call."""
