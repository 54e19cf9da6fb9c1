"""Pairs of runs and published pages as assets: what they show, and who launches them."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote, urlparse

import dagster as dg
import pytest

from eval_pipeline.comparing.documents import GateReport
from eval_pipeline.comparing.pairs import due_pairs, store_comparisons
from eval_pipeline.computing.ledger import NEW_DATA_REASONS
from eval_pipeline.defs.comparisons import COMPARED_KEYS, COMPARISONS, PAGES, gate_result
from eval_pipeline.defs.jobs import make_jobs
from eval_pipeline.defs.launches import RAW_NAMES
from eval_pipeline.defs.location import build_definitions
from eval_pipeline.defs.partitions import register_comparisons, registered_comparisons
from eval_pipeline.defs.sensors import new_comparisons, stale_metrics
from eval_pipeline.defs.tags import ONLY_STALE, RANGE_END, RANGE_START
from eval_pipeline.formulas.registry import load_registry
from eval_pipeline.launch import run_in_dagster
from eval_pipeline.report.pages.writing import due_pages
from eval_pipeline.settings import default_file
from tests.few_definitions import shipping, write_few
from tests.projects import open_reader, project_of, store_with

from .deliveries import (
    CHANGED,
    change_a_formula,
    compute,
    copied,
    deliver_golden,
    deliver_run,
    load,
    make_settings,
)

QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
NEEDED = (CHANGED, "metrics.hit_at_k", "aggregates.run_metrics", "facts.found_chunks", "facts.outcomes")
NAMES = frozenset((*RAW_NAMES, *NEEDED, "facts.chunk_ranks"))
PAIRS = ["r1..r2", "r2..r3"]
TABLES = ("pairs", "deltas", "queries", "gates")


@pytest.fixture(scope="module", autouse=True)
def definitions_that_pairs_need(tmp_path_factory):
    """Few definitions are quicker than all of them; these are what verdicts are read from."""
    folder = write_few(tmp_path_factory.mktemp("for_pairs") / "sql", *NEEDED)
    with shipping(folder):
        yield


def deliver(root: Path, run_id: str, **said):
    """A run that says which chunker it was made with, so that chunks are compared by their ids."""
    path = deliver_run(root, run_id, **said) / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "config": {"chunker_version": "v1"}}))


@pytest.fixture(scope="module")
def loaded(tmp_path_factory, new_home, definitions_that_pairs_need):
    """Three nights; the second finds what the first did not, the third loses it again."""
    settings = make_settings(tmp_path_factory.mktemp("loaded"))
    shutil.copytree(new_home, settings.dagster_home)
    root = settings.db.parent / "bundle"
    deliver_golden(root)
    deliver(root, "r1", day=1, hits={"q1": ["a"], "q2": ["x"]})
    deliver(root, "r2", day=2, hits={"q1": ["a"], "q2": ["b"]})
    deliver(root, "r3", day=3, hits={"q1": ["x", "a"], "q2": ["x"]})
    load(settings, root)
    return settings


@pytest.fixture(scope="module")
def computed(loaded, tmp_path_factory):
    """The same nights with their numbers."""
    settings = copied(loaded, tmp_path_factory.mktemp("computed"))
    compute(settings)
    return settings


@pytest.fixture(scope="module")
def compared(computed, tmp_path_factory):
    """The same nights and their pairs, without Dagster."""
    settings = copied(computed, tmp_path_factory.mktemp("compared"))
    make_pairs(settings)
    return settings


@pytest.fixture(scope="module")
def published(compared, tmp_path_factory):
    """The same again with all pages, and what the job said of them."""
    settings = copied(compared, tmp_path_factory.mktemp("published"))
    with dg.DagsterInstance.ephemeral() as instance:
        return SimpleNamespace(settings=settings, metadata=publish(settings, instance))


def make_pairs(settings):
    registry = load_registry(settings)
    with open_reader(settings.db) as con:
        pairs = [(one.run_a, one.run_b) for one in due_pairs(store_with(con, registry), reasons=None)]
    store_comparisons(project_of(settings, registry), pairs)


def execute(settings, instance, first, last, *, tags=None):
    job = build_definitions(project_of(settings)).resolve_job_def("new_comparisons")
    job = job.get_subset(asset_selection=frozenset(COMPARED_KEYS))
    return job.execute_in_process(
        instance=instance,
        tags={RANGE_START: first, RANGE_END: last, **(tags or {})},
        run_config=QUIET,
        raise_on_error=False,
    )


def publish(settings, instance):
    """What the job that writes pages says of them."""
    job = build_definitions(project_of(settings)).resolve_job_def("publish_pages")
    result = job.execute_in_process(instance=instance, run_config=QUIET)
    (metadata,) = materializations(result, PAGES).values()
    return metadata


def materializations(result, key):
    return {
        event.partition: event.materialization.metadata
        for event in result.all_events
        if event.event_type == dg.DagsterEventType.ASSET_MATERIALIZATION and event.asset_key == key
    }


def rows(settings, sql):
    with open_reader(settings.db) as con:
        return con.sql(sql).fetchall()


VERDICTS = "select run_a, run_b, query_id, kind, regression from comparison_queries order by all"


@pytest.fixture(scope="module")
def done(computed, tmp_path_factory):
    """One range over both pairs, with a gate against the first night."""
    settings = copied(computed, tmp_path_factory.mktemp("pairs"))
    settings.config.write_text(
        '[baselines]\nkb = "r2"\n[gate]\ndefaults = false\nevidence = "margin"\n'
        '[[gate.rules]]\nmetric = "hit@5"\nmargin = 0.02\nminimum_n = 1\n'
    )
    with dg.DagsterInstance.ephemeral() as instance:
        register_comparisons(instance, PAIRS, may_move=True)
        result = execute(settings, instance, *PAIRS)
        yield SimpleNamespace(settings=settings, instance=instance, result=result)


def test_a_range_of_pairs_stores_what_the_pipeline_alone_does(done, compared):
    assert done.result.success
    assert rows(done.settings, VERDICTS) == rows(compared, VERDICTS)
    assert ("r1", "r2", "q2", "win", False) in rows(compared, VERDICTS)
    assert ("r2", "r3", "q2", "loss", True) in rows(compared, VERDICTS)


def test_every_pair_of_the_range_is_shown_with_what_moved(done):
    assert done.instance.get_materialized_partitions(COMPARISONS) == set(PAIRS)
    found = materializations(done.result, COMPARISONS)
    # q1 and q2 are found at ranks (1, none), (1, 1), (2, none).
    assert found["r1..r2"]["mrr: change"].value == 0.5
    assert "/pair?a=r1&b=r2)" in found["r1..r2"]["page"].value
    assert found["r2..r3"]["mrr: change"].value == -0.75
    assert {row.data["metric"]: row.data["n"] for row in found["r2..r3"]["n"].records}["mrr"] == 2
    assert [found[pair]["regressions"].value for pair in PAIRS] == [0, 1]
    low, high = (found["r2..r3"][f"mrr: 95 % {end}"].value for end in ("from", "to"))
    assert low <= -0.75 <= high
    preview = found["r2..r3"]["comparison"].value
    assert "**r3 against r2**" in preview and "| q2 | loss | 1 | — | b |" in preview
    assert found["r1..r2"]["why this partition ran"].value == "not computed before"


def test_the_tables_of_a_comparison_are_made_in_one_step_and_each_says_what_it_has_of_a_pair(done):
    assert {event.step_key for event in done.result.all_events if event.is_successful_output} >= {
        "comparisons"
    }
    counted = {
        table: dict(rows(done.settings, f"select run_b_key, count(*) from comparisons.{table} group by all"))
        for table in ("deltas", "queries", "gates")
    }
    with open_reader(done.settings.db) as con:
        keys = dict(con.sql("select run_id, run_key from raw.runs").fetchall())
    for table in ("deltas", "queries"):
        found = materializations(done.result, dg.AssetKey(["comparisons", table]))
        assert {pair: metadata["rows"].value for pair, metadata in found.items()} == {
            pair: counted[table][keys[pair.split("..")[1]]] for pair in PAIRS
        }
    gates = materializations(done.result, dg.AssetKey(["comparisons", "gates"]))
    assert gates["r2..r3"]["verdict"].value == "fail" and set(counted["gates"]) == {keys["r3"]}
    assert gates["r1..r2"]["why this partition ran"].value.endswith("nothing to compute")


def test_the_columns_shown_of_comparisons_are_those_of_their_tables_in_their_order(done):
    graph = build_definitions(project_of(done.settings)).resolve_asset_graph()
    words = {"VARCHAR": "text", "VARCHAR[]": "list of text"}
    for table in TABLES:
        metadata = graph.get(dg.AssetKey(["comparisons", table])).metadata
        shown = [(one.name, one.type) for one in metadata["dagster/column_schema"].columns]
        stored = rows(done.settings, f"select column_name, column_type from (describe comparisons.{table})")
        assert shown == [(name, words.get(kind, kind.lower())) for name, kind in stored]


def test_of_a_range_only_the_pairs_that_were_stale_are_shown(computed, tmp_path, instance):
    settings = copied(computed, tmp_path)
    store_comparisons(project_of(settings), [("r1", "r2")])
    register_comparisons(instance, PAIRS, may_move=True)
    result = execute(settings, instance, *PAIRS, tags={ONLY_STALE: "true"})
    assert result.success
    shown = {table: set(materializations(result, dg.AssetKey(["comparisons", table]))) for table in TABLES}
    assert shown == {"pairs": {"r2..r3"}, "deltas": {"r2..r3"}, "queries": {"r2..r3"}, "gates": set()}


def test_a_failed_gate_is_a_warning_in_the_words_of_its_rules(done):
    (check,) = done.result.get_asset_check_evaluations()
    assert (check.check_name, check.passed, check.severity) == ("gate", False, dg.AssetCheckSeverity.WARN)
    assert check.metadata["runs judged"].value == 1
    told = check.metadata["verdicts"].value
    assert "**fail**: `r3` against `r2`" in told and "hit@5" in told
    assert materializations(done.result, COMPARISONS)["r2..r3"]["gate"].value == "fail"


def judged(verdict: str, *preconditions: str) -> GateReport:
    return GateReport(
        verdict=verdict,
        candidate="b",
        baseline="a",
        preconditions=list(preconditions),
        rules=[],
        skipped=[],
        notes=[],
        evidence="test",
        on_inconclusive="warn",
    )


def test_nothing_judged_and_everything_passed_are_no_warning():
    assert gate_result([]).passed
    assert gate_result([judged("pass")]).passed
    doubt = judged("inconclusive", "the baseline answered 1 of 9")
    found = gate_result([judged("pass"), doubt])
    assert not found.passed and found.description.endswith("the baseline answered 1 of 9")


def test_a_fresh_pair_is_left_alone_unless_it_is_asked_for(done):
    stamp = "select computed_at from comparisons.pairs order by run_b_key"
    before = rows(done.settings, stamp)
    execute(done.settings, done.instance, *PAIRS, tags={ONLY_STALE: "true"})
    assert rows(done.settings, stamp) == before
    execute(done.settings, done.instance, "r2..r3", "r2..r3")
    after = rows(done.settings, stamp)
    assert after[0] == before[0] and after[1] > before[1]


def test_pairs_depend_on_whole_tables_and_pages_on_pairs(done):
    graph = build_definitions(project_of(done.settings)).resolve_asset_graph()
    aggregates = dg.AssetKey(["aggregates", "run_metrics"])
    assert aggregates in graph.get(COMPARISONS).parent_keys
    mapping = graph.get(COMPARISONS).partition_mappings[aggregates]
    assert isinstance(mapping, dg.AllPartitionMapping)
    assert COMPARISONS in graph.get(PAGES).parent_keys
    groups = {key: graph.get(key).group_name for key in (COMPARISONS, PAGES)}
    assert groups == {COMPARISONS: "comparisons", PAGES: "reports"}


def test_pairs_are_registered_in_run_order_and_those_registered_by_hand_stay(tmp_path):
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions("eval_comparison", ["x..y"])
        register_comparisons(instance, ["r1..r2", "r2..r4"], may_move=True)
        register_comparisons(instance, ["r1..r2", "r2..r3", "r3..r4"], may_move=True)
        assert registered_comparisons(instance)[-3:] == ["r1..r2", "r2..r3", "r3..r4"]
        assert {"x..y", "r2..r4"} <= set(registered_comparisons(instance))


def test_a_pair_of_runs_that_are_not_there_fails_and_the_others_are_stored(computed, tmp_path, instance):
    settings = copied(computed, tmp_path)
    register_comparisons(instance, ["r1..nobody", "r1..r2"], may_move=True)
    result = execute(settings, instance, "r1..nobody", "r1..r2")
    assert not result.success
    assert rows(settings, "select distinct run_a, run_b from comparison_queries") == [("r1", "r2")]


@pytest.mark.slow
def test_the_command_line_compares_what_it_computed_and_publishes_where_asked(loaded, tmp_path):
    settings = copied(loaded, tmp_path)
    found = run_in_dagster(project_of(settings), reasons=NEW_DATA_REASONS, pages=True)
    assert found.computed.cells["comparisons.pairs"] == 2
    assert rows(settings, "select count(*) from comparisons.pairs") == [(2,)]
    assert {path.name for path in settings.reports.iterdir()} == {
        *("r1.html", "r2.html", "r3.html", "r1..r2.html", "r2..r3.html"),
        *("r1.files", "r2.files", "r3.files"),
        "suites.html",
    }
    for run_id in ("r1", "r2", "r3"):
        found_beside = {path.name: path for path in (settings.reports / f"{run_id}.files").iterdir()}
        assert set(found_beside) == {"metrics.json", "config.json", "eval-results.json"}
        metrics = json.loads(found_beside["metrics.json"].read_text("utf-8"))
        assert metrics["run_id"] == run_id and "judge_reliability" in metrics
    again = run_in_dagster(project_of(settings), reasons=NEW_DATA_REASONS)
    assert (again.n_cells, again.dagster_run_ids) == (0, ())


def test_an_applied_formula_takes_its_comparisons_with_it(compared, tmp_path):
    settings = copied(compared, tmp_path)
    change_a_formula(settings, cutoff=1)
    assert run_in_dagster(project_of(settings), reasons=NEW_DATA_REASONS).n_cells == 0
    found = run_in_dagster(project_of(settings), reasons=None)
    assert found.computed.cells == {CHANGED: 3, "aggregates.run_metrics": 3, "comparisons.pairs": 2}


class Watch:
    """A sensor that keeps its cursor from tick to tick, as the daemon does."""

    def __init__(self, sensor, instance, store):
        self.sensor, self.instance, self.store, self.cursor = sensor, instance, store, None

    def tick(self):
        context = dg.build_sensor_context(
            instance=self.instance, cursor=self.cursor, resources={"store": self.store}
        )
        result = self.sensor(context)
        self.cursor = result.cursor
        for request in result.run_requests or []:
            run = dg.DagsterRun(
                request.job_name,
                run_id=str(uuid.uuid4()),
                tags=dict(request.tags),
                status=dg.DagsterRunStatus.SUCCESS,
            )
            self.instance.add_run(run)
        return list(result.run_requests or [])


@pytest.mark.slow
def test_computed_runs_are_compared_and_then_published(
    computed, compared, published, settings, store, instance
):
    """What is asked for is carried out elsewhere; the store is then as it is after that."""
    copied(computed, settings.db.parent)
    watch = Watch(new_comparisons(make_jobs()), instance, store)
    (request,) = watch.tick()
    assert request.job_name == "new_comparisons"
    assert PAGES in request.asset_selection, "one run makes a night's pages, too"
    assert (request.tags[RANGE_START], request.tags[RANGE_END]) == ("r1..r2", "r2..r3")
    assert registered_comparisons(instance) == PAIRS
    copied(compared, settings.db.parent)
    (request,) = watch.tick()
    assert request.job_name == "publish_pages"
    copied(published.settings, settings.db.parent)
    assert watch.tick() == []
    assert watch.tick() == []


def test_a_pair_whose_runs_are_not_computed_is_not_launched(loaded, settings, store, instance):
    copied(loaded, settings.db.parent)
    assert Watch(new_comparisons(make_jobs()), instance, store).tick() == []


def test_stale_comparisons_are_launched_once_their_runs_are_computed(compared, settings, store, instance):
    copied(compared, settings.db.parent)
    change_a_formula(settings, cutoff=1)
    watch = Watch(stale_metrics(make_jobs(), NAMES), instance, store)
    assert {request.job_name for request in watch.tick()} == {"recompute_stale"}
    compute(settings)
    (request,) = watch.tick()
    assert request.job_name == "new_comparisons"
    make_pairs(settings)
    assert watch.tick() == []


def test_pages_are_linked_and_written_again_only_when_their_numbers_are_newer(published, tmp_path, instance):
    first, reports = published.metadata, published.settings.reports
    assert first["pages written"].value == 6
    overview = Path(unquote(urlparse(first["all suites"].value).path))
    assert overview == reports / "suites.html" and overview.is_file()
    assert (reports / "r1..r2.html").as_uri() in first["written now"].value
    settings = copied(published.settings, tmp_path)
    assert publish(settings, instance)["pages written"].value == 0
    os.utime(settings.reports / "r2.html", (0, 0))
    again = publish(settings, instance)
    assert again["pages written"].value == 1 and "r2.html" in again["written now"].value


def test_a_page_has_a_file_of_its_own_whatever_its_run_is_called(tmp_path):
    settings = make_settings(tmp_path)
    long, hostile = "n" * 128, "a:b+c@d"
    named = ["suites", "Suite-nightly", hostile, "a-b+c@d", long, long[:-1] + "m", "ab"]
    pages = [(one,) for one in named] + [("ab", one) for one in named]
    files = [default_file(settings, runs, None) for runs in pages]
    files += [default_file(settings, (), suite) for suite in (None, "nightly", "../../etc", "..", "a/b")]
    assert len(set(files)) == len(files)
    for path in files:
        assert path.parent == settings.reports
        assert len(path.name.encode()) < 250 and ":" not in path.name
    assert default_file(settings, ("ab", "r-1"), None).name == "ab..r-1.html"


def test_there_is_no_page_of_what_is_not_computed(loaded):
    with open_reader(loaded.db) as con:
        assert due_pages(store_with(con, load_registry(loaded)), loaded) == []
