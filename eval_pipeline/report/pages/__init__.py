"""HTML pages of a run, of two runs, of a suite: what they show, how they look, where they are written.

collect     What pages show, collected from the store in one go, and handed to the report to be written.
figures     A chart's drawing made part of a page: only what a drawing may hold, in the page's own colours, and
            small.
html        HTML put together from values: whatever is not markup already is escaped, so that nothing can be
            forgotten.
material    What the pages are made of: documents of the product, and rows beside them.
pair_page   The page of two runs.
run_charts  The pictures of one run.
run_page    The page of one run.
suite_page  The page of a suite: how its metrics went from night to night.
writing     The published pages: of every new run, of every new comparison, of the suites; written where out of
            date.
"""
