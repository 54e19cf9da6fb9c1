"""Every number of a page is the number of the document behind it."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from eval_pipeline.cli.main import cli
from eval_pipeline.comparing.compare import compare
from eval_pipeline.comparing.documents import CompareReport
from eval_pipeline.comparing.gate import gate
from eval_pipeline.formulas.registry import load_registry
from eval_pipeline.loading.load import load_bundles
from eval_pipeline.report.numbers import change, value
from eval_pipeline.report.pages.collect import pair_page, run_page, suite_page
from eval_pipeline.report.pages.material import MetricFacts, PairMaterial, RunFacts
from eval_pipeline.report.pages.pair_page import render_pair_page
from eval_pipeline.report.verdict import verdict_on
from eval_pipeline.settings import Settings, default_file, load_settings
from eval_pipeline.showing.show import show_run
from tests.projects import project_of
from tests.report.hostile_world import NOW, World, query_id_of
from tests.report.page_reader import PageReader


@pytest.fixture(scope="session")
def run_document(report_world: World) -> dict[str, Any]:
    return show_run(project_of(report_world.settings, report_world.registry), "run-b")


@pytest.fixture(scope="session")
def pair_document(report_world: World) -> dict[str, Any]:
    return compare(project_of(report_world.settings, report_world.registry), "run-a", "run-b")


def test_every_defined_metric_stands_with_its_value_and_its_n(
    readers: dict[str, PageReader], run_document: dict[str, Any]
) -> None:
    rows = readers["run"].rows("metrics-table")
    defined = {key: entry for key, entry in run_document["metrics"].items() if entry["n"]}
    assert defined
    for key, entry in defined.items():
        assert rows[key][:2] == [value(entry["value"]), f"{entry['n']:,}"]


def test_metrics_of_a_pair_stand_together_as_the_families_that_p_is_adjusted_by(
    readers: dict[str, PageReader], pair_document: dict[str, Any]
) -> None:
    tested = pair_document["significance"]
    shown = [tested[key]["family"] for key in readers["pair"].rows("deltas-table") if key in tested]
    blocks = [family for family, _ in groupby(shown)]
    assert len(blocks) > 3
    assert len(blocks) == len(set(blocks))


def test_every_undefined_metric_stands_apart_with_the_reason(
    readers: dict[str, PageReader], run_document: dict[str, Any], report_world: World
) -> None:
    undefined = [key for key, entry in run_document["metrics"].items() if not entry["n"]]
    rows = readers["run"].rows("undefined-table")
    assert "span_recall" in undefined
    assert sorted(rows) == sorted([*undefined, "metric"])
    applies = report_world.registry.keys()["span_recall"].header.applies
    assert applies is not None
    assert " ".join(applies.split()) in rows["span_recall"][0]


def test_macro_and_micro_stand_with_their_strict_readings_and_the_verdict(
    readers: dict[str, PageReader], run_document: dict[str, Any]
) -> None:
    extraction = run_document["extraction"]
    numbers = [row[1:] for row in readers["run"].tables["extraction-table"][1:]]
    assert numbers == [
        [value(extraction[average][rate]) for rate in ("precision", "recall", "f1")]
        for average in ("macro", "micro", "macro_strict", "micro_strict")
    ]
    assert extraction["target_met"] is False
    assert "target not met" in readers["run"].text
    assert "Metric Computation Guide says, version 1.0.0." in readers["run"].text
    assert "crashed <i>" in readers["run"].text


def test_fields_stand_with_accuracy_and_kinds_of_errors(
    readers: dict[str, PageReader], run_document: dict[str, Any]
) -> None:
    rows = readers["run"].rows("field-accuracy-table")
    # Of three cases that ran one has other rooms, one lacks the heat, and one has something extra.
    assert rows["rooms"] == [
        value(run_document["extraction"]["fields"]["rooms"]["accuracy"]),
        "3",
        "0",
        "0",
        "0",
        "1",
    ]
    assert rows["<b>heat</b>"] == [value(0.6667), "3", "1", "0", "0", "0"]
    assert rows["extra"] == ["—", "0", "0", "1", "0", "0"]


def test_latency_judge_and_indexing_are_those_of_the_document(
    readers: dict[str, PageReader], run_document: dict[str, Any]
) -> None:
    reader, total = readers["run"], run_document["performance"]["latency_ms"]
    times = [f"{total[name]:,.0f}" for name in ("p50", "p95", "mean")]
    assert reader.rows("latency-numbers-table")["total"] == [f"{total['n']}", *times]
    assert reader.rows("coverage-table")["all"][:2] == ["2", "1"]
    assert "<too long>: 1" in reader.text
    assert f"{run_document['judge_reliability']['disagreement_rate']:.1%}" == "37.5%"
    assert "37.5%" in reader.text
    assert "The judge is unstable" in reader.text
    assert "version 'latest' is a moving alias" in reader.text
    assert "1 full score in spite of unsupported claims" in reader.text


def test_a_run_says_first_what_it_came_to_beside_the_night_before(
    readers: dict[str, PageReader], pair_document: CompareReport
) -> None:
    text = readers["run"].text
    said = f"Against the night before, run-a. {verdict_on(pair_document).sentence}"
    assert said in text
    assert text.index(said) < text.index("Headlines")
    places = [str(one.attributes["href"]) for one in readers["run"].named("a")]
    assert "#kind=not%20found" in places


def test_a_tile_of_times_says_what_its_interval_is_of(readers: dict[str, PageReader]) -> None:
    assert re.search(r"latency_mean_ms.*?per query ×\d\.\d\d", readers["pair"].text)


def test_a_run_that_does_not_stand_for_its_night_says_so(report_world: World) -> None:
    page = PageReader(run_page(project_of(report_world.settings, report_world.registry), "run-d-broken"))
    assert "Incomplete: it does not stand for its night. Replaced by run-d." in page.text


def test_missing_and_unknown_queries_are_named(report_world: World, readers: dict[str, PageReader]) -> None:
    page = PageReader(run_page(project_of(report_world.settings, report_world.registry), "run-d-broken"))
    assert "Missing (4)" in page.text
    assert "q15 " in page.text
    assert "nobody knows <me>" in readers["run"].text


def test_formulas_stand_with_version_and_fingerprint(
    readers: dict[str, PageReader], run_document: dict[str, Any]
) -> None:
    rows = readers["run"].rows("formulas-table")
    for name, entry in run_document["formulas"].items():
        assert rows[name][1:] == [str(entry["version"]), entry["fingerprint"], "fresh"]


def test_a_changed_formula_marks_its_values_as_stale(report_world: World, tmp_path: Path) -> None:
    config = tmp_path / "eval-pipeline.toml"
    config.write_text("[formulas.reciprocal_rank]\ncutoff = 2\n", "utf-8")
    settings = load_settings(
        {"EVAL_PIPELINE_DB": str(report_world.settings.db), "EVAL_PIPELINE_CONFIG": str(config)}
    )
    reader = PageReader(run_page(project_of(settings), "run-b"))
    assert reader.rows("formulas-table")["reciprocal_rank"][-1] == "stale: formula"
    assert "mrr stale: formula" in reader.rows("metrics-table")
    assert reader.rows("formulas-table")["hit_at_k"][-1] == "fresh"


def test_deltas_are_those_of_the_comparison(
    readers: dict[str, PageReader], pair_document: dict[str, Any]
) -> None:
    rows = readers["pair"].rows("deltas-table")
    compared = [key for key, entry in pair_document["significance"].items() if entry["n"]]
    assert compared
    for key in compared:
        tested = pair_document["significance"][key]
        assert rows[key][:3] == [value(tested["a"]), value(tested["b"]), change(tested["delta"])]
        assert tested["delta"] == round(tested["b"] - tested["a"], 4)


def test_counts_and_warnings_are_those_of_the_comparison(
    readers: dict[str, PageReader], pair_document: dict[str, Any]
) -> None:
    text = readers["pair"].text
    counts = pair_document["counts"]
    for name, key in (("lost", "loss"), ("won", "win"), ("ranked higher", "rank_up")):
        assert counts[key] and f"{counts[key]} {name}" in text
    for warning in pair_document["warnings"]:
        assert warning.replace("`", "") in text


def test_what_moved_stands_first_with_both_hit_lists(
    readers: dict[str, PageReader], pair_document: dict[str, Any]
) -> None:
    kinds = [row[1] for row in readers["pair"].tables["pair-queries"] if len(row) == 6][1:]
    still = [place for place, kind in enumerate(kinds) if kind.startswith(("draw", "not"))]
    moved = [place for place in range(len(kinds)) if place not in still]
    assert len(kinds) == len(pair_document["per_query"])
    assert moved
    assert max(moved) < min(still)
    assert "Retrieved by run-a" in readers["pair"].text
    assert "hit 17 </script><img src=x" in readers["pair"].text


def test_runs_of_two_chunkers_explain_how_they_were_matched(
    readers: dict[str, PageReader], report_world: World
) -> None:
    document = compare(project_of(report_world.settings, report_world.registry), "run-a", "run-c")
    rows = readers["fallback"].rows("deltas-table")
    metrics = document["fallback_metrics"]
    for key in ("hit@1", "mrr"):
        assert rows[f"{key} by document and span"][:3] == [
            value(metrics["a"][key]),
            value(metrics["b"][key]),
            change(metrics["deltas"][key]),
        ]
    assert "are not known to be chunked alike" in readers["fallback"].text
    assert readers["fallback"].rows("deltas-table")["hit@5"][3] == "not comparable"


def test_the_table_of_ranks_has_the_newer_run_down_as_the_picture_beside_it(
    readers: dict[str, PageReader], pair_document: dict[str, Any]
) -> None:
    asked = [
        one for one in pair_document["per_query"] if one["kind"] not in ("not_applicable", "not_comparable")
    ]
    found, lost = (
        sum((one[place] is None, one[other] is None) == (False, True) for one in asked)
        for place, other in (("b_hit_rank", "a_hit_rank"), ("a_hit_rank", "b_hit_rank"))
    )
    assert found != lost
    head, *rows = readers["pair"].tables["rank-numbers-table"]
    assert head[0] == "rank in run-b ↓, in run-a →"
    # The last row is what the newer run did not find, the last column what the older one did not.
    assert sum(int(one.replace("·", "0")) for one in rows[-1][1:-1]) == lost
    assert sum(int(row[-1].replace("·", "0")) for row in rows[:-1]) == found


def test_only_what_both_runs_recorded_is_called_the_same(readers: dict[str, PageReader]) -> None:
    judge = "judge, judge version, judge temperature, judge prompt"
    unknown = "Not recorded: prompt, language model."
    assert f"The same: chunker, embedding, {judge}. {unknown}" in readers["pair"].text
    assert f"Differs: chunker. The same: embedding, {judge}. {unknown}" in readers["fallback"].text
    assert "Differs" not in readers["pair"].text


def test_settings_that_the_line_of_trust_does_not_speak_of_are_named_where_they_differ(
    pair_document: Any,
) -> None:
    facts = RunFacts(
        "a", "d", None, None, None, None, None, None, None, {"prompt_version": "p1", "folder": "off"}
    )
    other = replace(facts, run_id="b", config={"prompt_version": "p2", "folder": "on"})
    page = PageReader(render_pair_page(PairMaterial(pair_document, (facts, other), []))).text
    assert "Also different: folder off → on." in page
    assert (
        "Also different"
        not in PageReader(render_pair_page(PairMaterial(pair_document, (facts, facts), []))).text
    )


def test_without_a_verdict_the_gate_lets_pass_what_is_drawn_at_the_least(
    report_world: World, pair_document: Any
) -> None:
    """A margin that nobody wrote grows with what the queries do not resolve, which the gate alone works out."""
    facts = RunFacts("run-a", "attic", None, None, None, None, None, None, None, {})
    hit = MetricFacts("hit@5", "hit_at_k", "hit", "Hits", None, None, "binary", (0, 1), "higher")
    material = PairMaterial(pair_document, (facts, facts), [hit], margins={"hit@5": 0.02})
    verdict = gate(project_of(report_world.settings, report_world.registry), "run-b", "run-a")
    said = "Dashed: the loss that the gate lets pass"
    assert f"{said} at the least." in PageReader(render_pair_page(material)).text
    assert f"{said}." in PageReader(render_pair_page(replace(material, gate=verdict))).text


def test_no_text_leaves_out_questions_answers_errors_and_chunks(report_world: World) -> None:
    settings, registry = report_world.settings, report_world.registry
    for page in (
        run_page(project_of(settings, registry), "run-b", with_text=False),
        pair_page(project_of(settings, registry), "run-a", "run-b", with_text=False),
    ):
        text = PageReader(page).text
        for word in ("question 3", "hit 17", "archived 3", "yes <script>", "Error:"):
            assert word not in text
        assert query_id_of(2) in text
        assert "c17" in text


@pytest.mark.slow
def test_the_same_store_gives_the_same_bytes(report_world: World, pages: dict[str, str]) -> None:
    settings, registry = report_world.settings, report_world.registry
    assert run_page(project_of(settings, registry), "run-b") == pages["run"]
    assert pair_page(project_of(settings, registry), "run-a", "run-b") == pages["pair"]
    assert suite_page(project_of(settings, registry), suite="nights") == pages["suite"]


def test_the_command_writes_the_page_and_prints_where(report_world: World) -> None:
    output = report_world.folder / "somewhere" / "page.html"
    found = CliRunner().invoke(
        cli, ["report", "run-b", "--db", str(report_world.settings.db), "--output", str(output)]
    )
    assert found.exit_code == 0, found.output
    assert found.stdout == f"{output}\n"
    assert output.read_text("utf-8").startswith("<!doctype html>")
    assert [path.name for path in output.parent.iterdir()] == ["page.html"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["a", "b", "c"], "not of 3"),
        (["run-b", "--suite", "nights"], "no such name is given"),
        (["nowhere"], "no run named"),
        (["--suite", "nowhere"], "no suite named"),
    ],
)
def test_a_call_that_makes_no_sense_says_why(report_world: World, arguments: list[str], said: str) -> None:
    found = CliRunner().invoke(cli, ["report", *arguments, "--db", str(report_world.settings.db)])
    assert found.exit_code != 0
    assert said in found.output + str(found.exception)


def test_pages_are_named_after_what_they_show(report_world: World) -> None:
    settings: Settings = report_world.settings
    names = [
        default_file(settings, ["run-a"], None),
        default_file(settings, ["run-a", "run-b"], None),
        default_file(settings, [], None),
        default_file(settings, [], "nights"),
    ]
    assert [path.name for path in names] == [
        "run-a.html",
        "run-a..run-b.html",
        "suites.html",
        "suite-nights.html",
    ]
    odd = {default_file(settings, [], name) for name in ("../up", "a/b", "a b", "a\\b")}
    assert len(odd) == 4
    assert all(path.parent == settings.reports for path in odd)


def test_a_run_that_was_not_computed_has_a_page_all_the_same(report_world: World, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    shutil.copytree(report_world.folder / "bundle" / "datasets", bundle / "datasets")
    shutil.copytree(report_world.folder / "bundle" / "runs" / "run-b", bundle / "runs" / "run-b")
    settings = load_settings({"EVAL_PIPELINE_DB": str(tmp_path / "e.duckdb")})
    load_bundles([bundle], project_of(settings, now=NOW))
    reader = PageReader(run_page(project_of(settings), "run-b"))
    assert "No headline metric is defined" in reader.text
    assert "missing:" in reader.text
    assert json.dumps("run-b").strip('"') in reader.text


def test_a_run_without_a_golden_set_is_shown_as_such(report_world: World, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    shutil.copytree(report_world.folder / "bundle" / "runs" / "run-b", bundle / "runs" / "run-b")
    settings = load_settings({"EVAL_PIPELINE_DB": str(tmp_path / "e.duckdb")})
    load_bundles([bundle], project_of(settings, now=NOW))
    registry = load_registry(settings)
    run = PageReader(run_page(project_of(settings, registry), "run-b"))
    assert run.rows("formulas-table")["hit_at_k"][-1] == "missing"
    suite = PageReader(suite_page(project_of(settings, registry)))
    assert "no golden set" in suite.text
