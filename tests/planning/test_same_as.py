"""A definition that was rewritten without another meaning: what was computed before stays fresh."""

from __future__ import annotations

import json

import pytest

from eval_pipeline.computing.random_bundles import write_random_bundle
from eval_pipeline.formulas.lock_file import FILE, read_lock
from tests.called import call
from tests.few_definitions import shipping

LOUD = """-- keys: {{loud: twice the number of hits}}
-- version: 1
-- scale: count

select run_key, query_key, {value} as loud from facts.noise
"""
NOISE = "-- keys: {{n_noise: the number of hits}}\n\nselect run_key, query_key, {value} as n_noise from facts.outcomes\n"
TWICE, SUM, SHIFTED = "2 * n_noise", "n_noise + n_noise", "(n_noise + n_noise) * 1"
# Another value for queries with exactly one hit alone.
ALMOST = "case when n_noise = 1 then 3 else 2 * n_noise end"
CELLS = {"metrics.loud": {"formula": 5}, "aggregates.run_metrics": {"parent": 5}}


@pytest.fixture
def world(small_world):
    """With a fact and a formula of one's own, computed and locked."""
    small_world.own("facts/noise.sql", NOISE.format(value="n_hits"))
    small_world.own("metrics/loud.sql", LOUD.format(value=TWICE))
    small_world.compute()
    assert said(small_world, "--lock")[0] == 0
    assert small_world.plan() == {}
    return small_world


def said(world, *words):
    with shipping(world.shipped):
        return call(["metrics", *words, "--db", str(world.settings.db)], world.folder, apart=True)


def fingerprint(world, name="metrics.loud"):
    return world.registry.definitions[name].fingerprint


def line(world, name="metrics.loud"):
    return read_lock(world.own_sql / FILE)[name]


def rewrite(world, value):
    world.own("metrics/loud.sql", LOUD.format(value=value))


@pytest.mark.slow
def test_a_rewritten_formula_that_means_the_same_keeps_its_cells(world):
    before, first = fingerprint(world), line(world).fingerprint
    rewrite(world, SUM)
    assert world.plan() == CELLS
    code, out, _ = said(world, "loud", "--same-as", before)
    assert (code, "same bit for bit" in out) == (0, True)
    assert world.plan() == {}
    assert fingerprint(world) == before
    assert line(world).same_as == (first,)
    assert line(world).fingerprint != first
    assert said(world, "--check-lock")[0] == 0


def test_one_that_means_something_else_is_told_by_its_queries_and_stays_stale(world):
    before, locked = fingerprint(world), (world.own_sql / FILE).read_bytes()
    rewrite(world, ALMOST)
    code, out, err = said(world, "loud", "--same-as", before)
    assert code == 1
    assert "run 'nightly-" in out and "query '" in out
    assert "loud 2.0" in out and "loud 3.0" in out
    assert "means something else" in err
    assert (world.own_sql / FILE).read_bytes() == locked
    assert world.plan() == CELLS


def test_the_same_rows_aggregated_otherwise_mean_something_else(world):
    """Without its mean the formula has no aggregates, whatever its rows are."""
    earlier = world.folder / "earlier.sql"
    earlier.write_text(LOUD.format(value=TWICE))
    world.own("metrics/loud.sql", LOUD.format(value=TWICE).replace("-- scale", "-- aggregate: sum\n-- scale"))
    stale, locked = world.plan(), (world.own_sql / FILE).read_bytes()
    code, out, _ = said(world, "loud", "--same-as", str(earlier))
    assert (code, "aggregate was mean, is sum" in out) == (1, True), out
    assert (world.own_sql / FILE).read_bytes() == locked
    assert world.plan() == stale != {}


@pytest.mark.slow
def test_what_reads_a_rewritten_definition_stays_fresh_with_it(world):
    before = fingerprint(world, "facts.noise")
    world.own("facts/noise.sql", NOISE.format(value="0 + n_hits"))
    assert set(world.plan()) == {"facts.noise", "metrics.loud", "aggregates.run_metrics"}
    assert said(world, "facts.noise", "--same-as", before)[0] == 0
    assert world.plan() == {}


@pytest.mark.slow
def test_a_second_rewriting_is_the_same_as_the_first_meaning(world):
    before, first = fingerprint(world), line(world).fingerprint
    rewrite(world, SUM)
    said(world, "loud", "--same-as", before)
    second = line(world).fingerprint
    earlier = world.folder / "earlier.sql"
    earlier.write_text(LOUD.format(value=SUM))
    rewrite(world, SHIFTED)
    assert said(world, "loud", "--same-as", str(earlier))[0] == 0
    assert line(world).same_as == (first, second)
    assert world.plan() == {}
    rewrite(world, SUM)
    assert world.plan() == {}


@pytest.mark.slow
def test_the_line_is_kept_by_lock_until_the_text_moves_again(world):
    before = fingerprint(world)
    rewrite(world, SUM)
    said(world, "loud", "--same-as", before)
    kept = (world.own_sql / FILE).read_bytes()
    said(world, "--lock")
    assert (world.own_sql / FILE).read_bytes() == kept
    rewrite(world, ALMOST)
    assert world.plan() == CELLS
    assert said(world, "--check-lock")[0] == 1
    said(world, "--lock")
    assert line(world).same_as == ()


@pytest.mark.slow
def test_only_the_text_that_was_computed_means_the_same(world):
    """Another parameter is another meaning, whatever the line says of the text as it is written."""
    text = LOUD.replace("-- scale", "-- parameters: {{times: 2}}\n-- scale")
    world.own("metrics/loud.sql", text.format(value="$times * n_noise"))
    world.compute(everything=True)
    before = fingerprint(world)
    world.own("metrics/loud.sql", text.format(value="n_noise * $times"))
    assert said(world, "loud", "--same-as", before)[0] == 0
    assert world.plan() == {}
    (world.folder / "eval-pipeline.toml").write_text("[formulas.loud]\ntimes = 3\n")
    assert world.plan() == CELLS


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--same-as", "x"), "needs the NAME"),
        (("loud", "--same-as", "nowhere.sql"), "no file or meaning of metrics.loud named 'nowhere.sql'"),
        (("hit_at_k", "--same-as", "fp1:0"), "has no line in"),
        (("loud", "--same-as", "sql/metrics/loud.sql"), "nothing to compare"),
    ],
)
def test_what_cannot_be_compared_is_wrong_usage(world, words, says):
    code, _, err = said(world, *words)
    assert (code, says in err) == (2, True), err


def test_a_lock_file_that_is_no_text_is_named(world):
    (world.own_sql / FILE).write_bytes(b"\xff\xfe")
    code, _, err = said(world, "--check-lock")
    assert (code, f"{FILE}: not UTF-8 at byte 0" in err) == (2, True), err


def test_a_random_bundle_is_the_same_for_the_same_seed(tmp_path):
    def files(folder):
        return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*.*")}

    one, again, other = (
        files(write_random_bundle(tmp_path / str(n), seed)) for n, seed in enumerate((1, 1, 2))
    )
    assert one == again != other
    assert one.keys() == other.keys()


def test_a_random_bundle_has_more_expected_than_usual_and_finds_it_further_down(tmp_path):
    bundle = write_random_bundle(tmp_path, 1)
    expected = {row["query_id"]: row.get("expected_chunk_ids") or [] for row in rows_of(bundle, "queries")}
    assert max(len(set(chunks)) for chunks in expected.values()) > 6
    further_down = [
        row["query_id"]
        for row in rows_of(bundle, "results")
        for hit in row.get("hits_top_k", [])[10:]
        if hit["chunk_id"] in expected.get(row["query_id"], [])
    ]
    assert len(set(further_down)) > 10


def rows_of(bundle, name):
    return [
        json.loads(line) for path in bundle.rglob(f"{name}.jsonl") for line in path.open(encoding="utf-8")
    ]


IN_POLARS = """import polars as pl

from eval_pipeline.formulas.decorator import formula


@formula(
    reads={{"facts.noise": ["run_key", "query_key", {column!r}]}},
    keys={{"loud": "twice the number of hits"}},
    version=1,
    scale="count",
)
def loud(noise: pl.DataFrame) -> pl.DataFrame:
    return noise.select("run_key", "query_key", loud=2 * pl.col("n_noise"))
"""


@pytest.mark.slow
def test_a_formula_in_polars_is_the_same_as_one_in_sql(world):
    earlier = world.folder / "in-sql.sql"
    (world.own_sql / "metrics" / "loud.sql").rename(earlier)
    world.own("metrics/loud.py", IN_POLARS.format(column="n_noise"))
    assert world.plan() == CELLS
    code, out, _ = said(world, "loud", "--same-as", str(earlier))
    assert (code, "same bit for bit" in out) == (0, True)
    assert world.plan() == {}


@pytest.mark.slow
def test_a_formula_in_polars_that_names_a_column_that_is_not_there_says_which(world):
    earlier = world.folder / "in-sql.sql"
    (world.own_sql / "metrics" / "loud.sql").rename(earlier)
    world.own("metrics/loud.py", IN_POLARS.format(column="n_nois"))
    code, out, _ = said(world, "loud", "--same-as", str(earlier))
    assert code == 1
    assert "loud.py" in out and "n_nois" in out
    world.own("metrics/loud.py", IN_POLARS.format(column="n_noise").replace('["run_key"', '["run_key", 1'))
    code, _, err = said(world, "loud")
    assert code == 2
    assert "each with the columns it needs" in err
