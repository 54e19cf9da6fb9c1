"""Other people's files become a bundle here.

mapped_rows  Somebody's own rows as results of the contract, through a mapping.
mapping      mapping.toml: which fields of somebody's own rows mean what; every mistake in it is named.
proposal     What `init` writes: a mapping guessed from a file's first rows, with comments for its editor.
tables       Somebody's own file as rows: JSON Lines, one JSON document, CSV and the like, Parquet; also packed.
"""
