"""The small server over report's pages: read-only, on 127.0.0.1.

addresses  Where its pages lead to.
begun      Comparisons of which a page has shown the first screen.
guard      Which requests are answered, and what every answer says to the browser.
pages      What each address shows, and what is said where that cannot be shown.
serving    Listening until somebody ends it.
"""
