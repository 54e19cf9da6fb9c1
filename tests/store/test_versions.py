"""Which versions may open a store, and what one says that brings an older store up to date."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

import eval_pipeline
from eval_pipeline.errors import RefusedError, StoreNewer
from eval_pipeline.settings import load_settings
from eval_pipeline.store.inspection import inspecting
from tests.bundle_files import ask, compute, load, settings_in, write_golden, write_run
from tests.called import call
from tests.projects import open_reader, open_writer, project_of
from tests.versions import of_version

VERSION = eval_pipeline.__version__
LATER = "9.0.0"


def looking(db):
    return inspecting(project_of(load_settings({}, db=db)))


OPENS = (open_reader, open_writer, looking)


def writes(settings, version):
    with of_version(version), open_writer(settings.db):
        pass


def test_the_version_is_the_one_of_the_package():
    project = Path(__file__).parents[2] / "pyproject.toml"
    assert tomllib.loads(project.read_text("utf-8"))["project"]["version"] == VERSION


@pytest.mark.parametrize("opens", OPENS)
def test_a_store_of_a_newer_version_is_refused_by_its_name_and_left_as_it_is(secrets_in_part, opens):
    settings, _ = secrets_in_part
    writes(settings, LATER)
    before = settings.db.read_bytes()
    with pytest.raises(StoreNewer) as raised, opens(settings.db):
        pass
    assert raised.value.exit_code == RefusedError.exit_code == 5
    assert isinstance(raised.value, RefusedError)
    for words in (LATER, VERSION, "Install that version", "--db"):
        assert words in str(raised.value)
    assert settings.db.read_bytes() == before


def test_every_command_refuses_it_with_its_own_exit_code(secrets_in_part):
    settings, bundle = secrets_in_part
    writes(settings, LATER)
    before = settings.db.read_bytes()
    for words in (
        ["status"],
        ["plan"],
        ["load", str(bundle)],
        ["run"],
        ["apply"],
        ["compact"],
        ["show", "monday"],
        ["ui", "--port", "0"],
    ):
        code, out, err = call([*words, "--db", str(settings.db)], settings.db.parent, apart=True)
        assert (code, out) == (5, ""), (words, err)
        assert LATER in err
    assert settings.db.read_bytes() == before


@pytest.mark.parametrize("version", [f"{VERSION}.1", f"{VERSION.rpartition('.')[0]}.99"])
def test_a_patch_of_the_same_release_keeps_nobody_out(secrets_in_part, version):
    settings, _ = secrets_in_part
    writes(settings, version)
    for opens in OPENS:
        with opens(settings.db):
            pass


def test_only_who_writes_signs(secrets_in_part):
    settings, _ = secrets_in_part
    with of_version(LATER), open_reader(settings.db):
        pass
    with open_reader(settings.db):
        pass


def test_releases_are_told_apart_by_number(secrets_in_part):
    settings, _ = secrets_in_part
    writes(settings, "0.10.0")
    with (
        of_version("0.9.0"),
        pytest.raises(StoreNewer, match=r"eval-pipeline 0\.10\.0"),
        open_reader(settings.db),
    ):
        pass
    with of_version("1.0.0"), open_reader(settings.db):
        pass


def test_a_cell_notes_the_version_that_computed_it(tmp_path):
    settings, bundle = settings_in(tmp_path), tmp_path / "bundle"
    write_golden(bundle, [{"query_id": "q1", "expected_chunk_ids": ["a"]}])
    write_run(bundle, "first", [{"query_id": "q1"}])
    load(settings, bundle)
    compute(settings, definitions={"metrics.hit_at_k"})
    write_run(bundle, "second", [{"query_id": "q1"}])
    with of_version(LATER):
        load(settings, bundle)
        compute(settings, definitions={"metrics.hit_at_k"})
        computed_by = ask(
            settings,
            "select distinct run_id, product_version from ledger.cells join raw.runs using (run_key) order by all",
        )
    assert computed_by == [("first", VERSION), ("second", LATER)]
