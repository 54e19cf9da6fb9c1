"""A file in a folder of one's own: what it brings, and what of it is refused when it is computed."""

from __future__ import annotations

import shutil
import tempfile

import pytest

from eval_pipeline.errors import DefinitionError, UsageError
from eval_pipeline.formulas.catalogue import describe, find_definition
from eval_pipeline.formulas.registry import load_registry
from eval_pipeline.planning.explain import explain_movement
from eval_pipeline.planning.status import find_status
from eval_pipeline.showing.show import show_queries, show_run
from tests.bundle_files import ask, compute, hits, load, settings_in, write_golden, write_run
from tests.projects import project_of


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory):
    """A computed run, with a folder for definitions of one's own that is still empty."""
    folder = tmp_path_factory.mktemp("evaluated")
    (folder / "sql" / "metrics").mkdir(parents=True)
    settings = settings_in(folder, EVAL_PIPELINE_SQL=str(folder / "sql"))
    write_golden(folder / "bundle", [{"query_id": "a", "category": "factual"}, {"query_id": "b"}])
    write_run(
        folder / "bundle", "run-1", [{"query_id": "b"}, {"query_id": "a", "hits_top_k": hits("d/1", "d/2")}]
    )
    load(settings, folder / "bundle")
    compute(settings)
    return settings


def copy_of(settings, folder):
    shutil.copytree(settings.db.parent, folder, dirs_exist_ok=True)
    return settings_in(folder, EVAL_PIPELINE_SQL=str(folder / "sql"))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "many_hits.sql",
            '-- keys: {many_hits: "Whether there are two hits or more"}\n-- scale: binary\n-- examples:\n'
            "--   - {hits: [a, b]} => {many_hits: 1}\n\n"
            "select run_key, query_key, cast(n_hits >= 2 as double) as many_hits from facts.outcomes\n",
        ),
        (
            "many_hits.py",
            "from __future__ import annotations\n\nimport polars as pl\nfrom thresholds import enough\n\n"
            "from eval_pipeline.formulas.decorator import formula\n\n\n"
            '@formula(reads=["facts.outcomes"], keys={"many_hits": "Whether there are two hits or more"}, '
            'scale="binary", examples=["{hits: [a, b]} => {many_hits: 1}"])\n'
            "def many_hits(outcomes: pl.DataFrame) -> pl.DataFrame:\n"
            '    return outcomes.select("run_key", "query_key", enough(pl.col("n_hits")).cast(pl.Float64).alias("many_hits"))\n',
        ),
    ],
    ids=["SQL", "Python with a module of its own"],
)
def test_one_new_file_brings_table_catalogue_entry_values_and_cells(evaluated, tmp_path, name, text):
    settings = copy_of(evaluated, tmp_path)
    (settings.own_sql / "metrics" / name).write_text(text)
    (settings.own_sql / "metrics" / "thresholds.py").write_text("def enough(n):\n    return n >= 2\n")
    registry = load_registry(settings)
    document = describe(registry, find_definition(registry, "many_hits"))
    assert document["examples"] == ["{hits: [a, b]} => {many_hits: 1}"]
    assert document["reads"] == ["facts.outcomes"]

    (cell,) = [
        asset
        for asset in find_status(project_of(settings, registry))["assets"]
        if asset["name"] == "metrics.many_hits"
    ]
    assert (cell["missing"], cell["fresh"]) == (1, 0)
    done = compute(settings, registry, on=3)
    assert {definition: count for definition, count in done.cells.items() if count} == {
        "metrics.many_hits": 1,
        "aggregates.run_metrics": 1,
    }
    (cell,) = [
        asset
        for asset in find_status(project_of(settings, registry))["assets"]
        if asset["name"] == "metrics.many_hits"
    ]
    assert (cell["missing"], cell["fresh"]) == (0, 1)

    assert ask(settings, "select query_key, many_hits from metrics.many_hits order by many_hits") != []
    shown = show_run(project_of(settings, registry), "run-1")
    assert shown["metrics"]["many_hits"] == {"value": 0.5, "n": 2}
    assert shown["slices"]["category"]["factual"]["metrics"]["many_hits"] == {"value": 1.0, "n": 1}
    assert shown["formulas"]["many_hits"]["fingerprint"] == registry.get("many_hits").fingerprint
    lines = [
        (line["query_id"], line["metrics"]["many_hits"])
        for line in show_queries(project_of(settings, registry), "run-1")
    ]
    assert lines == [("a", 1.0), ("b", 0.0)]


PYTHON_FORMULA = (
    "from eval_pipeline.formulas.decorator import formula\n\n\n"
    '@formula(reads=["facts.outcomes"], keys={"own": "Made up"})\n'
    "def own(outcomes):\n"
    '    return outcomes.select("run_key", "query_key", own=outcomes["n_hits"] * 1.0)\n'
)


def test_formulas_in_python_of_ones_own_folder_are_refused_where_the_environment_says_so(
    evaluated, tmp_path, monkeypatch
):
    settings = copy_of(evaluated, tmp_path)
    path = settings.own_sql / "metrics" / "own.py"
    path.write_text(PYTHON_FORMULA)
    trusted = load_registry(settings)
    monkeypatch.setenv("EVAL_PIPELINE_PYTHON", "refuse")
    with pytest.raises(DefinitionError, match=r"own\.py: a formula in Python is code .* write it in SQL"):
        load_registry(settings)
    # Nor does it run for who had read it before.
    with pytest.raises(DefinitionError, match="EVAL_PIPELINE_PYTHON=refuse"):
        compute(settings, trusted, on=3, definitions={"metrics.own"})
    path.unlink()
    shipped = next(one for one in load_registry(settings).formulas if one.is_python)
    compute(settings, load_registry(settings), on=3, definitions={shipped.name}, force=True)
    assert ask(settings, f"select count(*) from {shipped.name}") == [(2,)]


def test_another_word_for_refusing_python_is_wrong_usage(evaluated, monkeypatch):
    monkeypatch.setenv("EVAL_PIPELINE_PYTHON", "no")
    with pytest.raises(UsageError, match="EVAL_PIPELINE_PYTHON is 'no'; it is 'refuse', or not set"):
        load_registry(evaluated)


def values_of(settings, name, text, *, on=3, **options):
    """Query → key → value of a formula of one's own."""
    (settings.own_sql / "metrics" / name).write_text(text)
    registry = load_registry(settings)
    compute(settings, registry, on=on, **options)
    shown = show_run(project_of(settings, registry), "run-1")["metrics"]
    return shown, {
        line["query_id"]: line["metrics"] for line in show_queries(project_of(settings, registry), "run-1")
    }


def why_failed(settings, name, text):
    """What `status` says of a formula of one's own that could not be computed."""
    values_of(settings, name, text)
    return find_status(project_of(settings))["failed"]["metrics.own"]


HEADER = '-- keys: {own: "Made up"}\n\n'
MAY_LACK = '-- keys: {own: "Made up"}\n-- undefined: null without hits\n\n'


@pytest.mark.parametrize("value", ["0.0 / 0.0", "n_hits / 0.0", "'nan'::double", "-1 / 0.0"])
def test_a_value_that_is_no_number_is_undefined_and_stops_no_other_formula(evaluated, tmp_path, value):
    settings = copy_of(evaluated, tmp_path)
    whole = f"case when n_hits > 0 then 1 else {value} end"
    shown, by_query = values_of(
        settings, "own.sql", f"{MAY_LACK}select run_key, query_key, {whole} as own from facts.outcomes\n"
    )
    assert (by_query["a"]["own"], by_query["b"]["own"]) == (1, None)
    assert shown["own"] == {"value": 1, "n": 1}


@pytest.mark.parametrize("value", ["null", "0.0 / 0.0"])
def test_a_query_without_a_value_is_not_left_out_of_the_mean_unless_the_header_says_why(
    evaluated, tmp_path, value
):
    settings = copy_of(evaluated, tmp_path)
    text = f"select run_key, query_key, case when n_hits > 0 then 1 else {value} end as own from facts.outcomes\n"
    why = why_failed(settings, "own.sql", HEADER + text)
    assert "run run-1: no value where it applies for query 'b': give it a value" in why
    assert "`undefined: why" in why
    shown, _ = values_of(
        settings, "own.sql", HEADER.replace("\n\n", "\n-- applies: n_hits > 0\n\n") + text, on=4
    )
    assert shown["own"] == {"value": 1, "n": 1}


def test_a_query_with_two_rows_is_refused_and_counts_nowhere_twice(evaluated, tmp_path):
    settings = copy_of(evaluated, tmp_path)
    twice = f"{HEADER}select run_key, query_key, 1 as own from facts.outcomes, range(2)\n"
    why = why_failed(settings, "own.sql", twice)
    assert "its rows are one per run_key, query_key, and for run 'run-1', query " in why
    assert "there are 2" in why
    assert "own" not in {name for (name,) in ask(settings, "select distinct metric from per_query_metrics")}


def test_a_fact_of_ones_own_may_have_several_rows_for_a_query(evaluated, tmp_path):
    """What a row of it is about need not be named by keys."""
    settings = copy_of(evaluated, tmp_path)
    (settings.own_sql / "facts").mkdir()
    (settings.own_sql / "facts" / "places.sql").write_text(
        '-- keys: {place: "Where something stands"}\n\n'
        "select o.run_key, o.query_key, n.range as place from facts.outcomes as o, range(3) as n\n"
    )
    compute(settings, load_registry(settings), on=3)
    assert ask(settings, "select count(*), count(distinct query_key) from facts.places") == [(6, 2)]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("return outcomes.lazy()", "gives a LazyFrame, expected a polars DataFrame"),
        ("outcomes.select('run_key')", "gives a NoneType, expected a polars DataFrame"),
        ("raise SystemExit(3)", "the formula failed: 3"),
    ],
)
def test_a_python_formula_that_gives_no_frame_is_named_with_what_it_gave(evaluated, tmp_path, body, words):
    settings = copy_of(evaluated, tmp_path)
    text = (
        "from __future__ import annotations\n\nimport polars as pl\n\n"
        "from eval_pipeline.formulas.decorator import formula\n\n\n"
        '@formula(reads=["facts.outcomes"], keys={"own": "Made up"})\n'
        f"def own(outcomes: pl.DataFrame) -> pl.DataFrame:\n    {body}\n"
    )
    assert words in why_failed(settings, "own.py", text)


def test_an_edit_of_a_module_that_a_formula_imports_is_seen_by_the_next_computation(evaluated, tmp_path):
    settings = copy_of(evaluated, tmp_path)
    formula = (
        "import polars as pl\nfrom thresholds import enough\nfrom eval_pipeline.formulas.decorator import formula\n\n"
        '@formula(reads=["facts.outcomes"], keys={"many": "x"})\ndef many(outcomes):\n'
        "    from thresholds import enough as late\n"
        '    kept = enough(pl.col("n_hits")) & late(pl.col("n_hits"))\n'
        '    return outcomes.select("run_key", "query_key", kept.cast(pl.Float64).alias("many"))\n'
    )
    (settings.own_sql / "metrics" / "many.py").write_text(formula)
    found = []
    for least in (2, 9):
        (settings.own_sql / "metrics" / "thresholds.py").write_text(
            f"def enough(n):\n    return n >= {least}\n"
        )
        compute(settings, on=least, reasons=None, definitions={"metrics.many"})
        found.append(ask(settings, "select sum(many) from metrics.many"))
    assert found == [[(1.0,)], [(0.0,)]]


def test_older_parameters_of_a_python_formula_are_explained_and_leave_no_file_behind(
    evaluated, tmp_path, monkeypatch
):
    settings = copy_of(evaluated, tmp_path / "store")
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    formula = (
        "import polars as pl\nfrom eval_pipeline.formulas.decorator import formula\n\n"
        '@formula(reads=["facts.outcomes"], keys={"many": "x"}, parameters={"weight": 1})\n'
        "def many(outcomes, *, weight):\n"
        '    return outcomes.select("run_key", "query_key", (pl.col("n_hits") * weight).cast(pl.Float64).alias("many"))\n'
    )
    for on, weight in ((3, 1), (5, 4)):
        settings.config.write_text(f"[formulas.many]\nweight = {weight}\n")
        values_of(settings, "many.py", formula, on=on, reasons=None)
    found = explain_movement(project_of(settings), "many", ("run-1", "run-1"), as_of=("2026-09-05", None))
    assert (found["a"]["value"], found["b"]["value"], found["formula"]) == (1.0, 4.0, 3.0)
    assert list((tmp_path / "temporary").iterdir()) == []
