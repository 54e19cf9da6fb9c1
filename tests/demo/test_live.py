"""The example's system asked over loopback: it answers as in its last night, and its suite is evaluated like any other."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from eval_pipeline.demo.live import PORT, last_engine, listening, reply_to
from tests.called import EXAMPLE, call, demo_once
from tests.without_dagster import without_dagster

SUITE, LAST = "handbook-live", "nightly-2026-09-18"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    copy = tmp_path_factory.mktemp("live") / EXAMPLE
    shutil.copytree(demo_once(tmp_path_factory) / EXAMPLE, copy)
    return copy


@contextmanager
def system_listens(folder: Path) -> Iterator[list[str]]:
    """The questions that it hears; it listens on a port of its own, which the suite is told."""
    heard: list[str] = []
    config = folder / "eval-pipeline.toml"
    said = config.read_text("utf-8")
    with listening(0, heard.append) as server:
        config.write_text(said.replace(f":{PORT}/", f":{server.server_port}/"), "utf-8")
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield heard
        finally:
            server.shutdown()
            config.write_text(said, "utf-8")


def test_the_live_system_answers_every_question_as_in_the_last_night(runs, golden):
    engine = last_engine()
    for row in golden:
        kept = runs[LAST].rows[row["query_id"]]
        assert reply_to(engine, row["query"]) == {name: kept[name] for name in reply_to(engine, row["query"])}


def test_the_suite_of_the_example_asks_over_loopback_and_no_model_judges(folder, golden):
    with system_listens(folder) as heard, without_dagster():
        code, out, said = call(["evaluate", SUITE, "--limit", "3", "--json"], folder, apart=True)
        document = json.loads(out)
        assert (code, document["state"], document["target_calls"]) == (0, "complete", 3), said
    assert sorted(heard) == sorted(row["query"] for row in golden[:3])
    run = Path(document["bundle"]) / "runs" / document["run_id"]
    judged = [json.loads(line) for line in (run / "judgements.jsonl").read_text("utf-8").splitlines()]
    assert len(judged) == document["judge_calls"] >= 6
    assert {(one["judge"], one["model"], one["status"]) for one in judged} == {("baseline", None, "ok")}
    code, out, _ = call(["show", document["run_id"], "--json"], folder, apart=True)
    shown = json.loads(out)
    assert {shown["metrics"][f"judge_{ask}"]["n"] for ask in ("groundedness", "correctness")} == {3}
    assert shown["judge_config_problems"] == []
    code, out, _ = call(["compare", LAST, document["run_id"], "--json"], folder, apart=True)
    assert "judge configurations differ" in "\n".join(json.loads(out)["warnings"])
    assert json.loads((run / "run.json").read_text("utf-8"))["config"]["judge"] == {
        "version": "lexical-baseline-1",
        "prompt_version": judged[0]["prompt_version"],
    }


def test_where_the_system_does_not_listen_the_command_that_starts_it_is_named(folder):
    with system_listens(folder):
        pass
    config = folder / "eval-pipeline.toml"
    said = config.read_text("utf-8")
    # Of a port that nobody has: whoever runs the tests may have the example open.
    config.write_text(said.replace(f":{PORT}/", ":1/"), "utf-8")
    code, out, said_aside = call(["evaluate", SUITE, "--run-id", "nobody"], folder, apart=True)
    config.write_text(said, "utf-8")
    assert (code, out) == (2, "")
    assert "`eval-pipeline demo --live`" in said_aside
    assert not (folder / "data/evaluations/nobody").exists()


def test_nights_of_the_example_can_be_judged_again_on_the_texts_that_they_were_judged_on(folder):
    for night in ("nightly-2026-09-07", "nightly-2026-09-14", LAST):
        code, out, _ = call(["rejudge", night, "--dry-run", "--json"], folder, apart=True)
        assert code == 0
        assert json.loads(out)["judge_calls"] > 100


def test_what_somebody_has_set_up_the_demo_leaves_as_it_is(folder, tmp_path):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    own = "[formulas.reciprocal_rank]\ncutoff = 10\n"
    (tmp_path / "eval-pipeline.toml").write_text(own, "utf-8")
    with without_dagster():
        code, _, said = call(["demo"], tmp_path, apart=True)
    assert (code, (tmp_path / "eval-pipeline.toml").read_text("utf-8")) == (0, own)
    assert f"the suite {SUITE} is not in it" in said
