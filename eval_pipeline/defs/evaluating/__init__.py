"""What Dagster shows and starts of the suites of eval-pipeline.toml; nothing of it is there without a suite.

nights    Which run a Dagster run of a suite makes: one for each night, so that it can be continued.
steps     A suite asked, taken in, computed, compared, judged and published: what each step does.
suites    A job and a schedule for every suite.
written   What targets answered and judges said, as assets by run.
"""
