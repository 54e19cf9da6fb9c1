"""What a comparison comes to: a sentence, what it rests on, a few numbers, where to look."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from eval_pipeline.comparing.documents import BETTER, WORSE, CompareReport, SliceMoved
from eval_pipeline.formulas.catalogue import HEADLINES
from eval_pipeline.report.comparison_rows import Row, is_sure, rows_of
from eval_pipeline.report.numbers import LARGE, _brief, change
from eval_pipeline.words import count

SAME: Final = "the same"
MIXED: Final = "better and worse"
NOT_SHOWN: Final = "no difference shown"
NOTHING_ASKED: Final = "nothing to compare"
NOT_JUDGED: Final = "nothing to judge retrieval by"
MOST_TILES: Final = 4
MOST_NAMED: Final = 4
MOST_SLICES: Final = 3
# Of which family a number is wanted even where it did not move.
WATCHED: Final = ("retrieval", "answers", "failures", "latency", "extraction")
# What became of a query, in the order in which it is looked at.
PLACES: Final = {"loss": "lost", "rank_down": "ranked lower", "win": "won", "rank_up": "ranked higher"}


@dataclass(frozen=True)
class Place:
    """Where to look: so many queries, and their address on the page of the two runs."""

    words: str
    address: str


@dataclass(frozen=True)
class Verdict:
    """The first things to know of a comparison."""

    word: str
    findings: Sequence[tuple[str, str]]
    trust: str
    tiles: Sequence[Row]
    places: Sequence[Place]

    @property
    def sentence(self) -> str:
        """Worse first, then better, then what was not shown to move."""
        return " ".join(f"{head}: {text}." for head, text in self.findings)

    @property
    def mood(self) -> str | None:
        """good or bad; None where it is neither, or both."""
        return {BETTER: "good", WORSE: "bad"}.get(self.word)


def verdict_on(report: CompareReport) -> Verdict:
    """Worse, better, both, or no difference shown; with the numbers that say so."""
    asked = [row for row in rows_of(report) if row.is_asked]
    word = _word(asked)
    findings = list(_findings(word, asked))
    if report.why_unlabelled:
        # Without labels the rest says nothing about quality.
        findings = [("Nothing to judge retrieval by", report.why_unlabelled), *_moved_findings(asked)]
        word = word if word in (WORSE, BETTER, MIXED) else NOT_JUDGED
    return Verdict(
        word=word,
        findings=findings,
        trust=" · ".join(report.trust),
        tiles=_tiles(asked),
        places=[*_places(report), *_slices(report)],
    )


def _word(asked: Sequence[Row]) -> str:
    found = {row.verdict for row in asked}
    if WORSE in found or BETTER in found:
        return MIXED if {WORSE, BETTER} <= found else WORSE if WORSE in found else BETTER
    if not asked:
        return NOTHING_ASKED
    return SAME if all(row.tested.is_identical for row in asked) else NOT_SHOWN


def _findings(word: str, asked: Sequence[Row]) -> Iterator[tuple[str, str]]:
    """What moved, worse first, and the families in which nothing was shown to move."""
    if word == NOTHING_ASKED:
        yield "Nothing to compare", "no metric has values for the same queries in both runs"
        return
    if word == SAME:
        yield "The same", "both were computed from the same results"
        return
    yield from _moved_findings(asked)
    still = _families_without(asked)
    if still:
        yield "No difference shown", _named([_family_at_rest(rows) for rows in still])


def _moved_findings(asked: Sequence[Row]) -> Iterator[tuple[str, str]]:
    for verdict in (WORSE, BETTER):
        moved = _one_of_each_family([row for row in asked if row.verdict == verdict])
        if moved:
            yield verdict.capitalize(), _named([_moved(row) for row in moved])


def _moved(row: Row) -> str:
    return f"{row.name} {_brief(*row.numbers[:2])}"


def _families_without(asked: Sequence[Row]) -> list[list[Row]]:
    """The families of which no question was answered, each with its rows."""
    families: dict[str, list[Row]] = {}
    for row in asked:
        families.setdefault(row.family, []).append(row)
    return [rows for rows in families.values() if not any(row.verdict in (WORSE, BETTER) for row in rows)]


def _family_at_rest(rows: Sequence[Row]) -> str:
    """`retrieval (hit@5 by 0.07 would have shown)`: how much had to move to be seen."""
    first = _best_known(rows)
    could = first.tested.mde
    if could is None:
        return first.family
    least = f"{could:,.0f}" if could >= LARGE else f"{could:.2f}"
    return f"{first.family} ({first.name} by {least} would have shown)"


def _best_known(rows: Sequence[Row]) -> Row:
    """Of several questions of a family the one that people look at first."""
    known = [row for key in HEADLINES for row in rows if row.key == key]
    return known[0] if known else rows[0]


def _named(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")


def _tiles(asked: Sequence[Row]) -> list[Row]:
    """What moved, worse first; then the first question of the families that people watch."""
    moved = [row for verdict in (WORSE, BETTER) for row in asked if row.verdict == verdict]
    seen = {row.family for row in moved}
    watched = [
        _best_known([row for row in asked if row.family == family])
        for family in WATCHED
        if family not in seen and any(row.family == family for row in asked)
    ]
    ordered = _one_of_each_family(moved)
    firsts = len({row.family for row in ordered})
    return [*ordered[:firsts], *watched, *ordered[firsts:]][:MOST_TILES]


def _one_of_each_family(rows: Sequence[Row]) -> list[Row]:
    """One of each family before a second of any, so that the first few say several things."""
    firsts: dict[str, Row] = {}
    for row in rows:
        firsts.setdefault(row.family, row)
    return [*firsts.values(), *(row for row in rows if row not in firsts.values())]


def _places(report: CompareReport) -> Iterator[Place]:
    errors = sum("error in b" in (one.note or "").split("; ") for one in report.per_query)
    if errors:
        yield Place(f"{count(errors, 'error')} in {report.run_b}", "kind=error")
    counts = report.counts.by_kind()
    for kind, words in PLACES.items():
        if counts[kind]:
            yield Place(f"{counts[kind]:,} {words}", f"kind={kind}")


def _slices(report: CompareReport) -> Iterator[Place]:
    """The slices that surely moved, the largest movement first; the same movement under two names once."""
    sure = [one for one in report.slices if is_sure(one)]
    unlike = {
        (one.metric, one.n_queries, one.n, one.delta): one for one in sure[::-1] if _is_part(one, report)
    }
    for one in sorted(unlike.values(), key=lambda one: -abs(one.delta or 0))[:MOST_SLICES]:
        name = f"{one.slice} = {one.slice_value}"
        address = quote(f"{one.slice}={one.slice_value}", safe="")
        yield Place(f"{name}: {one.metric} {change(one.delta)}", f"slice={address}")


def _is_part(one: SliceMoved, report: CompareReport) -> bool:
    """Whether it says more than the comparison as a whole: not all queries, nor all that the metric is defined for."""
    tested = report.significance.get(one.metric)
    return one.n_queries < len(report.per_query) and (tested is None or one.n < tested.n)
