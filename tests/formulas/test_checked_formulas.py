"""`metrics --check` and `metrics new`: a formula of one's own is known to hold before anything is computed with it."""

from __future__ import annotations

import json
import shutil

import pytest

from eval_pipeline.settings import shipped_sql
from tests.bundle_files import hits, load, settings_in, write_golden, write_run
from tests.called import call

NDCG = """\
-- keys: {own_ndcg: "nDCG with one grade"}
-- applies: n_expected > 0
select run_key, query_key, 1 / log2(1 + first_rank) as own_ndcg from facts.chunk_ranks
"""
FALSE_EXAMPLE = """\
-- keys: {n_first: "Rank of the first expected chunk"}
-- applies: first_rank is not null
-- examples:
--   - {expected_chunk_ids: [a], hits: [x, a]} => {n_first: 2}
--   - {expected_chunk_ids: [a], hits: [x, a]} => {n_first: 1}
select run_key, query_key, first_rank as n_first from facts.chunk_ranks
"""
NULL_EXAMPLE = """\
-- keys: {n_first: "Rank of the first expected chunk"}
-- applies: n_expected > 0
-- examples:
--   - {expected_chunk_ids: [a], hits: [x, a]} => {n_first: 2}
--   - {expected_chunk_ids: [a], hits: [x]} => {n_first: null}
select run_key, query_key, first_rank as n_first from facts.chunk_ranks
"""
MISSPELT = """\
-- keys: {n_near: "How many are near the top"}

select
    run_key,
    query_key,
    cuont_within(found_ranks, 3) as n_near,
from facts.chunk_ranks
"""
UNREADABLE = '-- keys: {n_near: "How many"}\n-- scale: yesno\nselect run_key, query_key from facts.outcomes\n'


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    """A store with two runs; the newest has misses."""
    folder = tmp_path_factory.mktemp("loaded")
    names = [f"q{number}" for number in range(1, 6)]
    write_golden(folder / "bundle", [{"query_id": name, "expected_chunk_ids": ["a"]} for name in names])
    found = [{"query_id": name, "hits_top_k": hits("a")} for name in names]
    missed = [{"query_id": name, "hits_top_k": hits("x")} for name in names[1:]]
    write_run(folder / "bundle", "old", found, created_at="2026-09-01T02:00:00Z")
    write_run(folder / "bundle", "new", [found[0], *missed], created_at="2026-09-02T02:00:00Z")
    load(settings_in(folder / "data"), folder / "bundle")
    (folder / "data" / "e.duckdb").rename(folder / "data" / "eval.duckdb")
    return folder


@pytest.fixture
def place(loaded, tmp_path):
    """A folder with that store and room for formulas of one's own."""
    shutil.copytree(loaded / "data", tmp_path / "data")
    (tmp_path / "sql" / "metrics").mkdir(parents=True)
    return tmp_path


def write(place, name, text):
    (place / "sql" / "metrics" / name).write_text(text)


def checked(place, *names):
    """Exit code, and the problems by definition."""
    code, out, _ = call(["metrics", "--check", *names, "--json"], place, apart=True)
    document = json.loads(out)
    assert document["ok"] is (code == 0)
    return code, {one["name"]: one["problems"] for one in document["definitions"]}


@pytest.mark.parametrize("option", [[], ["--python"]], ids=["SQL", "Python"])
def test_a_new_formula_holds_as_it_is_written_and_is_never_written_over(place, option):
    code, out, err = call(["metrics", "new", "my_own", *option], place, apart=True)
    assert code == 0
    (path,) = (place / "sql" / "metrics").iterdir()
    assert out == f"wrote {path}\n"
    assert "metrics --check my_own" in err
    assert checked(place, "my_own") == (0, {"metrics.my_own": []})
    path.write_text(path.read_text().replace("version", "verzion"))
    before = path.read_text()
    for words in (["my_own"], ["my_own", "--python"], ["hit_at_k"], ["mrr"], ["My-Own"], []):
        assert call(["metrics", "new", *words], place)[0] == 2
    assert (path.read_text(), len(list(path.parent.iterdir()))) == (before, 1)


@pytest.mark.slow
def test_a_union_that_applies_cannot_limit_is_a_problem_of_its_own_formula(place):
    rows = "select run_key, query_key, 1.0 as both from facts.chunk_ranks"
    write(
        place, "both.sql", f'-- keys: {{both: "One"}}\n-- applies: n_expected > 0\n{rows} union all {rows}\n'
    )
    code, found = checked(place)
    assert (code, [name for name, problems in found.items() if problems]) == (1, ["metrics.both"])
    assert "exactly one outermost select" in found["metrics.both"][0]["message"]


@pytest.mark.parametrize("name", ["select", "null", "run_key", "class"])
def test_a_name_that_no_formula_can_have_is_refused_and_nothing_is_written(place, name):
    option = ["--python"] if name == "class" else []
    code, out, err = call(["metrics", "new", name, *option], place, apart=True)
    assert (code, out) == (2, "")
    assert f"no formula can be called {name}" in err
    assert not list((place / "sql").rglob(f"{name}.*"))


def test_in_a_checkout_a_new_formula_stands_among_the_shipped_ones(tmp_path, monkeypatch):
    """There `sql` is the folder of shipped definitions, which must not be read a second time as somebody's own."""
    shipped = shutil.copytree(shipped_sql(), tmp_path / "sql")
    for module in ("settings", "formulas.registry", "formulas.new_formula", "formulas.lock_file"):
        monkeypatch.setattr(f"eval_pipeline.{module}.shipped_sql", lambda: shipped)
    code, out, err = call(["metrics", "new", "my_own"], tmp_path, apart=True)
    assert (code, out) == (0, f"wrote {shipped / 'metrics' / 'my_own.sql'}\n"), err
    assert call(["metrics", "new", "select"], tmp_path)[0] == 2
    assert [path.name for path in shipped.rglob("*") if path.stem in ("my_own", "select")] == ["my_own.sql"]


def test_a_new_formula_says_what_it_asks_and_which_family_it_is_of(place):
    call(["metrics", "new", "my_own"], place)
    _, out, _ = call(["metrics", "my_own", "--json"], place, apart=True)
    found = json.loads(out)
    assert (found["family"], found["headline"], bool(found["about"])) == ("my_own", ["my_own"], True)


def test_without_a_folder_of_ones_own_it_is_made_where_one_works(tmp_path):
    assert call(["metrics", "new", "my_own"], tmp_path)[0] == 0
    assert (tmp_path / "sql" / "metrics" / "my_own.sql").is_file()
    assert checked(tmp_path, "my_own")[0] == 0


def test_a_score_that_misses_have_none_of_names_three_queries_of_the_newest_run_and_what_to_write(place):
    write(place, "own_ndcg.sql", NDCG)
    code, out, _ = call(["metrics", "--check", "own_ndcg"], place, apart=True)
    assert code == 1
    path = place / "sql" / "metrics" / "own_ndcg.sql"
    assert out.startswith(
        f"{path}: on run 'new': no value where it applies for query 'q2', query 'q3', query 'q4': "
    )
    assert "`undefined: why it may have none`" in out
    write(
        place,
        "own_ndcg.sql",
        NDCG.replace("1 / log2(1 + first_rank)", "coalesce(1 / log2(1 + first_rank), 0)"),
    )
    assert checked(place, "own_ndcg") == (0, {"metrics.own_ndcg": []})
    write(place, "own_ndcg.sql", NDCG.replace("-- applies", "-- undefined: misses have none\n-- applies"))
    assert checked(place, "own_ndcg") == (0, {"metrics.own_ndcg": []})


def test_a_false_example_is_named_with_its_place_and_what_came_instead(place):
    write(place, "n_first.sql", FALSE_EXAMPLE)
    code, found = checked(place, "n_first")
    ((problem,),) = found.values()
    assert (code, problem["line"], problem["example"]) == (1, 5, 2)
    assert "gives {'n_first': 2.0}, and expected is {'n_first': 1}" in problem["message"]


def test_an_example_without_a_value_where_it_applies_does_not_hold_and_its_siblings_are_not_blamed(place):
    write(place, "n_first.sql", NULL_EXAMPLE)
    _, found = checked(place, "n_first")
    examples = [one for one in found["metrics.n_first"] if one["example"]]
    assert [(one["line"], one["example"]) for one in examples] == [(5, 2)]
    assert "it applies here and gives no value" in examples[0]["message"]


def test_a_misspelt_function_is_found_at_its_line_and_column_without_a_store(tmp_path):
    (tmp_path / "sql" / "metrics").mkdir(parents=True)
    write(tmp_path, "n_near.sql", MISSPELT)
    code, found = checked(tmp_path, "n_near")
    ((problem,),) = found.values()
    assert (code, problem["line"], problem["column"]) == (1, 6, 5)
    assert "cuont_within" in problem["message"]


def test_a_file_that_cannot_be_read_is_named_and_keeps_no_other_from_being_checked(place):
    write(place, "n_near.sql", UNREADABLE)
    write(place, "n_first.sql", FALSE_EXAMPLE)
    code, out, _ = call(["metrics", "--check", "n_near"], place, apart=True)
    assert (code, out.count("scale 'yesno' is none of")) == (1, 1)
    assert len(checked(place, "n_first")[1]["metrics.n_first"]) == 1
    assert call(["metrics", "--check", "nowhere"], place)[0] == 2


@pytest.mark.parametrize(
    "words", [["plan"], ["metrics"], ["metrics", "n_near"], ["metrics", "n_near", "--json"]]
)
def test_plan_and_the_catalogue_name_a_formula_of_ones_own_that_does_not_hold(place, words):
    write(place, "n_near.sql", MISSPELT)
    code, out, err = call(words, place, apart=True)
    assert code == 1
    assert "n_near" in out
    assert f"error: {place / 'sql' / 'metrics' / 'n_near.sql'}:6:5: Catalog Error" in err


def test_plan_runs_the_examples_of_ones_own_formulas(place):
    write(place, "n_first.sql", FALSE_EXAMPLE)
    code, _, err = call(["plan"], place, apart=True)
    assert code == 1
    assert "n_first.sql:5: example" in err
