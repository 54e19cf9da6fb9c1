"""From due cells to Dagster runs: contiguous ranges of partitions, each launched once."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import dagster as dg

from eval_pipeline.computing.progress import StaleRun
from eval_pipeline.defs.assets import RESULTS, computed_definitions, key_of
from eval_pipeline.defs.sources import RAW_PARTS
from eval_pipeline.defs.tags import LAUNCH, WHY, _range_tags
from eval_pipeline.formulas.registry import Registry
from eval_pipeline.loading.inbox import digest

MOST_ATTEMPTS = 3
# Milliseconds that a Dagster run, a step of it (one per schema) and one asset × partition cost beside the computation.
RUN_COST = 100
STEP_COST = 100
PARTITION_COST = 3

RAW_NAMES = tuple(".".join(part.key.path) for part in RAW_PARTS)


@dataclass(frozen=True)
class Launch:
    """Assets × a range of partitions; `places` are the ends in partition order, `state` names what is due there."""

    assets: frozenset[str]
    places: tuple[int, int]
    first: str
    last: str
    states: tuple[str, ...]
    why: str

    @property
    def n_partitions(self) -> int:
        """How many partitions the range covers."""
        return self.places[1] - self.places[0] + 1

    @property
    def key(self) -> str:
        """The same work has the same key; anything that is due for another reason has another."""
        computed = sorted(self.assets - set(RAW_NAMES))
        what = computed[0] if len(computed) == 1 else f"{len(computed)} tables"
        return f"{what}:{digest([*computed, *self.states])}:{self.first}:{self.last}"

    def selection(self) -> list[dg.AssetKey]:
        """The assets, as Dagster names them."""
        return [key_of(name) for name in sorted(self.assets)]

    def tags(self, reasons: Collection[str] | None) -> dict[str, str]:
        """The tags of the Dagster run."""
        return _range_tags(self.first, self.last, reasons) | {LAUNCH: digest([self.key]), WHY: self.why}


def all_names(registry: Registry) -> frozenset[str]:
    """Every asset that has a partition per run."""
    return frozenset((*RAW_NAMES, *(one.name for one in computed_definitions(registry))))


def wanted_assets(
    due: Mapping[str, StaleRun], names: frozenset[str], shown: Collection[str]
) -> dict[str, frozenset[str]]:
    """What of `names` to compute of each run, with the raw parts of a run that Dagster has not `shown` as it is."""
    return {
        run_id: (run.definitions & names)
        | (frozenset(RAW_NAMES) if run.was_delivered_again or run_id not in shown else frozenset())
        for run_id, run in due.items()
    }


def shown_runs(instance: dg.DagsterInstance) -> set[str]:
    """The runs whose results Dagster has seen."""
    return set(instance.get_materialized_partitions(RESULTS))


def plan_launches(
    wanted: Mapping[str, frozenset[str]],
    order: Sequence[str],
    *,
    states: Mapping[str, str],
    why: Mapping[str, str],
    may_cover_gaps: bool = True,
) -> list[Launch]:
    """Ranges over the registered partitions; where covering a gap is cheaper than a second run, one range covers it.

    Without `may_cover_gaps` only neighbours are joined: what lies between may be stale and was not asked for.
    """
    launches: list[Launch] = []
    for place, run_id in enumerate(order):
        if not wanted.get(run_id):
            continue
        one = Launch(wanted[run_id], (place, place), run_id, run_id, (states[run_id],), why[run_id])
        is_next = bool(launches) and (may_cover_gaps or launches[-1].places[1] + 1 == place)
        joined = _joined(launches[-1], one) if is_next else None
        if joined:
            launches[-1] = joined
        else:
            launches.append(one)
    return launches


def _joined(before: Launch, after: Launch) -> Launch | None:
    """Both as one range, or None where that would plan too many partitions that have nothing to compute."""
    assets = before.assets | after.assets
    covered = (after.places[1] - before.places[0] + 1) * len(assets)
    needed = before.n_partitions * len(before.assets) + after.n_partitions * len(after.assets)
    steps_saved = _n_steps(before.assets) + _n_steps(after.assets) - _n_steps(assets)
    if (covered - needed) * PARTITION_COST > RUN_COST + steps_saved * STEP_COST:
        return None
    return replace(
        before,
        assets=assets,
        places=(before.places[0], after.places[1]),
        last=after.last,
        states=(*before.states, *after.states),
        why=before.why if before.why == after.why else "several reasons",
    )


def _n_steps(assets: Collection[str]) -> int:
    return len({name.split(".", 1)[0] for name in assets})


def _next_attempt(instance: dg.DagsterInstance, key: str) -> int | None:
    """The number of the next attempt at this work; None when it was done, or has failed often enough."""
    done = instance.get_runs_count(_attempts(key, dg.DagsterRunStatus.SUCCESS))
    failed = instance.get_runs_count(
        _attempts(key, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED)
    )
    return None if done or failed >= MOST_ATTEMPTS else failed + 1


def _attempts(key: str, *statuses: dg.DagsterRunStatus) -> dg.RunsFilter:
    return dg.RunsFilter(tags={LAUNCH: digest([key])}, statuses=list(statuses))
