"""The file that another tool wrote is kept beside the bundle made of it, goes with it, and holds nothing up."""

from __future__ import annotations

import hashlib
import json
import shutil
from functools import partial
from pathlib import Path

import pytest

from eval_pipeline.loading.context import LoadOptions
from eval_pipeline.loading.file import RunNamed, load_results_file
from eval_pipeline.loading.others import FilesNamed, load_files
from eval_pipeline.store.kept import kept_folder
from eval_pipeline.upkeep.backup import back_up
from eval_pipeline.upkeep.doctor import diagnose
from eval_pipeline.upkeep.forget import Request, forget
from eval_pipeline.upkeep.rebuild import rebuild
from eval_pipeline.upkeep.verify import verify_kept
from tests.adapters.taken import MADE
from tests.bundle_files import ask, day, settings_in, write_lines
from tests.projects import project_of

PASSAGE = "Harbour fees"
RUNS = ["promptfoo.large", "promptfoo.large.e2", "promptfoo.small", "promptfoo.small.e2"]


@pytest.fixture
def settings(tmp_path):
    return settings_in(tmp_path / "store")


@pytest.fixture
def load(settings):
    def load(path: Path, *, on: int = 1, named: FilesNamed | None = None, **options):
        project = project_of(settings, now=day(on))
        chosen = LoadOptions(**options)
        report, _ = load_files([path], [], named or FilesNamed(dataset="demo"), project, options=chosen)
        return report

    return load


@pytest.fixture
def forgotten(settings):
    return partial(forget, project_of(settings, now=day(9)), compacts=False)


def originals(settings) -> list[Path]:
    """Every file that lies below a folder of originals."""
    return sorted(path for path in kept_folder(settings.db).glob("*/*/*/original/**/*") if path.is_file())


def said(settings, run_id: str) -> dict:
    (path,) = kept_folder(settings.db).glob(f"*/runs/{run_id}/run.json")
    return json.loads(path.read_text("utf-8"))["original"]


def test_the_original_lies_byte_for_byte_with_the_first_run_of_its_file(settings, load):
    source = MADE / "promptfoo.json"
    load(source)
    (kept,) = originals(settings)
    assert kept.read_bytes() == source.read_bytes()
    assert kept.relative_to(kept.parents[3]).as_posix() == "runs/promptfoo.small/original/promptfoo.json"
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    known = {"name": "promptfoo.json", "bytes": source.stat().st_size, "sha256": digest}
    assert [said(settings, run) for run in RUNS] == [known] * 4
    check = verify_kept(settings.db)
    assert (check.findings, check.unchecked) == ([], 0)


def test_the_same_file_again_is_kept_once(settings, load):
    load(MADE / "promptfoo.json")
    assert load(MADE / "promptfoo.json", on=2).runs == []
    assert len(originals(settings)) == 1


@pytest.mark.parametrize("name", ["beir", "langfuse", "qrels.txt", "kb.sqlite"])
def test_folders_labels_and_databases_are_kept_too(settings, load, name):
    source = MADE / name
    load(source)
    files = [source] if source.is_file() else sorted(one for one in source.rglob("*") if one.is_file())
    assert [one.read_bytes() for one in originals(settings)] == [one.read_bytes() for one in files]
    assert verify_kept(settings.db).findings == []


def test_a_file_read_through_a_mapping_is_kept_too(settings, tmp_path):
    rows = write_lines(tmp_path / "own.jsonl", [{"qid": "q1", "ids": ["d/1"]}])
    mapping = tmp_path / "mapping.toml"
    mapping.write_text('[result]\nquery_id = "qid"\n[hits]\nlist = "ids"\nchunk_id = "."\n')
    load_results_file(rows, RunNamed("mine", "demo"), project_of(settings), mapping=mapping)
    (kept,) = originals(settings)
    assert (kept.name, kept.read_bytes()) == ("own.jsonl", rows.read_bytes())
    assert said(settings, "mine")["bytes"] == rows.stat().st_size


def test_without_texts_its_name_size_and_hash_are_kept_alone(settings, load):
    load(MADE / "promptfoo.json", no_text=True)
    assert originals(settings) == []
    assert set(said(settings, "promptfoo.small")) == {"name", "bytes", "sha256"}


def test_a_run_added_to_a_database_is_all_that_is_new(settings, load, tmp_path):
    """The bytes of a database change with every run in it: the others are not delivered again."""
    import sqlite3

    source = shutil.copy(MADE / "kb.sqlite", tmp_path / "kb.sqlite")
    load(source)
    with sqlite3.connect(source) as con:
        con.execute(
            "insert into eval_runs select 'third', suite, config_snapshot_json, null, commit_hash, '2026-11-09' "
            "from eval_runs where run_id = 'second'"
        )
        con.execute(
            "insert into eval_query_results select 'third', query_id, result_json from eval_query_results "
            "where run_id = 'second'"
        )
    con.close()
    assert load(source, on=2).runs == ["third"]


@pytest.mark.parametrize("run_id", ["promptfoo.small", "promptfoo.large.e2"])
@pytest.mark.parametrize("text", [True, False])
def test_forgetting_any_run_of_the_file_takes_the_original(settings, load, forgotten, run_id, text):
    load(MADE / "promptfoo.json")
    load(MADE / "langfuse")
    report = forgotten(Request("run", run_id, text=text))
    assert [path.parts[-4] for path in originals(settings)] == ["langfuse"] * 2
    assert report.unreadable == []
    assert verify_kept(settings.db).findings == []
    load(MADE / "promptfoo.json", on=10, named=FilesNamed(dataset="demo", chunker="v2"))
    assert [path.parts[-4] for path in originals(settings)] == ["langfuse"] * 2


@pytest.mark.parametrize("text", [True, False])
def test_forgetting_a_dataset_takes_the_originals_of_its_labels_and_runs(settings, load, forgotten, text):
    load(MADE / "qrels.txt")
    load(MADE / "ragas-results.csv")
    assert len(originals(settings)) == 2
    report = forgotten(Request("dataset", "demo", text=text))
    assert (originals(settings), report.unreadable) == ([], [])
    assert verify_kept(settings.db).findings == []


@pytest.mark.parametrize("fault", ["gone", "damaged"])
def test_a_lost_original_is_said_and_holds_nothing_up(settings, load, tmp_path, fault):
    load(MADE / "promptfoo.json")
    before = ask(settings, "select run_id, results from runs order by all")
    (kept,) = originals(settings)
    if fault == "gone":
        kept.unlink()
    else:
        kept.write_bytes(kept.read_bytes()[:-9])
    (found,) = [one for one in diagnose(project_of(settings)).findings if "original" in one.what]
    assert (found.where, found.level) == (str(kept), "warning")
    back_up(project_of(settings), tmp_path / "copy")
    report = rebuild(project_of(settings))
    assert [one.path for one in report.damaged] == [str(kept)]
    assert "written anew" not in report.damaged[0].in_words
    assert ask(settings, "select run_id, results from runs order by all") == before
    assert verify_kept(settings.db).findings == []


def test_rebuilding_needs_the_bundles_alone_and_leaves_the_originals(settings, load):
    load(MADE / "promptfoo.json")
    before = originals(settings), ask(settings, "select run_id, results from runs order by all")
    settings.db.write_bytes(b"broken")
    rebuild(project_of(settings))
    assert (originals(settings), ask(settings, "select run_id, results from runs order by all")) == before
