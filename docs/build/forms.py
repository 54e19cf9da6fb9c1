"""The page about files going out, written from what each form of export says of itself."""

from __future__ import annotations

from collections.abc import Iterator

from docs.build.pages import table_lines
from eval_pipeline.exporting.formats import PAGES, Page

HEAD = """\
# Files going out

`eval-pipeline export RUN_ID… --to DIR --format FORM` writes runs for other tools; `--suite NAME` takes every run of a
suite. Files of an earlier export are replaced. What a form cannot carry of these very runs is said on standard error
(with `--json` under `remarks`); what it cannot carry at all stands below. What `load` reads of it again has the same
numbers, per query and as aggregates, as far as the form carries what they are computed from.
"""


def forms_page() -> str:
    """Every form: its files, what is in them, what cannot be, and how it is read again."""
    lines = [HEAD]
    for name, page in PAGES.items():
        lines += [*_section(name, page), ""]
    return "\n".join(lines)


def _section(name: str, page: Page) -> Iterator[str]:
    yield f"## `{name}`: {page.title}"
    yield ""
    rows = [(f"`{file}`" if "(" not in file else file, what) for file, what in page.files]
    yield from table_lines(["file", "what it is"], rows)
    yield ""
    yield "Carries: " + "; ".join(page.carries) + "."
    yield ""
    yield "Cannot carry: " + "; ".join(page.cannot) + "."
    for note in page.notes:
        yield ""
        yield note
    if page.again:
        yield from ("", "To read it again:", "", "```text", page.again, "```")
