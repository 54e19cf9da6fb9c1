"""Deliveries kept beside the store: they survive full disks, kills and clocks, and `rebuild` gives the store that was."""

from __future__ import annotations

import gzip
import os
from contextlib import contextmanager
from pathlib import Path

import pytest

from eval_pipeline.loading import load as loading
from eval_pipeline.store.kept import Keeping, kept_folder
from eval_pipeline.store.project import Project
from eval_pipeline.upkeep.forget import Request, forget
from eval_pipeline.upkeep.rebuild import rebuild
from tests.bundle_files import (
    ask,
    day,
    hits,
    load,
    settings_in,
    write_archive,
    write_golden,
    write_run,
)
from tests.projects import project_of, registry_of

GOLDEN = [{"query_id": "q1", "expected_chunk_ids": ["d/1"]}]


@pytest.fixture
def settings(tmp_path):
    return settings_in(tmp_path / "store")


@pytest.fixture
def bundle(tmp_path):
    folder = tmp_path / "bundle"
    write_golden(folder, GOLDEN)
    write_archive(folder, "v1", [{"chunk_id": "d/1", "doc_id": "d"}])
    write_run(folder, "run-1", [{"query_id": "q1", "hits_top_k": hits("d/1")}])
    return folder


def another(tmp_path, name, *, run_id=None, chunk="d/2"):
    folder = tmp_path / name
    write_run(folder, run_id or name, [{"query_id": "q1", "hits_top_k": hits(chunk)}])
    return folder


def answers(settings):
    """What was delivered, as anybody can ask for it."""
    queries = (
        "select run_id, dataset from runs",
        "from queries",
        "from hits",
        "select part, dataset, run_id, content_hash, delivered_at, superseded_at is null from deliveries",
    )
    return [sorted(ask(settings, sql), key=repr) for sql in queries]


def kept_files(settings):
    """Every file that is kept, but for what describes them."""
    found = kept_folder(settings.db).rglob("*")
    return sorted(path.name for path in found if path.is_file() and path.name != "manifest.json")


def assert_rebuilt_as_it_was(settings):
    before = answers(settings)
    rebuild(project_of(settings))
    assert answers(settings) == before


def failing(*_arguments):
    raise OSError(28, "No space left on device")


def test_what_fails_after_the_commit_takes_no_kept_delivery_away(settings, bundle, monkeypatch):
    write = Project.write

    @contextmanager
    def open_and_fail_to_close(project, **options):
        with write(project, **options) as store:
            yield store
            has_runs = store.con.execute("from raw.runs limit 1").fetchone()
        if has_runs:
            failing()

    with monkeypatch.context() as broken:
        # As the closing checkpoint does when the disk is full by then.
        broken.setattr(Project, "write", open_and_fail_to_close)
        with pytest.raises(OSError, match="No space"):
            load(settings, bundle)
    assert load(settings, bundle, on=2).runs == []
    assert kept_files(settings) == ["queries.jsonl.zst", "results.jsonl.zst", "run.json", "v1.jsonl.zst"]
    assert_rebuilt_as_it_was(settings)


def placed_and(fails):
    place = Keeping.place

    def placing(self, con, files):
        place(self, con, files)
        fails()

    return placing


def test_what_was_placed_without_a_commit_is_discarded_by_the_next_load(
    settings, bundle, tmp_path, monkeypatch
):
    load(settings, bundle)
    before = kept_files(settings)
    with monkeypatch.context() as broken:
        broken.setattr(Keeping, "place", placed_and(failing))
        with pytest.raises(Exception, match="No space"):
            load(settings, another(tmp_path, "lost"), on=2)
    assert "lost" in {path.name for path in kept_folder(settings.db).rglob("*")}
    load(settings, another(tmp_path, "taken"), on=3)
    assert {path.name for path in kept_folder(settings.db).glob("*/runs/*")} == {"run-1", "taken"}
    assert len(kept_files(settings)) == len(before) + 2
    assert_rebuilt_as_it_was(settings)


def test_a_commit_that_nobody_could_confirm_any_more_keeps_what_was_placed_for_it(
    settings, bundle, monkeypatch
):
    with monkeypatch.context() as broken:
        broken.setattr(Keeping, "confirm", lambda _: failing())
        with pytest.raises(Exception, match="No space"):
            load(settings, bundle)
    assert load(settings, bundle, on=2).golden_sets == []
    assert "queries.jsonl.zst" in kept_files(settings)
    assert_rebuilt_as_it_was(settings)


def test_what_was_placed_without_a_commit_does_not_come_in_by_rebuilding(
    settings, bundle, tmp_path, monkeypatch
):
    load(settings, bundle)
    with monkeypatch.context() as broken:
        broken.setattr(Keeping, "place", placed_and(failing))
        with pytest.raises(Exception, match="No space"):
            load(settings, another(tmp_path, "lost"), on=2)
    assert_rebuilt_as_it_was(settings)
    load(settings, bundle, on=4)
    assert_rebuilt_as_it_was(settings)


@pytest.mark.parametrize("text", ["{", '{"placed": {"folder": "../bundle", "units": ["runs"]}}'])
def test_a_note_of_what_was_placed_that_is_not_as_it_was_written_removes_nothing(settings, bundle, text):
    load(settings, bundle)
    before = kept_files(settings)
    (kept_folder(settings.db) / ".pending.json").write_text(text)
    load(settings, bundle, on=2)
    assert kept_files(settings) == before and (bundle / "runs").is_dir()
    assert_rebuilt_as_it_was(settings)


def test_a_delivery_that_was_moved_to_another_disk_and_linked_is_read_there(settings, bundle, tmp_path):
    load(settings, bundle)
    load(settings, another(tmp_path, "second"), on=2)
    first, _ = sorted(kept_folder(settings.db).iterdir())
    elsewhere = first.rename(tmp_path / "elsewhere")
    first.symlink_to(elsewhere)
    assert_rebuilt_as_it_was(settings)
    forget(project_of(settings, now=day(3)), Request("run", "run-1"))
    assert not (elsewhere / "runs").exists()
    forget(project_of(settings, now=day(4)), Request("dataset", "kb"))
    assert not first.is_symlink() and not elsewhere.exists()


def test_a_store_that_was_deleted_takes_no_kept_delivery_with_it(settings, bundle, tmp_path):
    load(settings, bundle)
    settings.db.unlink()
    load(settings, another(tmp_path, "taken"), on=2)
    assert {path.name for path in kept_folder(settings.db).glob("*/runs/*")} == {"run-1", "taken"}


def test_what_a_killed_load_has_staged_is_gone_with_the_next(settings, bundle):
    load(settings, bundle)
    left = kept_folder(settings.db) / ".incoming-killed" / "runs" / "never"
    left.mkdir(parents=True)
    (left / "results.jsonl.zst").write_bytes(b"half")
    load(settings, bundle, on=2)
    assert not left.parents[1].exists()


def test_deliveries_have_the_order_in_which_they_came_whatever_the_clock_says(settings, bundle, tmp_path):
    load(settings, bundle, on=5)
    load(settings, another(tmp_path, "again", run_id="run-1", chunk="d/7"), on=3)
    assert ask(settings, "select chunk_id from hits") == [("d/7",)]
    rebuild(project_of(settings, now=day(9)))
    assert ask(settings, "select chunk_id from hits") == [("d/7",)]


def test_two_loads_that_take_turns_are_rebuilt_in_the_order_of_their_turns(
    settings, bundle, tmp_path, monkeypatch
):
    """The later one has begun first."""
    later = another(tmp_path, "later", run_id="run-1", chunk="d/7")
    load(settings, bundle)
    in_between(monkeypatch, lambda: load(settings, another(tmp_path, "first", run_id="run-1"), on=3))
    load(settings, later, on=2)
    assert ask(settings, "select chunk_id from hits") == [("d/7",)]
    rebuild(project_of(settings, now=day(9)))
    assert ask(settings, "select chunk_id from hits") == [("d/7",)]


def in_between(monkeypatch, do):
    """Do something after a load has seen the store, and before it writes."""
    read_config = loading.load_config
    calls: list[int] = []

    def reading(*arguments):
        calls.append(1)
        if len(calls) == 1:
            do()
        return read_config(*arguments)

    monkeypatch.setattr(loading, "load_config", reading)


def test_of_two_loads_of_the_same_bytes_one_keeps_them(settings, bundle, monkeypatch):
    in_between(monkeypatch, lambda: load(settings, bundle))
    report = load(settings, bundle, on=2)
    assert (report.golden_sets, report.archives, report.runs, report.unchanged) == ([], [], [], 3)
    assert kept_files(settings) == ["queries.jsonl.zst", "results.jsonl.zst", "run.json", "v1.jsonl.zst"]
    assert ask(settings, "select count(*) from deliveries") == [(4,)]


@pytest.fixture
def unsynced(monkeypatch):
    """Files and folders of a folder that have changed since they were last forced to the disk."""
    synced: dict[int, int] = {}
    fsync = os.fsync

    def watched(descriptor):
        fsync(descriptor)
        state = os.fstat(descriptor)
        synced[state.st_ino] = state.st_mtime_ns

    monkeypatch.setattr(os, "fsync", watched)

    def find(folder: Path) -> list[Path]:
        return [
            path
            for path in folder.rglob("*")
            if not path.relative_to(folder).parts[0].startswith(".")
            and synced.get(path.stat().st_ino) != path.stat().st_mtime_ns
        ]

    return find


def test_what_is_kept_is_on_the_disk_before_its_rows_are_reported(settings, bundle, unsynced, monkeypatch):
    place = Keeping.place
    found: list[Path] = []

    def placing(self, con, files):
        place(self, con, files)
        found.extend(unsynced(kept_folder(settings.db)))

    monkeypatch.setattr(Keeping, "place", placing)
    load(settings, bundle)
    assert kept_files(settings) and found == []


def test_what_forgetting_writes_anew_is_on_the_disk_when_it_is_reported(settings, bundle, unsynced):
    # Not packed as what it is written anew as.
    rows = bundle / "datasets" / "kb" / "queries.jsonl"
    (rows.parent / "queries.jsonl.gz").write_bytes(gzip.compress(rows.read_bytes()))
    rows.unlink()
    load(settings, bundle)
    write_run(bundle, "other", [{"query_id": "q1"}])
    load(settings, bundle, on=2)
    registry = registry_of(settings)
    forget(project_of(settings, registry, now=day(3)), Request("dataset", "kb", text=True))
    assert kept_files(settings) and unsynced(kept_folder(settings.db)) == []
    forget(project_of(settings, registry, now=day(4)), Request("run", "run-1"))
    assert kept_files(settings) and unsynced(kept_folder(settings.db)) == []
