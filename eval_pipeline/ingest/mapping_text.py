"""A guessed mapping as the text of mapping.toml, with comments for whoever goes on from there."""

from __future__ import annotations

import json
from typing import Any

from eval_pipeline.ingest.mapping import SETTINGS, TABLES
from eval_pipeline.ingest.mapping_guess import Guess
from eval_pipeline.ingest.own_files import WHITE_SPACE
from eval_pipeline.ingest.problems import printable

SHOWN_UNUSED = 20

_ABOUT = {
    "result": 'The query and how it went. A place is a name, with dots for names inside: "scores.faithfulness".',
    "hits": 'What was retrieved. list: where the hits are listed; the other places are then those inside a hit, "."\n'
    '# the hit itself. order: "list" as they stand, "rank" the lowest first, "score" the highest first.',
    "answer": "What the system said.",
    "references": "",
    "latency_ms": 'Times; unit: "ms", "s" or "us".',
    "judge": "Scores of a judge; best_score: the score of a perfect answer, which becomes 5.",
}
_RUN = """\
# [run]                         # what run.json would say beside run id and dataset
# suite = "nightly"             # runs of one suite are compared with the one before
# created_at = 2026-09-07T06:00:00Z
# config = { chunker_version = "v1", embedding_model = "…", top_k = 10 }
"""


def mapping_text(guess: Guess, file_name: str) -> str:
    """The file, ready to be edited."""
    lines = [
        f"# What the fields of {_comment(file_name)} mean. All that can be said here is in docs/bundle.md.",
        "",
        f'rows = "{guess.rows}"  # "query": a row per query; "hit": a row per query and hit',
    ]
    lines += _file_lines(guess, file_name)
    for table in TABLES:
        fields = guess.tables[table]
        if not fields:
            continue
        lines += ["", f"# {_ABOUT[table]}", f"[{table}]"]
        order = (*SETTINGS.get(table, ()), *TABLES[table])
        lines += [f"{name} = {_value(fields[name])}" for name in order if name in fields]
    lines += ["", _RUN.rstrip()]
    if guess.unsure:
        lines += ["", "# Not sure:", *(f"# * {_comment(remark)}" for remark in guess.unsure)]
    if guess.unused:
        shown = guess.unused[:SHOWN_UNUSED]
        more = ", …" if len(guess.unused) > len(shown) else ""
        lines += ["", f"# Not used: {_comment(', '.join(shown))}{more}"]
    return "\n".join(lines) + "\n"


def _file_lines(guess: Guess, file_name: str) -> list[str]:
    form = guess.form
    if form.format == "json":
        return [
            "",
            '# Where the rows lie inside the document; "." is the document itself.',
            "[file]",
            f"records = {_value(form.records)}",
        ]
    if form.columns and form.separator == WHITE_SPACE:
        return ["", "# The file has no line of names.", "[file]", f"columns = {_value(list(form.columns))}"]
    return []


def _value(value: Any) -> str:
    """TOML's texts and lists of them are written as JSON writes them."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {_value(inner)}" for name, inner in value.items()) + " }"
    if isinstance(value, str):
        value = printable(value)
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _comment(text: str) -> str:
    """On one line, without what a comment must not hold."""
    return "".join(one if one.isprintable() else " " for one in printable(text))
