"""What the store holds, as documents: of a run, of a range of runs, of the sources.

blocks       The parts of a run's document about the whole run: speed, judge, extraction, indexing.
checks       Faults of a range of runs, each found by one statement: what is wrong, run by run.
document     A run's aggregate_json: computed from what is stored, and written back.
export       A run as files: its document, its configuration, its extraction results, and one row per query.
headlines    The metrics that are looked at first: each list in the order in which it is shown.
marks        Which values of a run are stale, missing, pinned or frozen.
page_rows    Rows that only pages show: where runs come from, queries with their texts, runs of a suite.
query        SQL from people: read-only, on the store alone.
run_report   The types of the document that `show RUN_ID --json` prints, with what each field says.
runs         Runs in their order, and what there is to say about a range of them.
show         One run as a document: what `show RUN_ID --json` prints.
sources      Golden sets and chunk archives as they are now, and what their newest delivery changed.
sqlite_base  Somebody's knowledge base in SQLite: a run's aggregate is written back into its table eval_runs.
undefined    Why metrics of a run have no value: the parts that were not delivered, or what else is missing.
"""
