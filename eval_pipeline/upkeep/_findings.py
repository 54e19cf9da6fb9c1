"""What is wrong somewhere, and what mends it; and how whole files are told from broken ones."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from eval_pipeline.bundle.files import stem_of
from eval_pipeline.formulas.definition import quoted
from eval_pipeline.store.kept import kept_folder
from eval_pipeline.store.open import Connection, first_value
from eval_pipeline.upkeep.verify import KeptFinding, verify_kept

ERROR: Literal["error"] = "error"
WARNING: Literal["warning"] = "warning"
FROM_A_BACKUP = (
    "put it in its place from an `eval-pipeline backup`, or let `eval-pipeline rebuild` write it anew from the store's "
    "rows, as far as they hold it; the numbers of the store stand"
)
# Of the file of another tool, which nothing is computed from.
NOT_NEEDED = (
    "put it in its place from an `eval-pipeline backup`; nothing is computed from it, and `eval-pipeline rebuild` goes "
    "on without it"
)
READABLE = "give this user the right to read it, or put it in its place from an `eval-pipeline backup`"


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
        first_value(con, f"select bit_xor(hash(t)) from {quoted(schema)}.{quoted(table)} t")


def kept_findings(db: Path, con: Connection | None) -> list[Finding]:
    """Kept deliveries that are not what was delivered, or are not there."""
    try:
        check = verify_kept(db, con)
    except OSError as error:
        what = f"kept deliveries cannot be read: {error.strerror}"
        return [Finding(what, str(error.filename or kept_folder(db)), ERROR, READABLE)]
    not_loaded = [
        Finding(
            f"a kept delivery is not in the store: {', '.join(names)}",
            str(path),
            ERROR,
            f"`eval-pipeline load {path}` loads it, `eval-pipeline rebuild` loads all kept deliveries again",
        )
        for path, names in check.not_loaded.items()
    ]
    return not_loaded + [
        Finding(
            f"a kept {'original' if one.is_of_original else 'delivery'} is {one.problem} ({stem_of(one.path)})",
            str(one.path),
            WARNING if one.is_of_original else ERROR,
            _mended_by(one),
        )
        for one in check.findings
    ]


def _mended_by(found: KeptFinding) -> str:
    if found.is_of_original:
        return NOT_NEEDED
    return READABLE if found.problem == "unreadable" else FROM_A_BACKUP
