"""Documents for people: Markdown, JUnit, HTML.

comparison_rows  What of a comparison is worth reading first: families, headlines, moved queries, rules.
markdown         Comparisons and gates as Markdown, in full and in short, and gates as JUnit.
numbers          How numbers are written for people.
pages            HTML pages of a run, of two runs and of a suite: collected, drawn, written.
plan             A plan in words: the sentences that the terminal and a pull request share, and the Markdown.
"""
