"""What `doctor` finds, and that it changes nothing by looking."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from eval_pipeline.cli.main import main
from eval_pipeline.settings import utc_now
from eval_pipeline.store.lock import writer_lock
from tests.bundle_files import hits, load, settings_in, write_archive, write_golden, write_run
from tests.projects import open_writer


@pytest.fixture(scope="module")
def healthy(tmp_path_factory):
    """A store with an inbox and Dagster's files beside it."""
    folder = tmp_path_factory.mktemp("healthy")
    settings = settings_in(folder)
    write_golden(folder / "bundle", [{"query_id": "q", "query": "who?"}])
    write_archive(folder / "bundle", "v1", [{"chunk_id": "d/1", "text": "she"}])
    write_run(
        folder / "bundle", "run-1", [{"query_id": "q", "hits_top_k": hits("d/1"), "answer": {"text": "she"}}]
    )
    load(settings, folder / "bundle")
    (folder / "inbox").mkdir()
    for place in ("history/runs.db", "history/runs/index.db", "schedules/schedules.db"):
        path = folder / "home" / place
        path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(path)) as con, con:
            con.execute("create table runs (id integer)")
            con.executemany("insert into runs values (?)", [(number,) for number in range(5000)])
    return folder


@pytest.fixture
def folder(healthy, tmp_path):
    return shutil.copytree(healthy, tmp_path / "project")


@pytest.fixture
def doctor(folder, monkeypatch, capsys):
    """Call it in the folder; gives exit code and document."""
    for name in [one for one in os.environ if one.startswith("EVAL_PIPELINE")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("EVAL_PIPELINE_DB", "e.duckdb")
    monkeypatch.setenv("EVAL_PIPELINE_INBOX", "inbox")
    monkeypatch.setenv("DAGSTER_HOME", "home")

    def ask(*words):
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            main(["doctor", *words, "--json"])
        document = json.loads(capsys.readouterr().out)
        assert document["ok"] == (document["findings"] == []) == (left.value.code == 0)
        assert all(one["mend"] and one["level"] in ("error", "warning") for one in document["findings"])
        return left.value.code, document

    return ask


def kept(folder: Path, name: str) -> Path:
    (path,) = (folder / "e.duckdb.deliveries").rglob(name)
    return path


def everything_below(folder):
    return {str(path): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def test_nothing_is_found_in_a_healthy_project_and_nothing_is_changed(folder, doctor):
    before = everything_below(folder)
    code, document = doctor()
    assert (code, document["findings"]) == (0, [])
    assert {"python", "duckdb", "written_by"} <= document["environment"].keys()
    assert everything_below(folder) == before


def test_a_store_that_nobody_locked_is_looked_at_without_putting_anything_beside_it(folder, doctor):
    for path in folder.glob("e.duckdb.*"):
        if path.is_file():
            path.unlink()
    before = everything_below(folder)
    assert doctor()[0] == 0
    assert everything_below(folder) == before


def flip(path: Path, place: int = -20) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 0xFF
    path.write_bytes(data)


def damage_a_block(folder):
    db = folder / "e.duckdb"
    data = bytearray(db.read_bytes())
    with open_writer(settings_in(folder).db) as con:
        ((block,),) = con.execute(
            "select block_id from pragma_storage_info('raw.hits') where block_id > 0 limit 1"
        ).fetchall()
    start = 12288 + block * 262144
    data[start + 100 : start + 5000] = b"\xff" * 4900
    db.write_bytes(data)
    return "e.duckdb"


def flip_a_kept_row(folder):
    path = kept(folder, "queries.jsonl.zst")
    flip(path)
    return path.name


def rewrite_a_kept_row(folder):
    path = kept(folder, "run.json")
    path.write_text(path.read_text().replace("run-1", "run-2"))
    return path.name


def lose_a_kept_part(folder):
    kept(folder, "results.jsonl.zst").unlink()
    return "results.jsonl.zst"


def tear_runs(folder):
    path = folder / "home/history/runs.db"
    path.write_bytes(path.read_bytes()[:5000])
    return "runs.db"


def overwrite_schedules(folder):
    path = folder / "home/schedules/schedules.db"
    path.write_bytes(b"not a database" * 100)
    return "schedules.db"


def remove_the_inbox(folder):
    (folder / "inbox").rmdir()
    return "inbox"


def leave_the_spill_of_a_killed_query(folder):
    (folder / "e.duckdb.0123456789abcdef.tmp").mkdir()
    return "e.duckdb.0123456789abcdef.tmp"


def break_the_configuration(folder):
    (folder / "eval-pipeline.toml").write_text("[formulas.nonsense]\n")
    return "eval-pipeline.toml"


@pytest.mark.parametrize(
    "breaks",
    [
        damage_a_block,
        flip_a_kept_row,
        rewrite_a_kept_row,
        lose_a_kept_part,
        tear_runs,
        overwrite_schedules,
        remove_the_inbox,
        leave_the_spill_of_a_killed_query,
        break_the_configuration,
    ],
)
def test_what_is_broken_is_named_and_nothing_else(folder, doctor, breaks):
    place = breaks(folder)
    code, document = doctor()
    assert code == 1
    assert {Path(one["where"]).name for one in document["findings"]} == {place}, document["findings"]


def test_a_setting_that_names_nothing_or_that_nobody_reads_is_found(doctor, monkeypatch):
    monkeypatch.setenv("EVAL_PIPELINE_SQL", "not-mounted")
    monkeypatch.setenv("EVAL_PIPELINE_CONFG", "eval-pipeline.toml")
    said = [one["what"] for one in doctor()[1]["findings"]]
    assert [one.split()[0] for one in said] == ["EVAL_PIPELINE_SQL", "EVAL_PIPELINE_CONFG"]


def test_texts_that_were_left_out_or_forgotten_are_no_damage(folder, doctor):
    write_run(folder / "late", "run-2", [{"query_id": "q", "answer": {"text": "she"}}])
    for words in (["load", str(folder / "late"), "--no-text"], ["forget", "run-1", "--text", "--yes"]):
        with pytest.raises(SystemExit) as left:
            main(words)
        assert left.value.code == 0
    assert doctor()[1]["findings"] == []


def test_a_rejected_row_or_file_that_is_kept_is_no_damage(folder, doctor):
    write_run(folder / "late", "run-2", [{"query_id": "q"}, "no json at all"])
    with pytest.raises(SystemExit):
        main(["load", str(folder / "late")])
    assert doctor()[1]["findings"] == []


def test_who_has_held_the_store_for_long_is_named(folder, doctor, monkeypatch):
    lock = folder / "e.duckdb.lock"
    with writer_lock(folder / "e.duckdb", utc_now):
        said = json.loads(lock.read_text())
    lock.write_text(
        json.dumps({**said, "since": time.time() - 3600, "command": "eval-pipeline query"}) + "\n"
    )
    (finding,) = doctor()[1]["findings"]
    assert f"process {os.getpid()} (eval-pipeline query)" in finding["what"]
    assert f"kill {os.getpid()}" in finding["mend"]


def test_without_a_store_it_says_how_to_make_one(folder, doctor):
    (finding,) = doctor("--db", "nowhere.duckdb")[1]["findings"]
    assert "eval-pipeline load" in finding["mend"]
    assert not (folder / "nowhere.duckdb").exists()


def test_settings_of_ones_own_that_name_no_storage_are_told_the_lines(folder, doctor):
    (folder / "home" / "dagster.yaml").write_text("telemetry:\n  enabled: false\n")
    code, document = doctor()
    (found,) = document["findings"]
    assert (code, found["level"]) == (1, "warning")
    assert found["mend"].startswith("add these lines") and "class: OpenStorage" in found["mend"]
    (folder / "home" / "dagster.yaml").write_text("storage: {postgres: {postgres_url: elsewhere}}\n")
    assert doctor()[0] == 0
