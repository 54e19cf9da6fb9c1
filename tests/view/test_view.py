"""`view`: every page on demand, for this machine alone, and nothing is written."""

from __future__ import annotations

import asyncio
import hashlib
import http.client
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest

from eval_pipeline.comparing.pair_states import PAIR_FACTS
from eval_pipeline.errors import UsageError
from eval_pipeline.report.site.asked import served_policy
from eval_pipeline.settings import Settings
from eval_pipeline.view.guard import Guard, hosts_of
from eval_pipeline.view.pages import app_of
from eval_pipeline.view.serving import serve
from tests.bundle_files import compute, hits, load, settings_in, write_golden, write_run
from tests.projects import open_writer, project_of
from tests.report.page_reader import PageReader

PORT = 3001
ODD = 'q "1" <b>/ü?&#'


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    text: str


class Asking:
    """A browser on this machine, without a network between."""

    def __init__(self, settings: Settings) -> None:
        self.remarks: list[str] = []
        app = app_of(lambda: project_of(settings), notify=self.remarks.append, patience=0)
        self.app = Guard(app, hosts=hosts_of(PORT), policy=served_policy())

    def __call__(self, address: str, *, method: str = "GET", **headers: str) -> Answer:
        path, _, query = address.partition("?")
        said: list[dict[str, object]] = []
        sent = {"host": f"127.0.0.1:{PORT}"} | {
            name.replace("_", "-"): text for name, text in headers.items()
        }

        async def receive() -> dict[str, object]:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: dict[str, object]) -> None:
            said.append(message)

        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": query.encode(),
            "headers": [(name.encode(), text.encode()) for name, text in sent.items() if text],
            "server": ("127.0.0.1", PORT),
            "scheme": "http",
        }
        asyncio.run(self.app(scope, receive, send))  # type: ignore[arg-type]
        told = {name.decode(): text.decode() for name, text in said[0]["headers"]}  # type: ignore[attr-defined]
        body = b"".join(one.get("body", b"") for one in said[1:])  # type: ignore[misc]
        return Answer(int(str(said[0]["status"])), told, body.decode())


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Two nights of two questions, of which no more is computed than a comparison needs."""
    folder = tmp_path_factory.mktemp("view")
    bundle = folder / "bundle"
    write_golden(
        bundle, [{"query_id": ODD, "query": "why?", "expected_chunk_ids": ["d/1"]}, {"query_id": "two"}]
    )
    for night in ("2026-09-01", "2026-09-02"):
        answers = [{"query_id": ODD, "hits_top_k": hits("d/1")}, {"query_id": "two", "hits_top_k": []}]
        write_run(bundle, f"run-{night}", answers, suite="nights", night=night)
    settings = settings_in(folder)
    load(settings, bundle)
    compute(settings, definitions=PAIR_FACTS)
    return settings


@pytest.fixture(scope="module")
def asking(small: Settings) -> Asking:
    return Asking(small)


def test_every_address_that_a_page_names_has_an_answer(asking: Asking) -> None:
    seen, waiting = {"/"}, ["/"]
    while waiting:
        found = asking(waiting.pop())
        assert found.status == 200, found.text
        page = PageReader(found.text)
        named = [str(one.attributes["href"]) for one in page.named("a")]
        forms = [str(one.attributes["action"]) for one in page.named("form") if "action" in one.attributes]
        assert all(one.startswith(("/", "#")) for one in (*named, *forms))
        # A formula has as many pages as there are formulas, all drawn alike.
        new = {one.partition("#")[0] for one in named if not one.startswith("#")} - seen
        formulas = sorted(one for one in new if one.startswith("/formula"))[:1]
        seen |= new
        waiting += [*(one for one in new if not one.startswith("/formula")), *formulas]
    assert {one.partition("?")[0] for one in seen} == {
        *("/", "/run", "/pair", "/suite", "/question", "/questions", "/formula", "/sql")
    }
    assert f"/question?{urlencode({'dataset': 'kb', 'id': ODD})}" in seen


@pytest.mark.parametrize(
    "host", ["evil.example:3001", "127.0.0.1", "127.0.0.1:3002", "localhost.evil.example:3001", ""]
)
def test_a_foreign_name_of_the_server_is_refused(asking: Asking, host: str) -> None:
    answer = asking("/", host=host)
    assert 400 <= answer.status < 500
    assert "run-" not in answer.text


@pytest.mark.parametrize("host", ["127.0.0.1:3001", "LOCALHOST:3001", "[::1]:3001"])
def test_the_names_of_this_machine_are_answered(asking: Asking, host: str) -> None:
    assert asking("/sql", host=host).status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT"])
def test_what_could_write_is_refused(asking: Asking, method: str) -> None:
    answer = asking("/sql", method=method)
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize("address", ["/", "/sql", "/nowhere", "/run?id=x"])
def test_every_answer_keeps_the_browser_to_itself(asking: Asking, address: str) -> None:
    for answer in (asking(address), asking(address, host="evil.example"), asking(address, method="POST")):
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; ")
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize("address", ["/", "/questions?dataset=kb", "/suite?suite=nights&dataset=kb"])
def test_the_served_policy_lets_a_page_have_its_own_style_and_script(asking: Asking, address: str) -> None:
    answer = asking(address)
    own = next(
        str(one.attributes["content"])
        for one in PageReader(answer.text).named("meta")
        if "http-equiv" in one.attributes
    )
    hashes = [word.rstrip(";") for word in own.split() if word.startswith("'sha256-")]
    assert len(hashes) == 3
    assert all(one in answer.headers["content-security-policy"] for one in hashes)


def test_what_is_not_there_is_said_with_names_that_are_close(asking: Asking) -> None:
    answer = asking("/run?id=run-2026-09-03")
    assert answer.status == 404
    near = [str(one.attributes["href"]) for one in PageReader(answer.text).named("a")]
    assert {"/run?id=run-2026-09-01", "/run?id=run-2026-09-02"} <= set(near)
    assert asking("/nowhere").status == asking("/suite?suite=x&dataset=kb").status == 404
    assert asking("/formula?name=mrx").status == asking("/question?dataset=kb&id=x").status == 404
    assert asking("/run").status == asking("/pair?a=run-2026-09-01").status == 400


def test_runs_and_questions_are_found_by_their_words(asking: Asking) -> None:
    page = PageReader(asking("/search?q=WHY%3F").text)
    assert [row[0] for row in page.tables["questions-table"][1:]] == [ODD]
    assert "runs-table" not in page.tables
    page = PageReader(asking("/search?q=run+09-02").text)
    assert [row[0] for row in page.tables["runs-table"][1:]] == ["run-2026-09-02"]


def sql(statement: str) -> str:
    return f"/sql?q={quote(statement)}"


def test_sql_is_answered_within_limits(asking: Asking) -> None:
    page = PageReader(asking(sql("select run_id, 1 as one from runs order by 1")).text)
    assert page.tables["answer-table"] == [
        ["run_id", "one"],
        ["run-2026-09-01", "1"],
        ["run-2026-09-02", "1"],
    ]
    many = PageReader(asking(sql("select range from range(2000)")).text)
    assert len(many.tables["answer-table"]) == 501
    assert "there are more" in many.text


@pytest.mark.parametrize(
    "statement",
    [
        "drop table raw.runs",
        "select * from read_text('/etc/hostname')",
        "select 1; select 2",
        "selct 1",
        "set threads = 1",
    ],
)
def test_sql_that_is_no_question_is_shown_with_what_is_wrong(asking: Asking, statement: str) -> None:
    answer = asking(sql(statement))
    assert answer.status == 400
    assert statement in PageReader(answer.text).text
    assert "Traceback" not in answer.text


def test_sql_that_needs_more_memory_than_there_is_blames_no_disk(asking: Asking) -> None:
    answer = asking(sql("select string_agg(repeat('y', 1000)) from range(1000000000)"))
    assert answer.status == 400
    said = PageReader(answer.text).text
    assert "needs more memory than there is" in said
    assert "range(1000000000)" in said


def test_a_page_of_another_site_cannot_make_the_browser_ask_the_store(asking: Asking) -> None:
    answer = asking(sql("select 41 + 1 as found"), sec_fetch_site="cross-site")
    assert answer.status == 200
    assert "answer-table" not in PageReader(answer.text).tables


def test_nothing_is_written_by_looking(small: Settings, asking: Asking) -> None:
    def state() -> str:
        return hashlib.sha256(small.db.read_bytes()).hexdigest()

    before, beside = state(), sorted(path.name for path in small.db.parent.iterdir())
    for address in (
        "/",
        "/run?id=run-2026-09-01",
        "/search?q=why",
        sql("delete from raw.runs"),
        sql("checkpoint"),
    ):
        asking(address)
    assert (state(), sorted(path.name for path in small.db.parent.iterdir())) == (before, beside)


def test_a_store_that_is_being_written_is_said_calmly(small: Settings, asking: Asking) -> None:
    with open_writer(small.db):
        answer = asking("/run?id=run-2026-09-01")
    assert answer.status == 503
    assert "retry-after" in answer.headers
    page = PageReader(answer.text)
    assert "busy" in page.text
    assert "/run?id=run-2026-09-01" in [one.attributes["href"] for one in page.named("a")]
    assert asking("/run?id=run-2026-09-01").status == 200


def test_a_store_that_is_not_there_yet_is_said(tmp_path: Path) -> None:
    answer = Asking(settings_in(tmp_path))("/")
    assert answer.status == 503
    assert "eval-pipeline load" in answer.text


def test_a_fault_of_the_program_is_a_page_without_its_insides(
    small: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> None:
        raise ZeroDivisionError("of all things")

    asking = Asking(small)
    app = app_of(broken, notify=asking.remarks.append)  # type: ignore[arg-type]
    asking.app.app = app
    answer = asking("/")
    assert (answer.status, "Traceback" in answer.text) == (500, False)
    assert "of all things" in answer.text
    assert asking.remarks == ["/: internal error: ZeroDivisionError: of all things"]


def test_a_port_that_is_taken_is_said_with_the_way_out(small: Settings) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        with pytest.raises(UsageError, match="choose another with --port"):
            serve(lambda: project_of(small), taken, notify=print, started=print)


@pytest.mark.needs_process
def test_the_command_prints_its_address_answers_there_and_ends_at_once(small: Settings) -> None:
    command = [sys.executable, "-m", "eval_pipeline", "view", "--port", "0", "--db", str(small.db)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        try:
            assert address.startswith("http://127.0.0.1:")
            connection = http.client.HTTPConnection(address.removeprefix("http://").rstrip("/"))
            connection.request("HEAD", "/sql")
            answer = connection.getresponse()
            assert (answer.status, answer.read()) == (200, b"")
            # The connection stays open: Ctrl-C does not wait for it.
            server.send_signal(signal.SIGINT)
            assert server.wait(timeout=30) in (-signal.SIGINT, 130)
        finally:
            server.kill()
