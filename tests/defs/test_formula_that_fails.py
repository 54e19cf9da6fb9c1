"""A formula that raises on one query of one run takes nothing else with it, and says everywhere why it has no value."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import dagster as dg
import pytest

from eval_pipeline.defs.event_log import open_home
from tests.called import HOME, call
from tests.few_definitions import shipping, write_few

from .conftest import FEW
from .deliveries import HITS, deliver_golden, deliver_run

THIRD = {**HITS, "q2": ["a", "c", "b"]}
OWN = """\
-- keys: {not_third: "Whether the first expected chunk is anywhere but third"}
-- applies: n_expected > 0
select
    run_key,
    query_key,
    case when first_rank = 3 then cast('x' || first_rank as double) else 1 end as not_third
from facts.chunk_ranks
"""
READER = """\
-- keys: {half: "Half of the other"}
-- applies: not_third is not null
select run_key, query_key, not_third / 2 as half from metrics.not_third
"""
WHY = "run r2, query q2: Conversion Error: Could not convert string 'x3' to DOUBLE"
RUNS = {"r1", "r2", "r3", "r4"}
GATE = '[gate]\ndefaults = false\n[[gate.rules]]\nmetric = "not_third"\n[[gate.rules]]\nmetric = "hit@10"\nat_least = 0.5\n'


@pytest.fixture(scope="module")
def shipped(tmp_path_factory):
    names = (*FEW, "facts.found_chunks", "facts.outcomes")
    with shipping(write_few(tmp_path_factory.mktemp("shipped") / "sql", *names)):
        yield


@pytest.fixture(scope="module")
def failed(tmp_path_factory, shipped):
    """Four runs, of which the second has the query, computed by `run`: the folder, and what was said."""
    folder = tmp_path_factory.mktemp("failed")
    (folder / "sql" / "metrics").mkdir(parents=True)
    (folder / "sql" / "metrics" / "not_third.sql").write_text(OWN)
    (folder / "sql" / "metrics" / "half.sql").write_text(READER)
    (folder / "gate.toml").write_text(GATE)
    deliver_golden(folder / "bundle")
    for number, run_id in enumerate(sorted(RUNS), start=1):
        deliver_run(folder / "bundle", run_id, day=number, hits=THIRD if run_id == "r2" else HITS)
    assert call(["load", "bundle"], folder)[0] == 0
    return folder, call(["run"], folder, apart=True)


def asked(folder: Path, *words: str) -> tuple[int, object]:
    code, out, _ = call([*words, "--json"], folder, apart=True)
    return code, json.loads(out)


def values_of(folder: Path) -> dict[str, set[str]]:
    """Metric → the runs that have a value of it."""
    _, rows = asked(folder, "query", "select run_id, metric from run_metrics where slice = ''")
    found: dict[str, set[str]] = {}
    for row in rows:
        found.setdefault(row["metric"], set()).add(row["run_id"])
    return found


def test_run_ends_with_1_and_names_formula_run_query_and_error_once_everything_else_is_there(failed):
    folder, (code, out, err) = failed
    assert code == 1
    assert out.startswith("Computed ")
    assert f"metrics.not_third failed: {WHY}\n" in err
    assert "metrics.half failed: run r2, query q2: it reads metrics.not_third, which failed: Conv" in err
    values = values_of(folder)
    assert values["not_third"] == values["half"] == RUNS - {"r2"}
    assert values["mrr"] == values["hit@10"] == RUNS


def test_what_failed_is_not_tried_again_by_every_run_and_told_by_every_one(failed):
    folder, _ = failed
    code, answer = asked(folder, "run")
    assert (code, answer["cells"], set(answer["failed"])) == (1, {}, {"metrics.not_third", "metrics.half"})


def test_status_counts_it_as_stale_with_its_reason_and_the_check_fails(failed):
    code, status = asked(failed[0], "status", "--check")
    assert code == 1
    assert status["failed"]["metrics.not_third"] == f"failed: {WHY}"
    states = {one["name"]: (one["fresh"], one["stale"], one["reasons"]) for one in status["assets"]}
    assert states["metrics.not_third"] == (3, 1, {"failed": 1})
    assert states["metrics.hit_at_k"] == (4, 0, {})
    assert status["cells"]["missing"] == 0


def test_show_says_why_and_not_that_there_was_nothing_to_apply_to(failed):
    folder, _ = failed
    _, document = asked(folder, "show", "r2")
    assert document["metrics"]["not_third"] == {"value": None, "n": 0}
    assert document["undefined"]["not_third"] == f"failed: {WHY}"
    assert document["metrics"]["hit@10"] == {"value": 1.0, "n": 2}
    _, printed, _ = call(["show", "r2"], folder)
    assert "not_third failed: run r2, query q2: Conversion Error" in printed
    assert "nothing to apply to" not in printed
    assert asked(folder, "show", "r3")[1]["undefined"] == {}


def test_the_page_of_the_run_says_so_too(failed):
    folder, _ = failed
    assert call(["report", "r2", "--output", "page.html"], folder)[0] == 0
    page = (folder / "page.html").read_text("utf-8")
    assert "Failed here" in page
    assert "Could not convert string" in page


def test_the_gate_is_undecided_about_the_rule_that_names_it_and_about_no_other(failed):
    folder, _ = failed
    code, document = asked(folder, "gate", "r2", "--baseline", "r1", "--config", "gate.toml")
    rules = {rule["metric"]: rule for rule in document["rules"] if rule["kind"] != "drift"}
    assert (rules["not_third"]["verdict"], rules["not_third"]["reason"]) == ("inconclusive", f"failed: {WHY}")
    assert rules["hit@10"]["verdict"] == "pass"
    assert document["preconditions"] == []
    assert (code, document["verdict"]) == (4, "inconclusive")


def test_in_dagster_its_asset_failed_and_the_others_are_materialized(failed):
    folder, _ = failed
    with open_home(folder / HOME) as instance:
        runs = instance.get_runs()
        (run,) = [one for one in runs if one.status == dg.DagsterRunStatus.FAILURE]
        shown = {
            name: instance.get_materialized_partitions(dg.AssetKey(name.split(".")))
            for name in (*FEW, "metrics.not_third", "metrics.half")
        }
        said = "".join(
            event.step_failure_data.error.to_string()
            for record in instance.all_logs(run.run_id)
            if (event := record.dagster_event) and event.is_step_failure
        )
    assert shown == {
        **dict.fromkeys(FEW, RUNS),
        **dict.fromkeys(("metrics.not_third", "metrics.half"), RUNS - {"r2"}),
    }
    assert WHY in said


def test_the_runs_are_compared_nevertheless(failed):
    _, rows = asked(failed[0], "status")
    (pairs,) = [one for one in rows["assets"] if one["name"] == "comparisons.pairs"]
    assert (pairs["fresh"], pairs["stale"], pairs["missing"]) == (3, 0, 0)


@pytest.mark.usefixtures("shipped")
def test_a_mended_formula_is_computed_where_it_failed_and_nothing_tells_of_it_any_more(failed, tmp_path):
    folder = tmp_path / "mended"
    shutil.copytree(failed[0], folder)
    (folder / "sql" / "metrics" / "not_third.sql").write_text(
        OWN.replace("cast('x' || first_rank as double)", "0")
    )
    code, answer = asked(folder, "run")
    assert (code, answer["runs"], answer["failed"]) == (0, ["r2"], {})
    code, status = asked(folder, "status")
    assert status["failed"] == {}
    assert asked(folder, "show", "r2")[1]["metrics"]["not_third"]["value"] == 0.5


@pytest.mark.slow
@pytest.mark.usefixtures("shipped")
def test_a_formula_that_is_broken_later_loses_its_value_to_the_reason_and_keeps_it_in_the_history(
    failed, tmp_path
):
    folder = tmp_path / "broken"
    shutil.copytree(failed[0], folder)
    (folder / "sql" / "metrics" / "not_third.sql").write_text(OWN.replace("first_rank = 3", "first_rank > 0"))
    code, answer = asked(folder, "run", "--all")
    assert (code, set(answer["failed"])) == (1, {"metrics.not_third", "metrics.half"})
    assert "not_third" not in values_of(folder)
    assert asked(folder, "show", "r3", "--as-of", "2999-01-01")[0] == 0
    _, rows = asked(folder, "query", "select distinct metric from ledger.aggregate_history order by metric")
    assert [row["metric"] for row in rows] == ["half", "not_third"]


@pytest.mark.usefixtures("shipped")
def test_the_words_of_an_error_are_forgotten_with_the_texts_that_they_may_quote(failed, tmp_path):
    folder = tmp_path / "forgotten"
    shutil.copytree(failed[0], folder)
    assert call(["forget", "r2", "--text", "--yes", "--no-compact"], folder)[0] == 0
    assert asked(folder, "query", "select count(*) as n from ledger.failures") == (0, [{"n": 0}])
