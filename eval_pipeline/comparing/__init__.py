"""Two runs side by side: what differs, how sure that is, and whether a gate lets it pass.

compare        Two runs side by side: the document of `compare A B --format json`.
gate           Is the candidate good enough? pass, fail or inconclusive, with the reason of every rule.
gate_evidence  Judging the rules of a gate: each by its own evidence, all of them adjusted for each other.
gate_rules     What a gate asks: rules from the [gate] table of eval-pipeline.toml, else sensible ones.
material       Everything a comparison needs to know about two runs, read in one go so that the store is free again
               soon.
noise          Runs of the recent past, for what they say about chance and about slow change.
options        [comparison] in eval-pipeline.toml: how the open questions of a comparison are read, for everybody
               who compares.
pair_rows      Two runs side by side, as the store knows them; each question reads the rows of these two only.
pair_states    Which pairs of runs there should be, and whether those that are stored still hold.
pairs          Comparisons that are kept: which there should be, which of them are due, and making them.
significance   How sure the differences are: one test per metric by its scale, adjusted for how many are looked at.
states         Whether what stands for two runs can be compared: computed at all, still holding, and computed alike.
stored         Comparisons and verdicts as stored: one pair of runs after the other, replaced as a whole.
verdicts       What a comparison says about one query: kinds, ranks, regressions.
warnings       What a reader has to know before believing a comparison.
"""
