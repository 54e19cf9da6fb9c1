"""Forgetting only texts: no word is left, every number stays, and what read the texts is frozen from then on."""

from __future__ import annotations

import pytest

from eval_pipeline.comparing.compare import compare
from eval_pipeline.comparing.pairs import find_pairs, store_comparisons
from eval_pipeline.errors import RefusedError
from eval_pipeline.formulas.registry import load_registry
from eval_pipeline.planning.explain import explain_movement
from eval_pipeline.planning.plan import find_plan
from eval_pipeline.planning.preview import find_preview
from eval_pipeline.planning.status import find_status
from eval_pipeline.showing.document import compute_aggregate
from eval_pipeline.showing.show import show_run
from eval_pipeline.upkeep.forget import Request, forget, lift_tombstones
from tests.bundle_files import ask, compute, day, derived_tables, load, settings_in, write_golden
from tests.projects import open_reader, project_of, store_with
from tests.upkeep.forgettable import SECRET, TWO_FORMULAS, own_copy, places_with, write_told

OF_TEXTS = {"answer_strings", "citation_coverage", "extraction", "anchor_any", "attribution"}
NOT_OF_TEXTS = {"hit_at_k", "reciprocal_rank", "recall_at_k_doc", "failures", "empty_results", "latency"}


def forget_texts(settings, name, *, kind="run", on=3):
    return forget(project_of(settings, now=day(on)), Request(kind, name, text=True))


@pytest.fixture(scope="module")
def of_told(computed_once, tmp_path_factory):
    return without_texts(computed_once, tmp_path_factory.mktemp("told"), "told")


@pytest.fixture(scope="module")
def of_kb(computed_once, tmp_path_factory):
    return without_texts(computed_once, tmp_path_factory.mktemp("kb"), "kb", kind="dataset")


def without_texts(computed_once, folder, name, **request):
    """A store whose texts are forgotten, and the report: made once, copied for every test."""
    settings, _ = own_copy(computed_once, folder)
    return folder, forget_texts(settings, name, **request)


@pytest.fixture
def told_forgotten(of_told, tmp_path):
    """The texts of `told` were forgotten on day 3; and its bundle."""
    return own_copy(of_told[0], tmp_path)


@pytest.fixture
def kb_forgotten(of_kb, tmp_path):
    """The texts of the dataset were forgotten on day 3; and its bundle."""
    return own_copy(of_kb[0], tmp_path)


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    return load_registry(settings_in(tmp_path_factory.mktemp("no-configuration")))


def other_meaning(settings, **parameters):
    """A formula with another parameter, as eval-pipeline.toml gives it."""
    lines = [f"[formulas.{name}]\n{key} = {value}\n" for name, (key, value) in parameters.items()]
    settings.config.write_text("".join(lines), "utf-8")
    return load_registry(settings)


def run_values(settings, run_id):
    return ask(
        settings,
        "select metric, slice, slice_value, value, n from run_metrics where run_id = ? order by all",
        run_id,
    )


def test_of_forgotten_texts_no_word_is_left_and_every_number_stays(kb_forgotten, of_kb, computed_once):
    settings, _ = kb_forgotten
    report = of_kb[1]
    # The id of a query that was delivered with a secret in it is an id, and stays with its row.
    assert places_with(settings) == [
        "e.duckdb",
        "e.duckdb.deliveries/d0000001.20260902T000000.000000/runs/told/results.jsonl.zst",
        "raw.query_ids.query_id",
    ]
    assert derived_tables(settings) == derived_tables(settings_in(computed_once))
    assert report.removed.emptied["raw.results.answer_text_key"] == 2
    assert ask(settings, "select count(*) from raw.texts") == [(0,)]


def test_an_id_is_forgotten_when_it_is_no_id_of_anything_but_a_citation(told_forgotten):
    settings, _ = told_forgotten
    cited = ask(
        settings,
        "select i.chunk_id from raw.citations left join raw.chunk_ids i using (chunk_key) order by all",
    )
    assert cited == [("d1/1",), (None,)]


def test_an_error_stays_an_error_without_its_words(told_forgotten, registry):
    settings, _ = told_forgotten
    assert ask(settings, "select error from raw.results where error is not null") == [("(forgotten)",)]
    assert show_run(project_of(settings, registry), "told")["failed_queries"] == 1


def test_what_reads_the_texts_is_frozen_and_nothing_else(told_forgotten, of_told, registry):
    settings, _ = told_forgotten
    frozen = {name.split(".", 1)[1] for name in of_told[1].frozen if name.startswith("metrics.")}
    assert frozen >= OF_TEXTS and not frozen & NOT_OF_TEXTS
    status = find_status(project_of(settings, registry))
    by_name = {asset["name"]: asset for asset in status["assets"]}
    assert by_name["metrics.answer_strings"]["frozen"] == 1
    assert by_name["metrics.answer_strings"]["fresh"] == 1
    assert by_name["metrics.hit_at_k"]["frozen"] == 0
    assert status["frozen_runs"] == ["told"]
    marked = show_run(project_of(settings, registry), "told")["formulas"]
    assert marked["answer_strings"]["frozen"] is True and "frozen" not in marked["hit_at_k"]
    assert "frozen" not in show_run(project_of(settings, registry), "kept")["formulas"]["answer_strings"]


def test_a_table_is_not_frozen_where_there_was_no_text_to_forget(secrets):
    settings, _ = secrets
    report = forget_texts(settings, "kept")
    assert "metrics.extraction" not in report.frozen
    assert "metrics.answer_strings" in report.frozen


def test_frozen_cells_are_never_computed_again_and_the_others_are(told_forgotten):
    settings, _ = told_forgotten
    before = run_values(settings, "told")
    registry = other_meaning(
        settings,
        answer_strings=("unlabelled_groundedness", '"include"'),
        reciprocal_rank=("retrieval_error", '"exclude"'),
    )
    plan = find_plan(project_of(settings, registry))
    cells = {asset["name"]: asset["cells"] for asset in plan["assets"]}
    assert cells["metrics.answer_strings"] == 1 and cells["metrics.reciprocal_rank"] == 2
    assert any("frozen" in warning and "told" in warning for warning in plan["warnings"])
    compute(settings, registry, on=4, reasons=None)
    compute(settings, registry, on=5, force=True, definitions={"metrics.answer_strings"})
    after = run_values(settings, "told")
    moved = {metric for metric, *_ in set(before) ^ set(after)}
    assert moved == {"mrr"}
    assert {asset["name"] for asset in find_plan(project_of(settings, registry))["assets"]} <= {
        "comparisons.pairs"
    }


def test_a_formula_that_is_new_has_no_value_where_its_texts_are_gone(told_forgotten):
    settings, _ = told_forgotten
    settings.config.write_text('[formulas.loosely]\nreading_of = "answer_strings"\n', "utf-8")
    registry = load_registry(settings)
    compute(settings, registry, on=4)
    runs = ask(settings, "select run_id from run_metrics where metric = 'loosely' and slice = ''")
    assert runs == [("kept",)]
    status = find_status(project_of(settings, registry))["assets"]
    assert [one["missing"] for one in status if one["name"] == "metrics.loosely"] == [0]


def test_a_preview_computes_nothing_from_forgotten_texts(told_forgotten):
    settings, _ = told_forgotten
    registry = other_meaning(settings, answer_strings=("unlabelled_groundedness", '"include"'))
    preview = find_preview(project_of(settings, registry))["preview"]
    assert set(preview["groundedness"]["runs"]) == {"kept"}


def test_to_explain_a_frozen_number_is_refused_with_the_reason(told_forgotten, computed_once, registry):
    settings, _ = told_forgotten
    explain_movement(project_of(settings_in(computed_once), registry), "groundedness", ("told", "kept"))
    with pytest.raises(RefusedError, match=r"groundedness of told is frozen.*answer_text_key"):
        explain_movement(project_of(settings, registry), "groundedness", ("told", "kept"))
    assert explain_movement(project_of(settings, registry), "mrr", ("told", "kept"))["metric"] == "mrr"


def test_two_runs_can_still_be_compared_and_summed_up(kb_forgotten, computed_once, registry):
    settings, _ = kb_forgotten
    before = compare(project_of(settings_in(computed_once), registry), "told", "kept")
    summary = compute_aggregate(project_of(settings_in(computed_once), registry), "told")
    after = compare(project_of(settings, registry), "told", "kept")
    assert after["aggregate_a"] == before["aggregate_a"] and after["deltas"] == before["deltas"]
    assert compute_aggregate(project_of(settings, registry), "told") == summary


def pairs(settings, registry):
    with open_reader(settings.db) as con:
        return {(one.run_a, one.run_b): one.reason for one in find_pairs(store_with(con, registry))}


def test_a_stored_comparison_stays_as_fresh_as_the_frozen_numbers_it_rests_on(secrets, registry):
    settings, _ = secrets
    store_comparisons(project_of(settings, registry, now=day(3)), list(pairs(settings, registry)))
    assert set(pairs(settings, registry).values()) == {None}
    forget_texts(settings, "kb", kind="dataset")
    assert set(pairs(settings, registry).values()) == {None}
    registry = other_meaning(settings, answer_strings=("unlabelled_groundedness", '"include"'))
    compute(settings, registry, on=4, reasons=None)
    assert set(pairs(settings, registry).values()) == {None}


def test_a_change_of_labels_leaves_the_frozen_number_and_moves_the_other(told_forgotten, registry):
    settings, bundle = told_forgotten
    before = {row[0]: row[3] for row in run_values(settings, "told") if row[1] == ""}
    write_golden(
        bundle, [{"query_id": "q1", "expected_chunk_ids": ["zz"], "must_contain": ["nobody says this"]}]
    )
    load(settings, bundle, on=4)
    compute(settings, registry, on=5, reasons=None, definitions=TWO_FORMULAS)
    after = {row[0]: row[3] for row in run_values(settings, "told") if row[1] == ""}
    assert before["groundedness"] == after["groundedness"] == 1.0
    assert before["hit@1"] > after["hit@1"] == 0.0


def test_a_delivery_does_not_bring_the_texts_back_until_the_tombstone_is_lifted(
    told_forgotten, computed_once, registry
):
    settings, bundle = told_forgotten
    before = run_values(settings_in(computed_once), "told")
    assert load(settings, bundle, on=4).forgotten == ["told"]
    lift_tombstones(project_of(settings, now=day(5)), "told", kind=None)
    report = load(settings, bundle, on=6)
    assert report.runs == ["told"]
    assert "raw.texts.text" in places_with(settings)
    assert find_status(project_of(settings, registry))["cells"]["frozen"] == 0
    compute(settings, registry, on=7)
    assert run_values(settings, "told") == before


def test_lifted_texts_of_a_dataset_come_back_with_its_golden_set(kb_forgotten, registry):
    settings, bundle = kb_forgotten
    lift_tombstones(project_of(settings, now=day(4)), "kb", kind=None)
    report = load(settings, bundle, on=5)
    assert (
        report.golden_sets == ["kb"]
        and report.archives == ["kb/v1"]
        and sorted(report.runs) == ["kept", "told"]
    )
    assert find_status(project_of(settings, registry))["cells"]["frozen"] == 0
    assert ask(settings, "select query from queries where query_id = 'q1'") == [(f"who is {SECRET}?",)]


def test_rows_can_be_forgotten_after_the_texts(told_forgotten, registry):
    settings, _ = told_forgotten
    forget(project_of(settings, registry, now=day(4)), Request("run", "told"))
    assert ask(settings, "select run_id from runs") == [("kept",)]
    assert ask(settings, "select count(*) from ledger.forgotten_texts where owner = 'run_key'") == [(0,)]


def test_the_configuration_stays_known_and_its_texts_go(told_forgotten):
    settings, _ = told_forgotten
    ((document,),) = ask(settings, "select document from raw.runs where run_id = 'told'")
    assert '"chunker_version": "v1"' in document and '"seed": 3' in document
    assert '"prompt": "(forgotten) told"' in document


def test_kept_deliveries_hold_the_numbers_and_none_of_the_words(told_forgotten, tmp_path):
    """Loaded elsewhere, the emptied files give the ranks and errors that they gave before."""
    settings, _ = told_forgotten
    elsewhere = settings_in(tmp_path / "elsewhere")
    for stamp in sorted((tmp_path / "e.duckdb.deliveries").iterdir()):
        if stamp.is_dir():
            load(elsewhere, stamp)
    asked = "select query_id, rank, chunk_id from hits where run_id = 'told' order by all"
    assert ask(elsewhere, asked) == ask(settings, asked)
    lines = "select row_no, coalesce(error, ''), has_answer, answer_is_blank from raw.results join raw.runs using (run_key) where run_id = 'told' order by all"
    assert ask(elsewhere, lines) == ask(settings, lines)


def test_only_this_run_is_emptied(secrets_in_part):
    settings, bundle = secrets_in_part
    write_told(bundle, run_id="again")
    load(settings, bundle, on=3)
    forget_texts(settings, "told", on=4)
    texts = ask(
        settings,
        "select run_id, t.text is not null from raw.results r join raw.runs using (run_key) "
        "left join raw.texts t on t.text_key = r.answer_text_key where r.has_answer order by run_id",
    )
    assert texts == [("again", True), ("kept", True), ("told", False)]
