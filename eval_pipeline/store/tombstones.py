"""What was forgotten on purpose and must not come back, in the store and beside it."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from eval_pipeline.errors import StoreError
from eval_pipeline.store.durable import place_durably
from eval_pipeline.store.kept import kept_folder
from eval_pipeline.store.open import Connection
from eval_pipeline.store.project import Store

FILE = "forgotten.json"
FORMAT = 1

Kind = Literal["run", "dataset"]
Scope = Literal["rows", "texts"]


@dataclass(frozen=True)
class Tombstone:
    """One name that was forgotten; `dataset` is set for a run that was forgotten with its dataset."""

    kind: Kind
    name: str
    scope: Scope
    run_key: int | None
    dataset: str | None
    forgotten_at: dt.datetime
    forgotten_by: str
    purged_at: dt.datetime | None = None
    compacted_at: dt.datetime | None = None
    lifted_at: dt.datetime | None = None


COLUMNS = tuple(one.name for one in fields(Tombstone))
_TIMES = ("forgotten_at", "purged_at", "compacted_at", "lifted_at")


@dataclass(frozen=True)
class Forgotten:
    """The names that no delivery may bring back."""

    runs: frozenset[str] = frozenset()
    datasets: frozenset[str] = frozenset()

    def keeps_out(self, run_id: str, dataset: str) -> bool:
        """Whether a run stays out, for its own sake or for its dataset's."""
        return run_id in self.runs or dataset in self.datasets


def find_forgotten(con: Connection, *, scopes: Collection[Scope] = ("rows", "texts")) -> Forgotten:
    """What stands now, of these scopes."""
    standing = [one for one in read_tombstones(con) if one.lifted_at is None and one.scope in scopes]
    return Forgotten(
        frozenset(one.name for one in standing if one.kind == "run"),
        frozenset(one.name for one in standing if one.kind == "dataset"),
    )


def read_tombstones(con: Connection) -> list[Tombstone]:
    """All of them, oldest first."""
    rows = con.execute(
        f"select {', '.join(COLUMNS)} from ledger.tombstones order by forgotten_at, kind, name"
    ).fetchall()
    return [Tombstone(*row) for row in rows]


def add_tombstones(con: Connection, tombstones: Sequence[Tombstone]) -> None:
    """Write them; call it inside the transaction that removes what they name."""
    if tombstones:
        con.executemany(
            f"insert into ledger.tombstones ({', '.join(COLUMNS)}) values ({', '.join('?' * len(COLUMNS))})",
            [[getattr(one, name) for name in COLUMNS] for one in tombstones],
        )


def note_purged(store: Store, kind: Kind, name: str) -> None:
    """The kept deliveries hold nothing of it any more."""
    store.con.execute(
        "update ledger.tombstones set purged_at = ? where purged_at is null "
        "and ((kind = ? and name = ?) or (? = 'dataset' and dataset = ?))",
        [store.clock(), kind, name, kind, name],
    )


def note_compacted(store: Store) -> None:
    """The file holds nothing any more of what had been forgotten until now."""
    store.con.execute(
        "update ledger.tombstones set compacted_at = ? where compacted_at is null", [store.clock()]
    )


def lift(store: Store, kind: Kind, name: str) -> list[str]:
    """Let deliveries of this name in again, and of the runs that went with the dataset; returns the lifted names."""
    rows = store.con.execute(
        "update ledger.tombstones set lifted_at = ? where lifted_at is null "
        "and ((kind = ? and name = ?) or (? = 'dataset' and dataset = ?)) returning name",
        [store.clock(), kind, name, kind, name],
    ).fetchall()
    return sorted({row[0] for row in rows})


@dataclass(frozen=True)
class EmptiedTexts:
    """The places of one owner that hold no texts any more, by the owner's name."""

    owner: str
    name: str | None
    chunker_version: str | None
    places: tuple[str, ...]
    forgotten_at: dt.datetime


@dataclass(frozen=True)
class Mirror:
    """What is kept beside the store about what was forgotten."""

    tombstones: tuple[Tombstone, ...] = ()
    texts: tuple[EmptiedTexts, ...] = field(default=())


_EMPTIED = """
select f.owner,
    case f.owner when 'run_key' then r.run_id when 'golden_key' then gd.dataset_id else ad.dataset_id end as name,
    a.chunker_version,
    list(distinct f.place order by f.place),
    max(f.forgotten_at)
from ledger.forgotten_texts f
left join raw.runs r on f.owner = 'run_key' and r.run_key = f.owner_key
left join labels.golden_sets g on f.owner = 'golden_key' and g.golden_key = f.owner_key
left join raw.datasets gd on gd.dataset_key = g.dataset_key
left join raw.archives a on f.owner = 'archive_key' and a.archive_key = f.owner_key
left join raw.datasets ad on ad.dataset_key = a.dataset_key
group by all
order by all
"""


def read_mirror(db: Path) -> Mirror:
    """What the file beside the store says; nothing when there is none."""
    path = kept_folder(db) / FILE
    if not path.is_file():
        return Mirror()
    try:
        document = json.loads(path.read_text("utf-8"))
        return Mirror(
            tuple(Tombstone(**_with_times(one)) for one in document["tombstones"]),
            tuple(
                EmptiedTexts(**_with_times(one) | {"places": tuple(one["places"])})
                for one in document["texts"]
            ),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(
            f"{path} says what was forgotten and cannot be read ({error}); put it right or move it away, "
            "then call again. Without it, what was forgotten may come back with a delivery."
        ) from error


def write_mirror(con: Connection, db: Path) -> None:
    """Write the file beside the store anew, from what the store says."""
    folder = kept_folder(db)
    folder.mkdir(parents=True, exist_ok=True)
    document = {
        "format": FORMAT,
        "tombstones": [_as_json(asdict(one)) for one in read_tombstones(con)],
        "texts": [_as_json(asdict(EmptiedTexts(*row))) for row in con.execute(_EMPTIED).fetchall()],
    }
    unfinished = folder / (FILE + ".part")
    unfinished.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    place_durably(unfinished, folder / FILE)


def _as_json(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value.isoformat() if isinstance(value, dt.datetime) else value for name, value in values.items()
    }


def _with_times(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: dt.datetime.fromisoformat(value) if name in _TIMES and value else value
        for name, value in values.items()
    }
