"""Ids of chunks in labels belong to one chunker version; runs of another one are matched by characters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from eval_pipeline.computing.measure import measure
from eval_pipeline.settings import load_settings
from tests.bundle_files import Row
from tests.projects import project_of
from tests.situations.desk import Desk

SHIPS = (
    *("facts.chunk_ranks", "facts.found_chunks", "facts.outcomes", "aggregates.run_metrics"),
    *("metrics.hit_at_k", "metrics.hit_at_k_span", "metrics.reciprocal_rank", "metrics.reciprocal_rank_span"),
    *("metrics.recall_at_k_chunk", "metrics.ndcg", "metrics.failures", "metrics.refusal_correctness"),
    *("metrics.recall_at_k_doc",),
)
QUERIES = range(120)


def place(doc: int, start: int) -> Row:
    return {"doc_id": f"d{doc}", "source_spans": [{"start": start, "end": start + 100}]}


def old_chunk(doc: int, number: int) -> Row:
    """Chunks of 100 characters."""
    return {"chunk_id": f"d{doc}-{number}", **place(doc, 100 * number)}


def new_chunk(doc: int, number: int) -> Row:
    """The same pieces under other names."""
    return {"chunk_id": f"new/{doc}/{number}", **place(doc, 100 * number)}


def results(chunk: Callable[[int, int], Row], numbers: Sequence[int]) -> list[Row]:
    """Each query retrieves these pieces of its document; piece 0 is expected."""
    rows = [
        {"query_id": f"q{doc}", "hits_top_k": [chunk(doc, number) for number in numbers]} for doc in QUERIES
    ]
    refused = {"query_id": "refuse", "hits_top_k": [], "answer": {"text": "I do not know", "grounded": False}}
    return [*rows, refused]


def golden_rows(**fields: object) -> list[Row]:
    rows = [
        {
            "query_id": f"q{doc}",
            "expected_chunk_ids": [f"d{doc}-0"],
            "expected_doc_ids": [f"d{doc}"],
            **fields,
        }
        for doc in QUERIES
    ]
    return [*rows, {"query_id": "refuse", "expected_chunk_ids": [], "expected_doc_ids": []}]


def pieces(chunk: Callable[[int, int], Row]) -> list[Row]:
    return [chunk(doc, number) for doc in QUERIES for number in range(5)]


def add_runs(desk: Desk, *names: str, dataset: str = "kb") -> None:
    """One run of the labels' chunker and two of another, of which the second has its hits reversed."""
    runs = {
        "own": ("v1", results(old_chunk, [0, 1, 2, 3, 4])),
        "first": ("v2", results(new_chunk, [0, 1, 2, 3, 4])),
        "reversed": ("v2", results(new_chunk, [4, 3, 2, 1, 0])),
    }
    for day, (name, (chunker, rows)) in enumerate(runs.items(), start=1):
        if not names or name in names:
            run_id = name if dataset == "kb" else f"{dataset}-{name}"
            created_at = f"2026-09-{day:02}T02:00:00Z"
            config = {"chunker_version": chunker}
            desk.run(run_id, rows, dataset=dataset, config=config, suite="nightly", created_at=created_at)


def two_chunkers(desk: Desk) -> Desk:
    desk.golden(golden_rows())
    desk.inventory("v1", pieces(old_chunk))
    desk.inventory("v2", pieces(new_chunk))
    add_runs(desk)
    return desk


def shared(doc: int, number: int, width: int) -> Row:
    """An id that both chunkers use, for chunks of another width."""
    span = {"start": width * number, "end": width * (number + 1)}
    return {"chunk_id": f"d{doc}#{number}", "doc_id": f"d{doc}", "source_spans": [span]}


def shared_ids(desk: Desk, dataset: str, *, long_documents: int = len(QUERIES), **fields: object) -> None:
    """Labels name d#3 of the narrow chunker (characters 150 to 200), which the wide one has in long documents only."""
    narrow = [shared(doc, number, 50) for doc in QUERIES for number in range(4)]
    wide = [shared(doc, number, 100) for doc in QUERIES for number in range(4 if doc < long_documents else 2)]
    labels = [{"query_id": f"q{doc}", "expected_chunk_ids": [f"d{doc}#3"], **fields} for doc in QUERIES]
    desk.golden(labels, dataset=dataset)
    desk.inventory("narrow", narrow, dataset=dataset)
    desk.inventory("wide", wide, dataset=dataset)
    for name, width, number in (("narrow", 50, 3), ("wide", 100, 3), ("wide-right", 100, 1)):
        hits = [
            {"query_id": f"q{doc}", "hits_top_k": [shared(doc, 0, width), shared(doc, number, width)]}
            for doc in QUERIES
        ]
        config = {"chunker_version": name.split("-")[0]}
        desk.run(f"{dataset}-{name}", hits, dataset=dataset, config=config)


def values_of(desk: Desk, metric: str, *runs: str) -> list[float | None]:
    return [desk.value(run, metric) for run in runs]


@pytest.fixture(scope="module")
def both(shared_desk: Desk) -> Desk:
    """Every situation that tests only read, each as a dataset of its own."""
    desk = two_chunkers(shared_desk)
    desk.run("again", results(new_chunk, [0, 1, 2, 4, 3]), config={"chunker_version": "v2"}, suite="by hand")
    shared_ids(desk, "partly", long_documents=60)
    shared_ids(desk, "disputed")
    shared_ids(desk, "declared", chunker_version="wide")
    shared_ids(desk, "yaml")
    (desk.folder / "bundle/datasets/yaml/queries.jsonl").unlink()
    rows = "".join(f'  - {{query_id: q{doc}, expected_chunk_ids: ["d{doc}#3"]}}\n' for doc in QUERIES)
    desk.text("bundle/datasets/yaml/queries.yaml", f"chunker_version: wide\nqueries:\n{rows}")
    labels = [{"query_id": f"q{doc}", "expected_chunk_ids": [f"d{doc}#3"]} for doc in QUERIES]
    desk.golden(labels, dataset="unlisted")
    for day, chunker in enumerate(("narrow", "wide"), start=1):
        hits = [{"query_id": f"q{doc}", "hits_top_k": [f"d{doc}#3"]} for doc in QUERIES]
        desk.run(
            f"unlisted-{chunker}",
            hits,
            dataset="unlisted",
            config={"chunker_version": chunker},
            created_at=f"2026-09-0{day}T00:00:00Z",
        )
    grades = [{"query_id": f"q{doc}", "grades": {f"d{doc}-0": 2, f"d{doc}-1": 1}} for doc in QUERIES]
    desk.golden(grades, dataset="graded")
    desk.inventory("v1", pieces(old_chunk), dataset="graded")
    add_runs(desk, "own", "first", dataset="graded")
    # The evidence is in piece 2, whatever the expected chunk covers.
    gold = golden_rows(ground_truth_spans=[{"doc_id": "d0", "start": 200, "end": 300}])
    desk.golden(gold, dataset="gold")
    desk.inventory("v1", pieces(old_chunk), dataset="gold")
    add_runs(desk, "own", "first", dataset="gold")
    unplaced = [{"query_id": f"q{doc}", "expected_chunk_ids": [f"d{doc}-0"]} for doc in QUERIES]
    desk.golden(unplaced, dataset="unplaced")
    add_runs(desk, dataset="unplaced")
    desk.load()
    return desk


def compute_stale(desk: Desk) -> None:
    """What `run --all` does, without Dagster."""
    settings = load_settings({}, db=desk.folder / "data" / "eval.duckdb")
    measure(project_of(replace(settings, config=desk.folder / "eval-pipeline.toml")), reasons=None)


def test_a_gate_fails_when_a_new_chunker_finds_everything_later(both: Desk) -> None:
    output = both("gate", "reversed", "--baseline", "first", "--json")
    rules = {rule["metric"]: rule for rule in output.json["rules"] if rule["kind"] == "change"}
    assert (output.code, output.json["verdict"]) == (1, "fail")
    # The expected piece moved from rank 1 to rank 5.
    assert (rules["mrr_span"]["baseline"], rules["mrr_span"]["candidate"]) == (1.0, 0.2)
    assert rules["mrr_span"]["verdict"] == "fail"


def test_two_runs_of_a_new_chunker_are_compared_by_characters(both: Desk) -> None:
    output = both.must("compare", "first", "reversed", "--json")
    assert output.json["significance"]["mrr_span"]["verdict"] == "worse"
    assert output.json["counts"]["rank_down"] == len(QUERIES)
    assert any("labels name chunks of v1" in warning for warning in output.json["warnings"])


def test_metrics_of_chunk_ids_are_undefined_in_runs_of_another_chunker(both: Desk) -> None:
    shown = both.must("show", "first", "--json").json
    for metric in ("hit@1", "hit@5", "mrr", "recall@5_chunk", "ndcg@5"):
        assert shown["metrics"][metric]["value"] is None
        assert "labels name chunks of v1" in shown["undefined"][metric]
    # What labels say without ids of chunks still holds.
    assert shown["metrics"]["refusal_correctness"] == {"value": 1.0, "n": 1}


def test_expected_chunks_are_matched_by_the_characters_of_their_own_inventory(both: Desk) -> None:
    assert [both.value(run, "mrr_span") for run in ("first", "reversed")] == [1.0, 0.2]
    assert both.value("reversed", "hit@3_span") == 0.0


def test_the_list_of_runs_shows_values_by_characters_and_no_marks(both: Desk) -> None:
    listed = {
        run["run_id"]: run["headline"] for run in both.must("runs", "--dataset", "kb", "--json").json["runs"]
    }
    assert listed["reversed"]["mrr_span"] == 0.2
    assert listed["reversed"]["mrr"] is None
    assert listed["own"]["mrr"] == 1.0
    assert "*" not in both.must("runs", "--dataset", "kb").text


def test_the_page_of_a_run_of_another_chunker_leads_with_values_by_characters(both: Desk) -> None:
    both.must("report", "reversed", "--output", "page.html")
    page = (both.folder / "page.html").read_text("utf-8")
    assert "mrr_<wbr>span" in page or "mrr_span" in page
    assert "artefact" not in page
    # Every query found its chunk at rank 5.
    assert ">not found<" not in page


def test_no_difference_is_claimed_of_a_metric_without_values(both: Desk) -> None:
    output = both.must("compare", "first", "again")
    assert "hit@5 by" not in output.text
    assert "mrr by" not in output.text


def test_an_id_that_another_chunker_uses_too_is_not_found(both: Desk) -> None:
    runs = ("partly-narrow", "partly-wide", "partly-wide-right")
    # The same id at characters 300 to 400 is another text; characters 150 to 200 are in the wide piece 1.
    assert values_of(both, "hit@5", *runs) == [1.0, None, None]
    assert values_of(both, "hit@5_span", *runs[1:]) == [0.0, 1.0]


def test_the_user_is_asked_when_two_inventories_have_the_ids_at_different_characters(both: Desk) -> None:
    assert values_of(both, "hit@5", "disputed-narrow", "disputed-wide") == [None, None]
    undefined = both.must("show", "disputed-narrow", "--json").json["undefined"]["hit@5"]
    assert "[datasets.disputed]" in undefined
    (finding,) = both.must(
        "query", "select * from lint where rule = 'labels_of_several_chunkers'", "--json"
    ).json
    assert "labels_of" in finding["finding"]


def test_labels_of_settles_whose_ids_the_labels_hold(both: Desk, tmp_path: Path) -> None:
    desk = both.copy(tmp_path / "copy")
    for owner, values in (("narrow", [1.0, None]), ("wide", [None, 1.0])):
        desk.text("eval-pipeline.toml", f'[datasets.disputed]\nlabels_of = "{owner}"\n')
        # Until they are computed again, values are stale.
        listed = desk.must("runs", "--dataset", "disputed", "--json").json["runs"]
        assert {run["run_id"]: run["state"] for run in listed}["disputed-narrow"] == "stale"
        compute_stale(desk)
        assert values_of(desk, "hit@5", "disputed-narrow", "disputed-wide") == values


@pytest.mark.parametrize("dataset", ["declared", "yaml"])
def test_a_golden_set_declares_its_chunker(both: Desk, dataset: str) -> None:
    assert values_of(both, "hit@5", f"{dataset}-narrow", f"{dataset}-wide") == [None, 1.0]


def test_a_golden_set_of_two_chunkers_is_rejected(desk: Desk) -> None:
    labels = [
        {"query_id": f"q{doc}", "expected_chunk_ids": ["a"], "chunker_version": f"v{doc}"} for doc in (1, 2)
    ]
    desk.golden(labels)
    output = desk("load", "bundle")
    assert output.code == 3
    assert "chunker_version" in output.text


def test_without_inventories_the_first_run_that_finds_expected_ids_owns_them(both: Desk) -> None:
    assert values_of(both, "hit@5", "unlisted-narrow", "unlisted-wide") == [1.0, None]


def test_grades_belong_to_a_chunker_too(both: Desk) -> None:
    assert values_of(both, "ndcg@5", "graded-own", "graded-first") == [1.0, None]


FORMULA = """\
-- keys: {labelled_hit: "Whether an expected chunk was retrieved"}
-- about: "Is an expected chunk among the hits?"
-- version: 1
-- scale: binary
-- direction: higher
-- aggregate: mean
-- undefined: never
-- examples:
--   - {expected_chunk_ids: [a], hits: [a]} => {labelled_hit: 1}
select
    results.run_key,
    results.query_key,
    cast(count(expected.chunk_key) > 0 as double) as labelled_hit
from raw.results as results
left join raw.hits as hits on results.run_key = hits.run_key and results.query_key = hits.query_key
left join labels.expected_chunks as expected
    on hits.query_key = expected.query_key and hits.chunk_key = expected.chunk_key
group by results.run_key, results.query_key
"""


def test_a_custom_formula_of_chunk_ids_is_undefined_for_another_chunker(desk: Desk) -> None:
    desk.text("own/metrics/labelled_hit.sql", FORMULA)
    desk.environment["EVAL_PIPELINE_SQL"] = str(desk.folder / "own")
    two_chunkers(desk).load()
    # 120 of 121 queries of the run of the labels' chunker find what is expected.
    assert desk.value("own", "labelled_hit") == pytest.approx(120 / 121, abs=1e-4)
    assert desk.value("first", "labelled_hit") is None


def test_gold_spans_are_preferred_to_the_characters_of_expected_chunks(both: Desk) -> None:
    assert both.per_query("gold-first", "mrr_span")["q0"] == pytest.approx(1 / 3)
    assert both.value("gold-first", "mrr") is None


def test_a_gate_is_inconclusive_when_no_characters_of_expected_chunks_are_known(both: Desk) -> None:
    output = both("gate", "unplaced-reversed", "--baseline", "unplaced-first", "--json")
    rules = {rule["metric"]: rule for rule in output.json["rules"]}
    assert output.json["verdict"] == "inconclusive"
    assert "labels name chunks of v1" in rules["mrr"]["reason"]


def test_a_rule_about_a_metric_without_a_variant_by_characters_is_inconclusive(both: Desk) -> None:
    path = both.text("gate.toml", '[[gate.rules]]\nmetric = "recall@5_chunk"\nmargin = 0.02\n')
    output = both("gate", "reversed", "--baseline", "first", "--config", path, "--json")
    (rule,) = [rule for rule in output.json["rules"] if rule["metric"] == "recall@5_chunk"]
    assert rule["verdict"] == "inconclusive"
    assert "labels name chunks of v1" in rule["reason"]


def test_comparisons_across_chunkers_take_characters_from_the_labels_own_inventory(both: Desk) -> None:
    # The wide chunker has d#3 at 300 to 400: a hit there holds nothing of what the labels name.
    document = both.must("compare", "partly-narrow", "partly-wide", "--json").json
    assert document["counts"]["loss"] == len(QUERIES)


def test_labels_renewed_for_the_new_chunker_move_the_values_to_its_runs(both: Desk, tmp_path: Path) -> None:
    desk = both.copy(tmp_path / "copy")
    rows = [{"query_id": f"q{doc}", "expected_chunk_ids": [f"new/{doc}/0"]} for doc in QUERIES]
    desk.golden([*rows, {"query_id": "refuse", "expected_chunk_ids": []}], bundle="again")
    desk.load("again")
    compute_stale(desk)
    assert [desk.value(run, "mrr") for run in ("own", "first", "reversed")] == [None, 1.0, 0.2]
    assert desk.value("own", "mrr_span") == 1.0


def test_a_changed_inventory_moves_the_characters_that_are_expected(both: Desk, tmp_path: Path) -> None:
    desk = both.copy(tmp_path / "copy")
    moved = [
        {"chunk_id": f"d{doc}-{number}", **place(doc, 400 - 100 * number)}
        for doc in QUERIES
        for number in range(5)
    ]
    desk.inventory("v1", moved, bundle="again")
    desk.load("again")
    compute_stale(desk)
    # What the labels name is now at characters 400 to 500, the first hit of the reversed run.
    assert [desk.value(run, "mrr_span") for run in ("first", "reversed")] == [0.2, 1.0]


def bare_runs(desk: Desk, dataset: str, *, inventories: bool, documents: bool = False) -> None:
    """Hits without spans: a run of the labels' chunker finds everything, two runs of a new chunker find nothing."""
    fields = {"expected_doc_ids": None} if not documents else {}
    desk.golden([{**row, **fields} for row in golden_rows()[:-1]], dataset=dataset)
    if inventories:
        desk.inventory("v1", pieces(old_chunk), dataset=dataset)
        desk.inventory("v2", pieces(new_chunk), dataset=dataset)
    runs = (
        ("own", "v1", old_chunk, (0, 1)),
        ("junk", "v2", new_chunk, (3, 4)),
        ("junk-2", "v2", new_chunk, (4, 3)),
    )
    for day, (name, chunker, chunk, numbers) in enumerate(runs, start=1):
        rows = [
            {
                "query_id": f"q{doc}",
                "hits_top_k": [
                    {key: value for key, value in chunk(doc, number).items() if key != "source_spans"}
                    for number in numbers
                ],
            }
            for doc in QUERIES
        ]
        created_at = f"2026-09-{day:02}T02:00:00Z"
        desk.run(
            f"{dataset}-{name}",
            rows,
            dataset=dataset,
            config={"chunker_version": chunker},
            created_at=created_at,
        )


def test_hits_without_spans_have_the_characters_of_their_own_inventory(desk: Desk) -> None:
    bare_runs(desk, "bare", inventories=True)
    desk.load()
    output = desk("gate", "bare-junk", "--baseline", "bare-own", "--json")
    (rule,) = [rule for rule in output.json["rules"] if rule["metric"] == "hit@5"]
    assert (output.code, rule["baseline"], rule["candidate"]) == (1, 1.0, 0.0)
    assert desk.must("compare", "bare-own", "bare-junk", "--json").json["counts"]["loss"] == len(QUERIES)


def test_hits_without_any_known_characters_are_not_a_draw(desk: Desk) -> None:
    bare_runs(desk, "bare", inventories=True)
    (desk.folder / "bundle/datasets/bare/inventories/v2.jsonl").unlink()
    desk.load()
    document = desk.must("compare", "bare-own", "bare-junk", "--json").json
    assert document["counts"]["not_comparable"] == len(QUERIES)
    assert document["fallback_metrics"]["a"]["hit@5"] is None
    assert any(
        "without source_spans in bare-junk: hits of 120 queries" in line for line in document["warnings"]
    )
    output = desk("gate", "bare-junk", "--baseline", "bare-own", "--json")
    assert (output.code, output.json["verdict"]) == (4, "inconclusive")
    assert any(
        "without source_spans in bare-junk: hits of 120 queries" in note for note in output.json["notes"]
    )


def test_documents_alone_do_not_pass_a_gate_whose_labels_name_other_chunks(desk: Desk) -> None:
    bare_runs(desk, "bare", inventories=False, documents=True)
    desk.load()
    output = desk("gate", "bare-junk-2", "--baseline", "bare-junk", "--json")
    rules = {rule["metric"]: rule for rule in output.json["rules"]}
    assert rules["recall@5_doc"]["verdict"] == "pass"
    assert (rules["hit@5"]["verdict"], rules["hit@5"]["required"]) == ("inconclusive", True)
    assert output.code == 4


def test_a_gate_counts_the_hits_that_span_metrics_cannot_find(both: Desk, tmp_path: Path) -> None:
    desk = both.copy(tmp_path / "copy")
    rows = results(new_chunk, [0, 1, 2, 3, 4])
    for row in rows[:-1:2]:
        row["hits_top_k"] = [{**hit, "source_spans": []} for hit in row["hits_top_k"]]
    desk.run("half", rows, bundle="again", config={"chunker_version": "v2"}, suite="by hand")
    desk.load("again")
    output = desk("gate", "half", "--baseline", "first", "--json")
    # 60 of the 120 queries, five hits each.
    assert any("without source_spans in half: 300 hits" in note for note in output.json["notes"])
    warnings = desk.must("compare", "first", "half", "--json").json["warnings"]
    assert any("without source_spans in half: 300 hits" in warning for warning in warnings)


def test_ids_of_another_inventory_are_not_judged_by_labels_without_a_recorded_chunker(desk: Desk) -> None:
    bare_runs(desk, "bare", inventories=True, documents=True)
    for run_id in ("unrecorded", "unrecorded-2"):
        desk.run(
            run_id,
            [
                {"query_id": f"q{doc}", "hits_top_k": [{**new_chunk(doc, 3), "source_spans": []}]}
                for doc in QUERIES
            ],
            dataset="bare",
        )
    desk.load()
    output = desk("gate", "unrecorded-2", "--baseline", "unrecorded", "--json")
    rules = {rule["metric"]: rule for rule in output.json["rules"]}
    assert (output.code, rules["hit@5"]["verdict"]) == (4, "inconclusive")
    assert "its ids are in the inventory of v2" in rules["hit@5"]["reason"]
    # A run of the new chunker is known by its documents alone.
    notes = desk("gate", "bare-junk-2", "--baseline", "bare-junk", "--json").json["notes"]
    assert any("by document or path alone" in note for note in notes)
