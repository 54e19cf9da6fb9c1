"""The other rooms asked together: where everything stands, what would change, why a number moved.

apply             Older runs left on the definitions they were computed with (pins), and pins given up.
compare_files     Two files, or a file and a run of the store, side by side in a store that is gone afterwards.
explain           Why a number moved: split exactly into system, formula, labels and data.
named_runs        What @latest, @previous and @baseline mean, for every command that asks for a run.
plan              What is stale and why, and what computing it would cost: the plan, before anything is written.
preview           What applying a plan would do to the stored numbers: computed, compared, and not kept.
preview_verdicts  Which comparisons and gates would be decided otherwise, among the newest pairs.
reports           The types of the documents of `status`, `plan` and `explain`, with what each field says.
status            The state of every derived table and run, and of every pair of runs: fresh or not, and why.
"""
