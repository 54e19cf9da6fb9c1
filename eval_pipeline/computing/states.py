"""What stands of every cell and whether it still holds: a value, by which cells are recorded."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from eval_pipeline.computing.definition_versions import Fingerprints, Reading, Readings
from eval_pipeline.computing.scope import LABEL_SETTINGS, _note_label_settings
from eval_pipeline.config import Config
from eval_pipeline.errors import StoreError
from eval_pipeline.formulas.definition import Definition
from eval_pipeline.formulas.fingerprint import combined
from eval_pipeline.formulas.registry import ALL_FORMULAS, Registry
from eval_pipeline.formulas.text_columns import text_columns
from eval_pipeline.settings import product_version
from eval_pipeline.store.frozen import PART_OF_TABLE, PLACES_OF_RUNS
from eval_pipeline.store.open import Connection, own_table
from eval_pipeline.store.project import Store

RUN_PARTS = "raw.run_parts"
NEW_CHUNKERS = "temp.new_chunkers"
# Which suite a run is of: what depends on it moves the fingerprint.
SUITES = "raw.suites_of_runs"
# When a run that delivered none of the parts a definition reads has none of its rows: whatever its text says, or as
# long as its own text stays.
WHATEVER_IT_SAYS, AS_IT_STANDS = "whatever it says", "as it stands"
ARCHIVE_TABLES = frozenset(("raw.archives", "raw.archive_chunks", "raw.archive_spans"))


@dataclass(frozen=True)
class CellSpec:
    """A cell's definition as it should be now; `source` is the formula whose aggregates these are, else empty."""

    definition: str
    source: str
    fingerprint: str
    own_fingerprint: str
    source_fingerprint: str
    parts: tuple[str, ...]
    families: tuple[str, ...]
    uses_archive: bool
    was: str = ""
    texts: tuple[str, ...] = ()
    is_shipped: bool = False
    has_nothing_without_input: str = ""
    reading: Reading | None = None

    @property
    def name(self) -> str:
        """One name for both."""
        return f"{self.definition}:{self.source}" if self.source else self.definition


@dataclass(frozen=True)
class Cell:
    """One run's cell as it was computed."""

    run_key: int
    n_rows: int
    seconds: float
    reason: str


@dataclass(frozen=True)
class Failure:
    """One run's cell as it could not be computed; `query_key` is the first query that it fails on, where it is one."""

    name: str
    run_key: int
    query_key: int | None
    error: str


def cell_spec(
    definition: str,
    *,
    source: str,
    fingerprint: str,
    own_fingerprint: str,
    inputs: Iterable[str],
    source_fingerprint: str = "",
    was: str = "",
    texts: Iterable[str] = (),
    is_shipped: bool = False,
    has_nothing_without_input: str = "",
    reading: Reading | None = None,
) -> CellSpec:
    """Sort a definition's inputs into parts of a run, label families and the archive; `texts` are columns it reads."""
    tables = list(inputs)
    return CellSpec(
        definition=definition,
        source=source,
        fingerprint=fingerprint,
        own_fingerprint=own_fingerprint,
        source_fingerprint=source_fingerprint,
        was=was,
        parts=tuple(sorted({PART_OF_TABLE[table] for table in tables if table in PART_OF_TABLE})),
        families=tuple(sorted(table.split(".", 1)[1] for table in tables if table.startswith("labels."))),
        uses_archive=any(table in ARCHIVE_TABLES for table in tables),
        texts=tuple(sorted(texts)),
        is_shipped=is_shipped,
        has_nothing_without_input=has_nothing_without_input,
        reading=reading,
    )


def cell_specs(registry: Registry) -> list[CellSpec]:
    """Every kind of cell there should be, parents before children."""
    found: list[CellSpec] = []
    readings = Readings(registry)
    for one in registry:
        if ALL_FORMULAS in one.reads:
            for formula in registry.averaged:
                found.append(
                    cell_spec(
                        one.name,
                        source=formula.name,
                        fingerprint=combined(one.fingerprint, formula.fingerprint),
                        own_fingerprint=one.own_fingerprint,
                        inputs={*registry.inputs_of(one), *registry.inputs_of(formula)},
                        source_fingerprint=formula.fingerprint,
                        texts=text_columns(registry, one) | text_columns(registry, formula),
                        is_shipped=_is_shipped(formula),
                        reading=readings.of_aggregates(one, formula),
                    )
                )
        else:
            found.append(
                cell_spec(
                    one.name,
                    source="",
                    fingerprint=one.fingerprint,
                    own_fingerprint=one.own_fingerprint,
                    inputs=registry.inputs_of(one),
                    was=_old_name(registry, one),
                    texts=text_columns(registry, one),
                    is_shipped=_is_shipped(one),
                    has_nothing_without_input=_has_nothing_without_input(registry, one),
                    reading=readings.of(one),
                )
            )
    return found


def _has_nothing_without_input(registry: Registry, one: Definition) -> str:
    """A row carries the key of its run, which comes from a row that is read: of nothing comes nothing.

    What reads which parts were delivered may have rows of a run without them, so that only its own text answers for it.
    """
    if _reads_parts_alone(registry.inputs_of(one)):
        return WHATEVER_IT_SAYS
    others = [name for name in one.reads if name != RUN_PARTS]
    made_of_parts = [
        _reads_parts_alone(
            registry.inputs_of(registry.definitions[name]) if name in registry.definitions else [name]
        )
        for name in others
    ]
    return AS_IT_STANDS if others and all(made_of_parts) else ""


def _reads_parts_alone(tables: Sequence[str]) -> bool:
    parts = [PART_OF_TABLE.get(table, "run") for table in tables if table != SUITES]
    return bool(parts) and "run" not in parts


def _is_shipped(one: Definition) -> bool:
    return not one.is_own and one.variant_of is None


def _old_name(registry: Registry, one: Definition) -> str:
    """The name the definition was renamed from, unless something stands under that name again."""
    old = f"{one.schema}.{one.header.was}" if one.header.was else ""
    return "" if old in registry.definitions else old


def _unwanted_cells(registry: Registry) -> list[tuple[str, str]]:
    """(definition, dataset) where a dataset's configuration leaves a formula out."""
    return [
        (one.name, dataset)
        for dataset in registry.config.datasets
        for one in registry
        if not registry.applies_to(one, dataset)
    ]


# A cell as people count it: one per derived table and run, however many formulas an aggregate is made of.
_COUNTS: Final = """
with cells as (
    select definition, run_key,
        case
            when bool_or(reason = 'missing') then 'missing'
            when bool_or(reason is not null and not is_pinned) then 'stale'
            when bool_or(is_frozen) then 'frozen'
            when bool_or(is_pinned) then 'pinned'
            else 'fresh'
        end as state,
        coalesce(min(reason) filter (where reason <> 'missing'), 'missing') as reason
    from (
        select definition, run_key, reason, is_pinned and reason is not null as is_pinned, is_frozen
        from {table}
        where not is_offered
    )
    group by definition, run_key
)
select definition, state, case when state <> 'fresh' then reason end as reason, count(*)
from cells
group by definition, state, case when state <> 'fresh' then reason end
order by definition
"""


class RunCell(NamedTuple):
    """One run's cell, as it was asked about; without a `stored_fingerprint` it was never computed."""

    definition: str
    source: str
    reason: str | None
    is_pinned: bool
    is_frozen: bool
    stored_fingerprint: str | None
    labels_hash: str
    results_hash: str
    failure: str | None


@dataclass(frozen=True)
class States:
    """The states of cells as they were when somebody asked, in a table of their own: no later question changes them.

    `table` is how statements name it. `reason` is null there where the cell is fresh, frozen (`is_frozen`) or only
    offered (`is_offered`): it is missing, and computed where somebody asks for it. Used in a `with` the table goes at
    its end, else with the connection.
    """

    con: Connection
    table: str

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A transaction that failed would hide why by refusing this too.
        if error is None:
            self.con.execute(f"drop table if exists {self.table}")

    def rows(self, columns: str, condition: str = "true", parameters: Sequence[object] = ()) -> list[Any]:
        """These columns of the states for which the condition holds."""
        return self.con.execute(
            f"select {columns} from {self.table} where {condition}", parameters
        ).fetchall()

    def counts(self) -> list[tuple[str, str, str | None, int]]:
        """(definition, state, reason, number of runs), in the words of `status`."""
        return self.con.execute(_COUNTS.format(table=self.table)).fetchall()

    def of_run(self, run_key: int) -> list[RunCell]:
        """What was asked about the run."""
        columns = ", ".join(RunCell._fields)
        return [RunCell(*row) for row in self.rows(columns, "run_key = ?", [run_key])]

    def stale(self) -> list[tuple[str, str, str, int]]:
        """(definition, source, reason, number of cells) of what is stale and not pinned."""
        return self.rows(
            "definition, source, reason, count(*)", "reason is not null and not is_pinned group by all"
        )

    def n_stale(self, reasons: Collection[str]) -> int:
        """How many tables of runs are stale for one of these reasons and not pinned."""
        ((found,),) = self.rows(
            "count(distinct (definition, run_key))",
            "list_contains(?, reason) and not is_pinned",
            [sorted(reasons)],
        )
        return int(found)

    def failures(self) -> dict[str, list[tuple[str, str]]]:
        """Return every failed table → its runs in order, each with the error; aggregates only if they failed alone."""
        rows = self.rows("definition, source, run_id, failure", "failure is not null order by run_no, source")
        failed = {(definition, run_id) for definition, source, run_id, _ in rows if not source}
        found: dict[str, dict[str, str]] = {}
        for definition, source, run_id, failure in rows:
            if (source, run_id) not in failed:
                runs, words = found.setdefault(definition, {}), f"{source}: {failure}" if source else failure
                runs[run_id] = f"{runs[run_id]}; {words}" if run_id in runs else words
        return {definition: list(runs.items()) for definition, runs in found.items()}

    def frozen_runs(self) -> list[str]:
        """The runs with frozen cells, in run order."""
        found = self.rows("run_id, min(run_no) as run_no", "is_frozen group by run_id order by run_no")
        return [run_id for run_id, _ in found]

    def record(
        self,
        catalogue: str,
        wanted: CellSpec,
        cells: Sequence[Cell],
        *,
        now: dt.datetime,
        dagster_run_id: str | None,
        note: str | None,
    ) -> None:
        """Write what was computed, with the inputs it was found to have; same transaction as the rows.

        A cell whose state nobody asked for is an error: what it was made of is not known.
        """
        of_cell = {"definition": wanted.definition, "source": wanted.source}
        run_keys = [cell.run_key for cell in cells]
        if any(cell.reason != "missing" for cell in cells):
            self.con.execute(
                f'delete from "{catalogue}".ledger.cells where definition = $definition and source = $source '
                "and run_key in (select unnest($run_keys))",
                {**of_cell, "run_keys": run_keys},
            )
        ((recorded,),) = self.con.execute(
            _RECORD.format(store=f'"{catalogue}"', table=self.table),
            {
                **of_cell,
                "now": now,
                "dagster_run_id": dagster_run_id,
                "note": note,
                "product_version": product_version(),
                "run_keys": run_keys,
                "n_rows": [cell.n_rows for cell in cells],
                "seconds": [cell.seconds for cell in cells],
                "reasons": [cell.reason for cell in cells],
            },
        ).fetchall()
        if recorded != len(cells):
            raise StoreError(
                f"{wanted.name}: {len(cells)} cells were computed and the states of {recorded} of them are known, so "
                "nothing of it was kept; this is a fault of eval-pipeline, not of the data: run the command again"
            )

    def record_failures(
        self,
        store: str,
        wanted: CellSpec,
        failures: Sequence[Failure],
        *,
        now: dt.datetime,
        dagster_run_id: str | None,
    ) -> None:
        """Write that these cells could not be computed, in the place of what stood there; rows are not touched."""
        of_cell = {"definition": wanted.definition, "source": wanted.source}
        run_keys = [one.run_key for one in failures]
        for table in ("cells", "failures"):
            self.con.execute(
                f'delete from "{store}".ledger.{table} where definition = $definition and source = $source '
                "and run_key in (select unnest($run_keys))",
                {**of_cell, "run_keys": run_keys},
            )
        self.con.execute(
            _RECORD_FAILURES.format(store=f'"{store}"', table=self.table),
            {
                **of_cell,
                "now": now,
                "dagster_run_id": dagster_run_id,
                "run_keys": run_keys,
                "query_keys": [one.query_key for one in failures],
                "errors": [one.error for one in failures],
            },
        )


_RECORD_FAILURES: Final = """
insert into {store}.ledger.failures
select s.definition, s.source, s.run_key, s.fingerprint, s.results_hash, s.labels_hash, s.archive_hash,
    n.query_key, n.error, $now, $dagster_run_id
from {table} s
join (
    select unnest(cast($run_keys as integer[])) as run_key, unnest(cast($query_keys as integer[])) as query_key,
        unnest(cast($errors as varchar[])) as error
) n using (run_key)
where s.definition = $definition and s.source = $source
"""

_RECORD: Final = """
insert into {store}.ledger.cells
select s.definition, s.source, s.run_key, s.fingerprint, s.own_fingerprint, s.source_fingerprint,
    s.results_hash, s.labels_hash, s.archive_hash, s.golden_key, n.n_rows, n.seconds, $now, $dagster_run_id,
    n.reason, $note, $product_version
from {table} s
join (
    select unnest(cast($run_keys as integer[])) as run_key, unnest(cast($n_rows as integer[])) as n_rows,
        unnest(cast($seconds as double[])) as seconds, unnest(cast($reasons as varchar[])) as reason
) n using (run_key)
where s.definition = $definition and s.source = $source
"""


# The state of every cell in one statement. Inputs are hashed once per distinct set of inputs, not once per cell.
_STATES = f"""
with scored_runs as (
    select run_key, run_id, dataset_key, golden_key, row_number() over (order by ordered_at, run_id) as run_no
    from ledger.runs_in_order
    where (not exists (from asked_runs) or run_key in (from asked_runs))
),
part_sets as (select distinct parts from wanted),
family_sets as (select distinct families from wanted),
results_hashes as (
    select p.parts, r.run_key,
        md5(coalesce(string_agg(
            rp.part || ':' || rp.content_hash
            || case when rp.times_read_again > 0 then ':' || rp.times_read_again else '' end,
            ',' order by rp.part
        ), '')) as results_hash
    from part_sets p
    cross join scored_runs r
    left join raw.run_parts rp on rp.run_key = r.run_key and list_contains(p.parts, rp.part)
    group by p.parts, r.run_key
),
labels_hashes as (
    select f.families, g.golden_key, g.dataset_key,
        md5(
            coalesce(string_agg(h.family || ':' || h.hash, ',' order by h.family), '')
            || coalesce(any_value(' settings:' || s.relevant_from || coalesce(' ' || s.labels, '')), '')
            || coalesce(any_value(
                case when n.dataset_key is not null then ' labels of:' || coalesce(n.labels_of, '') end
            ), '')
        ) as labels_hash
    from family_sets f
    cross join (select distinct golden_key, dataset_key from scored_runs) g
    left join labels.family_hashes h on h.golden_key = g.golden_key and list_contains(f.families, h.family)
    left join {LABEL_SETTINGS} s on s.dataset_key = g.dataset_key and list_contains(f.families, 'settings')
    left join {NEW_CHUNKERS} n on n.dataset_key = g.dataset_key and list_contains(f.families, 'expected_chunks')
    group by f.families, g.golden_key, g.dataset_key
),
archive_hashes as (
    select d.dataset_key,
        md5(coalesce(string_agg(a.archive_key || ':' || a.content_hash, ',' order by a.archive_key), ''))
            as archive_hash
    from (select distinct dataset_key from scored_runs) d
    left join ledger.archives_in_force a on a.dataset_key = d.dataset_key
    group by d.dataset_key
),
expected as (
    select w.definition, w.source, coalesce(o.fingerprint, w.fingerprint) as fingerprint,
        coalesce(o.own_fingerprint, w.own_fingerprint) as own_fingerprint,
        coalesce(o.source_fingerprint, w.source_fingerprint) as source_fingerprint,
        w.has_nothing_without_input, r.run_key, r.run_id, r.run_no, r.dataset_key, r.golden_key,
        rh.results_hash, lh.labels_hash,
        case when w.uses_archive then ah.archive_hash else '' end as archive_hash
    from wanted w
    join scored_runs r on not exists (
        from unwanted u where u.definition = w.name and u.dataset_key = r.dataset_key
    )
    join results_hashes rh on rh.parts = w.parts and rh.run_key = r.run_key
    join labels_hashes lh
        on lh.families = w.families and lh.golden_key = r.golden_key and lh.dataset_key = r.dataset_key
    join archive_hashes ah on ah.dataset_key = r.dataset_key
    left join other_readings o on o.definition = w.definition and o.source = w.source and o.run_key = r.run_key
),
-- Where a text that a definition reads was forgotten, nothing is computed any more.
frozen as (
    select distinct w.definition, w.source, f.run_key
    from ({PLACES_OF_RUNS}) f
    join (select definition, source, unnest(texts) as place from wanted) w on w.place = f.place
),
offered as (
    select n.definition, n.source, c.run_key
    from newcomers n
    join ledger.product_versions v on v.first_wrote_at < n.came_at
    join ledger.computed_runs c on c.product_version = v.version
),
renames as (select was, definition from wanted where was <> ''),
current_cells as (
    select coalesce(d.definition, c.definition) as definition, coalesce(s.definition, c.source) as source,
        c.* exclude (definition, source)
    from ledger.cells c
    left join renames d on d.was = c.definition
    left join renames s on s.was = c.source
),
failed_before as (from ledger.failures left join raw.query_ids using (query_key)),
compared as (
    select e.*, o.run_key is not null and c.run_key is null and x.error is null as is_offered,
        c.n_rows, c.seconds, c.product_version as stored_version, c.fingerprint as stored_fingerprint,
        c.source_fingerprint as stored_source_fingerprint,
        p.run_key is not null as is_pinned, f.run_key is not null as is_frozen,
        -- A hash of nothing: none of the parts was delivered.
        c.n_rows = 0 and e.results_hash = md5('') and c.results_hash = e.results_hash and (
            e.has_nothing_without_input = '{WHATEVER_IT_SAYS}'
            or e.has_nothing_without_input = '{AS_IT_STANDS}' and c.own_fingerprint = e.own_fingerprint
        ) as is_without_input,
        -- Tried with these very inputs, and nothing stands there.
        case when c.run_key is null and x.error is not null
            then 'run ' || e.run_id || coalesce(', query ' || x.query_id, '') || ': ' || x.error
        end as failure,
        case
            when failure is not null then 'failed'
            when c.run_key is null then 'missing'
            when c.results_hash <> e.results_hash then 'results'
            when is_without_input then null
            when c.own_fingerprint <> e.own_fingerprint then 'formula'
            when c.fingerprint <> e.fingerprint then 'parent'
            when c.labels_hash <> e.labels_hash then 'labels'
            when c.archive_hash <> e.archive_hash then 'archive'
        end as reason_unless_frozen
    from expected e
    left join current_cells c on c.definition = e.definition and c.source = e.source and c.run_key = e.run_key
    left join (select distinct definition, source, run_key, fingerprint from ledger.pins) p
        on p.definition = e.definition and p.source = e.source and p.run_key = e.run_key
        and p.fingerprint = c.fingerprint and c.results_hash = e.results_hash
    left join frozen f on f.definition = e.definition and f.source = e.source and f.run_key = e.run_key
    left join offered o on o.definition = e.definition and o.source = e.source and o.run_key = e.run_key
    left join failed_before x
        on x.definition = e.definition and x.source = e.source and x.run_key = e.run_key
        and x.fingerprint = e.fingerprint and x.results_hash = e.results_hash
        and x.labels_hash = e.labels_hash and x.archive_hash = e.archive_hash
)
select *, case when not is_frozen and not is_offered then reason_unless_frozen end as reason
from compared
"""

# A shipped definition that came with a later version than a run was first computed by is not due for that run.
_NEWCOMERS = """
create or replace temp table newcomers as
with known as (
    select name, arg_min(product_version, first_used_at) as version from ledger.definitions group by name
)
select w.definition, w.source, coalesce(v.first_wrote_at, cast('infinity' as timestamp)) as came_at
from wanted w
left join known k on k.name in (w.name, w.was)
left join ledger.product_versions v on v.version = coalesce(k.version, $product_version)
where w.is_shipped and came_at > (select min(first_wrote_at) from ledger.product_versions)
"""


def states_of_cells(store: Store, *, runs: Sequence[int] = (), only_due: bool = False) -> States:
    """The states of all cells that these definitions want, of these runs (none: of all)."""
    registry = store.definitions()
    return find_states(
        store.con,
        cell_specs(registry),
        unwanted=_unwanted_cells(registry),
        run_keys=runs,
        only_due=only_due,
        config=registry.config,
    )


def find_states(
    con: Connection,
    wanted: Sequence[CellSpec],
    *,
    unwanted: Sequence[tuple[str, str]] = (),
    run_keys: Sequence[int] = (),
    only_due: bool = False,
    config: Config | None = None,
) -> States:
    """The states of these cells.

    `unwanted` holds (definition, dataset id) where a dataset does not want a definition; `run_keys` limits the answer,
    `config` says what labels of a dataset mean.
    With `only_due` fresh and frozen cells are left out, which in a long ledger is most of the table.
    """
    _set_up_wanted(con, wanted)
    _set_up_readings(con, wanted)
    _note_label_settings(con, config or Config())
    _note_new_chunkers(con, config or Config())
    con.execute(_NEWCOMERS, {"product_version": product_version()})
    con.execute(
        "create or replace temp table unwanted as select u.definition, d.dataset_key "
        "from (select unnest(cast($names as varchar[])) as definition, "
        "unnest(cast($datasets as varchar[])) as dataset_id) u join raw.datasets d using (dataset_id)",
        {"names": [name for name, _ in unwanted], "datasets": [dataset for _, dataset in unwanted]},
    )
    con.execute("create or replace temp table asked_runs (run_key integer)")
    if run_keys:
        con.execute("insert into asked_runs select unnest(?)", [list(run_keys)])
    due = "where not is_frozen and reason_unless_frozen is not null"
    return States(con, own_table(con, "cell_states", f"{_STATES} {due if only_due else ''}"))


def _note_new_chunkers(con: Connection, config: Config) -> None:
    """Note the datasets whose `labels_of` has changed since labels for other chunkers were derived."""
    datasets, chunkers = ([row[place] for row in config.label_chunkers] for place in range(2))
    con.execute(
        f"create or replace temp table {NEW_CHUNKERS} as select g.dataset_key, s.labels_of "
        "from ledger.golden_sets_in_force g join raw.datasets d using (dataset_key) "
        "left join (select unnest(cast(? as varchar[])) as dataset_id, unnest(cast(? as varchar[])) as labels_of) s "
        "using (dataset_id) left join ledger.label_chunkers c on c.golden_key = g.golden_key and c.is_in_force "
        "where c.setting is distinct from s.labels_of and g.golden_key in "
        "(select golden_key from labels.expected_chunks union select golden_key from labels.grades)",
        [datasets, chunkers],
    )


# Of a CellSpec what the statements ask for.
_WANTED = {
    **dict.fromkeys(
        (
            "definition",
            "source",
            "fingerprint",
            "own_fingerprint",
            "source_fingerprint",
            "was",
            "has_nothing_without_input",
        ),
        "varchar",
    ),
    **dict.fromkeys(("parts", "families", "texts"), "varchar[]"),
    **dict.fromkeys(("uses_archive", "is_shipped"), "boolean"),
}


def _set_up_readings(con: Connection, wanted: Sequence[CellSpec]) -> None:
    """What cells of runs should be made with that are made with another reading than most."""
    con.execute(
        "create or replace temp table other_readings (definition varchar, source varchar, run_key integer, "
        "fingerprint varchar, own_fingerprint varchar, source_fingerprint varchar)"
    )
    asked = [(one, one.reading) for one in wanted if one.reading]
    for kind, runs in {reading.kind: reading.runs for _, reading in asked}.items():
        by_key: dict[Any, list[int]] = {}
        for key, run_key in runs(con):
            by_key.setdefault(key, []).append(run_key)
        for key, run_keys in by_key.items():
            for one, reading in asked:
                if reading.kind == kind:
                    _note_reading(con, one, reading.of(key), run_keys)


def _note_reading(con: Connection, one: CellSpec, made_with: Fingerprints, run_keys: Sequence[int]) -> None:
    con.execute(
        "insert into temp.other_readings "
        "select $definition, $source, unnest($run_keys), $fingerprint, $own_fingerprint, $source_fingerprint",
        {
            "definition": one.definition,
            "source": one.source,
            "run_keys": list(run_keys),
            **made_with._asdict(),
        },
    )


def _set_up_wanted(con: Connection, wanted: Sequence[CellSpec]) -> None:
    """As parameters: an Arrow table made of lists would import pandas where it is installed, a quarter of a second."""
    columns = ", ".join(f"unnest(cast(${name} as {kind}[])) as {name}" for name, kind in _WANTED.items())
    con.execute(
        f"create or replace temp table wanted as select {columns}, coalesce(nullif(source, ''), definition) as name",
        {name: [getattr(one, name) for one in wanted] for name in _WANTED},
    )
