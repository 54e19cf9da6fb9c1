"""Documents for people: Markdown, JUnit, HTML.

comparison_rows  What of a comparison is worth reading first: families, headlines, moved queries, rules.
links            Where pages lead to: nowhere from a single file, to each other in a site, to a server's addresses.
markdown         Comparisons and gates as Markdown, in full and in short, and gates as JUnit.
nights           The parts of a suite's page: the newest night, the strip, the trends, the matrix, the runs.
numbers          How numbers are written for people.
pages            HTML pages of a run, of two runs and of a suite: collected, drawn, written.
plan             A plan in words: the sentences that the terminal and a pull request share, and the Markdown.
site             Pages that lead to each other: questions, formulas, all runs; written as a site, or asked of a server.
verdict          What a comparison comes to: a sentence, what it rests on, a few numbers, where to look.
"""
