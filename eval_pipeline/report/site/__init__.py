"""Pages that lead to each other: as files that any static host serves, or drawn by a server when they are asked for.

asked    Pages that only a server has: what was searched, what was asked in SQL, what went wrong.
collect  The pages of a question, of a formula, of all questions and of all suites, collected and drawn.
writing  A site written into a folder as a whole.
"""
