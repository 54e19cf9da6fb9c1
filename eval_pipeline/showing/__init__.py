"""What stands in the store, as documents: of a run, of a range of runs, of the sources.

blocks     The parts of a run's document that are about the whole run: speed, the judge, extraction, indexing.
checks     Checks over a range of runs, each one statement: what is wrong, run by run.
document   A run's aggregate_json: computed from what is stored (no query is asked again), and written back.
export     A run as files: its document, its configuration, its extraction results, and one row per query.
marks      What stands of a run's values and does not hold any more, or is left as it is on purpose.
page_rows  Rows that only pages show: where a run comes from, its queries with what there is to read, the runs of a
           suite.
query      SQL from people: read-only, and shut off from everything but the store.
runs       Runs in their order, and what there is to say about a range of them.
show       One run as a document: what `show RUN_ID --json` prints.
sources    Golden sets and chunk archives as they are now, and what their newest delivery changed.
"""
