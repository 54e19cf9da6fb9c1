"""Field extraction metrics, formula version 1.0.0 (S1.0 to S1.18)."""

# One eval is one document: the fields of its ground truth against the fields that were extracted. Every
# division by zero yields 0 (S1.14). Recall follows the formula, to which only omissions are missed;
# `recall_strict` beside it also counts wrong types and wrong values (A1.1).

from __future__ import annotations

import math
import warnings
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypedDict, get_args

from eval_pipeline.metrics.errors import (
    ImpossibleCounts,
    InvalidField,
    UnexpectedEvalCount,
    UnknownErrorType,
    UnknownReading,
    UnusableMetrics,
)
from eval_pipeline.metrics.fields import ERROR_TYPES, ErrorType, FieldDiscrepancy, flatten_fields

FalseNegativePolicy: TypeAlias = Literal["code", "table"]

EXTRACTION_FORMULA_VERSION: Final = "1.0.0"
MACRO_F1_TARGET: Final = 0.90

Discrepancy: TypeAlias = FieldDiscrepancy | Mapping[str, Any]


class ConfusionCounts(NamedTuple):
    """Correct, wrongly extracted and missed fields."""

    true_positives: int
    false_positives: int
    false_negatives: int


class Rates(TypedDict):
    precision: float
    recall: float
    f1: float


class StrictRates(TypedDict):
    """Rates by the strict reading; None when an eval does not say how many fields it should have."""

    precision: float
    recall: float | None
    f1: float | None


class EvalMetrics(TypedDict):
    """The metrics of one eval: the eight keys of the guide, and `recall_strict` and `f1_strict` beside them."""

    precision: float
    recall: float
    f1: float
    recall_strict: float
    f1_strict: float
    true_positives: int
    false_positives: int
    false_negatives: int
    total_gt_fields: int
    correct_fields: int


class AggregateMetrics(TypedDict):
    """The metrics of many evals: macro is the mean over evals, micro pools the counts.

    Beside the guide's keys stand `macro_strict` and `micro_strict`.
    """

    macro: Rates
    micro: Rates
    macro_strict: StrictRates
    micro_strict: StrictRates
    total_true_positives: int
    total_false_positives: int
    total_false_negatives: int
    eval_count: int


class FieldAccuracy(TypedDict):
    """How one field fared: `n` evals have it in their ground truth; accuracy is None without any."""

    accuracy: float | None
    n: int
    errors: dict[ErrorType, int]


def count_by_type(discrepancies: Iterable[Discrepancy]) -> dict[ErrorType, int]:
    """How many discrepancies there are of each of the four types."""
    counts: dict[ErrorType, int] = dict.fromkeys(ERROR_TYPES, 0)
    for index, discrepancy in enumerate(discrepancies):
        counts[_error_type(discrepancy, f"discrepancies[{index}]")] += 1
    return counts


def _member(discrepancy: Discrepancy, name: str) -> Any:
    if isinstance(discrepancy, Mapping):
        return discrepancy.get(name)
    return getattr(discrepancy, name, None)


def _error_type(discrepancy: Discrepancy, place: str) -> ErrorType:
    given = _member(discrepancy, "error_type")
    for known in ERROR_TYPES:
        if given == known:
            return known
    raise UnknownErrorType(
        f"{place} (field {_member(discrepancy, 'field')!r}) has error_type {given!r}; "
        f"allowed are {', '.join(ERROR_TYPES)}; correct the producer or map its types onto these four"
    )


def compute_confusion_counts(
    total_gt_fields: int,
    discrepancies: Iterable[Discrepancy],
    *,
    fn_policy: FalseNegativePolicy = "code",
) -> ConfusionCounts:
    """True positives, false positives and false negatives of one eval.

    Under `fn_policy="code"` only omissions are false negatives, under `"table"` also wrong types and wrong
    values (A1.1). Every discrepancy counts, so there must be at most one per field (A1.6), as
    `find_discrepancies` returns them.
    """
    if fn_policy not in get_args(FalseNegativePolicy):
        raise UnknownReading(f'fn_policy is {fn_policy!r}; allowed are "code" and "table"')
    _check_count("total_gt_fields", total_gt_fields)
    counts = count_by_type(discrepancies)
    misread = counts["format_error"] + counts["wrong_value"]
    true_positives = total_gt_fields - counts["omission"] - misread
    if true_positives < 0:
        raise ImpossibleCounts(
            f"{counts['omission']} omissions, {counts['format_error']} format errors and "
            f"{counts['wrong_value']} wrong values do not fit into total_gt_fields={total_gt_fields}; "
            "allowed is at most one discrepancy per ground-truth field; check the total, and look for a "
            "field that is listed twice"
        )
    false_negatives = counts["omission"] + (misread if fn_policy == "table" else 0)
    return ConfusionCounts(true_positives, counts["hallucination"] + misread, false_negatives)


def _check_count(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ImpossibleCounts(f"{name} is {value!r}; allowed is a whole number from 0 upwards")


def compute_metrics(
    total_gt_fields: int,
    discrepancies: Iterable[Discrepancy],
    *,
    fn_policy: FalseNegativePolicy = "code",
) -> EvalMetrics:
    """Precision, recall and F1 of one eval, and the counts: the guide's eight keys.

    Beside them stand `recall_strict` and `f1_strict` (A1.1).
    """
    counts = compute_confusion_counts(total_gt_fields, discrepancies, fn_policy=fn_policy)
    rates = _rates(counts)
    recall_strict = _ratio(counts.true_positives, total_gt_fields)
    return {
        "precision": rates["precision"],
        "recall": rates["recall"],
        "f1": rates["f1"],
        "recall_strict": recall_strict,
        "f1_strict": _f1(rates["precision"], recall_strict),
        "true_positives": counts.true_positives,
        "false_positives": counts.false_positives,
        "false_negatives": counts.false_negatives,
        "total_gt_fields": total_gt_fields,
        "correct_fields": counts.true_positives,
    }


def is_data_error(metrics: EvalMetrics) -> bool:
    """Whether the eval expects no field at all, which no ground truth should (A1.7)."""
    return metrics["total_gt_fields"] == 0


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _f1(precision: float, recall: float) -> float:
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def _rates(counts: ConfusionCounts) -> Rates:
    precision = _ratio(counts.true_positives, counts.true_positives + counts.false_positives)
    recall = _ratio(counts.true_positives, counts.true_positives + counts.false_negatives)
    return {"precision": precision, "recall": recall, "f1": _f1(precision, recall)}


@dataclass(frozen=True, slots=True)
class _Eval:
    """One eval as an aggregate needs it."""

    rates: Rates
    counts: ConfusionCounts
    total_gt_fields: int | None


def compute_aggregate_metrics(
    eval_results: Iterable[Mapping[str, Any]], *, expected_eval_count: int | None = None
) -> AggregateMetrics:
    """Macro and micro averages over eval results: mappings whose `metrics` are those of `compute_metrics`.

    The mean divides by the evals that are there; `expected_eval_count` warns when some are not (A1.3).
    Without any eval every number is 0 (A1.4). An eval that failed to run has no metrics and must be left
    out (A1.10). Beside the guide's keys stand `macro_strict` and `micro_strict`; these rates are None when an eval
    lacks `total_gt_fields`.
    """
    evals = [_read_eval(result, f"eval_results[{index}]") for index, result in enumerate(eval_results)]
    if expected_eval_count is not None and len(evals) != expected_eval_count:
        warnings.warn(
            f"{expected_eval_count} evals were expected, {len(evals)} are averaged; look for failed cases",
            UnexpectedEvalCount,
            stacklevel=2,
        )
    pooled = ConfusionCounts(
        sum(one.counts.true_positives for one in evals),
        sum(one.counts.false_positives for one in evals),
        sum(one.counts.false_negatives for one in evals),
    )
    micro = _rates(pooled)
    return {
        "macro": _mean_rates([one.rates for one in evals]),
        "micro": micro,
        "macro_strict": _mean_strict_rates(evals),
        "micro_strict": _strict_rates(micro, pooled.true_positives, _sum_if_known(evals)),
        "total_true_positives": pooled.true_positives,
        "total_false_positives": pooled.false_positives,
        "total_false_negatives": pooled.false_negatives,
        "eval_count": len(evals),
    }


def is_target_met(aggregate: AggregateMetrics, *, target: float = MACRO_F1_TARGET) -> bool:
    """Whether macro-F1, unrounded, reaches the target (S1.17, A1.9)."""
    return aggregate["eval_count"] > 0 and aggregate["macro"]["f1"] >= target


def _read_eval(result: Mapping[str, Any], place: str) -> _Eval:
    metrics = result.get("metrics") if isinstance(result, Mapping) else None
    if not isinstance(metrics, Mapping):
        raise UnusableMetrics(
            f"{place} has no metrics; allowed is a mapping whose key 'metrics' holds what compute_metrics "
            "returns; leave evals that failed to run out"
        )
    rates: Rates = {
        "precision": _read_rate(metrics, "precision", place),
        "recall": _read_rate(metrics, "recall", place),
        "f1": _read_rate(metrics, "f1", place),
    }
    counts = ConfusionCounts(
        _read_count(metrics, "true_positives", place),
        _read_count(metrics, "false_positives", place),
        _read_count(metrics, "false_negatives", place),
    )
    total = metrics.get("total_gt_fields")
    if total is None:
        return _Eval(rates, counts, None)
    _check_count(f"{place} total_gt_fields", total)
    if counts.true_positives + counts.false_negatives > total:
        raise ImpossibleCounts(
            f"{place} has {counts.true_positives} true positives and {counts.false_negatives} false "
            f"negatives, but total_gt_fields={total}; allowed is a sum up to the total; compute its metrics "
            "anew"
        )
    return _Eval(rates, counts, total)


def _read_rate(metrics: Mapping[str, Any], name: str, place: str) -> float:
    value: object = metrics.get(name)
    # NaN is not between anything, so it is refused too.
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise UnusableMetrics(
            f"{place} has {name}={value!r}; allowed is a number from 0 to 1, as compute_metrics returns it"
        )
    return float(value)


def _read_count(metrics: Mapping[str, Any], name: str, place: str) -> int:
    if name not in metrics:
        raise UnusableMetrics(f"{place} has no {name}; pass the metrics that compute_metrics returns")
    count = metrics[name]
    _check_count(f"{place} {name}", count)
    return int(count)


def _strict_rates(rates: Rates, true_positives: int, total_gt_fields: int | None) -> StrictRates:
    if total_gt_fields is None:
        return {"precision": rates["precision"], "recall": None, "f1": None}
    recall = _ratio(true_positives, total_gt_fields)
    return {"precision": rates["precision"], "recall": recall, "f1": _f1(rates["precision"], recall)}


def _mean(values: Sequence[float]) -> float:
    # fsum is exact before its one rounding, so the order of the evals cannot show.
    return math.fsum(values) / len(values) if values else 0.0


def _mean_rates(rates: Sequence[Rates]) -> Rates:
    return {
        "precision": _mean([one["precision"] for one in rates]),
        "recall": _mean([one["recall"] for one in rates]),
        "f1": _mean([one["f1"] for one in rates]),
    }


def _mean_strict_rates(evals: Sequence[_Eval]) -> StrictRates:
    strict = [_strict_rates(one.rates, one.counts.true_positives, one.total_gt_fields) for one in evals]
    return {
        "precision": _mean([one["precision"] for one in strict]),
        "recall": _mean_if_known([one["recall"] for one in strict]),
        "f1": _mean_if_known([one["f1"] for one in strict]),
    }


def _mean_if_known(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return _mean(known) if len(known) == len(values) else None


def _sum_if_known(evals: Sequence[_Eval]) -> int | None:
    known = [one.total_gt_fields for one in evals if one.total_gt_fields is not None]
    return sum(known) if len(known) == len(evals) else None


def compute_field_accuracy(
    evals: Iterable[tuple[Mapping[str, Any] | None, Iterable[Discrepancy]]],
) -> dict[str, FieldAccuracy]:
    """Per field, sorted by name, from one (ground truth, discrepancies) pair an eval (S1.13).

    Accuracy is the share of evals with the field in their ground truth in which no discrepancy names it.
    """
    present: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    errors: dict[str, dict[ErrorType, int]] = defaultdict(lambda: dict.fromkeys(ERROR_TYPES, 0))
    for index, (ground_truth, discrepancies) in enumerate(evals):
        fields = flatten_fields(ground_truth, document_name=f"evals[{index}] ground truth").keys()
        named = [_named_error(one, fields, f"evals[{index}]") for one in discrepancies]
        present.update(fields)
        wrong.update({field for field, error_type in named if error_type != "hallucination"})
        for field, error_type in named:
            errors[field][error_type] += 1
    return {
        field: {
            "accuracy": (present[field] - wrong[field]) / present[field] if present[field] else None,
            "n": present[field],
            "errors": errors[field],
        }
        for field in sorted(present.keys() | errors.keys())
    }


def _named_error(discrepancy: Discrepancy, fields: Collection[str], place: str) -> tuple[str, ErrorType]:
    field, error_type = _member(discrepancy, "field"), _error_type(discrepancy, place)
    if not isinstance(field, str):
        raise InvalidField(
            f"{place} has a discrepancy with field {field!r}; allowed is the dotted path as a text"
        )
    if (error_type == "hallucination") == (field in fields):
        raise InvalidField(
            f"{place} has a discrepancy of type {error_type} on field {field!r}, which its ground truth "
            f"{'has' if field in fields else 'lacks'}; a hallucination is a field the ground truth lacks, "
            "every other type one it has; check the field's path"
        )
    return field, error_type
