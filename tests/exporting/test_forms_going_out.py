"""`export --format …`: other tools are given what a run found, and what comes back from them has the same numbers."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

import polars as pl
import pytest

from eval_pipeline.computing.measure import measure
from eval_pipeline.exporting.formats import PAGES
from eval_pipeline.settings import load_settings
from eval_pipeline.showing.show import show_queries, show_run
from eval_pipeline.store.project import Project
from tests.called import call
from tests.computing.building import write_lines, write_run
from tests.few_definitions import shipping, write_few
from tests.projects import project_of

FORMULAS = (
    "hit_at_k",
    "reciprocal_rank",
    "recall_at_k_doc",
    "recall_at_k_chunk",
    "empty_results",
    "citation_coverage",
)
SUMMARIES = ("run_metrics", "latency_summary", "judge_summary")
# Ids that are nobody's idea of a cell: blanks of all kinds, what looks like an escape, quotes, tabs.
NBSP, TAB, QUOTED, WRITTEN_OUT = "ein\u00a0Teil", "a\tb", '"c" d', "50%20off"
CHUNKS = ["plain", NBSP, TAB, QUOTED, WRITTEN_OUT, "50 off", "\ufeffstart"]
ARCHIVE = [
    {"chunk_id": name, "doc_id": f"doc of {name}", "text": f"text of {name}", "heading_path": "Top > Sub"}
    for name in CHUNKS
]
GOLDEN = [
    {"query_id": f"q {number}", "query": f"Which {name!r}?", "category": "odd", "expected_chunk_ids": [name]}
    | {"expected_doc_ids": [f"doc of {name}"]}
    for number, name in enumerate(CHUNKS)
] + [
    {"query_id": "refuse", "query": "What is secret?", "expected_chunk_ids": [], "expected_doc_ids": []},
    {"query_id": "open", "query": "What else?"},
    {
        "query_id": "broken",
        "query": "What broke?",
        "expected_chunk_ids": ["plain"],
        "expected_doc_ids": ["x"],
    },
    {"query_id": "nothing", "expected_chunk_ids": ["plain", NBSP], "expected_doc_ids": ["doc of plain"]},
]


def hits(*names: str, scored: bool = True) -> list[dict[str, Any]]:
    return [
        {"chunk_id": name, "doc_id": f"doc of {name}"} | ({"score": 1 / place} if scored else {})
        for place, name in enumerate(names, start=1)
    ]


def results(shift: int, *, scored: bool = True) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [
        {
            "query_id": row["query_id"],
            "hits_top_k": hits(*CHUNKS[number - shift :], *CHUNKS[: number - shift], scored=scored),
            "answer": {"text": f"It is {number}.", "citations": [{"citation": CHUNKS[number]}]},
            "latency_ms": {"total": 10.5 + number, "retrieval": 2.25},
        }
        for number, row in enumerate(GOLDEN[: len(CHUNKS)])
    ]
    return [
        *rows,
        {"query_id": "refuse", "hits_top_k": hits("plain"), "answer": {"abstained": True}},
        {"query_id": "open", "hits_top_k": hits(TAB, "plain")},
        {"query_id": "broken", "error": "crashed\nbadly"},
        {"query_id": "nothing", "hits_top_k": []},
    ]


@pytest.fixture(scope="module", autouse=True)
def few_definitions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    names = [f"metrics.{one}" for one in FORMULAS] + [f"aggregates.{one}" for one in SUMMARIES]
    with shipping(write_few(tmp_path_factory.mktemp("few"), *names)):
        yield


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Project:
    folder = tmp_path_factory.mktemp("going out")
    bundle = folder / "bundle"
    write_lines(bundle / "datasets" / "shop" / "queries.jsonl", GOLDEN)
    write_lines(bundle / "datasets" / "shop" / "inventories" / "v1.jsonl", ARCHIVE)
    config = {"chunker_version": "v1", "llm_model": "small", "judge": {"api_key": "hidden"}}
    shared = {"suite": "nightly", "config": config}
    write_run(bundle, "run-1", results=results(0), created_at="2026-03-01T02:00:00Z", **shared)
    write_run(bundle, "run-2", results=results(2, scored=False), created_at="2026-03-02T02:00:00Z", **shared)
    twice = [{"query_id": "q 0", "hits_top_k": hits(TAB, TAB, "plain")}]
    write_run(bundle, "twice", results=twice, created_at="2026-03-03T02:00:00Z")
    return loaded(folder, "bundle")


def loaded(folder: Path, *words: str) -> Project:
    """A store in this folder, of what is loaded so."""
    settings = load_settings({}, db=folder / "eval.duckdb")
    code, said, _ = call(["load", *words, "--db", str(settings.db)], folder)
    assert code == 0, said
    project = project_of(settings)
    measure(project)
    return project


@dataclass
class Going:
    """What `export` wrote, and what it said."""

    folder: Path
    files: list[str]
    remarks: list[str]

    def text(self, name: str) -> str:
        return (self.folder / name).read_text("utf-8")


@pytest.fixture
def export(store: Project, tmp_path: Path) -> Callable[..., Going]:
    def do(*words: str, target: str = "out") -> Going:
        given = ["export", *words, "--to", target, "--db", str(store.settings.db), "--json"]
        code, said, _ = call(given, tmp_path)
        assert code == 0, said
        found = json.loads(said)
        return Going(tmp_path / target, found["files"], found["remarks"])

    return do


def numbers_of(project: Project, run_id: str) -> dict[str, dict[str, Any]]:
    """query id, as it was before TREC's form → its numbers that are not null."""
    return {
        unquote(row["query_id"]): {key: value for key, value in row["metrics"].items() if value is not None}
        for row in show_queries(project, run_id)
    }


def only(numbers: dict[str, dict[str, Any]], *families: str) -> dict[str, dict[str, Any]]:
    found = {
        query_id: {key: value for key, value in row.items() if key.startswith(families)}
        for query_id, row in numbers.items()
    }
    return {query_id: row for query_id, row in found.items() if row}


def aggregates_of(project: Project, run_id: str, *families: str) -> dict[str, float | None]:
    metrics = show_run(project, run_id).metrics
    return {name: one.value for name, one in metrics.items() if name.startswith(families)}


CHUNK_METRICS = ("hit@", "mrr", "reciprocal_rank")


def assert_same(before: Project, after: Project, run_id: str, *families: str) -> None:
    kept = only(numbers_of(before, run_id), *families)
    assert len(kept) >= len(CHUNKS)
    assert only(numbers_of(after, run_id), *families) == kept
    assert aggregates_of(after, run_id, *families) == aggregates_of(before, run_id, *families)


# ------------------------------------------------------------------ TREC


@pytest.mark.slow
@pytest.mark.parametrize("run_id", ["run-1", "run-2"])
def test_a_run_that_comes_back_from_trec_has_the_same_numbers(store, export, tmp_path, run_id) -> None:
    export(run_id, "--format", "trec")
    words = [f"out/{run_id}.run", "out/shop.qrels", "--dataset", "shop", "--missing", "empty"]
    assert_same(store, loaded(tmp_path, *words), run_id, *CHUNK_METRICS)


def test_documents_that_are_labelled_apart_have_a_run_and_qrels_of_their_own(store, export, tmp_path) -> None:
    export("run-2", "--format", "trec")
    words = ["out/documents/run-2.run", "out/documents/shop.qrels", "--dataset", "shop", "--missing", "empty"]
    returned = loaded(tmp_path, *words)
    # The ids of a file in TREC's form are ids of chunks, here documents.
    for k in (1, 3, 5, 10):
        document_recall = only(numbers_of(store, "run-2"), f"recall@{k}_doc")
        chunk_recall = only(numbers_of(returned, "run-2"), f"recall@{k}_chunk")
        assert len(document_recall) >= len(CHUNKS)
        assert {query: list(row.values()) for query, row in chunk_recall.items()} == {
            query: list(row.values()) for query, row in document_recall.items()
        }
        (document_mean,) = aggregates_of(store, "run-2", f"recall@{k}_doc").values()
        (chunk_mean,) = aggregates_of(returned, "run-2", f"recall@{k}_chunk").values()
        assert chunk_mean == document_mean


@pytest.mark.parametrize("run_id", ["run-1", "run-2"])
def test_trec_eval_finds_the_order_by_the_scores_alone(export, run_id) -> None:
    """It sorts by score, level ones by name, and reads scores with seven digits."""
    import numpy as np

    for line_sets in by_query(export(run_id, "--format", "trec").text(f"{run_id}.run")).values():
        scores = np.array([float(cells[4]) for cells in line_sets], dtype=np.float32)
        assert (np.diff(scores) < 0).all()
        assert [cells[3] for cells in line_sets] == [str(rank + 1) for rank in range(len(line_sets))]


def by_query(text: str) -> dict[str, list[list[str]]]:
    found: dict[str, list[list[str]]] = {}
    for line in text.split("\n")[:-1]:
        cells = line.split()
        assert len(cells) == 6, line
        found.setdefault(cells[0], []).append(cells)
    return found


def test_another_reader_of_trec_finds_the_reciprocal_ranks_of_this_product(store, export) -> None:
    import ir_measures

    going = export("run-1", "--format", "trec")
    qrels = ir_measures.read_trec_qrels(str(going.folder / "shop.qrels"))
    run = ir_measures.read_trec_run(str(going.folder / "run-1.run"))
    theirs = {
        unquote(one.query_id): one.value for one in ir_measures.RR.iter_calc(qrels, run) if one.value > 0
    }
    ours = {
        query_id: row["mrr"] for query_id, row in numbers_of(store, "run-1").items() if row.get("mrr", 0) > 0
    }
    assert theirs == pytest.approx(ours)


def test_ids_with_blanks_are_written_out_one_by_one_and_said(export) -> None:
    going = export("run-1", "--format", "trec")
    names = {cells[2] for rows in by_query(going.text("run-1.run")).values() for cells in rows}
    assert len(names) == len(CHUNKS) and {unquote(name) for name in names} == set(CHUNKS)
    assert {"plain", "50%2520off", "50%20off", "a%09b"} <= names
    assert any("with blanks" in remark and "%20" in remark for remark in going.remarks)


def test_what_trec_cannot_carry_of_a_run_is_said(export) -> None:
    first, second = export("run-1", "--format", "trec"), export("twice", "--format", "trec", target="other")
    assert any("2 queries without hits" in remark for remark in first.remarks)
    assert any("1 repeated hit left out" in remark for remark in second.remarks)
    (rows,) = by_query(second.text("twice.run")).values()
    assert [cells[2] for cells in rows] == ["a%09b", "plain"]


# ------------------------------------------------------------------ BEIR, ragas, OpenTelemetry


@pytest.mark.slow
def test_a_run_that_comes_back_from_beir_has_the_same_numbers(store, export, tmp_path) -> None:
    export("--suite", "nightly", "--format", "beir")
    settings = load_settings({}, db=tmp_path / "eval.duckdb")
    code, said, _ = call(["load", "out/shop", "--chunker", "v1", "--db", str(settings.db)], tmp_path)
    assert code == 0, said
    for run_id in ("run-1", "run-2"):
        words = [f"out/shop/results/{run_id}.json", "--dataset", "shop", "--missing", "empty"]
        assert_same(store, loaded(tmp_path, *words), run_id, *CHUNK_METRICS)
    (texts,) = zip(*ask(settings, "select query from queries where query_id = 'q 1'"), strict=True)
    assert texts == (GOLDEN[1]["query"],)


def ask(settings: Any, sql: str) -> list[tuple[Any, ...]]:
    with project_of(settings).read() as opened:
        return opened.con.execute(sql).fetchall()


def test_the_corpus_holds_the_texts_of_the_runs_archive(export) -> None:
    lines = [
        json.loads(line)
        for line in export("run-1", "--format", "beir").text("shop/corpus.jsonl").splitlines()
    ]
    assert {line["_id"]: line["text"] for line in lines} == {one["chunk_id"]: one["text"] for one in ARCHIVE}
    assert {line["title"] for line in lines} == {"Top > Sub"}


def test_a_run_that_comes_back_from_ragas_has_the_same_numbers(store, export, tmp_path) -> None:
    going = export("run-2", "--format", "ragas")
    rows = [json.loads(line) for line in going.text("run-2.jsonl").splitlines()]
    assert rows[0]["retrieved_contexts"] == [f"text of {name}" for name in rows[0]["retrieved_context_ids"]]
    assert all(value is not None for row in rows for value in row.values())
    assert_same(store, loaded(tmp_path, "out/run-2.jsonl", "--dataset", "shop"), "run-2", *CHUNK_METRICS)


def test_a_run_that_comes_back_from_otlp_has_the_same_numbers(store, export, tmp_path) -> None:
    export("--suite", "nightly", "--format", "otlp")
    again = loaded(tmp_path, "out/run-2.jsonl", "--dataset", "shop")
    assert_same(store, again, "run-2", *CHUNK_METRICS, "recall@", "citation_", "empty_")
    assert show_run(again, "run-2").performance == show_run(store, "run-2").performance
    assert show_run(again, "run-2").failed_queries == 1


def test_every_number_of_a_query_is_an_event_of_its_trace(store, export) -> None:
    lines = export("run-1", "--format", "otlp").text("run-1.jsonl").splitlines()
    found = {}
    for line in lines:
        ((scope,),) = (one["scopeSpans"] for one in json.loads(line)["resourceSpans"])
        root = next(span for span in scope["spans"] if not span["parentSpanId"])
        about = {one["key"]: one["value"] for one in root["attributes"]}
        found[json.loads(about["metadata"]["stringValue"])["query_id"]] = dict(
            number_of(event) for event in root["events"]
        )
        assert len({span["spanId"] for span in scope["spans"]}) == len(scope["spans"])
    expected = numbers_of(store, "run-1")
    assert {
        query_id: found[query_id].items() >= row.items() for query_id, row in expected.items()
    } == dict.fromkeys(expected, True)


def number_of(event: dict[str, Any]) -> tuple[str, float]:
    assert event["name"] == "gen_ai.evaluation.result"
    values = {one["key"]: one["value"] for one in event["attributes"]}
    return (
        values["gen_ai.evaluation.name"]["stringValue"],
        values["gen_ai.evaluation.score.value"]["doubleValue"],
    )


# ------------------------------------------------------------------ Parquet, and all of them


def test_one_parquet_holds_the_numbers_of_a_whole_suite(store, export) -> None:
    going = export("--suite", "nightly", "--format", "parquet")
    frame = pl.read_parquet(going.folder / "per_query.parquet")
    for run_id in ("run-1", "run-2"):
        rows = frame.filter(pl.col("run_id") == run_id).to_dicts()
        shown = list(show_queries(store, run_id))
        assert [row["query_id"] for row in rows] == [one["query_id"] for one in shown]
        assert all(row.items() >= one["metrics"].items() for row, one in zip(rows, shown, strict=True))


def test_of_several_runs_each_has_a_folder_with_its_documents(export) -> None:
    going = export("run-2", "run-1", "run-2")
    assert [str(Path(one).parent.name) for one in going.files] == ["run-2"] * 5 + ["run-1"] * 5
    assert json.loads(going.text("run-1/metrics.json"))["run_id"] == "run-1"


@pytest.mark.parametrize("form", sorted({*PAGES} - {"mlflow", "json"}))
def test_a_second_export_gives_the_same_bytes(export, form) -> None:
    first, second = (export("run-1", "--format", form, target=target) for target in ("one", "two"))
    assert first.files and [Path("two", *Path(one).parts[1:]) for one in first.files] == list(
        map(Path, second.files)
    )
    for path in (first.folder).rglob("*.*"):
        if path.is_file():
            assert path.read_bytes() == (second.folder / path.relative_to(first.folder)).read_bytes()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--suite", "nightl"], "did you mean nightly"),
        ([], "RUN_ID"),
        (["run-9", "--format", "trec"], "did you mean"),
    ],
)
def test_what_is_not_there_is_said(store, tmp_path, words, said) -> None:
    code, printed, _ = call(["export", *words, "--to", "out", "--db", str(store.settings.db)], tmp_path)
    assert (code, said in printed) == (2, True), printed
    assert not (tmp_path / "out").exists()


# ------------------------------------------------------------------ MLflow, by a module that stands in for it


class Tracking:
    """What a tracking server keeps, as far as this product uses it: runs below experiments, by MLflow's own names."""

    def __init__(self) -> None:
        self.address = ""
        self.runs: dict[str, SimpleNamespace] = {}

    def connect(self, *, tracking_uri: str) -> Tracking:
        self.address = tracking_uri
        return self

    def get_experiment_by_name(self, name: str) -> SimpleNamespace | None:
        known = {run.experiment for run in self.runs.values()}
        return SimpleNamespace(experiment_id=name) if name in known else None

    def create_experiment(self, name: str, *, artifact_location: str | None) -> str:
        return name

    def search_runs(self, experiments: list[str], *, filter_string: str) -> list[SimpleNamespace]:
        name = filter_string.rpartition(" = ")[2].strip("'")
        return [run for run in self.runs.values() if run.tags["eval_pipeline.run_id"] == name]

    def create_run(self, experiment: str, *, run_name: str, tags: dict[str, str]) -> SimpleNamespace:
        run = SimpleNamespace(
            experiment=experiment,
            tags=tags,
            info=SimpleNamespace(run_id=run_name, start_time=0),
            data=SimpleNamespace(params={}, metrics={}),
            texts={},
        )
        return self.runs.setdefault(run_name, run)

    def log_batch(self, run_id: str, *, metrics: Any = (), params: Any = ()) -> None:
        assert len(metrics) <= 1000 and len(params) <= 100
        kept = self.runs[run_id].data
        kept.metrics |= {name: value for name, value, _, _ in metrics}
        assert not kept.params.keys() & {name for name, _ in params}, "a parameter is said once"
        kept.params |= dict(params)

    def log_text(self, run_id: str, text: str, name: str) -> None:
        self.runs[run_id].texts[name] = text

    def set_terminated(self, run_id: str) -> None:
        assert run_id in self.runs


@pytest.fixture
def tracking(monkeypatch: pytest.MonkeyPatch) -> Tracking:
    kept = Tracking()
    entities = SimpleNamespace(Metric=lambda *said: said, Param=lambda *said: said)
    exceptions = SimpleNamespace(MlflowException=ConnectionError)
    mlflow = SimpleNamespace(MlflowClient=kept.connect, entities=entities, exceptions=exceptions)
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    monkeypatch.setitem(sys.modules, "mlflow.entities", entities)
    return kept


def test_a_run_that_comes_back_from_mlflow_has_the_same_numbers(store, export, tracking, tmp_path) -> None:
    for _ in range(2):
        export("--suite", "nightly", "--format", "mlflow", target="https://tracking.example")
    assert (tracking.address, sorted(tracking.runs)) == ("https://tracking.example", ["run-1", "run-2"])
    run = tracking.runs["run-2"]
    assert run.data.params == {"chunker_version": "v1", "llm_model": "small", "judge.api_key": "***"}
    shown = {
        name.replace("@", "_at_"): value for name, value in aggregates_of(store, "run-2", "hit@").items()
    }
    assert len(shown) == 4 and run.data.metrics.items() >= shown.items()
    (tmp_path / "table.json").write_text(run.texts["eval_results_table.json"], "utf-8")
    again = loaded(tmp_path, "table.json", "--dataset", "shop", "--run-id", "run-2")
    assert_same(store, again, "run-2", *CHUNK_METRICS, "recall@", "citation_", "empty_")


def test_a_folder_is_a_database_of_mlflow(export, tracking, tmp_path) -> None:
    export("run-1", "--format", "mlflow", target="tracked")
    assert tracking.address == f"sqlite:///{tmp_path / 'tracked' / 'mlflow.db'}"


def test_without_mlflow_the_extra_is_named(store, tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    words = ["export", "run-1", "--format", "mlflow", "--to", "x", "--db", str(store.settings.db)]
    code, said, _ = call(words, tmp_path)
    assert (code, "eval-pipeline[mlflow]" in said) == (2, True), said
