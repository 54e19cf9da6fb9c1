"""Whether definitions hold: they are read, bound, compute their examples, and the newest run."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from eval_pipeline.computing.derived import _ensure_table, _statement_of
from eval_pipeline.computing.examples import run_examples
from eval_pipeline.computing.failures import _find_culprit
from eval_pipeline.computing.ledger import with_parents
from eval_pipeline.computing.scope import KnownTables, Scope, point_views_at, visible_catalogue
from eval_pipeline.computing.scratch import evaluate
from eval_pipeline.errors import DefinitionError, FormulaFailed, UnknownName
from eval_pipeline.formulas.definition import Definition
from eval_pipeline.formulas.registry import ALL_FORMULAS, Registry, load_registry
from eval_pipeline.store.damage import is_there
from eval_pipeline.store.open import Connection, first_row, open_in_memory
from eval_pipeline.store.project import Project, Store

# A run that is not there: the tables are bound, and hold nothing.
NO_RUN: Final = Scope(0, 0, [0])
_PLACE: Final = re.compile(r"LINE (?P<line>\d+): (?P<shown>.*)\n(?P<before> *)\^")
_FILE_LINE: Final = re.compile(r":(\d+): ")


@dataclass(frozen=True)
class Problem:
    """Why a definition does not hold; `line` and `column` are those of its file, `example` counts from 1."""

    line: int | None
    column: int | None
    message: str
    example: int | None = None


@dataclass
class Checked:
    """A definition and what is wrong with it."""

    name: str
    path: Path | None
    problems: list[Problem] = field(default_factory=list)
    is_unread: bool = False

    @property
    def ok(self) -> bool:
        return not self.problems

    def entry(self) -> dict[str, Any]:
        """As `metrics --check --json` shows it."""
        return {"name": self.name, "ok": self.ok, "problems": [asdict(one) for one in self.problems]}

    def sentences(self) -> list[str]:
        """Every problem with its place, as an error says it."""
        return [
            one.message if self.is_unread else f"{_place(self, one)}: {one.message}" for one in self.problems
        ]


def _place(checked: Checked, problem: Problem) -> str:
    parts = [str(checked.path or checked.name), problem.line, problem.column if problem.line else None]
    return ":".join(str(part) for part in parts if part is not None)


def check_definitions(
    project: Project, *, only: str | None = None, own_only: bool = False, on_newest_run: bool = False
) -> list[Checked]:
    """Check every definition, or the one of this name or key, or those of one's own folder alone."""
    broken: dict[str, DefinitionError] = {}
    registry = load_registry(project.settings, broken=broken)
    project = replace(project, definitions=lambda: registry)
    names = _wanted(registry, broken, only, own_only=own_only)
    found = {name: Checked(name, _path(registry, name), is_unread=name in broken) for name in names}
    for name in names:
        if name in broken:
            found[name].problems.append(_unread(broken[name]))
    readable = [registry.definitions[name] for name in names if name not in broken]
    _bind(project, registry, readable, found)
    bound = [one for one in readable if found[one.name].ok]
    _compute_examples(project, bound, found)
    if on_newest_run and is_there(project.settings.db):
        with project.read() as store:
            _compute_newest(store, bound, found)
    return [found[name] for name in names]


def _wanted(registry: Registry, broken: Collection[str], only: str | None, *, own_only: bool) -> list[str]:
    if only is None:
        readable = [one.name for one in registry if one.is_own or not own_only]
        return [*readable, *(name for name in broken if name not in registry.definitions)]
    keys = {key: one.name for one in registry.metrics for key in one.keys}
    known = {name: name for name in (*registry.definitions, *broken)}
    found = known.get(only) or {name.split(".", 1)[1]: name for name in known}.get(only) or keys.get(only)
    if found is None:
        raise UnknownName("formula or metric", only, [*known, *keys])
    return [found]


def _path(registry: Registry, name: str) -> Path | None:
    one = registry.definitions.get(name)
    return one.path if one else None


def _unread(error: DefinitionError) -> Problem:
    """The message begins with the file, and its line where it is known."""
    text = str(error)
    line = _FILE_LINE.search(text)
    return Problem(int(line[1]) if line else None, None, text)


def _lineage(registry: Registry, wanted: Iterable[Definition]) -> list[Definition]:
    """These definitions with all that they read, parents first."""
    names = {name for one in wanted for name in with_parents(registry, one.name)}
    return [one for one in registry if one.name in names and ALL_FORMULAS not in one.reads]


def _bind(
    project: Project, registry: Registry, wanted: Sequence[Definition], found: dict[str, Checked]
) -> None:
    """Make the tables of an empty store, so that names, functions and types are looked up as in a full one."""
    failed: set[str] = set()
    with (
        open_in_memory(project.clock) as con,
        visible_catalogue(con, registry.helpers.values(), registry.config) as catalogue,
    ):
        known = KnownTables()
        for one in _lineage(registry, wanted):
            try:
                _refuse_lost_parents(one, failed)
                point_views_at(con, catalogue, NO_RUN, one.reads, known)
                _, columns = _statement_of(con, one)
                _ensure_table(con, catalogue, one, columns, known)
            except FormulaFailed as error:
                failed.add(one.name)
                if one.name in found:
                    found[one.name].problems.append(_placed(one, error))


def _refuse_lost_parents(one: Definition, failed: Collection[str]) -> None:
    lost = next((name for name in one.reads if name in failed), None)
    if lost:
        raise FormulaFailed(one.path, f"it reads {lost}, which does not hold")


def _placed(one: Definition, error: FormulaFailed) -> Problem:
    """With the place in the file that DuckDB points to, where it does."""
    matched = _PLACE.search(str(error.__cause__ or ""))
    word = (
        re.match(r"\w+", matched["shown"][len(matched["before"]) - len(f"LINE {matched['line']}: ") :])
        if matched
        else None
    )
    line, column = _find_word(one, word[0]) if word else (None, None)
    return Problem(line, column, error.text)


def _find_word(one: Definition, word: str) -> tuple[int | None, int | None]:
    """The first place of the word in the statement, else in the header: a rendered line is no line of the file."""
    lines = list(enumerate(one.path.read_text("utf-8").splitlines(), start=1))
    ordered = [
        *(place for place in lines if not place[1].startswith("--")),
        *(place for place in lines if place[1].startswith("--")),
    ]
    for number, text in ordered:
        matched = re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text)
        if matched:
            return number, matched.start() + 1
    return None, None


def _compute_examples(project: Project, wanted: Sequence[Definition], found: dict[str, Checked]) -> None:
    with_examples = [one for one in wanted if one.header.examples]
    if not with_examples:
        return
    for result in run_examples(project, only=[one.name for one in with_examples]):
        if result.ok or result.definition not in found:
            continue
        checked = found[result.definition]
        number, line = _place_of_example(checked.path, result.line)
        told = result.problem or f"gives {result.got!r}, and expected is {result.expected!r}"
        checked.problems.append(Problem(line, None, f"example {result.line}: {told}", number))


def _place_of_example(path: Path | None, example: str) -> tuple[int | None, int | None]:
    """Which example it is, and on which line of the file."""
    lines = path.read_text("utf-8").splitlines() if path else []
    written = [number for number, line in enumerate(lines, start=1) if " => " in line]
    line = next((number for number in written if example in lines[number - 1]), None)
    return (written.index(line) + 1 if line else None), line


def _compute_newest(store: Store, wanted: Sequence[Definition], found: dict[str, Checked]) -> None:
    """Nothing is written: it stands in the second catalogue until the connection ends."""
    con, registry = store.con, store.definitions()
    newest = first_row(
        con,
        "select run_key, run_id, dataset_key, golden_key from ledger.runs_in_order "
        "order by golden_key >= 0 desc, ordered_at desc, run_id desc limit 1",
    )
    if newest is None:
        return
    run_key, run_id, dataset_key, golden_key = newest
    scope = Scope(dataset_key, golden_key, [run_key])
    standing: set[str] = set()
    with visible_catalogue(con, registry.helpers.values(), registry.config) as catalogue:
        for one in _lineage(registry, wanted):
            # What it reads and cannot be computed has its own problem.
            if any(name in registry.definitions and name not in standing for name in one.reads):
                continue
            try:
                evaluate(con, catalogue, [one], scope, standing=standing)
                standing.add(one.name)
            except FormulaFailed as error:
                if one.name in found:
                    culprit = _find_culprit(con, catalogue, one, scope, error, standing=standing)
                    about = (
                        ""
                        if culprit.query_key is None
                        else f", query {_query_id(con, catalogue, culprit.query_key)!r}"
                    )
                    found[one.name].problems.append(
                        Problem(None, None, f"on run {run_id!r}{about}: {culprit.text}")
                    )


def _query_id(con: Connection, catalogue: str, query_key: int) -> str:
    row = first_row(con, f'select query_id from "{catalogue}".raw.query_ids where query_key = ?', [query_key])
    return str(row[0]) if row else str(query_key)
