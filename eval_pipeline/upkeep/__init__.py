"""Looking after a store: forgetting on purpose, finding damage, and the way back from it.

backup        A copy of store and kept deliveries, taken beside running work and verified.
compact_home  Dagster's home without logs of runs that ended long ago, and without events that were replaced.
dagster_home  The settings in Dagster's home: made where there are none, renewed where nobody changed them.
doctor        What is wrong with the installation, the settings, the store and what lies beside it.
forget        A run or a dataset forgotten for good: rows or only texts, in store, file and kept deliveries.
rebuild       A broken store made again from the kept deliveries, in their order.
verify        Kept deliveries held against what is known of them: every file that is damaged or missing, by name.
"""
