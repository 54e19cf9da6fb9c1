"""What is derived from the delivered rows, when it becomes stale, and computing exactly that.

aggregates           A formula's columns summed per run and slice, and the documents made of them.
check_formulas       Whether definitions hold: they are read, bound, compute their examples, and the newest run.
definition_versions  Every version a definition has had in this store, complete enough to be computed again.
derived              Derived tables: computed from a definition, replaced run by run, all or nothing.
examples             The worked examples of the definitions, loaded and measured as any bundle is.
failures             What a definition fails on: once it has failed, it is computed for fewer and fewer queries.
history              What derived tables said at a point of time or under a fingerprint; pins, and what is replaced.
judges               Who judged a run, what became of the answers, and whether a judge has changed.
ledger               Which cells are to be computed, why, and in which batches and steps.
measure              What is due is computed: facts, metrics and aggregates, in ranges of runs.
progress             How far the computing is: due runs, the states of a range, what a Dagster run has computed.
random_bundles       Bundles nobody has thought of: the example with its values mixed, cut, doubled and left out.
same_meaning         Whether a rewritten definition computes what it computed: on the example, on random bundles.
scope                What a definition sees while it is computed: the same table names with only its own rows.
scratch              Computing without keeping: under other definitions, and the store as it would be afterwards.
states               What stands of every cell and whether it still holds: a value, by which cells are recorded.
upgrades             Cells that are stale because another version of the product replaced the one that computed them.
"""
