"""Computing again, in another order, or only a part: the same numbers to the last byte, and nothing but what is due."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from random import Random

import pytest

from eval_pipeline.computing import derived, states
from eval_pipeline.computing import measure as measure_module
from eval_pipeline.computing.scope import CATALOGUE
from eval_pipeline.errors import EvalPipelineError
from eval_pipeline.formulas.registry import load_registry
from eval_pipeline.planning.status import find_status
from eval_pipeline.showing.show import show_queries, show_run
from eval_pipeline.store.open import transaction
from tests.bundle_files import ask, compute, day, derived_tables, load, settings_in, write_lines
from tests.projects import open_reader, open_writer, project_of
from tests.reference.bundles import random_bundle, write_bundle

PUBLIC = {
    "aggregate_json": "select run_id, aggregate_json from runs order by all",
    "per query": "select run_id, query_id, metric, value from per_query_metrics order by all",
    "aggregates": "select run_id, slice, slice_value, metric, value, n from run_metrics order by all",
}
SOME = (
    "metrics.hit_at_k",
    "metrics.reciprocal_rank",
    "metrics.answer_strings",
    "metrics.empty_results",
    "aggregates.run_metrics",
)


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    return few(load_registry(settings_in(tmp_path_factory.mktemp("shipped"))))


def few(registry):
    """A registry of a few formulas, in SQL and in Python, and what they are computed from: computing stays quick."""
    wanted = set()
    waiting = list(SOME)
    while waiting:
        name = waiting.pop()
        if name in registry.definitions and name not in wanted:
            wanted.add(name)
            waiting += registry.definitions[name].reads
    return replace(registry, definitions={one.name: one for one in registry if one.name in wanted})


@pytest.fixture(scope="module")
def bundle():
    return random_bundle(4, queries=8, runs=4)


@pytest.fixture(scope="module")
def computed(bundle, registry, tmp_path_factory):
    folder = tmp_path_factory.mktemp("computed")
    write_bundle(bundle, folder / "bundle")
    settings = settings_in(folder)
    report = load(settings, folder / "bundle")
    assert (report.rejected, report.quarantined) == ([], 0)
    compute(settings, registry)
    return settings


@pytest.fixture
def settings(computed, tmp_path):
    """A copy of the computed store, to be changed."""
    shutil.copytree(computed.db.parent, tmp_path, dirs_exist_ok=True)
    return settings_in(tmp_path)


def public(settings):
    return {name: ask(settings, sql) for name, sql in PUBLIC.items()}


def cells(settings):
    return ask(
        settings,
        "select definition, source, run_key, results_hash, labels_hash, computed_at from ledger.cells order by all",
    )


def test_per_query_lines_come_in_golden_order(bundle, computed, registry):
    for run_id in bundle.runs:
        parts = bundle.runs[run_id]
        have_result = {row["query_id"] for row in parts["results"]}
        in_order = [row.get("query_id") or row["id"] for row in bundle.datasets[parts["run"]["dataset"]]]
        shown = [line["query_id"] for line in show_queries(project_of(computed, registry), run_id)]
        assert shown == [query_id for query_id in in_order if query_id in have_result]


def test_nothing_is_due_right_after_computing(settings, registry):
    before = derived_tables(settings), cells(settings)
    assert compute(settings, registry, on=3, reasons=None).cells == {}
    assert (derived_tables(settings), cells(settings)) == before


def test_computing_everything_again_gives_every_table_byte_for_byte(settings, registry):
    tables, documents = derived_tables(settings), public(settings)
    done = compute(settings, registry, on=3, force=True)
    assert sum(done.cells.values()) == len(cells(settings))
    assert derived_tables(settings) == tables
    assert public(settings) == documents


def test_computing_one_run_again_touches_no_other(settings, registry, bundle):
    before, tables = cells(settings), derived_tables(settings)
    (run_key,) = ask(settings, "select run_key from raw.runs where run_id = ?", list(bundle.runs)[1])
    done = compute(settings, registry, on=5, force=True, run_ids={list(bundle.runs)[1]})
    assert done.runs == {list(bundle.runs)[1]}
    after = cells(settings)
    assert {row[2] for row in set(after) - set(before)} == set(run_key)
    assert {row[5] for row in set(after) - set(before)} == {day(5)}
    assert derived_tables(settings) == tables


@pytest.mark.slow
def test_neither_the_order_of_rows_nor_of_loading_nor_of_computing_matters(
    bundle, computed, registry, tmp_path
):
    """Rows and golden rows reversed, runs loaded one by one from the last to the first, computed run by run."""
    write_bundle(bundle, tmp_path / "bundle")
    settings = settings_in(tmp_path)
    for run_id, parts in bundle.runs.items():
        for path in (tmp_path / "bundle" / "runs" / run_id).glob("results*"):
            path.unlink()
        rows = list(parts["results"])
        Random(run_id).shuffle(rows)
        write_lines(tmp_path / "bundle" / "runs" / run_id / "results.jsonl", rows)
    for run_id in reversed(bundle.runs):
        load(settings, tmp_path / "bundle" / "runs" / run_id)
    for folder in sorted((tmp_path / "bundle" / "datasets").iterdir(), reverse=True):
        load(settings, folder)
    for folder in ("datasets", "runs"):
        shutil.rmtree(tmp_path / "bundle" / folder)
    if (tmp_path / "bundle" / "inventories").is_dir():
        load(settings, tmp_path / "bundle")
    for run_id in reversed(bundle.runs):
        compute(settings, registry, run_ids={run_id})
    assert public(settings) == public(computed)


def changed_line(settings, run_id):
    """Deliver a run again with its first result without hits."""
    folder = settings.db.parent / "bundle" / "runs" / run_id
    for path in folder.glob("results*"):
        path.unlink()
    (query_id,) = ask(
        settings,
        "select query_id from queries where dataset = (select dataset from runs where run_id = ?) limit 1",
        run_id,
    )[0]
    write_lines(folder / "results.jsonl", [{"query_id": query_id, "hits_top_k": []}])
    assert load(settings, settings.db.parent / "bundle", on=6).runs == [run_id]


def test_a_run_delivered_again_is_due_by_default_and_no_other_run_is(settings, registry, bundle):
    run_id = next(iter(bundle.runs))
    changed_line(settings, run_id)
    done = compute(settings, registry, on=7)
    assert done.runs == {run_id}
    assert {reason for runs in done.reasons.values() for reason in runs.values()} == {"results"}
    assert compute(settings, registry, on=8, reasons=None).cells == {}


class Interrupted(Exception):
    """What comes in between."""


def interrupt(done, total):
    raise Interrupted


@pytest.mark.slow
def test_interrupted_after_every_step_computing_ends_with_the_same_documents(
    settings, registry, bundle, tmp_path_factory
):
    changed_line(settings, next(iter(bundle.runs)))
    undisturbed = settings_in(tmp_path_factory.mktemp("undisturbed"))
    shutil.copytree(settings.db.parent, undisturbed.db.parent, dirs_exist_ok=True)
    before = public(settings)
    compute(undisturbed, registry, on=7)
    is_done = False
    while not is_done:
        try:
            compute(settings, registry, on=7, progress=interrupt)
            is_done = True
        except Interrupted:
            pass
    assert public(settings)["aggregate_json"] != before["aggregate_json"]
    assert public(settings) == public(undisturbed)


def test_a_table_that_somebody_else_has_altered_is_put_right_by_the_next_computation(settings, registry):
    tables, before = derived_tables(settings), public(settings)
    with open_writer(settings.db) as con:
        con.execute('alter table metrics.hit_at_k drop column "hit@1"')
        con.execute("alter table metrics.reciprocal_rank alter column mrr type varchar")
        con.execute("drop table facts.outcomes")
    compute(settings, registry, on=5, force=True)
    unchanged = tables.keys() - {"metrics.hit_at_k"}
    assert {name: derived_tables(settings)[name] for name in unchanged} == {
        name: tables[name] for name in unchanged
    }
    assert public(settings) == before


def test_a_changed_formula_is_due_only_when_asked_for(settings, registry):
    settings.config.write_text("[formulas.reciprocal_rank]\ncutoff = 2\n")
    changed = few(load_registry(settings))
    assert compute(settings, changed, on=5).cells == {}
    done = compute(settings, changed, on=6, reasons=None)
    assert set(done.cells) == {"metrics.reciprocal_rank", "aggregates.run_metrics"}
    assert compute(settings, changed, on=7, reasons=None).cells == {}
    settings.config.unlink()


def test_taking_a_change_back_gives_the_first_numbers_again(settings, registry):
    before = public(settings)
    settings.config.write_text("[formulas.reciprocal_rank]\ncutoff = 1\n[formulas.hit_at_k]\nks = [1, 2]\n")
    compute(settings, few(load_registry(settings)), on=5, reasons=None)
    assert public(settings) != before
    settings.config.unlink()
    compute(settings, registry, on=6, reasons=None)
    assert public(settings) == before


def test_a_corrected_label_is_due_only_when_asked_for_and_only_for_its_dataset(settings, registry, bundle):
    dataset = bundle.runs[next(iter(bundle.runs))]["run"]["dataset"]
    of_dataset = {run_id for run_id, parts in bundle.runs.items() if parts["run"]["dataset"] == dataset}
    folder = settings.db.parent / "bundle" / "datasets" / dataset
    for path in folder.glob("queries.*"):
        path.unlink()
    rows = [{**row, "difficulty": "impossible"} for row in bundle.datasets[dataset]]
    write_lines(folder / "queries.jsonl", rows)
    assert load(settings, folder, on=6).golden_sets == [dataset]
    assert compute(settings, registry, on=7).cells == {}
    done = compute(settings, registry, on=8, reasons=None)
    assert (set(done.cells), done.runs) == ({"aggregates.run_metrics"}, of_dataset)


def test_the_status_counts_every_cell_once_and_says_why_it_is_stale(settings, registry, bundle):
    n_runs = len(bundle.runs)
    fresh = find_status(project_of(settings, registry))
    *tables, pairs = fresh["assets"]
    assert fresh["cells"] == {
        "fresh": n_runs * len(tables),
        "stale": 0,
        "missing": pairs["missing"],
        "pinned": 0,
        "frozen": 0,
    }
    assert [asset["name"] for asset in tables] == list(registry.definitions)
    assert pairs["name"] == "comparisons.pairs"
    changed_line(settings, next(iter(bundle.runs)))
    status = find_status(project_of(settings, registry))
    assert (status["format"], status["runs"], status["waiting"]) == (1, n_runs, [])
    *tables, pairs = status["assets"]
    assert sum(status["cells"].values()) == n_runs * len(tables) + pairs["missing"]
    for asset in tables:
        assert list(asset) == [
            "name",
            "version",
            "fingerprint",
            "fresh",
            "stale",
            "missing",
            "pinned",
            "frozen",
            "reasons",
        ]
        assert asset["fingerprint"] == registry.definitions[asset["name"]].fingerprint
        assert sum(asset["reasons"].values()) == asset["stale"]
        assert asset["fresh"] + asset["stale"] == n_runs
        assert set(asset["reasons"]) <= {"results"}
    assert status["cells"]["stale"] > 5


def test_a_run_without_a_golden_set_is_listed_as_waiting_for_one_and_is_due_like_any(
    settings, registry, bundle
):
    folder = settings.db.parent / "bundle" / "runs" / "waiting-1"
    write_lines(folder / "results.jsonl", [{"query_id": "q"}])
    (folder / "run.json").write_text(json.dumps({"run_id": "waiting-1", "dataset": "not-there-yet"}))
    load(settings, folder, on=6)
    status = find_status(project_of(settings, registry))
    assert status["waiting"] == ["waiting-1"]
    assert status["runs"] == len(bundle.runs) + 1
    assert {asset["missing"] for asset in status["assets"][:-1]} == {1}
    shown = show_run(project_of(settings, registry), "waiting-1")
    assert (shown["total_queries"], shown["unknown_query_ids"]) == (1, [])
    assert {entry["n"] for entry in shown["metrics"].values()} == {0}


def test_a_cells_row_says_when_and_from_what_it_was_made(settings):
    with open_reader(settings.db) as con:
        rows = con.execute(
            "select count(*), count(distinct (definition, source, run_key)), min(computed_at), max(computed_at), "
            "count(*) filter (where seconds < 0 or fingerprint not like 'fp1:%' or results_hash = '') from ledger.cells"
        ).fetchall()
    ((n_rows, n_cells, first, last, wrong),) = rows
    assert (n_rows, first, last, wrong) == (n_cells, day(2), day(2), 0)


def test_a_question_asked_between_computing_and_recording_changes_nothing_that_is_recorded(
    settings, registry, monkeypatch
):
    def compute_and_ask(con, store, *given, **options):
        rows = derived.compute(con, store, *given, **options)
        con.execute(f'use "{store}"')
        states.find_states(con, [])
        con.execute(f"use {CATALOGUE}")
        return rows

    before = cells(settings)
    monkeypatch.setattr(measure_module, "compute", compute_and_ask)
    compute(settings, registry, force=True)
    assert cells(settings) == before


def test_what_nobody_has_asked_the_state_of_is_not_recorded_in_silence(settings, registry):
    spec = next(one for one in states.cell_specs(registry) if one.definition == "metrics.hit_at_k")
    before = cells(settings)
    with (
        open_writer(settings.db) as con,
        pytest.raises(EvalPipelineError, match=r"metrics\.hit_at_k: 1 cells .* states of 0"),
        transaction(con),
    ):
        ((store,),) = con.execute("select current_database()").fetchall()
        none = states.find_states(con, [])
        cell = states.Cell(run_key=1, n_rows=1, seconds=0.0, reason="results")
        none.record(store, spec, [cell], now=day(9), dagster_run_id=None, note=None)
    assert cells(settings) == before
