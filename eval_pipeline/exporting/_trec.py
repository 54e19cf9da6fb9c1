"""TREC: a run file per run and qrels per dataset, for trec_eval, ir_measures and all that read them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from urllib.parse import quote

from eval_pipeline.exporting._form import HITS, QUERIES, Export, Files, Form, Page, as_text
from eval_pipeline.exporting._material import Asked, Level, Ranking, answered, asked, levels, ranking
from eval_pipeline.store.runs import RunRow
from eval_pipeline.words import count

FOLDERS: Mapping[Level, str] = {"chunk": "", "doc": "documents/"}
# What a reader would take for the end of a cell, or drop at the start of a file.
_BLANK = re.compile("[\\s\x1c-\x1f\x85\ufeff]")
_LOOKS_WRITTEN_OUT = re.compile("%[0-9A-F]{2}")


def files(export: Export) -> Files:
    """Runs and qrels of chunks; of documents in a folder of their own where these have other labels."""
    written_out: dict[str, None] = {}
    for dataset, runs in export.datasets().items():
        questions = asked(export.store.con, runs[0])
        for level in levels(questions):
            for run in runs:
                found = ranking(answered(export.store.con, run), level)
                _remark(export, run, found, level)
                yield f"{FOLDERS[level]}{run.run_id}.run", as_text(_run_lines(run, found, written_out))
            if any(one.grades(level) for one in questions.values()):
                yield f"{FOLDERS[level]}{dataset}.qrels", as_text(_qrels(questions, level, written_out))
            else:
                export.remark(f"{dataset}: no labels, so no qrels")
    if written_out:
        first = next(iter(written_out))
        export.remark(
            f"{count(len(written_out), 'id')} with blanks, which end a cell of TREC's lines, or with what looks like "
            f"an escape: written with % and two digits for each byte ({first!r} is {cell(first)})"
        )


def _remark(export: Export, run: RunRow, found: Ranking, level: Level) -> None:
    if level != "chunk":
        return
    export.remark_of(
        run,
        found.without_hits,
        QUERIES,
        "without hits, of which a run file says nothing; `load --missing empty` counts what has no line as asked",
    )
    export.remark_of(
        run,
        found.repeated,
        HITS,
        "left out, because trec_eval takes every id once: what stands below moves up",
    )
    if not found.is_by_score:
        n = len(found.rows)
        export.remark_of(
            run, n, QUERIES, "with places counted down as scores, as those of the run do not fall strictly"
        )


def _run_lines(run: RunRow, found: Ranking, written_out: dict[str, None]) -> Iterator[str]:
    for query_id, rows in found.rows.items():
        query = _noted(query_id, written_out)
        for rank, (name, score) in enumerate(rows, start=1):
            yield f"{query} Q0 {_noted(name, written_out)} {rank} {score!r} {run.run_id}\n"


def _qrels(questions: Mapping[str, Asked], level: Level, written_out: dict[str, None]) -> Iterator[str]:
    for one in questions.values():
        for name, grade in (one.grades(level) or {}).items():
            yield f"{_noted(one.query_id, written_out)} 0 {_noted(name, written_out)} {grade}\n"


def _noted(name: str, written_out: dict[str, None]) -> str:
    found = cell(name)
    if found != name:
        written_out[name] = None
    return found


def cell(name: str) -> str:
    """An id without blanks; two ids never become one, because what looks like an escape is escaped itself."""
    if not _BLANK.search(name) and not _LOOKS_WRITTEN_OUT.search(name):
        return name
    return _BLANK.sub(lambda found: quote(found[0], safe=""), name.replace("%", "%25"))


PAGE = Page(
    title="TREC run and qrels",
    files=(
        ("RUN_ID.run", "`qid Q0 docno rank score tag` a line, docno being the chunk"),
        ("DATASET.qrels", "`qid 0 docno grade` a line; what is expected has grade 1"),
        ("documents/", "the same of documents, where the golden set labels them apart from chunks"),
    ),
    carries=(
        "the order of the hits: scores fall strictly, also in trec_eval's seven digits, so that it sorts them alike; "
        "they are the run's own where all of these do so, else places counted down",
        "which chunks and documents are expected",
    ),
    cannot=(
        "queries without a hit: they have no line",
        "queries without a relevant item, among them those that should be refused",
        "a chunk retrieved twice: it stands at its best rank, and what is below moves up; of documents each stands "
        "once, so that K counts documents and not places",
        "texts, answers, errors, times, slices and the numbers of this product",
    ),
    again="eval-pipeline load RUN_ID.run DATASET.qrels --dataset NAME --missing empty",
    notes=(
        "Ids with blanks are written with `%` and two hexadecimal digits for each byte, as in addresses, and so is the "
        "`%` of an id that looks as if this had been done; the command says how many.",
    ),
)
FORM = Form("trec", PAGE, files)
