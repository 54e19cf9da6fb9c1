"""Two runs side by side: what differs, how sure that is, and whether a gate lets it pass.

compare        Two runs compared: the document of `compare A B --format json`.
documents      The documents of `compare` and `gate`, with the names that stand in their JSON.
gate           Whether a run is good enough: pass, fail or inconclusive, with the reason of every rule.
gate_evidence  The rules of a gate judged: each by its own evidence, their families adjusted for each other.
gate_rules     The rules of a gate: from the [gate] table of eval-pipeline.toml, else sensible ones.
material       Everything that a comparison needs to know about two runs, read in one go.
noise          How far metrics and queries move between identical runs of the recent past.
options        [comparison] in eval-pipeline.toml: the options of every comparison.
pair_rows      What the store says of one pair of runs: values, queries, hits, labels.
pair_states    Which pairs of runs there should be, and whether those that are stored still hold.
pairs          Stored comparisons: which there should be, which of them are due, and making them.
significance   How sure the differences are: one test for every metric, adjusted for the families asked.
states         Whether two runs can be compared: both computed, still holding, and computed alike.
stored         Comparisons and verdicts as stored: written and read pair by pair.
verdicts       What a comparison says about one query: kinds, ranks, regressions.
warnings       What a reader has to know before believing a comparison.
"""
