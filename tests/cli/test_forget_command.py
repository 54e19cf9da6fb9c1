"""`forget` and `compact` as somebody types them: what they ask, refuse, print, and leave."""

from __future__ import annotations

import io
import json
import sys

import pytest
from click.testing import CliRunner

from eval_pipeline.cli.main import cli, main
from tests.bundle_files import ask, load, settings_in
from tests.upkeep.forgettable import places_with


def call(settings, *words, code=0, answer=None):
    done = CliRunner().invoke(cli, [words[0], "--db", str(settings.db), *words[1:]], input=answer)
    assert done.exit_code == code, (done.output, done.exception)
    return done


def test_without_a_terminal_it_wants_yes_and_does_nothing(secrets_in_part, capsys):
    settings, _ = secrets_in_part
    before = settings.db.read_bytes()
    with pytest.raises(SystemExit) as left:
        main(["forget", "--db", str(settings.db), "told"])
    said = capsys.readouterr()
    assert left.value.code == 2 and "--yes" in said.err and "would go" in said.err and not said.out
    assert settings.db.read_bytes() == before


class Terminal(io.StringIO):
    """Somebody who types this."""

    def isatty(self):
        return True


@pytest.mark.parametrize(("answer", "runs"), [("n\n", 2), ("y\n", 1)])
def test_on_a_terminal_it_shows_what_would_go_and_asks(secrets_in_part, monkeypatch, capsys, answer, runs):
    settings, _ = secrets_in_part
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    with pytest.raises(SystemExit):
        main(["forget", "--db", str(settings.db), "told"])
    said = capsys.readouterr().err
    assert "run told: would go" in said and "cannot be undone" in said
    assert ask(settings, "select count(*) from runs") == [(runs,)]


def test_a_dry_run_shows_the_counts_that_the_call_then_has(secrets_in_part):
    settings, _ = secrets_in_part
    would = json.loads(call(settings, "forget", "told", "--dry-run", "--json").stdout)
    did = json.loads(call(settings, "forget", "told", "--yes", "--json").stdout)
    changing = ("dry_run", "compacted")
    assert {k: v for k, v in would.items() if k not in changing} == {
        k: v for k, v in did.items() if k not in changing
    }
    assert (would["dry_run"], did["dry_run"]) == (True, False)
    assert would["compacted"] is None and did["compacted"]["bytes_after"] <= did["compacted"]["bytes_before"]
    assert did["rows"]["raw.results"] == 3 and did["kept_folders"] == 1


def test_it_says_how_to_lift_and_the_next_load_says_what_stayed_out(secrets_in_part):
    settings, bundle = secrets_in_part
    done = call(settings, "forget", "told", "--yes")
    assert "--lift" in done.stdout and "stays out" in done.stdout
    again = call(settings, "load", str(bundle), "--json")
    assert json.loads(again.stdout)["forgotten"] == ["told"]
    assert json.loads(call(settings, "forget", "told", "--lift", "--json").stdout)["lifted"] == ["told"]
    assert json.loads(call(settings, "load", str(bundle), "--json", code=3).stdout)["runs"] == ["told"]


def test_without_a_name_it_lists_what_was_forgotten(secrets_in_part):
    settings, _ = secrets_in_part
    assert call(settings, "forget").stdout == "Nothing was forgotten here.\n"
    call(settings, "forget", "told", "--text", "--yes", "--no-compact")
    (one,) = json.loads(call(settings, "forget", "--json").stdout)["forgotten"]
    assert (one["kind"], one["name"], one["scope"], one["compacted_at"]) == ("run", "told", "texts", None)
    assert "compact the file" in " ".join(call(settings, "forget").stdout.split())


def test_left_uncompacted_the_file_is_written_anew_by_compact(secrets_in_part):
    settings, _ = secrets_in_part
    done = call(settings, "forget", "kb", "--yes", "--no-compact")
    assert "eval-pipeline compact" in done.stderr
    assert "e.duckdb" in places_with(settings)
    printed = json.loads(call(settings, "compact", "--json").stdout)
    assert places_with(settings) == []
    assert printed["bytes_after"] < printed["bytes_before"]
    (run, *_) = json.loads(call(settings, "forget", "--json").stdout)["forgotten"]
    assert run["compacted_at"] is not None


def test_show_and_status_mark_what_is_frozen(secrets_in_part):
    settings, _ = secrets_in_part
    call(settings, "forget", "told", "--text", "--yes")
    assert "frozen (the texts behind them were forgotten" in call(settings, "show", "told").stdout
    assert "frozen" not in call(settings, "show", "kept").stdout
    status = call(settings, "status")
    assert "cells frozen: the texts they were computed from were forgotten (told)" in status.stdout


def test_a_page_that_may_still_show_it_is_named(secrets_in_part, tmp_path):
    settings, _ = secrets_in_part
    pages = tmp_path / "pages"
    pages.mkdir()
    for name in ("told.html", "kept..told.html", "kept.html", "told-us.html"):
        (pages / name).write_text("")
    done = CliRunner().invoke(
        cli,
        ["forget", "--db", str(settings.db), "told", "--yes", "--json"],
        env={"EVAL_PIPELINE_REPORTS": str(pages)},
    )
    assert json.loads(done.stdout)["beside"] == [str(pages / "kept..told.html"), str(pages / "told.html")]
    assert len(list(pages.iterdir())) == 4


def test_an_empty_place_is_no_store(tmp_path, capsys):
    settings = settings_in(tmp_path)
    for words in (["forget", "told", "--yes"], ["forget"], ["compact"]):
        with pytest.raises(SystemExit) as left:
            main([words[0], "--db", str(settings.db), *words[1:]])
        assert left.value.code == 2 and "there is no store" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_way_to_another_id_is_open(secrets_in_part):
    """What was forgotten comes in under a name of its own when that is meant."""
    settings, bundle = secrets_in_part
    call(settings, "forget", "told", "--yes")
    folder = bundle / "runs" / "told"
    document = json.loads((folder / "run.json").read_text("utf-8"))
    renamed = folder.rename(folder.with_name("told-again"))
    (renamed / "run.json").write_text(json.dumps(document | {"run_id": "told-again"}), "utf-8")
    assert load(settings, bundle, on=4).runs == ["told-again"]
