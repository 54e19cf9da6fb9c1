"""Across chunkers: which hits cover enough of the characters of which expected chunk."""

# Spans are cut into disjoint pieces first, so that each character counts once: what the spans before it, in order of
# their start, leave of a span.

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from eval_pipeline.comparing.pair_rows import BothRuns, ComparedRun
from eval_pipeline.store.open import Connection, first_value

# What the shared characters are divided by.
BASES = {
    "min": "least(hit_chars, chunk_chars)",
    "expected": "chunk_chars",
    "hit": "hit_chars",
    "iou": "hit_chars + chunk_chars - common_chars",
}


@dataclass(frozen=True)
class SpanMatch:
    """An expected chunk that one run found, with the first rank that holds it, one rank per threshold."""

    is_a: bool
    place: int
    chunk_id: str
    ranks: tuple[int | None, ...]


_KNOWN_SPANS = """
create or replace temp table known_spans as
with archives as (
    select archive_key from ledger.archives_in_force where dataset_key = $dataset and is_newest and coalesce((
        select list_contains(c.chunker_versions, archives_in_force.chunker_version)
        from ledger.label_chunkers c where c.golden_key = $golden and c.is_in_force
    ), true)
),
expected as (
    select c.place, e.query_key, e.chunk_key
    from {compared} c
    join labels.expected_chunks e on e.golden_key = $golden and e.query_key = c.query_key
    where c.place is not null
),
frozen as (
    select e.place, e.chunk_key, s.doc_key, s."start", s."end"
    from expected e
    join labels.expected_chunk_spans s
        on s.golden_key = $golden and s.query_key = e.query_key and s.chunk_key = e.chunk_key
),
archived as (
    select e.place, e.chunk_key, s.doc_key, s."start", s."end"
    from expected e
    join raw.archive_spans s on s.chunk_key = e.chunk_key and s.archive_key in (from archives)
    where not exists (from frozen f where f.place = e.place and f.chunk_key = e.chunk_key)
)
select * from frozen union all select * from archived
"""

_WANTED_DOCUMENTS = """
create or replace temp table wanted_documents as
select c.place, e.doc_key
from {compared} c
join labels.expected_documents e on e.golden_key = $golden and e.query_key = c.query_key
where c.place is not null
union all
select distinct k.place, k.doc_key
from temp.known_spans k
join {compared} c on c.place = k.place
where not exists (
    from labels.expected_document_counts n where n.golden_key = $golden and n.query_key = c.query_key
)
"""

# A hit without spans has those of its id in the inventory of its own run's chunker, and a bare id its document too.
_COMPARED_HITS = """
create or replace temp table compared_hits as
select h.run_key, c.place, h.query_key, h.rank, h.chunk_key, own.rank is not null as has_spans, i.archive_key,
    case when own.rank is null then coalesce(listed.doc_key, h.doc_key) else h.doc_key end as doc_key
from (from raw.hits where run_key in ($a, $b)) h
join {compared} c on c.query_key = h.query_key and c.place is not null
join raw.runs r on r.run_key = h.run_key
left join (select distinct run_key, query_key, rank from raw.hit_spans where run_key in ($a, $b)) own
    on own.run_key = h.run_key and own.query_key = h.query_key and own.rank = h.rank
left join (from ledger.archives_in_force where is_newest) i
    on i.dataset_key = r.dataset_key and i.chunker_version = r.chunker_version
left join raw.archive_chunks listed on listed.archive_key = i.archive_key and listed.chunk_key = h.chunk_key
"""

_PLACED_SPANS = """
create or replace temp table placed_spans as
select h.run_key, h.place, h.rank, s.doc_key, s."start", s."end"
from temp.compared_hits h
join (from raw.hit_spans where run_key in ($a, $b)) s
    on s.run_key = h.run_key and s.query_key = h.query_key and s.rank = h.rank
union all
select h.run_key, h.place, h.rank, s.doc_key, s."start", s."end"
from temp.compared_hits h
join raw.archive_spans s on s.archive_key = h.archive_key and s.chunk_key = h.chunk_key
where not h.has_spans
"""

_UNPLACED = """
select distinct h.place from temp.compared_hits h
semi join temp.known_spans k on k.place = h.place
anti join temp.placed_spans s on s.run_key = h.run_key and s.place = h.place and s.rank = h.rank
where h.run_key = $run and (
    exists(from temp.wanted_documents w where w.place = h.place and w.doc_key = h.doc_key)
    or exists(
        from raw.chunk_ids c join raw.doc_ids d on d.doc_id = c.chunk_id
        where c.chunk_key = h.chunk_key and d.doc_key = h.doc_key
    )
)
"""

_MATCHES = """
create or replace temp table span_matches as
with wanted_hits as (
    select h.run_key, h.place, h.query_key, h.rank, h.doc_key
    from temp.compared_hits h
    join temp.wanted_documents w on w.place = h.place and w.doc_key = h.doc_key
),
spans as (
    select h.run_key, h.place, cast(h.rank as bigint) as owner, s.doc_key, s."start", s."end"
    from wanted_hits h
    join temp.placed_spans s on s.run_key = h.run_key and s.place = h.place and s.rank = h.rank
    union all
    select 0 as run_key, k.place, cast(k.chunk_key as bigint) as owner, k.doc_key, k."start", k."end"
    from temp.known_spans k
),
cut as (
    select run_key, place, owner, doc_key, "end", greatest("start", coalesce(max("end") over (
        partition by run_key, place, owner, doc_key order by "start", "end"
        rows between unbounded preceding and 1 preceding
    ), 0)) as "start"
    from spans
),
pieces as (from cut where "start" < "end"),
sizes as (
    select run_key, place, owner, cast(sum("end" - "start") as bigint) as chars
    from pieces group by run_key, place, owner
),
meetings as (
    select h.run_key, h.place, h.owner as rank, k.owner as chunk_key,
        cast(sum(least(h."end", k."end") - greatest(h."start", k."start")) as bigint) as common_chars,
        cast(sum(case when h.doc_key = w.doc_key then least(h."end", k."end") - greatest(h."start", k."start")
            else 0 end) as bigint) as shared_chars
    from pieces h
    join pieces k on k.run_key = 0 and k.place = h.place and k.doc_key = h.doc_key
        and k."start" < h."end" and h."start" < k."end"
    join wanted_hits w on w.run_key = h.run_key and w.place = h.place and w.rank = h.owner
    where h.run_key <> 0
    group by h.run_key, h.place, h.owner, k.owner
),
measured as (
    select m.run_key, m.place, m.rank, m.chunk_key, m.shared_chars, m.common_chars,
        hs.chars as hit_chars, ks.chars as chunk_chars
    from meetings m
    join sizes hs on hs.run_key = m.run_key and hs.place = m.place and hs.owner = m.rank
    join sizes ks on ks.run_key = 0 and ks.place = m.place and ks.owner = m.chunk_key
    where m.shared_chars > 0
)
select m.run_key, m.place, m.chunk_key,
    cast(m.rank - coalesce(len(list_filter(r.repeated_ranks, lambda x: x < m.rank)), 0) as integer) as rank,
    m.shared_chars / cast({basis} as double) as share
from measured m
join {compared} c on c.place = m.place
left join (from facts.repeated_hits where run_key in ($a, $b)) r
    on r.run_key = m.run_key and r.query_key = c.query_key
where not coalesce(list_contains(r.repeated_ranks, m.rank), false)
"""


_SHARED_IDS: Final = """
with a as (select distinct chunk_key from raw.hits where run_key = $a),
b as (select distinct chunk_key from raw.hits where run_key = $b),
named_a as (
    select chunk_key from labels.expected_chunks where golden_key = $golden_a
    union select chunk_key from labels.grades where golden_key = $golden_a
),
named_b as (
    select chunk_key from labels.expected_chunks where golden_key = $golden_b
    union select chunk_key from labels.grades where golden_key = $golden_b
)
select (select count(*) from a semi join b using (chunk_key)),
    least((select count(*) from a), (select count(*) from b)),
    exists(from a semi join named_a using (chunk_key)) and exists(from b semi join named_b using (chunk_key)),
    exists(from named_a) or exists(from named_b)
"""


class SharedIds(NamedTuple):
    """How many of the ids that the run with fewer of them retrieved the other retrieved too.

    `both_named`: each run retrieved ids that labels name; `names_chunks`: there are such labels at all.
    """

    common: int
    fewer: int
    both_named: bool
    names_chunks: bool

    @property
    def are_alike(self) -> bool:
        """Whether these may be ids of one chunker: half of them are shared, or labels know ids of both runs."""
        return 2 * self.common >= self.fewer or self.both_named or not self.names_chunks


def shared_ids(both: BothRuns) -> SharedIds:
    """What the ids themselves say of two runs whose chunkers nobody recorded."""
    keys = {"a": both.a.run_key, "b": both.b.run_key}
    golden = {"golden_a": both.a.golden_key, "golden_b": both.b.golden_key}
    (row,) = both.con.execute(_SHARED_IDS, {**keys, **golden}).fetchall()
    return SharedIds(*row)


def can_match_spans(both: BothRuns) -> bool:
    """Whether hits of both runs say where they lie, and some expected chunk is known to lie somewhere."""
    ((have_spans,),) = both.con.execute(
        "select exists(from raw.hit_spans where run_key = ?) and exists(from raw.hit_spans where run_key = ?)",
        [both.a.run_key, both.b.run_key],
    ).fetchall()
    if not have_spans:
        return False
    _find_known_spans(both)
    return bool(places_with_spans(both.con))


def _find_known_spans(both: BothRuns) -> None:
    labels = {"dataset": both.a.dataset_key, "golden": both.a.delivered_key}
    both.con.execute(_KNOWN_SPANS.format(compared=both.table), labels)


def match_spans(both: BothRuns, *, basis: str) -> None:
    """Measure every meeting of a hit and an expected chunk of the paired queries.

    A hit counts only inside its own document, and only where that document is expected (by label, else because the
    expected chunks lie there).
    """
    con, a = both.con, both.a
    _find_known_spans(both)
    runs = {"a": a.run_key, "b": both.b.run_key}
    con.execute(_WANTED_DOCUMENTS.format(compared=both.table), {"golden": a.delivered_key})
    con.execute(_COMPARED_HITS.format(compared=both.table), runs)
    con.execute(_PLACED_SPANS, runs)
    con.execute(_MATCHES.format(compared=both.table, basis=BASES[basis]), runs)


def count_hits_without_spans(con: Connection, run: ComparedRun) -> int:
    """The hits of a run that carries spans, but not with these."""
    return int(
        first_value(
            con,
            "select count(*) from (from raw.hits where run_key = ?) h "
            "anti join (from raw.hit_spans where run_key = ?) s on s.query_key = h.query_key and s.rank = h.rank",
            [run.run_key, run.run_key],
        )
    )


def places_with_spans(con: Connection) -> set[int]:
    """Places of the queries for which the characters of at least one expected chunk are known."""
    return {place for (place,) in con.execute("select distinct place from temp.known_spans").fetchall()}


def unplaced_queries(con: Connection, run: ComparedRun) -> frozenset[int]:
    """Places of the queries with a hit that may hold an expected chunk and whose characters are unknown."""
    rows = con.execute(_UNPLACED, {"run": run.run_key}).fetchall()
    return frozenset(place for (place,) in rows)


def span_matches(
    con: Connection, a: ComparedRun, b: ComparedRun, *, thresholds: Sequence[float]
) -> list[SpanMatch]:
    """Every expected chunk that a run found at the lowest threshold, with its first rank at each."""
    ranks = ", ".join(f"min(m.rank) filter (where m.share >= {threshold!r})" for threshold in thresholds)
    rows = con.execute(
        f"select m.run_key, m.place, i.chunk_id, {ranks} from temp.span_matches m "
        "join raw.chunk_ids i using (chunk_key) where m.share >= ? "
        "group by m.run_key, m.place, i.chunk_id order by m.run_key, m.place, i.chunk_id",
        [min(thresholds)],
    ).fetchall()
    found = []
    for run_key, place, chunk_id, *first_ranks in rows:
        # A run compared with itself stands on both sides.
        for is_a in (True, False):
            if run_key == (a if is_a else b).run_key:
                found.append(SpanMatch(is_a, place, chunk_id, tuple(first_ranks)))
    return found
