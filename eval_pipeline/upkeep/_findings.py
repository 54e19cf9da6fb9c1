"""What is wrong somewhere, and what mends it; and how whole files are told from broken ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from eval_pipeline.bundle.files import content_hash, stem_of
from eval_pipeline.errors import InputRejected
from eval_pipeline.settings import Settings
from eval_pipeline.store.kept import kept_folder
from eval_pipeline.store.open import Connection, first_value
from eval_pipeline.upkeep._deliveries import stamps

ERROR: Literal["error"] = "error"
WARNING: Literal["warning"] = "warning"
FROM_A_BACKUP = (
    "put it in its place from an `eval-pipeline backup`; the numbers of the store stand, but a later `rebuild` would "
    "not bring this back"
)


@dataclass(frozen=True)
class Finding:
    """What is wrong, where, how bad, and what mends it."""

    what: str
    where: str
    level: Literal["error", "warning"]
    mend: str


def read_everything(con: Connection) -> None:
    """A file may open and be broken further in: every column of every table is read."""
    tables = con.execute(
        "select schema_name, table_name from duckdb_tables() "
        "where database_name = current_database() and not internal"
    ).fetchall()
    for schema, table in tables:
        first_value(con, f'select bit_xor(hash(t)) from {schema}."{table}" t')


def kept_findings(settings: Settings, con: Connection | None) -> list[Finding]:
    """Kept deliveries that cannot be read, are not what was taken in, or are not there."""
    known, emptied, wanted = _taken_in(con) if con else (set(), set(), {})
    found: set[str] = set()
    findings: list[Finding] = []
    # Of whom something was found already; what is missing of them is that.
    excused = set(emptied)
    for stamp in stamps(settings.db):
        for path in _files(stamp):
            owner = _owner(path, stamp)
            try:
                content = content_hash(path)
            except (InputRejected, OSError) as error:
                findings.append(_broken(path, f"cannot be read: {error}"))
                excused.add(owner)
                continue
            found.add(content)
            if con and content not in known and owner not in emptied:
                findings.append(_broken(path, "holds other bytes than were taken in"))
                excused.add(owner)
    for content, (owner, part) in wanted.items():
        if content not in found and owner not in excused:
            findings.append(_missing(settings, owner, part))
    return findings


def _files(stamp: Path) -> Iterator[Path]:
    return (path for path in sorted(stamp.rglob("*")) if path.is_file() and path.suffix != ".part")


def _owner(path: Path, stamp: Path) -> str:
    """`runs/NAME` or `datasets/NAME`, by the folder of the delivery."""
    return "/".join(path.relative_to(stamp).parts[:2])


def _broken(path: Path, what: str) -> Finding:
    return Finding(f"a kept delivery {what} ({stem_of(path)})", str(path), ERROR, FROM_A_BACKUP)


def _missing(settings: Settings, owner: str, part: str) -> Finding:
    what = f"no kept delivery holds {part} of {owner} as it was taken in"
    return Finding(what, str(kept_folder(settings.db)), ERROR, FROM_A_BACKUP)


def _taken_in(con: Connection) -> tuple[set[str], set[str], dict[str, tuple[str, str]]]:
    """Hashes that were taken in or refused; who has no texts; hashes in force.

    Without texts (`load --no-text`, `forget --text`) other bytes are kept than were delivered.
    """
    known = {
        content
        for (content,) in con.execute(
            "select content_hash from ledger.deliveries union select content_hash from ledger.quarantine"
        ).fetchall()
    }
    emptied = {owner for (owner,) in con.execute(_EMPTIED).fetchall()}
    wanted = {content: (owner, part) for content, owner, part in con.execute(_IN_FORCE).fetchall()}
    return known, emptied, wanted


_EMPTIED = """
select 'runs/' || run_id from ledger.forgotten_texts join raw.runs on owner = 'run_key' and owner_key = run_key
union
select 'datasets/' || dataset_id from ledger.forgotten_texts
join labels.golden_sets on owner = 'golden_key' and owner_key = golden_key join raw.datasets using (dataset_key)
union
select coalesce('datasets/' || dataset_id, 'inventories') from ledger.forgotten_texts
join raw.archives on owner = 'archive_key' and owner_key = archive_key left join raw.datasets using (dataset_key)
union
select 'runs/' || run_id from raw.runs where run_key not in (
    select run_key from raw.results where answer_text_key is not null
    union all
    select run_key from raw.hits where text_key is not null
)
union
select 'datasets/' || dataset_id from labels.golden_sets join raw.datasets using (dataset_key)
where golden_key not in (select golden_key from labels.query_details where text_key is not null)
union
select kind || 's/' || name from ledger.tombstones where scope = 'texts'
"""
_IN_FORCE = """
select content_hash, 'runs/' || run_id, part from raw.run_parts join raw.runs using (run_key)
union all
select content_hash, coalesce('datasets/' || dataset_id, 'inventories'), part from ledger.deliveries
where run_id is null and superseded_at is null
"""
