"""`rounding`: half to even or half up, on the exact value of the double, wherever aggregates are stored."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from random import Random

import duckdb
import pyarrow as pa
import pytest

from eval_pipeline.formulas.polars.aggregates.exact import rounded_by
from eval_pipeline.formulas.registry import load_registry
from eval_pipeline.planning.preview import find_preview
from eval_pipeline.settings import Settings
from eval_pipeline.showing.document import compute_aggregate
from tests.bundle_files import ask, compute, hits, load, settings_in, write_golden, write_run
from tests.projects import project_of

# Of 32 queries one is found: 1/32 = 0.03125 lies exactly between two numbers of 4 decimals.
N_QUERIES = 32
HIT_RATES = ["aggregates.run_metrics:metrics.hit_at_k"]


def awkward_numbers() -> list[float]:
    rng = Random("rounding")
    ties = [n / 32 for n in range(-70, 70)] + [n / 20_000 for n in range(-60, 60)]
    return [
        *ties,
        *(rng.uniform(-2, 2) for _ in range(3_000)),
        *(rng.uniform(0, 1e9) for _ in range(300)),
        0.0,
    ]


def half_up(value: float) -> float:
    """Away from zero at a tie, in decimal arithmetic."""
    return float(Decimal(value).quantize(Decimal("0.0001"), rounding=ROUND_HALF_UP)) + 0.0


@pytest.fixture
def con(tmp_path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    helpers = load_registry(settings_in(tmp_path)).helpers
    connection = duckdb.connect()
    for name in ("rounded", "rounded_by"):
        arguments = ", ".join(helpers[name].header.arguments)
        connection.execute(f"create macro {name}({arguments}) as ({helpers[name].body})")
    yield connection
    connection.close()


def test_half_up_is_that_of_decimal_arithmetic_and_half_even_that_of_python(
    con: duckdb.DuckDBPyConnection,
) -> None:
    values = awkward_numbers()
    con.register("given", pa.table({"place": range(len(values)), "x": pa.array(values, pa.float64())}))
    for rounding, rule in (("half_up", half_up), ("half_even", lambda x: round(x, 4) + 0.0)):
        rows = con.execute(f"select rounded_by(x, '{rounding}') from given order by place").fetchall()
        assert [row[0] for row in rows] == [rule(value) for value in values]
        assert [rounded_by(value, rounding) for value in values] == [rule(value) for value in values]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    bundle = tmp_path / "bundle"
    names = [f"q{n}" for n in range(N_QUERIES)]
    write_golden(bundle, [{"query_id": name, "expected_chunk_ids": ["d/a"]} for name in names])
    write_run(
        bundle, "r", [{"query_id": n, "hits_top_k": hits("d/a" if n == "q0" else "d/b")} for n in names]
    )
    settings = settings_in(tmp_path)
    load(settings, bundle)
    return settings


def test_an_aggregate_at_a_tie_is_stored_as_its_reading_says_everywhere(settings: Settings) -> None:
    for toml, expected in (("", 0.0312), ('[formulas.run_metrics]\nrounding = "half_up"\n', 0.0313)):
        settings.config.write_text(toml, "utf-8")
        registry = load_registry(settings)
        compute(settings, registry, reasons=None, definitions=HIT_RATES)
        assert ask(settings, "select value from run_metrics where metric = 'hit@1' and slice = ''") == [
            (expected,)
        ]
        (text,) = ask(settings, "select aggregate_json from runs")[0]
        assert json.loads(text)["hit_at_k"]["1"] == expected
        assert compute_aggregate(project_of(settings, registry), "r")["hit_at_k"]["1"] == expected


def test_a_preview_rounds_as_the_aggregates_will(settings: Settings) -> None:
    compute(settings, definitions=HIT_RATES)
    toml = '[formulas.run_metrics]\nrounding = "half_up"\n[formulas.hit_at_k]\nks = [1, 2]\n'
    settings.config.write_text(toml, "utf-8")
    preview = find_preview(project_of(settings))["preview"]
    assert preview["hit@1"]["runs"]["r"]["new"] == 0.0313
