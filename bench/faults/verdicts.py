"""What may be different after a fault and the same command again: nothing that anybody could see."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.projects import open_reader

Views = dict[str, tuple[Any, ...]]
# Where from, by whom and in which order of calls something came; of times only whether there is one.
BY_CALL = {"path", "delivered_by", "run_key", "dataset_key"}
FROM_DELIVERY = {"created_at"}
STAMP = re.compile(r"(\bd\d+\.)?\d{8}T?-?\d{6}(\.\d+)?(-\d+)?")
MANIFEST = "manifest.json"
STORE_FILE = re.compile(r"[^/]*\.duckdb(\.(rebuilding|broken-[\dT-]+))?(\.(wal|blocks|lock|turn))?")
TIMES = re.compile(rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?")
NUMBER = re.compile(rb'"number": \d+,')
# DuckDB writes whole blocks, and what was begun in vain leaves free ones behind.
MOST_TIMES_THE_SIZE = 2
TRACES = ("Traceback (most recent call last)", "internal error")


@dataclass(frozen=True)
class Outcome:
    """What one case did: where it is counted, how to have it again, where it hit, how it ended, what was different."""

    counted_as: str
    again: str
    hit: str
    ending: str
    differences: tuple[str, ...]


def views_of(db: Path) -> Views:
    """Of every public view how many rows it has and a sum over them."""
    with open_reader(db) as con:
        names = con.execute(
            "select view_name from duckdb_views() where not internal and schema_name = 'main' order by all"
        ).fetchall()
        return {name: _sum_of(con, name) for (name,) in names}


def _sum_of(con: Any, view: str) -> tuple[Any, ...]:
    columns = con.execute(f'describe "{view}"').fetchall()
    listed = ", ".join(
        f'"{name}" is null' if kind == "TIMESTAMP" and name not in FROM_DELIVERY else f'"{name}"'
        for name, kind, *_ in columns
        if name not in BY_CALL
    )
    found = con.execute(f'select count(*), sum(hash({listed})::hugeint) from "{view}"').fetchone()
    return tuple(found)


def files_below(folder: Path) -> Counter[str]:
    """What lies there, by names without numbers and times of deliveries, and how often.

    One delivery may come in two, where the first was disturbed: what each of them has beside its parts counts once.
    """
    names = [(path, STAMP.sub("TIME", str(path.relative_to(folder)))) for path in folder.rglob("*")]
    once = {name for path, name in names if path.is_dir() or "broken" in name or path.name == MANIFEST}
    return Counter([*once, *(name for _, name in names if name not in once)])


def kept_below(folder: Path) -> tuple[str, ...]:
    """Everything that `rebuild` reads there, in order, by names and bytes without times."""
    paths = sorted(
        path for path in folder.rglob("*") if path.is_file() and not STORE_FILE.fullmatch(path.name)
    )
    deliveries: dict[str, int] = {}
    found = []
    for path in paths:
        first, *rest = path.relative_to(folder).parts
        if len(rest) > 1:
            rest[0] = str(deliveries.setdefault(rest[0], len(deliveries)))
        data = (
            TIMES.sub(b"TIME", NUMBER.sub(b"", path.read_bytes()))
            if path.suffix == ".json"
            else path.read_bytes()
        )
        found.append(f"{'/'.join([first, *rest])} {hashlib.sha256(data).hexdigest()}")
    return tuple(found)


def views_differ(wanted: Views, found: Views, *, of: str) -> list[str]:
    """Each view that differs, and how."""
    names = sorted(wanted.keys() | found.keys())
    return [
        f"{of}, {name}: {wanted.get(name)} became {found.get(name)}"
        for name in names
        if wanted.get(name) != found.get(name)
    ]


def files_differ(wanted: Counter[str], found: Counter[str]) -> list[str]:
    """Files that are too many, and those that are missing."""
    both = (("files left over", found - wanted), ("files missing", wanted - found))
    return [f"{what}: {', '.join(sorted(names.elements())[:4])}" for what, names in both if names]


def trace_in(said: str) -> str:
    """The end of what was said, where it is no answer but a trace."""
    return said[-400:] if any(trace in said for trace in TRACES) else ""
