"""Every per-query number of the product beside the plain-Python reference, under every reading of the open questions."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest

from eval_pipeline.formulas.registry import Registry, load_registry
from eval_pipeline.settings import Settings
from tests.bundle_files import ask, compute, load, settings_in, write_golden, write_run
from tests.reference.bundles import (
    Bundle,
    archive_states,
    labels_of_run,
    random_bundle,
    write_bundle,
    write_earlier_archives,
)
from tests.reference.metrics import METRIC_KEYS
from tests.reference.rows import labelled_spans, spans_of
from tests.reference.runs import per_query_lines
from tests.reference.spans import span_iou, span_precision, span_recall

TOLERANCE = 1e-9
SEEDS = (1, 2, 3, 4)
SEED_OF_READINGS = 6
READINGS: tuple[dict[str, Any], ...] = (
    {"s0_vacuous": "include"},
    {"heading_prefix": "string"},
    {"strip_heading_markers": False},
    {"require_snippets": True},
    {"require_snippets": True, "snippet_rule": "all"},
    {"support_groups": "every_group"},
    {"support_groups": "all"},
    {"precision_denominator": "retrieved"},
    {"precision_multi_hop": "required_only"},
    {"mrr_anchor_cutoff": 3},
    {"empty_citations": "vacuous"},
    {"citation_scope": "run_version"},
    {"unlabelled_groundedness": "include"},
    {"string_match": "casefold"},
    {"refusal_no_answer": "zero"},
    {"dedupe_hits": True},
    {"retrieval_error": "exclude"},
    {"gain": "exponential"},
    {"share": 0.9},
    {
        "dedupe_hits": True,
        "retrieval_error": "exclude",
        "s0_vacuous": "include",
        "heading_prefix": "string",
        "support_groups": "every_group",
        "precision_denominator": "retrieved",
    },
)

Values = dict[tuple[str, str, str], float | None]


def loaded(bundle: Bundle, folder: Path) -> Settings:
    """The bundle in a store, earlier states of its archives first."""
    settings = settings_in(folder)
    for delivery in write_earlier_archives(bundle, folder / "earlier"):
        load(settings, delivery)
    write_bundle(bundle, folder / "bundle")
    report = load(settings, folder / "bundle")
    assert report.problems == []
    return settings


def measured(settings: Settings, only: str = "") -> Values:
    """Every key of every query as the product has it; no row is null."""
    registry = load_registry(settings)
    names = [one.name for one in registry if one.schema in ("facts", "metrics") and only in one.name]
    compute(settings, registry, reasons=None, definitions=names)
    rows = ask(settings, "select run_id, query_id, metric, value from per_query_metrics")
    return {(run_id, query_id, metric): value for run_id, query_id, metric, value in rows}


def expected(bundle: Bundle, readings: Mapping[str, Any]) -> Values:
    found: Values = {}
    for run_id, parts in bundle.runs.items():
        dataset = parts["run"]["dataset"]
        lines = per_query_lines(
            labels_of_run(bundle, run_id),
            parts["results"],
            run=parts["run"],
            archives=archive_states(bundle, dataset),
            readings=readings,
        )
        for line in lines:
            for key, value in line["metrics"].items():
                found[run_id, line["query_id"], key] = value
    return found


def differences(got: Values, wanted: Values) -> dict[tuple[str, str, str], tuple[float | None, float | None]]:
    return {
        place: (got.get(place), value)
        for place, value in wanted.items()
        if not is_same(got.get(place), value)
    }


def is_same(got: float | None, wanted: float | None) -> bool:
    if got is None or wanted is None:
        return got is wanted
    return math.isclose(got, wanted, rel_tol=0, abs_tol=TOLERANCE)


def write_readings(settings: Settings, shipped: Registry, readings: Mapping[str, Any]) -> None:
    """Give every shipped definition that has one of these parameters its other value."""
    lines: list[str] = []
    known: set[str] = set()
    for one in shipped:
        own = {name: value for name, value in readings.items() if name in one.header.parameters}
        known |= own.keys()
        if own:
            lines.append(f"[formulas.{one.short_name}]")
            lines += [f"{name} = {json.dumps(value)}" for name, value in own.items()]
    assert known == readings.keys()
    settings.config.write_text("\n".join(lines), "utf-8")


def in_words(readings: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in readings.items())


@pytest.mark.parametrize(
    "seed", [SEEDS[0], *(pytest.param(seed, marks=pytest.mark.slow) for seed in SEEDS[1:])]
)
def test_the_queries_with_label_and_result_have_every_key_as_the_reference_has_it(
    seed: int, tmp_path: Path
) -> None:
    bundle = random_bundle(seed, queries=25, runs=6)
    got = measured(loaded(bundle, tmp_path))
    wanted = expected(bundle, {})
    assert {metric for _, _, metric in wanted} == set(METRIC_KEYS)
    assert {place[:2] for place in got} == {place[:2] for place in wanted}
    assert differences(got, wanted) == {}


@pytest.fixture(scope="module")
def bundle_of_readings() -> Bundle:
    return random_bundle(SEED_OF_READINGS, queries=50, runs=3)


@pytest.fixture(scope="module")
def store_of_readings(bundle_of_readings: Bundle, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return loaded(bundle_of_readings, tmp_path_factory.mktemp("readings"))


@pytest.fixture(scope="module")
def as_shipped(bundle_of_readings: Bundle) -> Values:
    return expected(bundle_of_readings, {})


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Registry:
    return load_registry(settings_in(tmp_path_factory.mktemp("no-configuration")))


@pytest.mark.parametrize("readings", READINGS, ids=in_words)
def test_the_other_reading_moves_exactly_what_it_moves_in_the_reference(
    readings: dict[str, Any],
    bundle_of_readings: Bundle,
    store_of_readings: Settings,
    as_shipped: Values,
    shipped: Registry,
) -> None:
    wanted = expected(bundle_of_readings, readings)
    assert wanted != as_shipped
    write_readings(store_of_readings, shipped, readings)
    assert differences(measured(store_of_readings), wanted) == {}


def test_thousands_of_spans_of_one_query_are_measured_to_the_character(tmp_path: Path) -> None:
    rng = Random(5)

    def spans(number: int, longest: int) -> list[dict[str, Any]]:
        starts = [rng.randrange(50_000) for _ in range(number)]
        return [
            {"doc_id": rng.choice("de"), "start": at, "end": at + rng.randrange(longest)} for at in starts
        ]

    hits = [{"chunk_id": f"c{n}", "doc_id": "d", "source_spans": spans(2000, 15)} for n in range(3)]
    truth = spans(3000, 20)
    write_golden(tmp_path / "bundle", [{"query_id": "q", "ground_truth_spans": truth}])
    write_run(tmp_path / "bundle", "run-1", [{"query_id": "q", "hits_top_k": hits}])
    settings = settings_in(tmp_path)
    load(settings, tmp_path / "bundle")
    got = {
        metric: value
        for (_, _, metric), value in measured(settings, "metrics.span_").items()
        if metric.startswith("span_")
    }
    sides = [span for hit in hits for span in spans_of(hit)], labelled_spans(truth)
    wanted = {
        "span_recall": span_recall(*sides),
        "span_precision": span_precision(*sides),
        "span_iou": span_iou(*sides),
    }
    assert 0.1 < wanted["span_iou"] < 0.9
    assert got == pytest.approx(wanted, abs=TOLERANCE)
