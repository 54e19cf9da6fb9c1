"""The ledger: for every derived table and run, what stands there and whether it still holds."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from eval_pipeline.store.connect import Connection

PART_OF_TABLE = {
    "raw.results": "results",
    "raw.hits": "results",
    "raw.hit_spans": "results",
    "raw.citations": "results",
    "raw.references": "results",
    "raw.runs": "run",
    "raw.extraction_cases": "extractions",
    "raw.index_reports": "index_report",
    "raw.indexed_documents": "index_report",
    "raw.indexed_chunks": "index_report",
    "raw.spot_checks": "judge_spot_check",
}
ARCHIVE_TABLES = frozenset(("raw.archives", "raw.archive_chunks", "raw.archive_spans"))


@dataclass(frozen=True)
class Wanted:
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

    @property
    def name(self) -> str:
        """One name for both."""
        return f"{self.definition}:{self.source}" if self.source else self.definition


@dataclass(frozen=True)
class Cell:
    """One derived table × one run, as it was computed."""

    definition: str
    source: str
    run_key: int
    n_rows: int
    seconds: float
    reason: str


def wanted_of(
    definition: str,
    *,
    source: str,
    fingerprint: str,
    own_fingerprint: str,
    inputs: Iterable[str],
    source_fingerprint: str = "",
    was: str = "",
) -> Wanted:
    """Sort a definition's inputs into parts of a run, label families and the archive."""
    tables = list(inputs)
    return Wanted(
        definition=definition,
        source=source,
        fingerprint=fingerprint,
        own_fingerprint=own_fingerprint,
        source_fingerprint=source_fingerprint,
        was=was,
        parts=tuple(sorted({PART_OF_TABLE[table] for table in tables if table in PART_OF_TABLE})),
        families=tuple(sorted(table.split(".", 1)[1] for table in tables if table.startswith("labels."))),
        uses_archive=any(table in ARCHIVE_TABLES for table in tables),
    )


# The state of every cell in one statement. Inputs are hashed once per distinct set of inputs, not once per cell.
STATES = """
create or replace temp table cell_states as
with scored_runs as (
    select r.run_key, r.run_id, r.dataset_key, g.golden_key,
        row_number() over (order by coalesce(r.created_at, r.first_loaded_at), r.run_id) as run_no
    from raw.runs r
    join labels.golden_sets g on g.dataset_key = r.dataset_key and g.superseded_at is null
    where not exists (from asked_runs) or r.run_key in (from asked_runs)
),
part_sets as (select distinct parts from wanted),
family_sets as (select distinct families from wanted),
results_hashes as (
    select p.parts, r.run_key,
        md5(coalesce(string_agg(rp.part || ':' || rp.content_hash, ',' order by rp.part), '')) as results_hash
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
    left join raw.archives a on a.dataset_key = d.dataset_key or (
        a.dataset_key is null and a.chunker_version not in (
            select own.chunker_version from raw.archives own where own.dataset_key = d.dataset_key
        )
    )
    group by d.dataset_key
),
expected as (
    select w.definition, w.source, w.fingerprint, w.own_fingerprint, w.source_fingerprint,
        r.run_key, r.run_id, r.run_no, r.dataset_key, r.golden_key,
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
renames as (select was, definition from wanted where was <> ''),
current_cells as (
    select coalesce(d.definition, c.definition) as definition, coalesce(s.definition, c.source) as source,
        c.* exclude (definition, source)
    from ledger.cells c
    left join renames d on d.was = c.definition
    left join renames s on s.was = c.source
)
select e.*, c.n_rows, c.seconds, c.fingerprint as stored_fingerprint, c.source_fingerprint as stored_source_fingerprint,
    p.run_key is not null as is_pinned,
    case
        when c.run_key is null then 'missing'
        when c.results_hash <> e.results_hash then 'results'
        when c.own_fingerprint <> e.own_fingerprint then 'formula'
        when c.fingerprint <> e.fingerprint then 'parent'
        when c.labels_hash <> e.labels_hash then 'labels'
        when c.archive_hash <> e.archive_hash then 'archive'
    end as reason
from expected e
left join current_cells c on c.definition = e.definition and c.source = e.source and c.run_key = e.run_key
left join (select distinct definition, source, run_key, fingerprint from ledger.pins) p
    on p.definition = e.definition and p.source = e.source and p.run_key = e.run_key
    and p.fingerprint = c.fingerprint and c.results_hash = e.results_hash
"""


def find_states(
    con: Connection,
    wanted: Sequence[Wanted],
    *,
    unwanted: Sequence[tuple[str, str]] = (),
    run_keys: Sequence[int] = (),
) -> None:
    """Fill the temporary table cell_states; `reason` is null where the cell is fresh.

    `unwanted` holds (definition, dataset id) where a dataset does not want a definition; `run_keys` limits the answer.
    """
    table = pa.table(
        {
            "definition": [one.definition for one in wanted],
            "source": [one.source for one in wanted],
            "name": [one.source or one.definition for one in wanted],
            "fingerprint": [one.fingerprint for one in wanted],
            "own_fingerprint": [one.own_fingerprint for one in wanted],
            "source_fingerprint": [one.source_fingerprint for one in wanted],
            "was": [one.was for one in wanted],
            "parts": pa.array([list(one.parts) for one in wanted], pa.list_(pa.string())),
            "families": pa.array([list(one.families) for one in wanted], pa.list_(pa.string())),
            "uses_archive": [one.uses_archive for one in wanted],
        }
    )
    con.register("wanted", table)
    con.register(
        "unwanted_ids",
        pa.table(
            {
                "definition": pa.array([name for name, _ in unwanted], pa.string()),
                "dataset_id": pa.array([dataset for _, dataset in unwanted], pa.string()),
            }
        ),
    )
    con.execute(
        "create or replace temp table unwanted as "
        "select u.definition, d.dataset_key from unwanted_ids u join raw.datasets d using (dataset_id)"
    )
    con.execute("create or replace temp table asked_runs (run_key integer)")
    if run_keys:
        con.execute("insert into asked_runs select unnest(?)", [list(run_keys)])
    con.execute(STATES)
    con.unregister("wanted")
    con.unregister("unwanted_ids")


def record_cells(
    con: Connection,
    store: str,
    cells: Sequence[Cell],
    wanted: Wanted,
    *,
    now: dt.datetime,
    dagster_run_id: str | None,
    note: str | None,
) -> None:
    """Write what was computed, with the inputs that cell_states found for it; same transaction as the rows."""
    table = pa.table(
        {
            "run_key": pa.array([cell.run_key for cell in cells], pa.int32()),
            "n_rows": pa.array([cell.n_rows for cell in cells], pa.int32()),
            "seconds": pa.array([cell.seconds for cell in cells], pa.float64()),
            "reason": pa.array([cell.reason for cell in cells], pa.string()),
        }
    )
    con.register("new_cells", table)
    con.execute(
        f'delete from "{store}".ledger.cells where definition = ? and source = ? '
        "and run_key in (select run_key from new_cells)",
        [wanted.definition, wanted.source],
    )
    con.execute(
        f'insert into "{store}".ledger.cells '
        "select s.definition, s.source, s.run_key, s.fingerprint, s.own_fingerprint, s.source_fingerprint, "
        "s.results_hash, s.labels_hash, s.archive_hash, s.golden_key, n.n_rows, n.seconds, ?, ?, n.reason, ? "
        "from temp.cell_states s join new_cells n using (run_key) where s.definition = ? and s.source = ?",
        [now, dagster_run_id, note, wanted.definition, wanted.source],
    )
    con.unregister("new_cells")
