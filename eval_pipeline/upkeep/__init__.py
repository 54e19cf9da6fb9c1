"""Looking after a store: forgetting on purpose, and the way back from damage.

forget   A run or a dataset forgotten for good: rows or only texts, in store, file and kept deliveries.
rebuild  A broken store made again from the kept deliveries, in their order.
"""
