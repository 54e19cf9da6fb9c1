"""What a comparison says about one query: kinds, ranks, regressions."""

# Pure values, no store.

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from eval_pipeline.comparing.documents import Counts, QueryVerdict
from eval_pipeline.errors import InvalidConfig
from eval_pipeline.words import rounded

KINDS: Final = ("win", "loss", "draw", "rank_up", "rank_down", "not_applicable", "not_comparable")

CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "rank_change": ("separate", "win_loss", "draw"),
    "regression_kind": ("flag", "exclusive"),
    "overlap_basis": ("min", "expected", "hit", "iou"),
    "delta_scope": ("own", "common"),
}


@dataclass(frozen=True, kw_only=True)
class ComparisonOptions:
    """How the open questions of a comparison are read (A3.12 to A3.18)."""

    compare_k: int = 10
    rank_change: str = "separate"
    regression_kind: str = "flag"
    overlap_basis: str = "min"
    overlap_threshold: float = 0.5
    delta_scope: str = "own"

    def __post_init__(self) -> None:
        for name, allowed in CHOICES.items():
            if getattr(self, name) not in allowed:
                raise InvalidConfig(f"{name} is {getattr(self, name)!r}; allowed: {', '.join(allowed)}")
        if self.compare_k < 1:
            raise InvalidConfig(f"compare_k is {self.compare_k}; allowed is a rank, 1 or more")
        if not 0 < self.overlap_threshold <= 1:
            raise InvalidConfig(
                f"overlap_threshold is {self.overlap_threshold}; allowed is a share above 0, up to 1"
            )


class Cutoffs(NamedTuple):
    """The last ranks that hit@k and the reciprocal rank look at; None: every rank."""

    ks: Sequence[int]
    reciprocal_rank: int | None


class QueryFacts(NamedTuple):
    """One query that both runs answered. Ranks are those of the first expected chunk, None when there is none."""

    query_id: str
    is_expecting: bool
    is_comparable: bool
    rank_a: int | None
    rank_b: int | None
    regressed_chunk_ids: Sequence[str] = ()
    error_a: bool = False
    error_b: bool = False


def judge_queries(
    facts: Iterable[QueryFacts], causes: Sequence[str], options: ComparisonOptions
) -> list[QueryVerdict]:
    """The entries of `per_query`."""
    notes = {
        (error_a, error_b): _note(causes, error_a=error_a, error_b=error_b)
        for error_a in (False, True)
        for error_b in (False, True)
    }
    return [_judge(one, notes[one.error_a, one.error_b], options) for one in facts]


def _note(causes: Sequence[str], *, error_a: bool, error_b: bool) -> str | None:
    errors = [f"error in {name}" for name, failed in (("a", error_a), ("b", error_b)) if failed]
    return "; ".join([*causes, *errors]) or None


def _judge(facts: QueryFacts, note: str | None, options: ComparisonOptions) -> QueryVerdict:
    is_judged = facts.is_expecting and facts.is_comparable
    rank_a = _within(facts.rank_a, options.compare_k) if is_judged else None
    rank_b = _within(facts.rank_b, options.compare_k) if is_judged else None
    regressed = list(facts.regressed_chunk_ids) if is_judged else []
    return QueryVerdict(
        query_id=facts.query_id,
        kind=_kind_of(facts, rank_a, rank_b, regressed=regressed, options=options),
        regression=bool(regressed),
        regressed_chunk_ids=regressed,
        a_hit_rank=rank_a,
        b_hit_rank=rank_b,
        note=note,
    )


def _within(rank: int | None, cutoff: int | None) -> int | None:
    return rank if rank is not None and (cutoff is None or rank <= cutoff) else None


def _kind_of(
    facts: QueryFacts,
    rank_a: int | None,
    rank_b: int | None,
    *,
    regressed: Sequence[str],
    options: ComparisonOptions,
) -> str:
    if not facts.is_expecting:
        return "not_applicable"
    if not facts.is_comparable:
        return "not_comparable"
    if regressed and options.regression_kind == "exclusive":
        return "regression"
    if rank_a == rank_b:
        return "draw"
    if rank_a is None:
        return "win"
    if rank_b is None:
        return "loss"
    if options.rank_change == "draw":
        return "draw"
    better, worse = ("win", "loss") if options.rank_change == "win_loss" else ("rank_up", "rank_down")
    return better if rank_b < rank_a else worse


def count_kinds(per_query: Iterable[QueryVerdict]) -> Counts:
    """How many queries there are of each kind, and how many regressions; these may overlap with any kind."""
    counts = dict.fromkeys((*KINDS, "regressions"), 0)
    for entry in per_query:
        # A regression that is a kind of its own is counted as a regression only.
        if entry.kind in counts:
            counts[entry.kind] += 1
        counts["regressions"] += entry.regression
    return Counts(**counts)


def rank_summary(ranks: Sequence[int | None], cutoffs: Cutoffs) -> dict[str, float | None]:
    """hit@k and MRR of these ranks, rounded."""
    return {metric: _mean_of(values) for metric, values in _rank_values(ranks, cutoffs).items()}


def _rank_values(ranks: Sequence[int | None], cutoffs: Cutoffs) -> dict[str, list[float]]:
    """hit@k and reciprocal rank of each of these ranks."""
    found = {f"hit@{k}": [float(_within(rank, k) is not None) for rank in ranks] for k in cutoffs.ks}
    cut = [_within(rank, cutoffs.reciprocal_rank) for rank in ranks]
    found["mrr"] = [0.0 if rank is None else 1 / rank for rank in cut]
    return found


def _mean_of(values: Sequence[float]) -> float | None:
    """The rounded mean; None over nothing."""
    return rounded(math.fsum(values) / len(values)) if values else None


def deltas_of(old: Mapping[str, float | None], new: Mapping[str, float | None]) -> dict[str, float | None]:
    """Rounded b − rounded a, rounded; None where either is undefined."""
    deltas: dict[str, float | None] = {}
    for key, before in old.items():
        after = new[key]
        deltas[key] = None if before is None or after is None else rounded(after - before)
    return deltas
