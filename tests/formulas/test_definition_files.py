"""Definition files: what their headers may say, how one's own are laid over the shipped, and what one new file brings."""

from __future__ import annotations

import os

import duckdb
import pytest

from eval_pipeline.errors import DefinitionError, InvalidConfig, UnknownName
from eval_pipeline.formulas.lock_file import FILE, Locked, moved_without_version, read_lock, write_lock
from eval_pipeline.formulas.registry import load_registry
from eval_pipeline.settings import shipped_sql
from tests.bundle_files import settings_in

BODY = "\nselect run_key, query_key, n_hits as x from raw.results\n"


class Definitions:
    """A folder in the place of the shipped one, and one's own folder laid over it."""

    def __init__(self, path):
        self.shipped, self.own = path / "shipped", path / "own"
        self.shipped.mkdir()
        self.own.mkdir()
        self.settings = settings_in(path, EVAL_PIPELINE_SQL=str(self.own))

    def ship(self, name, text):
        return write(self.shipped / name, text)

    def lay_over(self, name, text):
        return write(self.own / name, text)

    def load(self):
        return load_registry(self.settings)

    def refusal(self):
        with pytest.raises(DefinitionError) as caught:
            self.load()
        return str(caught.value)


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.setattr("eval_pipeline.formulas.registry.shipped_sql", lambda: tmp_path / "shipped")
    monkeypatch.setattr("eval_pipeline.formulas.lock_file.shipped_sql", lambda: tmp_path / "shipped")
    monkeypatch.setattr("eval_pipeline.formulas.registry.PACKAGE", tmp_path)
    return Definitions(tmp_path)


FAULTY = {
    "-- keys: [x]": "a mapping of column to what it means",
    "-- keys: {x: null}": "a mapping of column to what it means",
    "-- version: 1": "a formula names its keys",
    "-- keys: {x: y}\n-- kyes: {x: y}": "unknown header field 'kyes'; there is: about, aggregate, applies",
    "-- keys: {x: y}\n-- scale: percent": "binary, fraction, ordinal, count, ms",
    "-- keys: {x: y}\n-- direction: up": "higher, lower, none",
    "-- keys: {x: y}\n-- aggregate: median": "mean, sum, ratio(a, b), quantile(0.95)",
    "-- keys: {x: y}\n-- version: 0": "a whole number from 1",
    "-- keys: {x: y}\n-- version: '2'": "a whole number from 1",
    "-- keys: {x: y}\n-- range: 1": "[lowest, highest]",
    "-- keys: {x: y}\n-- range: [1, 0]": "[lowest, highest]",
    "-- keys: {x: y}\n-- range: [low, high]": "[lowest, highest]",
    "-- keys: {x: y}\n-- parameters: [a]": "a mapping of name to value",
    "-- keys: {x: y}\n-- parameters: {a: null}": "numbers, texts, true, false and lists",
    "-- keys: {x: y}\n-- parameters: {a: .nan}\n-- applies: n_hits > $a": "numbers, texts, true, false and lists",
    "-- keys: {x: y}\n-- parameters: {a: 1}": "never used as $a",
    "-- keys: {x: y}\n-- applies: n_hits > $a": "$a is no parameter",
    "-- keys: {x: y}\n-- applies: true": "applies is a text",
    "-- keys: {x: y}\n-- why: [a]": "why is a text",
    "-- keys: {x: y}\n-- was: 3": "was is a text",
    "-- keys: {x: y}\n-- choices: {a: [1]}": "no such parameter",
    "-- keys: {x: y}\n-- choices: [a]": "a mapping of a parameter to the list",
    "-- keys: {x: y}\n-- parameters: {a: 3}\n-- choices: {a: [1, 2]}\n-- applies: n_hits > $a": "its choices are: 1, 2",
    "-- keys: {x: y}\n-- examples:\n--   - nonsense": "`- GIVEN => EXPECTED`",
    "-- keys: {x: y}\n-- keys: {z: y}": "'keys' is given twice",
    "-- keys: {x: y, x: z}": "'x' is given twice",
    "-- keys: {x: y": "not YAML",
    "-- keys: {x: y}\n-- Prose, with: a colon, and: another": "after a blank line",
    "-- keys: {x: y}\n-- grain: x": "starts with run_key",
    "-- keys: {x: y}\n-- family: Two Words": "no name such as retrieval",
    "-- keys: {x: y}\n-- headline: z": "headline 'z' is no key; the keys are: x",
    "-- keys: {x: y}\n-- headline: [x, z]": "headline 'z' is no key",
    "-- keys: {x: y}\n-- about: 3": "about is a text",
    "-- keys: {x: y}\n-- replaces: z": "says `replaces: z`",
}


@pytest.mark.parametrize(
    ("header", "allowed"), FAULTY.items(), ids=[key.replace("\n", " ") for key in FAULTY]
)
def test_a_faulty_header_is_refused_with_its_file_and_what_is_allowed(files, header, allowed):
    path = files.ship("metrics/x.sql", header + BODY)
    refusal = files.refusal()
    assert refusal.startswith(str(path))
    assert allowed in refusal


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("select 1 as x", "reads no table of"),
        ("select run_key, query_key, n_hits as x from elsewhere.results", "reads no table of"),
        ("select run_key, query_key, x from facts.nowhere", "there is no such definition"),
        ("select run_key, query_key, n_hits > $least as x from raw.results", "$least is no parameter"),
        ("select run_key, query_key, random() as x from raw.results", "random gives another answer"),
        ("select run_key, query_key, epoch(now()) as x from raw.results", "now gives another answer"),
        ('select run_key, query_key, "current_date"() as x from raw.results', "current_date gives another"),
        (
            "select run_key, query_key, n_hits as x from raw.results tablesample 10 rows",
            "a sample is another one",
        ),
        ("select run_key, query_key, n_hits as x from raw.results using sample 3", "a sample is another one"),
        (
            "with gone as (delete from raw.hits returning *) select run_key, query_key, 1 as x from raw.results",
            "a definition only selects; delete changes something",
        ),
        (
            "with x as materialized (copy raw.hits to 'x') select run_key, query_key, 1 as x from raw.results",
            "a definition only selects; copy changes something",
        ),
        (
            "select run_key, query_key, epoch(current_timestamp) as x from raw.results",
            "current_timestamp gives another answer",
        ),
    ],
)
def test_a_statement_that_cannot_be_placed_is_refused(files, body, reason):
    files.ship("metrics/x.sql", f"-- keys: {{x: y}}\n\n{body}\n")
    assert reason in files.refusal()


OUTSIDE = [
    "select run_key, query_key, length(content) as x from raw.results, read_text('/etc/passwd')",
    "select run_key, query_key, (select count(*) from \"read_csv\"('x.csv')) as x from raw.results",
    "select run_key, query_key, n as x from raw.results, PARQUET_SCAN ('x.parquet') as t(n)",
    "select run_key, query_key, n as x from raw.results join glob('/*') as t(n) on true",
    "select run_key, query_key, n as x from raw.results cross join sniff_csv('x.csv')",
    "select run_key, query_key, n as x from raw.results, parquet_metadata('x.parquet')",
    "select run_key, query_key, n as x from raw.results, query('select 1 as n')",
    "select run_key, query_key, current_setting('home_directory') as x from raw.results",
    "select run_key, query_key, x from raw.results, 'x.csv'",
    "select run_key, query_key, x from raw.results join 'https://example.org/x.parquet' using (query_key)",
    "select run_key, query_key, x from raw.results as r, t: ('x.csv')",
    'select run_key, query_key, x from raw.results, "data/x.csv"',
    "with t as (from 'x.csv') select run_key, query_key, t.x from raw.results, t",
    "select run_key, query_key, (from (describe 'x.csv')) as x from raw.results",
    "select run_key, query_key, x from raw.results, (pivot_longer 'x.csv' on x)",
    "select run_key, query_key, x from raw.results, (show all tables)",
    'select run_key, query_key, x from raw.results, "information_schema".tables',
    "select run_key, query_key, x from raw.results, system.pg_catalog.pg_settings",
    "select run_key, query_key, x from raw.results, 'x.csv' /* /* */ -- */ , 'y.csv'",
]


# What makes rows of its arguments, and gives the same ones at every call.
OF_ITS_ARGUMENTS = {
    *(
        "generate_series",
        "histogram",
        "histogram_values",
        "json_each",
        "json_tree",
        "range",
        "repeat",
        "repeat_row",
    ),
    *("summary", "unnest"),
}


def test_every_function_of_the_engine_that_reads_more_than_its_arguments_is_refused(files):
    with duckdb.connect() as con:
        names = con.execute(
            "select distinct function_name from duckdb_functions() where function_name similar to '\\w+' "
            "and (function_type in ('table', 'pragma', 'table_macro') or stability != 'CONSISTENT')"
        ).fetchall()
    read = {name for (name,) in names} - OF_ITS_ARGUMENTS - {"error"}
    assert len(read) > 50
    for name in sorted(read):
        files.ship(
            "metrics/x.sql", f"-- keys: {{x: y}}\n\nselect run_key, {name}(n_hits) as x from raw.results\n"
        )
        assert "reads files" in (refusal := files.refusal()) or "gives another answer" in refusal, name


@pytest.mark.parametrize("body", OUTSIDE)
def test_a_statement_that_reads_files_or_the_network_is_refused_with_its_line(files, body):
    statement = body.replace(" from raw.results", "\nfrom raw.results")
    path = files.ship("metrics/x.sql", f"-- keys: {{x: y}}\n\n-- Why.\n\n{statement}\n")
    refusal = files.refusal()
    # The header, a blank line, the remark, a blank line; then the first line of the statement that is at fault.
    is_first = any(word in statement.split("\n")[0] for word in ("(from", '"read', "setting"))
    assert refusal.startswith(f"{path}:{5 if is_first else 6}: ")
    assert "reads files, the network or the engine" in refusal


@pytest.mark.parametrize(
    "body",
    [
        "select run_key, query_key, case when a is distinct from 'x.csv' then 1 end as x from raw.results",
        "select run_key, query_key, extract(year from '2026-01-01') as x from raw.results",
        "select run_key, query_key, trim(both '.' from 'a.b') as x from raw.results where id in ('a.csv', 'b.csv')",
        "select run_key, query_key, x from raw.results as r, unnest(['a.csv', 'b.csv']) as t(x) order by 'a.csv', 'b'",
        "select run_key, query_key, first(a order by b desc, 'x.csv') as x from raw.results order by x desc, \"a.b\"",
        "select run_key, query_key, load as x, 'x.csv', \"hit@1.5\" from raw.results group by a, 'x.csv'",
    ],
)
def test_a_text_that_looks_like_a_file_is_no_fault_where_a_value_stands(files, body):
    files.ship("metrics/x.sql", f"-- keys: {{x: y}}\n\n{body}\n")
    files.load()


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            "select run_key, query_key, 1 as x from raw.results); copy raw.runs to 'x'; (select 1",
            "one statement",
        ),
        ("copy (select run_key, query_key, 1 as x from raw.results) to 'x.csv'", "changes something"),
        ("attach 'x' as raw", "changes something"),
        ("select run_key, query_key, getenv('HOME') as x from raw.results", "getenv gives another answer"),
    ],
)
def test_a_statement_that_does_more_than_select_is_refused(files, body, reason):
    path = files.ship("metrics/x.sql", f"-- keys: {{x: y}}\n\n{body}\n")
    assert files.refusal().startswith(f"{path}:3: ")
    assert reason in files.refusal()


def test_a_helper_and_a_condition_may_read_no_more_than_a_statement(files):
    helper = files.ship(
        "functions/peek.sql", "-- arguments: [a]\n\n(select a || content\nfrom read_text('x'))\n"
    )
    assert files.refusal().startswith(f"{helper}:4: read_text(…) reads files")
    helper.unlink()
    path = files.ship("metrics/x.sql", "-- keys: {x: y}\n-- applies: exists(from 'x.csv')\n" + BODY)
    assert files.refusal().startswith(f"{path}:2: from 'x.csv' reads files")


HOSTILE_HEADERS = {
    "version: !!timestamp x": "'x' is no timestamp",
    "version: !!int ''": "is no int",
    "version: !!bool perhaps": "is no bool",
    "why: !!python/object/apply:os.getcwd []": "could not determine a constructor",
    f"version: {'9' * 5000}": "is no int",
    "choices: &a [*a]": "alias contains itself",
    "choices: &a {ks: [*a]}": "alias contains itself",
    f"why: {'[' * 100_000}": "nested too deeply",
    f"why: {'{a: ' * 100_000}": "nested too deeply",
    "1: x": "unknown header field",
    "parameters: {ks: [null]}": "allowed are numbers, texts, true, false and lists of them",
    "parameters: {ks: [2026-01-01]}": "allowed are numbers, texts, true, false and lists of them",
    "parameters: {ks: [[1, {a: b}]]}": "allowed are numbers, texts, true, false and lists of them",
    "\n-- ".join(
        [
            "parameters:",
            "  a: &a [1, 1]",
            *(f"  {chr(98 + n)}: &{chr(98 + n)} [{f'*{chr(97 + n)}, ' * 9}]" for n in range(9)),
        ]
    ): "multiply into more than",
}


@pytest.mark.parametrize(
    ("line", "reason"), HOSTILE_HEADERS.items(), ids=[line[:20] for line in HOSTILE_HEADERS]
)
def test_a_header_that_means_harm_is_refused_with_its_file(files, line, reason):
    path = files.ship("metrics/x.sql", f"-- keys: {{x: y}}\n-- {line}\n{BODY}")
    refusal = files.refusal()
    assert refusal.startswith(f"{path}: ")
    assert reason in refusal


@pytest.mark.parametrize("name", ["metrics/x.sql", "metrics/x.py", "functions/x.sql"])
def test_what_is_no_file_in_the_place_of_a_definition_is_not_opened(files, name):
    place = files.own / name
    place.parent.mkdir(parents=True)
    makers = [
        (lambda: os.mkfifo(place), "is a pipe or a device"),
        (lambda: place.symlink_to("/dev/zero"), "is a pipe or a device"),
        (lambda: place.symlink_to(place.with_name("nowhere")), "is a link to nothing"),
        (lambda: place.write_bytes(b"-" * (2 << 20)), "is larger than 1 MiB"),
    ]
    for make, reason in makers:
        make()
        assert files.refusal().startswith(f"{place}: {reason}")
        place.unlink()
    files.load()


@pytest.mark.parametrize("name", ["X.sql", "1x.sql", "x-y.sql", "x y.sql", "été.sql", "x" * 80 + ".sql"])
def test_a_file_name_that_is_no_table_name_is_refused(files, name):
    files.ship(f"metrics/{name}", "-- keys: {x: y}\n" + BODY)
    assert "lower case letters, digits and _" in files.refusal()


def test_a_file_in_another_encoding_is_refused_by_name(files):
    path = files.ship("metrics/x.sql", b"-- keys: {x: caf\xe9}\n" + BODY.encode())
    assert files.refusal().startswith(f"{path}: not UTF-8")


@pytest.mark.parametrize("prefix", [b"\xef\xbb\xbf", b""])
@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
def test_a_byte_order_mark_and_other_line_ends_are_no_fault(files, prefix, newline):
    text = b"-- keys: {x: y}\n" + BODY.encode()
    files.ship("metrics/x.sql", prefix + text.replace(b"\n", newline))
    assert files.load().get("x").keys == {"x": "y"}


def test_a_parameter_used_only_by_applies_is_used(files):
    files.ship(
        "metrics/x.sql", "-- keys: {x: y}\n-- parameters: {least: 1}\n-- applies: n_hits > $least\n" + BODY
    )
    assert "n_hits > 1" in files.load().get("x").scored_sql


def test_a_number_as_undefined_is_taken_as_text(files):
    files.ship("metrics/x.sql", "-- keys: {x: y}\n-- undefined: 0\n" + BODY)
    zero = files.load().get("x")
    files.ship("metrics/x.sql", "-- keys: {x: y}\n-- undefined: 1\n" + BODY)
    one = files.load().get("x")
    assert (zero.header.undefined, one.header.undefined) == ("0", "1")
    assert zero.fingerprint != one.fingerprint


def test_a_helper_that_only_applies_calls_is_part_of_the_meaning(files):
    files.ship("metrics/x.sql", "-- keys: {x: y}\n-- applies: is_long(n_hits)\n" + BODY)
    files.ship("functions/is_long.sql", "-- arguments: [n]\n\nn > 3\n")
    before = files.load().get("x").own_fingerprint
    files.ship("functions/is_long.sql", "-- arguments: [n]\n\nn > 4\n")
    assert files.load().get("x").own_fingerprint != before


def test_ones_own_file_of_a_shipped_name_needs_to_say_that_it_replaces_it(files):
    shipped = files.ship("metrics/x.sql", "-- keys: {x: shipped}\n" + BODY)
    files.lay_over("metrics/x.sql", "-- keys: {x: own}\n" + BODY)
    refusal = files.refusal()
    assert str(shipped) in refusal and "`replaces: x`" in refusal
    files.lay_over("metrics/x.sql", "-- keys: {x: own}\n-- replaces: x\n" + BODY)
    assert files.load().get("x").keys == {"x": "own"}


def test_ones_own_file_of_a_new_name_stands_beside_the_shipped_ones(files):
    files.ship("metrics/x.sql", "-- keys: {x: shipped}\n" + BODY)
    files.lay_over("metrics/mine.sql", "-- keys: {mine: own}\n" + BODY.replace("as x", "as mine"))
    assert list(files.load().keys()) == ["mine", "x"]


def test_two_formulas_with_one_key_are_refused_and_both_files_named(files):
    first = files.ship("metrics/x.sql", "-- keys: {x: y}\n" + BODY)
    second = files.lay_over("metrics/z.sql", "-- keys: {x: y}\n" + BODY)
    refusal = files.refusal()
    assert "the key 'x' is taken" in refusal
    assert str(first) in refusal and str(second) in refusal


def test_definitions_that_read_each_other_in_a_circle_are_refused_with_the_circle(files):
    for name, parent in (("a", "b"), ("b", "c"), ("c", "a")):
        files.ship(
            f"facts/{name}.sql", f"-- keys: {{x: y}}\n\nselect run_key, query_key, x from facts.{parent}\n"
        )
    assert "facts.a → facts.b → facts.c → facts.a" in files.refusal()


def test_helpers_that_call_each_other_in_a_circle_are_refused_with_the_circle(files):
    for name, other in (("one", "two"), ("two", "one")):
        files.ship(f"functions/{name}.sql", f"-- arguments: [x]\n\n{other}(x)\n")
    assert "one → two → one" in files.refusal()


PARAMETERS = (
    "-- keys: {x: y}\n-- parameters: {least: 2, share: 0.5, mode: loose, strict: false, ks: [1, 3]}\n"
    "-- choices: {mode: [loose, tight]}\n"
    "-- applies: n_hits > $least and $share > 0 and $mode = 'loose' and not $strict and n_hits <> $k\n"
)


@pytest.mark.parametrize(
    ("line", "error", "words"),
    [
        ("least = 'two'", InvalidConfig, "expected something like 2"),
        ("least = true", InvalidConfig, "expected something like 2"),
        ("strict = 1", InvalidConfig, "expected something like False"),
        ("mode = 'tigth'", InvalidConfig, "allowed: loose, tight"),
        ("ks = 3", InvalidConfig, "expected something like"),
        ("ks = [0, -1]", InvalidConfig, "ranks count from 1"),
        ("ks = [true]", InvalidConfig, "expected something like"),
        ("ks = [2.5]", InvalidConfig, "expected something like"),
        ("ks = ['x']", InvalidConfig, "expected something like"),
        ("ks = [1, 1]", InvalidConfig, "expected something like"),
        ("share = nan", InvalidConfig, "expected something like 0.5"),
        ("share = inf", InvalidConfig, "expected something like 0.5"),
        ("leest = 3", UnknownName, "did you mean least"),
    ],
)
def test_a_parameter_of_another_type_or_name_is_refused_with_what_is_allowed(files, line, error, words):
    files.ship("metrics/x.sql", PARAMETERS + BODY)
    files.settings.config.write_text(f"[formulas.x]\n{line}\n")
    with pytest.raises(error, match=words) as caught:
        files.load()
    assert "eval-pipeline.toml" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[formulas.y]\nleast = 1", "no definition named 'y'"),
        (
            "[formula.x]\nleast = 1",
            r"unknown table \[formula\]; there is: formulas, datasets, comparison, gate, baselines",
        ),
        ("[formulas]\nx = 1", r"formulas.x is a table of its own"),
        ("formulas = 1", r"formulas is a table: \[formulas\]"),
        ("[datasets.kb]\nformulas = ['y']", "no formula named 'y'"),
        ("[datasets.kb]\nformulas = 'x'", "formulas is a list of names"),
        ("[datasets.kb]\nformula = ['x']", "unknown field 'formula'; there is: formulas"),
        ("not toml", "not TOML"),
        ('[formulas.x]\nmode = "caf\udce9"', "not TOML"),
    ],
)
def test_a_configuration_that_cannot_be_used_says_what_there_is(files, text, words):
    files.ship("metrics/x.sql", PARAMETERS + BODY)
    files.settings.config.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises((InvalidConfig, UnknownName), match=words):
        files.load()


def test_a_changed_parameter_reaches_the_statement_and_the_type_may_be_a_wider_number(files):
    files.ship("metrics/x.sql", PARAMETERS + BODY)
    files.settings.config.write_text("[formulas.x]\nleast = 2.5\nshare = 1\nmode = 'tight'\n")
    assert "n_hits > 2.5 and 1 > 0 and 'tight' = 'loose'" in files.load().get("x").scored_sql


def test_the_lock_file_of_an_own_folder_notices_a_meaning_that_moved_alone_and_leaves_the_shipped_one(files):
    files.ship("metrics/x.sql", "-- keys: {x: y}\n" + BODY)
    path = files.lay_over("metrics/mine.sql", "-- keys: {mine: y}\n" + BODY.replace("as x", "as mine"))
    assert len(moved_without_version(files.load(), files.own)) == 1
    assert write_lock(files.load(), files.own) == files.own / FILE
    assert not (files.shipped / FILE).exists()
    assert moved_without_version(files.load(), files.own) == []
    assert read_lock(files.own / FILE) == {
        "metrics.mine": Locked(1, files.load().get("mine").own_fingerprint)
    }

    text = path.read_text()
    path.write_text(text.replace("n_hits", "n_hits + 1"))
    (moved,) = moved_without_version(files.load(), files.own)
    assert moved.startswith(str(path)) and "still says version 1" in moved

    path.write_text("-- version: 2\n" + text.replace("n_hits", "n_hits + 1"))
    (pending,) = moved_without_version(files.load(), files.own)
    assert "version 2 is not in" in pending
    write_lock(files.load(), files.own)
    assert moved_without_version(files.load(), files.own) == []


def test_a_lock_file_written_twice_is_the_same_file(files):
    for name in ("b", "a", "c"):
        files.ship(f"metrics/{name}.sql", f"-- keys: {{{name}: y}}\n" + BODY.replace("as x", f"as {name}"))
    write_lock(files.load(), None)
    first = (files.shipped / FILE).read_bytes()
    write_lock(files.load(), None)
    assert (files.shipped / FILE).read_bytes() == first
    names = [line.split()[0] for line in first.decode().splitlines() if not line.startswith("#")]
    assert names == sorted(names) and len(names) == 3


def test_every_shipped_definition_says_why_and_gives_a_description_of_each_key():
    registry = load_registry(settings_in(shipped_sql() / "nowhere"))
    for one in registry:
        assert one.header.why, one.name
        assert all(len(meaning) > 3 for meaning in one.keys.values()), one.name
