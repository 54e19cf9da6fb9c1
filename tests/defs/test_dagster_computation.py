from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import dagster as dg
import pytest

from eval_pipeline.defs.location import build_definitions
from eval_pipeline.defs.partitions import register_runs
from eval_pipeline.defs.tags import ONLY_STALE, RANGE_END, RANGE_START, REASONS
from eval_pipeline.errors import FormulaFailed
from tests.projects import open_reader, open_writer, project_of

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
RUNS = ["r1", "r2", "r3"]
pytestmark = pytest.mark.usefixtures("few_definitions")
TABLES = ("facts.chunk_ranks", "metrics.hit_at_k", "metrics.reciprocal_rank", "aggregates.run_metrics")


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    """Three runs, delivered and loaded, in the order of their days."""
    settings = make_settings(tmp_path_factory.mktemp("loaded"))
    root = settings.db.parent / "bundle"
    deliver_golden(root)
    deliver_run(root, "r1", day=1, hits={"q1": ["a"], "q2": ["b"]})
    deliver_run(root, "r2", day=2, hits={"q1": ["b", "a"], "q2": []})
    deliver_run(root, "r3", day=3, hits={"q1": ["x"], "q2": ["x", "y", "b"]})
    load(settings, root)
    return settings


@pytest.fixture(scope="module")
def computed(loaded, tmp_path_factory, few_definitions):
    """The same runs with their numbers, by the pipeline alone."""
    settings = copied(loaded, tmp_path_factory.mktemp("computed"))
    compute(settings)
    return settings


def execute(settings, instance, first, last, *, assets=None, tags=None, job="nightly_evaluation"):
    definitions = build_definitions(project_of(settings))
    return definitions.resolve_job_def(job).execute_in_process(
        instance=instance,
        tags={RANGE_START: first, RANGE_END: last, **(tags or {})},
        asset_selection=[dg.AssetKey(name.split(".")) for name in assets] if assets else None,
        run_config=QUIET,
        raise_on_error=False,
    )


def rows(settings, table):
    with open_reader(settings.db) as con:
        return con.sql(f"from {table} order by all").fetchall()


def computed_at(settings, definition):
    with open_reader(settings.db) as con:
        return con.execute(
            "select r.run_id, c.computed_at from ledger.cells c join raw.runs r using (run_key) "
            "where c.definition = ? and c.source = '' order by r.run_id",
            [definition],
        ).fetchall()


def materializations(result, name):
    key = dg.AssetKey(name.split("."))
    return {
        event.partition: event.materialization.metadata
        for event in result.all_events
        if event.event_type == dg.DagsterEventType.ASSET_MATERIALIZATION and event.asset_key == key
    }


@pytest.fixture(scope="module")
def done(loaded, tmp_path_factory, few_definitions):
    """One range over three runs, through Dagster."""
    settings = copied(loaded, tmp_path_factory.mktemp("through_dagster"))
    with dg.DagsterInstance.ephemeral() as instance:
        register_runs(instance, RUNS, may_move=True)
        result = execute(settings, instance, "r1", "r3")
        yield SimpleNamespace(settings=settings, instance=instance, result=result)


def test_a_range_gives_the_same_tables_as_the_pipeline_alone(done, computed):
    assert done.result.success
    for table in TABLES:
        assert rows(done.settings, table) == rows(computed, table) != []


def test_every_partition_of_the_range_is_shown_as_materialized(done):
    for name in TABLES:
        key = dg.AssetKey(name.split("."))
        assert done.instance.get_materialized_partitions(key) == set(RUNS)


def test_a_materialization_says_why_and_of_aggregates_how_many_rows(done):
    why = materializations(done.result, "metrics.hit_at_k")["r2"]
    assert {name: one.value for name, one in why.items()} == {"why this partition ran": "not computed before"}
    metadata = materializations(done.result, "aggregates.run_metrics")["r2"]
    assert metadata["why this partition ran"].value == "not computed before"
    assert metadata["rows"].value > 0
    assert metadata["seconds"].value >= 0


def test_the_aggregates_show_each_run_its_own_numbers(done):
    found = materializations(done.result, "aggregates.run_metrics")
    # q1 and q2 are found at ranks (1, 1), (2, none) and (none, 3).
    assert [found[run]["mrr"].value for run in RUNS] == [1.0, 0.25, pytest.approx(1 / 6, abs=1e-4)]
    assert [row.data["n"] for row in found["r1"]["n"].records if row.data["metric"] == "mrr"] == [2]
    assert {found[run]["errors"].value for run in RUNS} == {0}


def test_all_checks_of_a_sound_range_pass(done):
    evaluations = done.result.get_asset_check_evaluations()
    assert {check.check_name for check in evaluations} == {
        "every_row_accounted_for",
        "values_in_range",
        "every_query_scored_or_listed",
        "labels_in_inventory",
        "nothing_in_quarantine",
    }
    assert all(check.passed for check in evaluations)


def test_the_ledger_knows_which_dagster_run_computed_a_cell(done):
    with open_reader(done.settings.db) as con:
        found = con.sql("select distinct dagster_run_id from ledger.cells").fetchall()
    assert found == [(done.result.run_id,)]


def test_a_partition_asked_for_by_hand_is_computed_although_it_is_fresh(done):
    before = dict(computed_at(done.settings, "metrics.hit_at_k"))
    execute(done.settings, done.instance, "r2", "r2", assets=["metrics.hit_at_k"])
    after = dict(computed_at(done.settings, "metrics.hit_at_k"))
    assert after["r2"] > before["r2"]
    assert (after["r1"], after["r3"]) == (before["r1"], before["r3"])


def test_a_range_that_is_told_to_do_only_what_is_stale_leaves_fresh_cells_alone(done):
    before = computed_at(done.settings, "metrics.hit_at_k")
    result = execute(
        done.settings, done.instance, "r1", "r3", assets=["metrics.hit_at_k"], tags={ONLY_STALE: "true"}
    )
    assert computed_at(done.settings, "metrics.hit_at_k") == before
    assert result.success
    assert materializations(result, "metrics.hit_at_k") == {}


def test_the_same_inputs_and_formula_give_the_same_data_version(done):
    def version_after(first, last):
        execute(done.settings, done.instance, first, last, assets=["metrics.hit_at_k"])
        wanted = dg.AssetRecordsFilter(dg.AssetKey(["metrics", "hit_at_k"]), asset_partitions=["r2"])
        (record,) = done.instance.fetch_materializations(wanted, limit=1).records
        return record.asset_materialization.tags["dagster/data_version"]

    assert version_after("r2", "r2") == version_after("r2", "r2") != version_after("r1", "r2")


def test_stale_cells_of_another_reason_than_asked_for_are_left(computed, tmp_path, instance):
    settings = copied(computed, tmp_path)
    change_a_formula(settings)
    register_runs(instance, RUNS, may_move=True)
    before = computed_at(settings, CHANGED)
    tags = {ONLY_STALE: "true", REASONS: "missing,results"}
    execute(settings, instance, "r1", "r3", assets=[CHANGED], tags=tags)
    assert computed_at(settings, CHANGED) == before
    result = execute(settings, instance, "r1", "r3", assets=[CHANGED], tags={ONLY_STALE: "true"})
    assert all(
        after > earlier
        for (_, after), (_, earlier) in zip(computed_at(settings, CHANGED), before, strict=True)
    )
    why = materializations(result, CHANGED)["r1"]["why this partition ran"].value
    assert why == "its formula changed"


def test_one_broken_formula_does_not_keep_its_siblings_from_being_computed(loaded, tmp_path, instance):
    settings = copied(loaded, tmp_path)
    own = tmp_path / "mine" / "metrics"
    own.mkdir(parents=True)
    (own / "a_broken_one.sql").write_text(
        '-- keys: {broken: "Reads a column that is not there"}\n'
        "select run_key, query_key, no_such_column as broken from facts.chunk_ranks\n"
    )
    settings = replace(settings, own_sql=tmp_path / "mine")
    register_runs(instance, RUNS, may_move=True)
    names = ["facts.chunk_ranks", "metrics.a_broken_one", "metrics.hit_at_k"]
    result = execute(settings, instance, "r1", "r3", assets=names)
    assert not result.success
    assert len(rows(settings, "metrics.hit_at_k")) == 6
    assert instance.get_materialized_partitions(dg.AssetKey(["metrics", "hit_at_k"])) == set(RUNS)
    assert not instance.get_materialized_partitions(dg.AssetKey(["metrics", "a_broken_one"]))


def test_a_run_in_the_inbox_is_taken_in_with_its_golden_set(tmp_path, instance):
    settings = make_settings(tmp_path)
    deliver_golden(settings.inbox)
    deliver_run(settings.inbox, "r1")
    register_runs(instance, ["r1"], may_move=True)
    result = execute(settings, instance, "r1", "r1", assets=["raw.results", "raw.extractions"])
    metadata = materializations(result, "raw.results")["r1"]
    assert metadata["taken in from the inbox"].value is True
    assert metadata["rows"].value == 2
    assert materializations(result, "raw.extractions")["r1"]["rows"].value == 0
    golden = instance.fetch_materializations(dg.AssetKey(["sources", "golden_sets"]), limit=5).records
    assert [record.partition_key for record in golden] == ["kb"]


def test_a_run_of_extraction_cases_alone_is_computed_without_a_golden_set(tmp_path, instance):
    settings = make_settings(tmp_path)
    folder = settings.inbox / "bundle" / "runs" / "cases"
    folder.mkdir(parents=True)
    (folder / "extractions.jsonl").write_text('{"case_id": "e1", "ground_truth": {"a": 1}}\n')
    (folder / "run.json").write_text('{"run_id": "cases", "dataset": "forms"}')
    register_runs(instance, ["cases"], may_move=True)
    assert execute(settings, instance, "cases", "cases").success
    assert rows(settings, "raw.extraction_cases") != []
    for name in ("facts.chunk_ranks", "metrics.hit_at_k"):
        assert [run_id for run_id, _ in computed_at(settings, name)] == ["cases"]


def test_rows_that_are_missing_fail_the_check_by_the_name_of_the_run(loaded, tmp_path, instance):
    settings = copied(loaded, tmp_path)
    register_runs(instance, [*RUNS, "r4"], may_move=True)
    with open_writer(settings.db) as con:
        con.execute(
            "delete from raw.results where row_no = 1 and run_key = (select run_key from raw.runs where run_id = 'r2')"
        )
    result = execute(settings, instance, "r1", "r4", assets=["raw.results"])
    checks = {check.check_name: check for check in result.get_asset_check_evaluations()}
    check = checks["every_row_accounted_for"]
    assert not check.passed
    wrong = check.metadata["what is wrong"].value
    assert "`r2`: 2 results were delivered, 1 are stored" in wrong
    assert "`r4`: not in the store" in wrong
    assert "r1" not in wrong


def test_values_outside_of_the_declared_range_and_nan_fail_the_check(computed, tmp_path, instance):
    settings = copied(computed, tmp_path)
    register_runs(instance, RUNS, may_move=True)
    wrong = {"r1": "2", "r3": "'nan'"}
    with open_writer(settings.db) as con:
        for run_id, value in wrong.items():
            con.execute(
                f"update metrics.reciprocal_rank set mrr = {value} "
                "where run_key = (select run_key from raw.runs where run_id = ?)",
                [run_id],
            )
    job = build_definitions(project_of(settings)).resolve_implicit_global_asset_job_def()
    checks = {
        dg.AssetCheckKey(dg.AssetKey(["metrics", name]), "values_in_range")
        for name in ("hit_at_k", "reciprocal_rank")
    }
    result = job.get_subset(asset_check_selection=checks, asset_selection=frozenset()).execute_in_process(
        instance=instance, run_config=QUIET
    )
    found = {check.asset_key.path[1]: check for check in result.get_asset_check_evaluations()}
    assert found["hit_at_k"].passed
    said = found["reciprocal_rank"].metadata["what is wrong"].value
    assert said == "- `r1`: 2 of mrr\n- `r3`: 2 of mrr"


def test_a_golden_query_without_its_row_in_a_metric_fails_the_check(computed, tmp_path, instance):
    settings = copied(computed, tmp_path)
    register_runs(instance, RUNS, may_move=True)
    with open_writer(settings.db) as con:
        con.execute(
            "delete from metrics.hit_at_k where run_key = (select run_key from raw.runs where run_id = 'r3') "
            "and query_key = (select query_key from raw.query_ids where query_id = 'q1')"
        )
    result = execute(
        settings,
        instance,
        "r1",
        "r3",
        assets=["aggregates.run_metrics"],
        tags={ONLY_STALE: "true"},
    )
    checks = {check.check_name: check for check in result.get_asset_check_evaluations()}
    check = checks["every_query_scored_or_listed"]
    assert not check.passed
    assert check.metadata["what is wrong"].value == "- `r3`: metrics.hit_at_k has 1 of 2 queries"


def test_a_formula_that_fails_reaches_the_listener_apart_from_errors(loaded, tmp_path, instance):
    from eval_pipeline.defs.resources import Listener

    settings = copied(loaded, tmp_path)
    own = tmp_path / "mine" / "metrics"
    own.mkdir(parents=True)
    (own / "a_broken_one.sql").write_text(
        '-- keys: {broken: "Reads a column that is not there"}\n'
        "select run_key, query_key, no_such_column as broken from facts.chunk_ranks\n"
    )
    listener = Listener()
    definitions = build_definitions(
        project_of(replace(settings, own_sql=tmp_path / "mine")), listener=listener
    )
    register_runs(instance, RUNS, may_move=True)
    definitions.resolve_job_def("nightly_evaluation").execute_in_process(
        instance=instance,
        tags={RANGE_START: "r1", RANGE_END: "r1"},
        asset_selection=[dg.AssetKey(["metrics", "a_broken_one"])],
        run_config=QUIET,
        raise_on_error=False,
    )
    (error,) = listener.failed
    assert isinstance(error, FormulaFailed)
    assert listener.errors == []
    assert "no_such_column" in str(error)
