"""What runs retrieved and answered, and what was expected of them, as other tools are given it."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

from eval_pipeline.showing.page_rows import ARCHIVED
from eval_pipeline.store.open import Connection
from eval_pipeline.store.runs import RunRow

Level = Literal["chunk", "doc"]
FETCHED = 10_000


@dataclass(frozen=True)
class Hit:
    """One hit; `text` is that of the run's own archive where none came with it."""

    chunk_id: str
    doc_id: str
    score: float | None
    text: str | None

    def id_of(self, level: Level) -> str:
        return self.chunk_id if level == "chunk" else self.doc_id


@dataclass(frozen=True)
class Answered:
    """What a run delivered for a query."""

    query_id: str
    hits: Sequence[Hit]
    citations: Sequence[str]
    answer: str | None
    has_answer: bool
    grounded: bool | None
    abstained: bool | None
    error: str | None
    total_ms: float | None
    retrieval_ms: float | None
    generation_ms: float | None


@dataclass(frozen=True)
class Asked:
    """A golden query: its text, what it is about, and what is expected; None is unlabelled."""

    query_id: str
    text: str | None
    about: Mapping[str, str]
    chunk_grades: Mapping[str, int] | None
    doc_grades: Mapping[str, int] | None

    def grades(self, level: Level) -> Mapping[str, int] | None:
        return self.chunk_grades if level == "chunk" else self.doc_grades

    def labels(self) -> dict[str, Any]:
        """What is expected, by the names that a golden row has for it."""
        given = {"expected_chunk_ids": self.chunk_grades, "expected_doc_ids": self.doc_grades}
        return {name: _expected(grades) for name, grades in given.items() if grades is not None}


def _grades(expected: Sequence[str]) -> dict[str, int]:
    """The grade of every item that has one: what is expected has 1, of everything else nothing is said."""
    return dict.fromkeys(expected, 1)


def _expected(grades: Mapping[str, int]) -> list[str]:
    return [item for item, grade in grades.items() if grade >= 1]


_RESULTS = """
select r.query_key, i.query_id, a.text, r.has_answer, r.grounded, r.abstained,
coalesce(nullif(r.error, ''), case when r.timed_out then 'timed out' end), r.total_ms, r.retrieval_ms, r.generation_ms
from raw.results r join raw.query_ids i using (query_key) left join raw.texts a on a.text_key = r.answer_text_key
where r.run_key = ? order by r.row_no
"""
_HITS = """
select h.query_key, c.chunk_id, d.doc_id, h.score, coalesce(t.text, other.text)
from (from raw.hits where run_key = $run) h
join raw.chunk_ids c using (chunk_key) join raw.doc_ids d using (doc_key) left join archived x using (chunk_key)
left join raw.texts t on t.text_key = h.text_key left join raw.texts other on other.text_key = x.text_key
order by h.query_key, h.rank
"""
_OWN_CHUNKER = "v.chunker_version = (select chunker_version from raw.runs where run_key = $run)"
_CITATIONS = """
select x.query_key, c.chunk_id from raw.citations x join raw.chunk_ids c using (chunk_key)
where x.run_key = ? order by x.query_key, x.item_no
"""


def answered(con: Connection, run: RunRow) -> list[Answered]:
    """Every result of the run in the order of its delivery."""
    hits: dict[int, list[Hit]] = {}
    given = {"run": run.run_key, "dataset": run.dataset}
    for query_key, *rest in con.execute(ARCHIVED.format(condition=_OWN_CHUNKER) + _HITS, given).fetchall():
        hits.setdefault(query_key, []).append(Hit(*rest))
    cited: dict[int, list[str]] = {}
    for query_key, chunk_id in con.execute(_CITATIONS, [run.run_key]).fetchall():
        cited.setdefault(query_key, []).append(chunk_id)
    return [
        Answered(query_id, hits.get(key, []), cited.get(key, []), *row)
        for key, query_id, *row in con.execute(_RESULTS, [run.run_key]).fetchall()
    ]


def asked(con: Connection, run: RunRow) -> dict[str, Asked]:
    """The golden set that scores the run, in its order."""
    rows = con.execute(
        "select q.query_key, i.query_id, t.text, q.lang from labels.query_details q join raw.query_ids i "
        "using (query_key) left join raw.texts t using (text_key) where q.golden_key = ? order by q.query_no",
        [run.golden_key],
    ).fetchall()
    about = _about(con, run)
    chunks, documents = (_labelled(con, run, one) for one in (_EXPECTED_CHUNKS, _EXPECTED_DOCUMENTS))
    found = {}
    for key, query_id, text, lang in rows:
        said = about.get(key, {}) | ({"lang": lang} if lang else {})
        found[query_id] = Asked(query_id, text, said, chunks.get(key), documents.get(key))
    return found


def _about(con: Connection, run: RunRow) -> dict[int, dict[str, str]]:
    found: dict[int, dict[str, str]] = {}
    for key, name, value in con.execute(
        "select query_key, slice, slice_value from labels.slices where golden_key = ? "
        "and slice in ('category', 'difficulty') and slice_value <> '(none)'",
        [run.golden_key],
    ).fetchall():
        found.setdefault(key, {})[name] = value
    return found


_EXPECTED_CHUNKS = """
select n.query_key, list(c.chunk_id order by e.item_no) filter (c.chunk_id is not null)
from labels.expected_chunk_counts n
left join labels.expected_chunks e on e.golden_key = n.golden_key and e.query_key = n.query_key
left join raw.chunk_ids c using (chunk_key) where n.golden_key = ? group by n.query_key
"""
_EXPECTED_DOCUMENTS = """
select n.query_key, list(c.doc_id order by e.item_no) filter (c.doc_id is not null)
from labels.expected_document_counts n
left join labels.expected_documents e on e.golden_key = n.golden_key and e.query_key = n.query_key
left join raw.doc_ids c using (doc_key) where n.golden_key = ? group by n.query_key
"""


def _labelled(con: Connection, run: RunRow, sql: str) -> dict[int, dict[str, int]]:
    return {key: _grades(ids or []) for key, ids in con.execute(sql, [run.golden_key]).fetchall()}


def levels(questions: Mapping[str, Asked]) -> list[Level]:
    """Chunks where there are labels of chunks, or none at all; documents where theirs say something else."""
    chunks = any(one.chunk_grades for one in questions.values())
    documents = any(one.doc_grades for one in questions.values())
    differ = any(one.doc_grades != one.chunk_grades for one in questions.values())
    found: list[Level] = ["chunk"] if chunks or not documents else []
    return [*found, "doc"] if documents and differ else found


@dataclass
class Ranking:
    """The hits of a run for tools that know one list of different ids per query, ordered by a score."""

    rows: dict[str, list[tuple[str, float]]] = field(default_factory=dict)
    repeated: int = 0
    without_hits: int = 0
    is_by_score: bool = True


def ranking(results: Sequence[Answered], level: Level) -> Ranking:
    """Each id once, at its best place, with the delivered scores where all of them fall; else places count down."""
    found = Ranking()
    lists: dict[str, dict[str, float | None]] = {}
    for one in results:
        ids: dict[str, float | None] = {}
        for hit in one.hits:
            ids.setdefault(hit.id_of(level), hit.score)
        found.repeated += len(one.hits) - len(ids)
        found.without_hits += not ids
        if ids:
            lists[one.query_id] = ids
    found.is_by_score = all(_fall(list(ids.values())) for ids in lists.values())
    for query_id, ids in lists.items():
        n = len(ids)
        found.rows[query_id] = [
            (name, score if found.is_by_score and score is not None else float(n - place))
            for place, (name, score) in enumerate(ids.items())
        ]
    return found


def _fall(scores: Sequence[float | None]) -> bool:
    """Whether they fall strictly, also for a reader that keeps seven digits of them, as trec_eval does."""
    try:
        kept = [struct.unpack("f", struct.pack("f", one))[0] for one in scores if one is not None]
    except OverflowError:
        return False
    return len(kept) == len(scores) and all(before > after for before, after in pairwise(kept))


_PASSAGES = """
with found as (
    select a.chunk_key, coalesce(a.heading_path, a.rel_path) as title, a.text_key, -a.archive_key as place
    from raw.archive_chunks a
    join ledger.archives_in_force v on v.archive_key = a.archive_key and v.is_newest
    join raw.datasets d on d.dataset_id = $dataset and d.dataset_key = v.dataset_key
    where v.chunker_version in (select chunker_version from raw.runs where run_key in (select unnest($runs)))
    union all
    select chunk_key, coalesce(heading_path, rel_path), text_key, run_key
    from raw.hits where run_key in (select unnest($runs))
    union all
    select chunk_key, null, null, 0 from labels.expected_chunks where golden_key = $golden
)
select c.chunk_id, f.title, t.text, f.n from (
    select chunk_key, arg_min(title, place) filter (title is not null) as title,
    arg_min(text_key, place) filter (text_key is not null) as text_key, count(distinct text_key) as n
    from found group by chunk_key
) f join raw.chunk_ids c using (chunk_key) left join raw.texts t using (text_key) order by c.chunk_id
"""
_DOCUMENTS = """
select distinct doc_id, null, null, 0 from (
    select doc_key from raw.hits where run_key in (select unnest($runs))
    union all
    select doc_key from labels.expected_documents where golden_key = $golden and $dataset is not null
) join raw.doc_ids using (doc_key) order by doc_id
"""


def passages(
    con: Connection, runs: Sequence[RunRow], level: Level
) -> Iterator[tuple[str, str | None, str | None, int]]:
    """(id, title, text, how many texts it has) of all that the archives of the runs hold, was found or is expected."""
    given = {
        "runs": [run.run_key for run in runs],
        "golden": runs[0].golden_key,
        "dataset": runs[0].dataset,
    }
    cursor = con.execute(_PASSAGES if level == "chunk" else _DOCUMENTS, given)
    while rows := cursor.fetchmany(FETCHED):
        yield from rows
