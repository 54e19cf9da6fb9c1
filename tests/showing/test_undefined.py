"""Why a metric has no value: the part that is taken away is the reason, and what stays short names each part once."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from eval_pipeline.cli.main import cli
from eval_pipeline.comparing.compare import compare
from eval_pipeline.comparing.documents import CompareReport
from eval_pipeline.comparing.pair_states import PAIR_FACTS
from eval_pipeline.settings import Settings
from eval_pipeline.showing.run_report import RunReport
from eval_pipeline.showing.show import show_run
from eval_pipeline.showing.undefined import in_short, undefined_of
from eval_pipeline.store.runs import find_run
from tests.bundle_files import compute, load, settings_in, write_archive, write_golden, write_run
from tests.projects import open_reader, project_of, registry_of, store_with

# Every definition over fifteen datasets.
pytestmark = pytest.mark.slow

Row = dict[str, Any]
SUPPORTS = [{"rel_path": "work/a.md", "recency": "newer"}, {"rel_path": "work/b.md"}]
ASKED: Row = {
    "expected_chunk_ids": ["d/a"],
    "expected_doc_ids": ["d"],
    "grades": {"d/a": 2},
    "must_contain": ["42"],
    "gold_supports": SUPPORTS,
    "required_support_groups": [[0, 1]],
    "multi_hop": True,
    "category": "recency/conflict",
    "recency_conflict_rule": "cite_newer",
    "ground_truth_spans": [{"doc_id": "d", "start": 0, "end": 9}],
}
REFUSED: Row = {"expected_doc_ids": [], "answerable": False}
SCORES = {"groundedness": {"score": 4}, "correctness": {"score": 3}}
RESULT: Row = {
    "hits_top_k": [
        {
            "chunk_id": "d/a",
            "doc_id": "d",
            "rel_path": "work/a.md",
            "source_spans": [{"start": 0, "end": 9}],
        }
    ],
    "folder_mode": "on",
    "selected_folders": ["work"],
    "answer": {
        "text": "42",
        "grounded": True,
        "abstained": False,
        "citations": [{"citation": "d/a"}],
        "references": [{"rel_path": "work/a.md"}],
    },
    "judge": SCORES,
}
Change = Callable[[Row, Row, Row], None]


def without(*names: str) -> Change:
    """Both queries' labels without these, and their results too."""

    def change(*rows: Row) -> None:
        for row in rows:
            for name in names:
                row.pop(name, None)

    return change


def answer_without(*names: str) -> Change:
    def change(_: Row, __: Row, result: Row) -> None:
        for name in names:
            result["answer"].pop(name)

    return change


def failing(_: Row, __: Row, result: Row) -> None:
    result["error"] = "late"


OF_CHUNKS = {f"hit@{k}" for k in (1, 3, 5, 10)} | {"mrr", "chunk_recall", "chunk_precision", "chunk_f1"}
OF_SUPPORTS = {
    *(f"{name}@{k}" for k in (1, 3, 5, 10) for name in ("recall_any", "precision")),
    *("mrr_anchor", "attribution_hit_rate", "recency_conflict_ok", "scope_miss_rate"),
}
MULTI_HOP = {f"recall_all@{k}" for k in (1, 3, 5, 10)}
ABSTAINING = {"abstention_accuracy", "hallucination_rate_unanswerable"}
JUDGED = {"judge_groundedness", "judge_correctness"}
TAKEN: dict[str, tuple[Change, str, set[str]]] = {
    "chunks": (without("expected_chunk_ids"), "no expected chunks", OF_CHUNKS),
    "supports": (
        without("gold_supports", "required_support_groups"),
        "no gold supports",
        OF_SUPPORTS | MULTI_HOP,
    ),
    "grades": (without("grades"), "no judged labels", {f"judged@{k}" for k in (1, 3, 5, 10)}),
    "multi-hop": (without("multi_hop"), "no multi-hop queries", MULTI_HOP),
    "spans": (without("ground_truth_spans"), "no spans", {"span_recall", "span_precision", "span_iou"}),
    "texts": (without("must_contain"), "no required or forbidden texts", {"groundedness"}),
    "rules": (without("recency_conflict_rule"), "no conflict rules", {"recency_conflict_ok"}),
    "answers": (without("answer"), "no answers", {"groundedness", "recency_conflict_ok"}),
    "grounds": (answer_without("grounded"), "no grounded answers", {"citation_coverage"}),
    "abstaining": (answer_without("abstained"), "no word on abstaining", ABSTAINING),
    "judge": (without("judge"), "no judge scores", JUDGED),
    "folders": (without("selected_folders"), "no selected folders", {"scope_miss_rate"}),
    "failed": (failing, "no query without an error", JUDGED),
}


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """A dataset and a run with everything; beside it for each part one that lacks this part alone."""
    folder = tmp_path_factory.mktemp("undefined")
    bundle = folder / "bundle"
    write_archive(bundle, "v1", [{"chunk_id": "d/a", "doc_id": "d"}], dataset=None)
    for name, (change, _, _) in {"whole": (without(), "", set()), **TAKEN}.items():
        asked, refused, result = (copy.deepcopy(row) for row in (ASKED, REFUSED, RESULT))
        change(asked, refused, result)
        write_golden(bundle, [{"query_id": "a", **asked}, {"query_id": "r", **refused}], dataset=name)
        write_run(bundle, name, [{"query_id": query, **result} for query in "ar"], dataset=name)
    write_run(bundle, "early", [{"query_id": "a"}], dataset="unknown")
    settings = settings_in(folder)
    assert load(settings, bundle).problems == []
    compute(settings)
    return settings


def undefined_in(settings: Settings, run_id: str) -> dict[str, str]:
    found: dict[str, str] = show_run(project_of(settings), run_id)["undefined"]
    return found


def test_where_everything_is_delivered_nothing_is_undefined(settings: Settings) -> None:
    assert undefined_in(settings, "whole") == {}


@pytest.mark.parametrize("name", TAKEN)
def test_what_is_taken_away_is_the_reason(settings: Settings, name: str) -> None:
    _, reason, metrics = TAKEN[name]
    found = undefined_in(settings, name)
    assert {key for key, why in found.items() if why == reason} >= metrics


@pytest.mark.parametrize("name", TAKEN)
def test_every_metric_without_a_value_has_a_reason_and_no_other(settings: Settings, name: str) -> None:
    document = show_run(project_of(settings), name)
    assert [key for key, entry in document["metrics"].items() if not entry["n"]] == list(
        document["undefined"]
    )
    assert "undefined" in document


def test_a_run_without_a_golden_set_says_how_to_load_one_where_labels_are_asked_for(
    settings: Settings,
) -> None:
    found = undefined_in(settings, "early")
    reasons = {why for why in found.values() if why.startswith("no golden set for dataset unknown: ")}
    assert len(reasons) == 1 and "--golden --dataset unknown" in reasons.pop()
    assert found["mrr"].startswith("no golden set")
    assert found["judge_correctness"] == "no judge scores"


def test_only_what_is_asked_for_is_answered(settings: Settings) -> None:
    with open_reader(settings.db) as con:
        run = find_run(con, "spans")
        assert undefined_of(store_with(con, registry_of(settings)), run, ["span_iou"]) == {
            "span_iou": "no spans"
        }


def test_the_terminal_names_the_parts_once_and_lists_the_metrics_when_asked(settings: Settings) -> None:
    def shown(*options: str) -> str:
        result = CliRunner().invoke(cli, ["show", "spans", "--db", str(settings.db), "--no-slices", *options])
        assert result.exit_code == 0, result.output
        return result.stdout

    assert "no spans: 8 metrics; `--undefined` lists them" in shown()
    assert "span_iou" not in shown()
    assert "span_iou         no spans" in shown("--undefined")
    assert msgspec.json.decode(shown("--json"), type=RunReport).undefined["span_iou"] == "no spans"


def pair(settings: Settings, run_a: str, run_b: str) -> CompareReport:
    return compare(project_of(settings), run_a, run_b)


def test_two_runs_that_lack_the_same_give_its_reason_and_else_each_says_in_which_run(
    settings: Settings,
) -> None:
    assert pair(settings, "spans", "spans").undefined == undefined_in(settings, "spans")
    one_sided = {key: f"{why} in judge" for key, why in undefined_in(settings, "judge").items()}
    assert pair(settings, "whole", "judge").undefined == one_sided
    found = pair(settings, "answers", "rules").undefined
    assert found["recency_conflict_ok"] == "no answers in answers, no conflict rules in rules"


def test_every_metric_without_a_value_in_one_of_two_runs_has_a_reason_and_no_other(
    settings: Settings,
) -> None:
    report = pair(settings, "judge", "chunks")
    valued = [
        key
        for key in report.aggregate_a
        if report.aggregate_a[key] is not None and report.aggregate_b[key] is not None
    ]
    assert valued and set(report.undefined) == set(report.aggregate_a) - set(valued)
    assert list(report)[-2:] == ["undefined", "trust"]


def test_what_both_runs_say_of_other_queries_is_undefined_where_only_common_ones_count(
    settings: Settings, tmp_path: Path
) -> None:
    bundle, own = tmp_path / "bundle", settings_in(tmp_path)
    write_golden(bundle, [{"query_id": query, **ASKED} for query in "ab"])
    for query in "ab":
        write_run(bundle, f"of-{query}", [{"query_id": query, **RESULT}], config={"chunker_version": "v1"})
    load(own, bundle)
    compute(own, definitions=[*PAIR_FACTS, "aggregates.run_metrics:metrics.hit_at_k"])
    own.config.write_text('[comparison]\ndelta_scope = "common"\n')
    assert pair(own, "of-a", "of-b").undefined["hit@1"] == "no query of both runs with a value"


def test_a_comparison_on_the_terminal_is_as_short(settings: Settings) -> None:
    def shown(*options: str) -> str:
        result = CliRunner().invoke(cli, ["compare", "spans", "whole", "--db", str(settings.db), *options])
        assert result.exit_code == 0, result.output
        return result.stdout

    assert "no spans in spans: 8 metrics; `--undefined` lists them" in shown()
    assert "span_iou         no spans in spans" in shown("--undefined")
    assert json.loads(shown("--json"))["undefined"]["span_iou"] == "no spans in spans"


def test_few_parts_are_named_and_what_is_missing_most_comes_first() -> None:
    assert in_short({"a": "no x", "b": "no y; it applies where z", "c": "no y"}) == "no y, no x: 3 metrics"
    assert in_short({str(n): f"no {n}" for n in range(9)}) == "no 0, no 1, no 2, no 3 …: 9 metrics"
