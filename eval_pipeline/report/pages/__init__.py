"""HTML pages of a run, of two runs and of a suite: collected, drawn, written.

collect     What pages show, collected from the store in one go, and handed to the report to be written.
figures     A chart drawn as a figure inside a page, in the page's own colours.
html        HTML put together from values; whatever is not markup already is escaped.
material    What the pages are made of: documents of the product, and rows beside them.
pair_page   The page of two runs.
run_charts  The pictures of one run.
run_page    The page of one run.
suite_page  The page of a suite: how its metrics went from night to night.
writing     The published pages of new runs, comparisons and suites: which are due, and writing them.
"""
