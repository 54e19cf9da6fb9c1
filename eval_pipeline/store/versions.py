"""Which versions of the product wrote to a store: the newest of them says who may open it."""

from __future__ import annotations

import re

import duckdb

from eval_pipeline.settings import product_version
from eval_pipeline.store.lock import Clock

# Wrote stores that do not say by which version.
FIRST = "0.1.0"


def _newest_writer(con: duckdb.DuckDBPyConnection) -> str:
    """The newest version that wrote to this store."""
    return max(_writers(con), key=_release, default=FIRST)


def _is_newer_release(version: str) -> bool:
    """Whether a version is of a newer release than this one; a patch of the same release changes no store."""
    return _release(version) > _release(product_version())


def _sign(con: duckdb.DuckDBPyConnection, clock: Clock) -> None:
    """Note that this version writes here."""
    if product_version() not in _writers(con):
        con.execute("insert into ledger.product_versions values (?, ?)", [product_version(), clock()])


def _writers(con: duckdb.DuckDBPyConnection) -> list[str]:
    try:
        rows = con.execute("select version from ledger.product_versions").fetchall()
    except (duckdb.CatalogException, duckdb.BinderException):
        return []
    return [version for (version,) in rows]


def _release(version: str) -> tuple[int, ...]:
    """Major and minor number."""
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])
