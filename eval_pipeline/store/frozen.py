"""Emptied texts: values computed from them stay, and what reads them is frozen from then on."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from eval_pipeline.formulas.definition import quoted
from eval_pipeline.formulas.text_columns import TEXT_COLUMNS
from eval_pipeline.records import FORGOTTEN
from eval_pipeline.store.key_columns import StoredColumn, columns_with_key, stored_columns
from eval_pipeline.store.open import Connection, first_value
from eval_pipeline.store.schema import TABLES_OF_PART

RUN, GOLDEN_SET, ARCHIVE = "run_key", "golden_key", "archive_key"
OWNER_OF_SCHEMA = {"labels": GOLDEN_SET, "raw": RUN}

# Columns in which a mark takes the place of a text: an error stays an error, a label a label. Lists are emptied.
MARKED = frozenset(("raw.results.error", "raw.extraction_cases.error", "labels.strings.text"))
UNKNOWN_CITATION = "chunk_key is not null and chunk_key not in (select key from temp.known_chunks)"
HELD = {"raw.citations.chunk_key": UNKNOWN_CITATION} | {
    place: f"trim(coalesce({place.rsplit('.', 1)[1]}, '')) not in ('', '{FORGOTTEN}')" for place in MARKED
}


@dataclass(frozen=True)
class Owners:
    """Whose texts: keys of runs, golden sets and archives."""

    runs: Sequence[int] = ()
    golden_sets: Sequence[int] = ()
    archives: Sequence[int] = ()

    def keys(self, owner: str) -> Sequence[int]:
        """The keys of one kind of owner."""
        return {RUN: self.runs, GOLDEN_SET: self.golden_sets, ARCHIVE: self.archives}[owner]


def empty_texts(con: Connection, owners: Owners, *, at: dt.datetime) -> dict[str, int]:
    """Empty every text column of the owners and note which ones held something: place → values.

    Call it inside a transaction.
    """
    stored = stored_columns(con)
    _collect_known_chunks(con, stored)
    places = [f"{one.plain_table}.{one.name}" for one in stored]
    found: dict[str, int] = {}
    for table, columns in TEXT_COLUMNS.items():
        owner = ARCHIVE if table == "raw.archive_chunks" else OWNER_OF_SCHEMA[table.split(".", 1)[0]]
        keys = list(owners.keys(owner))
        if not keys or table == "raw.runs":
            continue
        for column in sorted(columns, key=lambda one: places.index(f"{table}.{one}")):
            n = _empty(con, table, column, owner, keys, at=at)
            if n:
                found[f"{table}.{column}"] = n
    n = _empty_run_documents(con, owners.runs, at=at)
    return found | ({"raw.runs.document": n} if n else {})


def _collect_known_chunks(con: Connection, stored: list[StoredColumn]) -> None:
    """Chunk ids that somebody besides citations names; what only citations name may be any text."""
    columns = [
        one
        for one in columns_with_key(stored, "chunk")
        if one.plain_table not in ("raw.chunk_ids", "raw.citations")
    ]
    con.execute(
        "create or replace temp table known_chunks as select distinct key from ("
        + " union all ".join(one.values for one in columns)
        + ") where key is not null"
    )


def _empty(con: Connection, table: str, column: str, owner: str, keys: list[int], *, at: dt.datetime) -> int:
    place = f"{table}.{column}"
    schema, name = table.split(".", 1)
    full = f"{schema}.{quoted(name)}"
    held = HELD.get(place, f"{quoted(column)} is not null")
    scope = f"{owner} between ? and ? and {owner} in (select unnest(?)) and {held}"
    parameters = [min(keys), max(keys), keys]
    stays = f"'{FORGOTTEN}'" if place in MARKED else "null"
    n = int(first_value(con, f"select count(*) from {full} where {scope}", parameters))
    if n:
        con.execute(
            f"insert into ledger.forgotten_texts select distinct '{owner}', {owner}, ?, ? from {full} where {scope}",
            [place, at, *parameters],
        )
        con.execute(f"update {full} set {quoted(column)} = {stays} where {scope}", parameters)
    return n


def _empty_run_documents(con: Connection, run_keys: Sequence[int], *, at: dt.datetime) -> int:
    """A run.json may carry any text under keys of its own."""
    # Every command knows of forgotten texts; reading what was delivered is for those that forget.
    from eval_pipeline.bundle.texts import run_without_texts

    documents = con.execute(
        "select run_key, run_id, document from raw.runs where run_key in (select unnest(?))", [list(run_keys)]
    ).fetchall()
    n = 0
    for run_key, run_id, text in documents:
        document = json.loads(text)
        without = run_without_texts(document, run_id)
        if without != document:
            n += 1
            con.execute(
                "update raw.runs set document = ? where run_key = ?",
                [json.dumps(without, ensure_ascii=False), run_key],
            )
            add_marks(con, RUN, run_key, ["raw.runs.document"], at=at)
    return n


def add_marks(con: Connection, owner: str, key: int, places: Iterable[str], *, at: dt.datetime) -> None:
    """Note that these places of the owner hold no texts any more."""
    marks = [(owner, key, place, at) for place in places]
    if marks:
        con.executemany("insert into ledger.forgotten_texts values (?, ?, ?, ?)", marks)


def remove_unused_texts(con: Connection) -> int:
    """Texts that nothing refers to; returns how many."""
    columns = [
        one for one in stored_columns(con) if one.kind == "UHUGEINT" and one.plain_table != "raw.texts"
    ]
    used = " union all ".join(one.values for one in columns)
    return count_of(
        con.execute(
            f"delete from raw.texts where text_key not in (select key from ({used}) where key is not null)"
        )
    )


def count_of(result: Connection) -> int:
    """How many rows a statement has changed."""
    rows = result.fetchall()
    return int(rows[0][0]) if rows else 0


def empty_quarantine(con: Connection, condition: str, parameters: Sequence[object]) -> int:
    """Rejected rows keep where they stood and why they were rejected, without what they quoted."""
    return count_of(
        con.execute(
            f"update ledger.quarantine set text = '', reason = {_unquoted('reason')} "
            f"where {condition} and (text <> '' or reason <> {_unquoted('reason')})",
            list(parameters),
        )
    )


def empty_findings(con: Connection, run_ids: Sequence[str], dataset: str | None) -> None:
    """The same for warnings about labels and results."""
    con.execute(
        f"update ledger.lint set finding = {_unquoted('finding')} "
        f"where (run_id in (select unnest(?)) or dataset_id = ?) and finding <> {_unquoted('finding')}",
        [list(run_ids), dataset],
    )


def _unquoted(column: str) -> str:
    return f"regexp_replace({column}, '[''\"].*$', '{FORGOTTEN}', 's')"


def emptied_places(con: Connection, run_key: int, *, golden_keys: Sequence[int] = ()) -> frozenset[str]:
    """The places without texts behind a run: its own, its golden set's (or of these), and its archives'."""
    rows = con.execute(
        f"select place from ({PLACES_OF_RUNS}) where run_key = ? union "
        "select place from ledger.forgotten_texts where owner = 'golden_key' and owner_key in (select unnest(?))",
        [run_key, list(golden_keys)],
    ).fetchall()
    return frozenset(place for (place,) in rows)


# (run_key, place): what is emptied behind every run.
PLACES_OF_RUNS = """
    select r.run_key, f.place
    from ledger.forgotten_texts f
    join raw.runs r on f.owner = 'run_key' and r.run_key = f.owner_key
    union
    select r.run_key, f.place
    from ledger.forgotten_texts f
    join ledger.golden_sets_in_force g on f.owner = 'golden_key' and g.golden_key = f.owner_key
    join raw.runs r on r.dataset_key = g.dataset_key
    union
    select r.run_key, f.place
    from ledger.forgotten_texts f
    join ledger.archives_in_force a on f.owner = 'archive_key' and a.archive_key = f.owner_key
    join raw.runs r on r.dataset_key = a.dataset_key
"""


def tables_of_part(part: str) -> tuple[str, ...]:
    """The tables that a part of a run fills."""
    return (
        ("raw.runs", "raw.run_scores")
        if part == "run"
        else tuple(f"raw.{table}" for table in TABLES_OF_PART.get(part, ()))
    )


PART_OF_TABLE = {table: part for part in ("run", *TABLES_OF_PART) for table in tables_of_part(part)}


def parts_without_texts(con: Connection) -> list[tuple[str, str]]:
    """(run id, part) of every part whose texts were forgotten since it was taken in."""
    rows = con.execute(
        "select distinct r.run_id, f.place from ledger.forgotten_texts f "
        "join raw.runs r on f.owner = 'run_key' and r.run_key = f.owner_key"
    ).fetchall()
    return sorted({(run_id, PART_OF_TABLE[place.rsplit(".", 1)[0]]) for run_id, place in rows})


def forget_no_longer(con: Connection, run_key: int, parts: Iterable[str]) -> None:
    """These parts of the run are delivered anew, with whatever texts they hold."""
    for table in [table for part in parts for table in tables_of_part(part)]:
        con.execute(
            "delete from ledger.forgotten_texts "
            "where owner = 'run_key' and owner_key = ? and starts_with(place, ?)",
            [run_key, f"{table}."],
        )


def is_emptied(con: Connection, owner: str, key: int | None) -> bool:
    """Whether texts of this golden set or archive were forgotten."""
    return bool(
        key is not None
        and first_value(
            con,
            "select 1 from ledger.forgotten_texts where owner = ? and owner_key = ? limit 1",
            [owner, key],
        )
    )
