"""The other rooms asked together: where everything stands, what would change, why a number moved.

apply             Older runs left on the definitions they were computed with (pins), and pins given up.
asking_reports    The types of the documents of `evaluate`, `rejudge`, `judges` and `calls`.
compare_files     Two files, or a file and a run of the store, side by side in a store that is gone afterwards.
evaluate          A suite evaluated: its target and its judges asked, and the bundle of the run written and loaded.
explain           Why a number moved: split exactly into system, formula, labels and data.
named_runs        What @latest, @previous and @baseline mean, for every command that asks for a run.
paid_calls        What was asked and paid, by run and by who was asked, and which of it may be removed.
plan              What is stale and why, and what computing it would cost: the plan, before anything is written.
preview           What applying a plan would do to the stored numbers: computed, compared, and not kept.
preview_verdicts  Which comparisons and gates would be decided otherwise, among the newest pairs.
rejudge           Stored answers judged again: no target is called, and what was paid already is not paid again.
reports           The types of the documents of `status`, `plan` and `explain`, with what each field says.
stale_judgements  Judgements of suites that today's prompt, model or season would ask otherwise, and their price.
status            The state of every derived table and run, and of every pair of runs: fresh or not, and why.
stored_answers    What evaluating is given of the store: golden rows, stored answers, judgements that were paid.
"""
