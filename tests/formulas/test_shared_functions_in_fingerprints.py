"""A formula in Python may use the product's metric functions; their source is part of its meaning."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from eval_pipeline.errors import DefinitionError
from eval_pipeline.formulas import python_source
from eval_pipeline.settings import PACKAGE

FORMULA = """
import polars as pl

from eval_pipeline.formulas.decorator import formula
from eval_pipeline.metrics import compute_metrics, find_discrepancies


@formula(reads=["raw.extraction_cases"], keys={"f1": "F1"})
def f1_of_case(cases: pl.DataFrame) -> pl.DataFrame:
    return cases.map_rows(lambda row: compute_metrics(3, find_discrepancies(row[0], row[1]))["f1"])
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the product's metric functions that a test may edit."""
    copy = tmp_path / "eval_pipeline"
    shutil.copytree(PACKAGE / "metrics", copy / "metrics")
    monkeypatch.setattr(python_source, "PACKAGE", copy)
    return copy


@pytest.fixture
def formula(tmp_path: Path) -> Path:
    path = tmp_path / "formulas" / "f1_of_case.py"
    path.parent.mkdir()
    path.write_text(FORMULA, "utf-8")
    return path


def meaning(formula: Path) -> str:
    return python_source.canonical_source(formula, "f1_of_case")


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), "utf-8")


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        ("extraction.py", "2 * precision * recall", "3 * precision * recall"),
        ("extraction.py", 'counts["hallucination"] + misread', 'counts["hallucination"]'),
        ("fields.py", "elif not _same_value(expected, actual)", "elif expected != actual"),
        ("fields.py", 'return "boolean"', 'return "number"'),
    ],
)
def test_an_edit_of_a_shared_function_changes_the_meaning_of_what_calls_it(
    module: str, old: str, new: str, package: Path, formula: Path
) -> None:
    before = meaning(formula)
    edit(package / "metrics" / module, old, new)
    assert meaning(formula) != before


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        (
            "extraction.py",
            '"""How many discrepancies there are of each of the four types."""',
            '"""Count."""',
        ),
        ("fields.py", "# Before the numbers, because True is an int in Python.", "# Booleans first."),
        ("errors.py", '"""Counts contradict each other."""', '"""Counts that cannot be."""'),
        ("chunks.py", "2 *", "3 *"),
    ],
)
def test_an_edit_of_words_or_of_what_is_not_called_changes_nothing(
    module: str, old: str, new: str, package: Path, formula: Path
) -> None:
    before = meaning(formula)
    edit(package / "metrics" / module, old, new)
    assert meaning(formula) == before


def test_the_whole_package_by_its_name_cannot_be_followed(formula: Path) -> None:
    edit(
        formula,
        "from eval_pipeline.metrics import compute_metrics, find_discrepancies",
        "import eval_pipeline.metrics",
    )
    with pytest.raises(DefinitionError, match=r"f1_of_case\.py:5: write `from eval_pipeline\.metrics import"):
        meaning(formula)


def test_another_name_for_the_package_is_followed(package: Path, formula: Path) -> None:
    edit(
        formula,
        "from eval_pipeline.metrics import compute_metrics, find_discrepancies",
        "import eval_pipeline.metrics as shared",
    )
    edit(
        formula,
        "compute_metrics(3, find_discrepancies(",
        "shared.compute_metrics(3, shared.find_discrepancies(",
    )
    before = meaning(formula)
    edit(package / "metrics" / "extraction.py", "2 * precision * recall", "3 * precision * recall")
    assert meaning(formula) != before


@pytest.mark.parametrize("module", ["numpy", "eval_pipeline.store.open", "eval_pipeline.metricsx", "os"])
def test_other_modules_stay_refused(module: str, formula: Path) -> None:
    edit(formula, "import polars as pl", f"import {module}")
    with pytest.raises(DefinitionError, match=rf"f1_of_case\.py:2: a formula may import .* not {module}"):
        meaning(formula)
