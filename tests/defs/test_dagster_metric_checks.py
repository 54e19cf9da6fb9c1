"""Warnings about judge, extraction and labels on the assets they belong to, and the numbers that get plotted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest

from eval_pipeline.defs.location import build_definitions
from eval_pipeline.defs.partitions import register_runs
from eval_pipeline.defs.tags import RANGE_END, RANGE_START
from eval_pipeline.settings import Settings
from eval_pipeline.showing.checks import (
    badly_configured_judges,
    missed_extraction_targets,
    stale_labels,
    unstable_judges,
)
from tests.bundle_files import hits, load, write_archive, write_golden, write_lines, write_run
from tests.few_definitions import shipping, write_few
from tests.projects import open_writer, project_of

from .deliveries import compute, copied, make_settings

QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
PINNED = {"model": "judge", "version": "2026-03-01", "temperature": 0, "prompt_version": "p1"}
MOVING = {"model": "judge", "version": "latest", "temperature": 0.5, "prompt_version": "p1"}
AGREES, DISAGREES = ({"first": {"score": 5}, "second": {"score": score}} for score in (4, 3))
RIGHT = {"ground_truth": {"rooms": 3}, "extracted": {"rooms": 3}}
# 203 of 1,116 fields left out: precision 1, recall 913/1116, and F1 1826/2029 = 0.89995…, which rounds to 0.9.
JUST_BELOW = {
    "total_gt_fields": 1116,
    "discrepancies": [{"field": f"f{n}", "error_type": "omission"} for n in range(203)],
}
RUNS = ["sound", "moving-judge", "other-chunker", "unknown-chunker"]
CHECKED = (
    "facts.chunk_ranks",
    "aggregates.judge_summary",
    "aggregates.extraction_summary",
    "aggregates.run_metrics",
)
RANK = "metrics.reciprocal_rank"
SHOWN = ("aggregates.latency_summary", "metrics.hit_at_k", RANK)
WARNINGS = {
    "judge_is_pinned": "aggregates.judge_summary",
    "judge_is_stable": "aggregates.judge_summary",
    "extraction_target_met": "aggregates.extraction_summary",
    "labels_in_inventory": "facts.chunk_ranks",
}


def deliver(
    bundle: Path,
    run_id: str,
    *,
    judge: dict[str, Any] | None = None,
    chunker: str = "v1",
    pairs: list[dict[str, Any]] | None = None,
    cases: list[dict[str, Any]] | None = None,
) -> None:
    """A run of one query, with the parts that are given; what takes 10 ms and finds its chunk first."""
    results = [{"query_id": "q", "hits_top_k": hits("d1/a"), "latency_ms": {"total": 10}}]
    config = {"chunker_version": chunker, **({"judge": judge} if judge else {})}
    place = RUNS.index(run_id) + 1
    folder = write_run(bundle, run_id, results, config=config, created_at=f"2026-09-0{place}T02:00:00Z")
    if pairs is not None:
        rows = [{"query_id": "q", "kind": "second_judge", **pair} for pair in pairs]
        write_lines(folder / "judge_spot_check.jsonl", rows)
    if cases is not None:
        rows = [{"case_id": f"case {number}", **case} for number, case in enumerate(cases)]
        write_lines(folder / "extractions.jsonl", rows)


def project(folder: Path) -> Settings:
    bundle = folder / "bundle"
    labels = {"expected_chunk_ids": ["d1/a"], "expected_doc_ids": ["d1"], "chunker_version": "v2"}
    write_golden(bundle, [{"query_id": "q", **labels}])
    write_archive(bundle, "v1", [{"chunk_id": "d1/a", "doc_id": "d1"}])
    write_archive(bundle, "v2", [{"chunk_id": "d1/b", "doc_id": "d1"}])
    deliver(bundle, "sound", judge=PINNED, pairs=[AGREES] * 4 + [DISAGREES], cases=[RIGHT])
    deliver(bundle, "moving-judge", judge=MOVING, pairs=[AGREES] * 3 + [DISAGREES], cases=[JUST_BELOW])
    deliver(bundle, "other-chunker", judge=PINNED, chunker="v2", cases=[{**RIGHT, "extracted": {}}])
    deliver(bundle, "unknown-chunker", chunker="v9")
    settings = make_settings(folder)
    assert load(settings, bundle).problems == []
    compute(settings, *CHECKED, *SHOWN)
    return settings


@pytest.fixture(scope="module", autouse=True)
def definitions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What is checked and shown, and what that is computed from."""
    with shipping(write_few(tmp_path_factory.mktemp("few") / "sql", *CHECKED, *SHOWN)):
        yield


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return project(tmp_path_factory.mktemp("checked"))


@pytest.fixture(scope="module")
def done(settings: Settings) -> Any:
    return executed(settings, RUNS[0], RUNS[-1])


def executed(settings: Settings, first: str, last: str, *more: str) -> Any:
    """The range through Dagster, with its checks."""
    with dg.DagsterInstance.ephemeral() as instance:
        register_runs(instance, RUNS, may_move=True)
        result = (
            build_definitions(project_of(settings))
            .resolve_job_def("nightly_evaluation")
            .execute_in_process(
                instance=instance,
                tags={RANGE_START: first, RANGE_END: last},
                asset_selection=[dg.AssetKey(name.split(".")) for name in (*CHECKED, *more)],
                run_config=QUIET,
            )
        )
        checks = {check.check_name: check for check in result.get_asset_check_evaluations()}
    return SimpleNamespace(result=result, checks=checks)


def faults(settings: Settings, find: Any, run_ids: list[str] | None = None) -> dict[str, str]:
    """Of the checks one asks what is defined."""
    with project_of(settings).read() as store:
        asks_store = find in (missed_extraction_targets, badly_configured_judges)
        return dict(find(store if asks_store else store.con, run_ids))


def test_a_judge_that_is_warm_or_not_pinned_is_named_with_what_is_wrong(settings: Settings) -> None:
    found = faults(settings, badly_configured_judges)
    assert list(found) == ["moving-judge"]
    assert "temperature is 0.5" in found["moving-judge"]
    assert "moving alias" in found["moving-judge"]


def test_exactly_a_fifth_of_disagreement_is_stable_and_more_is_not(settings: Settings) -> None:
    assert faults(settings, unstable_judges) == {
        "moving-judge": "1 of 4 re-judged items disagree, which is more than 20 %"
    }


def test_the_target_of_extraction_is_held_against_the_unrounded_value(settings: Settings) -> None:
    found = faults(settings, missed_extraction_targets)
    assert found.keys() == {"moving-judge", "other-chunker"}
    assert "0.9000 over 1 case " in found["moving-judge"]
    assert "does not reach 0.9 before rounding" in found["moving-judge"]


def test_stale_labels_are_told_where_the_run_has_an_inventory_to_hold_them_against(
    settings: Settings,
) -> None:
    assert faults(settings, stale_labels) == {
        "other-chunker": "1 expected chunk id is not in the inventory of 'v2'"
    }


def test_a_check_looks_at_the_runs_of_its_range_only(settings: Settings) -> None:
    for find in (badly_configured_judges, unstable_judges, missed_extraction_targets, stale_labels):
        assert faults(settings, find, ["sound", "unknown-chunker"]) == {}


def test_nothing_is_found_before_anything_is_computed(tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    write_golden(bundle, [{"query_id": "q"}])
    deliver(bundle, "moving-judge", judge=MOVING)
    settings = make_settings(tmp_path)
    load(settings, bundle)
    for find in (badly_configured_judges, unstable_judges, missed_extraction_targets):
        assert faults(settings, find) == {}


def test_each_warning_stands_on_its_asset_and_fails_no_run(done: Any) -> None:
    assert done.result.success
    for name, table in WARNINGS.items():
        check = done.checks[name]
        assert check.asset_key == dg.AssetKey(table.split("."))
        assert (check.passed, check.severity) == (False, dg.AssetCheckSeverity.WARN), name


def test_a_warning_names_the_runs_of_the_whole_range(done: Any) -> None:
    metadata = done.checks["extraction_target_met"].metadata
    assert metadata["runs checked"].value == len(RUNS)
    assert metadata["failing runs"].value == 2
    assert "`moving-judge`" in metadata["what is wrong"].value
    assert "`other-chunker`" in metadata["what is wrong"].value


def test_a_night_that_passes_does_not_cover_a_history_that_fails(settings: Settings, tmp_path: Path) -> None:
    own = copied(settings, tmp_path)
    with open_writer(own.db) as con:
        con.execute(
            "update metrics.reciprocal_rank set mrr = 7 where run_key = "
            "(select run_key from raw.runs where run_id = 'other-chunker')"
        )
    result = executed(own, "sound", "sound", RANK).result
    found = {
        (check.asset_key.path[-1], check.check_name): check for check in result.get_asset_check_evaluations()
    }
    target = found["extraction_summary", "extraction_target_met"]
    wrong = found["reciprocal_rank", "values_in_range"]
    for check in (target, wrong):
        assert not check.passed
        assert check.metadata["runs checked"].value == 1
        assert check.metadata["failing runs"].value == 0
    assert target.metadata["failing in all of history"].value == 2
    assert wrong.description == "not here, but failing in all of history: 1; other-chunker: 1 of mrr"


def test_what_is_plotted_over_the_runs_is_numbers_and_their_n_stand_in_one_table(done: Any) -> None:
    key = dg.AssetKey(["aggregates", "run_metrics"])
    plotted = {
        event.partition: event.materialization.metadata
        for event in done.result.all_events
        if event.event_type == dg.DagsterEventType.ASSET_MATERIALIZATION and event.asset_key == key
    }
    assert plotted.keys() == set(RUNS)
    scored = plotted["other-chunker"]
    counted = {row.data["metric"]: row.data["n"] for row in scored["n"].records}
    for name in ("hit@5", "mrr", "extraction macro F1", "latency p50 (ms)", "latency p95 (ms)"):
        assert isinstance(scored[name], dg.FloatMetadataValue), name
        assert counted[name] > 0, name
    for name in ("results", "errors", "timeouts", "quarantined"):
        assert isinstance(scored[name], dg.IntMetadataValue), name
    assert "/run?id=other-chunker)" in scored["page"].value
    values = [scored[name].value for name in ("hit@5", "latency p95 (ms)", "extraction macro F1")]
    assert values == [1.0, 10.0, 0.0]


def test_a_run_without_extraction_has_no_point_in_that_plot(done: Any) -> None:
    key = dg.AssetKey(["aggregates", "run_metrics"])
    (metadata,) = (
        event.materialization.metadata
        for event in done.result.all_events
        if event.event_type == dg.DagsterEventType.ASSET_MATERIALIZATION
        and event.asset_key == key
        and event.partition == "unknown-chunker"
    )
    assert "extraction macro F1" not in metadata
    assert "latency p95 (ms)" in metadata
