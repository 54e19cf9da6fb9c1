"""An extraction case that a run should hold and does not is never averaged away."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.comparing.compare import compare
from eval_pipeline.comparing.gate import gate
from eval_pipeline.errors import InvalidConfig
from eval_pipeline.exporting.documents import export_run
from eval_pipeline.formulas.registry import load_registry
from eval_pipeline.loading.context import LoadOptions
from eval_pipeline.loading.inbox import look_into, waiting_sources
from eval_pipeline.loading.load import load_bundles
from eval_pipeline.loading.quarantine import find_quarantine, retry_quarantine
from eval_pipeline.report.markdown import render_report_md
from eval_pipeline.report.pages.collect import run_page
from eval_pipeline.report.pages.writing import due_pages, publish_pages
from eval_pipeline.settings import Settings
from eval_pipeline.showing.checks import missed_extraction_targets
from eval_pipeline.showing.show import show_run
from eval_pipeline.upkeep.forget import Request, forget
from eval_pipeline.upkeep.rebuild import rebuild
from tests.bundle_files import Row, ask, day, load, settings_in, write_lines
from tests.comparing.extracted import BAD, GOOD, TRUTH, store_of_cases
from tests.few_definitions import OF_EVERY_KIND
from tests.projects import open_reader, project_of, registry_of, store_with

SHIPS = OF_EVERY_KIND

LISTED = [{"case_id": case["case_id"], "ground_truth": TRUTH} for case in (*GOOD, BAD)]
SAID = "1 of 5 expected cases is missing: e5"
FIVE, FOUR = "five", "four"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five cases, of which the fifth fails by half, and the night after the same without the fifth."""
    folder = tmp_path_factory.mktemp("missing")
    store_of_cases(folder, {FIVE: [*GOOD, BAD], FOUR: GOOD})
    return folder


@pytest.fixture
def settings(made: Path, tmp_path: Path) -> Iterator[Settings]:
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    yield settings_in(tmp_path)


def listed(settings: Settings, cases: list[Row] | None = None, *, on: int = 3, **options: Any) -> Any:
    """Deliver which cases are expected."""
    bundle = settings.db.parent / f"list-{on}"
    write_lines(bundle / "datasets" / "forms" / "cases.jsonl", LISTED if cases is None else cases)
    return load_bundles([bundle], project_of(settings, now=day(on)), options=LoadOptions(**options))


def numbered(settings: Settings, number: int) -> None:
    settings.config.write_text(f"[datasets.forms]\nextraction_cases = {number}\n", "utf-8")


def shown(settings: Settings, run_id: str = FOUR) -> Any:
    return show_run(project_of(settings), run_id)["extraction"]


def judged(settings: Settings, candidate: str = FOUR, baseline: str = FIVE) -> Any:
    return gate(project_of(settings), candidate, baseline)


def expectation(extraction: Any) -> tuple[Any, ...]:
    names = ("expected_cases", "missing_cases", "expected_by", "target_met", "missing_in_words")
    return tuple(extraction[name] for name in names)


def test_a_case_of_earlier_runs_that_is_missing_leaves_target_and_gate_open(settings: Settings) -> None:
    assert expectation(shown(settings, FIVE)) == (None, [], None, True, None)
    *counts, said = expectation(shown(settings))
    assert counts == [5, ["e5"], "earlier runs", None]
    assert said.startswith("1 of 5 cases of earlier runs is missing: e5; declare the expected cases")
    (rule,) = judged(settings)["rules"]
    assert (rule["verdict"], rule["reason"]) == ("inconclusive", said)
    assert "1 of 5 cases of earlier runs is missing: e5" in run_page(project_of(settings), FOUR)


def test_a_listed_case_that_is_missing_leaves_target_and_gate_open(settings: Settings) -> None:
    before = shown(settings)
    listed(settings)
    after = shown(settings)
    assert expectation(after) == (5, ["e5"], "cases.jsonl", None, SAID)
    assert (after["macro"], after["eval_count"]) == (before["macro"], before["eval_count"]) != ({}, 0)
    found = judged(settings)
    (rule,) = found["rules"]
    assert (found["verdict"], rule["verdict"], rule["reason"]) == ("inconclusive", "inconclusive", SAID)
    page = run_page(project_of(settings), FOUR)
    assert SAID in page and "target undecided" in page and "target met" not in page
    with open_reader(settings.db) as con:
        assert missed_extraction_targets(store_with(con, registry_of(settings)), None) == {
            FOUR: f"undecided: {SAID}"
        }


def test_whoever_holds_all_listed_cases_is_judged_as_ever(settings: Settings) -> None:
    listed(settings)
    assert expectation(shown(settings, FIVE)) == (5, [], "cases.jsonl", True, None)
    assert judged(settings, FIVE, FOUR)["verdict"] == "pass"


def test_a_number_in_the_configuration_says_how_many(settings: Settings) -> None:
    numbered(settings, 6)
    assert expectation(shown(settings, FIVE))[:4] == (6, 1, "extraction_cases", None)
    assert expectation(shown(settings))[1] == 2
    assert judged(settings)["rules"][0]["reason"] == "2 of 6 expected cases are missing"
    listed(settings)
    assert expectation(shown(settings))[:2] == (5, ["e5"])


@pytest.mark.parametrize("number", ["0", "true", '"five"'])
def test_a_number_that_counts_nothing_is_refused(settings: Settings, number: str) -> None:
    settings.config.write_text(f"[datasets.forms]\nextraction_cases = {number}\n", "utf-8")
    with pytest.raises(InvalidConfig, match="extraction_cases is"):
        load_registry(settings)


def test_exported_results_say_what_is_missing(settings: Settings, tmp_path: Path) -> None:
    listed(settings)
    export_run(project_of(settings), FOUR, tmp_path / "out")
    results = json.loads((tmp_path / "out" / "eval-results.json").read_text("utf-8"))
    assert expectation(results["aggregate"])[:2] == (5, ["e5"])
    assert results["aggregate"]["target_met"] is None


def test_a_comparison_names_the_cases_of_one_run_and_tests_those_of_both(settings: Settings) -> None:
    document = compare(project_of(settings), FIVE, FOUR)
    cases = document["cases"]
    assert (cases["only_in_a"], cases["only_in_b"], cases["in_both"]) == (["e5"], [], 4)
    (warning,) = document["warnings"]
    assert warning.startswith("1 case only in five: e5;") and "macro F1 moved by 0.0000" in warning
    tested = document["parts"]["extraction.macro_f1"]
    assert (tested["n"], tested["p_value"], cases["macro_f1_delta_in_both"]) == (4, 1, 0)
    assert tested["delta"] != 0 == tested["delta_in_both"]
    text = render_report_md(document)
    assert re.search(r"extraction.macro_f1 \| .* \| 0\.0000 \| ", text)
    # That four cases agree is not to say that no other would differ.
    assert tested["ci_low"] == -tested["ci_high"] < -0.5
    other = compare(project_of(settings), FOUR, FIVE)
    assert other["cases"]["only_in_b"] == ["e5"]


def test_a_list_moves_no_value_and_makes_nothing_stale(settings: Settings) -> None:
    cells = (
        "select definition, run_key, fingerprint, results_hash, labels_hash from ledger.cells order by all"
    )
    before = ask(settings, cells), ask(settings, "from aggregates.extraction_summary order by all")
    listed(settings)
    assert (ask(settings, cells), ask(settings, "from aggregates.extraction_summary order by all")) == before
    states = show_run(project_of(settings), FOUR)["states"]
    assert not [one for one in states if one["state"] == "stale"]


def test_the_same_list_again_changes_nothing_and_another_takes_its_place(settings: Settings) -> None:
    assert listed(settings).case_lists == ["forms"]
    assert (again := listed(settings)).case_lists == [] and again.unchanged == 1
    assert listed(settings, LISTED[:4], on=4).case_lists == ["forms"]
    assert expectation(shown(settings))[:4] == (4, [], "cases.jsonl", True)
    deliveries = ask(
        settings,
        "select n_rows, superseded_at is null from ledger.deliveries where part = 'cases' order by all",
    )
    assert deliveries == [(4, True), (5, False)]


@pytest.mark.parametrize(
    ("cases", "reason"),
    [
        ([{"case_id": "e1"}, {"case_id": 2}], "expected text"),
        ([{"case_id": "e1"}, {"case_id": "e1"}], "twice"),
        ([], "names no case"),
    ],
)
def test_a_list_that_cannot_be_read_in_full_expects_nothing(
    settings: Settings, cases: list[Row], reason: str
) -> None:
    report = listed(settings, cases)
    assert (report.case_lists, report.quarantined) == ([], 1)
    (entry,) = find_quarantine(project_of(settings))
    assert reason in entry["reason"]
    assert expectation(shown(settings))[2] == "earlier runs"
    listed(settings)
    assert find_quarantine(project_of(settings)) == []


def test_a_bad_list_stays_in_quarantine_beside_the_one_that_holds(settings: Settings) -> None:
    listed(settings)
    listed(settings, [], on=4)
    assert len(find_quarantine(project_of(settings))) == 1
    assert expectation(shown(settings))[:3] == (5, ["e5"], "cases.jsonl")
    listed(settings, LISTED[:4], on=4)
    assert find_quarantine(project_of(settings)) == []


def test_two_packings_of_a_list_wait_in_quarantine_until_one_is_gone(settings: Settings) -> None:
    listed(settings)
    folder = settings.db.parent / "list-4" / "datasets" / "forms"
    write_lines(folder / "cases.jsonl", LISTED[:4])
    (folder / "cases.jsonl.gz").write_bytes(gzip.compress(b'{"case_id": "e1"}\n'))
    load(settings, settings.db.parent / "list-4", on=4)
    assert [
        entry["reason"].endswith("keep one of them") for entry in find_quarantine(project_of(settings))
    ] == [True]
    (folder / "cases.jsonl.gz").unlink()
    retry_quarantine(project_of(settings, now=day(5)))
    assert find_quarantine(project_of(settings)) == []
    assert expectation(shown(settings))[0] == 4


def test_lint_tells_missing_cases_and_ground_truths_that_differ(settings: Settings) -> None:
    other = [LISTED[0] | {"ground_truth": TRUTH | {"field-0": 7}}, *LISTED[1:]]
    same = [row | {"ground_truth": {name: float(value) for name, value in TRUTH.items()}} for row in LISTED]
    found = {(one.rule, one.run_id) for one in listed(settings, other).warnings}
    assert found == {
        ("missing_cases", FOUR),
        ("ground_truth_differs", FIVE),
        ("ground_truth_differs", FOUR),
    }
    assert {one.rule for one in listed(settings, same, on=4).warnings} == {"missing_cases"}
    assert [row[:1] for row in ask(settings, "select rule from lint")] == [("missing_cases",)]


def test_it_comes_back_with_a_rebuild(settings: Settings) -> None:
    listed(settings)
    rebuild(project_of(settings, now=day(5)))
    rows = "select case_no, ground_truth_hash is null from ledger.expected_cases order by all"
    assert ask(settings, rows) == [(number, False) for number in range(1, 6)]


def kept_lists(settings: Settings) -> list[str]:
    import zstandard

    return [
        zstandard.ZstdDecompressor().stream_reader(path.open("rb")).read().decode()
        for path in sorted(settings.db.with_name(settings.db.name + ".deliveries").rglob("cases.jsonl.zst"))
    ]


def test_forgetting_a_dataset_takes_its_list_along(settings: Settings) -> None:
    listed(settings)
    forget(project_of(settings, now=day(4)), Request("dataset", "forms"), compacts=False)
    assert ask(settings, "from ledger.expected_cases") == ask(settings, "from raw.case_ids") == []
    assert kept_lists(settings) == []
    assert listed(settings, on=5).forgotten == ["forms"]


def test_forgetting_texts_leaves_the_names_of_the_cases(settings: Settings) -> None:
    listed(settings)
    forget(
        project_of(settings, now=day(4)),
        Request("dataset", "forms", text=True),
        compacts=False,
    )
    hashes = "select distinct ground_truth_hash from ledger.expected_cases"
    assert ask(settings, hashes) == [("",)]
    assert expectation(shown(settings))[:2] == (5, ["e5"])
    (kept,) = kept_lists(settings)
    assert "e5" in kept and "field" not in kept
    rebuild(project_of(settings, now=day(5)))
    assert ask(settings, hashes) == [(None,)]


def test_a_list_taken_in_without_texts_keeps_names_alone(settings: Settings) -> None:
    listed(settings, no_text=True)
    assert ask(settings, "select distinct ground_truth_hash from ledger.expected_cases") == [(None,)]
    (kept,) = kept_lists(settings)
    assert "e5" in kept and "field" not in kept
    assert listed(settings).case_lists == ["forms"]


def test_a_page_from_before_a_list_is_published_again(settings: Settings) -> None:
    registry = registry_of(settings)
    own = replace(settings, reports=settings.db.parent / "reports")
    before = day(2).replace(tzinfo=dt.UTC).timestamp()
    for page in publish_pages(project_of(own, registry)).pages:
        os.utime(page.path, (before, before))
    with open_reader(own.db) as con:
        assert due_pages(store_with(con, registry), own) == []
    listed(own)
    with open_reader(own.db) as con:
        assert {page.runs for page in due_pages(store_with(con, registry), own)} >= {(FIVE,), (FOUR,)}


def test_a_list_in_the_inbox_waits_until_it_is_taken_in(settings: Settings) -> None:
    inbox = settings.db.parent / "inbox"
    write_lines(inbox / "datasets" / "forms" / "cases.jsonl", LISTED)
    with open_reader(settings.db) as con:
        waiting = waiting_sources(con, look_into(inbox))
    assert waiting.datasets == ("forms",)
    load(settings, *waiting.folders, on=3)
    with open_reader(settings.db) as con:
        assert waiting_sources(con, look_into(inbox)).datasets == ()
