"""The DuckDB file: opening it, its lock, its schema, its keys, and which runs it holds.

checkpoint   What was committed brought into the store's file, in a way that a torn write can be undone.
compact      The store's file written again without the blocks that removed rows have left.
damage       A file that is no store or is broken: found before it is touched, with the way back.
durable      Files that are there after a power loss: forced to the disk, then renamed, then their folder.
engine       DuckDB's engines, used again with the file attached; Ctrl-C within a statement.
frozen       Emptied texts: values computed from them stay, and what reads them is frozen from then on.
inspection   The store looked at as it lies there: of any version, and nothing is put beside it.
kept         Deliveries as they came, kept beside the store: what everything else can be computed from again.
key_columns  Where the store refers to a run, a golden set, an archive or an id: by names of columns.
keys         Text ids and texts as keys: looked up, and given out where new.
lock         Who may use the store's file, one writer or many readers, until their process ends.
open         The store opened: configured alike, behind the lock, for as short as can be.
project      What a command works on: the project, and its store while it is open.
questions    Somebody's SQL on a connection that can read the store and nothing else.
runs         Runs found by name, in run order, as attempts at their nights, with what is stored of them.
schema       The store's schema: numbered files applied in order, and the views that people and notebooks read.
tombstones   What was forgotten on purpose and must not come back, in the store and beside it.
versions     Which versions of the product wrote to a store: the newest of them says who may open it.
"""
