"""The helpers of formulas in Polars give what the helpers of the same name give in SQL, to the last bit."""

from __future__ import annotations

from random import Random

import duckdb
import polars as pl
import pytest

from eval_pipeline.formulas.polars.aggregates.exact import exact_mean, exact_sum, percentile_of, rounded
from eval_pipeline.formulas.registry import load_registry
from eval_pipeline.settings import load_settings


@pytest.fixture(scope="module")
def in_sql():
    con = duckdb.connect()
    for one in load_registry(load_settings({})).helpers.values():
        con.execute(f"create macro {one.name}({', '.join(one.header.arguments)}) as ({one.body})")
    return lambda text, values=None: con.execute(f"select {text}", values).fetchall()[0][0]


def lists(random):
    """Also none at all, one alone, many times the same, and halves that rounding has to decide."""
    yield from ([], [0.0], [7.0], [0.03125, 0.03125], [-0.00001], [1e300], [2e5 + 0.03125])
    for length in range(2, 60):
        yield [random.uniform(0, 10 ** random.randint(-3, 6)) for _ in range(length)]
        yield [random.randint(0, 200) / 32 for _ in range(length)]


def of(values, expression):
    frame = pl.DataFrame(
        {"group": [1] * len(values), "x": values}, schema={"group": pl.Int32, "x": pl.Float64}
    )
    found = frame.group_by("group").agg(expression)["x"].to_list()
    return found[0] if found else None


def test_sums_percentiles_and_rounding_are_those_of_sql(in_sql):
    x = pl.col("x")
    for values in lists(Random(8)):
        ascending = sorted(values)
        total = in_sql("exact_list_sum($x::double[])", {"x": ascending})
        assert of(values, exact_sum(x)) == total
        assert of(values, exact_mean(x)) == (total / len(values) if values else None)
        for share in (0.5, 0.95):
            for method in ("linear", "nearest"):
                wanted = in_sql(f"percentile_of($x::double[], {share}, '{method}')", {"x": ascending})
                assert of(values, percentile_of(x, share, method)) == wanted
        for rounding in ("half_even", "half_up"):
            listed = in_sql(
                f"list_transform($x::double[], lambda v: rounded_by(v, '{rounding}'))", {"x": values}
            )
            assert (
                pl.DataFrame({"x": values}, schema={"x": pl.Float64})
                .select(rounded(x, rounding))["x"]
                .to_list()
                == listed
            )


def test_a_sum_that_no_whole_number_holds_is_a_sum_all_the_same():
    assert of([1e300, 2e300], exact_sum(pl.col("x"))) == 3e300
    assert of([1e308, 1e308], rounded(exact_sum(pl.col("x")), "half_up")) == float("inf")
    assert of([None, None], exact_sum(pl.col("x"))) is None


def test_the_order_of_the_rows_does_not_show():
    random = Random(9)
    values = [random.uniform(0, 1000) for _ in range(1000)]
    sums = {of(random.sample(values, len(values)), exact_sum(pl.col("x"))) for _ in range(20)}
    assert len(sums) == 1
