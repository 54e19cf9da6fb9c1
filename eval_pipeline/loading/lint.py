"""What looks odd in golden sets and deliveries: warnings that change no row and no exit code."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any, Final

from eval_pipeline.bundle.problems import printable
from eval_pipeline.bundle.secrets import secret_places
from eval_pipeline.records import GoldenRow, Span
from eval_pipeline.store.open import Connection
from eval_pipeline.store.project import Store
from eval_pipeline.words import count

_COLUMNS = ("rule", "query_id", "finding", "decision", "dataset_id", "run_id")
NAMED: Final = 3
MULTI_HOP: Final = "multi_hop"
CONFLICT: Final = "recency/conflict"
STALE: Final = "stale_labels"
DISPUTED: Final = "labels_of_several_chunkers"


@dataclass(frozen=True)
class RankFault:
    """Rank fields of one run that are not the places of their hits; the first of them, and in how many queries."""

    counts_from_zero: bool
    n_queries: int
    query_id: str
    place: int
    rank: float


def _stale_labels(con: Connection) -> list[tuple[str, str, list[str]]]:
    """(dataset, query id, expected chunks that no current inventory of the dataset has), in golden order.

    A dataset without any inventory has no stale labels: there is nothing to hold them against.
    """
    return con.execute(
        "with archives as (from ledger.archives_in_force where is_newest), "
        "known as (select distinct v.dataset_key, c.chunk_key from archives v "
        "join raw.archive_chunks c using (archive_key)) "
        "select d.dataset_id, i.query_id, list(c.chunk_id order by e.item_no) from ledger.golden_sets_in_force g "
        "join raw.datasets d on d.dataset_key = g.dataset_key "
        "join labels.expected_chunks e on e.golden_key = g.golden_key "
        "join labels.query_details q on q.golden_key = g.golden_key and q.query_key = e.query_key "
        "join raw.query_ids i on i.query_key = e.query_key join raw.chunk_ids c on c.chunk_key = e.chunk_key "
        "anti join known k on k.dataset_key = g.dataset_key and k.chunk_key = e.chunk_key "
        "where g.dataset_key in (select dataset_key from archives) "
        "group by d.dataset_id, i.query_id, q.query_no order by d.dataset_id, q.query_no"
    ).fetchall()


def _rank_faults(con: Connection, run_ids: Sequence[str]) -> dict[str, RankFault]:
    """The runs among these whose hits carry a rank that is not their place."""
    keys = con.execute(
        "select run_key from raw.runs where run_id in (select unnest(?))", [list(run_ids)]
    ).fetchall()
    if not keys:
        return {}
    run_keys = sorted(key for (key,) in keys)
    rows = con.execute(
        "with ranked as (select run_key, query_key, rank, delivered_rank from raw.hits "
        "where run_key between $first and $last and run_key in (select unnest($keys)) "
        "and delivered_rank is not null), "
        "odd as (select run_key, query_key, min(rank) as place, arg_min(delivered_rank, rank) as delivered_rank "
        "from ranked where delivered_rank <> rank group by run_key, query_key), "
        "zero as (select run_key, bool_and(delivered_rank = rank - 1) as is_zero from ranked group by run_key), "
        "placed as (select o.run_key, x.row_no, o.query_key, o.place, o.delivered_rank "
        "from odd o join raw.results x on x.run_key = o.run_key and x.query_key = o.query_key "
        "where x.run_key between $first and $last) "
        "select r.run_id, z.is_zero, count(*), arg_min(i.query_id, p.row_no), arg_min(p.place, p.row_no), "
        "arg_min(p.delivered_rank, p.row_no) from placed p join zero z using (run_key) "
        "join raw.runs r using (run_key) join raw.query_ids i on i.query_key = p.query_key "
        "group by r.run_id, z.is_zero order by r.run_id",
        {"keys": run_keys, "first": run_keys[0], "last": run_keys[-1]},
    ).fetchall()
    return {run_id: RankFault(*fault) for run_id, *fault in rows}


# The first text of a query is nearly always in its judge's input: the others are looked for only where it is not.
_OCCURS: Final = "contains(i.text, t.text) or contains(i.text, trim(cast(to_json(t.text) as varchar), '\"'))"
_INCOMPLETE: Final = f"""
with judged as (
    select x.run_key, x.query_key, x.row_no, x.judge_input_key, r.dataset_key, r.chunker_version
    from raw.results x
    join raw.runs r using (run_key)
    where x.run_key between $first and $last and x.run_key in (select unnest($keys))
        and x.judge_input_key is not null
),
archived as (
    select a.dataset_key, a.chunker_version, c.chunk_key, c.text_key
    from ledger.archives_in_force a
    join raw.archive_chunks c using (archive_key)
    where a.is_newest
),
retrieved as (
    select j.run_key, j.query_key, j.judge_input_key, h.rank, coalesce(h.text_key, a.text_key) as text_key
    from judged j
    join raw.hits h using (run_key, query_key)
    left join archived a using (dataset_key, chunker_version, chunk_key)
    where coalesce(h.text_key, a.text_key) is not null
),
firsts as (
    select run_key, query_key, judge_input_key, arg_min(text_key, rank) as text_key from retrieved group by all
),
lacking as (
    select f.run_key, f.query_key
    from firsts f
    join raw.texts i on i.text_key = f.judge_input_key
    join raw.texts t on t.text_key = f.text_key
    where not ({_OCCURS})
),
incomplete as (
    select h.run_key, h.query_key
    from retrieved h
    semi join lacking l on l.run_key = h.run_key and l.query_key = h.query_key
    join raw.texts i on i.text_key = h.judge_input_key
    join raw.texts t on t.text_key = h.text_key
    group by h.run_key, h.query_key
    having not bool_or({_OCCURS})
)
select r.run_id, count(*), arg_min(q.query_id, j.row_no)
from incomplete
join judged j using (run_key, query_key)
join raw.runs r using (run_key)
join raw.query_ids q using (query_key)
group by r.run_id
order by r.run_id
"""


def _incomplete_inputs(con: Connection, run_ids: Sequence[str]) -> list[tuple[str, int, str]]:
    """(run, how many inputs of its judge have the text of no hit, the first such query); unknown texts do not count."""
    keys = con.execute(
        "select distinct run_key from raw.results where judge_input_key is not null and run_key in "
        "(select run_key from raw.runs where run_id in (select unnest(?))) order by run_key",
        [list(run_ids)],
    ).fetchall()
    if not keys:
        return []
    run_keys = [key for (key,) in keys]
    parameters = {"keys": run_keys, "first": run_keys[0], "last": run_keys[-1]}
    return con.execute(_INCOMPLETE, parameters).fetchall()


def _drop_findings(
    con: Connection,
    *,
    datasets: Sequence[str] | None = None,
    run_ids: Sequence[str] | None = None,
    rule: str | None = None,
) -> None:
    """Forget what was found in these golden sets, in these runs, or by this rule."""
    con.execute(
        "delete from ledger.lint where list_contains($datasets, dataset_id) or list_contains($run_ids, run_id) "
        "or rule = $rule",
        {"datasets": list(datasets or ()), "run_ids": list(run_ids or ()), "rule": rule},
    )


def _replace_findings(
    store: Store, found: Sequence[Finding], *, rules: Sequence[str], run_ids: Sequence[str]
) -> None:
    """Keep what these rules found in these runs, in the place of what they had found before."""
    store.con.execute(
        "delete from ledger.lint where list_contains($rules, rule) and run_id in (select unnest($run_ids))",
        {"rules": list(rules), "run_ids": list(run_ids)},
    )
    _keep(store, found)


def _add_findings(store: Store, rows: Sequence[tuple[str | None, ...]]) -> None:
    """Keep (rule, query id, finding, decision, dataset, run id)."""
    con = store.con
    if not rows:
        return
    # Imported here, where rows are written: commands that only count them have no need of it.
    import pyarrow as pa

    table = pa.table(
        {
            name: pa.array([None if text is None else printable(text) for text in column], pa.string())
            for name, column in zip(_COLUMNS, zip(*rows, strict=True), strict=True)
        }
    )
    con.register("new_findings", table)
    con.execute("insert into ledger.lint by name select *, ? as found_at from new_findings", [store.clock()])
    con.unregister("new_findings")


def count_findings(con: Connection) -> int:
    """How many findings stand now."""
    return int(con.execute("select count(*) from ledger.lint").fetchall()[0][0])


@dataclass(frozen=True)
class Finding:
    """One odd thing: `words` say what, and `decision` which paragraph of docs/decisions.md says what is made of it.

    It is about a dataset's golden set or about a run's delivery, once it is known which.
    """

    rule: str
    query_id: str | None
    words: str
    decision: str
    dataset: str | None = None
    run_id: str | None = None

    def entry(self) -> dict[str, Any]:
        """As documents show it."""
        return {
            "rule": self.rule,
            "dataset": self.dataset,
            "run_id": self.run_id,
            "query_id": self.query_id,
            "words": self.words,
            "decision": self.decision,
        }


def lint_rows(rows: Sequence[GoldenRow]) -> list[Finding]:
    """Everything that can be seen in a golden set by itself, in its order; then what needs several rows."""
    found = [finding for row in rows for rule in _ROW_RULES for finding in rule(row)]
    return [*found, *_ambiguous_paths(rows), *_same_questions(rows)]


def _contradictory_answerable(row: GoldenRow) -> Iterator[Finding]:
    if row.answerable is None or row.expected_doc_ids is None:
        return
    if row.answerable and not row.expected_doc_ids:
        words = "is answerable, but expected_doc_ids [] says that it should be refused"
    elif not row.answerable and row.expected_doc_ids:
        words = "is not answerable, but expected_doc_ids names documents that answer it"
    else:
        return
    yield Finding("contradictory_answerable", row.query_id, words, "AX.5")


def _multi_hop_without_groups(row: GoldenRow) -> Iterator[Finding]:
    if not (row.multi_hop or row.category == MULTI_HOP) or row.required_support_groups:
        return
    said = "multi_hop" if row.multi_hop else f"category {MULTI_HOP}"
    words = f"is marked by {said} but has no required_support_groups, so recall_all does not apply to it"
    yield Finding("multi_hop_without_groups", row.query_id, words, "A2.7")


def _refusal_with_chunks(row: GoldenRow) -> Iterator[Finding]:
    if row.expected_doc_ids != [] or not row.expected_chunk_ids:
        return
    chunks = _named(list(dict.fromkeys(row.expected_chunk_ids)))
    words = f"should be refused (expected_doc_ids []), but expects {chunks}: a comparison by document matches nothing"
    yield Finding("refusal_with_expected_chunks", row.query_id, words, "A3.22")


def _zero_length_spans(row: GoldenRow) -> Iterator[Finding]:
    spans = row.ground_truth_spans or []
    empty = [number for number, span in enumerate(spans) if _is_empty(span)]
    if empty:
        words = (
            "has ground_truth_spans that cover no character at all: its span_recall is always 1"
            if len(empty) == len(spans)
            else f"has spans that cover no character: {_named([f'ground_truth_spans[{n}]' for n in empty])}"
        )
        yield Finding("zero_length_span", row.query_id, words, "A0.6")
    chunks = [
        chunk_id
        for chunk_id, own in (row.expected_chunk_spans or {}).items()
        if any(_is_empty(s) for s in own)
    ]
    if chunks:
        words = f"has expected_chunk_spans that cover no character and match nothing: {_named(chunks)}"
        yield Finding("zero_length_span", row.query_id, words, "A3.16")


def _is_empty(span: Span) -> bool:
    return span.start == span.end


def _empty_strings(row: GoldenRow) -> Iterator[Finding]:
    for name, texts in (("must_contain", row.must_contain), ("forbidden", row.forbidden)):
        if "" in (texts or []):
            yield Finding("empty_string", row.query_id, f'has "" in {name}, which is ignored', "A3.9")


def _conflict_rules(row: GoldenRow) -> Iterator[Finding]:
    rule = row.recency_conflict_rule
    if row.category == CONFLICT and rule is None:
        words = f"is of category {CONFLICT} but has no recency_conflict_rule, so recency_conflict_ok does not apply"
    elif row.category != CONFLICT and rule is not None:
        words = f"has a recency_conflict_rule, which only counts in the category {CONFLICT}"
    elif rule == "cite_newer" and not any(one.recency == "newer" for one in row.gold_supports or []):
        words = "should cite the newer note, but none of its gold_supports has recency newer"
    else:
        return
    yield Finding("conflict_rule", row.query_id, words, "A2.11")


_ROW_RULES: Final[Sequence[Callable[[GoldenRow], Iterator[Finding]]]] = (
    _contradictory_answerable,
    _refusal_with_chunks,
    _multi_hop_without_groups,
    _conflict_rules,
    _zero_length_spans,
    _empty_strings,
)


def _ambiguous_paths(rows: Iterable[GoldenRow]) -> Iterator[Finding]:
    """A path of two vaults: each is told by the first query that means another vault than the queries before."""
    first: dict[str, tuple[str, frozenset[str]]] = {}
    told: set[str] = set()
    for row in rows:
        vaults = frozenset([*([row.vault] if row.vault else []), *(row.vaults or [])])
        if not vaults:
            continue
        for path in dict.fromkeys(support.rel_path for support in row.gold_supports or []):
            known_id, known = first.setdefault(path, (row.query_id, vaults))
            if known.isdisjoint(vaults) and path not in told:
                told.add(path)
                words = (
                    f"means {path!r} of vault {_named(sorted(vaults))}, {known_id!r} means that of vault "
                    f"{_named(sorted(known))}; only the path is compared, so each matches the other's file"
                )
                yield Finding("path_in_two_vaults", row.query_id, words, "A2.23")


def _same_questions(rows: Iterable[GoldenRow]) -> Iterator[Finding]:
    first: dict[tuple[str, str | None], GoldenRow] = {}
    for row in rows:
        text = " ".join((row.query or "").split())
        if not text:
            continue
        known = first.setdefault((text, row.vault), row)
        if known is not row and _expected(known) != _expected(row):
            words = f"asks word for word what {known.query_id!r} asks, and expects something else"
            yield Finding("same_question", row.query_id, words, "N.6")


def _expected(row: GoldenRow) -> tuple[Any, ...]:
    """What a good answer is, whatever the order of the labels."""
    supports = [(one.rel_path, str(one.heading_path), one.recency) for one in row.gold_supports or []]
    ids = [
        None if one is None else sorted(set(one)) for one in (row.expected_chunk_ids, row.expected_doc_ids)
    ]
    texts = [sorted(set(one or [])) for one in (row.must_contain, row.forbidden)]
    return (*ids, *texts, sorted(supports), row.answerable)


def _note_golden_set(store: Store, dataset: str, rows: Sequence[GoldenRow]) -> list[Finding]:
    """Lint a golden set and keep what was found; call it inside the transaction that writes the set."""
    found = [replace(one, dataset=dataset) for one in lint_rows(rows)]
    _drop_findings(store.con, datasets=[dataset])
    _keep(store, found)
    return found


def _note_stale_labels(store: Store) -> list[Finding]:
    """Hold the expected chunks of every dataset against its inventories, and keep what was found."""
    found = [
        Finding(STALE, query_id, _stale_in_words(chunks), "A3.23", dataset=dataset)
        for dataset, query_id, chunks in _stale_labels(store.con)
    ]
    _drop_findings(store.con, rule=STALE)
    _keep(store, found)
    return found


def _note_disputed_labels(store: Store) -> list[Finding]:
    """Keep a finding for each golden set whose chunk ids several inventories have at different characters."""
    rows = store.con.execute(
        "select dataset_id, candidates from ledger.label_chunkers join ledger.golden_sets_in_force using (golden_key) "
        "join raw.datasets using (dataset_key) where is_in_force and chunker_versions = [] order by dataset_id"
    ).fetchall()
    found = [
        Finding(DISPUTED, None, disputed_labels(candidates, dataset), "A3.23", dataset=dataset)
        for dataset, candidates in rows
    ]
    _drop_findings(store.con, rule=DISPUTED)
    _keep(store, found)
    return found


def disputed_labels(candidates: Sequence[str], dataset: str) -> str:
    """Why the chunk ids of labels cannot be used, and what the user has to specify."""
    return (
        f"chunk ids of the labels are in the inventories of {' and '.join(candidates)} at different characters; set "
        f'labels_of = "{candidates[0]}" (or the other) under [datasets.{dataset}] in eval-pipeline.toml'
    )


def _stale_in_words(chunks: Sequence[str]) -> str:
    ids = "1 expected chunk id" if len(chunks) == 1 else f"{len(chunks):,} expected chunk ids"
    return f"has {ids} in no inventory of its dataset: {_named(chunks)}"


def _note_results(store: Store, run_ids: Sequence[str]) -> list[Finding]:
    """Look at what these runs delivered and keep what was found; call it where the runs are written."""
    con = store.con
    found = [
        *_of_secrets(con, run_ids),
        *_of_ranks(con, run_ids),
        *_unrecognized_citations(con, run_ids),
        *_of_judge_inputs(con, run_ids),
        *_of_unknown_queries(con, run_ids),
    ]
    _drop_findings(con, run_ids=run_ids)
    _keep(store, found)
    return found


def _of_secrets(con: Connection, run_ids: Sequence[str]) -> Iterator[Finding]:
    """The store keeps run.json as it came; who delivered a key should know that it lies there."""
    for run_id, document in con.execute(
        "select run_id, document from raw.runs where run_id in (select unnest(?)) order by run_id",
        [list(run_ids)],
    ).fetchall():
        places = list(secret_places(json.loads(document)))
        if places:
            words = f"run.json holds what looks like a key or a password, masked in exports and pages: {_named(places)}"
            yield Finding("secret_in_run", None, words, "N.6", run_id=run_id)


def _unrecognized_citations(con: Connection, run_ids: Sequence[str]) -> Iterator[Finding]:
    for run_id, n, n_queries, query_id in con.execute(
        "select r.run_id, count(*), count(distinct i.query_id), min(i.query_id) from raw.citations x "
        "join raw.runs r using (run_key) join raw.query_ids i using (query_key) "
        "where x.path = '' and r.run_id in (select unnest(?)) group by r.run_id order by r.run_id",
        [list(run_ids)],
    ).fetchall():
        queries = count(n_queries, "query", plural="queries")
        words = f"{count(n, 'citation')} of {queries} without `citation` or `path`: citation_coverage is undefined"
        yield Finding("citation_unrecognized", query_id, words, "A3.6", run_id=run_id)


def _of_judge_inputs(con: Connection, run_ids: Sequence[str]) -> Iterator[Finding]:
    """An input that holds nothing of what was retrieved is not what the judge saw, so that nobody can ask it again."""
    for run_id, n, query_id in _incomplete_inputs(con, run_ids):
        more = f", and so do those of {count(n - 1, 'more query', plural='more queries')}" if n > 1 else ""
        words = f"the input of the judge lacks the text of every hit{more}; it is not enough to judge again"
        yield Finding("judge_input_incomplete", query_id, words, "S2.25", run_id=run_id)


def _of_ranks(con: Connection, run_ids: Sequence[str]) -> list[Finding]:
    """Hold the rank fields of these runs against the places of their hits."""
    found: list[Finding] = []
    for run_id, fault in _rank_faults(con, run_ids).items():
        if fault.counts_from_zero:
            words = "the rank field counts from 0 in the whole file; the place in the list counts, from 1"
        else:
            others = fault.n_queries - 1
            more = (
                f" (and other hits in {count(others, 'more query', plural='more queries')})" if others else ""
            )
            words = (
                f"the hit at place {fault.place} says rank {fault.rank:g}{more}; the place in the list counts"
            )
        query_id = None if fault.counts_from_zero else fault.query_id
        found.append(Finding("rank_disagrees", query_id, words, "AX.2", run_id=run_id))
    return found


def _keep(store: Store, found: Sequence[Finding]) -> None:
    _add_findings(store, [astuple(one) for one in found])


def all_findings(con: Connection, *, datasets: Sequence[str] | None = None) -> list[Finding]:
    """What stands now, of all or of these datasets' golden sets: golden sets first, then runs."""
    rows = con.execute(
        f"select {', '.join(_COLUMNS)} from ledger.lint "
        "where $datasets is null or list_contains($datasets, dataset_id) "
        "order by dataset_id nulls last, run_id, rule, query_id, finding",
        {"datasets": None if datasets is None else list(datasets)},
    ).fetchall()
    return [Finding(*row) for row in rows]


def _named(names: Sequence[str]) -> str:
    more = len(names) - NAMED
    return ", ".join(map(repr, names[:NAMED])) + (f" and {more:,} more" if more > 0 else "")


_STALE = """
with asked as (
    select run_id, dataset_key, chunker_version, golden_key
    from ledger.runs_in_order
    where $run_ids is null or list_contains($run_ids, run_id)
),
worlds as (select distinct dataset_key, chunker_version, golden_key from asked),
stale as (
    select w.dataset_key, w.chunker_version, count(distinct e.chunk_key) as n
    from worlds w
    join ledger.archives_in_force i
        on i.dataset_key = w.dataset_key and i.chunker_version = w.chunker_version and i.is_newest
    join labels.expected_chunks e on e.golden_key = w.golden_key
    anti join raw.archive_chunks k on k.archive_key = i.archive_key and k.chunk_key = e.chunk_key
    group by w.dataset_key, w.chunker_version
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


def _of_unknown_queries(con: Connection, run_ids: Sequence[str]) -> Iterator[Finding]:
    """A judgement of what the run did not answer scores nothing, and stays."""
    for run_id, query_id, n in con.execute(
        "select r.run_id, min(i.query_id), count(distinct j.query_key) from raw.judgements j "
        "join raw.runs r on r.run_key = j.run_key join raw.query_ids i on i.query_key = j.query_key "
        "where r.run_id in (select unnest(?)) and not exists (from raw.results x where x.run_key = j.run_key "
        "and x.query_key = j.query_key) group by r.run_id order by r.run_id",
        [list(run_ids)],
    ).fetchall():
        more = f" and of {count(n - 1, 'other query', plural='other queries')}" if n > 1 else ""
        words = f"was judged{more}, and the run has no result of it: the judgement scores nothing"
        yield Finding("judgement_of_unknown_query", query_id, words, "S2.12", run_id=run_id)
