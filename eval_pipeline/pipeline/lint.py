"""What looks odd in a golden set or in a delivery: warnings, that change no row and no exit code."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any, Final

from eval_pipeline.records import GoldenRow, Span
from eval_pipeline.store.connect import Connection
from eval_pipeline.store.lint import (
    add_findings,
    drop_findings,
    known_findings,
    rank_faults,
    stale_labels,
)
from eval_pipeline.words import count

NAMED: Final = 3
MULTI_HOP: Final = "multi_hop"
CONFLICT: Final = "recency/conflict"
STALE: Final = "stale_labels"


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


def note_golden_set(
    con: Connection, dataset: str, rows: Sequence[GoldenRow], *, now: dt.datetime
) -> list[Finding]:
    """Lint a golden set and keep what was found; call it inside the transaction that writes the set."""
    found = [replace(one, dataset=dataset) for one in lint_rows(rows)]
    drop_findings(con, datasets=[dataset])
    _keep(con, found, now=now)
    return found


def note_stale_labels(con: Connection, *, now: dt.datetime) -> list[Finding]:
    """Hold the expected chunks of every dataset against its inventories, and keep what was found."""
    found = [
        Finding(STALE, query_id, _stale_in_words(chunks), "A3.23", dataset=dataset)
        for dataset, query_id, chunks in stale_labels(con)
    ]
    drop_findings(con, rule=STALE)
    _keep(con, found, now=now)
    return found


def _stale_in_words(chunks: Sequence[str]) -> str:
    ids = "1 expected chunk id" if len(chunks) == 1 else f"{len(chunks):,} expected chunk ids"
    return f"has {ids} in no inventory of its dataset: {_named(chunks)}"


def note_ranks(con: Connection, run_ids: Sequence[str], *, now: dt.datetime) -> list[Finding]:
    """Hold the rank fields of these runs against the places of their hits; call it where the runs are written."""
    found: list[Finding] = []
    for run_id, fault in rank_faults(con, run_ids).items():
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
    drop_findings(con, run_ids=run_ids)
    _keep(con, found, now=now)
    return found


def _keep(con: Connection, found: Sequence[Finding], *, now: dt.datetime) -> None:
    add_findings(con, [astuple(one) for one in found], now=now)


def all_findings(
    con: Connection, *, datasets: Sequence[str] | None = None, run_ids: Sequence[str] | None = None
) -> list[Finding]:
    """What stands now: golden sets first, then runs; of these datasets' golden sets or these runs, or of all."""
    return [Finding(*row) for row in known_findings(con, datasets=datasets, run_ids=run_ids)]


def _named(names: Sequence[str]) -> str:
    more = len(names) - NAMED
    return ", ".join(map(repr, names[:NAMED])) + (f" and {more:,} more" if more > 0 else "")
