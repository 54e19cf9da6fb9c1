"""Other people's files become a bundle here.

mapped_rows  Somebody's own rows as results of the contract.
mapping      mapping.toml: which fields of somebody's own rows mean what, checked so that every mistake is named.
proposal     A guessed mapping as the text of mapping.toml, with comments for whoever goes on from there.
tables       Somebody's own file of results as rows: JSON Lines, one JSON document, CSV and the like, Parquet; also
             packed.
"""
