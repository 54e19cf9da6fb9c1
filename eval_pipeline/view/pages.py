"""What each address shows, and what is said where that cannot be shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from threading import BoundedSemaphore
from typing import Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route

from eval_pipeline.comparing.compare import compare
from eval_pipeline.errors import (
    EvalPipelineError,
    RefusedError,
    StoreBusy,
    StoreMissing,
    UnknownName,
    UsageError,
)
from eval_pipeline.report.pages.collect import pair_page, run_page
from eval_pipeline.report.site.asked import message_page, search_page, sql_failed_page, sql_page
from eval_pipeline.report.site.collect import (
    formula_page,
    index_page,
    question_page,
    questions_page,
    suite_page,
)
from eval_pipeline.store.lock import Notify
from eval_pipeline.store.project import Project
from eval_pipeline.view.addresses import PAIR, SEARCH, SQL, ServerLinks
from eval_pipeline.view.begun import Begun
from eval_pipeline.view.guard import _is_from_elsewhere

# A writer that is done within this time is not noticed.
PATIENCE_SECONDS: Final = 3.0
RETRY_AFTER_SECONDS: Final = "10"
# So many pages are drawn at a time.
AT_ONCE: Final = 3
# A page of so many questions is drawn as a whole.
DRAWN_AT_ONCE: Final = 50
LINKS: Final = ServerLinks()

MakeProject = Callable[[], Project]
Draw = Callable[[Project, Request], str]


def app_of(make_project: MakeProject, *, notify: Notify, patience: float = PATIENCE_SECONDS) -> Starlette:
    """All addresses. The project is made for every answer, so that a formula is what its file says now."""
    drawing = BoundedSemaphore(AT_ONCE)

    def endpoint(draw: Draw, request: Request) -> HTMLResponse:
        with drawing:
            try:
                return HTMLResponse(draw(_hasty(make_project(), patience), request))
            except EvalPipelineError as error:
                return _refusal(error, request)
            except Exception as error:
                said = f"{type(error).__name__}: {error}"
                notify(f"{request.url.path}: internal error: {said}")
                return HTMLResponse(message_page("Internal error", said, links=LINKS), status_code=500)

    draws: dict[str, Draw] = {
        "/": lambda project, _: index_page(project, links=LINKS),
        "/run": _run,
        PAIR: partial(_pair, Begun()),
        "/suite": _suite,
        "/question": _question,
        "/questions": _questions,
        "/formula": _formula,
        SEARCH: _search,
        SQL: _sql,
        "/{elsewhere:path}": _nowhere,
    }
    return Starlette(routes=[Route(path, partial(endpoint, draw)) for path, draw in draws.items()])


def _hasty(project: Project, patience: float) -> Project:
    """Waits for a writer for a moment alone: nobody sits before an empty window for a minute."""
    return replace(project, settings=replace(project.settings, patience=patience))


def _asked(request: Request, name: str) -> str:
    value = request.query_params.get(name)
    if not value:
        raise UsageError(
            f"{request.url.path} needs `{name}=…` in its address; the list of all runs leads to every page"
        )
    return value


def _run(project: Project, request: Request) -> str:
    return run_page(project, _asked(request, "id"), links=LINKS)


def _pair(begun: Begun, project: Project, request: Request) -> str:
    """At first what the first screen needs, where there are many questions; the page itself asks for the rest."""
    runs = _asked(request, "a"), _asked(request, "b")
    key = request.query_params.get("whole")
    document = (begun.take(key, runs) if key else None) or compare(project, *runs)
    is_whole = key is not None or "print" in request.query_params
    is_short = len(document.per_query) <= DRAWN_AT_ONCE
    whole = None if is_whole or is_short else LINKS.whole_pair(*runs, begun.keep(document))
    return pair_page(project, *runs, document=document, links=LINKS, whole=whole)


def _suite(project: Project, request: Request) -> str:
    return suite_page(project, request.query_params.get("suite"), _asked(request, "dataset"), links=LINKS)


def _question(project: Project, request: Request) -> str:
    return question_page(project, _asked(request, "dataset"), _asked(request, "id"), links=LINKS)


def _questions(project: Project, request: Request) -> str:
    return questions_page(project, _asked(request, "dataset"), links=LINKS)


def _formula(project: Project, request: Request) -> str:
    return formula_page(project, _asked(request, "name"), links=LINKS)


def _search(project: Project, request: Request) -> str:
    return search_page(project, request.query_params.get("q", ""), links=LINKS)


class _NoPage(UsageError):
    """An address that leads nowhere."""


class _SqlFailed(UsageError):
    """A question in SQL that has no answer, and why."""

    def __init__(self, sql: str, error: EvalPipelineError) -> None:
        super().__init__(str(error))
        self.sql = sql
        self.error = error


def _sql(project: Project, request: Request) -> str:
    """What a page of another site made the browser ask is shown, and not run."""
    sql = request.query_params.get("q", "")
    try:
        return sql_page(project, sql, links=LINKS, is_asked=not _is_from_elsewhere(request.headers))
    except (UsageError, RefusedError) as error:
        raise _SqlFailed(sql, error) from error


def _nowhere(_project: Project, request: Request) -> str:
    raise _NoPage(f"there is no page at {request.url.path}; the list of all runs leads to every page")


def _refusal(error: EvalPipelineError, request: Request) -> HTMLResponse:
    if isinstance(error, _SqlFailed):
        return HTMLResponse(sql_failed_page(error.sql, error.error, links=LINKS), status_code=400)
    if isinstance(error, (UnknownName, _NoPage)):
        near = error.close_names if isinstance(error, UnknownName) and error.kind == "run" else ()
        return HTMLResponse(message_page("Not found", str(error), links=LINKS, near=near), status_code=404)
    if isinstance(error, (StoreBusy, StoreMissing)):
        title = "The store is busy" if isinstance(error, StoreBusy) else "There is no store yet"
        page = message_page(title, str(error), links=LINKS, retry=_own_address(request))
        return HTMLResponse(page, status_code=503, headers={"Retry-After": RETRY_AFTER_SECONDS})
    is_asked_wrongly = isinstance(error, (UsageError, RefusedError))
    page = message_page("This cannot be shown", str(error), links=LINKS)
    return HTMLResponse(page, status_code=400 if is_asked_wrongly else 500)


def _own_address(request: Request) -> str:
    query = request.url.query
    return request.url.path + (f"?{query}" if query else "")
