"""Loading by trial, without texts, from one file, and interrupted: what is said, what is written, what is kept."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from pathlib import Path

import pytest
import zstandard

from eval_pipeline.errors import InvalidConfig, StoreError, UsageError
from eval_pipeline.loading.context import LoadOptions
from eval_pipeline.loading.file import RunNamed, load_results_file
from eval_pipeline.loading.inbox import take_in_runs
from eval_pipeline.loading.load import load_bundles
from eval_pipeline.store.kept import kept_folder
from tests.bundle_files import (
    ask,
    compute,
    day,
    hits,
    load,
    settings_in,
    write_archive,
    write_golden,
    write_lines,
    write_run,
)
from tests.projects import open_writer, project_of

DRY = LoadOptions(dry_run=True)
NO_TEXT = LoadOptions(no_text=True)
SECRET = "the password is swordfish"
TEXTFUL = {
    "query_id": "q1",
    "hits_top_k": [{"chunk_id": "d/1", "doc_id": "d", "text": f"passage: {SECRET}", "own": SECRET}],
    "answer": {
        "text": f"answer: {SECRET}",
        "grounded": True,
        "citations": [{"citation": "d/1"}],
        "references": [{"rel_path": "a.md", "text": f"reference: {SECRET}"}],
    },
    "judge": {
        "groundedness": {
            "score": 5,
            "supported_claims": [f"claim: {SECRET}"],
            "unsupported_claims": [SECRET],
        },
        "correctness": {"score": f"in words: {SECRET}", "reasoning": f"because {SECRET}"},
        "input": {"prompt": SECRET},
    },
    "own": SECRET,
}


@pytest.fixture
def settings(empty_store, tmp_path):
    return with_empty_store(empty_store, tmp_path / "store")


def with_empty_store(empty_store, folder):
    folder.mkdir()
    shutil.copyfile(empty_store, folder / "e.duckdb")
    return settings_in(folder)


@pytest.fixture
def without_store(tmp_path):
    return settings_in(tmp_path / "store")


@pytest.fixture
def rebuilt(empty_store, tmp_path):
    """An empty store to load elsewhere what was kept."""
    return with_empty_store(empty_store, tmp_path / "rebuilt")


@pytest.fixture
def bundle(tmp_path):
    folder = tmp_path / "bundle"
    write_golden(
        folder,
        [
            {
                "query_id": "q1",
                "query": SECRET,
                "expected_chunk_ids": ["d/1"],
                "must_contain": ["yes"],
                "own": SECRET,
            },
            {"query_id": "q2", "expected_chunk_ids": ["d/2"]},
        ],
    )
    write_archive(folder, "v1", [{"chunk_id": "d/1", "doc_id": "d", "text": SECRET}])
    write_run(folder, "run-1", [TEXTFUL, {"query_id": "q2", "answer": {"text": " "}}])
    return folder


def load_with(settings, options, *paths, on=1):
    return load_bundles(list(paths), project_of(settings, now=day(on)), options=options)


def files_below(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def kept_text(settings):
    """Everything that is kept, unpacked."""
    found = []
    for path in kept_folder(settings.db).rglob("*"):
        if path.suffix == ".zst":
            found.append(zstandard.ZstdDecompressor().stream_reader(path.read_bytes()).read())
        elif path.is_file():
            found.append(path.read_bytes())
    return b"\n".join(found)


def raw_rows(settings):
    names = (
        "results",
        "hits",
        "hit_spans",
        "citations",
        '"references"',
        "archive_chunks",
        "texts",
        "spot_checks",
    )
    return {name: sorted(map(repr, ask(settings, f"from raw.{name}"))) for name in names}


# Trial


def test_a_trial_writes_nothing_and_says_what_would_come_in(without_store, bundle, tmp_path):
    before = files_below(tmp_path)
    report = load_with(without_store, DRY, bundle)
    assert (report.runs, report.results, report.golden_sets, report.archives) == (
        ["run-1"],
        2,
        ["kb"],
        ["kb/v1"],
    )
    assert (report.replaced, report.unchanged, report.quarantined) == ([], 0, 0)
    assert files_below(tmp_path) == before


def test_a_trial_tells_what_is_replaced_from_what_is_unchanged_and_touches_neither(settings, bundle):
    write_run(bundle, "run-2", [{"query_id": "q1"}])
    load(settings, bundle)
    write_run(bundle, "run-1", [{"query_id": "q1", "hits_top_k": hits("d/9")}])
    write_run(bundle, "run-3", [{"query_id": "q1"}])
    before = raw_rows(settings), files_below(kept_folder(settings.db)), settings.db.read_bytes()
    report = load_with(settings, DRY, bundle, on=2)
    assert (sorted(report.runs), report.replaced, report.unchanged) == (["run-1", "run-3"], ["run-1"], 3)
    assert (raw_rows(settings), files_below(kept_folder(settings.db)), settings.db.read_bytes()) == before
    done = load(settings, bundle, on=2)
    assert (sorted(done.runs), done.replaced, done.unchanged) == (["run-1", "run-3"], ["run-1"], 3)


def test_a_trial_finds_everything_that_a_load_finds(settings, bundle, tmp_path, monkeypatch):
    load(settings, bundle)
    write_run(bundle, "run-1", [{"query_id": "q1"}], dataset="other")
    write_run(bundle, "twice", [{"query_id": "q1"}, {"query_id": "q1"}])
    write_run(bundle, "a-bad-row", [{"query_id": 1}, {"query_id": "q1"}])
    write_run(bundle, "cut-off", [{"query_id": "q1"}, '{"query_id'])
    write_lines(write_run(bundle, "cases", []) / "extractions.jsonl", [{"case_id": ""}])
    write_golden(bundle, [{"query_id": "q1"}, {"query_id": "q1"}], dataset="twice")
    write_archive(bundle, "v2", [{"chunk_id": ""}])
    again = shutil.copytree(bundle / "runs" / "a-bad-row", tmp_path / "more" / "runs" / "a-bad-row")
    write_lines(again / "results.jsonl", [{"query_id": 2}])
    # Large files are read while they are written: then too.
    monkeypatch.setattr("eval_pipeline.loading.runs.IN_MEMORY_BYTES", 30)
    trial = load_with(settings, DRY, bundle, tmp_path / "more", on=2)
    done = load(settings, bundle, tmp_path / "more", on=2)
    for name in (
        "runs",
        "replaced",
        "rejected",
        "archives",
        "golden_sets",
        "unchanged",
        "results",
        "quarantined",
    ):
        assert getattr(trial, name) == getattr(done, name), name
    assert [(one.path, one.line, one.field, one.reason) for one in trial.problems] == [
        (one.path, one.line, one.field, one.reason) for one in done.problems
    ]
    assert {"run-1", "twice", "cut-off"} <= set(trial.rejected)


def test_a_trial_on_a_store_of_an_earlier_version_says_who_brings_it_up_to_date(settings, bundle):
    load(settings, bundle)
    with open_writer(settings.db) as con:
        con.execute(
            "delete from main.schema_migrations where number = (select max(number) from main.schema_migrations)"
        )
    with pytest.raises(StoreError, match="eval-pipeline status"):
        load_with(settings, DRY, bundle)


# Without texts


def test_without_texts_none_is_in_the_store_the_kept_files_or_the_quarantine(settings, bundle):
    write_run(bundle, "run-2", [{"query_id": 1, "answer": {"text": SECRET}}, {"query_id": "q1"}])
    write_run(bundle, "run-3", [{"query_id": "q1", "answer": {"text": SECRET}}, '{"x": "' + SECRET])
    report = load_with(settings, NO_TEXT, bundle)
    assert (sorted(report.runs), report.rejected, report.quarantined) == (["run-1", "run-2"], ["run-3"], 2)
    assert b"swordfish" not in kept_text(settings)
    assert b"d/1" in kept_text(settings)
    for (table,) in ask(settings, "select schema_name || '.\"' || table_name || '\"' from duckdb_tables()"):
        assert not any("swordfish" in repr(row) for row in ask(settings, f"from {table}")), table


def test_without_texts_everything_else_is_as_with_them(settings, bundle, empty_store, tmp_path):
    other = with_empty_store(empty_store, tmp_path / "other")
    load_with(settings, NO_TEXT, bundle)
    load(other, bundle)
    columns = (
        "query_key, row_no, n_hits, has_answer, answer_is_blank, grounded, judge_groundedness, "
        "len(supported_claims), len(unsupported_claims), judge_correctness"
    )
    assert ask(settings, f"select {columns} from raw.results") == ask(
        other, f"select {columns} from raw.results"
    )
    assert raw_rows(settings)["citations"] == raw_rows(other)["citations"]
    assert (
        ask(settings, "select count(*) from raw.texts") == [(0,)]
        or b"swordfish" not in repr(ask(settings, "from raw.texts")).encode()
    )


def test_without_its_text_an_answer_is_not_empty_and_what_it_contains_is_undefined(settings, bundle):
    load_with(settings, NO_TEXT, bundle)
    names = ("answer_strings", "failures", "hit_at_k", "citation_coverage")
    compute(settings, definitions=[f"metrics.{name}" for name in names])
    found = dict(
        ask(
            settings,
            "select query_id || ' ' || metric, value from per_query_metrics "
            "where metric in ('groundedness', 'empty_response_rate', 'hit@1', 'citation_coverage')",
        )
    )
    assert found["q1 groundedness"] is None
    assert (found["q1 empty_response_rate"], found["q2 empty_response_rate"]) == (0, 1)
    assert (found["q1 hit@1"], found["q1 citation_coverage"]) == (1, 1)


def test_what_is_kept_without_texts_loads_into_the_same_rows(settings, bundle, rebuilt):
    write_run(bundle, "run-2", [{"query_id": 1}, {"query_id": "q1"}])
    load_with(settings, NO_TEXT, bundle)
    load(rebuilt, *sorted(kept_folder(settings.db).iterdir()))
    assert raw_rows(rebuilt) == raw_rows(settings)


def test_the_same_bytes_again_without_texts_change_nothing_and_with_texts_bring_them(settings, bundle):
    load_with(settings, NO_TEXT, bundle, on=1)
    again = load_with(settings, NO_TEXT, bundle, on=2)
    assert (again.runs, again.golden_sets, again.archives) == ([], [], [])
    with_texts = load(settings, bundle, on=3)
    assert (with_texts.runs, with_texts.golden_sets, with_texts.archives) == (["run-1"], ["kb"], ["kb/v1"])
    assert SECRET in repr(ask(settings, "from raw.texts"))
    without = load_with(settings, NO_TEXT, bundle, on=4)
    assert without.replaced == ["run-1"]
    assert ask(settings, "select answer_text_key from raw.results where row_no = 1") == [(None,)]


def test_the_inbox_brings_no_text_back_that_was_left_out_on_purpose(bundle, tmp_path):
    settings = settings_in(tmp_path, EVAL_PIPELINE_INBOX=str(bundle))
    now = dt.datetime.now(dt.UTC).replace(tzinfo=None)
    load_bundles([bundle], project_of(settings, now=now), options=NO_TEXT)
    for path in bundle.rglob("*.json*"):
        path.touch()
    assert take_in_runs(project_of(settings, now=now + dt.timedelta(days=1)), ["run-1"]).runs == []
    write_lines(
        bundle / "runs" / "run-1" / "extractions.jsonl",
        [{"case_id": "c", "ground_truth": {}, "extracted": {}}],
    )
    assert take_in_runs(project_of(settings, now=now + dt.timedelta(days=2)), ["run-1"]).runs == ["run-1"]
    assert SECRET not in repr(ask(settings, "from raw.texts"))


def test_a_trial_without_texts_leaves_nothing_behind_either(without_store, bundle, tmp_path):
    before = files_below(tmp_path)
    assert load_with(without_store, LoadOptions(dry_run=True, no_text=True), bundle).results == 2
    assert files_below(tmp_path) == before


# One file


def test_a_results_file_becomes_a_run_that_is_kept_as_a_bundle(settings, rebuilt, tmp_path):
    own = write_lines(
        tmp_path / "mine.jsonl", [{"query_id": "q1", "hits_top_k": hits("d/1")}, {"query_id": 2}]
    )
    run = RunNamed("mine", "kb", created_at="2026-09-01T00:00:00Z", suite="hand")
    report = load_results_file(own, run, project_of(settings, now=day(1)))
    assert (report.runs, report.results, report.quarantined) == (["mine"], 1, 1)
    assert (report.problems[0].path, report.problems[0].line) == (str(own), 2)
    assert ask(settings, "select run_id, suite, created_at from runs") == [
        ("mine", "hand", dt.datetime(2026, 9, 1))
    ]
    assert load_results_file(own, run, project_of(settings, now=day(2))).runs == []
    load(rebuilt, *kept_folder(settings.db).iterdir())
    assert raw_rows(rebuilt) == raw_rows(settings)


def test_a_mapped_file_is_loaded_with_its_own_lines_in_the_reasons_and_rebuilt_from_what_is_kept(
    settings, rebuilt, tmp_path
):
    own = tmp_path / "mine.csv"
    own.write_text("id,found,rank,speed\na,c1,2,0.5\na,c2,1,0.5\nb,c3,first,0.1\nc,c4\nd,c5,1,0.25\n")
    mapping = tmp_path / "mapping.toml"
    mapping.write_text(
        'rows = "hit"\nresult = {query_id = "id"}\nlatency_ms = {total = "speed", unit = "s"}\n'
        'hits = {chunk_id = "found", rank = "rank", order = "rank"}\n'
        'run = {suite = "csv", config = {top_k = 2}}\n'
    )
    report = load_results_file(own, RunNamed("mine", "kb"), project_of(settings, now=day(1)), mapping=mapping)
    assert sorted((one.line, one.path, one.field) for one in report.problems) == [
        (4, str(own), "hits_top_k[0].rank"),
        (5, str(own), None),
    ]
    assert ask(settings, "select query_id, rank, chunk_id from hits order by all") == [
        ("a", 1, "c2"),
        ("a", 2, "c1"),
        ("d", 1, "c5"),
    ]
    assert ask(settings, "select total_ms from raw.results order by row_no") == [(500.0,), (250.0,)]
    assert ask(settings, "select suite, top_k from raw.runs") == [("csv", 2)]
    assert (
        load_results_file(own, RunNamed("mine", "kb"), project_of(settings, now=day(2)), mapping=mapping).runs
        == []
    )
    load(rebuilt, *kept_folder(settings.db).iterdir())
    assert raw_rows(rebuilt) == raw_rows(settings)


def test_a_file_that_is_cut_off_is_quarantined_under_its_own_name(settings, tmp_path):
    own = write_lines(tmp_path / "mine.jsonl", [{"id": "a"}, '{"id": "b'])
    mapping = tmp_path / "mapping.toml"
    mapping.write_text('result = {query_id = "id"}')
    report = load_results_file(own, RunNamed("mine", "kb"), project_of(settings, now=day(1)), mapping=mapping)
    assert (report.runs, report.rejected, report.quarantined) == ([], ["mine"], 1)
    assert ask(settings, "select path, run_id from quarantine") == [(str(own), "mine")]


@pytest.mark.parametrize(
    ("name", "rows", "mapping", "words"),
    [
        ("mine.csv", [], None, "eval-pipeline init"),
        ("mine.jsonl", [{"qid": "a", "found": []}], None, "has no query_id; it has qid, found"),
        ("mine.jsonl", [{"qid": "a"}], 'result = {query_id = "id"}', "is in none of the first 1 rows"),
        (
            "mine.jsonl",
            [{"id": "a", "found": []}],
            'result = {query_id = "id"}\nhits = {list = "hits", chunk_id = "."}',
            "[hits] list = 'hits'",
        ),
    ],
)
def test_a_file_that_does_not_fit_is_refused_before_anything_is_written(
    without_store, tmp_path, name, rows, mapping, words
):
    own = write_lines(tmp_path / name, rows)
    place = None
    if mapping:
        place = tmp_path / "mapping.toml"
        place.write_text(mapping)
    with pytest.raises((UsageError, InvalidConfig)) as refused:
        load_results_file(own, RunNamed("mine", "kb"), project_of(without_store, now=day(1)), mapping=place)
    assert words in str(refused.value)
    assert not without_store.db.exists()


def test_a_place_that_no_row_has_is_worth_a_word(settings, tmp_path):
    own = write_lines(tmp_path / "mine.jsonl", [{"id": "a", "said": "x"}])
    mapping = tmp_path / "mapping.toml"
    mapping.write_text('result = {query_id = "id"}\nanswer = {text = "says"}')
    said: list[str] = []
    load_results_file(
        own, RunNamed("mine", "kb"), project_of(settings, notify=said.append, now=day(1)), mapping=mapping
    )
    assert ["[answer] text = 'says' is in none of the first 1 rows" in one for one in said] == [True]


@pytest.mark.parametrize(
    "run", [RunNamed("a/b", "kb"), RunNamed("a", ".."), RunNamed("a", "kb", created_at="yesterday")]
)
def test_impossible_names_and_times_are_refused(without_store, tmp_path, run):
    own = write_lines(tmp_path / "mine.jsonl", [{"query_id": "a"}])
    with pytest.raises(UsageError, match="--"):
        load_results_file(own, run, project_of(without_store, now=day(1)))


# Interrupted


def test_a_load_that_is_stopped_keeps_what_it_wrote_and_goes_on_where_it_was(settings, bundle, monkeypatch):
    for number in range(2, 10):
        write_run(bundle, f"run-{number}", [{"query_id": "q1"}])
    monkeypatch.setattr("eval_pipeline.loading.runs.BATCH_RUNS", 2)
    seen: list[int] = []
    report = load_bundles(
        [bundle],
        project_of(settings, now=day(1)),
        progress=lambda done, _total: seen.append(done),
        stop=lambda: len(seen) >= 5,
    )
    assert (report.stopped, len(report.runs), report.runs_left) == (True, 5, 4)
    assert ask(settings, "select count(*) from runs") == [(5,)]
    kept = {path.name for path in kept_folder(settings.db).glob("*/runs/*")}
    assert kept == set(report.runs)
    rest = load_bundles([bundle], project_of(settings, now=day(2)))
    assert (rest.stopped, len(rest.runs)) == (False, 4)
    assert set(rest.runs).isdisjoint(report.runs)


def test_an_error_in_the_middle_leaves_no_kept_delivery_of_a_run_that_is_not_in(
    settings, bundle, monkeypatch
):
    for number in range(2, 6):
        write_run(bundle, f"run-{number}", [{"query_id": "q1"}])
    monkeypatch.setattr("eval_pipeline.loading.runs.BATCH_RUNS", 2)
    calls: list[int] = []

    def stop():
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return False

    with pytest.raises(KeyboardInterrupt):
        load_bundles([bundle], project_of(settings, now=day(1)), stop=stop)
    stored = {run_id for (run_id,) in ask(settings, "select run_id from runs")}
    assert len(stored) == 2
    assert {path.name for path in kept_folder(settings.db).glob("*/runs/*")} == stored


def test_a_run_that_is_there_is_hashed_and_not_read_again(settings, bundle, monkeypatch):
    load(settings, bundle)

    def fail(*_arguments, **_options):
        raise AssertionError("read again")

    monkeypatch.setattr("eval_pipeline.loading.runs.read_part", fail)
    monkeypatch.setattr("eval_pipeline.store.kept.Keeping.keep", fail)
    assert load(settings, bundle, on=2).unchanged == 3


def test_one_run_twice_in_one_load_keeps_both_deliveries_in_their_order(settings, bundle, rebuilt, tmp_path):
    again = tmp_path / "again"
    write_run(again, "run-1", [{"query_id": "q1", "hits_top_k": hits("d/7")}])
    load(settings, bundle, again)
    places = sorted(path.parent.parent.name for path in kept_folder(settings.db).glob("*/runs/run-1"))
    assert len(places) == 2
    load(rebuilt, *sorted(kept_folder(settings.db).iterdir()))
    assert ask(rebuilt, "select chunk_id from hits") == [("d/7",)]
    assert (
        json.loads(next(Path(kept_folder(settings.db)).glob("*/runs/run-1/run.json")).read_text())["run_id"]
        == "run-1"
    )
