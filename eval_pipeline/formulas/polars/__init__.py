"""Shipped formulas in Python: a file here is a table, as a file under sql/metrics is."""
