"""The page of two runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from eval_pipeline.comparing.documents import CompareReport, QueryVerdict
from eval_pipeline.report.comparison_rows import _move_of, _note_of, moved_queries, short_names
from eval_pipeline.report.numbers import NOTHING, rank
from eval_pipeline.report.pages._about_runs import footer_line, formula_table, run_facts, settings_sentence
from eval_pipeline.report.pages._page import Page, Section, render_page, size_of
from eval_pipeline.report.pages._pair_charts import rank_chart, rank_pairs
from eval_pipeline.report.pages._pair_deltas import (
    deltas_section,
    fallback_section,
    forest,
    moved_slices_table,
)
from eval_pipeline.report.pages._pair_first import first_screen
from eval_pipeline.report.pages._pair_question import question_detail
from eval_pipeline.report.pages._queries import (
    PAGE_BYTES,
    QueryEntry,
    QueryTable,
    query_table,
)
from eval_pipeline.report.pages._widgets import (
    Column,
    badge,
    data_table,
    linked,
    named_ids,
)
from eval_pipeline.report.pages.figures import _figure
from eval_pipeline.report.pages.html import Child, Html, _data_text, _join, tag
from eval_pipeline.report.pages.material import PairMaterial

MOODS = {"win": "good", "rank_up": "good", "loss": "bad", "rank_down": "bad", "regression": "bad"}
BANDS: Final = ((1, 1, "1"), (2, 3, "2–3"), (4, 5, "4–5"), (6, None, "6 and later"))
FLAKY_SHOWN: Final = 100
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
    names = short_names(document.run_a, document.run_b)
    columns = [
        Column("question"),
        Column("kind"),
        *(Column(_join("rank ", tag("span", name, class_="short")), is_number=True) for name in names),
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
            errors=f"error in {document.run_b}",
            metrics=sorted({key for keys in material.moved.values() for key in keys}),
        ),
        room=room,
    )


def _entry(entry: QueryVerdict, material: PairMaterial, *, has_moved: bool) -> QueryEntry:
    a, b = (rows.get(entry.query_id) for rows in material.queries)
    row = b or a
    texts = material.texts.get(entry.query_id) if has_moved else None
    names = (material.document.run_a, material.document.run_b)
    note = _note_of(material.document, entry, is_short=True)
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
            question_detail(entry, names, (a, b), texts, with_text=with_text and material.with_text)
            if texts
            else None
        ),
        has_detail=texts is not None,
        has_error="error in b" in (entry.note or "").split("; "),
        slices=material.slices.get(entry.query_id, ()),
        moved=material.moved.get(entry.query_id, ()),
        address=material.links.question(material.facts[1].dataset, entry.query_id),
    )


def render_pair_page(material: PairMaterial) -> str:
    """The whole page as text."""
    document = material.document
    a, b = document.run_a, document.run_b
    return render_page(
        Page(
            kind="Comparison of two runs",
            title=f"{a} → {b} · comparison",
            heading=[
                linked(_data_text(b), material.links.run(b)),
                tag("span", " against ", class_="muted"),
                linked(_data_text(a), material.links.run(a)),
            ],
            lead=[_subject(material), *first_screen(material)],
            sections=_sections(material),
            footer=[footer_line(document.format)],
            crumbs=_crumbs(material),
            begun=material.whole is not None,
        )
    )


def _crumbs(material: PairMaterial) -> list[tuple[str, str | None]]:
    newer = material.facts[1]
    suite = material.links.suite(newer.suite, newer.dataset)
    return [("all runs", material.links.home()), (newer.suite or newer.dataset, suite)]


def _subject(material: PairMaterial) -> Html:
    a, b = material.facts
    datasets = dict.fromkeys([a.dataset, b.dataset])
    suite = [b.suite] if b.suite else []
    return tag("p", _data_text(" · ".join([*suite, *datasets])), class_="muted")


def _sections(material: PairMaterial) -> list[Section]:
    """What is asked comes first, then the queries, then everything else; the queries get what room that leaves."""
    parts = list(_parts(material.document))
    if material.whole is not None:
        return [
            Section(one.name, one.title, one.draw(material) if one.is_light else _follows(material.whole))
            for one in parts
        ]
    drawn = {one.name: Section(one.name, one.title, one.draw(material)) for one in parts}
    if material.document.asks_queries:
        apart = list(_apart(material.document))
        room = PAGE_BYTES - size_of([*drawn.values(), Section("", "", apart)])
        content = [*_outside(material.document), _pair_query_table(material, room=room), *apart]
        drawn["questions"] = replace(drawn["questions"], content=content)
    return list(drawn.values())


@dataclass(frozen=True)
class _Part:
    """A section before it is drawn; a light one takes no picture, and nothing of single questions."""

    name: str
    title: str
    draw: Callable[[PairMaterial], Sequence[Child]]
    is_light: bool = False


def _parts(document: CompareReport) -> Iterator[_Part]:
    asks = document.asks_queries
    yield _Part("differences", "What moved", forest)
    if asks:
        yield _Part("questions", "Questions", lambda _: ())
    yield _Part("deltas", "All numbers", deltas_section, is_light=True)
    if asks:
        yield _Part("ranks", "Ranks", lambda _: list(_ranks(document)))
        if document.fallback_metrics:
            yield _Part(
                "fallback", "By document and span", lambda _: fallback_section(document), is_light=True
            )
    if document.slices:
        yield _Part(
            "slices", "Slices that moved most", lambda _: [moved_slices_table(document.slices)], is_light=True
        )
    yield _Part(
        "runs", "The two runs", lambda material: [_setup(material), _side_by_side(material)], is_light=True
    )
    if asks:
        yield _Part("formulas", "Formulas", _formulas)


def _follows(whole: str) -> list[Child]:
    """What stands there until the section is fetched, which follow.js does."""
    return [
        tag("p", "This follows in a moment: ", tag("a", "the whole page", href=whole), class_="follows note")
    ]


def _formulas(material: PairMaterial) -> list[Child]:
    document = material.document
    names = short_names(document.run_a, document.run_b)
    return [formula_table(material.states, names, material.links)]


def _setup(material: PairMaterial) -> Html:
    """Two runs that did not say what they were made with are not known to be alike."""
    return tag("p", settings_sentence(*material.facts), class_="muted")


def _outside(document: CompareReport) -> Iterator[Html]:
    counts = document.counts.by_kind()
    outside = [f"{counts[key]:,} {remark}" for key, remark in OUTSIDE.items() if counts[key]]
    if outside:
        yield tag("p", f"Outside these counts: {'; '.join(outside)}.", class_="note")


def _ranks(document: CompareReport) -> Iterator[Html]:
    pairs = rank_pairs(document.per_query)
    if not pairs:
        return
    deepest = max((one for pair in pairs for one in pair if one is not None), default=1)
    chart = rank_chart(document, max(10, deepest))
    yield _figure(
        chart,
        tag("p", f"Above the diagonal {document.run_b} is better. The numbers are queries.", class_="note"),
        _rank_table(pairs, document),
        is_split=True,
    )


def _rank_table(pairs: Mapping[tuple[int | None, int | None], int], document: CompareReport) -> Html:
    names = [name for _, _, name in BANDS] + ["not found"]
    table: dict[tuple[str, str], int] = {}
    for (a, b), n in pairs.items():
        place = (_band(a), _band(b))
        table[place] = table.get(place, 0) + n
    # As the picture beside it: the older run across, the newer one down.
    rows = [
        [name, *(f"{table[other, name]:,}" if (other, name) in table else "·" for other in names)]
        for name in names
    ]
    before, after = short_names(document.run_a, document.run_b)
    columns = [Column(f"rank in {after} ↓, in {before} →"), *(Column(name, is_number=True) for name in names)]
    return data_table("rank-numbers", "How many queries went from which rank to which.", columns, rows)


def _band(place: int | None) -> str:
    if place is None:
        return "not found"
    return next(name for low, high, name in BANDS if place >= low and (high is None or place <= high))


def _apart(document: CompareReport) -> Iterator[Html]:
    for run_id, ids in ((document.run_a, document.only_in_a), (document.run_b, document.only_in_b)):
        if ids:
            yield _join(tag("h3", "Only in ", _data_text(run_id), f" ({len(ids):,})"), named_ids(ids))
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
    names = short_names(material.document.run_a, material.document.run_b)
    columns = [Column("setting"), *(Column(name) for name in names), Column("difference")]
    ids: Sequence[Child] = [
        "Run",
        _data_text(material.document.run_a),
        _data_text(material.document.run_b),
        "",
    ]
    return data_table("runs", "Where the runs come from and how they were set up.", columns, [ids, *rows])
