"""Documents for people: Markdown, JUnit, HTML. Everything here turns a finished document into text."""
