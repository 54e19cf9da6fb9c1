"""Comparisons that are kept: which there are, what they say, and when they no longer hold."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.comparing import pairs as comparison_pairs
from eval_pipeline.comparing.gate import gate
from eval_pipeline.comparing.pair_states import PAIR_FACTS
from eval_pipeline.comparing.pairs import (
    PAIRS,
    due_pairs,
    find_pairs,
    pair_of,
    partition_of,
    store_comparisons,
)
from eval_pipeline.comparing.stored import keep_verdict, stored_pairs
from eval_pipeline.documents import as_json
from eval_pipeline.errors import InvalidConfig, UsageError
from eval_pipeline.planning.apply import pin_older
from eval_pipeline.planning.plan import find_plan, select_cells
from eval_pipeline.planning.status import find_status
from eval_pipeline.report.comparison_rows import rows_of
from eval_pipeline.report.pages.collect import read_suites
from eval_pipeline.settings import Settings
from eval_pipeline.store.runs import previous_complete_runs
from tests.bundle_files import (
    ask,
    compute,
    day,
    hits,
    load,
    write_archive,
    write_golden,
    write_lines,
)
from tests.comparing.pairs_of_runs import compared, copied, ranked, store_of
from tests.few_definitions import shipping, write_few
from tests.projects import open_reader, open_writer, project_of, registry_of, store_with

GOLDEN = [
    {"query_id": "both|chunks", "expected_chunk_ids": ["d/1", "d/2"], "expected_doc_ids": ["d"]},
    {"query_id": "one", "expected_chunk_ids": ["e/1"], "expected_doc_ids": ["e"]},
    {"query_id": "refuse", "expected_doc_ids": []},
]
RUNS = {
    "night-1": {"both|chunks": ranked("d/1", "d/2"), "one": ranked("x/1", "e/1"), "refuse": ranked()},
    "night-2": {"both|chunks": ranked("d/2"), "one": ranked("e/1"), "refuse": ranked()},
    "night-3-broken": {"one": ranked("e/1")},
    "night-3": {"both|chunks": ranked("x/1"), "one": ranked("e/1"), "refuse": ranked("x/1")},
    "night-4": {"both|chunks": ranked("d/1"), "one": ranked("e/1"), "refuse": ranked()},
}
FEW = (*PAIR_FACTS, "metrics.hit_at_k", "metrics.reciprocal_rank", "aggregates.run_metrics")
NIGHT_3 = {"night": "2026-09-03"}
NIGHTS = [
    ("night-1", "night-2"),
    ("night-2", "night-3-broken"),
    ("night-2", "night-3"),
    ("night-3", "night-4"),
]


def make_all(settings: Settings, *, on: int = 5, **options: Any) -> list[tuple[str, str]]:
    """Compare what is due for any reason; returns the pairs."""
    registry = registry_of(settings)
    with open_reader(settings.db) as con:
        pairs = [(one.run_a, one.run_b) for one in due_pairs(store_with(con, registry), reasons=None)]
    done = store_comparisons(project_of(settings, registry, now=day(on)), pairs, **options)
    assert done.errors == {}
    return list(done.reasons)


def reasons(settings: Settings) -> dict[tuple[str, str], str]:
    """Of every pair that is not fresh."""
    with open_reader(settings.db) as con:
        return {
            (one.run_a, one.run_b): one.reason
            for one in find_pairs(store_with(con, registry_of(settings)))
            if one.reason
        }


def entry_of(assets: Iterable[dict[str, Any]]) -> dict[str, Any]:
    return next(one for one in assets if one["name"] == PAIRS)


def nights_in(folder: Path) -> Settings:
    """The runs, computed and compared."""
    settings = store_of(
        folder,
        GOLDEN,
        RUNS,
        described={
            "night-3-broken": NIGHT_3,
            "night-3": {**NIGHT_3, "attempt": 2, "replaces": "night-3-broken"},
        },
    )
    assert make_all(settings) == NIGHTS
    return settings


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return nights_in(tmp_path_factory.mktemp("stored"))


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_few(tmp_path_factory.mktemp("few") / "sql", *FEW)


@pytest.fixture(scope="module")
def stored_few(few: Path, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    with shipping(few):
        return nights_in(tmp_path_factory.mktemp("stored-few"))


@pytest.fixture
def changed(few: Path, stored_few: Settings, tmp_path: Path) -> Iterator[Settings]:
    """A copy for a test that changes something, where it does not matter how many formulas there are."""
    with shipping(few):
        yield copied(stored_few, tmp_path)


def test_every_run_is_compared_with_the_answer_of_the_night_before(stored: Settings) -> None:
    with open_reader(stored.db) as con:
        expected = previous_complete_runs(con, RUNS)
    assert {b: a for a, b in NIGHTS} == expected


def test_what_is_stored_is_what_compare_says(stored: Settings) -> None:
    for a, b in NIGHTS:
        document = compared(stored, a, b)
        columns = (
            "query_id",
            "kind",
            "regression",
            "regressed_chunk_ids",
            "a_hit_rank",
            "b_hit_rank",
            "note",
        )
        rows = ask(
            stored,
            f"select {', '.join(columns)} from comparison_queries where run_a = ? and run_b = ? order by query_no",
            a,
            b,
        )
        assert [dict(zip(columns, row, strict=True)) for row in rows] == document["per_query"]
        deltas = ask(
            stored,
            "select metric, delta, paired_delta from comparisons.deltas d join raw.runs r on r.run_key = d.run_b_key "
            "where r.run_id = ? and not is_fallback",
            b,
        )
        assert {metric: delta for metric, delta, _ in deltas} == {
            metric: delta for metric, delta in document["deltas"].items() if metric != "chunker_version_match"
        }
        assert {metric: paired for metric, _, paired in deltas} == {
            metric: tested["delta"] for metric, tested in document["significance"].items()
        }
    with open_reader(stored.db) as con:
        kept = stored_pairs(con, NIGHTS)
    for pair in NIGHTS:
        assert as_json(kept[pair].document)["significance"] == compared(stored, *pair)["significance"]


def test_a_comparison_kept_without_values_of_common_queries_shows_those_of_the_runs(
    changed: Settings,
) -> None:
    with open_writer(changed.db) as con:
        con.execute("update comparisons.deltas set paired_a = null, paired_b = null, paired_delta = null")
        kept = stored_pairs(con, NIGHTS[:1])[NIGHTS[0]].document
    own = {metric: delta for metric, delta in kept.deltas.items() if metric in ("hit@5", "mrr")}
    assert {one.key: one.numbers[2] for one in rows_of(kept) if one.key in own} == own


def test_the_view_names_the_expected_chunks_that_were_lost(stored: Settings) -> None:
    rows = ask(
        stored,
        "select query_id, kind, regressed_chunk_ids from comparison_queries "
        "where regression and run_b in ('night-2', 'night-3') order by run_b",
    )
    assert rows == [("both|chunks", "draw", ["d/1"]), ("both|chunks", "loss", ["d/2"])]


def test_nothing_is_compared_a_second_time(changed: Settings) -> None:
    before = ask(changed, "from comparisons.pairs order by all")
    assert make_all(changed, on=9) == []
    assert ask(changed, "from comparisons.pairs order by all") == before


def test_a_comparison_that_is_asked_for_replaces_the_stored_one(changed: Settings) -> None:
    store_comparisons(project_of(changed, now=day(9)), NIGHTS[:1], force=True)
    rows = ask(changed, "select count(*), max(computed_at) from comparisons.pairs")
    assert rows == [(len(NIGHTS), day(9))]
    assert ask(changed, "select count(*) from comparison_queries where run_b = 'night-2'") == [(3,)]


@pytest.mark.slow
def test_a_changed_formula_makes_its_pairs_stale_until_both_are_computed_anew(changed: Settings) -> None:
    changed.config.write_text("[formulas.reciprocal_rank]\ncutoff = 1\n")
    assert set(reasons(changed).values()) == {"parent"} and set(reasons(changed)) == set(NIGHTS)
    # Made of values that do not hold any more, a comparison is no fresher than these.
    make_all(changed, on=6)
    assert set(reasons(changed)) == set(NIGHTS)
    compute(changed, on=7, reasons=None)
    assert make_all(changed, on=8) == NIGHTS
    assert reasons(changed) == {}
    assert compared(changed, "night-1", "night-2")["aggregate_a"]["mrr"] == 0.5


def test_a_changed_label_makes_pairs_stale_and_they_wait_for_their_runs(
    changed: Settings, tmp_path: Path
) -> None:
    rows = [GOLDEN[0], {**GOLDEN[1], "expected_chunk_ids": ["x/1"]}, GOLDEN[2]]
    load(changed, write_golden(tmp_path / "again", rows).parents[2], on=6)
    assert set(reasons(changed).values()) == {"labels"}
    with open_reader(changed.db) as con:
        assert not any(one.is_ready for one in find_pairs(store_with(con, registry_of(changed))))
    assert make_all(changed, on=7) == []
    compute(changed, on=8, reasons=None)
    assert make_all(changed, on=9) == NIGHTS
    assert ask(
        changed,
        "select a_hit_rank, kind from comparison_queries where run_b = 'night-2' and query_id = 'one'",
    ) == [(1, "loss")]


def test_results_that_are_delivered_anew_touch_the_pairs_of_their_run_only(
    changed: Settings, tmp_path: Path
) -> None:
    source = tmp_path / "again" / "runs" / "night-3"
    rows = [{"query_id": query, "hits_top_k": hits("e/1")} for query in RUNS["night-3"]]
    write_lines(source / "results.jsonl", rows)
    (source / "run.json").write_text(
        '{"run_id": "night-3", "dataset": "kb", "suite": "nightly", "night": "2026-09-03", "attempt": 2, '
        '"replaces": "night-3-broken", "created_at": "2026-09-04T02:00:00Z", '
        '"config": {"chunker_version": "v1", "top_k": 10}}'
    )
    load(changed, source, on=6)
    touched = {("night-2", "night-3"): "results", ("night-3", "night-4"): "results"}
    assert reasons(changed) == touched
    compute(changed, on=7)
    assert make_all(changed, on=8) == list(touched)


def test_a_changed_archive_makes_pairs_stale(changed: Settings, tmp_path: Path) -> None:
    spans = [{"start": 0, "end": 9}]
    chunks = [{"chunk_id": "d/1", "doc_id": "d", "source_spans": spans}]
    archive = write_archive(tmp_path / "again", "v1", chunks)
    load(changed, archive.parents[3], on=6)
    assert set(reasons(changed).values()) == {"archive"}


def test_another_reading_of_comparisons_makes_all_of_them_stale(changed: Settings) -> None:
    changed.config.write_text("[comparison]\ncompare_k = 1\n")
    assert set(reasons(changed).values()) == {"formula"}
    assert make_all(changed, on=6) == NIGHTS
    assert reasons(changed) == {}


def test_plan_and_status_count_comparisons_and_add_up(changed: Settings) -> None:
    registry = registry_of(changed)
    status = find_status(project_of(changed, registry))
    assert (entry_of(status["assets"])["fresh"], status["cells"]["missing"]) == (len(NIGHTS), 0)
    assert find_plan(project_of(changed, registry))["assets"] == []
    changed.config.write_text('[formulas.reciprocal_rank]\ncutoff = 1\n[baselines]\nnightly = "night-1"\n')
    registry = registry_of(changed)
    plan, status = find_plan(project_of(changed, registry)), find_status(project_of(changed, registry))
    # Pinned for night-2 it is the night before as well.
    assert entry_of(plan["assets"])["reasons"] == {"missing": 3, "parent": len(NIGHTS)}
    assert plan["cells"] == sum(asset["cells"] for asset in plan["assets"])
    assert plan["cells"] == status["cells"]["stale"] + status["cells"]["missing"]
    assert plan["runs"] == list(RUNS)
    compute(changed, registry, on=6, reasons=None)
    make_all(changed, on=7)
    assert find_plan(project_of(changed, registry))["cells"] == 0
    assert find_status(project_of(changed, registry))["cells"]["stale"] == 0


def test_a_plan_for_named_tables_or_runs_is_about_these(changed: Settings) -> None:
    changed.config.write_text("[formulas.reciprocal_rank]\ncutoff = 1\n")
    registry = registry_of(changed)
    named = find_plan(project_of(changed, registry), select_cells(registry, only=["mrr"]))
    assert PAIRS not in {asset["name"] for asset in named["assets"]}
    pairs = find_plan(project_of(changed, registry), select_cells(registry, only=[PAIRS]))
    assert [asset["name"] for asset in pairs["assets"]] == [PAIRS]
    one = find_plan(project_of(changed, registry), select_cells(registry, runs=["night-4"]))
    assert (one["runs"], entry_of(one["assets"])["cells"]) == (["night-4"], 1)


def test_runs_left_on_older_definitions_leave_their_comparisons_fresh(changed: Settings) -> None:
    changed.config.write_text("[formulas.reciprocal_rank]\ncutoff = 1\n")
    registry = registry_of(changed)
    pin_older(project_of(changed, registry, now=day(6)), select_cells(registry, since="2026-12-01"))
    assert reasons(changed) == {}


def test_beyond_the_newest_runs_a_comparison_stays_as_it_was_made(
    changed: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparison_pairs, "NEWEST_RUNS", 2)
    changed.config.write_text("[comparison]\ncompare_k = 1\n")
    entry = entry_of(find_status(project_of(changed))["assets"])
    assert (entry["stale"], entry["pinned"], entry["reasons"]) == (2, 2, {"formula": 2})
    assert make_all(changed, on=6) == NIGHTS[-2:]


def test_a_pinned_baseline_is_compared_with_every_run_after_it(changed: Settings) -> None:
    changed.config.write_text('[baselines]\nkb = "night-1"\nnightly = "night-2"\n')
    assert reasons(changed) == {("night-2", "night-4"): "missing"}
    changed.config.write_text('[baselines]\nkb = "night-1"\n')
    assert set(reasons(changed)) == {("night-1", run) for run in ("night-3-broken", "night-3", "night-4")}


def test_a_baseline_that_is_not_there_is_a_warning_and_one_that_is_no_name_an_error(
    changed: Settings,
) -> None:
    changed.config.write_text('[baselines]\nnightly = "no-such-run"\n')
    (warning,) = find_plan(project_of(changed))["warnings"]
    assert "[baselines] nightly names 'no-such-run'" in warning
    for wrong in ("3", '""', '["night-1"]'):
        changed.config.write_text(f"[baselines]\nnightly = {wrong}\n")
        with pytest.raises(InvalidConfig, match=r"\[baselines\] nightly is .* the id of a run"):
            registry_of(changed)


def test_a_pair_that_cannot_be_compared_keeps_no_other_from_it(changed: Settings) -> None:
    pairs = [("night-1", "nobody"), ("night-1", "night-4")]
    done = store_comparisons(project_of(changed, now=day(6)), pairs, force=True)
    assert list(done.reasons) == [("night-1", "night-4")]
    assert "night-1..nobody" in str(done.errors["night-1", "nobody"])


def test_a_pair_has_a_name_that_can_be_taken_apart() -> None:
    assert pair_of(partition_of("a.b:c", "d-e+1")) == ("a.b:c", "d-e+1")
    for name in ("a", "a..", "..b", ""):
        with pytest.raises(UsageError, match=r"A\.\.B"):
            pair_of(name)


def verdicts(settings: Settings) -> list[tuple[Any, ...]]:
    return ask(
        settings,
        "select a.run_id, b.run_id, verdict from comparisons.gates g join raw.runs a on a.run_key = g.run_a_key "
        "join raw.runs b on b.run_key = g.run_b_key order by judged_at, b.run_id",
    )


def write_gate(settings: Settings) -> None:
    """One rule that a single lost query of two breaks, against night-2."""
    settings.config.write_text(
        '[baselines]\nnightly = "night-2"\n[gate]\ndefaults = false\npresence = 0.0\nevidence = "margin"\n'
        '[[gate.rules]]\nmetric = "hit@5"\nmargin = 0.02\nminimum_n = 1\n'
    )


def test_a_run_that_is_held_against_its_baseline_has_its_verdict_stored(changed: Settings) -> None:
    write_gate(changed)
    assert make_all(changed, on=6) == [("night-2", "night-4")]
    assert verdicts(changed) == [("night-2", "night-4", "pass")]
    changed.config.write_text(changed.config.read_text() + "[comparison]\ncompare_k = 5\n")
    make_all(changed, on=7)
    # Both chunks of one query were lost in night-3; what night-3-broken answered it answered alike.
    assert sorted(verdicts(changed)) == [
        ("night-2", "night-3", "fail"),
        ("night-2", "night-3-broken", "pass"),
        ("night-2", "night-4", "pass"),
    ]


def test_the_suite_shows_which_nights_the_gate_failed(changed: Settings) -> None:
    write_gate(changed)
    registry = registry_of(changed)
    document = gate(project_of(changed, registry), "night-3", "night-2")
    assert document["verdict"] == "fail"
    assert keep_verdict(project_of(changed, now=day(6)), document)
    (suite,) = read_suites(project_of(changed, registry))
    (judged,) = [run for run in suite.runs if run.gate]
    assert (judged.facts.run_id, judged.gate.verdict, judged.gate.baseline) == ("night-3", "fail", "night-2")
    assert judged.gate.metrics == {"hit@5": "fail"}


def test_the_same_verdict_again_writes_nothing(changed: Settings) -> None:
    write_gate(changed)
    document = gate(project_of(changed), "night-3", "night-2")
    assert keep_verdict(project_of(changed, now=day(6)), document)
    assert not keep_verdict(project_of(changed, now=day(7)), document)
    assert ask(changed, "select judged_at from comparisons.gates") == [(day(6),)]


def test_a_verdict_that_another_version_kept_is_shown_for_what_this_one_knows_of_it(
    changed: Settings,
) -> None:
    write_gate(changed)
    keep_verdict(project_of(changed, now=day(6)), gate(project_of(changed), "night-3", "night-2"))
    ((text,),) = ask(changed, "select document from comparisons.gates")
    other = json.loads(text) | {"weather": "rain"}
    other["rules"] = [rule | {"mood": "low"} for rule in other["rules"]]
    with open_writer(changed.db) as con:
        con.execute("update comparisons.gates set document = ?", [json.dumps(other)])
    (suite,) = read_suites(project_of(changed))
    (judged,) = [run for run in suite.runs if run.gate]
    assert (judged.gate.verdict, judged.gate.metrics) == ("fail", {"hit@5": "fail"})
