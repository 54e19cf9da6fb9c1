"""A run whose dataset has no golden set is scored at once by everything that needs no label."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from eval_pipeline.cli.main import cli
from eval_pipeline.comparing.compare import compare
from eval_pipeline.comparing.gate import gate
from eval_pipeline.formulas.registry import Registry, load_registry
from eval_pipeline.planning.status import find_status
from eval_pipeline.report.pages.collect import run_page
from eval_pipeline.settings import Settings, load_settings
from eval_pipeline.showing.show import show_run
from eval_pipeline.upkeep.forget import Request, forget
from eval_pipeline.upkeep.rebuild import rebuild
from tests.bundle_files import (
    Row,
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
from tests.few_definitions import shipping, write_few
from tests.projects import open_writer, project_of

# Ids that JSON, SQL and text each write in a way of their own.
QUERIES = ["q1", "wie groß?", 'a "quoted"\\one', "two\nlines", "🜁"]
FEW = ("metrics.failures", "metrics.reciprocal_rank", "metrics.hit_at_k", "aggregates.run_metrics")


def results(*query_ids: str, error: str | None = None) -> list[Row]:
    rows: list[Row] = [
        {"query_id": one, "hits_top_k": hits("d/1"), "latency_ms": {"total": 5}} for one in query_ids
    ]
    rows[0]["error"] = error
    return rows


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Registry:
    with shipping(write_few(tmp_path_factory.mktemp("few"), *FEW)):
        return load_registry(load_settings({}))


@pytest.fixture
def settings(tmp_path: Path, registry: Registry) -> Settings:
    """Two runs that answered the same queries, one of them in another order, and one that answered fewer."""
    own = settings_in(tmp_path)
    write_run(tmp_path / "runs", "one", results(*QUERIES, error="late"), created_at="2026-09-01")
    write_run(tmp_path / "runs", "two", results(*reversed(QUERIES)), created_at="2026-09-02")
    write_run(tmp_path / "runs", "few", results(*QUERIES[:2]), created_at="2026-09-03")
    load(own, tmp_path / "runs")
    compute(own, registry)
    return own


def values(settings: Settings, registry: Registry, run_id: str) -> dict[str, tuple[float | None, int]]:
    shown = show_run(project_of(settings, registry), run_id)
    return {key: (entry["value"], entry["n"]) for key, entry in shown["metrics"].items()}


def stale(settings: Settings, registry: Registry) -> dict[str, dict[str, int]]:
    assets = find_status(project_of(settings, registry))["assets"]
    return {asset["name"]: asset["reasons"] for asset in assets if asset["stale"]}


def asked_sets(settings: Settings) -> list[tuple[str, int]]:
    return ask(settings, "select run_id, golden_key from ledger.runs_in_order order by ordered_at")


def test_what_needs_no_label_has_a_value_and_the_rest_says_why_it_has_none(
    settings: Settings, registry: Registry
) -> None:
    found = values(settings, registry, "one")
    assert (found["error_rate"], found["timeout_rate"], found["mrr"]) == ((0.2, 5), (0.0, 5), (None, 0))
    shown = show_run(project_of(settings, registry), "one")
    assert shown["undefined"].keys() == {"mrr", "hit@1", "hit@3", "hit@5", "hit@10"}
    assert {why.partition(":")[0] for why in shown["undefined"].values()} == {"no golden set for dataset kb"}
    assert (shown["missing_query_ids"], shown["unknown_query_ids"], shown["failed_queries"]) == ([], [], 1)
    assert not any(shown["slices"].values())
    assert "no golden set for dataset kb" in run_page(project_of(settings, registry), "one")


def test_status_lists_them_and_nothing_is_due(settings: Settings, registry: Registry) -> None:
    status = find_status(project_of(settings, registry))
    assert status["waiting"] == ["one", "two", "few"]
    assert (status["cells"]["missing"], status["cells"]["stale"], status["incomplete"]) == (0, 0, [])
    called = CliRunner().invoke(cli, ["status", "--db", str(settings.db)])
    assert "3 runs without a golden set" in called.output
    assert "wait" not in called.output


def test_labels_that_arrive_later_make_stale_what_reads_them_and_nothing_else(
    settings: Settings, registry: Registry, tmp_path: Path
) -> None:
    before = values(settings, registry, "one")
    rows = [{"query_id": one, "expected_chunk_ids": ["d/1"]} for one in QUERIES]
    write_golden(tmp_path / "labels", rows)
    load(settings, tmp_path / "labels", on=3)
    due = stale(settings, registry)
    # Aggregates learn which slices there are; the run with few queries learns that it was asked more.
    assert due.pop("aggregates.run_metrics") == due.pop("facts.chunk_ranks") == {"labels": 3}
    assert {name: reasons for name, reasons in due.items() if reasons != {"labels": 1}} == {
        "metrics.reciprocal_rank": {"labels": 3},
        "metrics.hit_at_k": {"labels": 3},
    }
    assert "metrics.failures" in due
    compute(settings, registry, on=4, reasons=None)
    assert values(settings, registry, "one") == before | dict.fromkeys(
        ["mrr", "hit@1", "hit@3", "hit@5", "hit@10"], (1.0, 5)
    )
    status = find_status(project_of(settings, registry))
    assert (status["waiting"], status["incomplete"]) == ([], ["few"])


def test_two_of_them_are_compared_and_judged_by_what_both_answered(
    settings: Settings, registry: Registry
) -> None:
    document = compare(project_of(settings, registry), "one", "few")
    assert (document["deltas"]["error_rate"], document["only_in_a"]) == (-0.2, sorted(QUERIES[2:]))
    assert not [one for one in document["warnings"] if "label" in one or "chunker" in one]
    judged = gate(project_of(settings, registry), "few", "one")
    assert judged["verdict"] == "inconclusive"
    assert any("2 of 5 queries that the baseline answered" in one for one in judged["preconditions"])


def test_runs_that_answered_the_same_share_their_queries_until_one_is_delivered_with_others(
    settings: Settings, registry: Registry, tmp_path: Path
) -> None:
    keys = dict(asked_sets(settings))
    assert keys["one"] == keys["two"] != keys["few"]
    write_run(tmp_path / "runs", "two", results("other"), created_at="2026-09-02")
    load(settings, tmp_path / "runs", on=3)
    assert dict(asked_sets(settings)) == keys | {"two": min(keys.values()) - 1}
    compute(settings, registry, on=4)
    assert values(settings, registry, "two")["error_rate"] == (0.0, 1)


def test_a_forgotten_run_takes_its_queries_along(settings: Settings, registry: Registry) -> None:
    for run_id in ("one", "few"):
        forget(project_of(settings, registry, now=day(5)), Request("run", run_id))
    assert ask(settings, "select distinct golden_key from labels.queries") == [(-1,)]
    assert values(settings, registry, "two")["error_rate"] == (0.0, 5)
    forget(project_of(settings, registry, now=day(6)), Request("run", "two"))
    assert ask(settings, "select count(*) from raw.query_ids") == [(0,)]


def test_a_store_made_anew_scores_them_alike(settings: Settings, registry: Registry) -> None:
    before, keys = derived_tables(settings), asked_sets(settings)
    rebuild(project_of(settings, registry, now=day(5)))
    compute(settings, registry)
    assert (derived_tables(settings), asked_sets(settings)) == (before, keys)


def test_in_a_store_of_an_earlier_version_they_are_due(settings: Settings, registry: Registry) -> None:
    before, counts = derived_tables(settings), ask(settings, "from ledger.run_counts order by run_key")
    with open_writer(settings.db) as con:
        labels = ("queries", "query_details", "slices", "family_hashes")
        for statement in (
            *(f"delete from labels.{table} where golden_key < 0" for table in labels),
            "delete from ledger.cells",
            *(f"delete from {table}" for table in before),
            "update ledger.run_counts set golden_key = null, n_golden = 0, n_results = 0, n_failed = 0",
            "create or replace view ledger.runs_in_order as select * replace (cast(null as integer) as golden_key) "
            "from (select 0 as golden_key)",
            "drop table ledger.implied_golden_sets",
            "alter table labels.golden_sets drop column chunker_version",
            "drop table labels.chunk_spans",
            "drop table ledger.label_chunkers",
            "delete from main.schema_migrations where number in (14, 19)",
        ):
            con.execute(statement)
    assert ask(settings, "from ledger.run_counts order by run_key") == counts
    assert find_status(project_of(settings, registry))["cells"]["fresh"] == 0
    compute(settings, registry)
    assert derived_tables(settings) == before


def test_labels_of_a_golden_set_are_never_shadowed_by_queries_of_runs(
    settings: Settings, registry: Registry, tmp_path: Path
) -> None:
    write_golden(tmp_path / "labels", [{"query_id": "q1", "expected_chunk_ids": ["d/1"]}])
    load(settings, tmp_path / "labels", on=3)
    write_run(tmp_path / "later", "late", results("q1", "unasked"), created_at="2026-09-04")
    load(settings, tmp_path / "later", on=4)
    assert {key for _, key in asked_sets(settings)} == {1}
    assert show_run(project_of(settings, registry), "late")["unknown_query_ids"] == ["unasked"]
