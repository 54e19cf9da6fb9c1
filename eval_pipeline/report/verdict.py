"""What a comparison comes to: a sentence, what it rests on, a few numbers, where to look."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Final
from urllib.parse import quote

from eval_pipeline.comparing.documents import BETTER, MEAN_TIME, UNCLEAR, WORSE, CompareReport, SliceMoved
from eval_pipeline.comparing.options import SIGNIFICANT
from eval_pipeline.formulas.catalogue import HEADLINES
from eval_pipeline.formulas.scores import PREFIX as SCORES
from eval_pipeline.report.comparison_rows import Row, _clipped, is_sure, rows_of, shown_first
from eval_pipeline.report.numbers import LARGE, _brief, change
from eval_pipeline.words import SMALL, count, decimal, decimals_of

SAME: Final = "the same"
MIXED: Final = "mixed"
NOT_SHOWN: Final = "no significant change"
UNDECIDED: Final = "undecided"
NOTHING_ASKED: Final = "nothing to compare"
NOT_JUDGED: Final = "nothing to judge retrieval by"
MOST_TILES: Final = 4
MOST_LINES: Final = 2
# The width of a terminal in which the sentence takes two lines at most.
WIDTH: Final = 100
INDENT: Final = 2
LONGEST_NAME: Final = 30
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
    latency: str | None
    trust: str
    tiles: Sequence[Row]
    places: Sequence[Place]

    @property
    def sentence(self) -> str:
        """The overall word, the changes and the minimum detectable effect."""
        return _in_words(self.findings)

    @property
    def mood(self) -> str | None:
        """good or bad; None where it is neither, or both."""
        return {BETTER: "good", WORSE: "bad"}.get(self.word)


def verdict_on(report: CompareReport) -> Verdict:
    """Return what a comparison comes to: quality first, latency apart from it."""
    rows = rows_of(report)
    asked = [row for row in rows if row.is_asked and row.key != MEAN_TIME]
    latency = [row for row in rows if row.key == MEAN_TIME]
    word = _word(asked)
    undecided = _undecided(report, asked)
    if word == NOT_SHOWN and undecided:
        word = UNDECIDED
    lost = [row.name for row in rows if _is_lost(row)]
    doubts = [("Undecided", undecided), ("No longer measured", lost)]
    findings = _findings(word, asked, [doubt for doubt in doubts if doubt[1]])
    if report.why_unlabelled:
        # Without labels the rest says nothing about quality.
        moved = [(head, shown_first(names, 2)) for head, names in _moved_findings(asked)]
        findings = [("Nothing to judge retrieval by", report.why_unlabelled), *moved]
        word = word if word in (WORSE, BETTER, MIXED) else NOT_JUDGED
    return Verdict(
        word=word,
        findings=findings,
        latency=_latency(latency[0]) if latency and not latency[0].is_same else None,
        trust=" · ".join(report.trust),
        tiles=_tiles([*asked, *latency]),
        places=[*_places(report), *_slices(report)],
    )


def _word(asked: Sequence[Row]) -> str:
    found = {row.verdict for row in asked}
    if WORSE in found or BETTER in found:
        return MIXED if {WORSE, BETTER} <= found else WORSE if WORSE in found else BETTER
    if not asked:
        return NOTHING_ASKED
    return SAME if all(row.tested.is_identical for row in asked) else NOT_SHOWN


def _undecided(report: CompareReport, asked: Sequence[Row]) -> list[str]:
    """The changes that are significant among the scored answers, and that missing scores could undo."""
    found = []
    for row in asked:
        coverage = (report.coverage or {}).get(row.key)
        chance = row.tested.p_adjusted
        if not coverage or not coverage.is_undecided or chance is None or chance >= SIGNIFICANT:
            continue
        missing = max(run.needed - run.scored for run in (coverage.a, coverage.b))
        found.append(f"{_moved(row)} on the {row.tested.n:,} scored, and {missing:,} missing scores decide")
    return found


def _is_lost(row: Row) -> bool:
    """Whether run a has a headline metric or a delivered score that run b lacks."""
    is_known = row.key in HEADLINES or row.key.startswith(("judge_", SCORES))
    return is_known and not row.caveat and row.numbers[0] is not None and row.numbers[1] is None


def _findings(
    word: str, asked: Sequence[Row], doubts: Sequence[tuple[str, list[str]]]
) -> list[tuple[str, str]]:
    """The overall word, what moved, and what else could have been seen: as much as fits on two lines."""
    doubtful = [(head, shown_first(names, 2)) for head, names in doubts]
    if word == NOTHING_ASKED:
        return [("Nothing to compare", "no metric has values for the same queries in both runs"), *doubtful]
    if word == SAME:
        return [("The same", "both were computed from the same results"), *doubtful]
    moved = [*_moved_findings(asked), *doubts]
    first = [] if moved and moved[0][0].lower() == word else [(word.capitalize(), "")]
    rest = _others(word, asked)
    for most, last in ((4, rest), (2, rest), (4, []), (1, rest), (2, []), (1, [])):
        found = [*first, *((head, shown_first(names, most)) for head, names in moved), *last]
        if len(wrap(_in_words(found), WIDTH - INDENT)) <= MOST_LINES:
            break
    return found


def _moved_findings(asked: Sequence[Row]) -> list[tuple[str, list[str]]]:
    """What changed significantly, worse first."""
    return [
        (verdict.capitalize(), [_moved(row) for row in _one_of_each_family(rows)])
        for verdict in (WORSE, BETTER)
        if (rows := [row for row in asked if row.verdict == verdict])
    ]


def _in_words(findings: Sequence[tuple[str, str]]) -> str:
    return " ".join(f"{': '.join(filter(None, finding))}." for finding in findings)


def _others(word: str, asked: Sequence[Row]) -> list[tuple[str, str]]:
    """Return that nothing else changed, with the minimum detectable effect of the best known metric."""
    still = [row for row in asked if row.verdict not in (WORSE, BETTER)]
    known = [row for row in still if row.tested.mde and row.tested.n and row.numbers[2] is not None]
    could = ""
    if known:
        row = _best_known(known)
        least = _least(row.tested.mde or 0.0)
        could = f"mallest detectable change: {_clipped(row.name, LONGEST_NAME)} ±{least} (details)"
    if word in (NOT_SHOWN, UNDECIDED):
        return [("", f"S{could}")] if could else []
    return [("", f"Nothing else changed significantly{f'; s{could}' if could else ''}")] if still else []


def _least(amount: float) -> str:
    """Two decimals; whole numbers above 10, four significant digits for small units."""
    if amount >= LARGE:
        return f"{amount:,.0f}"
    return f"{amount:.2f}" if amount >= SMALL * LARGE else decimal(amount, decimals_of(amount))


def _latency(row: Row) -> str:
    """Return the line about latency; the load of a machine affects a whole run, so only other runs can judge it."""
    words = {
        WORSE: "worse, by more than runs of one configuration differ",
        BETTER: "better, by more than runs of one configuration differ",
        UNCLEAR: "no more than runs of one configuration differ",
        None: "no verdict: too few earlier runs of one configuration",
    }
    return f"Latency: mean {row.a} → {row.b} ms{row.factor and f' ({row.factor})'}; {words[row.verdict]}"


def _moved(row: Row) -> str:
    return f"{_clipped(row.name, LONGEST_NAME)} {_brief(*row.numbers[:2])}"


def _best_known(rows: Sequence[Row]) -> Row:
    """Of several questions of a family the one that people look at first."""
    known = [row for key in HEADLINES for row in rows if row.key == key]
    return known[0] if known else rows[0]


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
