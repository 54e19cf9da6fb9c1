"""The example's system as it stood in its last night, listening on this machine."""

from __future__ import annotations

import json
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from eval_pipeline.demo import BUNDLE_FOLDER
from eval_pipeline.demo.answers import answer_from, answer_row
from eval_pipeline.demo.chunks import read_archive
from eval_pipeline.demo.retriever import WITH_GLOSSARY
from eval_pipeline.demo.system import Engine, build_engine, hit_row, retrieve
from eval_pipeline.errors import UsageError

HOST: Final = "127.0.0.1"
PORT: Final = 3002
PLACE: Final = "/ask"
CHUNKER_VERSION: Final = "heading-1"
PROMPT_VERSION: Final = "prompt-3"
FOLDER_MODE: Final = "on_with_fallback"
TOP_K: Final = 10
_MOST_BYTES: Final = 1 << 20


def last_engine() -> Engine:
    """Over the shipped archive, with the settings of the last night."""
    chunks = read_archive(BUNDLE_FOLDER / "datasets/handbook/inventories" / f"{CHUNKER_VERSION}.jsonl")
    return build_engine(chunks, WITH_GLOSSARY, folder_mode=FOLDER_MODE, folders_by_text=True, dated=chunks)


def reply_to(engine: Engine, question: str, *, top_k: int = TOP_K) -> dict[str, Any]:
    """What was found and what is answered, as a line of a bundle's results without the name of the question."""
    found = retrieve(engine, question, top_k=top_k, folder_mode=FOLDER_MODE)
    answer = answer_from(
        engine.index, question, hits=found.hits, prompt_version=PROMPT_VERSION, years=engine.years
    )
    return {
        "hits_top_k": [hit_row(hit, rank, with_text=True) for rank, hit in enumerate(found.hits, start=1)],
        "folder_mode": FOLDER_MODE,
        "selected_folders": list(found.selected_folders or ()),
        "answer": answer_row(answer, prompt_version=PROMPT_VERSION),
    }


def listening(port: int, asked: Callable[[str], None]) -> ThreadingHTTPServer:
    """A server on this machine alone, which `asked` hears each question of; port 0 takes a free one."""
    try:
        return _Server(port, last_engine(), asked)
    except OSError as error:
        raise UsageError(
            f"port {port} on {HOST} is taken ({error.strerror}): end what runs there, or choose another with --port "
            "and in [targets.handbook] of eval-pipeline.toml"
        ) from error


class _Server(ThreadingHTTPServer):
    """What the requests have in common."""

    def __init__(self, port: int, engine: Engine, asked: Callable[[str], None]) -> None:
        self._engine = engine
        self._asked = asked
        super().__init__((HOST, port), _Handler)

    def reply(self, question: str, top_k: int) -> dict[str, Any]:
        self._asked(question)
        return reply_to(self._engine, question, top_k=top_k)


class _Handler(BaseHTTPRequestHandler):
    """POST /ask with {"question": …, "top_k": 10}."""

    server: _Server
    protocol_version = "HTTP/1.1"
    # Headers and body leave together, and at once.
    wbufsize = -1
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        """Answer, or say what was expected."""
        body = self._body()
        if body is None:
            self._send(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                {"error": f"at most {_MOST_BYTES:,} bytes, with their length"},
            )
        elif self.path != PLACE:
            self._send(HTTPStatus.NOT_FOUND, {"error": f"only {PLACE} answers"})
        elif (asked := _asked(body)) is None:
            wanted = '{"question": "…", "top_k": 10}'
            self._send(HTTPStatus.BAD_REQUEST, {"error": f"expected {wanted}"})
        else:
            self._send(HTTPStatus.OK, self.server.reply(*asked))

    def log_message(self, format: str, *args: Any) -> None:
        """Whoever listens hears the questions instead."""

    def _body(self) -> bytes | None:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > _MOST_BYTES:
            # What follows is not read, so it cannot be taken for another request.
            self.close_connection = True
            return None
        return self.rfile.read(int(length))

    def _send(self, status: HTTPStatus, document: dict[str, Any]) -> None:
        body = json.dumps(document, ensure_ascii=False).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _asked(body: bytes) -> tuple[str, int] | None:
    """The question and how many hits it wants; None where that is not what was sent."""
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, dict):
        return None
    question, top_k = said.get("question"), said.get("top_k", TOP_K)
    if not isinstance(question, str) or not isinstance(top_k, int) or top_k < 1:
        return None
    return question, top_k
