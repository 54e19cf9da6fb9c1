"""The page of two runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from eval_pipeline.comparing.documents import CompareReport, QueryVerdict
from eval_pipeline.report.comparison_rows import _move_of, moved_queries
from eval_pipeline.report.numbers import NOTHING, rank
from eval_pipeline.report.pages._about_runs import footer_line, formula_table, run_facts, settings_sentence
from eval_pipeline.report.pages._page import Page, Section, render_page, size_of
from eval_pipeline.report.pages._pair_charts import rank_chart, rank_pairs
from eval_pipeline.report.pages._pair_deltas import (
    deltas_section,
    fallback_section,
    moved_slices_table,
    parts_table,
)
from eval_pipeline.report.pages._queries import (
    PAGE_BYTES,
    QueryEntry,
    QueryTable,
    found_ranks,
    labelled_text,
    query_table,
    sides,
)
from eval_pipeline.report.pages._widgets import (
    Column,
    badge,
    bullets,
    callout,
    data_table,
    named_ids,
    tiles,
    with_code,
)
from eval_pipeline.report.pages.figures import _figure
from eval_pipeline.report.pages.html import Child, Html, _data_text, _join, tag
from eval_pipeline.report.pages.material import PairMaterial, QueryRow, QueryTexts
from eval_pipeline.words import count

MOODS = {"win": "good", "rank_up": "good", "loss": "bad", "rank_down": "bad", "regression": "bad"}
BANDS: Final = ((1, 1, "1"), (2, 3, "2–3"), (4, 5, "4–5"), (6, None, "6 and later"))
FLAKY_SHOWN: Final = 100
COUNTED: Final = {
    "win": ("wins", "b found what a did not"),
    "loss": ("losses", "a found what b did not"),
    "rank_up": ("rank up", "found earlier in b"),
    "rank_down": ("rank down", "found later in b"),
    "draw": ("draws", "same rank, or found by neither"),
    "regressions": ("regressions", "an expected chunk of a is lost in b"),
}
OUTSIDE: Final = {
    "not_applicable": "expect no chunk",
    "not_comparable": "cannot be compared, because nothing is known of their expected chunks",
}


def _pair_query_table(material: PairMaterial, *, room: int) -> Html:
    """The table, in so many bytes: what was lost stands first, what did not move stands last."""
    document = material.document
    moved = moved_queries(document)
    moved_ids = {entry.query_id for entry in moved}
    rest = [entry for entry in document.per_query if entry.query_id not in moved_ids]
    columns = [
        Column("question"),
        Column("kind"),
        Column("rank in a", is_number=True),
        Column("rank in b", is_number=True),
        Column("change of 1/rank", is_number=True),
        Column("category"),
    ]
    return query_table(
        QueryTable(
            name="pair-queries",
            caption="Losses and regressions first, then wins, then changes of rank. Rank: where the first expected "
            "chunk stands.",
            columns=columns,
            entries=[
                _entry(entry, material, has_moved=entry.query_id in moved_ids) for entry in (*moved, *rest)
            ],
            mark="regressions only",
        ),
        room=room,
    )


def _entry(entry: QueryVerdict, material: PairMaterial, *, has_moved: bool) -> QueryEntry:
    a, b = (rows.get(entry.query_id) for rows in material.queries)
    row = b or a
    texts = material.texts.get(entry.query_id) if has_moved else None
    note = _own_note(entry, material.document.causes)
    move = _move_of(entry)
    cells: list[Child] = [
        _join(
            badge(entry.kind.replace("_", " "), MOODS.get(entry.kind)),
            _join(" ", badge("regression", "bad"))
            if entry.regression and entry.kind != "regression"
            else None,
            tag("div", note, class_="note") if note else None,
        ),
        rank(entry.a_hit_rank),
        rank(entry.b_hit_rank),
        f"{move:+.2f}".replace("-", "−") if move else NOTHING,
        _data_text(row.category, most=60) if row and row.category else None,
    ]
    keys = [
        entry.kind,
        entry.a_hit_rank,
        entry.b_hit_rank,
        round(move, 6),
        row.category if row else None,
    ]
    return QueryEntry(
        query_id=entry.query_id,
        question=row.question if row and material.with_text else None,
        kind=entry.kind,
        is_marked=entry.regression,
        cells=cells,
        keys=keys,
        detail=lambda with_text: (
            _detail(entry, a, b, texts, with_text=with_text and material.with_text) if texts else None
        ),
        has_detail=texts is not None,
    )


def _own_note(entry: QueryVerdict, causes: Sequence[str]) -> str:
    """What the note says beyond what holds for all queries."""
    said = (entry.note or "").split("; ")
    return "; ".join(one for one in said if one not in causes)


def _detail(
    entry: QueryVerdict, a: QueryRow | None, b: QueryRow | None, texts: QueryTexts, *, with_text: bool
) -> Html:
    answers = (
        [
            labelled_text(f"{what} of {name}", text)
            for name, row in (("a", a), ("b", b))
            if row is not None
            for what, text in (("Error", row.error), ("Answer", row.answer))
        ]
        if with_text
        else []
    )
    regressed = (
        labelled_text("Found by a and not by b", ", ".join(entry.regressed_chunk_ids))
        if entry.regressed_chunk_ids
        else None
    )
    return sides(
        texts,
        headings=["Retrieved by a", "Retrieved by b"],
        matched=[found_ranks(entry.a_hit_rank), found_ranks(entry.b_hit_rank)],
        with_text=with_text,
        below=[regressed, *answers],
    )


def render_pair_page(material: PairMaterial) -> str:
    """The whole page as text."""
    document = material.document
    a, b = document.run_a, document.run_b
    return render_page(
        Page(
            kind="Comparison of two runs",
            title=f"{a} → {b} · comparison",
            heading=[_data_text(a), tag("span", " → ", class_="muted"), _data_text(b)],
            lead=[_lead(document), _setup(material), _warnings(material)],
            sections=_sections(material),
            footer=[footer_line(document.format)],
        )
    )


def _lead(document: CompareReport) -> Html:
    if not document.asks_queries:
        return tag("p", "Two runs of extraction cases, without queries.", class_="lead")
    counts = document.counts
    moved_up, moved_down = counts.win + counts.rank_up, counts.loss + counts.rank_down
    return tag(
        "p",
        f"Of {count(len(document.per_query), 'query', plural='queries')} in both runs {moved_up:,} did better in b "
        f"and {moved_down:,} worse; {count(counts.regressions, 'regression')}.",
        class_="lead",
    )


def _setup(material: PairMaterial) -> Html:
    """Two runs that did not say what they were made with are not known to be alike."""
    return tag("p", settings_sentence(*material.facts), class_="muted")


def _warnings(material: PairMaterial) -> Html | None:
    warnings = material.document.warnings
    if not warnings:
        return None
    return callout(
        tag("p", tag("strong", "Before reading on")),
        bullets(with_code(one) for one in warnings),
    )


def _sections(material: PairMaterial) -> list[Section]:
    """The queries get what room the other parts leave."""
    document = material.document
    parts = list(_parts(document, material))
    about = [Section("runs", "The two runs", [_side_by_side(material)])]
    if not document.asks_queries:
        return [*parts, *about]
    about.append(Section("formulas", "Formulas", [formula_table(material.states, ["a", "b"])]))
    apart = list(_apart(document))
    room = PAGE_BYTES - size_of([*parts, *about, Section("", "", apart)])
    queries = Section("queries", "Queries", [_pair_query_table(material, room=room), *apart])
    return [*parts, queries, *about]


def _parts(document: CompareReport, material: PairMaterial) -> Iterator[Section]:
    if document.asks_queries:
        yield Section("verdicts", "What moved", [*_verdicts(document), *_ranks(document)])
        if document.fallback_metrics:
            by_span = fallback_section(document, document.fallback_metrics)
            yield Section("fallback", "By document and span", by_span)
        yield Section("deltas", "Differences", deltas_section(material))
    as_a_whole = parts_table(document)
    if as_a_whole:
        yield Section("parts", "The runs as a whole", [as_a_whole])
    if document.slices:
        yield Section("slices", "Slices that moved most", [moved_slices_table(document.slices)])


def _verdicts(document: CompareReport) -> Iterator[Html]:
    counts = document.counts.by_kind()
    yield tiles((name, f"{counts[key]:,}", remark) for key, (name, remark) in COUNTED.items())
    outside = [f"{counts[key]:,} {remark}" for key, remark in OUTSIDE.items() if counts[key]]
    if outside:
        yield tag("p", f"Outside these counts: {'; '.join(outside)}.", class_="note")


def _ranks(document: CompareReport) -> Iterator[Html]:
    pairs = rank_pairs(document.per_query)
    if not pairs:
        return
    deepest = max((one for pair in pairs for one in pair if one is not None), default=1)
    chart = rank_chart(document.per_query, max(10, deepest))
    yield _figure(
        chart,
        tag("p", "Right and above the diagonal b is better. The numbers are queries.", class_="note"),
        _rank_table(pairs),
        is_split=True,
    )


def _rank_table(pairs: Mapping[tuple[int | None, int | None], int]) -> Html:
    names = [name for _, _, name in BANDS] + ["not found"]
    table: dict[tuple[str, str], int] = {}
    for (a, b), n in pairs.items():
        place = (_band(a), _band(b))
        table[place] = table.get(place, 0) + n
    rows = [
        [name, *(f"{table[name, other]:,}" if (name, other) in table else "·" for other in names)]
        for name in names
    ]
    columns = [Column("rank in a ↓, in b →"), *(Column(name, is_number=True) for name in names)]
    return data_table("rank-numbers", "How many queries went from which rank to which.", columns, rows)


def _band(place: int | None) -> str:
    if place is None:
        return "not found"
    return next(name for low, high, name in BANDS if place >= low and (high is None or place <= high))


def _apart(document: CompareReport) -> Iterator[Html]:
    for side, ids in (("a", document.only_in_a), ("b", document.only_in_b)):
        if ids:
            yield _join(tag("h3", f"Only in {side} ({len(ids):,})"), named_ids(ids))
    flaky = document.flaky_queries
    if flaky:
        rows: list[list[Child]] = [
            [_data_text(one.query_id, most=160), f"{one.flips:,}", f"{one.pairs:,}"]
            for one in flaky[:FLAKY_SHOWN]
        ]
        columns = [
            Column("query"),
            Column("flips", is_number=True),
            Column("identical pairs", is_number=True),
        ]
        yield _join(
            tag("h3", f"Flaky queries ({len(flaky):,})"),
            tag("p", "Found by one of two identical runs and not by the other: these move by themselves."),
            data_table("flaky", "Most often first.", columns, rows),
        )


def _side_by_side(material: PairMaterial) -> Html:
    a, b = (run_facts(facts) for facts in material.facts)
    rows: list[Sequence[Child]] = []
    for name in a:
        before, after = a[name], b[name]
        if before is None and after is None:
            continue
        is_same = before == after
        shown = after if is_same else tag("strong", after if after is not None else NOTHING)
        rows.append([name, before if before is not None else NOTHING, shown, "" if is_same else "differs"])
    columns = [Column(""), Column("a"), Column("b"), Column("")]
    ids: Sequence[Child] = [
        "Run",
        _data_text(material.document.run_a),
        _data_text(material.document.run_b),
        "",
    ]
    return data_table("runs", "Where the runs come from and how they were set up.", columns, [ids, *rows])
