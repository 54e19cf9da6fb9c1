"""A store that cannot be read: every command says why and what to do, and `rebuild` brings it back."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from eval_pipeline.cli.main import COMMANDS, cli, main
from eval_pipeline.errors import NotAStore, StoreDamaged, StoreForeign
from eval_pipeline.formulas.registry import load_registry
from eval_pipeline.planning.status import find_status
from eval_pipeline.upkeep.forget import Request, forget, lift_tombstones
from tests.bundle_files import ask, compute, day, derived_tables, load, settings_in, write_run
from tests.cli.broken_stores import FOREIGN, NOT_OURS, UNREADABLE, cut_off, of_a_newer_version
from tests.projects import open_reader, open_writer, project_of
from tests.upkeep.forgettable import SECRET, places_with

# Of these `demo`, `ui` and `serve` start long work, `init`, `metrics`, `rebuild`, `judges` and `calls` need no readable store,
# `doctor` says what is wrong with it as its answer.
WITHOUT_STORE = {"demo", "ui", "serve", "init", "metrics", "rebuild", "doctor", "judges", "calls"}
ANSWERS = {"metrics.answer_strings"}
ARGUMENTS = {
    "load": ["BUNDLE"],
    "show": ["told"],
    "compare": ["told", "kept"],
    "diff": ["told", "kept"],
    "gate": ["told", "--baseline", "kept"],
    "explain": ["mrr", "told", "kept"],
    "report": ["told", "--output", "page.html"],
    "export": ["told", "--to", "out"],
    "forget": ["told", "--yes"],
    "evaluate": ["nightly"],
    "rejudge": ["told"],
    "query": ["select 1"],
    "backup": ["copy"],
}


def call(settings, *words, code=0):
    """What a command prints to standard output; anything it says besides is in `stderr`."""
    done = CliRunner().invoke(cli, [words[0], "--db", str(settings.db), *words[1:]])
    assert done.exit_code == code, (done.output, done.exception)
    return done


def failing(settings, capsys, *words):
    """Exit code and message of a command that fails, as somebody at a terminal gets it."""
    with pytest.raises(SystemExit) as left:
        main([words[0], "--db", str(settings.db), *words[1:]])
    return left.value.code, capsys.readouterr().err


def compared_views(settings):
    """The public views, without what says when and from where something was delivered."""
    queries = {
        "runs": "select run_id, dataset, created_at, chunker_version, aggregate_json, first_loaded_at from runs",
        "queries": "from queries",
        "hits": "from hits",
        "per_query_metrics": "from per_query_metrics",
        "run_metrics": "from run_metrics",
        "quarantine": "select line, run_id, query_id, field, reason, text from quarantine",
        "deliveries": "select part, dataset, run_id, content_hash, n_rows, n_quarantined, delivered_at, "
        "superseded_at from deliveries",
    }
    return {name: sorted(ask(settings, sql), key=repr) for name, sql in queries.items()}


def beside(settings):
    return sorted(path.name for path in settings.db.parent.iterdir() if "broken" in path.name)


@pytest.mark.parametrize("kind", UNREADABLE)
def test_a_broken_file_is_named_with_the_way_back_and_left_as_it_is(secrets_in_part, kind):
    settings, _ = secrets_in_part
    UNREADABLE[kind](settings.db)
    broken = settings.db.read_bytes()
    for opens in (open_reader, open_writer):
        with pytest.raises(StoreDamaged, match="eval-pipeline rebuild"), opens(settings.db):
            pass
    assert settings.db.read_bytes() == broken


@pytest.mark.parametrize("kind", FOREIGN)
def test_somebody_elses_file_is_named_and_left_as_it_is(secrets_in_part, kind):
    settings, _ = secrets_in_part
    breaks, words = FOREIGN[kind]
    breaks(settings.db)
    foreign = settings.db.read_bytes()
    for opens in (open_reader, open_writer):
        with pytest.raises(StoreForeign) as raised, opens(settings.db):
            pass
        assert words in str(raised.value)
    assert settings.db.read_bytes() == foreign


def everything_below(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


@pytest.mark.parametrize("kind", NOT_OURS)
def test_what_is_no_store_is_called_what_it_is_by_every_command_and_nothing_is_put_beside_it(
    kind, tmp_path, capsys, monkeypatch
):
    makes, words = NOT_OURS[kind]
    folder = tmp_path / "theirs"
    folder.mkdir()
    settings = settings_in(folder)
    makes(settings.db)
    bundle = tmp_path / "bundle"
    write_run(bundle, "told", [{"query_id": "q"}])
    monkeypatch.chdir(folder)
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("EVAL_PIPELINE_DB", str(settings.db))
    before = everything_below(folder)
    for name in COMMANDS.keys() - {"init", "metrics", "doctor", "judges", "calls"}:
        arguments = [str(bundle) if word == "BUNDLE" else word for word in ARGUMENTS.get(name, [])]
        for more in ([], ["--yes"]) if name == "rebuild" else ([],):
            with pytest.raises(SystemExit) as left:
                main([name, *arguments, *more])
            said = capsys.readouterr().err
            assert left.value.code == 2 and words in said, (name, said)
            assert "rebuild" not in said and "move" not in said and "damaged" not in said, (name, said)
            assert everything_below(folder) == before, name
    for opens in (open_reader, open_writer):
        with pytest.raises(NotAStore, match=words), opens(settings.db):
            pass
    with pytest.raises(SystemExit) as left:
        main(["doctor", "--json"])
    found = json.loads(capsys.readouterr().out)["findings"]
    assert left.value.code == 1 and [words in one["what"] for one in found].count(True) == 1
    assert everything_below(folder) == before


def test_a_store_that_was_copied_without_its_lock_files_is_a_store(secrets_in_part, tmp_path):
    settings, _ = secrets_in_part
    copy = settings_in(tmp_path / "copied")
    copy.db.parent.mkdir()
    shutil.copyfile(settings.db, copy.db)
    assert ask(copy, "select count(*) from runs") == [(2,)]


def test_where_nothing_was_kept_the_way_back_is_no_rebuild(secrets_in_part, capsys):
    settings, _ = secrets_in_part
    shutil.rmtree(settings.db.with_name(settings.db.name + ".deliveries"))
    cut_off(settings.db)
    code, said = failing(settings, capsys, "status")
    assert code == 2 and "rebuild" not in said and "eval-pipeline load PATH" in said


def test_every_command_says_what_is_wrong_and_none_breaks_down(secrets_in_part, capsys, monkeypatch):
    settings, bundle = secrets_in_part
    monkeypatch.chdir(settings.db.parent)
    monkeypatch.setenv("DAGSTER_HOME", str(settings.db.parent / "home"))
    cut_off(settings.db)
    for name in COMMANDS:
        if name in WITHOUT_STORE:
            continue
        words = [str(bundle) if word == "BUNDLE" else word for word in ARGUMENTS.get(name, [])]
        code, said = failing(settings, capsys, name, *words)
        assert code == 2, (name, said)
        assert "eval-pipeline rebuild" in said and "Traceback" not in said, (name, said)


def test_a_file_that_is_broken_further_in_is_noticed_when_it_is_read(secrets_in_part, capsys):
    settings, _ = secrets_in_part
    data = bytearray(settings.db.read_bytes())
    with open_reader(settings.db) as con:
        blocks = con.execute(
            "select block_id from pragma_storage_info('raw.hits') where block_id > 0 limit 1"
        ).fetchall()
    start = 12288 + blocks[0][0] * 262144
    data[start + 100 : start + 5000] = b"\xff" * 4900
    settings.db.write_bytes(data)
    code, said = failing(settings, capsys, "query", "select sum(rank), max(text) from hits")
    assert code == 2 and "eval-pipeline rebuild" in said
    assert "cannot be read" in call(settings, "rebuild").stderr
    assert len(beside(settings)) == 1


@pytest.mark.slow
def test_a_rebuilt_store_answers_as_the_old_one_did(secrets):
    settings, bundle = secrets
    write_run(bundle, "kept", [{"query_id": "q1", "answer": {"text": "anew"}}], created_at="2026-08-02")
    write_run(bundle, "later", [{"query_id": "q2"}], created_at="2026-08-03")
    load(settings, bundle, on=3)
    compute(settings, on=4, reasons=None)
    before = (derived_tables(settings), compared_views(settings))
    cut_off(settings.db)
    broken = settings.db.read_bytes()
    document = json.loads(call(settings, "rebuild", "--json").stdout)
    compute(settings, on=5)
    assert (derived_tables(settings), compared_views(settings)) == before
    assert document["deliveries"] == 2 and sorted(document["runs"]) == ["kept", "later", "told"]
    assert document["not_back"] and Path(document["moved_to"]).read_bytes() == broken
    assert beside(settings) == [Path(document["moved_to"]).name]
    assert load(settings, bundle, on=6).runs == []


def test_what_was_forgotten_stays_forgotten(secrets_in_part):
    settings, bundle = secrets_in_part
    forget(project_of(settings, now=day(3)), Request("run", "told"))
    cut_off(settings.db)
    call(settings, "rebuild")
    assert ask(settings, "select run_id from runs") == [("kept",)]
    assert load(settings, bundle, on=5).forgotten == ["told"]
    lift_tombstones(project_of(settings, now=day(6)), "told", kind=None)
    assert load(settings, bundle, on=7).runs == ["told"]


def test_a_forget_that_was_killed_before_the_purge_does_not_come_back_by_rebuilding(
    secrets_in_part, monkeypatch
):
    settings, _ = secrets_in_part
    monkeypatch.setattr("eval_pipeline.upkeep.forget.remove_kept", _killed)
    with pytest.raises(KeyboardInterrupt):
        forget(project_of(settings, now=day(3)), Request("run", "told"))
    cut_off(settings.db)
    document = json.loads(call(settings, "rebuild", "--json").stdout)
    assert document["forgotten"] == ["told"] and document["runs"] == ["kept"]


def _killed(*_arguments):
    raise KeyboardInterrupt


@pytest.mark.slow
def test_forgotten_texts_stay_forgotten_and_their_cells_frozen(secrets):
    settings, _ = secrets
    registry = load_registry(settings)
    forget(project_of(settings, registry, now=day(3)), Request("dataset", "kb", text=True))
    before = {one["name"]: one["frozen"] for one in find_status(project_of(settings, registry))["assets"]}
    numbers = "select metric, value from run_metrics where run_id = 'told' and slice = '' order by all"
    stored = dict(ask(settings, numbers))
    cut_off(settings.db)
    document = json.loads(call(settings, "rebuild", "--json").stdout)
    assert any("frozen" in one for one in document["not_back"])
    Path(document["moved_to"]).unlink()
    compute(settings, on=5)
    assert {
        one["name"]: one["frozen"] for one in find_status(project_of(settings, registry))["assets"]
    } == before
    came_back = dict(ask(settings, numbers))
    assert came_back.items() <= stored.items()
    assert "groundedness" not in came_back and {"hit@1", "mrr", "error_rate"} <= came_back.keys()
    # The id of a query with the word in it is an id.
    assert all(
        "query_id" in place or "results" in place or place == "e.duckdb" for place in places_with(settings)
    )


def test_texts_that_were_delivered_again_are_there_after_rebuilding(secrets_in_part):
    settings, bundle = secrets_in_part
    registry = load_registry(settings)
    forget(project_of(settings, registry, now=day(3)), Request("run", "told", text=True))
    lift_tombstones(project_of(settings, now=day(4)), "told", kind=None)
    load(settings, bundle, on=5)
    compute(settings, registry, on=6, definitions=ANSWERS)
    before = derived_tables(settings)["metrics.answer_strings"]
    cut_off(settings.db)
    call(settings, "rebuild")
    compute(settings, registry, on=7, definitions=ANSWERS)
    assert derived_tables(settings)["metrics.answer_strings"] == before != []
    assert find_status(project_of(settings, registry))["cells"]["frozen"] == 0


def test_a_store_that_can_be_read_is_made_anew_only_when_asked_to(secrets_in_part, capsys):
    settings, _ = secrets_in_part
    before = settings.db.read_bytes()
    code, said = failing(settings, capsys, "rebuild")
    assert code == 2 and "--yes" in said and settings.db.read_bytes() == before
    call(settings, "rebuild", "--yes")
    assert ask(settings, "select count(*) from runs") == [(2,)]
    assert len(beside(settings)) == 1


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_whole_file_that_may_not_be_read_is_replaced_only_when_asked_to(secrets_in_part, capsys, kind):
    settings, _ = secrets_in_part
    FOREIGN[kind][0](settings.db)
    whole = settings.db.read_bytes()
    code, said = failing(settings, capsys, "rebuild")
    assert (code, "rebuild --yes" in said) == (5 if "newer version" in kind else 2, True), said
    assert settings.db.read_bytes() == whole and beside(settings) == []
    moved_to = json.loads(call(settings, "rebuild", "--yes", "--json").stdout)["moved_to"]
    assert Path(moved_to).read_bytes() == whole


def test_a_store_that_was_deleted_comes_back(secrets_in_part):
    settings, _ = secrets_in_part
    settings.db.unlink()
    document = json.loads(call(settings, "rebuild", "--json").stdout)
    assert document["moved_to"] is None and sorted(document["runs"]) == ["kept", "told"]


def test_without_kept_deliveries_nothing_is_touched(secrets_in_part, capsys):
    settings, _ = secrets_in_part
    shutil.rmtree(settings.db.with_name(settings.db.name + ".deliveries"))
    of_a_newer_version(settings.db)
    before = settings.db.read_bytes()
    code, said = failing(settings, capsys, "rebuild", "--yes")
    assert code == 2 and "holds no deliveries" in said
    assert settings.db.read_bytes() == before and beside(settings) == []


def test_a_rebuild_that_fails_leaves_the_old_file_in_its_place(secrets_in_part, monkeypatch):
    settings, _ = secrets_in_part
    cut_off(settings.db)
    broken = settings.db.read_bytes()
    monkeypatch.setattr("eval_pipeline.upkeep.rebuild.require_whole", _killed)
    done = CliRunner().invoke(cli, ["rebuild", "--db", str(settings.db)])
    assert done.exit_code != 0
    assert settings.db.read_bytes() == broken and beside(settings) == []
    assert not list(settings.db.parent.glob("*.rebuilding*"))


IN_TROUBLE = """
import contextlib, ctypes, io, json, os, resource, signal, sys
trouble, commands = sys.argv[1], json.loads(sys.argv[2])
if trouble == "full":
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 18, 1 << 18))
elif os.geteuid() == 0:
    libc, this_thread = ctypes.CDLL(None), (ctypes.c_uint32 * 2)(0x20080522, 0)
    rights = (ctypes.c_uint32 * 6)()
    assert libc.capget(this_thread, rights) == 0
    for held in (0, 1):  # effective, permitted
        rights[held] &= ~(1 << 1 | 1 << 2)  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
    assert libc.capset(this_thread, rights) == 0
# Only now: threads that a library starts must not keep the right.
from eval_pipeline.cli.main import main
answers = []
for words in commands:
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
        try:
            main(words)
        except SystemExit as left:
            answers.append((left.code, said.getvalue()))
print(json.dumps(answers))
"""


def in_trouble(trouble, folder, *commands):
    """Exit code and message of each command, called one after another in a process that is in trouble."""
    done = subprocess.run(
        [sys.executable, "-c", IN_TROUBLE, trouble, json.dumps(commands)],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
    )
    assert done.returncode == 0 and not done.stderr, done.stderr[-2000:]
    answers = json.loads(done.stdout.splitlines()[-1])
    assert len(answers) == len(commands)
    for _, said in answers:
        assert "Traceback" not in said and "internal error" not in said, said[-2000:]
    return answers


@pytest.mark.needs_process
@pytest.mark.parametrize("words", [["compact"], ["forget", "kept", "--yes"], ["rebuild", "--yes"]])
def test_on_a_full_disk_nothing_is_lost(secrets_in_part, words):
    """A file that must not grow beyond a quarter of a megabyte is to the store what a full disk is."""
    settings, _ = secrets_in_part
    command = [words[0], "--db", str(settings.db), *words[1:]]
    ((code, said),) = in_trouble("full", settings.db.parent, command)
    assert code == 2 and "error:" in said
    assert ask(settings, "select run_id from runs where run_id = 'told'") == [("told",)]
    assert not list(settings.db.parent.glob("*.compacting*"))
    assert beside(settings) == []
    call(settings, *words)


@pytest.mark.needs_process
@pytest.mark.parametrize("own", ["eval-pipeline.toml", "sql/metrics"])
def test_what_may_not_be_read_is_named_and_never_taken_for_what_is_not_there(
    computed_in_part_once, tmp_path, own
):
    folder = shutil.copytree(computed_in_part_once, tmp_path / "project")
    db = next(folder.glob("*.duckdb"))
    (folder / "sql" / "metrics").mkdir(parents=True)
    (folder / "eval-pipeline.toml").touch()
    kept = next(folder.glob("*.deliveries/*/runs"))
    shut = [folder / own, kept]
    for path in shut:
        path.chmod(0)
    try:
        (_, found), (code, said) = in_trouble(
            "rights", folder, ["doctor", "--db", str(db), "--json"], ["status", "--db", str(db)]
        )
    finally:
        for path in shut:
            path.chmod(0o755)
    where = [one["where"] + one["what"] for one in json.loads(found)["findings"]]
    assert any(f"{folder / own}: cannot be read" in one for one in where)
    assert any(str(kept) in one and "unreadable" in one for one in where)
    assert code == 2 and f"{folder / own}: cannot be read" in said


@pytest.fixture
def read_only_folder(computed_in_part_once, tmp_path):
    """A store that everybody may read and nobody may write."""
    folder = tmp_path / "read-only"
    shutil.copytree(computed_in_part_once, folder)
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    yield folder
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755)


@pytest.mark.needs_process
def test_in_a_folder_that_cannot_be_written_every_command_says_so(read_only_folder):
    """The superuser's process stays the superuser's, and can read its code wherever that lies: it gives up
    no more than the right to write where the mode of a folder forbids it."""
    folder = read_only_folder
    settings = settings_in(folder)
    before = settings.db.read_bytes()
    commands = [
        [words[0], "--db", str(settings.db), *words[1:]]
        for words in (
            ["status"],
            ["load", "bundle"],
            ["forget", "told", "--yes"],
            ["compact"],
            ["rebuild", "--yes"],
        )
    ]
    for words, (code, said) in zip(commands, in_trouble("read-only", folder, *commands), strict=True):
        assert code == 2 and "Permission denied" in said and "right to write" in said, (words, said)
    assert settings.db.read_bytes() == before


@pytest.mark.needs_process
@pytest.mark.parametrize("mode", [0o444, 0o000], ids=["read-only", "unreadable"])
def test_a_file_without_rights_is_not_broken(secrets_in_part, mode):
    settings, _ = secrets_in_part
    before = settings.db.read_bytes()
    settings.db.chmod(mode)
    commands = [
        [*words, "--db", str(settings.db)] for words in (["load", str(_other_bundle(settings))], ["rebuild"])
    ]
    (_, loads), (_, rebuilds) = in_trouble("read-only", settings.db.parent, *commands)
    settings.db.chmod(0o644)
    assert "Permission denied" in loads and "cannot be read" not in loads, loads
    assert "--yes" in rebuilds or "Permission denied" in rebuilds, rebuilds
    assert settings.db.read_bytes() == before and beside(settings) == []


def test_a_word_that_was_forgotten_is_in_no_file_after_rebuilding(secrets_in_part):
    settings, _ = secrets_in_part
    forget(project_of(settings, now=day(3)), Request("dataset", "kb"))
    load(settings, _other_bundle(settings), on=4)
    cut_off(settings.db)
    call(settings, "rebuild")
    assert places_with(settings, SECRET) == []


def _other_bundle(settings):
    bundle = settings.db.parent / "bundle" / "other"
    write_run(bundle, "elsewhere", [{"query_id": "q1"}], dataset="another")
    return bundle
