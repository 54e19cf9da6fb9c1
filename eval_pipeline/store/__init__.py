"""The DuckDB file: opening it, its lock, its schema, its keys, and which runs it holds.

compact      Writing the store's file anew without what was removed: DuckDB keeps freed blocks, and what stood in
             them.
damage       A file that is no store of ours, or is broken: found out before it is touched, and said with the way
             back.
engine       DuckDB's engine without a file: one costs as much as a hundred small statements, so a process uses it
             again.
frozen       Texts that were emptied: what was computed from them stays, and what reads them is frozen from then on.
guarded      A connection that can read the store and nothing else.
kept         Deliveries as they came, kept beside the store: what everything else can be computed from again.
key_columns  Where in the store a run, a golden set, an archive or an id is referred to: by the names of columns.
keys         Text ids become integer keys: looked up, and given out where new.
lock         Who may use the store's file: one writer or many readers, by locks that end with the process that holds
             them.
open         Opening the store: always the same configuration, always behind the lock, never for longer than needed.
runs         Questions to the store about runs, answered from one reading connection.
schema       The store's schema: numbered files applied in order, and the views that people and notebooks read.
tombstones   What was forgotten on purpose and must not come back; kept in the store and, for a store that breaks,
             beside it.
"""
