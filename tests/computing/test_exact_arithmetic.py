"""The helpers behind every aggregate: sums that do not depend on the order, rounding as Python rounds."""

from __future__ import annotations

import math
from random import Random

import duckdb
import pyarrow as pa
import pytest

from eval_pipeline.formulas.registry import load_registry
from tests.bundle_files import settings_in


@pytest.fixture(scope="module")
def con(tmp_path_factory):
    helpers = load_registry(settings_in(tmp_path_factory.mktemp("shipped"))).helpers
    connection = duckdb.connect()
    for name, helper in helpers.items():
        arguments = ", ".join(helper.header.arguments)
        connection.execute(f"create macro {name}({arguments}) as ({helper.body})")
    yield connection
    connection.close()


def each(con, expression, values):
    con.register("given", pa.table({"place": range(len(values)), "x": pa.array(values, pa.float64())}))
    return [row[0] for row in con.execute(f"select {expression} from given order by place").fetchall()]


def sum_of(con, values):
    con.register("given", pa.table({"x": pa.array(values, pa.float64())}))
    return con.execute("select exact_sum(x) from given").fetchall()[0][0]


def awkward_numbers(rng, count):
    kinds = (
        lambda: rng.random(),
        lambda: 1 / rng.randint(1, 12),
        lambda: rng.uniform(-1e8, 1e8),
        lambda: float(rng.randint(0, 5)),
        lambda: rng.uniform(0, 1e-6),
    )
    return [rng.choice(kinds)() for _ in range(count)]


@pytest.mark.parametrize("count", [1, 2, 3, 10, 1000])
def test_a_sum_is_the_one_that_python_calls_accurate(con, count):
    rng = Random(f"sum {count}")
    for _ in range(40):
        values = awkward_numbers(rng, count)
        assert sum_of(con, values) == math.fsum(values)


def test_a_sum_does_not_depend_on_the_order_nor_on_the_number_of_threads(con):
    rng = Random("order")
    values = awkward_numbers(rng, 200_000)
    found = set()
    for threads in (1, 2, 8):
        con.execute(f"set threads = {threads}")
        for _ in range(2):
            rng.shuffle(values)
            found.add(sum_of(con, values))
    assert found == {math.fsum(values)}


def test_nothing_sums_to_null_and_nulls_are_left_out(con):
    assert sum_of(con, []) is None
    assert sum_of(con, [None, None]) is None
    assert sum_of(con, [None, 0.1, None, 0.2]) == math.fsum([0.1, 0.2])


def test_values_are_rounded_to_four_decimals_as_python_rounds(con):
    rng = Random("rounding")
    ties = [n / 32768 for n in range(32768)] + [n / 20000 for n in range(20000)]
    neighbours = [math.nextafter(n / 20000, side) for n in range(0, 20000, 7) for side in (0, 1)]
    large = [0.03125, 0.00625, 2.5e-5, 123456789.12345, 1e20, 1e300, 5e-324]
    values = ties + neighbours + large + awkward_numbers(rng, 20000)
    values += [-value for value in values]
    assert each(con, "rounded(x)", values) == [round(value, 4) for value in values]


@pytest.mark.parametrize(("value", "stored"), [(0.03125, 0.0312), (0.00625, 0.0063), (0.09375, 0.0938)])
def test_a_tie_is_decided_by_the_double_itself(con, value, stored):
    assert each(con, "rounded(x)", [value]) == [stored]


def test_zero_has_no_sign_and_null_stays_null(con):
    minus_zero, tiny, null = each(con, "rounded(x)", [-0.0, -0.00001, None])
    assert (math.copysign(1, minus_zero), math.copysign(1, tiny), null) == (1, 1, None)


def test_ranks_within_k_are_counted_each_time_they_stand_there(con):
    rng = Random("ranks")
    for _ in range(50):
        ranks = sorted(rng.choices(range(1, 20), k=rng.randint(0, 12)))
        k = rng.randint(1, 15)
        got = con.execute("select count_within(?::integer[], ?)", [ranks, k]).fetchall()[0][0]
        assert got == sum(rank <= k for rank in ranks)
