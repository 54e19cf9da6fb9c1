"""What a definition is: its header, its fingerprint, and the registry of all of them.

catalogue      The catalogue: everything there is to know about a definition, from the definition itself.
decorator      @formula: how a formula in Python declares what a SQL file says in its header.
definition     A definition: one file, one derived table.
fingerprint    The fingerprint of a definition: it moves exactly when the meaning can.
header         The header of a definition file, YAML behind `-- `: keys, when it applies, worked examples.
lock_file      definitions.lock: the fingerprint of every definition as last agreed on, one line each, in git.
new_formula    A formula to start from: a file of one's own that holds as it is written.
polars         Shipped formulas in Python: a file here is a table, as a file under sql/metrics is.
python_source  The meaning of a formula in Python: its source and all that it names in its own folder.
readable       The definitions that can be read, for commands that only show what is stored.
registry       All definitions: the shipped folder, your own folder over it, and eval-pipeline.toml.
scores         Scores of others as metrics: each name a key, with the direction and range that it is given.
text_columns   Which texts a definition reads: what freezes it where those texts were forgotten.
tokens         SQL as tokens: enough to tell meaning from layout, and to see what a statement reads and calls.
variants       Variants: parameters changed under a definition's name, or a second name beside the first.
"""
