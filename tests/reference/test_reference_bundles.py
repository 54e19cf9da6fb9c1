"""The bundle maker: deterministic, valid by the contract, awkward, and read back from its files unchanged."""

from __future__ import annotations

import gzip
import itertools
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from .bundles import Bundle, archive_states, random_bundle, write_bundle, write_earlier_archives
from .compare import compare
from .rows import query_id_of
from .runs import aggregate_json, per_query_lines, score_run

Row = dict[str, Any]
SEEDS = range(6)
NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._:@+-]{0,126}[A-Za-z0-9])?")


def scored(bundle: Bundle, run_id: str) -> Row:
    parts = bundle.runs[run_id]
    dataset_id = parts["run"]["dataset"]
    return score_run(
        bundle.datasets[dataset_id],
        parts["results"],
        run=parts["run"],
        archives=archive_states(bundle, dataset_id),
        extractions=parts["extractions"],
        index_report=parts["index_report"],
        spot_checks=parts["spot_checks"],
    )


def compared(bundle: Bundle, run_a: str, run_b: str) -> Row:
    a, b = bundle.runs[run_a], bundle.runs[run_b]
    dataset_id = a["run"]["dataset"]
    return compare(
        a["run"],
        b["run"],
        golden_rows=bundle.datasets[dataset_id],
        results_a=a["results"],
        results_b=b["results"],
        archives=archive_states(bundle, dataset_id),
    )


def json_rows(path: Path) -> list[Row]:
    content = path.read_bytes()
    text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode()
    return [json.loads(line) for line in text.split("\n") if line]


def test_a_seed_always_gives_the_same_bundle_and_another_seed_another() -> None:
    assert random_bundle(3) == random_bundle(3)
    assert random_bundle(3).datasets != random_bundle(4).datasets


@pytest.mark.parametrize("seed", SEEDS)
def test_the_files_read_back_as_the_bundle(seed: int, tmp_path: Path) -> None:
    bundle = random_bundle(seed, runs=5)
    write_bundle(bundle, tmp_path)
    for dataset_id, golden_rows in bundle.datasets.items():
        folder = tmp_path / "datasets" / dataset_id
        if (folder / "queries.yaml").exists():
            assert yaml.safe_load((folder / "queries.yaml").read_text(encoding="utf-8")) == golden_rows
        else:
            assert json_rows(folder / "queries.jsonl") == golden_rows
    for run_id, parts in bundle.runs.items():
        folder = tmp_path / "runs" / run_id
        assert json.loads((folder / "run.json").read_text(encoding="utf-8")) == parts["run"]
        assert json_rows(next(folder.glob("results.jsonl*"))) == parts["results"]
        assert (folder / "extractions.jsonl").exists() == (parts["extractions"] is not None)


def test_earlier_archive_states_are_separate_deliveries_oldest_first(tmp_path: Path) -> None:
    bundle = next(
        candidate
        for candidate in map(random_bundle, range(50))
        if any(len(archive["states"]) == 3 for archive in candidate.archives)
    )
    archive = next(archive for archive in bundle.archives if len(archive["states"]) == 3)
    deliveries = write_earlier_archives(bundle, tmp_path)
    owner = archive["dataset_id"]
    place = Path("inventories" if owner is None else f"datasets/{owner}/inventories")
    name = f"{archive['chunker_version']}.jsonl"
    assert [json_rows(delivery / place / name) for delivery in deliveries] == archive["states"][:-1]


@pytest.mark.parametrize("seed", SEEDS)
def test_ids_and_labels_keep_to_the_contract(seed: int) -> None:
    bundle = random_bundle(seed, runs=6)
    for name in [*bundle.datasets, *bundle.runs]:
        assert NAME.fullmatch(name)
        assert ".." not in name
    for golden_rows in bundle.datasets.values():
        ids = [query_id_of(golden) for golden in golden_rows]
        assert len(set(ids)) == len(ids)
        assert all(0 < len(query_id) <= 1024 and "\0" not in query_id for query_id in ids)
        for golden in golden_rows:
            for group in golden.get("required_support_groups") or []:
                assert group
                assert all(0 <= index < len(golden["gold_supports"]) for index in group)
            assert "" not in [*(golden.get("must_contain") or []), *(golden.get("forbidden") or [])]
    for parts in bundle.runs.values():
        ids = [result["query_id"] for result in parts["results"]]
        assert len(set(ids)) == len(ids)
        assert parts["run"]["dataset"] in bundle.datasets


@pytest.mark.parametrize("seed", SEEDS)
def test_every_document_is_strict_json_and_agrees_with_its_own_lines(seed: int) -> None:
    bundle = random_bundle(seed, queries=8, runs=4)
    for run_id, parts in bundle.runs.items():
        shown = scored(bundle, run_id)
        json.dumps(shown, allow_nan=False)
        dataset_id = parts["run"]["dataset"]
        arguments: Row = {"run": parts["run"], "archives": archive_states(bundle, dataset_id)}
        lines = per_query_lines(bundle.datasets[dataset_id], parts["results"], **arguments)
        for key, entry in shown["metrics"].items():
            values = [line["metrics"][key] for line in lines if line["metrics"][key] is not None]
            expected = round(math.fsum(values) / len(values), 4) if values else None
            assert entry == {"value": expected, "n": len(values)}
        stored = aggregate_json(bundle.datasets[dataset_id], parts["results"], **arguments)
        assert stored["hit_at_k"]["5"] == shown["metrics"]["hit@5"]["value"]


@pytest.mark.parametrize("seed", SEEDS)
def test_partition_slices_add_up_and_complements_mirror_each_other(seed: int) -> None:
    bundle = random_bundle(seed)
    for run_id in bundle.runs:
        shown = scored(bundle, run_id)
        for dimension in ("category", "difficulty", "answerable"):
            sizes = [part["n_queries"] for part in shown["slices"][dimension].values()]
            assert sum(sizes) == shown["total_queries"]
        metrics = shown["metrics"]
        right, wrong = metrics["abstention_accuracy"], metrics["hallucination_rate_unanswerable"]
        assert right["n"] == wrong["n"]
        assert right["n"] == 0 or right["value"] + wrong["value"] == pytest.approx(1, abs=1e-4)
        for k in (1, 3, 5):
            assert metrics[f"hit@{k}"]["value"] <= metrics["hit@10"]["value"]


MIRROR = {"win": "loss", "loss": "win", "rank_up": "rank_down", "rank_down": "rank_up"}


@pytest.mark.parametrize("seed", SEEDS)
def test_swapping_the_runs_mirrors_a_comparison(seed: int) -> None:
    bundle = random_bundle(seed)
    for run_a, run_b in itertools.combinations(bundle.runs, 2):
        forth, back = compared(bundle, run_a, run_b), compared(bundle, run_b, run_a)
        kinds = [MIRROR.get(row["kind"], row["kind"]) for row in forth["per_query"]]
        assert kinds == [row["kind"] for row in back["per_query"]]
        assert (forth["only_in_a"], forth["only_in_b"]) == (back["only_in_b"], back["only_in_a"])
        for key, delta in forth["deltas"].items():
            if isinstance(delta, float):
                assert delta == -back["deltas"][key]


def test_a_run_compared_with_itself_is_all_draws() -> None:
    bundle = random_bundle(1)
    run_id = next(iter(bundle.runs))
    counts = compared(bundle, run_id, run_id)["counts"]
    assert counts["draw"] > 0
    assert {kind for kind, count in counts.items() if count} <= {"draw", "not_applicable"}


def test_a_handful_of_bundles_reaches_every_kind_and_both_modes() -> None:
    reports = [
        compared(bundle, run_a, run_b)
        for bundle in map(random_bundle, range(8))
        for run_a, run_b in itertools.combinations(bundle.runs, 2)
    ]
    assert {report["deltas"]["chunker_version_match"] for report in reports} == {"exact", "fallback_doc_span"}
    assert all(any(report["counts"][kind] for report in reports) for kind in reports[0]["counts"])
