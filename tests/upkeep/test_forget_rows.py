"""Forgetting a run or a dataset: nothing of it is left, nothing of anybody else goes, and it does not come back."""

from __future__ import annotations

import pytest

from eval_pipeline.comparing.pairs import find_pairs, store_comparisons
from eval_pipeline.errors import UnknownName, UsageError
from eval_pipeline.formulas.registry import load_registry
from eval_pipeline.store.kept import kept_folder
from eval_pipeline.store.key_columns import columns_with_key, stored_columns
from eval_pipeline.upkeep.forget import Request, find_request, forget, lift_tombstones
from tests.bundle_files import (
    ask,
    compute,
    day,
    derived_tables,
    hits,
    load,
    settings_in,
    write_golden,
    write_run,
)
from tests.projects import open_reader, project_of, store_with
from tests.upkeep.forgettable import SECRET, TWO_FORMULAS, own_copy, places_with, write_told


def forget_it(settings, name, *, kind="run", on=3, **options):
    text = options.pop("text", False)
    history = options.pop("history", False)
    return forget(project_of(settings, now=day(on)), Request(kind, name, text, history), **options)


@pytest.fixture(scope="module")
def without_told(computed_once, tmp_path_factory):
    folder = tmp_path_factory.mktemp("told")
    forget_it(own_copy(computed_once, folder)[0], "told")
    return folder


@pytest.fixture(scope="module")
def without_kb(computed_once, tmp_path_factory):
    """The store, and the report."""
    folder = tmp_path_factory.mktemp("kb")
    return folder, forget_it(own_copy(computed_once, folder)[0], "kb", kind="dataset")


@pytest.fixture
def told_forgotten(without_told, tmp_path):
    """`told` was forgotten on day 3; and its bundle."""
    return own_copy(without_told, tmp_path)


@pytest.fixture
def kb_forgotten(without_kb, tmp_path):
    """The dataset was forgotten on day 3; and its bundle."""
    return own_copy(without_kb[0], tmp_path)


def run_rows(settings, run_key):
    """Tables that still refer to a run, besides what says that it was there."""
    with open_reader(settings.db) as con:
        return {
            column.plain_table
            for column in columns_with_key(stored_columns(con), "run")
            if con.execute(
                f'select count(*) from {column.full_table} where "{column.name}" = ?', [run_key]
            ).fetchall()[0][0]
        }


def test_the_secret_is_readable_everywhere_before_it_is_forgotten(secrets):
    settings, _ = secrets
    found = places_with(settings)
    assert "raw.texts.text" in found and "raw.extraction_cases.ground_truth" in found
    assert "ledger.quarantine.text" in found and "raw.chunk_ids.chunk_id" in found
    assert any(place.startswith("e.duckdb.deliveries") for place in found)


def test_of_a_forgotten_dataset_no_byte_is_left(kb_forgotten, without_kb):
    settings, _ = kb_forgotten
    assert places_with(settings) == []
    assert without_kb[1].runs == ["told", "kept"]
    for table in ("raw.runs", "raw.results", "raw.hits", "labels.queries", "raw.archives", "raw.datasets"):
        assert ask(settings, f"select count(*) from {table}") == [(0,)], table
    for table in ("raw.query_ids", "raw.chunk_ids", "raw.doc_ids", "raw.case_ids", "raw.texts"):
        assert ask(settings, f"select count(*) from {table}") == [(0,)], table
    assert not list(kept_folder(settings.db).rglob("*.zst"))


def test_a_forgotten_run_leaves_no_row_and_no_id_that_only_it_used(told_forgotten, computed_once):
    settings, _ = told_forgotten
    (run_key,) = ask(settings_in(computed_once), "select run_key from raw.runs where run_id = 'told'")[0]
    assert run_rows(settings, run_key) == {"ledger.tombstones"}
    assert ask(settings, "from raw.query_ids where contains(query_id, ?)", SECRET) == []
    assert ask(settings, "select chunk_id from raw.chunk_ids order by all") == [("d1/1",), ("d2/1",)]
    assert ask(settings, "from raw.case_ids") == []


def test_what_others_share_stays_and_their_numbers_do_not_move(told_forgotten, computed_once):
    settings, _ = told_forgotten
    (kept_key,) = ask(settings, "select run_key from raw.runs where run_id = 'kept'")[0]
    before = {
        table: [row for row in rows if row[0] == kept_key]
        for table, rows in derived_tables(settings_in(computed_once)).items()
    }
    assert derived_tables(settings) == before
    assert ask(settings, "select text from hits") == [("a passage that both runs retrieved",)]
    assert ask(settings, "select count(*) from queries") == [(2,)]
    assert ask(settings, "select count(*) from raw.archive_chunks") == [(1,)]
    done = compute(settings, on=4)
    assert done.cells == {}


def test_forgetting_does_not_bring_anything_back_with_the_next_delivery(told_forgotten):
    settings, bundle = told_forgotten
    report = load(settings, bundle, on=4)
    assert report.forgotten == ["told"] and report.runs == []
    assert ask(settings, "select run_id from runs") == [("kept",)]
    assert not [path for path in kept_folder(settings.db).rglob("*") if path.name == "told"]


def test_a_forgotten_dataset_keeps_out_its_golden_set_its_archives_and_its_runs(kb_forgotten):
    settings, bundle = kb_forgotten
    write_run(bundle, "new", [{"query_id": "q1"}])
    report = load(settings, bundle, on=4)
    assert sorted(report.forgotten) == ["kb", "kept", "new", "told"]
    assert places_with(settings) == []


def test_a_store_that_was_deleted_and_loaded_anew_still_knows_what_was_forgotten(told_forgotten):
    settings, bundle = told_forgotten
    settings.db.unlink()
    assert load(settings, bundle, on=4).forgotten == ["told"]
    assert load(settings, bundle, on=5).forgotten == ["told"]
    assert ask(settings, "select name from ledger.tombstones") == [("told",)]


def test_lifted_it_comes_back_with_a_delivery_and_counts_as_it_did(told_forgotten, computed_once):
    settings, bundle = told_forgotten
    before = derived_tables(settings_in(computed_once))
    (old_key,) = ask(settings_in(computed_once), "select run_key from raw.runs where run_id = 'told'")[0]
    assert lift_tombstones(project_of(settings, now=day(4)), "told", kind=None) == ["told"]
    assert load(settings, bundle, on=5).runs == ["told"]
    compute(settings, on=6)
    (new_key,) = ask(settings, "select run_key from raw.runs where run_id = 'told'")[0]
    assert new_key != old_key
    values = "select metric, slice, slice_value, value, n from run_metrics where run_id = 'told' order by all"
    after = ask(settings, values)
    expected = sorted(
        (row[2], row[3], row[4], row[5], row[6])
        for row in before["aggregates.run_metrics"]
        if row[0] == old_key
    )
    assert sorted(after) == expected


def test_lifting_a_dataset_lifts_the_runs_that_went_with_it(kb_forgotten):
    settings, bundle = kb_forgotten
    assert lift_tombstones(project_of(settings, now=day(4)), "kb", kind=None) == ["kb", "kept", "told"]
    report = load(settings, bundle, on=5)
    assert report.forgotten == [] and report.golden_sets == ["kb"] and sorted(report.runs) == ["kept", "told"]


def test_the_name_of_what_was_never_forgotten_cannot_be_lifted(secrets_in_part):
    with pytest.raises(UnknownName, match="kept"):
        lift_tombstones(project_of(secrets_in_part[0], now=day(4)), "kept", kind=None)


def test_replaced_values_stay_as_numbers_unless_the_history_goes_too(secrets_in_part):
    settings, bundle = secrets_in_part
    write_golden(bundle, [{"query_id": "q1", "expected_chunk_ids": ["zz"], "tags": [SECRET]}])
    load(settings, bundle, on=3)
    compute(settings, on=4, reasons=None, definitions=TWO_FORMULAS)
    asked = "select value, n from formula_history where run_id = 'told' and metric = 'hit@1' and valid_to is not null"
    before = ask(settings, asked)
    assert before
    forget_it(settings, "told", on=5)
    assert ask(settings, asked) == before
    assert ask(
        settings, "select count(*) from formula_history where run_id = 'told' and valid_to is null"
    ) == [(0,)]
    forget_it(settings, "kb", kind="dataset", on=6, history=True)
    assert ask(settings, "select count(*) from ledger.aggregate_history where run_key <> 1") == [(0,)]


def test_a_dry_run_counts_and_changes_nothing(secrets):
    settings, _ = secrets
    size = settings.db.stat().st_size
    before = (derived_tables(settings), places_with(settings))
    would = forget_it(settings, "told", dry_run=True)
    assert (derived_tables(settings), places_with(settings)) == before
    assert ask(settings, "from ledger.tombstones") == []
    assert settings.db.stat().st_size == size
    done = forget_it(settings, "told")
    assert (would.removed, would.kept, would.runs) == (done.removed, done.kept, done.runs)
    assert done.removed.rows["raw.results"] == 3


def test_a_key_of_a_forgotten_run_is_not_given_to_another(secrets_in_part):
    settings, bundle = secrets_in_part
    (last,) = ask(settings, "select max(run_key) from raw.runs")[0]
    (name,) = ask(settings, "select run_id from raw.runs where run_key = ?", last)[0]
    forget_it(settings, name)
    write_run(bundle, "newest", [{"query_id": "q1", "hits_top_k": hits("d1/1")}])
    load(settings, bundle, on=4)
    assert ask(settings, "select run_key > ? from raw.runs where run_id = 'newest'", last) == [(True,)]


def test_every_delivery_of_a_run_is_purged_and_that_it_was_delivered_stays_known(secrets_in_part):
    settings, bundle = secrets_in_part
    write_run(bundle, "told", [{"query_id": "q1", "answer": {"text": f"second {SECRET}"}}])
    load(settings, bundle, on=2)
    deliveries = "select part, content_hash from deliveries where run_id = 'told' order by all"
    before = ask(settings, deliveries)
    forget_it(settings, "told")
    assert ask(settings, deliveries) == before
    assert ask(
        settings, "select count(*) from deliveries where run_id = 'told' and superseded_at is null"
    ) == [(0,)]
    assert not list(kept_folder(settings.db).rglob("told"))


def test_a_run_that_was_only_rejected_can_be_forgotten(tmp_path):
    settings = settings_in(tmp_path)
    bundle = tmp_path / "bundle"
    write_golden(bundle, [{"query_id": "q"}])
    row = {"query_id": "q", "answer": {"text": SECRET}}
    write_run(bundle, "twice", [row, row])
    load(settings, bundle)
    assert places_with(settings)
    request = find_request(project_of(settings), "twice", kind=None, text=False, history=False)
    forget(project_of(settings, now=day(3)), request)
    assert places_with(settings) == []
    assert load(settings, bundle, on=4).forgotten == ["twice"]


def test_an_unknown_name_and_one_that_means_two_things_are_refused(secrets_in_part):
    settings, bundle = secrets_in_part
    with pytest.raises(UnknownName, match="told"):
        find_request(project_of(settings), "tolt", kind=None, text=False, history=False)
    write_told(bundle, run_id="kb")
    load(settings, bundle, on=3)
    with pytest.raises(UsageError, match="--kind"):
        find_request(project_of(settings), "kb", kind=None, text=False, history=False)
    assert find_request(project_of(settings), "kb", kind="run", text=False, history=False).kind == "run"


def test_forgetting_twice_finds_nothing_the_second_time(told_forgotten):
    settings, _ = told_forgotten
    again = forget_it(settings, "told", on=4)
    assert not again.has_done_something and again.compacted is None
    assert ask(settings, "select count(*) from ledger.tombstones") == [(1,)]


def test_a_comparison_goes_with_either_of_its_runs(secrets):
    settings, _ = secrets
    registry = load_registry(settings)
    with open_reader(settings.db) as con:
        pairs = [(one.run_a, one.run_b) for one in find_pairs(store_with(con, registry))]
    store_comparisons(project_of(settings, registry, now=day(3)), pairs)
    tables = ("comparisons.pairs", "comparisons.queries", "comparisons.deltas")
    assert all(ask(settings, f"select count(*) > 0 from {table}") == [(True,)] for table in tables)
    forget_it(settings, "told", on=4)
    assert all(ask(settings, f"select count(*) from {table}") == [(0,)] for table in tables)
