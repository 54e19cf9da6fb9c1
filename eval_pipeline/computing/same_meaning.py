"""Whether a rewritten definition computes what it computed: on the example, on random bundles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from eval_pipeline.computing.definition_versions import _find_earlier_version
from eval_pipeline.computing.derived import _named
from eval_pipeline.computing.measure import measure
from eval_pipeline.computing.random_bundles import EXAMPLE, write_random_bundle
from eval_pipeline.computing.scope import Scope, visible_catalogue
from eval_pipeline.computing.scratch import evaluate, scratch
from eval_pipeline.errors import DefinitionError, UsageError
from eval_pipeline.formulas.definition import Definition, Helper, quoted
from eval_pipeline.formulas.registry import ALL_FORMULAS, Registry, with_other_text
from eval_pipeline.loading.load import load_bundles
from eval_pipeline.store.open import Connection, first_value
from eval_pipeline.store.project import Project, Store

RANDOM_BUNDLES = 4
SHOWN_ROWS = 3

KEYS = ("run_key", "query_key")

Row = tuple[tuple[str, str], ...]
Rows = Counter[Row]


@dataclass
class Agreement:
    """How many rows of how many bundles are the same bit for bit, and where they are not."""

    bundles: int = 0
    rows: int = 0
    differences: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Earlier:
    """A definition as it was, with the helpers that it called then."""

    definition: Definition
    helpers: tuple[Helper, ...] = ()


def find_earlier(project: Project, one: Definition, old: str, folder: Path) -> Earlier:
    """The definition as a file has it, or as the store remembers it by its fingerprint; files go to `folder`."""
    registry = project.definitions()
    if ALL_FORMULAS in one.reads:
        raise UsageError(
            f"{one.name} is computed from all formulas, and cannot be told to mean what it meant"
        )
    file = Path(old)
    if file.is_file():
        found = Earlier(with_other_text(registry, one, file, folder))
    else:
        definition, helpers = _find_earlier_version(project, one, old)
        found = Earlier(definition, tuple(helpers))
    lost = [name for name in found.definition.reads if "." in name and not _is_there(registry, name)]
    if lost:
        raise UsageError(f"{one.name} read {lost[0]}, which is not there any more: they cannot be compared")
    if found.definition.own_fingerprint in (one.written_fingerprint, ""):
        raise UsageError(f"{old} is the text of {one.name} as it stands: there is nothing to compare")
    return found


def _is_there(registry: Registry, name: str) -> bool:
    return name in registry.definitions or name.split(".")[0] in ("raw", "labels")


def compare_meanings(project: Project, one: Definition, earlier: Earlier, folder: Path) -> Agreement:
    """Compute both on every bundle, in stores of their own under `folder`; no row tells how it is aggregated."""
    registry = project.definitions()
    found = Agreement()
    was, aggregate = earlier.definition.header.aggregate, one.header.aggregate
    if was != aggregate:
        found.differences.append(f"aggregate was {was}, is {aggregate}")
        return found
    for name, bundle in _bundles(folder):
        own = replace(project, settings=replace(project.settings, db=folder / f"{name}.duckdb"))
        load_bundles([bundle], own)
        read = {*one.reads, *earlier.definition.reads} & set(registry.definitions)
        measure(own, definitions=read)
        with own.read() as store:
            _compare(store, one, earlier, found, name=name.replace("-", " "))
        found.bundles += 1
    return found


def _bundles(folder: Path) -> Iterator[tuple[str, Path]]:
    yield "the-example", EXAMPLE
    for seed in range(1, RANDOM_BUNDLES + 1):
        yield f"random-bundle-{seed}", write_random_bundle(folder / f"bundle-{seed}", seed)


def _compare(store: Store, one: Definition, earlier: Earlier, found: Agreement, *, name: str) -> None:
    registry = store.definitions()
    con = store.con
    scopes = con.execute(
        "select dataset_key, golden_key, list(run_key order by run_key) from ledger.runs_in_order "
        "group by all order by all"
    ).fetchall()
    for dataset_key, golden_key, run_keys in scopes:
        scope = Scope(dataset_key, golden_key, run_keys)
        new = _rows(con, one, list(registry.helpers.values()), scope)
        old = _rows(con, earlier.definition, [*registry.helpers.values(), *earlier.helpers], scope)
        found.rows += new.total()
        for word, rows in (("was", old - new), ("is", new - old)):
            shown = sorted(rows.elements())[:SHOWN_ROWS]
            found.differences += [f"{name}: {word} {_in_words(con, row)}" for row in shown]


def _rows(con: Connection, one: Definition, helpers: list[Helper], scope: Scope) -> Rows:
    """Every row, its values as texts that tell any two of them apart."""
    with visible_catalogue(con, helpers) as catalogue:
        try:
            evaluate(con, catalogue, [one], scope)
        except DefinitionError as error:
            return Counter([(("error", str(error)),)])
        columns = sorted(row[0] for row in con.execute(f"describe {scratch(one.name)}").fetchall())
        listed = ", ".join(quoted(column) for column in columns)
        rows = con.execute(f"select {listed} from {scratch(one.name)}").fetchall()
    return Counter(tuple(zip(columns, map(repr, row), strict=True)) for row in rows)


def _in_words(con: Connection, row: Row) -> str:
    """The row, run and query by their names."""
    catalogue = str(first_value(con, "select current_database()"))
    keys = [_named(con, catalogue, column, int(value)) for column, value in row if column in KEYS]
    values = [f"{column} {value}" for column, value in row if column not in KEYS]
    return ", ".join([*keys, *values])
