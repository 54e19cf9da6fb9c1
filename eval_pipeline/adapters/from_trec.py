"""TREC runs: six columns a line, as trec_eval, pyserini, Anserini and ir_measures write and read them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from eval_pipeline.adapters._head import Head
from eval_pipeline.adapters._lines import grouped, text_lines
from eval_pipeline.adapters._values import as_number, hit_of
from eval_pipeline.adapters.tool import (
    CERTAIN,
    Page,
    Piece,
    ReadOptions,
    Remark,
    ResultRow,
    Row,
    Seen,
    Tool,
)
from eval_pipeline.bundle.problems import shorten
from eval_pipeline.words import count

COLUMNS = ("qid", "iter", "docno", "rank", "sim", "run_tag")


def recognise(head: Head) -> Seen | None:
    """Six cells a line, of which the fourth is a whole number and the fifth a number."""
    if head.kind not in ("text", "table") or not head.lines:
        return None
    rows = [line.split() for line in head.lines]
    good = [
        row for row in rows if len(row) == len(COLUMNS) and _is_rank(row[3]) and as_number(row[4]) is not None
    ]
    if len(good) * 3 < len(rows) * 2:
        return None
    tags = {row[5] for row in good}
    return Seen(CERTAIN, f"a TREC run, {next(iter(tags))!r}" if len(tags) == 1 else "TREC runs")


def _is_rank(text: str) -> bool:
    return text.removeprefix("-").isdigit()


def read(path: Path, options: ReadOptions) -> Iterator[Piece]:
    """A result per query, in the order of the ranks; runs by their tag."""
    unordered = 0
    for key, group in grouped(_cells(path), lambda line: line.key, scattered=options.scattered):
        query, _, tag = key.partition("\n")
        for number, line in group:
            if line.reason:
                yield ResultRow({"query_id": query}, number, run=tag, reason=line.reason, text=line.text)
        good = [line.cells for _, line in group if not line.reason]
        if good:
            ordered = _in_order(good, options)
            unordered += any(float(a[4]) < float(b[4]) for a, b in pairwise(ordered))
            hits = [_hit(cells, options) for cells in ordered]
            yield ResultRow({"query_id": query, "hits_top_k": hits}, group[0][0], run=tag)
    if unordered:
        yield Remark(
            f"in {count(unordered, 'query', plural='queries')} the scores do not fall with the rank: "
            f"the rank counts "
            "(--order trec_eval sorts by score, as trec_eval does)"
        )


@dataclass(frozen=True)
class _Line:
    """The cells of a line and the query and run that it belongs to; a broken one belongs to those before it."""

    key: str
    cells: list[str]
    reason: str = ""
    text: str = ""


def _cells(path: Path) -> Iterator[tuple[int, _Line]]:
    key = "\n"
    for number, raw in text_lines(path):
        text = raw.decode("utf-8", errors="replace")
        cells = text.split()
        if len(cells) != len(COLUMNS):
            reason = f"has {len(cells)} cells; a line of a run has {len(COLUMNS)}: {' '.join(COLUMNS)}"
            yield number, _Line(key, cells, reason, shorten(text))
        elif as_number(cells[4]) is None:
            yield number, _Line(key, cells, f"the score {cells[4]!r} is no number", shorten(text))
        else:
            key = f"{cells[0]}\n{cells[5]}"
            yield number, _Line(key, cells)


def _in_order(rows: Sequence[list[str]], options: ReadOptions) -> list[list[str]]:
    """By rank, where ranks tell the lines apart; else by score, and what is level as it stands."""
    if options.order == "trec_eval":
        return sorted(sorted(rows, key=lambda row: row[2], reverse=True), key=lambda row: -float(row[4]))
    if all(_is_rank(row[3]) for row in rows) and len({int(row[3]) for row in rows}) == len(rows):
        return sorted(rows, key=lambda row: int(row[3]))
    return sorted(rows, key=lambda row: -float(row[4]))


def _hit(cells: list[str], options: ReadOptions) -> Row:
    hit = hit_of(cells[2], score=cells[4])
    # Ranks that begin with 0, or that another order contradicts, would be odd: where a hit stands says it as well.
    is_rank = options.order == "file" and _is_rank(cells[3]) and int(cells[3]) > 0
    return hit | ({"rank": int(cells[3])} if is_rank else {})


PAGE = Page(
    title="a TREC run",
    file=(
        "A run file: `qid Q0 docno rank score tag` a line, as trec_eval, pyserini, Anserini and "
        "ir_measures write it; also packed."
    ),
    gives=(
        "hits with rank and score; the document of a hit is the part of its id before the last `#`, else its id",
        "a run for each tag",
    ),
    cannot=(
        "texts, answers, times",
        "queries that found nothing: they have no line. `--missing empty` takes queries of the "
        "golden set without a line "
        "as asked with nothing found; the default leaves them out and says how many",
    ),
    ids="the first column",
    notes=(
        "Hits stand by rank, where the ranks of a query differ; else by score, level ones as they "
        "stand. trec_eval ignores the rank: `--order trec_eval` sorts as it does, by score and level ones by docno "
        "from the end of the alphabet.",
        "Labels come from qrels: `load run.txt qrels.txt --dataset D` takes both.",
    ),
    options=("--order", "--missing"),
    example="bm25.run",
)
TOOL = Tool("trec", PAGE, recognise, read)
