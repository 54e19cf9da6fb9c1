"""What the other rooms know, asked together: where everything stands, what would change, why a number moved.

apply             Leaving older runs on the definitions that they were computed with.
explain           Why a number moved: split exactly into system, formula, labels, data, and what only their
                  combination explains.
plan              What is stale and why, and what computing it would cost: the plan, before anything is written.
preview           What applying a plan would do to the stored numbers: computed, compared, and not kept.
preview_verdicts  Which comparisons and gates would be decided otherwise: the newest pairs judged as stored, and as
                  they would be.
status            What stands where: every derived table × every run, and every pair of runs, fresh or not and why.
"""
