"""The page about files of other tools, written from what each adapter says of itself."""

from __future__ import annotations

from collections.abc import Iterator

from eval_pipeline.adapters.taking import tools
from eval_pipeline.adapters.tool import Tool

HEAD = """\
# Files of other tools

`eval-pipeline load PATH…` recognises these files by their content and says in a line what it took each for. `--from
TOOL` says it where the content does not. Labels in a file of results become the golden set of the dataset, unless it
has one: then that stays, differences are said, and `--replace-labels` takes those of the file. `--to DIR` writes the
bundle that is made and loads nothing; `--dry-run` shows three rows and what would be loaded. The file itself is kept
with the first of its runs, unless `--no-text` is given.

A run is named like its file, or by `--run-id X`; several in one file are `X.<label>`, repeats `X.e2`, `X.e3`, …
`--chunker NAME` says which chunker version the ids are of; without it the version stays unknown. What has no id is
named by a hash: SHA-256 over the JSON list of the values (its question, or its text), UTF-8 unescaped, the first 32
hex digits.

`eval-pipeline compare OLD NEW --labels FILE` and `eval-pipeline gate NEW --baseline OLD --labels FILE` read the same
files, or runs of the store, without storing anything: a file is one run, named like the file, and what has no row is
not scored. `FILE` is qrels, a golden set or a BEIR folder; without it the labels are those of the dataset that the
run on the other side is of, else of the first file that carries some.

A file in which neither hits nor answers nor scores are found is refused, with what was seen. What was not used is
counted by field. Rows of your own with other names go through a mapping: `eval-pipeline init FILE` ([the
mapping](../bundle.md)).
"""


def tools_page() -> str:
    """Every tool: its file, what it gives, what it cannot give, and the command."""
    lines = [HEAD]
    for tool in tools():
        lines += [*_section(tool), ""]
    return "\n".join(lines)


def _section(tool: Tool) -> Iterator[str]:
    page = tool.page
    yield f"## `{tool.name}`: {page.title}"
    yield ""
    yield page.file
    yield ""
    yield "```text"
    yield f"eval-pipeline load {page.example} --dataset DATASET"
    yield "```"
    yield ""
    yield "Gives: " + "; ".join(page.gives) + "."
    yield ""
    if page.cannot:
        yield "Cannot give: " + "; ".join(page.cannot) + "."
        yield ""
    yield f"Query ids: {page.ids}."
    if page.options:
        yield ""
        yield "Options: " + ", ".join(f"`{one}`" for one in page.options) + "."
    for note in page.notes:
        yield ""
        yield note
