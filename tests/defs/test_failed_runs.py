"""A failed Dagster run is told to a webhook, which holds nothing up and learns no secret."""

from __future__ import annotations

import json
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import dagster as dg
import pytest

from eval_pipeline.config import load_config
from eval_pipeline.defs.tags import RANGE_END, RANGE_START, WHY
from eval_pipeline.defs.telling.failures import failed_runs
from eval_pipeline.defs.telling.webhook import tell
from eval_pipeline.errors import InvalidConfig

HIDDEN = "T0/very-secret"


class Listening(HTTPServer):
    """A webhook on this machine that keeps what it was told and answers as it is told to."""

    def __init__(self, status: int = 200, header: tuple[str, str] | None = None) -> None:
        self.got: list[tuple[str, dict]] = []
        server = self

        class Answer(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                server.got.append((self.path, json.loads(body)))
                self.send_response(status)
                if header:
                    self.send_header(*header)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Answer)
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/{HIDDEN}"

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


@pytest.fixture(scope="module")
def failed():
    """What Dagster hands the sensor about a run that failed."""

    @dg.op
    def tables():
        raise ValueError("q7 of r3: no number\nand https://somebody:word@host/ in a second line")

    @dg.job
    def nightly_evaluation():
        tables()

    with dg.DagsterInstance.ephemeral() as instance:
        tags = {RANGE_START: "r1", RANGE_END: "r3", WHY: "its formula changed"}
        result = nightly_evaluation.execute_in_process(instance=instance, raise_on_error=False, tags=tags)
        context = dg.build_run_status_sensor_context(
            sensor_name="failed_runs",
            dagster_event=result.get_run_failure_event(),
            dagster_instance=instance,
            dagster_run=result.dagster_run,
        )
        yield context.for_run_failure()


def config_of(tmp_path, entry):
    path = tmp_path / "eval-pipeline.toml"
    path.write_text(f"[dagster]\n{entry}\n")
    return load_config(path)


def test_a_failed_run_is_told_with_its_cause_its_range_and_why_it_ran(failed, tmp_path):
    with Listening() as server:
        sensor = failed_runs(config_of(tmp_path, f'webhook = "{server.address}"'))
        assert sensor.default_status == dg.DefaultSensorStatus.RUNNING
        sensor(failed)
    ((path, told),) = server.got
    assert path == f"/{HIDDEN}"
    assert (told["event"], told["job"], told["run_id"]) == (
        "run_failed",
        "nightly_evaluation",
        failed.dagster_run.run_id,
    )
    assert (told["first_partition"], told["last_partition"]) == ("r1", "r3")
    assert told["why"] == "its formula changed"
    assert told["errors"] == ["ValueError: q7 of r3: no number"]
    assert told["text"].startswith("eval-pipeline: nightly_evaluation failed: ")
    assert "word@" not in json.dumps(told)


def test_nobody_is_told_unless_an_address_is_named(failed, tmp_path):
    sensor = failed_runs(config_of(tmp_path, ""))
    assert sensor.default_status == dg.DefaultSensorStatus.STOPPED
    assert "names no address" in sensor(failed).skip_message


def test_a_webhook_that_refuses_or_is_gone_is_said_without_its_address(failed, tmp_path, monkeypatch):
    with Listening(500) as server:
        monkeypatch.setenv("ALERT_URL", server.address)
        sensor = failed_runs(config_of(tmp_path, 'webhook = "env:ALERT_URL"'))
        said = sensor(failed).skip_message
        assert said == "the webhook was not told: 127.0.0.1 answers 500 Internal Server Error"
    said = sensor(failed).skip_message
    assert "127.0.0.1 cannot be reached" in said and "secret" not in said
    monkeypatch.delenv("ALERT_URL")
    assert "env:ALERT_URL holds no https:// address" in sensor(failed).skip_message


def test_what_was_meant_for_one_address_is_not_handed_on_to_another():
    with Listening() as other, Listening(307, ("Location", other.address)) as server:
        assert tell(server.address, {"event": "run_failed"}) == "127.0.0.1 answers 307 Temporary Redirect"
    assert other.got == []


def test_a_webhook_that_answers_a_byte_at_a_time_is_given_up_in_time():
    with socket.create_server(("127.0.0.1", 0)) as server:
        done = threading.Event()

        def drip() -> None:
            connection, _ = server.accept()
            with connection:
                while not done.wait(0.05):
                    connection.sendall(b"H")

        threading.Thread(target=drip, daemon=True).start()
        began = time.monotonic()
        said = tell(f"http://127.0.0.1:{server.getsockname()[1]}/", {}, most_seconds=0.3)
        took = time.monotonic() - began
        done.set()
    assert said == "127.0.0.1 did not answer within 0.3 s"
    assert took < 5


@pytest.mark.parametrize(
    "entry",
    [
        'webhook = "http://example.org/very-secret"',
        'webhook = "ftp://example.org/very-secret"',
        'webhook = "https:///very-secret"',
        'webhook = "very-secret"',
        'webhook = "https://example.org/very-secret\\n"',
        'webhook = ["very-secret"]',
    ],
)
def test_an_address_that_cannot_be_meant_is_refused_without_repeating_it(tmp_path, entry):
    with pytest.raises(InvalidConfig, match="https:// address") as raised:
        config_of(tmp_path, entry)
    assert "very-secret" not in str(raised.value)
