"""What the store holds, as documents: of a run, of a range of runs, of the sources.

blocks       The parts of a run's document about the whole run: speed, judge, extraction, indexing.
checks       Faults of a range of runs, each found by one statement: what is wrong, run by run.
document     A run's aggregate_json: computed from what is stored, and written back.
marks        Which values of a run are stale, missing, pinned or frozen.
page_rows    Rows that only pages show: where runs come from, queries with their texts, runs of a suite.
plausibility Whether labels, archives or earlier runs know a run's ids; else its label metrics say nothing.
query        SQL from people: read-only, on the store alone.
run_list     The list of runs, each with its state, and what differs between two configurations.
run_report   The types of the document that `show RUN_ID --json` prints, with what each field says.
run_state    The state of a run in one word: fresh, stale, missing, waiting, implausible or incomplete.
runs         Runs in their order, and what there is to say about a range of them.
scores       Scores of judges and other tools: their names as metrics, and how many of the needed ones there are.
show         One run as a document: what `show RUN_ID --json` prints.
sources      Golden sets and chunk archives as they are now, and what their newest delivery changed.
sqlite_base  Somebody's knowledge base in SQLite: aggregates of runs are written back into its table eval_runs.
undefined    Why metrics of a run have no value: the parts that were not delivered, or what else is missing.
"""
