"""The DuckDB file: everything that knows its tables is in this folder."""
