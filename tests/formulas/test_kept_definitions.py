"""Definitions are read once: what is kept of them is used while no byte has changed, and never otherwise."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

import eval_pipeline
from eval_pipeline.errors import DefinitionError
from eval_pipeline.formulas import registry as reading
from eval_pipeline.formulas.registry import load_registry
from tests.bundle_files import settings_in

SQL = (
    '-- keys: {long_answer: "Whether the answer is long"}\n-- scale: binary\n-- parameters: {least: 3}\n\n'
    "select run_key, query_key, cast(doubled(n_hits) >= $least as double) as long_answer from facts.outcomes\n"
)
HELPER = "-- arguments: [n]\n-- examples:\n--   - doubled(2) => 4\n\nn * 2\n"
PYTHON = (
    "from eval_pipeline.formulas.decorator import formula\nfrom limits import LEAST\n\n\n"
    '@formula(reads=["facts.outcomes"], keys={"many": "Whether there are many hits"}, scale="binary")\n'
    "def many(outcomes):\n    return outcomes.filter(LEAST > 1)\n"
)


@pytest.fixture
def settings(tmp_path):
    """Definitions of one's own of every kind, and a cache folder that is not there yet."""
    own = tmp_path / "sql"
    for name, text in (
        ("metrics/long_answer.sql", SQL),
        ("metrics/many.py", PYTHON),
        ("metrics/limits.py", "LEAST = 2\n"),
        ("functions/doubled.sql", HELPER),
    ):
        (own / name).parent.mkdir(parents=True, exist_ok=True)
        (own / name).write_text(text)
    return replace(settings_in(tmp_path, EVAL_PIPELINE_SQL=str(own)), cache=tmp_path / "cache")


@pytest.fixture
def readings(monkeypatch):
    """Every time the files are taken apart."""
    found = []
    read = reading.with_variants

    def counted(*arguments, **others):
        found.append(1)
        return read(*arguments, **others)

    monkeypatch.setattr(reading, "with_variants", counted)
    return found


def kept_files(settings):
    return sorted((settings.cache / "eval-pipeline" / "definitions").glob("*"))


def test_the_second_reading_takes_no_file_apart_and_says_the_same(settings, readings):
    first = load_registry(settings)
    second = load_registry(settings)
    assert len(readings) == 1
    assert second == first == load_registry(replace(settings, cache=None))
    assert list(second.definitions) == list(first.definitions)
    assert [(one.grain, one.keys, one.sql) for one in second] == [
        (one.grain, one.keys, one.sql) for one in first
    ]
    assert repr(second) == repr(first)


def edited(file, old, new):
    file.write_text(file.read_text().replace(old, new))


CHANGES = {
    "a formula": lambda own: edited(own / "metrics" / "long_answer.sql", "n_hits", "n_hits + 1"),
    "a comment, in its place": lambda own: edited(own / "metrics" / "long_answer.sql", "is long", "is lonG"),
    "a function that formulas call": lambda own: edited(own / "functions" / "doubled.sql", "* 2", "* 3"),
    "a module that a formula imports": lambda own: edited(own / "metrics" / "limits.py", "2", "3"),
    "a file more": lambda own: (
        (own / "facts").mkdir()
        or (own / "facts" / "seen.sql").write_text(
            "select run_key, query_key, 1 as one from facts.outcomes\n"
        )
    ),
    "a file less": lambda own: (own / "metrics" / "long_answer.sql").unlink(),
    "another name": lambda own: (
        (own / "metrics" / "many.py").rename(own / "metrics" / "more.py")
        and edited(own / "metrics" / "more.py", "def many", "def more")
    ),
    "the lock file": lambda own: (own / "definitions.lock").write_text(
        "".join(
            f"{one.name} 1 {one.written_fingerprint} same_as=0123456789abcdef\n"
            for one in load_registry(settings_in(own.parent, EVAL_PIPELINE_SQL=str(own)))
            if one.is_own
        )
    ),
    "the configuration": lambda own: (own.parent / "eval-pipeline.toml").write_text(
        "[formulas.long_answer]\nleast = 4\n"
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_changes_is_seen_at_once(settings, readings, change):
    before = load_registry(settings)
    CHANGES[change](settings.own_sql)
    assert load_registry(settings) == load_registry(replace(settings, cache=None)) != before
    readings.clear()
    assert load_registry(settings) != before
    assert not readings


def test_a_change_that_keeps_size_and_time_is_seen(settings):
    file = settings.own_sql / "metrics" / "long_answer.sql"
    before, times = load_registry(settings), file.stat()
    edited(file, ">= $least", "<= $least")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert load_registry(settings).get("long_answer").fingerprint != before.get("long_answer").fingerprint


def test_a_file_that_changes_while_it_is_read_is_not_kept_under_its_first_text(settings, monkeypatch):
    file = settings.own_sql / "metrics" / "long_answer.sql"
    first = file.read_text()
    read = reading.with_variants

    def meanwhile(*arguments, **others):
        edited(file, "n_hits", "n_hits + 1")
        return read(*arguments, **others)

    monkeypatch.setattr(reading, "with_variants", meanwhile)
    load_registry(settings)
    monkeypatch.setattr(reading, "with_variants", read)
    file.write_text(first)
    assert load_registry(settings) == load_registry(replace(settings, cache=None))


@pytest.mark.parametrize(
    "damage",
    [
        lambda file: file.write_bytes(b""),
        lambda file: file.write_bytes(file.read_bytes()[:-1]),
        lambda file: file.write_bytes(file.read_bytes().replace(b"n_hits", b"n_hits".upper())),
        lambda file: file.write_bytes(os.urandom(1000)),
        lambda file: file.unlink() or file.mkdir(),
        lambda file: file.unlink() or os.mkfifo(file),
        lambda file: file.rename(file.with_name("elsewhere")) and file.symlink_to("elsewhere"),
    ],
)
def test_a_damaged_copy_changes_nothing(settings, damage):
    load_registry(settings)
    damage(kept_files(settings)[0])
    assert load_registry(settings) == load_registry(replace(settings, cache=None))


def test_a_damaged_copy_is_made_anew(settings, readings):
    load_registry(settings)
    kept_files(settings)[0].write_bytes(b"nonsense")
    load_registry(settings)
    load_registry(settings)
    assert len(readings) == 2


def test_a_copy_of_other_files_under_this_name_is_not_taken(settings):
    before = load_registry(settings)
    old = kept_files(settings)[0]
    CHANGES["a formula"](settings.own_sql)
    load_registry(settings)
    (new,) = set(kept_files(settings)) - {old}
    new.write_bytes(old.read_bytes())
    assert load_registry(settings) == load_registry(replace(settings, cache=None)) != before


@pytest.mark.parametrize("place", ["file", "folder"])
def test_a_copy_that_others_may_write_is_not_believed(settings, readings, place):
    load_registry(settings)
    (kept,) = kept_files(settings)
    (kept if place == "file" else kept.parent).chmod(0o777)
    load_registry(settings)
    assert len(readings) == 2


def test_what_is_kept_is_for_its_owner_alone(settings):
    load_registry(settings)
    (kept,) = kept_files(settings)
    assert kept.stat().st_mode & 0o777 == 0o600
    assert kept.parent.stat().st_mode & 0o777 == 0o700


def test_a_cache_folder_that_cannot_be_changes_nothing(settings):
    settings.cache.write_text("a file stands in its place")
    first = load_registry(settings)
    assert first == load_registry(settings) == load_registry(replace(settings, cache=None))
    assert settings.cache.read_text() == "a file stands in its place"


@pytest.mark.parametrize("what", ["product", "interpreter"])
def test_another_version_reads_for_itself(settings, readings, monkeypatch, what):
    load_registry(settings)
    if what == "product":
        monkeypatch.setattr(eval_pipeline, "__version__", "9.9.9", raising=False)
    else:
        monkeypatch.setattr(sys, "version", "3.99.0 (of another day)")
    load_registry(settings)
    assert len(readings) == 2


def test_refused_python_is_refused_after_a_copy_was_made_of_it(settings, monkeypatch):
    load_registry(settings)
    monkeypatch.setenv("EVAL_PIPELINE_PYTHON", "refuse")
    with pytest.raises(DefinitionError, match=r"many\.py: a formula in Python is code"):
        load_registry(settings)


def test_what_is_broken_is_named_every_time_and_never_kept(settings):
    (settings.own_sql / "metrics" / "broken.sql").write_text("select 1\n")
    said = []
    for cache in (settings.cache, settings.cache, None):
        with pytest.raises(DefinitionError) as error:
            load_registry(replace(settings, cache=cache))
        said.append(str(error.value))
    assert len(set(said)) == 1
    assert not kept_files(settings)


def test_a_pipe_in_the_place_of_a_file_is_named_at_once(settings):
    load_registry(settings)
    os.mkfifo(settings.own_sql / "metrics" / "endless.sql")
    with pytest.raises(DefinitionError, match=r"endless\.sql: is a pipe"):
        load_registry(settings)


def test_few_copies_are_kept_and_the_newest_is_among_them(settings, readings):
    for number in range(12):
        settings.config.write_text(f"[formulas.long_answer]\nleast = {number}\n")
        load_registry(settings)
    assert 1 < len(kept_files(settings)) < 12
    readings.clear()
    load_registry(settings)
    assert not readings


@pytest.mark.needs_process
def test_processes_that_begin_at_once_agree(settings):
    code = (
        "from eval_pipeline.formulas.registry import load_registry\n"
        "from eval_pipeline.settings import load_settings\n"
        "for _ in range(3):\n    print(hash(repr(load_registry(load_settings()))))\n"
    )
    environment = os.environ | {
        "EVAL_PIPELINE_SQL": str(settings.own_sql),
        "XDG_CACHE_HOME": str(settings.cache),
        "PYTHONHASHSEED": "0",
    }

    def start(_):
        return subprocess.run(
            [sys.executable, "-c", code],
            cwd=settings.own_sql.parent,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    with ThreadPoolExecutor(3) as pool:
        said = list(pool.map(start, range(3)))
    assert len({line for one in said for line in one.split()}) == 1
    assert len(kept_files(settings)) == 1
