"""Looking after a store: forgetting on purpose, and the way back from damage.

forget   Forgetting a run or a dataset for good: rows or only texts, in the store, its file and the kept deliveries.
rebuild  The way back from a broken store: a new one, made from the kept deliveries in their order.
"""
