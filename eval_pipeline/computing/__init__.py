"""What is derived from the delivered rows, when it stops holding, and computing exactly that anew.

aggregates           Run aggregates: one formula's columns, summed per run and slice, and the documents made of
                     them.
definition_versions  Every meaning a definition has had in this store, complete enough to be computed with again.
derived              Derived tables: computed from a definition, replaced run by run, all or nothing.
examples             The worked examples of the definitions, executed: delivered, loaded and measured as any bundle
                     is.
history              What aggregates said at a point of time, or under a meaning: today's values and the history
                     read as one.
ledger               The ledger: for every derived table and run, what stands there and whether it still holds.
measure              Compute what is due: facts, metrics and aggregates, in ranges of runs, in short transactions.
progress             What is to be computed, what a range of runs is made of, and what Dagster runs have computed.
scope                What a definition sees while it is computed: the same table names, holding only the rows that
                     are its business.
scratch              The store as it would be once some runs were computed anew: a catalogue in memory that is read
                     like the store.
"""
