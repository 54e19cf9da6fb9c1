"""`load` and `init` as somebody types them: what is printed, the exit codes, Ctrl-C, and one's own data in one go."""

from __future__ import annotations

import json
import os
import signal
import sys
import tomllib

import pytest

from eval_pipeline.cli.main import main
from tests.adapters.taken import MADE
from tests.bundle_files import ask, hits, settings_in, write_golden, write_lines, write_run
from tests.few_definitions import OF_EVERY_KIND, shipping, write_few
from tests.prepared import command_line
from tests.without_dagster import without_dagster

SHIPS = OF_EVERY_KIND


@pytest.fixture
def typed(tmp_path, monkeypatch, capsys):
    """Type a command in an empty folder; gives exit code, standard output and standard error."""
    monkeypatch.chdir(tmp_path)
    for name in [one for one in os.environ if one.startswith(("EVAL_PIPELINE", "DAGSTER"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("EVAL_PIPELINE_DB", str(tmp_path / "e.duckdb"))

    def run(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            main(list(words))
        printed = capsys.readouterr()
        return int(left.value.code or 0), printed.out, printed.err

    return run


@pytest.fixture
def own(tmp_path):
    """Rows as a small tool writes them."""
    return write_lines(
        tmp_path / "own.jsonl",
        [
            {
                "qid": "q1",
                "retrieved": [{"id": "d#1", "score": 0.5}, {"id": "d#2", "score": 0.4}],
                "output": "yes",
            },
            {"qid": "q2", "retrieved": [], "output": "no"},
        ],
    )


def test_a_file_of_ones_own_is_in_the_store_after_two_commands(typed, own, tmp_path):
    code, out, err = typed("init", "own.jsonl")
    assert code == 0
    assert [json.loads(line)["query_id"] for line in out.splitlines()] == ["q1", "q2"]
    assert "Next: `eval-pipeline load own.jsonl --mapping mapping.toml" in err
    assert "before the last '#'" in err
    code, out, _ = typed(
        "load", "own.jsonl", "--mapping", "mapping.toml", "--run-id", "mine", "--dataset", "kb"
    )
    assert (code, out.splitlines()[0]) == (
        0,
        "Loaded 1 run, 2 results, 0 golden sets, 0 archives; 0 parts unchanged.",
    )
    assert ask(settings_in(tmp_path), "select chunk_id, doc_id from hits order by rank") == [
        ("d#1", "d"),
        ("d#2", "d"),
    ]


@pytest.mark.parametrize("has_mapping", [True, False])
def test_what_a_file_delivered_is_on_record_under_the_file_that_was_given(typed, own, tmp_path, has_mapping):
    if has_mapping:
        typed("init", "own.jsonl")
    else:
        write_lines(own, [{"query_id": "q1"}])
    mapping = ("--mapping", "mapping.toml") if has_mapping else ()
    assert typed("load", str(own), *mapping, "--run-id", "mine", "--dataset", "kb")[0] == 0
    delivered = ask(settings_in(tmp_path), "select part, path from deliveries order by part")
    assert delivered == [("results", str(own)), ("run", str(own))]


def test_a_mapping_that_is_there_is_not_written_over_unless_it_is_forced(typed, own, tmp_path):
    mapping = tmp_path / "mapping.toml"
    mapping.write_text("# mine\n")
    code, _, err = typed("init", "own.jsonl")
    assert code == 2
    assert "--force" in err and "--output" in err
    assert mapping.read_text() == "# mine\n"
    assert typed("init", "own.jsonl", "--output", "other.toml")[0] == 0
    assert typed("init", "own.jsonl", "--force")[0] == 0
    assert mapping.read_text() == (tmp_path / "other.toml").read_text()


def test_init_as_a_document_says_what_it_found_and_what_it_did_not_use(typed, own, tmp_path):
    code, out, _ = typed("init", "own.jsonl", "--json")
    document = json.loads(out)
    assert (code, document["format"], document["rows_per"]) == (0, 1, "query")
    assert document["fields"]["hits"]["list"] == "retrieved"
    assert document["rows"][0]["hits_top_k"][0]["chunk_id"] == "d#1"
    written = tomllib.loads((tmp_path / "mapping.toml").read_text())
    assert {table: written[table] for table in document["fields"]} == document["fields"]


@pytest.mark.parametrize("column", ["doc", "docno", "passage_id", "chunk"])
def test_init_knows_a_table_of_hits_whose_ranks_count_from_0(typed, tmp_path, column):
    rows = "q1,d1#c0,0,0.9\nq1,d2#c4,1,0.8\nq2,d1#c0,0,0.7\n"
    (tmp_path / "own.csv").write_text(f"qid,{column},rank,score\n{rows}", "utf-8")
    code, out, _ = typed("init", "own.csv", "--json")
    document = json.loads(out)
    assert (code, document["rows_per"]) == (0, "hit")
    hits_of_first = document["rows"][0]["hits_top_k"]
    assert [(hit["chunk_id"], hit["doc_id"], hit["rank"]) for hit in hits_of_first] == [
        ("d1#c0", "d1", 1),
        ("d2#c4", "d2", 2),
    ]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("own.xlsx", "x", "of no known kind"),
        ("own.jsonl", "", "has no row that can be read"),
        ("own.jsonl", "[1]\n", "has no row that can be read"),
        ("own.json", '{"a": 1', "cannot be read"),
        ("own.parquet", "no parquet", "cannot be read"),
        ("gone.jsonl", None, "is no file"),
    ],
)
def test_init_refuses_what_it_cannot_read_and_writes_nothing(typed, tmp_path, name, content, words):
    if content is not None:
        (tmp_path / name).write_text(content)
    code, _, err = typed("init", name)
    assert code == 2
    assert words in err
    assert not (tmp_path / "mapping.toml").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("load", "gone"), "gone is not there"),
        (("load", "own.jsonl"), "add --dataset DATASET"),
        (("load", "own.jsonl", "--run-id", "r"), "add --dataset DATASET"),
        (("load", "own.jsonl", "--from", "trek", "--dataset", "d"), "did you mean trec?"),
        (("load", "own.jsonl", "--dataset", "no name"), "--dataset: 'no name' cannot be a name"),
        (("load", "odd.json", "--dataset", "d"), "it is a JSON document with colour, size"),
        (("load", "bundle", "--to", "there"), "--to goes with a file of results"),
        (("load", "bundle", "--run-id", "r"), "--run-id goes with a file of results"),
        (("load", "own.jsonl", "--mapping", "gone.toml", "--run-id", "r", "--dataset", "d"), "gone.toml"),
    ],
)
def test_wrong_usage_says_what_is_missing_and_makes_no_store(typed, own, tmp_path, words, said):
    write_run(tmp_path / "bundle", "run-1", [])
    (tmp_path / "odd.json").write_text('{"colour": 1, "size": [2]}')
    code, _, err = typed(*words)
    assert code == 2
    assert said in err
    assert not (tmp_path / "e.duckdb").exists()


def test_a_trial_says_what_would_happen_and_leaves_with_what_the_load_would(typed, tmp_path):
    bundle = tmp_path / "bundle"
    write_golden(bundle, [{"query_id": "q1"}])
    write_run(bundle, "good", [{"query_id": "q1", "hits_top_k": hits("d/1")}])
    code, out, err = typed("load", "bundle", "--dry-run")
    assert code == 0
    assert out.splitlines() == ["Would load 1 run, 1 result, 1 golden set, 0 archives; 0 parts unchanged."]
    assert "Nothing was written." in err
    assert not (tmp_path / "e.duckdb").exists()
    assert typed("load", "bundle")[0] == 0
    write_run(bundle, "good", [{"query_id": "q1"}, {"query_id": 2}])
    code, out, err = typed("load", "bundle", "--dry-run")
    assert code == 3
    assert "Would replace parts of 1 run: good." in out
    assert "1 row would be quarantined." in err
    code, out, _ = typed("load", "bundle", "--dry-run", "--json")
    document = json.loads(out)
    assert (code, document["dry_run"], document["replaced"], document["quarantined"]) == (
        3,
        True,
        ["good"],
        1,
    )


def load_until_ctrl_c(*words):
    sent = []

    def hear(event, arguments):
        if event == "open" and "run-3/results" in str(arguments[0]) and not sent:
            sent.append(event)
            os.kill(os.getpid(), signal.SIGINT)

    sys.addaudithook(hear)
    command_line(*words)


def test_ctrl_c_ends_the_load_after_its_batch_and_the_same_command_goes_on(tmp_path, typed, prepared):
    """The load is sent the signal when its third run is opened, as a person would send it at some moment."""
    bundle = tmp_path / "bundle"
    for number in range(1, 7):
        write_run(bundle, f"run-{number}", [{"query_id": "q1"}])
    words = ["load", str(bundle), "--db", str(tmp_path / "e.duckdb")]
    done = prepared.start(f"{__name__}:load_until_ctrl_c", *words, folder=tmp_path)
    assert done.wait() == 130, done.said
    stored = [run_id for (run_id,) in ask(settings_in(tmp_path), "select run_id from runs order by all")]
    n_stored, n_left = len(stored), 6 - len(stored)
    assert stored == [f"run-{number}" for number in range(1, n_stored + 1)] and 0 < n_stored < 4
    runs = "1 run" if n_stored == 1 else f"{n_stored} runs"
    assert f"{runs} loaded and complete, {n_left} runs left" in done.said
    assert "goes on from there" in done.said
    assert "Traceback" not in done.said
    code, said, _ = typed(*words)
    assert code == 0
    assert said.startswith(f"Loaded {n_left} runs, {n_left} results")


def test_the_handler_of_ctrl_c_is_given_back(typed, tmp_path):
    write_run(tmp_path / "bundle", "run-1", [{"query_id": "q1"}])
    before = signal.getsignal(signal.SIGINT)
    assert typed("load", "bundle")[0] == 0
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.slow
@pytest.mark.needs_process
def test_a_run_without_its_golden_set_is_said_to_have_none_until_it_is_there(typed, tmp_path):
    write_run(tmp_path / "runs-first", "early", [{"query_id": "q1"}])
    code, _, err = typed("load", "runs-first")
    assert code == 0
    assert "1 run without a golden set for the dataset, scored by what needs no label: early" in err
    assert "Next: `eval-pipeline run`" in err
    code, out, _ = typed("run", "early")
    assert (code, out.split(" cell")[0].split()[0]) == (0, "Computed")
    write_golden(tmp_path / "labels", [{"query_id": "q1"}])
    typed("load", "labels")
    assert "without a golden set" not in "".join(map(str, typed("load", "runs-first")))


def test_a_golden_set_that_was_cut_off_before_its_first_row_takes_nothing_away(typed, tmp_path):
    path = write_golden(tmp_path / "labels", [{"query_id": "q1", "expected_chunk_ids": ["d/1"]}])
    typed("load", "labels")
    path.write_bytes(b"")
    code, _, err = typed("load", "labels")
    assert code == 5
    assert "would lose 1 of the 1 queries in force" in err
    assert ask(settings_in(tmp_path), "select count(*) from labels.queries") == [(1,)]


HITS = "select query_id, chunk_id from hits order by query_id, rank"


def test_a_run_and_its_labels_come_from_two_files_of_trec_in_one_go(typed, tmp_path):
    files = (str(MADE / "demo.run"), str(MADE / "qrels.txt"))
    code, out, err = typed("load", *files, "--dataset", "demo", "--missing", "empty")
    assert code == 0, err
    assert f"{files[0]}: taken for a TREC run, 'demo'" in err and f"{files[1]}: taken for TREC qrels" in err
    assert "1 query without a row: taken as asked, nothing found" in err
    assert "Loaded 1 run, 4 results, 1 golden set" in out
    settings = settings_in(tmp_path)
    assert ask(settings, "select run_id, dataset from runs") == [("demo", "demo")]
    assert ask(settings, HITS)[:3] == [("q1", "leave#0"), ("q1", "leave#1"), ("q1", "travel#0")]
    code, out, _ = typed("load", *files, "--dataset", "demo", "--missing", "empty", "--json")
    document = json.loads(out)
    assert (code, document["runs"], document["unchanged"]) == (0, [], 2)
    assert [(one["tool"], one["runs"], one["labels"]) for one in document["files"]] == [
        ("trec", ["demo"], 0),
        ("qrels", [], 4),
    ]


def test_labels_of_results_take_no_golden_sets_place_unasked(typed, tmp_path):
    write_lines(tmp_path / "golden.jsonl", [{"query_id": "q1", "expected_chunk_ids": ["other"]}])
    assert typed("load", "golden.jsonl", "--dataset", "demo")[0] == 0
    results = ("load", str(MADE / "langsmith.jsonl"), "--dataset", "demo")
    code, _, err = typed(*results)
    assert code == 0
    assert (
        "the golden set of demo stays; the file has 1 query labelled otherwise and 4 queries it does not have"
        in err
    )
    count_of = "select count(*) from queries"
    assert ask(settings_in(tmp_path), count_of) == [(1,)]
    assert typed(*results, "--replace-labels")[0] == 0
    assert ask(settings_in(tmp_path), count_of) == [(5,)]


def test_a_bundle_is_written_instead_and_loads_as_the_file_does(typed, tmp_path):
    path = str(MADE / "autorag-node.parquet")
    code, _, err = typed("load", path, "--dataset", "demo", "--to", "there", "--chunker", "v1")
    assert code == 0, err
    assert not (tmp_path / "e.duckdb").exists()
    assert typed("load", "there")[0] == 0
    settings = settings_in(tmp_path)
    written = ask(settings, HITS)
    assert len(written) == 7
    assert typed("load", path, "--dataset", "demo", "--chunker", "v1")[0] == 0
    assert ask(settings, HITS) == written


def test_fields_that_are_named_almost_right_are_said(typed, tmp_path):
    write_run(tmp_path / "bundle", "run-1", [{"query_id": "a", "hits": []}, {"query_id": "b", "hits": []}])
    write_golden(tmp_path / "bundle", [{"query_id": "a", "expected_chunks": ["x"]}])
    code, _, err = typed("load", "bundle")
    assert code == 0
    assert "results.jsonl: hits (2 rows) is no field; did you mean hits_top_k?" in err
    assert "queries.jsonl: expected_chunks (1 row) is no field; did you mean expected_chunk_ids?" in err


def test_load_with_compute_computes_the_loaded_runs_alone_and_is_one_document(typed, tmp_path):
    bundle = tmp_path / "bundle"
    write_golden(bundle, [{"query_id": "q1", "expected_chunk_ids": ["a/1"]}])
    write_run(bundle, "before", [{"query_id": "q1", "hits_top_k": hits("a/1")}])
    assert typed("load", "bundle")[0] == 0
    write_lines(tmp_path / "new.jsonl", [{"query_id": "q1", "hits_top_k": hits("a/1")}, {"query_id": 5}])
    words = ("load", "new.jsonl", "--dataset", "kb", "--compute", "--json")
    with without_dagster(), shipping(write_few(tmp_path / "few", "metrics.reciprocal_rank")):
        code, out, _ = typed(*words)
        again = typed(*words)
        states = {one["run_id"]: one["state"] for one in json.loads(typed("runs", "--json")[1])["runs"]}
    document = json.loads(out)
    # What was computed does not hide that a row was rejected.
    assert (code, document["quarantined"]) == (3, 1)
    assert (document["computed"]["runs"], document["computed"]["failed"]) == (["new"], {})
    assert states == {"new": "fresh", "before": "missing"}
    assert json.loads(again[1])["computed"] is None and "No run was loaded" in again[2]


def test_a_folder_around_a_bundle_is_told_which_folder_is_meant(typed, tmp_path):
    write_golden(tmp_path / "own" / "my bundle", [{"query_id": "q1"}])
    code, _, said = typed("load", "own")
    assert code == 2
    assert "eval-pipeline load 'own/my bundle'" in said


def test_a_load_says_what_labels_know_of_the_ids_it_brought(typed, tmp_path):
    write_golden(tmp_path / "b", [{"query_id": "q1", "expected_chunk_ids": ["doc/1"]}])
    for run_id, found in (("good", ["doc/1", "doc/2"]), ("odd", ["c6453992"])):
        write_run(tmp_path / "b", run_id, [{"query_id": "q1", "hits_top_k": hits(*found)}])
    code, _, err = typed("load", "b")
    said = " ".join(err.split())
    assert code == 0
    assert "good: 1 of 2 retrieved ids are named by a label of kb." in said
    assert (
        "odd is implausible: 0 of 1 retrieved id is named by a label of kb (labels: doc/1; hits: c6453992)"
        in said
    )
    assert "Fix: " in said
