"""Why metrics of a run have no value: the parts that were not delivered, or what else is missing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from eval_pipeline.computing.judges import asks_of, judgement_statuses
from eval_pipeline.formulas.definition import Definition
from eval_pipeline.formulas.registry import Registry
from eval_pipeline.formulas.tokens import canonical
from eval_pipeline.loading.lint import disputed_labels
from eval_pipeline.showing.scores import metrics_of
from eval_pipeline.store.open import Connection, first_value
from eval_pipeline.store.project import Store
from eval_pipeline.store.runs import RunRow, computed_with
from eval_pipeline.words import count, each_counted

# So many parts are named; the others stand in the list of all.
NAMED: Final = 4
NO_RESULTS: Final = "no results"
NOT_COMPUTED: Final = "not computed yet"
NO_VALUE: Final = "no query with a value"
_NO_GOLDEN_SET: Final = "no golden set for dataset"
NO_SCORE: Final = "no score of this name"
NO_NUMBER: Final = "no score with a number"


@dataclass(frozen=True)
class _Part:
    """What a run or its golden set may lack, and where a formula says that it has no value without it.

    It reads the table, and one of these phrases stands in its `applies` or, of `columns`, anywhere in its statement.
    """

    words: str
    table: str
    phrases: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    condition: str = "true"

    def is_needed(self, one: Definition, inputs: Collection[str]) -> bool:
        """Whether the formula is undefined in a run that has nothing of this."""
        applies = f" and {canonical(one.applies_where)} and "
        statement = "" if one.is_python else f" {canonical(one.body)} "
        return self.table in inputs and (
            any(f" {phrase} " in applies for phrase in self.phrases)
            or any(f" {column} " in statement for column in self.columns)
        )

    @property
    def sql(self) -> str:
        """Whether a scored query of the run has it."""
        if self.table in (RESULTS, HITS, SPANS):
            return f"exists(from scored t where {self.condition})"
        if self.table == ARCHIVES:
            return (
                "exists(from ledger.archives_in_force semi join "
                "(from raw.runs where run_key = $run_key) using (dataset_key))"
            )
        return (
            f"exists(from {self.table} t semi join scored using (query_key) "
            f"where t.golden_key = $golden_key and {self.condition})"
        )


# How the reason begins that labels hold no ids of the run's chunker.
OTHER_LABELS: Final = ("labels name chunks of", "chunk ids of the labels")
# What the name of a metric ends with that matches by characters what another matches by ids of chunks.
SPAN: Final = "_span"
RESULTS, ARCHIVES = "raw.results", "raw.archives"
HITS, SPANS = "raw.hits", "raw.hit_spans"
QUERIES, COUNTS = "labels.queries", "labels.expected_document_counts"
# What the golden set lacks comes first: without it nothing that a run delivers is of use.
_PARTS: Final = (
    _Part("expected chunks", "labels.expected_chunks", ("n_expected > 0", "n_relevant > 0", "best_grades")),
    _Part("judged labels", "labels.grade_counts", ("is_judged",)),
    _Part("expected documents", "labels.expected_documents", ("n_expected > 0",)),
    _Part("queries to refuse", COUNTS, ("n_expected = 0",), condition="t.n_expected = 0"),
    _Part("unanswerable queries", "labels.answerable", ("not answerable",), condition="not t.answerable"),
    _Part("gold supports", "labels.supports", ("n_expected > 0", "n_supports > 0", "n_groups > 0")),
    _Part("multi-hop queries", "labels.multi_hop", ("is_multi_hop",)),
    _Part("spans", "labels.spans", ("retrieved_chars is not null", "n_spans > 0")),
    _Part("required or forbidden texts", "labels.strings", ("n_required",)),
    _Part("conflict rules", "labels.conflict_rules", ("case conflict_rule",)),
    _Part("answers", RESULTS, ("has_answer",), condition="t.has_answer"),
    _Part("grounded answers", RESULTS, ("is_grounded",), condition="t.grounded"),
    _Part(
        "word on abstaining",
        RESULTS,
        ("is_abstained is not null",),
        condition="coalesce(t.abstained, t.judge_abstained) is not null",
    ),
    _Part("chunk archive", ARCHIVES, ("has_archive",)),
    _Part(
        "judge scores",
        RESULTS,
        columns=("groundedness_score", "correctness_score"),
        condition="t.judge_groundedness between 0 and 5 or t.judge_correctness between 0 and 5",
    ),
    _Part("selected folders", RESULTS, columns=("n_reached",), condition="t.selected_folders is not null"),
    _Part("query without an error", RESULTS, ("and not is_error",), condition="not t.is_failed"),
    _Part(
        "answer says whether it is grounded", RESULTS, ("says_grounded",), condition="t.grounded is not null"
    ),
    # These formulas have a value for a query unless a part above, or this one, is missing.
    _Part("hit names a document of the labels", HITS, ("names_documents",), condition="false"),
    _Part("recognized citations", RESULTS, ("n_unrecognized = 0",), condition="false"),
    _Part("references", RESULTS, ("has_references",), condition="false"),
    _Part("hit has spans", SPANS, ("has_spans",), condition="false"),
)


def undefined_of(store: Store, run: RunRow, keys: Collection[str]) -> dict[str, str]:
    """Metric → why it has no value in this run, of these, which have none."""
    if not keys:
        return {}
    registry = metrics_of(store, [run.run_key])
    lacking = _lacking(store.con, run)
    if NO_RESULTS in lacking:
        return dict.fromkeys(keys, NO_RESULTS)
    formulas, computed = registry.keys(), computed_with(store.con, run)
    statuses = judgement_statuses(store.con, run)
    found = {}
    for key in keys:
        one = formulas.get(key)
        if one is None:
            found[key] = NO_SCORE  # A metric that this run does not know is a score that another one has.
        elif run.golden_key < 0 and _reads_labels(registry.inputs_of(one)):
            found[key] = _no_golden_set(run.dataset)
        elif run.labels_of is not None and registry.compares_chunk_ids(one):
            found[key] = _other_chunker(store.con, run)
        else:
            asked = [each_counted(statuses[ask]) for ask in asks_of(key, list(statuses))]
            said = asked[0] if len(asked) == 1 else _reason(registry, one, lacking)
            found[key] = said if one.name in computed else NOT_COMPUTED
    return found


def _other_chunker(con: Connection, run: RunRow) -> str:
    """Why the metrics of chunk ids have no value in a run whose chunker is not the labels' own."""
    if run.labels_of:
        return f"labels name chunks of {' and '.join(run.labels_of)}; this run has another chunker"
    sql = "select candidates from ledger.label_chunkers where variant_key = ?"
    return disputed_labels(first_value(con, sql, [run.golden_key]), run.dataset)


def _no_golden_set(dataset: str) -> str:
    """Why a metric of labels has no value in a run whose dataset has no golden set, and what gives it one."""
    command = f"eval-pipeline load FILE --golden --dataset {dataset}"
    return f"{_NO_GOLDEN_SET} {dataset}: `{command}` takes labels in"


def _reads_labels(inputs: Collection[str]) -> bool:
    """Whether a formula asks more of a golden set than which queries there are."""
    return any(table.startswith("labels.") and table != QUERIES for table in inputs)


def _lacking(con: Connection, run: RunRow) -> set[str]:
    """What no scored query of the run has."""
    asked = ", ".join(["exists(from scored)", *(part.sql for part in _PARTS)])
    (found,) = con.execute(
        "with scored as (select r.*, s.is_failed from ledger.scored_results s join raw.results r "
        f"using (run_key, query_key) where run_key = $run_key) select {asked}",
        {"run_key": run.run_key, "golden_key": run.golden_key},
    ).fetchall()
    names = [NO_RESULTS, *(f"no {part.words}" for part in _PARTS)]
    return {name for name, is_there in zip(names, found, strict=True) if not is_there}


def _reason(registry: Registry, one: Definition, lacking: Collection[str]) -> str:
    if one.is_scored_by_name:
        return NO_NUMBER
    inputs = registry.inputs_of(one)
    for part in _PARTS:
        if f"no {part.words}" in lacking and part.is_needed(one, inputs):
            return f"no {part.words}"
    return NO_VALUE + (f"; it applies where {one.applies_where}" if one.applies_where else "")


def in_short(undefined: Mapping[str, str]) -> str:
    """`no spans, no judge scores: 26 metrics`: what is missing most comes first."""
    reasons = Counter(re.split("[;:] ", reason, maxsplit=1)[0] for reason in undefined.values())
    named = [reason for reason, _ in reasons.most_common()]
    shown = ", ".join(named[:NAMED]) + (" …" if len(named) > NAMED else "")
    return f"{shown}: {count(len(undefined), 'metric')}"
