"""Two files, or a file and a run of the store, compared and gated without a store that remembers anything."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from eval_pipeline import compare_files
from eval_pipeline.comparing.pair_states import PAIR_FACTS
from eval_pipeline.errors import UsageError
from tests.adapters.taken import MADE
from tests.called import call, environment_in, working_in
from tests.few_definitions import program_with, shipping, write_few
from tests.made_once import made_once

QUERIES = [f"q{number}" for number in range(1, 61)]
GOOD, BAD = 0.9, 0.3
FEW = (
    *PAIR_FACTS,
    "metrics.hit_at_k",
    "metrics.reciprocal_rank",
    "metrics.recall_at_k_doc",
    "metrics.failures",
    "aggregates.run_metrics",
)


def write_run(path: Path, share: float, queries=QUERIES) -> None:
    """The expected id is first in this share of the queries, and is not found in the others."""
    found = round(share * len(queries))
    lines = [
        f"{query} Q0 {f'right-{query}' if number < found else 'wrong'} 1 1.0 tag\n"
        for number, query in enumerate(queries)
    ]
    path.write_text("".join(lines), "utf-8")


def mean_hit(document, side: str) -> float:
    return document[f"aggregate_{side}"]["hit@1"]


@pytest.fixture(scope="module")
def few_files(tmp_path_factory):
    return (
        made_once(tmp_path_factory, "few_of_two_files", lambda place: write_few(place / "sql", *FEW)) / "sql"
    )


@pytest.fixture
def folder(tmp_path, few_files):
    """Two runs of one system, with labels beside them, and the few definitions that they are scored by."""
    there = tmp_path / "work"
    there.mkdir()
    write_run(there / "old.run", GOOD)
    write_run(there / "new.run", BAD)
    (there / "qrels.txt").write_text("".join(f"{one} 0 right-{one} 1\n" for one in QUERIES), "utf-8")
    with shipping(few_files):
        yield there


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """Where temporary folders are made, and nothing else lies."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    monkeypatch.setattr("tempfile.tempdir", None)
    return place


def state_of(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def said(words: str, folder: Path) -> tuple[int, str, str]:
    return call(words.split(), folder, apart=True)


def test_two_files_are_compared_by_labels_of_a_third_and_nothing_is_left_behind(folder, temporary):
    before = state_of(folder)
    code, out, _ = said("compare old.run new.run --labels qrels.txt --json", folder)
    document = json.loads(out)
    assert code == 0
    assert (document["run_a"], document["run_b"]) == ("old", "new")
    assert (mean_hit(document, "a"), mean_hit(document, "b")) == (GOOD, BAD)
    assert state_of(folder) == before
    assert list(temporary.iterdir()) == []
    with working_in(folder):
        assert dict(compare_files("old.run", folder / "new.run", "qrels.txt")) == document


def test_what_to_do_next_names_the_files_and_is_a_command_that_works(folder):
    _, out, _ = said("compare old.run new.run --labels qrels.txt", folder)
    commands = out.split("Next:")[1].strip().splitlines()
    assert commands[0].split() == [
        "eval-pipeline",
        "gate",
        "new.run",
        "--baseline",
        "old.run",
        "--labels",
        "qrels.txt",
    ]
    assert [call(one.split()[1:], folder)[0] for one in commands] == [1, 0]
    assert "new" in (folder / "comparison.html").read_text("utf-8")
    assert not any("run --all" in one or "explain" in one for one in commands)


@pytest.mark.parametrize(
    ("share", "queries", "code", "word"),
    [(GOOD, QUERIES, 0, "PASS"), (BAD, QUERIES, 1, "FAIL"), (GOOD, QUERIES[:8], 4, "INCONCLUSIVE")],
)
def test_a_file_passes_the_gate_against_a_file_or_not(folder, share, queries, code, word):
    write_run(folder / "new.run", share, queries)
    rules = '[gate]\ndefaults = false\n[[gate.rules]]\nmetric = "hit@1"\nmargin = 0.05\n'
    (folder / "eval-pipeline.toml").write_text(rules, "utf-8")
    found, out, _ = said("gate new.run --baseline old.run --labels qrels.txt", folder)
    assert (found, out.split(":")[0]) == (code, word)


def test_files_that_carry_their_labels_need_no_others(folder):
    for name, chunk in (("old", "c1', 'c2"), ("new", "c2")):
        with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(
                ["user_input", "retrieved_context_ids", "reference_context_ids", "response", "exact_match"]
            )
            rows.writerows([f"What is {one}?", f"['{chunk}']", "['c1']", "That.", 1.0] for one in QUERIES)
    code, out, _ = said("compare old.csv new.csv --json", folder)
    document = json.loads(out)
    assert code == 0
    assert (document["aggregate_a"]["hit@1"], document["aggregate_b"]["hit@1"]) == (1.0, 0.0)


def test_files_without_labels_are_compared_and_told_once_how_to_give_them(folder):
    code, out, _ = said("compare old.run new.run --json", folder)
    document = json.loads(out)
    assert (code, document["aggregate_a"]["error_rate"], document["aggregate_a"]["hit@1"]) == (0, 0.0, None)
    assert [one for one in document["warnings"] if "label" in one] == [
        "no labels were given for old and new; --labels FILE takes qrels, a golden set or a BEIR folder"
    ]
    assert document["undefined"]["hit@1"].startswith("no labels: --labels FILE")
    _, out, _ = said("gate new.run --baseline old.run", folder)
    assert out.count("no labels were given") == 1


def test_two_files_of_one_name_are_two_runs(folder):
    (folder / "later").mkdir()
    write_run(folder / "later" / "old.run", BAD)
    _, out, _ = said("compare old.run later/old.run --labels qrels.txt --json", folder)
    document = json.loads(out)
    assert (document["run_a"], document["run_b"]) == ("old", "old-2")
    assert (mean_hit(document, "a"), mean_hit(document, "b")) == (GOOD, BAD)


@pytest.mark.parametrize(
    ("words", "reasons"),
    [
        ("compare odd.run new.run --labels qrels.txt", ["odd.run was not recognised", "Known are"]),
        ("compare old.run new.run --labels old.run", ["old.run was taken for a TREC run", "no labels"]),
        ("compare old.run new.run --labels nowhere.txt", ["nowhere.txt", "does not exist"]),
        ("compare old.run qrels.txt", ["qrels.txt cannot be compared", "no results"]),
        ("compare old.run nowhere", ["no run nowhere", "no file nowhere"]),
        ("compare nobody nowhere", ["no store", "no file nobody or nowhere"]),
        ("gate new.run --labels qrels.txt", ["what new.run is held against", "--baseline FILE"]),
    ],
)
def test_what_cannot_be_compared_is_refused_with_what_was_seen(folder, temporary, words, reasons):
    (folder / "odd.run").write_text("to be\nor not to be\n", "utf-8")
    before = state_of(folder)
    code, out, err = said(words, folder)
    assert (code, out) == (2, "")
    assert [one for one in reasons if one not in err] == []
    assert state_of(folder) == before
    assert list(temporary.iterdir()) == []


def test_a_run_of_the_store_is_held_against_a_file_by_the_labels_of_its_dataset(folder, temporary):
    call(["load", "qrels.txt", "old.run", "--dataset", "kb", "--run-id", "last-night"], folder)
    before = state_of(folder / "data")
    _, out, _ = said("compare last-night new.run --json", folder)
    document = json.loads(out)
    assert (document["run_a"], document["run_b"]) == ("last-night", "new")
    assert (mean_hit(document, "a"), mean_hit(document, "b")) == (GOOD, BAD)
    assert said("gate new.run --baseline last-night", folder)[0] == 1
    assert state_of(folder / "data").keys() == before.keys()
    assert (folder / "data" / "eval.duckdb").is_file()
    name = "eval.duckdb"
    assert state_of(folder / "data")[name] == before[name]
    assert list(temporary.iterdir()) == []


def test_a_name_of_both_a_file_and_a_run_has_to_be_said(folder):
    call(["load", "qrels.txt", "old.run", "--dataset", "kb", "--run-id", "new.run"], folder)
    code, _, err = said("compare old.run new.run", folder)
    assert (code, "./new.run or run:new.run" in err) == (2, True)
    shares = {}
    for name in ("./new.run", "run:new.run"):
        _, out, _ = said(f"compare {name} old.run --labels qrels.txt --json", folder)
        shares[name] = mean_hit(json.loads(out), "a")
    assert shares == {"./new.run": BAD, "run:new.run": GOOD}


def test_labels_of_ones_own_and_runs_as_bundles_are_read_too(folder):
    golden = [{"query_id": one, "expected_doc_ids": [f"right-{one}"]} for one in QUERIES]
    (folder / "golden.yaml").write_text(json.dumps(golden), "utf-8")
    call(["load", "old.run", "--dataset", "kb", "--to", "bundle"], folder)
    _, out, _ = said("compare bundle new.run --labels golden.yaml --json", folder)
    document = json.loads(out)
    assert [document[f"aggregate_{side}"]["recall@1_doc"] for side in "ab"] == [GOOD, BAD]


def test_several_runs_in_one_file_are_not_one_side(folder):
    shutil.copyfile(MADE / "promptfoo.json", folder / "many.json")
    with working_in(folder), pytest.raises(UsageError, match=r"holds 2 runs: many\.small, many\.large"):
        compare_files("many.json", "new.run")


def test_ctrl_c_leaves_no_temporary_folder(folder, few_files, temporary):
    words = [*program_with(few_files), "compare", "old.run", "new.run", "--labels", "qrels.txt"]
    environment = environment_in(folder) | {"TMPDIR": str(temporary), "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(words, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert "qrels.txt: taken for" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert list(temporary.iterdir()) == []
