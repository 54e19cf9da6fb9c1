"""The worked examples of the definitions, loaded and measured as any bundle is."""

# `given` is written with the contract's names: those of a golden row and of a result, with `hits` for `hits_top_k`, and
# beside them `archive` (chunk ids or archive lines) or `archives` (the same by chunker version), `config` and `run` (of
# run.json), `extraction` or `extractions`, `index_report`, `spot_checks`, `results` (of several queries, instead of the
# fields of one), and `parameters` for another reading. A hit may leave out its ids. `expected` names columns of the one
# row there is, or is a list with one mapping per row; a column that is null has no value or no row.
#
# Each example is a query of its own; those that agree on the archive and on run.json share a dataset and a run,
# because a pass over many queries costs hardly more than one over a single query. What is no matter of one query has
# its own run.

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from eval_pipeline.computing._example_files import (
    NAMES,
    NAMES_OF_RUNS,
    Delivery,
    archives_of,
    write_bundle,
)
from eval_pipeline.computing.failures import WHAT_TO_WRITE
from eval_pipeline.computing.history import Row
from eval_pipeline.computing.measure import measure
from eval_pipeline.computing.progress import failures_of
from eval_pipeline.computing.scope import visible_catalogue
from eval_pipeline.config import Config
from eval_pipeline.errors import EvalPipelineError
from eval_pipeline.formulas.definition import Definition, Helper, quoted
from eval_pipeline.formulas.header import Example
from eval_pipeline.formulas.registry import Registry, load_registry
from eval_pipeline.formulas.variants import with_variants
from eval_pipeline.loading.context import LoadReport
from eval_pipeline.loading.load import load_bundles
from eval_pipeline.store.open import Connection, first_value
from eval_pipeline.store.project import Project, project_of

TOLERANCE = 1e-9
SHARED_DATASET = "examples"
CONFIG_FILE = "eval-pipeline.toml"
RUN, QUERY = "example_run", "example_query"
Measure = Callable[[Collection[str], Collection[str]], object]


@dataclass(frozen=True)
class ExampleResult:
    """One example and what came of it; `problem` says why there is nothing to compare."""

    definition: str
    line: str
    expected: Any
    got: Any
    ok: bool
    problem: str | None = None


@dataclass
class _Case:
    """An example on its way: which run carries it, which definition computes it."""

    definition: Definition
    example: Example
    query_id: str
    run_id: str = ""
    dataset: str = SHARED_DATASET
    reading: str | None = None
    problem: str | None = None
    is_left_out: bool = False

    @property
    def given(self) -> Row:
        """The mapping; empty where the example has none."""
        return self.example.given if isinstance(self.example.given, dict) else {}

    @property
    def computed_by(self) -> str:
        """The full name of the definition that computes it."""
        return f"{self.definition.schema}.{self.reading}" if self.reading else self.definition.name


@dataclass
class _Plan:
    """All examples, the readings they ask for and the archives they need."""

    cases: list[_Case] = field(default_factory=list)
    readings: dict[str, Row] = field(default_factory=dict)
    archives: dict[str, dict[str, list[Any]]] = field(default_factory=dict)

    def usable(self) -> list[_Case]:
        """The cases that can be delivered."""
        return [case for case in self.cases if case.problem is None]


def run_examples(project: Project, *, only: Collection[str] | None = None) -> list[ExampleResult]:
    """Execute the examples of every definition and helper, or of those named, with the parameters as shipped.

    A file that cannot be read has none; whoever asks for it by name was told before.
    Everything happens in a temporary store; the project only says where one's own definitions are.
    """
    with TemporaryDirectory(prefix="eval-pipeline-examples-") as name:
        folder = Path(name)
        settings = replace(project.settings, db=folder / "examples.duckdb", config=folder / CONFIG_FILE)
        own = replace(
            project_of(settings, clock=project.clock), definitions=lambda: load_registry(settings, broken={})
        )
        shipped = own.definitions()
        helpers = [one for one in shipped.helpers.values() if only is None or one.name in only]
        wanted = [one for one in shipped if only is None or {one.name, one.short_name} & set(only)]
        found = list(_helper_results(own, helpers))
        return found + _definition_results(shipped, wanted, own)


def _helper_results(project: Project, helpers: Sequence[Helper]) -> Iterator[ExampleResult]:
    """An example of a helper is a call and its value."""
    if not helpers:
        return
    known = project.definitions().helpers.values()
    with project.write() as store, visible_catalogue(store.con, known):
        for helper in helpers:
            for example in helper.header.examples:
                got, problem = None, None
                try:
                    got = first_value(store.con, f"select {example.given}")
                except Exception as error:
                    problem = str(error).splitlines()[0]
                ok = problem is None and _is_equal(example.expected, got)
                name = f"functions.{helper.name}"
                yield ExampleResult(name, example.line, example.expected, got, ok, problem)


def _definition_results(
    shipped: Registry, wanted: Sequence[Definition], project: Project
) -> list[ExampleResult]:
    plan = _plan(shipped, wanted)
    if plan.usable():
        folder = project.settings.db.parent
        _write_config(project.settings.config, plan.readings)
        deliveries = [
            Delivery(case.given, case.query_id, case.run_id, case.dataset) for case in plan.usable()
        ]
        write_bundle(deliveries, plan.archives, folder / "bundle")
        registry = project.definitions() if plan.readings else shipped
        project = replace(project, definitions=lambda: registry)
        report = load_bundles([folder / "bundle"], project)
        _note_rejected(plan, report)

        def measure_these(run_ids: Collection[str], names: Collection[str]) -> None:
            measure(project, run_ids=run_ids, definitions=names)

        _measure_by_dataset(plan, measure_these)
        _note_failed(plan, project)
        rows = _read_rows(plan, project)
    return [
        ExampleResult(
            case.definition.name, case.example.line, case.example.expected, None, False, case.problem
        )
        if case.problem
        else _compared(case, rows[case.computed_by])
        for case in plan.cases
        if not case.is_left_out
    ]


def _plan(shipped: Registry, wanted: Sequence[Definition]) -> _Plan:
    plan = _Plan()
    names: dict[str, str] = {}
    for definition in wanted:
        for example in definition.header.examples:
            case = _Case(definition, example, query_id=f"example-{len(plan.cases) + 1}")
            plan.cases.append(case)
            case.problem = _fault_of(example)
            if case.problem is None and case.given.get("parameters"):
                _plan_reading(plan, case, names, shipped)
    datasets: dict[str, str] = {}
    runs: dict[str, str] = {}
    for case in plan.usable():
        archives = archives_of(case.given)
        if archives is not None:
            name = f"{SHARED_DATASET}-{len(datasets) + 1}"
            case.dataset = datasets.setdefault(json.dumps(archives, sort_keys=True), name)
            plan.archives[case.dataset] = archives
        elif _reads_whole_run(case.definition, shipped):
            case.dataset = f"{SHARED_DATASET}-of-{case.query_id}"
        shared = [case.dataset, case.given.get("config"), case.given.get("run")]
        own = [] if _is_about_one_query(case) else [case.query_id]
        case.run_id = runs.setdefault(json.dumps(shared + own, sort_keys=True), f"examples-{len(runs) + 1}")
    return plan


def _reads_whole_run(definition: Definition, shipped: Registry) -> bool:
    """Whether a value depends on other queries of the run or of its golden set."""
    facts = [shipped.definitions[name] for name in definition.reads if name.startswith("facts.")]
    return any(read.grain == ("run_key",) for read in (definition, *facts))


def _is_about_one_query(case: _Case) -> bool:
    """Whether the definition has rows per query, and the example gives nothing that belongs to the whole run."""
    return "query_key" in case.definition.grain and not case.given.keys() & NAMES_OF_RUNS


def _fault_of(example: Example) -> str | None:
    if not isinstance(example.given, dict):
        return "what is given is a mapping"
    unknown = sorted(example.given.keys() - NAMES)
    if unknown:
        return f"{unknown[0]!r} is no field of a golden row, of a result or of what may stand beside them"
    rows = example.expected if isinstance(example.expected, list) else [example.expected]
    if not all(isinstance(row, dict) for row in rows):
        return "what is expected is a mapping of columns to values, or a list of such mappings"
    return None


def _plan_reading(plan: _Plan, case: _Case, names: dict[str, str], shipped: Registry) -> None:
    """Give the case a reading with its parameters; the same parameters of a definition are one reading."""
    entry = {"reading_of": case.definition.name, **case.given["parameters"]}
    text = json.dumps(entry, sort_keys=True)
    if text not in names:
        name = f"example_reading_{len(names) + 1}"
        try:
            with_variants(shipped.definitions, Config(case.definition.path, formulas={name: entry}))
        except EvalPipelineError as error:
            case.problem = str(error)
            return
        names[text] = name
        plan.readings[name] = entry
    case.reading = names[text]


def _write_config(path: Path, readings: Mapping[str, Row]) -> None:
    """Numbers, texts, booleans and lists of them are written alike in JSON and in TOML."""
    lines: list[str] = []
    for name, entry in readings.items():
        lines.append(f"[formulas.{name}]")
        lines += [f"{key} = {json.dumps(value)}" for key, value in entry.items()]
    path.write_text("\n".join(lines), "utf-8")


def _note_rejected(plan: _Plan, report: LoadReport) -> None:
    """An example that could not be loaded as it stands says why."""
    for problem in report.problems:
        for case in plan.usable():
            if case.query_id == problem.query_id or (problem.line is None and case.run_id == problem.run_id):
                case.problem = f"{problem.field}: {problem.reason}" if problem.field else problem.reason


def _measure_by_dataset(plan: _Plan, measure_these: Measure) -> None:
    """One pass for all runs of a dataset: a range of runs costs hardly more than one of them."""
    by_dataset: dict[str, list[_Case]] = {}
    for case in plan.usable():
        by_dataset.setdefault(case.dataset, []).append(case)
    for cases in by_dataset.values():
        measure_these({case.run_id for case in cases}, {case.computed_by for case in cases})


def _note_failed(plan: _Plan, project: Project) -> None:
    """Examples share a run, and all of it fails with one of them: where that one is named, the others are left out."""
    with project.read() as store:
        failed = failures_of(store, None, None)
    for case in plan.usable():
        why = failed.get(case.computed_by, {}).get(case.run_id)
        if why is None:
            continue
        # Ids of queries that examples never see say nothing to who wrote them.
        named = {one.query_id for one in plan.cases if re.search(rf"\b{one.query_id}\b", why)}
        if named and case.query_id not in named:
            case.is_left_out = True
        elif WHAT_TO_WRITE in why:
            case.problem = f"it applies here and gives no value: {WHAT_TO_WRITE}"
        else:
            case.problem = why.split(": ", 1)[1]


def _read_rows(plan: _Plan, project: Project) -> dict[str, list[Row]]:
    """Definition → its rows, under the names that the columns have in the statement."""
    found: dict[str, list[Row]] = {}
    with project.read() as store:
        for name in {case.computed_by for case in plan.usable() if not case.is_left_out}:
            one = project.definitions().definitions[name]
            column_of_key = one.column_of_key
            query_id, join = "query_ids.query_id", "left join raw.query_ids as query_ids using (query_key)"
            if not _has_column(store.con, one, "query_key"):
                query_id, join = "null", ""
            cursor = store.con.execute(
                f"select runs.run_id as {RUN}, {query_id} as {QUERY}, computed.* "
                f"from {one.schema}.{quoted(one.short_name)} as computed "
                f"inner join raw.runs as runs using (run_key) {join}"
            )
            columns = [column_of_key.get(column[0], column[0]) for column in cursor.description or ()]
            found[name] = [dict(zip(columns, values, strict=True)) for values in cursor.fetchall()]
    return found


def _has_column(con: Connection, definition: Definition, column: str) -> bool:
    found = first_value(
        con,
        "select count(*) from duckdb_columns() where schema_name = ? and table_name = ? and column_name = ?",
        [definition.schema, definition.short_name, column],
    )
    return bool(found)


def _compared(case: _Case, rows: list[Row]) -> ExampleResult:
    """What the example's rows hold beside what it expects of them."""
    definition, example = case.definition, case.example
    expected = example.expected
    own = [row for row in rows if row[RUN] == case.run_id and row[QUERY] in (None, case.query_id)]
    columns = dict.fromkeys(
        name for row in (expected if isinstance(expected, list) else [expected]) for name in row
    )
    known = {*definition.keys, *(rows[0] if rows else columns)}
    unknown = [name for name in columns if name not in known]
    got: Any = [{name: row.get(name) for name in columns} for row in _ordered(own, definition)]
    if not isinstance(expected, list) and len(got) <= 1:
        got = got[0] if got else dict.fromkeys(columns)
    problem = f"there is no column {unknown[0]!r}; there is: {', '.join(sorted(known))}" if unknown else None
    ok = problem is None and _is_equal(expected, got)
    return ExampleResult(definition.name, example.line, expected, got, ok, problem)


def _ordered(rows: list[Row], definition: Definition) -> list[Row]:
    """By what tells the rows of a query or run apart; null comes first."""

    def place(row: Row) -> list[tuple[bool, float, str]]:
        values = [row.get(name) for name in definition.grain]
        return [
            (value is not None, value if isinstance(value, int | float) else 0, str(value))
            for value in values
        ]

    return sorted(rows, key=place)


def _is_equal(expected: Any, got: Any) -> bool:
    if isinstance(expected, dict) and isinstance(got, dict):
        return all(_is_equal(value, got.get(name)) for name, value in expected.items())
    if isinstance(expected, list) and isinstance(got, list):
        return len(expected) == len(got) and all(map(_is_equal, expected, got))
    if isinstance(expected, bool) or isinstance(got, bool):
        return expected is got
    if isinstance(expected, int | float) and isinstance(got, int | float):
        return math.isclose(expected, got, rel_tol=0, abs_tol=TOLERANCE)
    return bool(expected == got)
