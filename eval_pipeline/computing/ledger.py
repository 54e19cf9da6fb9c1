"""The ledger: for every derived table and run, what stands there and whether it still holds."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from eval_pipeline.computing.upgrades import UPGRADE, upgraded_cells
from eval_pipeline.formulas.definition import Definition
from eval_pipeline.formulas.fingerprint import combined
from eval_pipeline.formulas.registry import ALL_FORMULAS, Registry
from eval_pipeline.formulas.text_columns import text_columns
from eval_pipeline.settings import product_version
from eval_pipeline.store.frozen import PART_OF_TABLE, PLACES_OF_RUNS
from eval_pipeline.store.open import Connection

RUN_PARTS = "raw.run_parts"
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
    )


# When a run that delivered none of the parts a definition reads has none of its rows: whatever its text says, or as
# long as its own text stays.
WHATEVER_IT_SAYS, AS_IT_STANDS = "whatever it says", "as it stands"

# The state of every cell in one statement. Inputs are hashed once per distinct set of inputs, not once per cell.
STATES = f"""
create or replace temp table cell_states as
with scored_runs as (
    select run_key, run_id, dataset_key, golden_key, row_number() over (order by ordered_at, run_id) as run_no
    from ledger.runs_in_order
    where golden_key is not null and (not exists (from asked_runs) or run_key in (from asked_runs))
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
    select f.families, g.golden_key,
        md5(coalesce(string_agg(h.family || ':' || h.hash, ',' order by h.family), '')) as labels_hash
    from family_sets f
    cross join (select distinct golden_key from scored_runs) g
    left join labels.family_hashes h on h.golden_key = g.golden_key and list_contains(f.families, h.family)
    group by f.families, g.golden_key
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
    select w.definition, w.source, w.fingerprint, w.own_fingerprint, w.source_fingerprint,
        w.has_nothing_without_input, r.run_key, r.run_id, r.run_no, r.dataset_key, r.golden_key,
        rh.results_hash, lh.labels_hash,
        case when w.uses_archive then ah.archive_hash else '' end as archive_hash
    from wanted w
    join scored_runs r on not exists (
        from unwanted u where u.definition = w.name and u.dataset_key = r.dataset_key
    )
    join results_hashes rh on rh.parts = w.parts and rh.run_key = r.run_key
    join labels_hashes lh on lh.families = w.families and lh.golden_key = r.golden_key
    join archive_hashes ah on ah.dataset_key = r.dataset_key
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
compared as (
    select e.*, o.run_key is not null and c.run_key is null as is_offered,
        c.n_rows, c.seconds, c.product_version as stored_version, c.fingerprint as stored_fingerprint,
        c.source_fingerprint as stored_source_fingerprint,
        p.run_key is not null as is_pinned, f.run_key is not null as is_frozen,
        -- A hash of nothing: none of the parts was delivered.
        c.n_rows = 0 and e.results_hash = md5('') and c.results_hash = e.results_hash and (
            e.has_nothing_without_input = '{WHATEVER_IT_SAYS}'
            or e.has_nothing_without_input = '{AS_IT_STANDS}' and c.own_fingerprint = e.own_fingerprint
        ) as is_without_input,
        case
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
)
select *, case when not is_frozen and not is_offered then reason_unless_frozen end as reason
from compared
"""

# A shipped definition that came with a later version than a run was first computed by is not due for that run.
NEWCOMERS = """
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


def find_states(
    con: Connection,
    wanted: Sequence[CellSpec],
    *,
    unwanted: Sequence[tuple[str, str]] = (),
    run_keys: Sequence[int] = (),
    only_due: bool = False,
) -> None:
    """Fill the temporary table cell_states; `reason` is null where the cell is fresh, frozen (`is_frozen`) or only
    offered (`is_offered`): it is missing, and computed where somebody asks for it.

    `unwanted` holds (definition, dataset id) where a dataset does not want a definition; `run_keys` limits the answer.
    With `only_due` fresh and frozen cells are left out, which in a long ledger is most of the table.
    """
    _set_up_wanted(con, wanted)
    con.execute(NEWCOMERS, {"product_version": product_version()})
    con.execute(
        "create or replace temp table unwanted as select u.definition, d.dataset_key "
        "from (select unnest(cast($names as varchar[])) as definition, "
        "unnest(cast($datasets as varchar[])) as dataset_id) u join raw.datasets d using (dataset_id)",
        {"names": [name for name, _ in unwanted], "datasets": [dataset for _, dataset in unwanted]},
    )
    con.execute("create or replace temp table asked_runs (run_key integer)")
    if run_keys:
        con.execute("insert into asked_runs select unnest(?)", [list(run_keys)])
    con.execute(f"{STATES} where not is_frozen and reason_unless_frozen is not null" if only_due else STATES)


# Of a CellSpec what the statements ask for.
WANTED = {
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


def _set_up_wanted(con: Connection, wanted: Sequence[CellSpec]) -> None:
    """As parameters: an Arrow table made of lists would import pandas where it is installed, a quarter of a second."""
    columns = ", ".join(f"unnest(cast(${name} as {kind}[])) as {name}" for name, kind in WANTED.items())
    con.execute(
        f"create or replace temp table wanted as select {columns}, coalesce(nullif(source, ''), definition) as name",
        {name: [getattr(one, name) for one in wanted] for name in WANTED},
    )


def frozen_runs(con: Connection) -> list[str]:
    """The runs with frozen cells among the temporary table cell_states, in run order."""
    rows = con.execute(
        "select run_id from temp.cell_states where is_frozen group by run_id, run_no order by run_no"
    ).fetchall()
    return [run_id for (run_id,) in rows]


def _record_cells(
    con: Connection,
    store: str,
    cells: Sequence[Cell],
    wanted: CellSpec,
    *,
    now: dt.datetime,
    dagster_run_id: str | None,
    note: str | None,
) -> None:
    """Write what was computed, with the inputs that cell_states found for it; same transaction as the rows."""
    run_keys = [cell.run_key for cell in cells]
    if any(cell.reason != "missing" for cell in cells):
        con.execute(
            f'delete from "{store}".ledger.cells where definition = ? and source = ? '
            "and run_key in (select unnest(?))",
            [wanted.definition, wanted.source, run_keys],
        )
    con.execute(
        f'insert into "{store}".ledger.cells '
        "select s.definition, s.source, s.run_key, s.fingerprint, s.own_fingerprint, s.source_fingerprint, "
        "s.results_hash, s.labels_hash, s.archive_hash, s.golden_key, n.n_rows, n.seconds, $now, $dagster_run_id, "
        "n.reason, $note, $product_version from temp.cell_states s "
        "join (select unnest(cast($run_keys as integer[])) as run_key, "
        "unnest(cast($n_rows as integer[])) as n_rows, unnest(cast($seconds as double[])) as seconds, "
        "unnest(cast($reasons as varchar[])) as reason) n using (run_key) "
        "where s.definition = $definition and s.source = $source",
        {
            "now": now,
            "dagster_run_id": dagster_run_id,
            "note": note,
            "product_version": product_version(),
            "run_keys": run_keys,
            "n_rows": [cell.n_rows for cell in cells],
            "seconds": [cell.seconds for cell in cells],
            "reasons": [cell.reason for cell in cells],
            "definition": wanted.definition,
            "source": wanted.source,
        },
    )


BATCH_RESULTS = 1_000_000
# An extraction case is compared field by field in Python: it costs about as much as this many results.
RESULTS_PER_CASE = 50
ASKED = "asked"
MISSING = "missing"
NEW_DATA_REASONS = frozenset((MISSING, "results"))
# Reasons that lie in the data: no definition speaks against computing them.
DATA_REASONS = NEW_DATA_REASONS | {"labels", "archive"}
DEFINITION_REASONS = frozenset(("formula", "parent"))
# What came with a later version than the run was computed by, and nobody has asked for yet.
OFFERED = "offered"
EVERY_REASON = DATA_REASONS | DEFINITION_REASONS | {UPGRADE, OFFERED}


@dataclass(frozen=True)
class StaleCell:
    """One cell that is to be computed."""

    wanted: CellSpec
    run_key: int
    run_id: str
    dataset_key: int
    golden_key: int
    reason: str


def cell_specs(registry: Registry) -> list[CellSpec]:
    """Every kind of cell there should be, parents before children."""
    found: list[CellSpec] = []
    for one in registry:
        if ALL_FORMULAS in one.reads:
            for formula in registry.formulas:
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
    return bool(tables) and all(PART_OF_TABLE.get(table, "run") != "run" for table in tables)


def _is_shipped(one: Definition) -> bool:
    return not one.is_own and one.variant_of is None


def _old_name(registry: Registry, one: Definition) -> str:
    """The name the definition was renamed from, unless something stands under that name again."""
    old = f"{one.schema}.{one.header.was}" if one.header.was else ""
    return "" if old in registry.definitions else old


def unwanted_cells(registry: Registry) -> list[tuple[str, str]]:
    """(definition, dataset) where a dataset's configuration leaves a formula out."""
    return [
        (one.name, dataset)
        for dataset in registry.config.datasets
        for one in registry
        if not registry.applies_to(one, dataset)
    ]


def _find_stale(
    con: Connection,
    registry: Registry,
    wanted: Sequence[CellSpec],
    *,
    reasons: Collection[str] | None,
    run_ids: Collection[str] | None,
    definitions: Collection[str] | None,
    force: bool,
) -> list[StaleCell]:
    """The cells to compute, in the order of the runs."""
    find_states(con, wanted, unwanted=unwanted_cells(registry), only_due=not force)
    by_name = {(one.definition, one.source): one for one in wanted}
    rows = con.execute(
        "select definition, source, run_key, run_id, dataset_key, golden_key, reason_unless_frozen, "
        "stored_fingerprint, is_offered "
        "from cell_states where not is_pinned and not is_frozen order by run_no"
    ).fetchall()
    asked: set[tuple[str, int]] = set()
    stale: dict[tuple[str, str, int], StaleCell] = {}
    upgraded = {} if reasons is None or DATA_REASONS.issuperset(reasons) else upgraded_cells(con, registry)
    for definition, source, run_key, run_id, dataset_key, golden_key, reason, meant, is_offered in rows:
        names = {definition, by_name[definition, source].name}
        is_named = (definitions is None or not names.isdisjoint(definitions)) and (
            run_ids is None or run_id in run_ids
        )
        forced = force and is_named
        if reason is None and not forced:
            continue
        due = StaleCell(
            by_name[definition, source], run_key, run_id, dataset_key, golden_key, reason or ASKED
        )
        stale[definition, source, run_key] = due
        kind = OFFERED if is_offered else UPGRADE if (definition, source, meant) in upgraded else reason
        is_asked = kind != OFFERED if reasons is None else kind in reasons
        if is_named and (forced or is_asked):
            asked.add((due.wanted.name, run_key))
    lineages = {name: with_parents(registry, name) for name in {asked_name for asked_name, _ in asked}}
    needed = {(name, run_key) for asked_name, run_key in asked for name in lineages[asked_name]}
    return [due for due in stale.values() if (due.wanted.name, due.run_key) in needed]


def with_parents(registry: Registry, name: str) -> set[str]:
    """The cell's name with those of everything it is computed from."""
    definition, _, source = name.partition(":")
    found = {name}
    parents = (source,) if source else registry.definitions[definition].reads
    for parent in parents:
        if parent in registry.definitions:
            found |= with_parents(registry, parent)
    return found


def _in_batches(con: Connection, due: Sequence[StaleCell]) -> Iterator[list[StaleCell]]:
    """Runs of one dataset together, up to a number of results that is computed in about a second."""
    sizes = dict(
        con.execute(
            "select run_key, sum(case when part = 'results' then n_rows else n_rows * ? end) from raw.run_parts "
            "where part in ('results', 'extractions') group by run_key",
            [RESULTS_PER_CASE],
        ).fetchall()
    )
    by_dataset: dict[int, dict[int, list[StaleCell]]] = {}
    for one in due:
        by_dataset.setdefault(one.dataset_key, {}).setdefault(one.run_key, []).append(one)
    for runs in by_dataset.values():
        batch: list[StaleCell] = []
        size = 0
        for run_key in sorted(runs):
            if batch and size + sizes.get(run_key, 0) > BATCH_RESULTS:
                yield batch
                batch, size = [], 0
            batch += runs[run_key]
            size += sizes.get(run_key, 0)
        if batch:
            yield batch


def _in_steps(wanted: Sequence[CellSpec], batch: Sequence[StaleCell]) -> list[list[StaleCell]]:
    """One step per kind of cell, parents first."""
    by_name: dict[str, list[StaleCell]] = {}
    for due in batch:
        by_name.setdefault(due.wanted.name, []).append(due)
    return [by_name[one.name] for one in wanted if one.name in by_name]
