"""The worked example of docs/change-a-formula.md, derived from the definitions of precision and recall alone."""

from __future__ import annotations

import datetime as dt
import json
from fractions import Fraction
from pathlib import Path

import pytest

from eval_pipeline.computing.measure import measure
from eval_pipeline.formulas.registry import load_registry
from eval_pipeline.loading.load import load_bundles
from eval_pipeline.planning.plan import select_cells
from eval_pipeline.planning.preview import find_preview
from eval_pipeline.report.plan import as_markdown
from eval_pipeline.settings import Settings, load_settings
from tests.projects import project_of

from .test_commands_in_docs import ROOT, WrittenFile, steps_of

DOCUMENT = (ROOT / "docs" / "change-a-formula.md").read_text("utf-8")
NOW = dt.datetime(2026, 10, 2)
GUIDE = [
    step for step in steps_of(DOCUMENT) if isinstance(step, WrittenFile) and step.place.startswith("guide/")
]


def f1_of(case: dict, *, are_wrong_fields_missed: bool) -> Fraction:
    """Counted field by field: which are right, which were extracted, which should be there and are not."""
    kinds = [one["error_type"] for one in case["discrepancies"]]
    wrong = [kind for kind in kinds if kind in ("format_error", "wrong_value")]
    right = case["total_gt_fields"] - kinds.count("omission") - len(wrong)
    extracted = right + len(wrong) + kinds.count("hallucination")
    missed = kinds.count("omission") + (len(wrong) if are_wrong_fields_missed else 0)
    precision, recall = Fraction(right, extracted), Fraction(right, right + missed)
    return 2 * precision * recall / (precision + recall)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    for step in GUIDE:
        path = tmp_path / step.place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(step.text, "utf-8")
    queries = tmp_path / "guide" / "datasets" / "handbook" / "queries.jsonl"
    queries.parent.mkdir(parents=True)
    queries.write_text(json.dumps({"query_id": "q1"}) + "\n", "utf-8")
    (tmp_path / "sql").mkdir(exist_ok=True)
    (tmp_path / "eval-pipeline.toml").touch()
    return load_settings(
        {
            "EVAL_PIPELINE_DB": str(tmp_path / "e.duckdb"),
            "EVAL_PIPELINE_CONFIG": str(tmp_path / "eval-pipeline.toml"),
            "EVAL_PIPELINE_SQL": str(tmp_path / "sql"),
        }
    )


def test_the_preview_of_the_other_reading_shows_what_counting_by_hand_gives(settings, tmp_path):
    (case,) = [json.loads(step.text) for step in GUIDE if step.place.endswith("extractions.jsonl")]
    code, table = (f1_of(case, are_wrong_fields_missed=missed) for missed in (False, True))
    assert (code, table) == (Fraction(5, 6), Fraction(3, 4))
    load_bundles([tmp_path / "guide"], project_of(settings, now=NOW))
    measure(project_of(settings, now=NOW))
    settings.config.write_text('[formulas.extraction]\nfn_policy = "table"\n')
    registry = load_registry(settings)
    plan = find_preview(project_of(settings, registry), select_cells(registry, runs=["listings"]))
    preview = plan["preview"]["f1"]
    assert preview["unit"] == "cases"
    assert preview["changed_queries"] == 1
    assert preview["runs"]["listings"] == {
        "old": pytest.approx(float(code), abs=5e-5),
        "new": pytest.approx(float(table), abs=5e-5),
    }
    assert f"| listings | {float(code):.4f} | {float(table):.4f} |" in as_markdown(plan)
    assert f"F1 {float(code):.4f}" in DOCUMENT and f"F1 {float(table):.4f}" in DOCUMENT
