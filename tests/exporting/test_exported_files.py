"""`export RUN_ID --to DIR`."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from eval_pipeline.cli.main import main
from eval_pipeline.computing.measure import measure
from eval_pipeline.documents import as_json
from eval_pipeline.errors import UnknownName, UsageError
from eval_pipeline.exporting.documents import export_run
from eval_pipeline.formulas.registry import load_registry
from eval_pipeline.loading.load import load_bundles
from eval_pipeline.metrics import compute_aggregate_metrics
from eval_pipeline.showing.show import show_queries, show_run
from eval_pipeline.store.project import Project
from tests.computing.building import NOW, ONE_FORMULA, settings_in, write_golden, write_run
from tests.projects import project_of

JUDGE = {"model": "judge", "version": "2026-01-01", "temperature": 0, "prompt_version": "judge prompt 7"}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Project:
    folder = tmp_path_factory.mktemp("exported")
    write_golden(folder, ["q2", "q1", "q3"])
    write_run(
        folder,
        "full",
        results=[
            {
                "query_id": "q1",
                "hits_top_k": [],
                "latency_ms": {"total": 5.5},
                "judge": {"tokens": {"prompt": 3}, "input": {"question": "ü?", "context": ["text of a"]}},
            },
            {
                "query_id": "q2",
                "hits_top_k": ["a"],
                "answer": {"text": "x"},
                "judge": {"input": "How good is x?"},
            },
        ],
        extractions=[
            {"case_id": "1", "ground_truth": {"a": 1, "b": 2}, "extracted": {"a": 1, "b": 3}},
            {"case_id": "2", "ground_truth": {}, "extracted": {}},
            {"case_id": "3", "error": "crashed"},
        ],
        config={"judge": JUDGE, "top_k": 5, "of our own": {"temperature": 0.25}, "format": "ours"},
    )
    write_run(folder, "bare", results=[])
    settings = settings_in(folder, ONE_FORMULA + '[formulas.extraction]\nfn_policy = "table"\n')
    registry = load_registry(settings)
    load_bundles([folder], project_of(settings, now=NOW))
    measure(project_of(settings, registry, now=NOW))
    return project_of(settings, registry)


def read(path: Path) -> object:
    return json.loads(path.read_text("utf-8"))


def test_metrics_json_is_what_show_prints(store: Project, tmp_path: Path) -> None:
    export_run(store, "full", tmp_path / "new" / "folder")
    document = read(tmp_path / "new" / "folder" / "metrics.json")
    assert document == as_json(show_run(store, "full"))
    assert isinstance(document, dict)
    assert {"judge_reliability", "slices", "extraction"} <= set(document)


def test_config_json_is_the_configuration_with_the_exact_prompt_version(
    store: Project, tmp_path: Path
) -> None:
    export_run(store, "full", tmp_path)
    assert read(tmp_path / "config.json") == {
        "format": 1,
        "run_id": "full",
        "dataset": "shop",
        "judge": JUDGE,
        "top_k": 5,
        "of our own": {"temperature": 0.25},
    }


def test_eval_results_json_feeds_the_public_aggregate_and_names_its_formula(
    store: Project, tmp_path: Path
) -> None:
    export_run(store, "full", tmp_path)
    document = read(tmp_path / "eval-results.json")
    assert isinstance(document, dict)
    again = compute_aggregate_metrics(document["eval_results"])
    assert document["aggregate"]["micro"] == again["micro"]
    assert document["aggregate"]["macro"] == again["macro"]
    formula = document["formula"]
    assert (formula["guide_version"], formula["parameters"]) == (
        "1.0.0+fn_policy=table",
        {"fn_policy": "table"},
    )
    assert formula["fingerprint"] == store.definitions().get("metrics.extraction").fingerprint
    first, second = document["eval_results"]
    assert first["field_outcomes"] == {"a": "correct", "b": "wrong_value"}
    assert (first["is_data_error"], second["is_data_error"]) == (False, True)
    assert document["fields"]["b"]["errors"]["wrong_value"] == 1
    assert document["failed_cases"] == ["3"]


def test_a_run_without_extractions_exports_an_empty_list(store: Project, tmp_path: Path) -> None:
    export_run(store, "bare", tmp_path)
    document = read(tmp_path / "eval-results.json")
    assert isinstance(document, dict)
    assert (document["eval_results"], document["aggregate"], document["failed_cases"]) == ([], None, [])
    assert document["formula"]["guide_version"] == "1.0.0+fn_policy=table"


def test_the_parquet_holds_the_unrounded_scores_in_golden_order(store: Project, tmp_path: Path) -> None:
    export_run(store, "full", tmp_path)
    frame = pl.read_parquet(tmp_path / "per_query.parquet")
    lines = list(show_queries(store, "full"))
    assert frame["query_id"].to_list() == [line["query_id"] for line in lines] == ["q2", "q1"]
    for line in lines:
        row = frame.filter(pl.col("query_id") == line["query_id"]).to_dicts()[0]
        assert {key: row[key] for key in line["metrics"]} == line["metrics"]
    assert frame["latency_total_ms"].to_list() == [None, 5.5]
    assert frame["judge_prompt_tokens"].to_list() == [None, 3.0]


def test_the_inputs_of_the_judge_are_written_as_they_were_delivered(store: Project, tmp_path: Path) -> None:
    export_run(store, "full", tmp_path / "full")
    export_run(store, "bare", tmp_path / "bare")
    lines = (tmp_path / "full" / "judge_inputs.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line) for line in lines] == [
        {"run_id": "full", "query_id": "q1", "input": {"question": "ü?", "context": ["text of a"]}},
        {"run_id": "full", "query_id": "q2", "input": "How good is x?"},
    ]
    assert (tmp_path / "bare" / "judge_inputs.jsonl").read_bytes() == b""


def test_a_second_export_replaces_the_first(store: Project, tmp_path: Path) -> None:
    export_run(store, "bare", tmp_path)
    paths = export_run(store, "full", tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted(paths)
    before = [path.read_bytes() for path in paths]
    assert before == [path.read_bytes() for path in export_run(store, "full", tmp_path / "empty")]
    assert [path.read_bytes() for path in export_run(store, "full", tmp_path)] == before


def test_an_export_leaves_foreign_files_as_they_are(store: Project, tmp_path: Path) -> None:
    (tmp_path / "metrics.json").write_text("old", "utf-8")
    with pytest.raises(UsageError, match=r"metrics\.json was not written by this program"):
        export_run(store, "full", tmp_path)
    assert [(path.name, path.read_text("utf-8")) for path in tmp_path.iterdir()] == [("metrics.json", "old")]
    assert (
        json.loads(export_run(store, "full", tmp_path, force=True)[0].read_text("utf-8"))["run_id"] == "full"
    )


def test_an_unknown_run_and_an_impossible_folder_say_so(store: Project, tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="did you mean full"):
        export_run(store, "ful", tmp_path)
    (tmp_path / "file").write_text("", "utf-8")
    with pytest.raises(UsageError, match="cannot be written to"):
        export_run(store, "full", tmp_path / "file" / "below")


def test_the_command_prints_the_files_it_wrote(
    store: Project,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as left:
        main(["export", "full", "--to", "out", "--db", str(store.settings.db), "--json"])
    assert left.value.code == 0
    document = json.loads(capsys.readouterr().out)
    names = ["metrics.json", "config.json", "eval-results.json", "per_query.parquet", "judge_inputs.jsonl"]
    assert [Path(path).name for path in document["files"]] == names
    assert all((tmp_path / path).is_file() for path in document["files"])


def test_show_prints_the_parts_for_people(
    store: Project,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        main(["show", "full", "--no-slices", "--db", str(store.settings.db)])
    printed = capsys.readouterr().out
    assert "macro F1 over 2 cases: target 0.90 not met" in printed
    assert "1 case failed to run and count nowhere: 3" in printed
    assert "latency: p50 6 ms" in printed
    assert "weakest fields: b 0% of 1" in printed
