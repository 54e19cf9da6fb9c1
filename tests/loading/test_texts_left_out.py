"""What `load --no-text` leaves out follows from how a field is declared; the numbers stay what they were."""

from __future__ import annotations

import pytest

from eval_pipeline.formulas.registry import load_registry
from eval_pipeline.loading.context import LoadOptions
from eval_pipeline.loading.load import load_bundles
from eval_pipeline.records import FORGOTTEN
from eval_pipeline.upkeep.forget import Request, forget
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
from tests.projects import project_of
from tests.upkeep.forgettable import places_with

SECRET = "swordfish"
DOCUMENTS = {
    "ground_truth": {"name": f"{SECRET} one", "place": {"town": SECRET, "rooms": 3}, "empty": None},
    "extracted": {"name": f"{SECRET} two", "place": {"town": SECRET}, "more": [SECRET]},
}
# Result, part of the run, and what it says in words.
RESULTS = {
    "error": {"query_id": "q1", "error": f"timeout while asking for {SECRET}"},
    "citation in words": {
        "query_id": "q1",
        "answer": {"text": "yes", "grounded": True, "citations": [{"citation": f"a letter about {SECRET}"}]},
    },
    "claim": {"query_id": "q1", "judge": {"groundedness": {"score": 4, "unsupported_claims": [SECRET]}}},
    "score in words": {"query_id": "q1", "judge": {"correctness": {"score": f"four, says {SECRET}"}}},
}
PARTS = {
    "documents of a case": ("extractions", {"case_id": "c1", **DOCUMENTS}),
    "documents of a case that failed": ("extractions", {"case_id": "c1", **DOCUMENTS, "error": "late"}),
    "error of a case": ("extractions", {"case_id": "c1", "ground_truth": {}, "error": f"no {SECRET}"}),
    "values of a discrepancy": (
        "extractions",
        {
            "case_id": "c1",
            "total_gt_fields": 2,
            "discrepancies": [{"field": "a", "error_type": "wrong_value", "actual": SECRET, "expected": 1}],
        },
    ),
    "score of a spot check": ("judge_spot_check", {"query_id": "q1", "first": {"score": f"all {SECRET}"}}),
}
NAMES = ("failures", "citation_coverage", "extraction", "hit_at_k", "judge_scores")
TABLES = ("field_accuracy", "extraction_summary", "judge_summary")


def write_bundle(folder, *, result=None, parts=()):
    write_golden(
        folder,
        [
            {
                "query_id": "q1",
                "expected_chunk_ids": ["d 1"],
                "must_contain": ["yes"],
                "gold_supports": [{"rel_path": "d.md", "snippets": ["a snippet"]}],
            }
        ],
    )
    write_archive(folder, "v1", [{"chunk_id": "d 1", "doc_id": "d"}])
    results = [result or {"query_id": "q1", "hits_top_k": hits("d 1"), "answer": {"text": "yes"}}]
    run = write_run(folder, "told", results)
    for part, row in parts:
        write_lines(run / f"{part}.jsonl", [row])
    return folder


def without_texts(settings, bundle):
    return load_bundles([bundle], project_of(settings, now=day(1)), options=LoadOptions(no_text=True))


def numbers(settings):
    found = {"per query": ask(settings, "select query_id, metric, value from per_query_metrics order by all")}
    for table in TABLES:
        found[table] = ask(settings, f"from aggregates.{table} order by all")
    return found


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    """The formulas that such a field could move."""
    registry = load_registry(settings_in(tmp_path_factory.mktemp("none")))
    return registry, [*(f"metrics.{name}" for name in NAMES), *(f"aggregates.{name}" for name in TABLES)]


@pytest.mark.parametrize("field", [*RESULTS, *PARTS])
def test_without_texts_no_word_of_it_is_kept_and_no_number_moves(field, tmp_path, few):
    registry, definitions = few
    bundle = write_bundle(
        tmp_path / "bundle", result=RESULTS.get(field), parts=[PARTS[field]] if field in PARTS else []
    )
    without, with_texts = settings_in(tmp_path / "without"), settings_in(tmp_path / "with")
    assert load(with_texts, bundle).quarantined == 0
    without.db.parent.mkdir(exist_ok=True)
    assert without_texts(without, bundle).quarantined == 0
    assert places_with(with_texts, SECRET) != []
    assert places_with(without, SECRET) == []
    for settings in (without, with_texts):
        compute(settings, registry, definitions=definitions)
    assert numbers(without) == numbers(with_texts)


def test_what_labels_demand_of_an_answer_stays_so_that_runs_with_texts_are_scored(tmp_path, few):
    registry, _ = few
    bundle, settings = write_bundle(tmp_path / "bundle"), settings_in(tmp_path / "store")
    settings.db.parent.mkdir()
    without_texts(settings, bundle)
    assert ask(settings, "select text from labels.strings") == [("yes",)]
    assert ask(settings, "select snippets from labels.supports") == [(["a snippet"],)]
    load(settings, bundle, on=2)
    compute(settings, registry, definitions=["metrics.answer_strings"])
    scored = "select value from per_query_metrics where metric = 'groundedness'"
    assert ask(settings, scored) == [(1.0,)]


def test_a_citation_that_is_an_id_stays_whatever_it_looks_like(tmp_path):
    answer = {"text": "yes", "citations": [{"citation": one} for one in ("d 1", "d/9", "e 1", "as I said")]}
    bundle = write_bundle(
        tmp_path / "bundle", result={"query_id": "q1", "hits_top_k": hits("e 1"), "answer": answer}
    )
    settings = settings_in(tmp_path / "store")
    settings.db.parent.mkdir()
    without_texts(settings, bundle)
    asked = "select chunk_id from raw.citations left join raw.chunk_ids using (chunk_key) order by item_no"
    assert ask(settings, asked) == [("d 1",), ("d/9",), ("e 1",), (None,)]


def test_a_ground_truth_without_its_values_is_not_said_to_differ_from_the_list(tmp_path):
    bundle = write_bundle(tmp_path / "bundle", parts=[PARTS["documents of a case"]])
    write_lines(
        bundle / "datasets" / "kb" / "cases.jsonl",
        [{"case_id": "c1", "ground_truth": DOCUMENTS["ground_truth"]}],
    )
    settings = settings_in(tmp_path / "store")
    load(settings, bundle)
    without_texts(settings, bundle)
    ((held,),) = ask(settings, "select ground_truth from raw.extraction_cases")
    assert FORGOTTEN in held and SECRET not in held
    assert ask(settings, "select count(*) from lint where finding like '%another ground_truth%'") == [(0,)]


def test_forgetting_texts_reaches_all_of_these_and_the_labels(tmp_path, few):
    registry, _ = few
    bundle = tmp_path / "bundle"
    label = {"must_contain": [SECRET], "forbidden": [SECRET], "query": SECRET}
    supports = [{"rel_path": "d.md", "snippets": [SECRET]}]
    write_golden(bundle, [{"query_id": "q1", **label, "gold_supports": supports}])
    results = [{**row, "query_id": f"q{number}"} for number, row in enumerate(RESULTS.values())]
    run = write_run(bundle, "told", results)
    cases = [row for part, row in PARTS.values() if part == "extractions"]
    write_lines(run / "extractions.jsonl", [{**row, "case_id": f"c{n}"} for n, row in enumerate(cases)])
    write_lines(run / "judge_spot_check.jsonl", [PARTS["score of a spot check"][1]])
    settings = settings_in(tmp_path / "store")
    assert load(settings, bundle).quarantined == 0
    forget(project_of(settings, registry, now=day(2)), Request("dataset", "kb", text=True))
    assert places_with(settings, SECRET) == []
