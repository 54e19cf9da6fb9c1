"""Documents for people: Markdown, JUnit, HTML.

comparison_rows  What of a comparison is worth reading first.
markdown         Comparisons and gates as Markdown: for people; no program should parse it.
numbers          How numbers are written for people.
pages            HTML pages of a run, of two runs, of a suite: what they show, how they look, where they are
                 written.
plan             A plan in words: the sentences that the terminal and a pull request share, and the Markdown.
"""
