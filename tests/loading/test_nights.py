"""Which run stands for a night, whatever was delivered in which order, and who takes notice."""

from __future__ import annotations

import itertools
import shutil

import pytest
from click.testing import CliRunner

from eval_pipeline.cli.main import cli
from eval_pipeline.comparing.compare import compare
from eval_pipeline.comparing.gate import trailing_nights
from eval_pipeline.comparing.noise import recent_runs
from eval_pipeline.comparing.pair_rows import find_compared_run
from eval_pipeline.comparing.pair_states import PAIR_FACTS
from eval_pipeline.formulas.registry import load_registry
from eval_pipeline.planning.status import find_status
from eval_pipeline.report.pages.collect import read_suites
from eval_pipeline.showing.show import show_run
from eval_pipeline.store.runs import attempts, previous_complete_runs
from tests.bundle_files import ask, compute, hits, load, settings_in, write_golden, write_lines, write_run
from tests.projects import open_reader, open_writer, project_of

QUERIES = ("q1", "q2")
GOLDEN = [{"query_id": query_id, "expected_chunk_ids": ["d/1"]} for query_id in QUERIES]
ALL = [{"query_id": query_id, "hits_top_k": hits("d/1")} for query_id in QUERIES]
HALF = ALL[:1]
NIGHTLY = {"suite": "nightly"}


@pytest.fixture
def settings(tmp_path, empty_store):
    made = settings_in(tmp_path)
    shutil.copyfile(empty_store, made.db)
    return made


@pytest.fixture
def bundle(tmp_path):
    folder = tmp_path / "bundle"
    write_golden(folder, GOLDEN)
    return folder


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    return load_registry(settings_in(tmp_path_factory.mktemp("no-configuration")))


def answers(settings):
    """The run that stands for each night of the suite `nightly`."""
    with open_reader(settings.db) as con:
        runs = attempts(con).values()
    of_suite = [run for run in runs if (run.suite, run.dataset) == ("nightly", "kb")]
    return [run.run_id for run in of_suite if run.is_last_complete]


def previous(settings, run_id):
    with open_reader(settings.db) as con:
        return previous_complete_runs(con, [run_id]).get(run_id)


def flags(settings):
    rows = ask(settings, "select run_id, is_complete, is_last_complete from runs order by run_id")
    return {run_id: (complete, last) for run_id, complete, last in rows}


def test_the_last_complete_attempt_stands_for_its_night(settings, bundle):
    write_run(bundle, "first", ALL, night="2026-09-01", attempt=1, **NIGHTLY)
    write_run(bundle, "second", ALL, night="2026-09-01", attempt=2, **NIGHTLY)
    write_run(bundle, "third", HALF, night="2026-09-01", attempt=3, **NIGHTLY)
    load(settings, bundle)
    assert answers(settings) == ["second"]
    assert flags(settings) == {"first": (True, False), "second": (True, True), "third": (False, False)}


def test_a_night_without_a_complete_attempt_has_no_answer(settings, bundle):
    write_run(bundle, "good", ALL, night="2026-09-01", **NIGHTLY)
    write_run(bundle, "bad", HALF, night="2026-09-02", **NIGHTLY)
    write_run(bundle, "next", ALL, night="2026-09-03", **NIGHTLY)
    load(settings, bundle)
    assert answers(settings) == ["good", "next"]
    assert previous(settings, "next") == "good"


def test_a_failed_query_is_answered_and_a_missing_one_is_not(settings, bundle):
    failed = [ALL[0], {"query_id": "q2", "error": "out of memory"}]
    write_run(bundle, "failed", failed, night="2026-09-01", **NIGHTLY)
    write_run(bundle, "timed-out", [ALL[0], {"query_id": "q2", "timed_out": True}], **NIGHTLY)
    write_run(bundle, "missing", HALF, night="2026-09-02", **NIGHTLY)
    load(settings, bundle)
    rows = ask(
        settings,
        "select run_id, golden_queries, results, missing, failed, is_complete from runs order by run_id",
    )
    assert rows == [
        ("failed", 2, 2, 0, 1, True),
        ("missing", 2, 1, 1, 0, False),
        ("timed-out", 2, 2, 0, 1, True),
    ]


def test_an_attempt_without_a_number_is_the_first_and_the_later_one_of_two_wins(settings, bundle):
    early, late = "2026-09-01T01:00:00Z", "2026-09-01T05:00:00Z"
    write_run(bundle, "b", ALL, created_at=early, **NIGHTLY)
    write_run(bundle, "a", ALL, created_at=late, **NIGHTLY)
    load(settings, bundle)
    assert answers(settings) == ["a"]
    write_run(bundle, "b", ALL, created_at=early, attempt=2, **NIGHTLY)
    load(settings, bundle, on=2)
    assert answers(settings) == ["b"]


@pytest.mark.slow
def test_the_order_of_loading_changes_nothing(tmp_path, empty_store):
    """Orders that begin alike go on in copies of one store."""
    runs = {
        "n1": {"created_at": "2026-09-01T02:00:00Z"},
        "n2": {"created_at": "2026-09-02T02:00:00Z"},
        "n2-again": {"created_at": "2026-09-02T06:00:00Z", "replaces": "n2"},
    }
    for run_id, said in runs.items():
        write_golden(tmp_path / run_id, GOLDEN)
        write_run(tmp_path / run_id, run_id, ALL, **NIGHTLY, **said)
    made, seen = {(): empty_store}, set()
    for order in itertools.permutations(runs):
        for day, run_id in enumerate(order, start=1):
            loaded = order[:day]
            if loaded not in made:
                settings = settings_in(tmp_path / "orders" / "..".join(loaded))
                settings.db.parent.mkdir(parents=True)
                shutil.copyfile(made[loaded[:-1]], settings.db)
                load(settings, tmp_path / run_id, on=day)
                made[loaded] = settings.db
        settings = settings_in(made[order].parent)
        stands = tuple(answers(settings))
        seen.add((stands, previous(settings, "n2-again"), tuple(sorted(flags(settings).items()))))
    ((stands, before, _),) = seen
    assert (stands, before) == (("n1", "n2-again"), "n1")


def test_a_complete_run_that_replaces_another_stands_for_it_and_an_incomplete_one_does_not(settings, bundle):
    write_run(bundle, "one", ALL, night="2026-09-01", attempt=9, **NIGHTLY)
    write_run(bundle, "one-again", ALL, night="2026-09-01", replaces="one", **NIGHTLY)
    write_run(bundle, "two", ALL, night="2026-09-02", **NIGHTLY)
    write_run(bundle, "two-again", HALF, night="2026-09-02", replaces="two", **NIGHTLY)
    load(settings, bundle)
    assert answers(settings) == ["one-again", "two"]
    superseded = ask(settings, "select run_id, superseded_by from runs where superseded_by is not null")
    assert superseded == [("one", "one-again")]


def test_the_end_of_a_chain_of_replacements_stands_and_a_circle_replaces_nothing(settings, bundle):
    write_run(bundle, "a", ALL, night="2026-09-01", **NIGHTLY)
    write_run(bundle, "b", HALF, night="2026-09-01", replaces="a", **NIGHTLY)
    write_run(bundle, "c", ALL, night="2026-09-01", replaces="b", **NIGHTLY)
    write_run(bundle, "x", ALL, night="2026-09-02", replaces="y", **NIGHTLY)
    write_run(bundle, "y", ALL, night="2026-09-02", replaces="x", **NIGHTLY)
    write_run(bundle, "z", ALL, night="2026-09-03", replaces="z", **NIGHTLY)
    load(settings, bundle)
    superseded = dict(ask(settings, "select run_id, superseded_by from runs where superseded_by is not null"))
    assert superseded == {"a": "c", "b": "c"}
    assert answers(settings) == ["c", "y", "z"]


def test_a_run_of_another_suite_or_dataset_replaces_nothing(settings, bundle):
    write_golden(bundle, GOLDEN, dataset="other")
    write_run(bundle, "one", ALL, night="2026-09-01", **NIGHTLY)
    write_run(bundle, "by-hand", ALL, night="2026-09-01", suite="manual", replaces="one")
    write_run(bundle, "elsewhere", ALL, night="2026-09-01", dataset="other", replaces="one", **NIGHTLY)
    load(settings, bundle)
    assert answers(settings) == ["one"]
    assert all(last for _, last in flags(settings).values())


def test_a_replicate_of_the_same_night_never_stands_for_it(settings, bundle):
    write_run(bundle, "one", ALL, night="2026-09-01", **NIGHTLY)
    write_run(bundle, "one-copy", ALL, night="2026-09-01", attempt=2, replicate_of="one", **NIGHTLY)
    write_run(bundle, "two", ALL, night="2026-09-02", replicate_of="one", **NIGHTLY)
    load(settings, bundle)
    assert answers(settings) == ["one", "two"]


def test_runs_that_say_neither_night_nor_time_are_nights_of_their_own(settings, bundle):
    for run_id in ("after", "before"):
        write_run(bundle, run_id, ALL)
    load(settings, bundle)
    assert [last for _, last in flags(settings).values()] == [True, True]
    assert (previous(settings, "before"), previous(settings, "after")) == ("after", None)


def test_queries_that_join_the_golden_set_later_leave_earlier_runs_complete(settings, bundle):
    write_run(bundle, "old", ALL, night="2026-09-01", **NIGHTLY)
    write_run(bundle, "old-half", HALF, night="2026-09-02", **NIGHTLY)
    load(settings, bundle, on=1)
    write_golden(bundle, [*GOLDEN, {"query_id": "q3"}])
    write_run(bundle, "new", ALL, night="2026-09-03", **NIGHTLY)
    load(settings, bundle, on=2)
    rows = ask(settings, "select run_id, missing, not_asked, is_complete from runs order by run_id")
    assert rows == [("new", 1, 0, False), ("old", 1, 1, True), ("old-half", 2, 1, False)]
    assert answers(settings) == ["old"]


def test_a_run_with_nothing_but_extraction_cases_is_complete_without_results(settings, bundle):
    folder = write_run(bundle, "extracted", [], night="2026-09-01", **NIGHTLY)
    (folder / "results.jsonl").unlink()
    case = {"case_id": "c", "ground_truth": {"a": 1}, "extracted": {"a": 1}}
    write_lines(folder / "extractions.jsonl", [case])
    empty = write_run(bundle, "empty", [], night="2026-09-02", **NIGHTLY)
    (empty / "results.jsonl").unlink()
    load(settings, bundle)
    assert flags(settings) == {"extracted": (True, True), "empty": (False, False)}


def test_a_run_answers_all_it_was_asked_until_a_golden_set_says_what_that_was(settings, bundle, tmp_path):
    shutil.move(bundle / "datasets", tmp_path / "later" / "datasets")
    write_run(bundle, "early", ALL, night="2026-09-01", **NIGHTLY)
    write_run(bundle, "half", HALF, night="2026-09-02", **NIGHTLY)
    load(settings, bundle, on=1)
    assert flags(settings) == {"early": (True, True), "half": (True, True)}
    load(settings, tmp_path / "later", on=2)
    assert flags(settings) == {"early": (True, True), "half": (False, False)}


def test_a_part_delivered_again_is_counted_anew(settings, bundle):
    write_run(bundle, "one", HALF, night="2026-09-01", **NIGHTLY)
    load(settings, bundle, on=1)
    assert answers(settings) == []
    write_run(bundle, "one", ALL, night="2026-09-01", **NIGHTLY)
    load(settings, bundle, on=2)
    assert answers(settings) == ["one"]


def test_the_counts_are_those_of_the_results_themselves(settings, bundle):
    write_run(bundle, "one", [*ALL, {"query_id": "unknown"}], night="2026-09-01", **NIGHTLY)
    write_run(bundle, "two", [{"query_id": "q2", "error": "x"}, {"query_id": "unknown", "error": "y"}])
    load(settings, bundle)
    counted = ask(
        settings,
        "select r.run_id, count(*), count(*) filter (where coalesce(x.error, '') <> '') from raw.results x "
        "join raw.runs r using (run_key) join labels.queries q using (query_key) group by r.run_id order by 1",
    )
    assert ask(settings, "select run_id, results, failed from runs order by 1") == counted


def test_a_store_made_before_there_were_counts_is_counted_when_it_is_opened(settings, bundle):
    write_run(bundle, "one", ALL, night="2026-09-01", **NIGHTLY)
    write_run(bundle, "half", HALF, night="2026-09-02", **NIGHTLY)
    load(settings, bundle, on=1)
    write_golden(bundle, [*GOLDEN, {"query_id": "q3"}])
    load(settings, bundle, on=2)
    counted = ask(settings, "from ledger.run_counts order by run_key")
    with open_writer(settings.db) as con:
        for statement in (
            "drop view main.runs",
            "drop view main.run_nights",
            "drop view main.lint",
            "drop view main.quarantine",
            "delete from main.view_texts",
            "drop table ledger.run_counts",
            "drop table ledger.lint",
            "alter table ledger.quarantine drop column resolved_at",
            "alter table raw.run_parts drop column times_read_again",
            "delete from main.schema_migrations where number = 7",
        ):
            con.execute(statement)
    assert ask(settings, "from ledger.run_counts order by run_key") == counted
    assert flags(settings)["one"] == (True, True)


def test_drift_and_trends_look_at_the_answers_only(settings, bundle, registry):
    for night in range(1, 5):
        write_run(bundle, f"n{night}", ALL, night=f"2026-09-0{night}", attempt=1, **NIGHTLY)
    write_run(bundle, "n2-again", ALL, night="2026-09-02", attempt=2, **NIGHTLY)
    write_run(bundle, "n3-half", HALF, night="2026-09-03", attempt=2, **NIGHTLY)
    write_run(bundle, "n5", HALF, night="2026-09-05", **NIGHTLY)
    load(settings, bundle)
    with open_reader(settings.db) as con:
        candidate = find_compared_run(con, "n4")
        recent = recent_runs(con, candidate, until=[candidate], most=10, only_answers=True)
        assert [run.run_id for run in trailing_nights(recent, candidate, most=10)] == [
            "n1",
            "n2-again",
            "n3",
            "n4",
        ]
    (suite,) = read_suites(project_of(settings, registry))
    # The fifth night has nothing better than an incomplete run; the page marks it.
    assert [(run.facts.run_id, run.is_complete) for run in suite.runs if run.is_shown] == [
        ("n1", True),
        ("n2-again", True),
        ("n3", True),
        ("n4", True),
        ("n5", False),
    ]


def test_a_comparison_says_that_a_run_is_incomplete_or_was_replaced(settings, bundle, registry):
    write_run(bundle, "one", ALL, night="2026-09-01", **NIGHTLY)
    write_run(bundle, "one-again", ALL, night="2026-09-01", replaces="one", **NIGHTLY)
    write_run(bundle, "half", HALF, night="2026-09-02", **NIGHTLY)
    load(settings, bundle)
    compute(settings, registry, definitions=PAIR_FACTS)
    said = "\n".join(compare(project_of(settings, registry), "one", "half")["warnings"])
    assert "one was replaced by one-again" in said
    assert "half is incomplete: 1 query of 2 without a result" in said


def test_status_and_show_say_what_does_not_stand_for_its_night(settings, bundle, registry):
    write_run(bundle, "one", ALL, night="2026-09-01", **NIGHTLY)
    write_run(bundle, "one-again", ALL, night="2026-09-01", replaces="one", **NIGHTLY)
    write_run(bundle, "half", HALF, night="2026-09-02", **NIGHTLY)
    load(settings, bundle)
    status = find_status(project_of(settings, registry))
    assert (status["incomplete"], status["superseded"]) == (["half"], {"one": "one-again"})
    assert show_run(project_of(settings, registry), "one")["night"] == {
        "night": "2026-09-01",
        "is_complete": True,
        "is_last_complete": False,
        "superseded_by": "one-again",
        "golden_queries": 2,
        "not_asked": 0,
    }
    printed = CliRunner().invoke(cli, ["show", "half", "--db", str(settings.db)])
    assert "incomplete: golden queries are without a result" in printed.output


def test_attempts_are_found_by_name_and_in_run_order(settings, bundle):
    write_run(bundle, "later", ALL, created_at="2026-09-02")
    write_run(bundle, "earlier", ALL, created_at="2026-09-01")
    load(settings, bundle)
    with open_reader(settings.db) as con:
        assert list(attempts(con)) == ["earlier", "later"]
        assert list(attempts(con, ["later"])) == ["later"]
        assert attempts(con, []) == {}
