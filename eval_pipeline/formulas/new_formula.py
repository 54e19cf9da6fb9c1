"""A formula to start from: a file of one's own that holds as it is written."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from eval_pipeline.errors import UsageError
from eval_pipeline.formulas.registry import NAME, Registry
from eval_pipeline.settings import own_folder, shipped_sql

_SQL: Final = """-- keys: {NAME: "Whether an expected chunk is among the first ${cutoff} hits"}
-- about: "Does what the answer needs stand at the very top?"
-- family: NAME
-- headline: NAME
-- version: 1
-- parameters: {cutoff: 3}
-- applies: n_expected > 0
-- scale: binary
-- range: [0, 1]
-- direction: higher
-- aggregate: mean
-- examples:
--   - {expected_chunk_ids: [a], hits: [x, a]} => {NAME: 1}
--   - {expected_chunk_ids: [a], hits: [x, y]} => {NAME: 0}
--   - {expected_chunk_ids: []} => {NAME: null}

-- One row per result. Where `applies` holds every row has a value; where it may have none, the header says
-- `undefined: why`.
select
    run_key,
    query_key,
    cast(count_within(found_ranks, $cutoff) > 0 as double) as NAME,
from facts.chunk_ranks
"""

_PYTHON: Final = '''"""Whether an expected chunk is among the first hits."""

import polars as pl

from eval_pipeline.formulas.decorator import formula


@formula(
    reads={"facts.chunk_ranks": ["run_key", "query_key", "n_expected", "first_rank"]},
    keys={"NAME": "Whether an expected chunk is among the first ${cutoff} hits"},
    about="Does what the answer needs stand at the very top?",
    family="NAME",
    headline="NAME",
    version=1,
    parameters={"cutoff": 3},
    applies="n_expected > 0",
    scale="binary",
    range=[0, 1],
    direction="higher",
    aggregate="mean",
    examples=[
        "{expected_chunk_ids: [a], hits: [x, a]} => {NAME: 1}",
        "{expected_chunk_ids: [a], hits: [x, y]} => {NAME: 0}",
        "{expected_chunk_ids: []} => {NAME: null}",
    ],
)
def NAME(chunk_ranks: pl.DataFrame, *, cutoff: int) -> pl.DataFrame:
    """One row per result. Where `applies` holds every row has a value, or the header says `undefined`: why."""
    is_found = (pl.col("first_rank") <= cutoff).fill_null(False).cast(pl.Float64)
    return chunk_ranks.select("run_key", "query_key", is_found.alias("NAME"))
'''


def write_new(registry: Registry, own: Path | None, name: str, *, in_python: bool = False) -> Path:
    """Write the file into one's own folder, in a checkout into that of the shipped ones; never over another."""
    if not NAME.match(name):
        raise UsageError(
            f"a formula's name is lower case letters, digits and _, and begins with a letter; not {name!r}"
        )
    known = {one.short_name: one for one in registry} | registry.keys()
    if name in known:
        taken = known[name]
        instead = "" if taken.is_own else f", or copy that file and say `replaces: {taken.short_name}` in it"
        raise UsageError(f"{name} exists already, in {taken.path}: choose another name{instead}")
    folder = (own or own_folder(Path("sql")) or shipped_sql()) / "metrics"
    path = folder / f"{name}.{'py' if in_python else 'sql'}"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write((_PYTHON if in_python else _SQL).replace("NAME", name))
    except FileExistsError as error:
        raise UsageError(f"{path} is there already, and is left as it is: choose another name") from error
    return path
