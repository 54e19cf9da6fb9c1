"""The format: a bundle's files become checked rows; nothing in this room knows the store.

ahead         Reading ahead: the next pieces are read on other threads while the caller is busy with this one.
columns       Records as Arrow columns, and a block of results as flat tables whose rows point back to their result.
extractions   extractions.jsonl: one case a line, checked so that its counts can be trusted.
files         Delivered files: found by name in any accepted packing, hashed, and read in blocks of whole lines.
golden        A golden set: YAML or JSON Lines → checked rows in the order they were written.
layout        What a bundle folder holds: which datasets, archives and runs, before anything of them is read.
lines         The careful reader: one line, one record, and for every line that is none the reason.
packed_lines  Rows written as packed JSON Lines, each on the line it came from, so that its number still leads back.
parquet       Parquet: a file's rows in batches, as the columns that a record asks for or, row by row, as lines of
              JSON.
parts         The smaller parts of a bundle: run.json, archives, index reports, spot checks.
problems      What was wrong with a piece of input, and where it stood.
results       results.jsonl → flat tables of results, hits, spans, citations and references.
texts         Delivered rows without their texts: kept back for one load, or forgotten for good.
"""
