"""Pages that only a server has: what was searched, what was asked in SQL, what went wrong."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, Final

from eval_pipeline.errors import EvalPipelineError, RefusedError
from eval_pipeline.report.links import Links
from eval_pipeline.report.pages._about_runs import footer_line
from eval_pipeline.report.pages._page import Page, Section, page_style, policy_of, render_page
from eval_pipeline.report.pages._queries import ID_LENGTH, QUESTION_LENGTH
from eval_pipeline.report.pages._widgets import Column, callout, data_table, linked, with_code
from eval_pipeline.report.pages.html import Child, Html, _data_text, clipped, tag
from eval_pipeline.report.site import _rows
from eval_pipeline.report.site._forms import search_form, sql_form
from eval_pipeline.report.site._style import site_style
from eval_pipeline.showing.query import asking
from eval_pipeline.store.project import Project
from eval_pipeline.store.runs import run_ids
from eval_pipeline.words import count

FOUND_SHOWN: Final = 100
ROWS_SHOWN: Final = 500
CELL_LENGTH: Final = 300
SECONDS: Final = 20.0
EXAMPLE: Final = (
    "select run_id, metric, value from run_metrics where slice = '' and metric = 'mrr' order by 1"
)
TOO_LONG: Final = (
    f"It took longer than {SECONDS:g} s and was given up, because nobody can write to the store while it is read. "
    "`eval-pipeline query SQL --timeout SECONDS` allows more."
)
VIEWS: Final = (
    "Views: `runs`, `queries`, `hits`, `per_query_metrics`, `run_metrics`, `comparison_queries`, `formula_history`, "
    "`deliveries`, `quarantine`, `lint`, `run_nights`, `eval_runs`, `eval_query_results`."
)


def search_page(project: Project, words: str, *, links: Links) -> str:
    """Runs by their id, questions by their id or text, that hold every word."""
    wanted = words.lower().split()
    sections = []
    if wanted:
        with project.read() as store:
            runs = [run_id for run_id in run_ids(store.con)[::-1] if _holds(wanted, run_id)]
            questions = [
                (dataset, query_id, text)
                for dataset in _rows.datasets(store.con)
                for _, query_id, text in _rows.questions_of(store.con, dataset)
                if _holds(wanted, f"{query_id} {text or ''}")
            ]
        sections = [_runs_found(runs, links), _questions_found(questions, links)]
    form = search_form(links.forms()["search"], words)
    return _page("Search", [form], sections, links=links)


def _holds(words: Sequence[str], text: str) -> bool:
    lowered = text.lower()
    return all(word in lowered for word in words)


def _runs_found(runs: Sequence[str], links: Links) -> Section:
    rows = [[tag("span", linked(_data_text(one), links.run(one)), class_="id")] for one in runs[:FOUND_SHOWN]]
    return Section("runs", "Runs", [_found("runs", len(runs), [Column("run")], rows)])


def _questions_found(questions: Sequence[tuple[str, str, str | None]], links: Links) -> Section:
    rows: list[list[Child]] = [
        [
            tag(
                "span",
                linked(_data_text(query_id, most=ID_LENGTH), links.question(dataset, query_id)),
                class_="id",
            ),
            tag("span", clipped(text, QUESTION_LENGTH), dir="auto") if text else "",
            _data_text(dataset),
        ]
        for dataset, query_id, text in questions[:FOUND_SHOWN]
    ]
    columns = [Column("id"), Column("question"), Column("dataset")]
    return Section("questions", "Questions", [_found("questions", len(questions), columns, rows)])


def _found(name: str, n: int, columns: Sequence[Column], rows: Sequence[Sequence[Child]]) -> Html:
    if not n:
        return tag("p", "None.")
    caption = f"{n:,} found" + (f", the first {FOUND_SHOWN} are listed." if n > FOUND_SHOWN else ".")
    return data_table(name, caption, columns, rows)


def sql_page(project: Project, sql: str, *, links: Links, is_asked: bool = True) -> str:
    """The form and, where something is asked, its answer: so many seconds and rows at most."""
    sections = []
    if sql.strip() and is_asked:
        with asking(project, sql, timeout=SECONDS) as (columns, rows):
            shown = list(islice(rows, ROWS_SHOWN + 1))
        sections = [Section("answer", "Answer", [_answer(columns, shown)])]
    lead = [
        tag("p", with_code(VIEWS)),
        sql_form(links.forms()["sql"], sql or EXAMPLE),
        tag(
            "p",
            f"Nothing can be written. An answer has at most {ROWS_SHOWN} rows and takes at most {SECONDS:g} seconds.",
            class_="note",
        ),
    ]
    return _page("SQL", lead, sections, links=links)


def _answer(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Html:
    more = len(rows) > ROWS_SHOWN
    caption = f"The first {ROWS_SHOWN} rows; there are more." if more else f"{count(len(rows), 'row')}."
    cells = [[_data_text(_cell(value), most=CELL_LENGTH) for value in row] for row in rows[:ROWS_SHOWN]]
    return data_table("answer", caption, [Column(_data_text(one)) for one in columns], cells)


def _cell(value: Any) -> str:
    if value is None:
        return "null"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def message_page(
    title: str, said: str, *, links: Links, retry: str | None = None, near: Iterable[str] = ()
) -> str:
    """What went wrong, in words; `retry` is the address that may work later, `near` are runs that may be meant."""
    close = [tag("li", linked(_data_text(one), links.run(one))) for one in near]
    lead: list[Child] = [
        callout(tag("p", with_code(said))),
        tag("ul", close, class_="plain") if close else None,
        tag("p", tag("a", "Retry", href=retry)) if retry is not None else None,
    ]
    return _page(title, lead, [], links=links)


def _page(title: str, lead: Sequence[Child], sections: Sequence[Section], *, links: Links) -> str:
    return render_page(
        Page(
            kind="Evaluation",
            title=f"{title} · evaluation",
            heading=title,
            lead=lead,
            sections=sections,
            footer=[footer_line(1)],
            crumbs=[("all runs", links.home())],
            style=site_style(),
            asks=True,
        )
    )


def sql_failed_page(sql: str, error: EvalPipelineError, *, links: Links) -> str:
    """The question as it was asked, with what is wrong with it."""
    is_late = isinstance(error, RefusedError)
    said = with_code(TOO_LONG) if is_late else tag("span", str(error), class_="text")
    lead = [
        callout(tag("p", said)),
        tag("p", with_code(VIEWS)),
        sql_form(links.forms()["sql"], sql),
    ]
    return _page("SQL", lead, [], links=links)


def served_policy() -> str:
    """The policy that a server sends with every page; each page's own allows no more of it than it needs."""
    policy = policy_of([page_style(), page_style() + site_style()], asks=True, follows=True)
    return f"{policy}; frame-ancestors 'none'"
