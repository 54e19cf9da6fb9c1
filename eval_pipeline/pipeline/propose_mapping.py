"""Look at somebody's own file of results and write the mapping that it probably needs."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from eval_pipeline.errors import InputRejected, UsageError
from eval_pipeline.ingest.lines import Line
from eval_pipeline.ingest.mapped_rows import mapped_lines
from eval_pipeline.ingest.mapping import check_mapping
from eval_pipeline.ingest.mapping_guess import guess_mapping
from eval_pipeline.ingest.mapping_text import mapping_text
from eval_pipeline.ingest.own_files import FileForm, form_of, own_rows

SAMPLED_ROWS = 200
SHOWN_ROWS = 3
RECORDS = ("results.results", "results", "samples", "data", "rows", "records", "items", ".")


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
    try:
        form, rows = _sample(path)
    except InputRejected as rejected:
        raise UsageError(f"{path} cannot be read: {rejected.reason}") from rejected
    if not rows:
        raise UsageError(f"{path} has no row that can be read; expected are objects of names and values")
    guess = guess_mapping(rows, form)
    text = mapping_text(guess, path.name)
    mapping = check_mapping(tomllib.loads(text), "the proposed mapping", data_file=path)
    sample = [Line(number, "", record=row) for number, row in enumerate(rows, start=1)]
    mapped = mapped_lines(sample, mapping, scattered=True)
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
    form = form_of(path)
    if form.format == "json":
        form = _form_of_document(path, form)
    rows = [line.record for line in islice(own_rows(path, form), SAMPLED_ROWS) if line.record]
    return form, rows


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
