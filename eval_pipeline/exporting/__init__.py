"""What leaves the store as files: a run's documents, runs in the forms of other tools, numbers as frames.

documents  A run as files: its document, its configuration, its extraction results, and one row per query.
formats    Which forms there are, what each carries, and runs written in one of them.
frames     Numbers as Polars frames: per query, and of whole runs and their slices.
"""
