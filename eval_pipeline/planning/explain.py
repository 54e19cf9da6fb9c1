"""Why a number moved: split exactly into system, formula, labels and data."""

# Two points are compared, each a run at a time, with the value that stood there. Between them the system, the formula
# and the labels may differ. The metric is computed from the rows as they are stored now with each of them as it was at
# the first point or as it is at the second: up to eight worlds. A term is what a factor changes, as the mean over the
# orders in which the three could have been changed, so that it does not depend on which point is called the first.
#
#     scorer       in place of system, if another judge or evaluator gave the scores of the second run: the old one did
#                  not score its answers, so that the two cannot be separated
#     data         each point's value, less what its meaning and labels give for the rows stored now
#     interaction  0; the whole movement where no order of the changes has values all along

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from msgspec.structs import replace

from eval_pipeline.comparing.pair_rows import find_compared_run
from eval_pipeline.computing.history import Stored, parse_point, stood_at
from eval_pipeline.computing.judges import asks_of, differing_asks
from eval_pipeline.computing.scope import Scope, visible_catalogue
from eval_pipeline.computing.scratch import Outcome, chain_of, compute_under
from eval_pipeline.errors import RefusedError, UsageError
from eval_pipeline.formulas.catalogue import find_definition
from eval_pipeline.formulas.text_columns import read_here
from eval_pipeline.planning.reports import Contributor, ExplainedPoint, ExplainReport
from eval_pipeline.showing.plausibility import hidden_metrics
from eval_pipeline.stats.shapley import Step, World, mean_step, steps_of
from eval_pipeline.store.frozen import emptied_places
from eval_pipeline.store.open import Connection
from eval_pipeline.store.project import Project, Store
from eval_pipeline.store.runs import RunRow, find_run

FACTORS = ("system", "formula", "labels")
TERMS = ("system", "scorer", "formula", "labels", "data", "interaction")
SCORER = {"system": "scorer"}
CONTRIBUTORS = 10


@dataclass(frozen=True)
class _End:
    """One of the two points."""

    run: RunRow
    dataset_key: int
    stored: Stored
    value: float


@dataclass(frozen=True)
class _Worlds:
    """The metric from today's rows, by which factors are as they are at the second point."""

    outcomes: Mapping[World, Outcome]
    steps: Mapping[str, Sequence[Step]]
    n_orders: int

    @property
    def first(self) -> Outcome:
        return self.outcomes[frozenset()]

    @property
    def second(self) -> Outcome:
        return self.outcomes[frozenset(FACTORS)]


def explain_movement(
    project: Project,
    metric: str,
    runs: tuple[str, str],
    *,
    as_of: tuple[str | None, str | None] = (None, None),
) -> ExplainReport:
    """Why the metric moved between the two runs, or the two points of one."""
    registry = project.definitions()
    definition = find_definition(registry, metric)
    key = metric if metric in definition.keys else next(iter(definition.keys))
    with project.read() as store:
        first = _end(store.con, key, runs[0], as_of[0])
        second = _end(store.con, key, runs[1], as_of[1])
        _refuse_hidden(store, key, (first, second))
        emptied = _emptied(store.con, first, second)
        with visible_catalogue(store.con, registry.helpers.values(), registry.config) as catalogue:
            _refuse_forgotten(store, catalogue, key, (first, second), emptied)
            worlds = _worlds(store, catalogue, key, first, second)
        names = dict(
            store.con.execute(f'select query_key, query_id from "{catalogue}".raw.query_ids').fetchall()
        )
        judges = [find_compared_run(store.con, run_id).judges for run_id in runs]
    terms = _terms(first, second, worlds)
    contributors, counts = _contributors(worlds, names, terms)
    values: dict[str, Any] = dict(terms)
    if asks_of(key, differing_asks(*judges)):
        values |= {"system": None, "scorer": terms["system"]}
        counts = {SCORER.get(term, term): n for term, n in counts.items()}
        contributors = [replace(one, term=SCORER.get(one.term, one.term)) for one in contributors]
    return ExplainReport(
        format=1,
        metric=key,
        run_a=runs[0],
        run_b=runs[1],
        total=second.value - first.value,
        **values,
        a=_point(first, as_of[0]),
        b=_point(second, as_of[1]),
        contributors=contributors,
        n_contributors=counts,
    )


def _point(end: _End, as_of: str | None) -> ExplainedPoint:
    return ExplainedPoint(as_of=as_of, value=end.value, n=end.stored.n, fingerprint=end.stored.fingerprint)


def _end(con: Connection, key: str, run_id: str, as_of: str | None) -> _End:
    run = find_run(con, run_id)
    stored = stood_at(con, run, parse_point(as_of)).get(("", ""), {}).get(key)
    when = f" as of {as_of}" if as_of else ""
    if stored is None or stored.total is None or not stored.n:
        raise UsageError(
            f"{key} has no value for {run_id}{when}: it was not computed yet (`eval-pipeline run {run_id}`), or no "
            "query of the run is one it applies to"
        )
    dataset_key = con.execute("select dataset_key from raw.runs where run_key = ?", [run.run_key]).fetchall()[
        0
    ][0]
    return _End(run, dataset_key, stored, stored.total / stored.n)


def _refuse_hidden(store: Store, key: str, ends: Sequence[_End]) -> None:
    """A movement from or to zeros that say nothing explains nothing."""
    hidden = hidden_metrics(store, [end.run.run_key for end in ends])
    for end in ends:
        if key in hidden.get(end.run.run_key, ()):
            raise RefusedError(
                f"{key} of {end.run.run_id} is not shown: {hidden[end.run.run_key][key]}; "
                f"`eval-pipeline show {end.run.run_id}` says what to do"
            )


def _emptied(con: Connection, first: _End, second: _End) -> dict[str, frozenset[str]]:
    """Run → the places behind it whose texts were forgotten."""
    golden_keys = [end.stored.golden_key for end in (first, second)]
    return {
        end.run.run_id: emptied_places(con, end.run.run_key, golden_keys=golden_keys)
        for end in (first, second)
    }


def _refuse_forgotten(
    store: Store, catalogue: str, key: str, ends: Sequence[_End], emptied: Mapping[str, frozenset[str]]
) -> None:
    """What was computed from texts cannot be computed again without them."""
    if not any(emptied.values()):
        return
    chains = [chain_of(store, catalogue, end.stored.source, end.stored.fingerprint) or () for end in ends]
    read = {place for chain in chains for definition, _ in chain for place in read_here(definition)}
    for run_id, places in emptied.items():
        if read & places:
            raise RefusedError(
                f"{key} of {run_id} is frozen: it was computed from texts that were forgotten "
                f"({', '.join(sorted(read & places))}), and to split a movement it would have to be computed again. "
                f"The value itself stays: `eval-pipeline show {run_id}`"
            )


def _worlds(store: Store, catalogue: str, key: str, first: _End, second: _End) -> _Worlds:
    known: dict[tuple[str, int, int], Outcome] = {}

    def world(meaning: _End, labels: _End, rows: _End) -> Outcome:
        # Labels belong to a dataset: another dataset's run keeps its own.
        golden = labels if labels.dataset_key == rows.dataset_key else rows
        place = (meaning.stored.fingerprint, golden.stored.golden_key, rows.run.run_key)
        if place not in known:
            scope = Scope(rows.dataset_key, golden.stored.golden_key, [rows.run.run_key])
            outcome = compute_under(
                store,
                catalogue,
                formula=meaning.stored.source,
                fingerprint=meaning.stored.fingerprint,
                key=key,
                scope=scope,
            )
            if outcome is None:
                raise UsageError(
                    f"{meaning.stored.source} {meaning.stored.fingerprint} cannot be computed any more: its text or "
                    "that of something it read is not in this store"
                )
            known[place] = outcome
        return known[place]

    outcomes = {
        changed: world(
            *(second if factor in changed else first for factor in ("formula", "labels", "system"))
        )
        for length in range(len(FACTORS) + 1)
        for changed in map(frozenset, combinations(FACTORS, length))
    }
    steps, n_orders = steps_of(FACTORS, {changed: outcome.mean for changed, outcome in outcomes.items()})
    return _Worlds(outcomes, steps, n_orders)


def _terms(first: _End, second: _End, worlds: _Worlds) -> dict[str, float]:
    total = second.value - first.value
    start, end = worlds.first.mean, worlds.second.mean
    if start is None or end is None or not worlds.n_orders:
        # On every way the metric applies to no query at some point: nothing can be held fixed.
        return {**dict.fromkeys(TERMS, 0.0), "interaction": total}
    means = {changed: outcome.mean or 0.0 for changed, outcome in worlds.outcomes.items()}
    return {
        **{factor: mean_step(worlds.steps[factor], worlds.n_orders, means) for factor in FACTORS},
        "scorer": 0.0,
        "data": (start - first.value) + (second.value - end),
        "interaction": 0.0,
    }


def _contributors(
    worlds: _Worlds, names: Mapping[int, str], terms: Mapping[str, float]
) -> tuple[list[Contributor], dict[str, int]]:
    """Per term the queries that move it most, and how many do: a query's share of each mean, after less before.

    Of equal shares those come first that go where the term goes.
    """
    shown: list[Contributor] = []
    counts: dict[str, int] = {}
    for term in FACTORS:
        moved = {names[query]: change for query, change in _changes(worlds, term).items() if change}
        ordered = sorted(
            moved, key=lambda name: (-round(abs(moved[name]), 12), moved[name] * terms[term] < 0, name)
        )
        shown += [
            Contributor(query_id=name, term=term, change=moved[name]) for name in ordered[:CONTRIBUTORS]
        ]
        counts[term] = len(moved)
    return shown, counts


def _changes(worlds: _Worlds, term: str) -> dict[int, float]:
    """Query → by how much its share of the mean changes; of those alone that differ anywhere on the way."""
    steps = worlds.steps[term]
    passed = {world: worlds.outcomes[world] for step in steps for world in (step.before, step.after)}
    found = {}
    for query in {query for outcome in passed.values() for query in outcome.values}:
        shares = {world: _share(outcome, query) for world, outcome in passed.items()}
        if len(set(shares.values())) > 1:
            found[query] = mean_step(steps, worlds.n_orders, shares)
    return found


def _share(outcome: Outcome, query: int) -> float:
    return outcome.values.get(query, 0.0) / len(outcome.values) if outcome.values else 0.0
