"""What the labels say about ranks, against the same question asked row by row: any number expected, any rank."""

from __future__ import annotations

import random

import pytest

from tests.bundle_files import ask, compute, hits, load, settings_in, write_golden, write_run

FACTS = {"chunk_ranks": "expected_chunk_ids", "document_ranks": "expected_doc_ids"}


def world(seed, *, most_hits, most_expected):
    """Queries with their labels, and two runs of hits from few chunks of few documents, so that much comes back twice."""
    generator = random.Random(seed)
    chunks = [f"d{document}/{number}" for document in range(7) for number in range(4)]
    documents = sorted({chunk.split("/")[0] for chunk in chunks})
    golden, runs = [], {"run-1": [], "run-2": []}
    for number in range(60):
        labels = {
            "expected_chunk_ids": generator.sample(chunks, generator.randint(0, most_expected)),
            "expected_doc_ids": generator.sample(documents, generator.randint(0, min(7, most_expected))),
        }
        kept = {name: ids for name, ids in labels.items() if generator.random() < 0.9}
        golden.append({"query_id": f"q{number}", **kept})
        for results in runs.values():
            found = generator.choices(chunks, k=generator.randint(0, most_hits))
            results.append({"query_id": f"q{number}", "hits_top_k": hits(*found)})
    return golden, runs


def ranks_of(expected, found):
    """(n_expected, first_rank, found_ranks, hit_ranks) as the contract defines them."""
    if expected is None:
        return None, None, [], []
    hit_ranks = [rank for rank, one in enumerate(found, start=1) if one in expected]
    first = [found.index(one) + 1 for one in expected if one in found]
    return len(expected), min(first, default=None), sorted(first), hit_ranks


SIZES = [(10, 3), (10, 6), (11, 6), (12, 9), (70, 1), (30, 2), (45, 12)]


@pytest.fixture(scope="module")
def worlds():
    """By dataset: a world for every number of hits and of expected items."""
    return {
        f"{most_hits}-{most_expected}": world(
            most_hits * 100 + most_expected, most_hits=most_hits, most_expected=most_expected
        )
        for most_hits, most_expected in SIZES
    }


@pytest.fixture(scope="module")
def settings_of_worlds(worlds, tmp_path_factory):
    """One store with every world as a dataset of its own."""
    folder = tmp_path_factory.mktemp("worlds")
    for dataset, (golden, runs) in worlds.items():
        write_golden(folder / "bundle", golden, dataset=dataset)
        for run_id, results in runs.items():
            write_run(folder / "bundle", f"{run_id}@{dataset}", results, dataset=dataset)
    settings = settings_in(folder)
    assert load(settings, folder / "bundle").problems == []
    compute(settings, definitions={f"facts.{name}" for name in FACTS})
    return settings


@pytest.mark.parametrize("dataset", [f"{most_hits}-{most_expected}" for most_hits, most_expected in SIZES])
def test_rank_facts_equal_a_walk_over_the_hits(worlds, settings_of_worlds, dataset):
    golden, runs = worlds[dataset]
    for name, label in FACTS.items():
        stored = {
            (run_id, query_id): ranks
            for run_id, query_id, *ranks in ask(
                settings_of_worlds,
                f"select run_id, query_id, n_expected, first_rank, found_ranks, hit_ranks from facts.{name} "
                "join raw.query_ids using (query_key) join raw.runs using (run_key) "
                "join raw.datasets using (dataset_key) where dataset_id = ?",
                dataset,
            )
        }
        labels = {row["query_id"]: row.get(label) for row in golden}
        id_of = "chunk_id" if name == "chunk_ranks" else "doc_id"
        expected = {
            (f"{run_id}@{dataset}", row["query_id"]): list(
                ranks_of(labels[row["query_id"]], [hit[id_of] for hit in row["hits_top_k"]])
            )
            for run_id, results in runs.items()
            for row in results
        }
        assert stored == expected


def test_rows_of_a_run_lie_together_and_runs_follow_each_other(tmp_path):
    golden, runs = world(5, most_hits=10, most_expected=3)
    settings = settings_in(tmp_path)
    write_golden(tmp_path / "bundle", golden)
    for number in range(8):
        write_run(tmp_path / "bundle", f"run-{number}", runs["run-1"], created_at=f"2026-09-0{number + 1}")
    load(settings, tmp_path / "bundle")
    compute(settings, definitions={"metrics.hit_at_k", "metrics.recall_at_k_doc"})
    for table in ("raw.hits", "facts.chunk_ranks", "facts.document_ranks", "metrics.hit_at_k"):
        keys = [key for (key,) in ask(settings, f"select run_key from {table} order by rowid")]
        assert len(set(keys)) == 8
        assert keys == sorted(keys), table
