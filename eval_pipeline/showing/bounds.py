"""Between what and what metrics lie where labels do not say of every hit whether it is relevant."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from eval_pipeline.config import JUDGED
from eval_pipeline.formulas.registry import Registry
from eval_pipeline.showing._fillings import (
    Graded,
    Place,
    Range,
    average_precision_range,
    hit_range,
    ndcg_range,
    precision_range,
    r_precision_range,
    recall_range,
    reciprocal_range,
)
from eval_pipeline.showing.run_report import Bounds
from eval_pipeline.store.open import Connection
from eval_pipeline.store.project import Store
from eval_pipeline.store.runs import RunRow, per_query_values
from eval_pipeline.words import DECIMALS, rounded

STEP: Final = 10**-DECIMALS
# Query id → metric → between what it lies.
QueryRanges = Mapping[str, Mapping[str, Range]]


class _Hit(NamedTuple):
    chunk_key: int
    grade: int | None
    is_expected: bool


@dataclass
class _Labels:
    """What is said of one query: grades where it has any, and how many chunks it expects."""

    grades: dict[int, int] = field(default_factory=dict)
    expected: set[int] = field(default_factory=set)
    has_grades: bool = False
    is_refusal: bool = False

    def relevant_grades(self) -> dict[int, int]:
        """Grades by chunk, as the formulas of graded labels take them."""
        if self.has_grades:
            return self.grades
        return {} if self.is_refusal else dict.fromkeys(self.expected, 1)


@dataclass(frozen=True)
class _List:
    """One list of a judged query, as hit@k and mrr see it, and as the formulas of graded labels do."""

    by_expected: Sequence[Place]
    by_grade: Sequence[Place]
    grades: Sequence[int]
    labels: _Labels
    relevant_from: int

    @property
    def n_relevant(self) -> int:
        lowest = self.relevant_from if self.labels.has_grades else 1
        return sum(grade >= lowest for grade in self.labels.relevant_grades().values())

    @property
    def has_gain(self) -> bool:
        return any(grade > 0 for grade in self.labels.relevant_grades().values())


def _query_ranges(store: Store, run: RunRow, values: Mapping[str, Mapping[str, float | None]]) -> QueryRanges:
    """Of the queries with an unjudged hit every metric that has a value and depends on it."""
    metrics = _metrics(store.definitions())
    found: dict[str, dict[str, Range]] = {}
    for query_id, one in _judged_lists(store, run):
        scored = values.get(query_id, {})
        ranges = {key: range_of(one) for key, range_of in metrics.items() if scored.get(key) is not None}
        open_ones = {key: it for key, it in ranges.items() if it and (it.unjudged or it.lower < it.upper)}
        if open_ones:
            found[query_id] = open_ones
    return found


def _run_bounds(store: Store, run: RunRow) -> dict[str, Bounds]:
    """The means of the queries' bounds, rounded away from each other; other queries count with their value."""
    registry = store.definitions()
    formulas = [
        one for one in registry.formulas if one.name in _RANGES and registry.applies_to(one, run.dataset)
    ]
    if not formulas or registry.config.label_coverage(run.dataset) not in (None, JUDGED):
        return {}
    values = per_query_values(store.con, run, formulas)
    ranges = _query_ranges(store, run, values)
    found = {}
    for key in _metrics(registry):
        scored = {query: one[key] for query, one in values.items() if one.get(key) is not None}
        known = {query: ranges[query][key] for query in scored if key in ranges.get(query, {})}
        if known:
            found[key] = _mean_bounds(scored, known)
    return found


def _mean_bounds(scored: Mapping[str, Any], known: Mapping[str, Range]) -> Bounds:
    lower = [known[query].lower if query in known else value for query, value in scored.items()]
    upper = [known[query].upper if query in known else value for query, value in scored.items()]
    return Bounds(
        lower=_outwards(math.fsum(lower) / len(lower), -1),
        upper=_outwards(math.fsum(upper) / len(upper), 1),
        unjudged=sum(one.unjudged for one in known.values()),
    )


def _outwards(value: float, direction: int) -> float:
    near = rounded(value) or 0.0
    return near if (near - value) * direction >= 0 else rounded(near + direction * STEP) or 0.0


# ------------------------------------------------------------------ the metrics, by their definitions

# None where labels that came since leave nothing that the metric could apply to.
RangeOf = Callable[[_List], Range | None]
Parameters = Mapping[str, Any]


def _metrics(registry: Registry) -> dict[str, RangeOf]:
    """Every metric that has bounds, with the parameters that hold; not what somebody's own file has replaced."""
    found: dict[str, RangeOf] = {}
    for name, ranges in _RANGES.items():
        one = registry.definitions.get(name)
        if one is not None and not one.is_own:
            found |= ranges(one.header.parameters)
    return found


def _at_each_k(
    name: str, range_of: Callable[[_List, int], Range | None]
) -> Callable[[Parameters], dict[str, RangeOf]]:
    def at(k: int) -> RangeOf:
        return lambda one: range_of(one, k)

    return lambda parameters: {name.format(k=k): at(k) for k in parameters["ks"]}


def _ndcg(parameters: Parameters) -> dict[str, RangeOf]:
    is_exponential = parameters["gain"] == "exponential"

    def gain(grade: int) -> float:
        return float(2 ** max(grade, 0) - 1) if is_exponential else float(max(grade, 0))

    def at(k: int) -> RangeOf:
        return lambda one: ndcg_range(_with_gains(one, gain), k) if one.has_gain else None

    return {f"ndcg@{k}": at(k) for k in parameters["ks"]}


def _with_gains(one: _List, gain: Callable[[int], float]) -> Graded:
    best = sorted((gain(grade) for grade in one.labels.relevant_grades().values()), reverse=True)
    return Graded(one.by_grade, [gain(grade) for grade in one.grades], best, best[0], one.n_relevant)


def _of_relevant(range_of: Callable[[_List, int], Range]) -> Callable[[_List, int], Range | None]:
    return lambda one, k: range_of(one, k) if one.n_relevant else None


_RANGES: Mapping[str, Callable[[Parameters], dict[str, RangeOf]]] = {
    "metrics.hit_at_k": _at_each_k("hit@{k}", lambda one, k: hit_range(one.by_expected, k)),
    "metrics.reciprocal_rank": lambda parameters: {
        "mrr": lambda one: reciprocal_range(one.by_expected, parameters["cutoff"])
    },
    "metrics.ndcg": _ndcg,
    "metrics.average_precision": _at_each_k(
        "ap@{k}", _of_relevant(lambda one, k: average_precision_range(one.by_grade, k, one.n_relevant))
    ),
    "metrics.r_precision": lambda _: {
        "rprec": lambda one: r_precision_range(one.by_grade, one.n_relevant) if one.n_relevant else None
    },
    "metrics.recall_at_k_chunk": _at_each_k(
        "recall@{k}_chunk", _of_relevant(lambda one, k: recall_range(one.by_grade, k, one.n_relevant))
    ),
    "metrics.precision_at_k_chunk": _at_each_k(
        "precision@{k}_chunk", _of_relevant(lambda one, k: precision_range(one.by_grade, k))
    ),
}


# ------------------------------------------------------------------ the lists, from the store


def _judged_lists(store: Store, run: RunRow) -> Iterator[tuple[str, _List]]:
    """The lists of judged queries that hold something unjudged."""
    config = store.definitions().config
    setting = config.label_coverage(run.dataset)
    if setting not in (None, JUDGED):
        return
    labels = _labels_of(store.con, run)
    repeated = store.definitions().definitions.get("facts.repeated_hits")
    drops = repeated is not None and bool(repeated.header.parameters.get("dedupe_hits"))
    hits: dict[str, list[_Hit]] = {}
    for query_id, *hit in store.con.execute(
        "select i.query_id, h.chunk_key, g.grade, e.chunk_key is not null from raw.hits h "
        "join (from labels.queries where golden_key = $golden) q on q.query_key = h.query_key "
        "join raw.query_ids i on i.query_key = h.query_key "
        "left join (from labels.grades where golden_key = $golden) g "
        "on g.query_key = h.query_key and g.chunk_key = h.chunk_key "
        "left join (from labels.expected_chunks where golden_key = $golden) e "
        "on e.query_key = h.query_key and e.chunk_key = h.chunk_key "
        "left join (from labels.grade_counts where golden_key = $golden) c on c.query_key = h.query_key "
        "where h.run_key = $run and ($judged or c.query_key is not null) order by h.query_key, h.rank",
        {"run": run.run_key, "golden": run.golden_key, "judged": setting == JUDGED},
    ).fetchall():
        hits.setdefault(query_id, []).append(_Hit(*hit))
    for query_id, found in hits.items():
        if any(hit.grade is None and not hit.is_expected for hit in found):
            said = labels.get(query_id, _Labels())
            yield query_id, _list_of(found, said, config.relevant_from(run.dataset), drops_repeated=drops)


def _list_of(hits: Sequence[_Hit], labels: _Labels, relevant_from: int, *, drops_repeated: bool) -> _List:
    by_expected, by_grade, grades = [], [], []
    seen: set[int] = set()
    lowest = relevant_from if labels.has_grades else 1
    known = labels.relevant_grades()
    for hit in hits:
        is_repeated = hit.chunk_key in seen
        if is_repeated and drops_repeated:
            continue
        seen.add(hit.chunk_key)
        grade = 0 if is_repeated else known.get(hit.chunk_key, 0)
        is_unjudged = hit.grade is None and not hit.is_expected and not is_repeated
        grades.append(grade)
        by_expected.append(_place(is_relevant=hit.is_expected, is_unjudged=is_unjudged))
        is_relevant = not is_repeated and known.get(hit.chunk_key, lowest - 1) >= lowest
        by_grade.append(_place(is_relevant=is_relevant, is_unjudged=is_unjudged))
    return _List(by_expected, by_grade, grades, labels, relevant_from)


def _place(*, is_relevant: bool, is_unjudged: bool) -> Place:
    if is_relevant:
        return Place.RELEVANT
    return Place.UNJUDGED if is_unjudged else Place.OTHER


def _labels_of(con: Connection, run: RunRow) -> dict[str, _Labels]:
    found: dict[str, _Labels] = {}
    golden = {"golden": run.golden_key}

    def rows(columns: str, table: str) -> list[Any]:
        return con.execute(
            f"select i.query_id, {columns} from labels.{table} join raw.query_ids i using (query_key) "
            "where golden_key = $golden",
            golden,
        ).fetchall()

    for query_id, chunk_key, grade in rows("chunk_key, grade", "grades"):
        found.setdefault(query_id, _Labels()).grades[chunk_key] = grade
    for query_id, chunk_key in rows("chunk_key", "expected_chunks"):
        found.setdefault(query_id, _Labels()).expected.add(chunk_key)
    for query_id, _ in rows("n_grades", "grade_counts"):
        found.setdefault(query_id, _Labels()).has_grades = True
    for query_id, n_expected in rows("n_expected", "expected_document_counts"):
        found.setdefault(query_id, _Labels()).is_refusal = n_expected == 0
    return found
