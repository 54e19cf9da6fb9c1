"""Keys that came in a run's configuration: told at loading by their names, and seen by nobody afterwards."""

from __future__ import annotations

import json

import pytest

from eval_pipeline.bundle.secrets import masked, secret_places
from eval_pipeline.cli.main import main
from tests.bundle_files import compute, day, hits, load, settings_in, write_golden, write_run
from tests.few_definitions import OF_EVERY_KIND

SHIPS = OF_EVERY_KIND

SECRET = "sk-7731-ZEPHYRINE"
NAMES = (
    "api_key",
    "OPENAI_API_KEY",
    "apiKey",
    "client-secret",
    "password",
    "db_passwd",
    "Authorization",
    "access_token",
    "authToken",
    "private_key",
)
HARMLESS = {
    "top_k": 5,
    "max_tokens": 100,
    "secretary": "Ann",
    "password": None,
    "is_secret": False,
    "keys": ["a"],
}


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    folder = tmp_path_factory.mktemp("secrets")
    settings = settings_in(folder)
    write_golden(folder / "bundle", [{"query_id": "q", "expected_chunk_ids": ["d/1"]}])
    for number in (1, 2):
        config = {
            "chunker_version": "v1",
            "embedding_model": f"https://ann:{SECRET}@models.example/{number}",
            "judge": {"model": f"http://{SECRET}@judge.example/{number}", "api_key": SECRET},
            "headers": [{"Authorization": f"Bearer {SECRET}"}],
        }
        result = {"query_id": "q", "hits_top_k": hits("d/1"), "answer": {"text": "she"}}
        when = day(number).isoformat()
        write_run(folder / "bundle", f"run-{number}", [result], config=config, created_at=when, suite="s")
    load(settings, folder / "bundle")
    compute(settings)
    return settings


@pytest.mark.parametrize("name", NAMES)
def test_what_a_name_says_to_be_a_secret_is_masked_wherever_it_stands(name):
    config = {"judge": [{name: SECRET, "model": "m"}]}
    assert masked(config) == {"judge": [{name: "***", "model": "m"}]}
    assert list(secret_places(config)) == [f"judge[0].{name}"]


def test_what_is_no_secret_stays_as_it_is():
    assert masked(HARMLESS) == HARMLESS
    assert list(secret_places(HARMLESS)) == []
    assert masked("https://example.org/a@b?mail=c@d") == "https://example.org/a@b?mail=c@d"


def test_of_a_url_only_the_user_is_masked():
    assert masked(f"postgres://ann:{SECRET}@db.example:5432/x") == "postgres://***@db.example:5432/x"


def test_load_warns_of_the_name_and_never_says_the_value(settings, tmp_path, capsys):
    with pytest.raises(SystemExit) as left:
        main(["load", str(settings.db.parent / "bundle"), "--db", str(tmp_path / "other.duckdb"), "--json"])
    assert left.value.code == 0
    printed = capsys.readouterr().out
    warnings = [one for one in json.loads(printed)["warnings"] if one["rule"] == "secret_in_run"]
    assert [one["run_id"] for one in warnings] == ["run-1", "run-2"]
    assert "config.judge.api_key" in warnings[0]["words"]
    assert SECRET not in printed


@pytest.mark.parametrize(
    "words",
    [
        ["export", "run-1", "--to", "out"],
        ["report", "run-1", "--output", "out/run.html"],
        ["report", "run-1", "run-2", "--output", "out/pair.html"],
        ["report", "--output", "out/suites.html"],
        ["compare", "run-1", "run-2", "--format", "json", "--output", "out/pair.json"],
        ["compare", "run-1", "run-2", "--format", "md", "--output", "out/pair.md"],
        ["show", "run-1", "--json"],
    ],
    ids=" ".join,
)
def test_nothing_that_leaves_the_store_about_a_run_holds_its_keys(
    settings, tmp_path, monkeypatch, capsys, words
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").mkdir()
    with pytest.raises(SystemExit) as left:
        main([*words, "--db", str(settings.db)])
    printed = capsys.readouterr()
    assert left.value.code == 0, printed.err
    written = [path.read_bytes() for path in (tmp_path / "out").iterdir()] or [printed.out.encode()]
    assert written[0]
    assert all(SECRET.encode() not in one for one in written)


def test_what_is_exported_says_that_there_was_something(settings, tmp_path):
    with pytest.raises(SystemExit):
        main(["export", "run-1", "--to", str(tmp_path), "--db", str(settings.db)])
    config = json.loads((tmp_path / "config.json").read_text("utf-8"))
    assert config["judge"] == {"model": "http://***@judge.example/1", "api_key": "***"}
    assert config["headers"] == [{"Authorization": "***"}]
