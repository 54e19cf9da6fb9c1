"""What a definition is: its header, its meaning (the fingerprint), and the registry of all of them.

catalogue      The catalogue: everything there is to know about a definition, from the definition itself.
decorator      A formula in Python declares what a SQL file says in its header; nothing downstream can tell which it
               was.
definition     A definition: one file, one derived table.
fingerprint    The fingerprint of a definition: it moves exactly when the meaning can.
header         The header of a definition file: what it asks, when it applies, and worked examples, as YAML behind
               `-- `.
lock_file      definitions.lock: the meaning of every definition as it was last agreed on, one line each, in git.
polars         Shipped formulas in Python: a file here is a table, as a file under sql/metrics is.
python_source  The meaning of a formula written in Python: its source and that of everything it names in its own
               folder.
registry       All definitions: the shipped folder, one's own folder laid over it, and the readings of eval-
               pipeline.toml.
text_columns   Which texts a definition reads: what freezes it where those texts were forgotten.
tokens         SQL as tokens: enough to tell meaning from layout, and to see what a statement reads and calls.
variants       Other readings: parameters changed for a name, or a second name beside the first.
"""
