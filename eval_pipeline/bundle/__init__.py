"""The format: a bundle's files become checked rows; nothing in this room knows the store.

columns       Records as Arrow columns, and a block of results as flat tables.
extractions   extractions.jsonl: one case a line, checked so that its counts can be trusted.
files         Delivered files: found by name in any accepted packing, hashed, and read in blocks of whole lines.
golden        A golden set: YAML or JSON Lines → checked rows in the order they were written.
guarded_yaml  YAML that may mean harm, of golden sets and headers: read, or refused in milliseconds.
layout        What a bundle folder holds: which datasets, archives and runs, before anything of them is read.
lines         One line, one record: read with care, and with a reason for every line that is refused.
near_misses   Fields that no record has and that are named almost like one.
packed_lines  Rows written as packed JSON Lines, each on the line number it came from.
parquet       A Parquet file's rows in batches: as the columns of a record, or as lines of JSON.
parts         The smaller parts of a bundle: run.json, archives, index reports, spot checks, judgements.
problems      What was wrong with a piece of input, and where it stood.
results       results.jsonl and results.parquet as flat tables, read in bulk or line by line; odd spans.
scores        Scores of others under their own names: as a number or text alone, or with a reason and who said it.
secrets       Keys and passwords in what a run says of itself: found by the names that carry them, and masked.
texts         Delivered rows without their texts: left out by one load, or forgotten for good.
writer        A bundle written row by row from Python, and whole at the end or not there.
"""
