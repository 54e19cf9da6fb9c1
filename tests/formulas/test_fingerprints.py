"""The fingerprint moves exactly when the meaning can."""

from __future__ import annotations

import hashlib
import json

import pytest

from eval_pipeline.errors import DefinitionError
from eval_pipeline.formulas.fingerprint import own_fingerprint
from eval_pipeline.formulas.header import Header
from eval_pipeline.formulas.python_source import canonical_source
from eval_pipeline.formulas.registry import load_registry
from eval_pipeline.formulas.tokens import canonical
from tests.bundle_files import settings_in

FORMULA = """\
-- keys: {short: "Share of short lists"}
-- version: 1
-- parameters: {shortest: 3}
-- applies: n_hits > 0
-- undefined: 0 when there is nothing
-- scale: fraction
-- range: [0, 1]
-- direction: higher
-- aggregate: mean
-- why: docs/decisions.md#a0-1
-- examples:
--   - {hits: [a]} => {short: 1}

-- A remark in prose.
select
    run_key,
    query_key,
    twice(is_short(n_hits, $shortest)) / 2 as short,
from facts.lengths
"""
FACT = """\
-- keys: {n_hits: "Hits"}

select run_key, query_key, n_hits
from raw.results
where query_key in (select query_key from labels.queries)
"""
HELPERS = {
    "is_short": "-- arguments: [n, most]\n\ncase when n <= most then 1 else 0 end\n",
    "twice": "-- arguments: [x]\n\nadded(x, x)\n",
    "added": "-- arguments: [a, b]\n\na + b\n",
}
CHILD = '-- keys: {longer: "x"}\n\nselect run_key, query_key, short + 1 as longer from metrics.short_lists\n'


class Folder:
    """A folder of definitions in the place of the shipped ones, so that reading it is quick."""

    def __init__(self, path):
        self.path = path
        self.settings = settings_in(path)
        for name, text in HELPERS.items():
            self.write(f"functions/{name}.sql", text)
        self.write("facts/lengths.sql", FACT)
        self.write("metrics/short_lists.sql", FORMULA)
        self.write("metrics/longer.sql", CHILD)

    def write(self, name, text):
        target = self.path / "sql" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8")

    def change(self, name, old, new):
        text = (self.path / "sql" / name).read_text("utf-8")
        assert old in text
        self.write(name, text.replace(old, new))

    def fingerprints(self, name="metrics.short_lists"):
        found = load_registry(self.settings).definitions[name]
        return found.own_fingerprint, found.fingerprint


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr("eval_pipeline.formulas.registry.shipped_sql", lambda: tmp_path / "sql")
    monkeypatch.setattr("eval_pipeline.formulas.registry.PACKAGE", tmp_path)
    return Folder(tmp_path)


SILENT = {
    "a comment at the end of a line": (
        "    query_key,\n",
        "    query_key, -- a remark, with $1 and 'quotes\n",
    ),
    "a comment over lines": ("    query_key,\n", "    query_key /* one\n two */,\n"),
    "a remark below the header": ("-- A remark in prose.", "-- Another\n-- remark."),
    "no remark": ("\n-- A remark in prose.\n", "\n"),
    "line breaks": ("select\n    run_key,\n    query_key,", "select run_key, query_key,"),
    "spaces": ("twice(is_short(n_hits, $shortest))", "twice ( is_short(n_hits,$shortest) )"),
    "tabs and carriage returns": ("    run_key,\n", "\trun_key,\r\n"),
    "keyword case": ("select\n", "SELECT\n"),
    "the case of names": ("from facts.lengths", "from FACTS.Lengths"),
    "a semicolon": ("from facts.lengths\n", "from facts.lengths;\n"),
    "braces around a parameter": ("n_hits, $shortest", "n_hits, $shortest"),
    "description": ("Share of short lists", "How many lists are short"),
    "version": ("-- version: 1", "-- version: 2"),
    "scale": ("-- scale: fraction", "-- scale: binary"),
    "range": ("-- range: [0, 1]", "-- range: [0, null]"),
    "direction": ("-- direction: higher", "-- direction: lower"),
    "why": ("#a0-1", "#a0-2"),
    "example": ("{hits: [a]} => {short: 1}", "{hits: [a, b, c, d]} => {short: 0}"),
    "choices": ("-- applies", "-- choices: {shortest: [3, 4]}\n-- applies"),
    "spaces in applies": ("n_hits > 0", "n_hits   >   0"),
    "spaces in undefined": ("0 when there is nothing", "0 when   there is nothing"),
}


@pytest.mark.parametrize(("old", "new"), SILENT.values(), ids=SILENT)
def test_an_edit_that_cannot_change_a_value_moves_nothing(folder, old, new):
    before = folder.fingerprints()
    folder.change("metrics/short_lists.sql", old, new)
    assert folder.fingerprints() == before


LOUD = {
    "constant": ("/ 2 as", "/ 3 as"),
    "operator": ("/ 2 as", "* 2 as"),
    "a text in quotes": ("from facts.lengths", "from facts.lengths where 'A' = 'a'"),
    "parameter": ("{shortest: 3}", "{shortest: 4}"),
    "applies": ("n_hits > 0", "n_hits >= 0"),
    "no applies": ("-- applies: n_hits > 0\n", ""),
    "undefined": ("0 when there is nothing", "1 when there is nothing"),
    "aggregate": ("-- aggregate: mean", "-- aggregate: sum"),
    "another helper": ("twice(", "abs("),
}


@pytest.mark.parametrize(("old", "new"), LOUD.values(), ids=LOUD)
def test_an_edit_of_the_meaning_moves_the_formula_and_what_reads_it(folder, old, new):
    before, child = folder.fingerprints(), folder.fingerprints("metrics.longer")
    folder.change("metrics/short_lists.sql", old, new)
    after, changed_child = folder.fingerprints(), folder.fingerprints("metrics.longer")
    assert after[0] != before[0] and after[1] != before[1]
    assert changed_child[0] == child[0] and changed_child[1] != child[1]


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [("is_short", "<=", "<"), ("twice", "x, x", "x, x + 0"), ("added", "a + b", "b + a")],
    ids=["called directly", "called directly, second", "two calls deep"],
)
def test_a_helper_edit_moves_every_formula_that_calls_it_however_deep(folder, name, old, new):
    before = folder.fingerprints()
    fact = folder.fingerprints("facts.lengths")
    folder.change(f"functions/{name}.sql", old, new)
    after = folder.fingerprints()
    assert after[0] != before[0] and after[1] != before[1]
    assert folder.fingerprints("facts.lengths") == fact


def test_a_remark_in_a_helper_moves_nothing(folder):
    before = folder.fingerprints()
    folder.change("functions/added.sql", "a + b", "A  +  b -- sum")
    assert folder.fingerprints() == before


def test_an_edit_of_a_fact_moves_its_readers_and_not_what_they_say_themselves(folder):
    before = folder.fingerprints()
    folder.change("facts/lengths.sql", "n_hits\n", "n_hits + 0 as n_hits\n")
    after = folder.fingerprints()
    assert after[0] == before[0]
    assert after[1] != before[1]


def test_a_parameter_in_the_configuration_moves_its_formula_only(folder):
    before, fact = folder.fingerprints(), folder.fingerprints("facts.lengths")
    folder.settings.config.write_text("[formulas.short_lists]\nshortest = 5\n")
    assert folder.fingerprints() != before
    assert folder.fingerprints("facts.lengths") == fact
    folder.settings.config.write_text("[formulas.short_lists]\nshortest = 3\n")
    assert folder.fingerprints() == before


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("select 'a -- b'", "select 'a -- c'"),
        ("select 'it''s -- b'", "select 'it''s -- c'"),
        (r"select e'it\'s -- b'", r"select e'it\'s -- c'"),
        ("select $$a -- b$$", "select $$a -- c$$"),
        ("select '/*' || x || '*/'", "select '/*' || y || '*/'"),
        ('select "A"', 'select "a"'),
        ('select "a -- b"', 'select "a -- c"'),
        ("select 'A'", "select 'a'"),
        ("select 1 - -1", "select 1 -1"),
        ("select a<=b", "select a< b"),
        ("select 1.0", "select 1"),
        ("select a b", "select ab"),
        ("select x -- y\n + 1", "select x -- y + 1"),
    ],
)
def test_texts_that_mean_different_things_never_look_the_same(one, other):
    assert canonical(one) != canonical(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("select 'a' -- it's\nfrom t", "select 'a' from t"),
        ("SELECT a,B /* ' */ FROM t ;", "select a , b from t"),
        ("select 1--1\n-- 2\n+1", "select 1 +1"),
        ("select -1", "select - 1"),
    ],
)
def test_texts_that_differ_in_layout_look_the_same(one, other):
    assert canonical(one) == canonical(other)


def digest(value):
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return "fp1:" + hashlib.sha256(text.encode()).hexdigest()[:24]


def test_the_recipe_fp1_is_pinned_for_a_formula_in_sql(folder):
    """Whoever changes these values makes every stored number of every user stale: raise the recipe's number then."""
    folder.write(
        "metrics/pinned.sql",
        "-- keys: {pinned: anything}\n-- parameters: {least: 2, names: [a, é]}\n-- applies: n_hits > 0\n\n"
        "SELECT run_key, query_key, -- how many\n  n_hits >= $least and '$name' <> '' as pinned\nfrom raw.results;\n",
    )
    own = digest(
        {
            "body": "select run_key , query_key , n_hits >= $least and '$name' <> '' as pinned from raw . results",
            "parameters": {"least": 2, "names": ["a", "é"]},
            "applies": "n_hits > 0",
            "undefined": None,
            "aggregate": "mean",
            "helpers": [],
        }
    )
    full = digest({"own": own, "reads": []})
    assert folder.fingerprints("metrics.pinned") == (own, full)
    assert (own, full) == ("fp1:81ef488e797aaac25694f90f", "fp1:b0cfd319d607efa8c86b59ef")


def test_the_recipe_fp1_is_pinned_for_a_formula_in_python(tmp_path):
    path = tmp_path / "pinned.py"
    path.write_text(
        "from __future__ import annotations\n\nimport polars as pl\n\nLEAST = 2  # hits\n\n\n"
        "def pinned(results: pl.DataFrame) -> pl.DataFrame:\n"
        '    """Whether there are hits."""\n'
        '    return results.select("run_key", (pl.col("n_hits") >= LEAST).alias(f"pinned{1}"))\n'
    )
    body = (
        'def pinned ( results : pl . DataFrame ) -> pl . DataFrame : ; { return results . select ( "run_key" , '
        '( pl . col ( "n_hits" ) >= LEAST ) . alias ( f"pinned{1}" ) ) ;\nLEAST = 2 ;'
    )
    assert canonical_source(path, "pinned") == body
    assert own_fingerprint(Header(keys={"pinned": ""}), body, []) == "fp1:e149552b38b2efb907cf12fd"


MODULE = '''\
"""A formula in Python."""

from __future__ import annotations

import math

import polars as pl
import weights
from scoring import score as scored

from eval_pipeline.formulas.decorator import formula

FLOOR, CEILING = 0, 1


def clipped(x: float) -> float:
    """Between the two."""
    return min(max(x, FLOOR), CEILING)


@formula(
    reads=["facts.lengths"],
    keys={"counted": "Hits, weighted"},
    scale="count",
)
def counted(outcomes: pl.DataFrame) -> pl.DataFrame:
    """Weighted."""
    factor = clipped(scored(1.0)) * weights.WEIGHT  # at most one
    label = f"count{'ed'}"
    return outcomes.select("run_key", "query_key", (pl.col("n_hits") * factor).cast(pl.Float64).alias(label))
'''
NEIGHBOURS = {
    "weights.py": '"""Weights."""\n\nWEIGHT = 1\nUNUSED = 5\n',
    "scoring.py": '"""Scores."""\n\nimport deep\n\n\ndef score(x):\n    """Doubled."""\n    return deep.half(x) * 2\n',
    "deep.py": "def half(x):\n    return x / 2\n\n\ndef unused(x):\n    return x\n",
}


@pytest.fixture
def python_folder(folder):
    folder.write("metrics/counted.py", MODULE)
    for name, text in NEIGHBOURS.items():
        folder.write(f"metrics/{name}", text)
    return folder


SILENT_IN_PYTHON = {
    "comment": ("counted.py", "# at most one", "# never more than one"),
    "docstring": ("counted.py", '"""Weighted."""', '"""Hits times a weight.\n\n    Longer.\n    """'),
    "no docstring": ("counted.py", '    """Weighted."""\n', ""),
    "module docstring": ("counted.py", '"""A formula in Python."""', '"""Another."""'),
    "docstring of a helper": ("scoring.py", '"""Doubled."""', '"""Twice as much."""'),
    "blank lines": ("counted.py", '    label = f"', '\n\n    label = f"'),
    "line breaks in brackets": (
        "counted.py",
        '"run_key", "query_key", (',
        '\n        "run_key",\n        "query_key",\n        (',
    ),
    "a trailing comma": ("counted.py", "alias(label))", "alias(label),)"),
    "an unused import": ("counted.py", "import math\n", ""),
    "an unused constant": ("weights.py", "UNUSED = 5", "UNUSED = 6"),
    "an unused function": ("deep.py", "    return x\n", "    return x + 1\n"),
    "an unrelated function above": (
        "counted.py",
        "def clipped",
        "def unrelated():\n    return 1\n\n\ndef clipped",
    ),
    "key description": ("counted.py", "Hits, weighted", "Weighted hits"),
}


@pytest.mark.parametrize(("name", "old", "new"), SILENT_IN_PYTHON.values(), ids=SILENT_IN_PYTHON)
def test_an_edit_in_python_that_cannot_change_a_value_moves_nothing(python_folder, name, old, new):
    before = python_folder.fingerprints("metrics.counted")
    python_folder.change(f"metrics/{name}", old, new)
    assert python_folder.fingerprints("metrics.counted") == before


LOUD_IN_PYTHON = {
    "constant": ("counted.py", "scored(1.0)", "scored(2.0)"),
    "constant of a tuple": ("counted.py", "FLOOR, CEILING = 0, 1", "FLOOR, CEILING = 0, 2"),
    "a formatted string": ("counted.py", "{'ed'}", "{'ing'}"),
    "a function of the file": ("counted.py", "min(max(", "max(min("),
    "a constant of another file": ("weights.py", "WEIGHT = 1\n", "WEIGHT = 2\n"),
    "a constant set twice": ("weights.py", "WEIGHT = 1\n", "WEIGHT = 1\nWEIGHT = WEIGHT + 1\n"),
    "a function of another file": ("scoring.py", "* 2", "* 3"),
    "two files deep": ("deep.py", "x / 2", "x / 4"),
    "a decorator of a helper": ("deep.py", "def half", "@abs\ndef half"),
    "what is read": ("counted.py", '["facts.lengths"]', '["metrics.longer"]'),
    "indentation": (
        "counted.py",
        "    return min(max(x, FLOOR), CEILING)",
        "    if x:\n        return x\n    return 0",
    ),
}


@pytest.mark.parametrize(("name", "old", "new"), LOUD_IN_PYTHON.values(), ids=LOUD_IN_PYTHON)
def test_an_edit_in_python_of_the_meaning_moves_the_fingerprint(python_folder, name, old, new):
    before = python_folder.fingerprints("metrics.counted")
    python_folder.change(f"metrics/{name}", old, new)
    assert python_folder.fingerprints("metrics.counted")[1] != before[1]


def test_a_function_on_one_line_with_its_docstring_keeps_its_meaning(tmp_path):
    path = tmp_path / "one_line.py"
    path.write_text('def one_line(é="ü"): "ß doc"; return 1\n')
    first = canonical_source(path, "one_line")
    path.write_text('def one_line(é="ü"): "other doc"; return 1\n')
    assert canonical_source(path, "one_line") == first
    path.write_text('def one_line(é="ü"): "ß doc"; return 2\n')
    assert canonical_source(path, "one_line") != first


def test_a_function_imported_inside_another_is_followed(python_folder):
    python_folder.change(
        "metrics/counted.py",
        "    factor = clipped(scored(1.0))",
        "    from deep import half\n\n    factor = half(2)",
    )
    before = python_folder.fingerprints("metrics.counted")
    python_folder.change("metrics/deep.py", "x / 2", "x / 4")
    assert python_folder.fingerprints("metrics.counted") != before


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("import os", "not os"),
        ("import os.path", "not os.path"),
        ("from subprocess import run", "not subprocess"),
        ("import numpy", "not numpy"),
        ("import random", "not random"),
        ("from pathlib import Path", "not pathlib"),
        ("import eval_pipeline.store.open", "not eval_pipeline.store.open"),
        ("from . import weights", "without a dot"),
        ("from .weights import WEIGHT", "without a dot"),
        ("from weights import *", "every name"),
        ("TOTAL = eval('1')", "eval cannot be followed"),
        ("RUN = exec", "exec cannot be followed"),
        ("NAME = getattr(pl, 'col')", "getattr cannot be followed"),
        ("TEXT = open('x')", "open cannot be followed"),
        ("HIDDEN = __import__('os')", "__import__ cannot be followed"),
        ("FRAME = pl.read_csv('x')", "read_csv cannot be followed"),
        ("FRAME = pl.scan_parquet('x')", "scan_parquet cannot be followed"),
        ("def f(frame): return frame.write_csv('x')", "write_csv cannot be followed"),
        ("if True:\n    X = 1", "at the top of a formula file"),
        ("for X in range(3): pass", "at the top of a formula file"),
        ("print('hello')", "at the top of a formula file"),
        ("weights.WEIGHT = 3", "at the top of a formula file"),
        ("FLOOR += 1", "at the top of a formula file"),
        ("def broken(:", "not Python"),
    ],
)
def test_what_cannot_be_followed_is_refused_with_its_line(python_folder, line, what):
    python_folder.change("metrics/counted.py", "FLOOR, CEILING = 0, 1\n", f"FLOOR, CEILING = 0, 1\n{line}\n")
    number = MODULE.splitlines().index("FLOOR, CEILING = 0, 1") + 2
    with pytest.raises(DefinitionError) as caught:
        python_folder.fingerprints()
    assert f"counted.py:{number}" in str(caught.value)
    assert what in str(caught.value)


@pytest.mark.parametrize("argument", ["keys=dict(counted='x')", "keys={'counted': FLOOR}", "reads=READS"])
def test_a_declaration_that_is_no_literal_is_refused_with_its_line(python_folder, argument):
    name = argument.split("=")[0]
    old = next(line for line in MODULE.splitlines() if line.strip().startswith(name + "="))
    python_folder.change("metrics/counted.py", old, f"    {argument},")
    with pytest.raises(DefinitionError, match=r"counted\.py:\d+: .* is written out as a literal"):
        python_folder.fingerprints()


def test_a_python_file_without_its_function_says_what_is_expected(folder):
    folder.write(
        "metrics/counted.py",
        "from eval_pipeline.formulas.decorator import formula\n\n\n@formula(reads=[])\ndef other(): ...\n",
    )
    with pytest.raises(DefinitionError, match="expected a function counted with the decorator"):
        folder.fingerprints()
