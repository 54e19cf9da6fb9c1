"""What `init` writes: a mapping guessed from a file's first rows, with comments for its editor."""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from eval_pipeline.adapters._head import look_at
from eval_pipeline.adapters._mapping_guess import Guess, guess_mapping
from eval_pipeline.adapters.mapped_rows import _mapped_lines
from eval_pipeline.adapters.mapping import SETTINGS, TABLES, check_mapping
from eval_pipeline.adapters.tables import WHITE_SPACE, FileForm, form_of, own_rows
from eval_pipeline.bundle.lines import Line
from eval_pipeline.bundle.problems import printable
from eval_pipeline.errors import InputRejected, UsageError

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
SAMPLED_ROWS = 200
SHOWN_ROWS = 3
RECORDS = ("results.results", "results", "samples", "data", "rows", "records", "items", ".")


def _mapping_text(guess: Guess, file_name: str) -> str:
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
    said = {} if _is_plain(form, Path(file_name)) else {"format": form.format, "separator": form.separator}
    if form.format != "csv":
        said.pop("separator", None)
    if said and form.format != "json":
        return [
            "",
            "# How the file is read.",
            "[file]",
            *(f"{name} = {_value(one)}" for name, one in said.items()),
        ]
    if form.format == "json":
        return [
            "",
            '# Where the rows lie inside the document; "." is the document itself.',
            "[file]",
            *(f"{name} = {_value(one)}" for name, one in said.items() if name == "format"),
            f"records = {_value(form.records)}",
        ]
    if form.columns and form.separator == WHITE_SPACE:
        return ["", "# The file has no line of names.", "[file]", f"columns = {_value(list(form.columns))}"]
    return []


def _is_plain(form: FileForm, path: Path) -> bool:
    """Whether the name of the file says all that there is to say about how it is read."""
    try:
        known = form_of(path)
    except UsageError:
        return False
    return (known.format, known.separator) == (form.format, form.separator)


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


@dataclass(frozen=True)
class Proposal:
    """The text of a mapping, what it makes of the first rows, and what should be looked at."""

    text: str
    rows_per: str
    fields: dict[str, dict[str, Any]]
    rows: list[dict[str, Any]] = field(default_factory=list)
    unsure: list[str] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)


def propose_mapping(path: Path) -> Proposal:
    """Guess from the first rows; a file without a readable row is refused."""
    if not path.is_file():
        raise UsageError(f"{path} is no file; give a file of results")
    _refuse_labels(path)
    try:
        form, rows = _sample(path)
    except InputRejected as rejected:
        raise UsageError(f"{path} cannot be read: {rejected.reason}") from rejected
    if not rows:
        raise UsageError(f"{path} has no row that can be read; expected are objects of names and values")
    guess = guess_mapping(rows, form)
    text = _mapping_text(guess, path.name)
    mapping = check_mapping(tomllib.loads(text), "the proposed mapping", data_file=path)
    sample = [Line(number, "", record=row) for number, row in enumerate(rows, start=1)]
    mapped = _mapped_lines(sample, mapping, scattered=True)
    shown = [line.record for line in islice(mapped, SHOWN_ROWS) if line.record]
    return Proposal(
        text,
        guess.rows,
        {table: fields for table, fields in guess.tables.items() if fields},
        shown,
        guess.unsure,
        guess.unused,
    )


def _sample(path: Path) -> tuple[FileForm, list[dict[str, Any]]]:
    form = _form_by_content(path)
    if form.format == "json":
        form = _form_of_document(path, form)
    rows = [line.record for line in islice(own_rows(path, form), SAMPLED_ROWS) if line.record]
    return form, rows


def _refuse_labels(path: Path) -> None:
    """Labels need no mapping, and none could say what they are."""
    from eval_pipeline.adapters.from_qrels import recognise

    seen = recognise(look_at(path)) if path.suffix != ".parquet" else None
    if seen:
        raise UsageError(
            f"{path} is labels and no results ({seen.words}): "
            f"`eval-pipeline load {path} --dataset DATASET` takes it as it is"
        )


def _form_by_content(path: Path) -> FileForm:
    """The name says the kind, where it does; the content says what stands between the cells."""
    head = look_at(path)
    kinds = {"lines": FileForm("jsonl"), "document": FileForm("json"), "parquet": FileForm("parquet")}
    try:
        form = form_of(path)
    except UsageError:
        if head.kind == "table":
            return FileForm("csv", separator=head.separator or ",")
        if head.kind not in kinds:
            raise
        return kinds[head.kind]
    if form.format == "csv" and not form.columns and head.separator:
        return replace(form, separator=head.separator)
    return kinds["lines"] if form.format == "json" and head.kind == "lines" else form


def _form_of_document(path: Path, form: FileForm) -> FileForm:
    """The first of the usual places where rows are."""
    for place in RECORDS:
        candidate = replace(form, records=place)
        try:
            if any(line.record for line in own_rows(path, candidate)):
                return candidate
        except InputRejected as rejected:
            if place == RECORDS[-1]:
                raise
            if "no list of rows" not in rejected.reason:
                raise
    return form
