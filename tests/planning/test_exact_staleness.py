"""What an edit makes stale: exactly what its meaning reaches, for the reason that it did."""

from __future__ import annotations

import json

import pytest

RANK = "metrics/reciprocal_rank.sql"


def names(plan):
    return set(plan)


@pytest.mark.slow
def test_right_after_computing_nothing_is_stale(world):
    assert world.plan() == {}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    query_key,\n", "    query_key, -- a remark\n"),
        ("    query_key,\n", "\n\n      query_key ,\n"),
        ("case when", "CASE WHEN"),
        ("Reciprocal rank of the first expected chunk", "Another description"),
        ("-- direction: higher", "-- direction: none"),
        ("-- version: 1", "-- version: 2"),
        (
            "  - {expected_chunk_ids: [a], hits: [x]} => {mrr: 0}\n",
            "  - {expected_chunk_ids: [a], hits: [y]} => {mrr: 0}\n",
        ),
    ],
    ids=["comment", "layout", "keyword case", "description", "direction", "version", "example"],
)
def test_an_edit_without_meaning_makes_nothing_stale(world, old, new):
    world.overlay(RANK, (old, new))
    assert world.plan() == {}


def test_a_constant_edit_makes_one_formula_stale_and_its_aggregates(world):
    world.overlay(RANK, ("cast(1 as double)", "cast(2 as double)"))
    assert world.plan() == {
        "metrics.reciprocal_rank": {"formula": 5},
        "aggregates.run_metrics": {"parent": 5},
    }


def test_a_parameter_in_the_configuration_makes_one_formula_stale(world):
    (world.folder / "eval-pipeline.toml").write_text("[formulas.reciprocal_rank]\ncutoff = 3\n")
    assert names(world.plan()) == {"metrics.reciprocal_rank", "aggregates.run_metrics"}


def test_a_helper_edit_two_calls_deep_makes_stale_exactly_its_callers(world):
    world.own("functions/twice.sql", "-- arguments: [x]\n\n2 * x\n")
    world.own("functions/four_times.sql", "-- arguments: [x]\n\ntwice(twice(x))\n")
    world.own(
        "metrics/loud.sql",
        "-- keys: {loud: four times the number of hits}\n-- scale: count\n\n"
        "select run_key, query_key, four_times(n_hits) as loud from facts.outcomes\n",
    )
    world.compute()
    assert world.plan() == {}
    world.own("functions/twice.sql", "-- arguments: [x]\n\nx + x + 0\n")
    assert world.plan() == {"metrics.loud": {"formula": 5}, "aggregates.run_metrics": {"parent": 5}}


def test_an_edit_of_heading_normalisation_reaches_exactly_what_matches_anchors(world):
    world.overlay("functions/normal_heading.sql", ("' > '", "' / '"))
    assert names(world.plan()) == {
        "facts.reference_checks",
        "facts.support_matches",
        "facts.support_ranks",
        "facts.group_ranks",
        "facts.required_ranks",
        "metrics.anchor_any",
        "metrics.anchor_all",
        "metrics.anchor_precision",
        "metrics.anchor_rank",
        "metrics.attribution",
        "metrics.recency_conflict",
        "aggregates.run_metrics",
    }


def test_a_fact_edit_reaches_everything_that_reads_it_and_nothing_else(world):
    world.overlay(
        "facts/document_ranks.sql", ("    counts.n_expected,", "    counts.n_expected + 0 as n_expected,")
    )
    plan = world.plan()
    assert plan["facts.document_ranks"] == {"formula": 5}
    assert plan["metrics.recall_at_k_doc"] == {"parent": 5}
    assert not {"metrics.hit_at_k", "facts.chunk_ranks", "metrics.reciprocal_rank"} & names(plan)


def test_correcting_a_chunk_label_reaches_its_dataset_and_the_readers_of_that_family_only(world):
    rows = json.loads(json.dumps(world.datasets["alpha"]))
    rows[0]["expected_chunk_ids"] = ["x0", "b0"]
    world.write_golden("alpha", rows)
    world.deliver()
    plan = world.plan()
    assert plan["metrics.hit_at_k"] == {"labels": 3}
    assert plan["facts.chunk_ranks"] == {"labels": 3}
    # Whether hits can name documents depends on the chunks that are expected.
    assert plan["metrics.recall_at_k_doc"] == {"labels": 3}
    assert not {
        "metrics.attribution",
        "metrics.answer_strings",
        "facts.document_ranks",
        "facts.outcomes",
    } & names(plan)


def test_correcting_a_span_does_not_touch_hit_at_k(world):
    rows = json.loads(json.dumps(world.datasets["beta"]))
    rows[3]["ground_truth_spans"] = [{"doc_id": "a", "start": 0, "end": 11}]
    world.write_golden("beta", rows)
    world.deliver()
    plan = world.plan()
    assert plan["metrics.span_overlap"] == {"labels": 2}
    assert not {"metrics.hit_at_k", "metrics.reciprocal_rank", "facts.chunk_ranks"} & names(plan)


def test_rewording_a_question_or_turning_the_order_round_makes_nothing_stale(world):
    rows = [{**row, "query": "in other words"} for row in reversed(world.datasets["alpha"])]
    world.write_golden("alpha", rows)
    report = world.deliver()
    assert report.golden_sets == ["alpha"]
    assert world.plan() == {}


def test_another_category_reaches_the_slices_and_no_formula_that_does_not_read_it(world):
    rows = json.loads(json.dumps(world.datasets["alpha"]))
    rows[0]["difficulty"] = "hard"
    world.write_golden("alpha", rows)
    world.deliver()
    assert world.plan() == {
        "aggregates.run_metrics": {"labels": 3},
        "aggregates.slice_performance": {"labels": 3},
    }


def test_a_redelivered_run_with_one_changed_row_reaches_that_run_only(world):
    hits = {f"q{n}": [f"a{n}"] for n in range(6)}
    world.write_run("alpha-2", "alpha", hits, created_at="2026-09-02T02:00:00Z")
    world.deliver()
    plan = world.plan()
    assert {reason for reasons in plan.values() for reason in reasons} == {"results"}
    assert {n for reasons in plan.values() for n in reasons.values()} == {1}
    assert world.compute().runs == {"alpha-2"}
    assert world.plan() == {}


def test_a_new_archive_reaches_the_definitions_that_read_archives(world):
    world.write_archive("alpha", "v2", ["a0", "a5"])
    world.deliver()
    plan = world.plan()
    assert plan["facts.citation_checks"] == {"archive": 3}
    assert not {"metrics.hit_at_k", "facts.chunk_ranks"} & names(plan)


def test_a_new_formula_is_missing_for_every_run_and_run_computes_it(world):
    world.own(
        "metrics/hits_seen.sql",
        "-- keys: {hits_seen: hits}\n\nselect run_key, query_key, n_hits as hits_seen from facts.outcomes\n",
    )
    assert world.plan() == {"metrics.hits_seen": {"missing": 5}, "aggregates.run_metrics": {"missing": 5}}
    assert world.compute().cells["metrics.hits_seen"] == 5
    assert world.plan() == {}


def test_run_leaves_a_changed_formula_alone_and_all_computes_it(world):
    world.overlay(RANK, ("cast(1 as double)", "cast(2 as double)"))
    assert world.compute().cells == {}
    assert world.compute(everything=True).cells["metrics.reciprocal_rank"] == 5
    assert world.plan() == {}


@pytest.mark.parametrize("n_runs", [150, 10_000])
def test_the_states_of_many_runs_are_counted_right(n_runs):
    """At the level of the ledger: so many runs × 30 kinds of cells, one of which changes its meaning."""
    import datetime as dt

    from eval_pipeline.computing.states import cell_spec, find_states
    from eval_pipeline.settings import utc_now
    from eval_pipeline.store.open import open_in_memory

    def kinds(changed):
        return [
            cell_spec(
                f"metrics.m{n}",
                source="",
                fingerprint=f"f{n}{changed if n == 7 else ''}",
                own_fingerprint=f"o{n}{changed if n == 7 else ''}",
                inputs=["raw.results", "labels.queries"],
            )
            for n in range(30)
        ]

    with open_in_memory(utc_now) as con:
        now = dt.datetime(2026, 1, 1)
        con.execute("insert into raw.datasets values (1, 'd')")
        con.execute("insert into labels.golden_sets values (1, 1, 'h', 1, 0, ?, null, null)", [now])
        con.execute(
            "insert into raw.runs (run_key, run_id, dataset_key, document, first_loaded_at) select i, 'r' || i, 1, '', ? from range(1, ? + 1) t(i)",
            [now, n_runs],
        )
        con.execute(
            "insert into raw.run_parts (run_key, part, content_hash, delivery_key, n_rows, n_quarantined) "
            "select i, 'results', 'h' || i, i, 1, 0 from range(1, ? + 1) t(i)",
            [n_runs],
        )
        states = find_states(con, kinds(""))
        con.execute(
            "insert into ledger.cells select definition, source, run_key, fingerprint, own_fingerprint, source_fingerprint, results_hash, "
            "labels_hash, archive_hash, golden_key, 1, 0, ?, null, 'missing', null, '0.1.0' "
            f"from {states.table}",
            [now],
        )
        assert find_states(con, kinds("")).stale() == []
        assert find_states(con, kinds("changed")).stale() == [("metrics.m7", "", "formula", n_runs)]
