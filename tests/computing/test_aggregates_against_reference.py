"""Every aggregate of the product, whole and by slice, beside the plain-Python reference."""

from __future__ import annotations

import json

import pytest

from eval_pipeline.formulas.registry import load_registry
from eval_pipeline.showing.show import show_run
from tests.bundle_files import ask, compute, load, settings_in
from tests.projects import project_of
from tests.reference.bundles import archive_states, labels_of_run, random_bundle, write_bundle
from tests.reference.runs import aggregate_json, score_run


@pytest.fixture(scope="module")
def bundle():
    return random_bundle(9, queries=10, runs=4)


@pytest.fixture(scope="module")
def computed(bundle, tmp_path_factory):
    folder = tmp_path_factory.mktemp("computed")
    write_bundle(bundle, folder / "bundle")
    settings = settings_in(folder)
    report = load(settings, folder / "bundle")
    assert (report.rejected, report.quarantined) == ([], 0)
    compute(settings)
    return settings


def stored(bundle, run_id):
    """Golden rows, results, and what else the reference asks for."""
    parts = bundle.runs[run_id]
    dataset = parts["run"]["dataset"]
    # Only the newest state of each archive was delivered.
    newest = {state["chunker_version"]: state for state in archive_states(bundle, dataset)}
    return (
        labels_of_run(bundle, run_id),
        parts["results"],
        {"run": parts["run"], "archives": list(newest.values())},
    )


def test_aggregates_and_slices_equal_the_reference(bundle, computed):
    registry = load_registry(computed)
    keys = list(registry.keys())
    with_values = 0
    for run_id in bundle.runs:
        golden, results, others = stored(bundle, run_id)
        expected = score_run(golden, results, **others)
        shown = show_run(project_of(computed, registry), run_id)
        for field in ("total_queries", "failed_queries", "missing_query_ids", "unknown_query_ids"):
            assert shown[field] == expected[field], (run_id, field)
        wanted = [key for key in keys if key in expected["metrics"]]
        assert {key: shown["metrics"][key] for key in wanted} == {
            key: expected["metrics"][key] for key in wanted
        }
        assert {name: list(values) for name, values in shown["slices"].items()} == {
            name: list(values) for name, values in expected["slices"].items()
        }
        for name, values in expected["slices"].items():
            for value, entry in values.items():
                got = shown["slices"][name][value]
                assert got["n_queries"] == entry["n_queries"]
                assert {key: got["metrics"][key] for key in wanted} == {
                    key: entry["metrics"][key] for key in wanted
                }
                with_values += sum(entry["metrics"][key]["n"] > 0 for key in wanted)
    assert with_values > 100


def test_aggregate_json_equals_the_reference_and_is_stable_text(bundle, computed):
    documents = dict(ask(computed, "select run_id, aggregate_json from runs"))
    for run_id in bundle.runs:
        golden, results, others = stored(bundle, run_id)
        expected = aggregate_json(golden, results, **others)
        assert json.loads(documents[run_id]) == expected
        assert documents[run_id] == json.dumps(expected, ensure_ascii=False)
