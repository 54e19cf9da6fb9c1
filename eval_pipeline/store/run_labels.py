"""Whether the labels that runs are scored with name the chunks those runs could have found."""

from __future__ import annotations

from collections.abc import Sequence

from eval_pipeline.store.connect import Connection

# A dataset's own inventory of a chunker version stands before the one that is there for every dataset.
_STALE = """
with asked as (
    select r.run_id, r.dataset_key, r.chunker_version, g.golden_key
    from raw.runs r
    join labels.golden_sets g on g.dataset_key = r.dataset_key and g.superseded_at is null
    where $run_ids is null or list_contains($run_ids, r.run_id)
),
worlds as (select distinct dataset_key, chunker_version, golden_key from asked),
candidates as (
    select w.dataset_key, w.chunker_version, w.golden_key, a.archive_key,
        row_number() over (
            partition by w.dataset_key, w.chunker_version order by a.dataset_key nulls last, a.archive_key desc
        ) as place
    from worlds w
    join raw.archives a on a.chunker_version = w.chunker_version and a.superseded_at is null
        and (a.dataset_key is null or a.dataset_key = w.dataset_key)
),
stale as (
    select c.dataset_key, c.chunker_version, count(distinct e.chunk_key) as n
    from candidates c
    join labels.expected_chunks e on e.golden_key = c.golden_key
    anti join raw.archive_chunks k on k.archive_key = c.archive_key and k.chunk_key = e.chunk_key
    where c.place = 1
    group by c.dataset_key, c.chunker_version
)
select a.run_id, a.chunker_version, s.n
from asked a
join stale s on s.dataset_key = a.dataset_key and s.chunker_version = a.chunker_version
order by a.run_id
"""


def stale_label_counts(con: Connection, run_ids: Sequence[str] | None) -> list[tuple[str, str, int]]:
    """(run, chunker version, expected chunks that its newest inventory does not have), runs without any left out.

    A run whose chunker has no inventory is left out too: there is nothing to hold the labels against.
    """
    return con.execute(_STALE, {"run_ids": None if run_ids is None else list(run_ids)}).fetchall()
