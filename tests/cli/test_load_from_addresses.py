"""`load https://…`: a file is fetched and loaded, and nothing secret of its address is shown or kept."""

from __future__ import annotations

import base64
import os
import shutil
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from eval_pipeline import remote
from eval_pipeline.cli.main import main
from eval_pipeline.errors import UsageError
from eval_pipeline.remote import fetch, shown
from tests.adapters.taken import MADE
from tests.bundle_files import ask, settings_in

RUN = (MADE / "demo.run").read_bytes()
SECRET = "hunter2"


class Host(BaseHTTPRequestHandler):
    """Answers as its server's table says: path → (code, headers, body)."""

    def do_GET(self) -> None:
        self.server.asked.append((self.path, self.headers.get("Authorization")))
        code, headers, body = self.server.answers.get(self.path.split("?")[0], (404, {}, b""))
        self.send_response(code)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_words: object) -> None:
        """Nothing on the screen of the tests."""


@contextmanager
def serving(answers, context: ssl.SSLContext | None = None) -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Host)
    server.answers, server.asked = answers, []
    if context:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def host():
    with serving({"/a/demo.run": (200, {}, RUN)}) as server:
        yield server


@pytest.fixture
def at(host):
    return lambda path, who="": f"http://{who}127.0.0.1:{host.server_port}{path}"


@pytest.fixture
def typed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    settings = settings_in(tmp_path)
    monkeypatch.setenv("EVAL_PIPELINE_DB", str(settings.db))

    def run(*words):
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            main(list(words))
        printed = capsys.readouterr()
        return int(left.value.code or 0), printed.out + printed.err

    return run


def test_a_file_is_fetched_loaded_and_named_without_what_is_secret_in_its_address(typed, at, host, tmp_path):
    address = at(f"/a/demo.run?token={SECRET}", f"me:{SECRET}@")
    code, said = typed("load", address, "--dataset", "demo")
    assert code == 0, said
    assert SECRET not in said and at("/a/demo.run") in said
    signed = base64.b64encode(f"me:{SECRET}".encode()).decode()
    assert host.asked == [(f"/a/demo.run?token={SECRET}", f"Basic {signed}")]
    settings = settings_in(tmp_path)
    assert {path for (path,) in ask(settings, "select path from deliveries")} == {at("/a/demo.run")}
    kept = [path for path in tmp_path.rglob("*") if path.is_file() and path.suffix not in (".lock", ".turn")]
    assert [path.read_bytes() for path in kept if path.name == "demo.run"] == [RUN]
    assert not any(SECRET.encode() in path.read_bytes() for path in kept)


def test_what_cannot_be_taken_is_named_by_its_address(typed, at, host):
    host.answers["/odd"] = (200, {}, b"neither this nor that")
    code, said = typed("load", at(f"/odd?token={SECRET}"), "--dataset", "demo")
    assert code == 2 and at("/odd") in said and SECRET not in said


def test_what_was_fetched_is_not_written_back_to(typed, at, host):
    host.answers["/kb.sqlite"] = (200, {}, (MADE / "kb.sqlite").read_bytes())
    code, said = typed("load", at("/kb.sqlite"), "--write-back")
    assert code == 2 and "cannot be written back to" in said


@pytest.mark.parametrize(
    ("address", "said"),
    [
        (f"http://me:{SECRET}@results.example/run.json?key={SECRET}", "use https://"),
        (f"s3://me:{SECRET}@bucket/run.json?key={SECRET}", "copy the file here first"),
        (f"https://me:{SECRET}@results.example/nights/?key={SECRET}", "names a folder"),
        (f"https:///run.json?key={SECRET}", "names no host"),
        (f"https://me:{SECRET}@results.example:port/run.json", "is none"),
    ],
)
def test_an_address_that_is_not_fetched_says_why_and_nothing_secret(tmp_path, address, said):
    with pytest.raises(UsageError, match=said) as refused:
        fetch(address, tmp_path)
    assert SECRET not in str(refused.value)


def test_a_redirect_is_followed_to_https_and_to_this_machine_alone(at, host, tmp_path):
    host.answers["/moved"] = (302, {"Location": "/a/demo.run"}, b"")
    host.answers["/open"] = (302, {"Location": f"http://results.example/run?key={SECRET}"}, b"")
    host.answers["/file"] = (302, {"Location": "file:///etc/hostname"}, b"")
    host.answers["/round"] = (302, {"Location": "/round"}, b"")
    assert Path(fetch(at("/moved", f"me:{SECRET}@"), tmp_path)).read_bytes() == RUN
    # Where it leads nobody is told the password.
    assert host.asked[-1] == ("/a/demo.run", None)
    for path, said in (("/open", "which is no https"), ("/file", "302"), ("/round", "302")):
        with pytest.raises(UsageError, match=said) as refused:
            fetch(at(path), tmp_path)
        assert SECRET not in str(refused.value)


def test_too_much_too_little_and_nothing_are_refused_and_leave_nothing(at, host, tmp_path, monkeypatch):
    monkeypatch.setattr(remote, "MOST_BYTES", 100)
    host.answers["/said"] = (200, {"Content-Length": "101"}, b"x" * 101)
    host.answers["/unsaid"] = (200, {"Content-Length": ""}, b"x" * 101)
    host.answers["/short"] = (200, {"Content-Length": "50"}, b"x" * 10)
    for path, said in (
        ("/said", "more than 100 bytes"),
        ("/unsaid", "more than 100 bytes"),
        ("/short", "ended after 10 of 50 bytes"),
        ("/gone", "answers 404"),
    ):
        with pytest.raises(UsageError, match=said):
            fetch(at(path), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_takes_too_long_is_given_up(at, tmp_path, monkeypatch):
    monkeypatch.setattr(remote, "MOST_SECONDS", -1.0)
    with pytest.raises(UsageError, match="given up"):
        fetch(at("/a/demo.run"), tmp_path)


def test_progress_counts_bytes(at, tmp_path):
    seen = []
    fetch(at("/a/demo.run"), tmp_path, lambda done, total: seen.append((done, total)))
    assert seen[-1] == (len(RUN), len(RUN))


@pytest.mark.needs_process
@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
def test_a_certificate_that_nobody_vouches_for_is_refused_and_a_known_one_read(tmp_path, monkeypatch):
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1"
    subprocess.run([*command.split(), "-keyout", key, "-out", certificate], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with serving({"/demo.run": (200, {}, RUN)}, context) as server:
        address = f"https://127.0.0.1:{server.server_port}/demo.run"
        with pytest.raises(UsageError, match="certificate does not hold"):
            fetch(address, tmp_path / "a")
        monkeypatch.setenv("SSL_CERT_FILE", os.fspath(certificate))
        assert Path(fetch(address, tmp_path / "b")).read_bytes() == RUN


def test_an_address_is_shown_with_its_host_port_and_path_alone():
    assert shown(f"https://me:{SECRET}@host.example:8443/a/b.json?key={SECRET}#{SECRET}") == (
        "https://host.example:8443/a/b.json"
    )


@pytest.mark.needs_process
def test_who_fetches_nothing_imports_nothing_for_it():
    code = "import sys, eval_pipeline.cli.load; assert not {'eval_pipeline.remote', 'urllib.request'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
