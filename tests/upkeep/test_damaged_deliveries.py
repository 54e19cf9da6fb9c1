"""Kept files that are damaged or missing: named, never taken for what was delivered, and written anew from the rows."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from eval_pipeline.cli.main import cli
from eval_pipeline.errors import StoreError
from eval_pipeline.formulas.registry import load_registry
from eval_pipeline.loading.context import LoadOptions
from eval_pipeline.loading.load import load_bundles
from eval_pipeline.store.kept import KeptFile, kept_folder
from eval_pipeline.upkeep.doctor import diagnose
from eval_pipeline.upkeep.forget import Request, forget
from eval_pipeline.upkeep.rebuild import rebuild
from eval_pipeline.upkeep.verify import verify_kept
from tests.bundle_files import ask, day, hits, load, settings_in, write_golden, write_run
from tests.cli.broken_stores import cut_off
from tests.projects import open_reader, project_of
from tests.reference.bundles import random_bundle, write_bundle

# Of what is delivered again from the rows, the bytes are others; of a delivery, its time and its name.
OTHERWISE = ("content_hash", "loaded_at", "first_loaded_at", "delivery_key", "superseded_at", "n_quarantined")


def rebuilt(settings, *words, code=0):
    done = CliRunner().invoke(cli, ["rebuild", "--db", str(settings.db), "--json", *words])
    assert done.exit_code == code, (done.output, done.exception)
    return json.loads(done.stdout), done.stderr


def stored(settings):
    """Every row of what was delivered, ids and texts by their words, whatever keys they have got."""
    with open_reader(settings.db) as con:
        tables = con.execute(
            "select schema_name || '.\"' || table_name || '\"', list(column_name order by column_index) "
            "from duckdb_columns() where schema_name in ('raw', 'labels') and not internal "
            "and table_name not in ('run_parts', 'query_ids', 'chunk_ids', 'doc_ids', 'case_ids') group by all"
        ).fetchall()
        ids = {
            kind: dict(con.execute(f"select {kind}_key, {kind}_id from raw.{kind}_ids").fetchall())
            for kind in ("query", "chunk", "doc", "case")
        }
        found = {}
        for table, columns in tables:
            kept = [name for name in columns if name not in OTHERWISE]
            listed = ", ".join(f'"{name}"' for name in kept)
            rows = con.execute(f"select {listed} from {table}").fetchall()
            named = [
                {
                    name: ids[name[:-4]].get(value) if name[:-4] in ids else value
                    for name, value in zip(kept, row, strict=True)
                }
                for row in rows
            ]
            found[table] = sorted(map(repr, named))
        return found


def kept_files(settings):
    return [
        path
        for path in sorted(kept_folder(settings.db).rglob("*"))
        if path.is_file() and path.name != "manifest.json"
    ]


def flip(path: Path, place: int = -20) -> None:
    data = bytearray(path.read_bytes())
    data[place % len(data)] ^= 4
    path.write_bytes(data)


@pytest.fixture
def rich(tmp_path):
    """A store with a row of nearly everything that can be delivered."""
    settings = settings_in(tmp_path / "store")
    write_bundle(random_bundle(11, queries=6, runs=3), tmp_path / "bundle")
    said = {
        "value": 0.5,
        "label": "P",
        "reason": "half of it",
        "source": "judge",
        "model": "m",
        "version": "1",
    }
    scores = {"all": said, "number": 2, "flag": True, "word": "curt", "nothing": None}
    write_golden(tmp_path / "bundle", [{"query_id": "q"}], dataset="scored")
    write_run(
        tmp_path / "bundle", "scored", [{"query_id": "q", "scores": scores}], dataset="scored", scores=scores
    )
    load(settings, tmp_path / "bundle")
    return settings


def test_whole_deliveries_have_no_findings(rich):
    with open_reader(rich.db) as con:
        check = verify_kept(rich.db, con)
    assert (check.findings, check.unchecked, check.deliveries) == ([], 0, 1)
    assert check.files == len(kept_files(rich)) > 4


@pytest.mark.slow
@pytest.mark.parametrize("lose", [flip, Path.unlink], ids=["damaged", "missing"])
def test_every_lost_file_is_named_and_written_anew_from_the_rows(rich, lose):
    before, files = stored(rich), kept_files(rich)
    for path in files:
        lose(path)
    document, said = rebuilt(rich, "--yes", code=3)
    assert sorted(one["path"] for one in document["damaged"]) == sorted(map(str, files))
    assert all(str(path) in said for path in files)
    assert all(one["is_written_anew"] for one in document["damaged"])
    assert stored(rich) == before
    # What was written anew is whole, and says the same once more.
    assert rebuilt(rich, "--yes")[0]["damaged"] == []
    assert stored(rich) == before


@pytest.fixture
def two_runs(tmp_path):
    settings = settings_in(tmp_path / "store")
    bundle = tmp_path / "bundle"
    write_golden(bundle, [{"query_id": "q1", "expected_chunk_ids": ["d/1"]}])
    rows = [{"query_id": "q1", "hits_top_k": hits("d/1"), "trace": "only here"}, {"query_id": 7}]
    write_run(bundle, "first", rows)
    write_run(bundle, "second", rows)
    load(settings, bundle)
    return settings, bundle


def as_earlier_versions_left_it(settings):
    """Named by the time alone, and without a manifest."""
    for manifest in kept_folder(settings.db).glob("*/manifest.json"):
        manifest.unlink()
        manifest.parent.rename(manifest.parents[1] / manifest.parent.name.split(".", 1)[1])


def results_of(settings, run_id):
    (path,) = kept_folder(settings.db).glob(f"*/runs/{run_id}/results*")
    return path


def test_what_rows_do_not_hold_is_said_to_be_lost(two_runs):
    settings, _ = two_runs
    flip(results_of(settings, "first"))
    (found,) = rebuilt(settings, "--yes", code=3)[0]["damaged"]
    assert "keys that the store does not know, 1 rejected row" in found["lost"]
    assert Path(found["set_aside"]).is_file()


def test_without_the_store_a_damaged_file_is_left_out_and_never_read_as_other_rows(two_runs):
    settings, bundle = two_runs
    flip(results_of(settings, "first"))
    cut_off(settings.db)
    document, said = rebuilt(settings, code=3)
    assert [one["is_written_anew"] for one in document["damaged"]] == [False] and "is left out" in said
    assert ask(settings, "select distinct run_id from hits") == [("second",)]
    # It is asked for until it is delivered again.
    assert rebuilt(settings, "--yes", code=3)[0]["damaged"][0]["problem"] == "missing"
    assert load(settings, bundle, on=5).runs == ["first"]


def test_deliveries_of_earlier_versions_are_held_against_the_ledger(two_runs):
    settings, _ = two_runs
    as_earlier_versions_left_it(settings)
    before = stored(settings)
    damaged, missing = results_of(settings, "first"), results_of(settings, "second")
    flip(damaged)
    missing.unlink()
    document, _ = rebuilt(settings, "--yes", code=3)
    assert {(one["path"], one["problem"]) for one in document["damaged"]} == {
        (str(damaged), "damaged"),
        (str(missing), "missing"),
    }
    assert stored(settings) == before and document["unchecked"] == 0


def test_a_missing_document_of_a_run_is_named_also_where_only_its_results_were_new(two_runs):
    settings, bundle = two_runs
    write_run(bundle, "first", [{"query_id": "q1", "hits_top_k": hits("d/9")}])
    load(settings, bundle, on=2)
    as_earlier_versions_left_it(settings)
    before, documents = stored(settings), sorted(kept_folder(settings.db).glob("*/runs/first/run.json"))
    documents[-1].unlink()
    document, _ = rebuilt(settings, "--yes", code=3)
    assert len(documents) == 2 and [one["path"] for one in document["damaged"]] == [str(documents[-1])]
    assert stored(settings) == before


def test_what_an_earlier_version_took_in_without_its_texts_is_not_called_damaged(tmp_path):
    settings = settings_in(tmp_path / "store")
    write_bundle(random_bundle(11, queries=6, runs=3), tmp_path / "bundle")
    load_bundles([tmp_path / "bundle"], project_of(settings, now=day(1)), options=LoadOptions(no_text=True))
    before = stored(settings)
    as_earlier_versions_left_it(settings)
    document, said = rebuilt(settings, "--yes")
    assert (document["damaged"], document["unchecked"]) == ([], 1) and "taken as they are" in said
    assert stored(settings) == before


def test_of_deliveries_of_earlier_versions_it_is_said_once_that_nothing_is_known(two_runs):
    settings, _ = two_runs
    as_earlier_versions_left_it(settings)
    cut_off(settings.db)
    document, said = rebuilt(settings)
    assert document["unchecked"] == 1 and said.count("without checksums") == 1
    assert sorted(document["runs"]) == ["first", "second"]


def test_a_damaged_manifest_is_named_and_written_anew(two_runs):
    settings, _ = two_runs
    before = stored(settings)
    (manifest,) = kept_folder(settings.db).glob("*/manifest.json")
    manifest.write_text(manifest.read_text().replace('"bytes": ', '"bytes": 1'))
    (found,) = rebuilt(settings, "--yes", code=3)[0]["damaged"]
    assert found["path"] == str(manifest)
    assert rebuilt(settings, "--yes")[0]["damaged"] == [] and stored(settings) == before


def test_a_missing_manifest_is_named_and_written_anew(two_runs):
    settings, _ = two_runs
    (manifest,) = kept_folder(settings.db).glob("*/manifest.json")
    manifest.unlink()
    (found,) = rebuilt(settings, "--yes", code=3)[0]["damaged"]
    assert (found["path"], found["problem"]) == (str(manifest), "missing")
    assert rebuilt(settings, "--yes")[0]["damaged"] == []


@pytest.mark.parametrize("put", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("/dev/zero")])
def test_what_stands_in_the_place_of_a_kept_file_and_is_none_is_damage(two_runs, put):
    settings, _ = two_runs
    before, kept = stored(settings), results_of(settings, "first")
    kept.unlink()
    put(kept)
    (found,) = rebuilt(settings, "--yes", code=3)[0]["damaged"]
    assert (found["path"], found["problem"]) == (str(kept), "damaged")
    assert stored(settings)['raw."results"'] == before['raw."results"']


def test_a_kept_file_that_cannot_be_read_is_found_and_not_taken_for_damaged(two_runs, monkeypatch):
    settings, _ = two_runs
    kept = results_of(settings, "first")

    def measured(self, path):
        if path == kept:
            raise PermissionError(13, "Permission denied", str(path))
        return KeptFile.measured_before(self, path)

    monkeypatch.setattr(KeptFile, "measured_before", KeptFile.measured, raising=False)
    monkeypatch.setattr(KeptFile, "measured", measured)
    (found,) = [one for one in diagnose(project_of(settings)).findings if "kept delivery" in one.what]
    assert (found.where, "unreadable" in found.what) == (str(kept), True) and "right to read" in found.mend
    with pytest.raises(StoreError, match=f"{kept} cannot be read"):
        rebuild(project_of(settings, now=day(4)))
    assert kept.is_file()


def test_a_delivery_on_a_disk_that_is_not_there_is_waited_for(two_runs, tmp_path):
    settings, bundle = two_runs
    (delivery,) = kept_folder(settings.db).iterdir()
    delivery.rename(tmp_path / "disk")
    delivery.symlink_to(tmp_path / "disk")
    (tmp_path / "disk").rename(tmp_path / "unmounted")
    write_run(bundle, "third", [{"query_id": "q1"}])
    load(settings, bundle, on=2)
    with pytest.raises(StoreError, match="mount that disk"):
        rebuild(project_of(settings, now=day(4)))
    (tmp_path / "unmounted").rename(tmp_path / "disk")
    before = stored(settings)
    assert rebuilt(settings, "--yes")[0]["damaged"] == [] and stored(settings) == before


def test_a_kept_file_that_forgetting_cannot_read_is_named(two_runs):
    settings, _ = two_runs
    damaged = results_of(settings, "first")
    flip(damaged)
    report = forget(project_of(settings, now=day(3)), Request("run", "first", text=True))
    assert report.unreadable == [str(damaged)]
    done = CliRunner().invoke(
        cli, ["forget", "second", "--db", str(settings.db), "--text", "--yes", "--json"]
    )
    assert json.loads(done.stdout)["unreadable"] == []


def test_what_was_forgotten_is_no_finding(two_runs):
    settings, _ = two_runs
    registry = load_registry(settings)
    forget(project_of(settings, registry, now=day(3)), Request("run", "first", text=True))
    forget(project_of(settings, registry, now=day(3)), Request("run", "second"))
    with open_reader(settings.db) as con:
        assert verify_kept(settings.db, con).findings == []
    shutil.rmtree(results_of(settings, "first").parent)
    with open_reader(settings.db) as con:
        assert {one.problem for one in verify_kept(settings.db, con).findings} == {"missing"}
