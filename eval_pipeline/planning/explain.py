"""Why a number moved: split exactly into system, formula, labels, data and interaction."""

# Two points are compared, each a run at a time, with the value that stood there. Between them up to four things differ.
# One at a time is changed and the metric computed from the rows as they are stored now:
#
#     data         each point's value, less what its meaning and labels give for the rows stored now
#     system       the second run less the first, both under the first point's meaning and labels
#     formula      the second run under its own meaning, less under the first point's
#     labels       the second run under its own labels, less under the first point's
#     interaction  the rest, so that the terms add up to the whole movement

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eval_pipeline.computing.history import Stored, parse_point, stood_at
from eval_pipeline.computing.scope import Scope, visible_catalogue
from eval_pipeline.computing.scratch import Outcome, chain_of, compute_under
from eval_pipeline.errors import RefusedError, UsageError
from eval_pipeline.formulas.catalogue import find_definition
from eval_pipeline.formulas.registry import Registry
from eval_pipeline.formulas.text_columns import read_here
from eval_pipeline.settings import Settings
from eval_pipeline.store.frozen import emptied_places
from eval_pipeline.store.lock import Notify
from eval_pipeline.store.open import Connection, open_reader
from eval_pipeline.store.runs import RunRow, find_run

TERMS = ("system", "formula", "labels", "data", "interaction")
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
    """The metric from today's rows: the letters say whose meaning, labels and rows (1 first point, 2 second)."""

    w111: Outcome
    w112: Outcome
    w122: Outcome
    w212: Outcome
    w222: Outcome


def explain_movement(
    settings: Settings,
    registry: Registry,
    metric: str,
    runs: tuple[str, str],
    *,
    as_of: tuple[str | None, str | None] = (None, None),
    notify: Notify | None = None,
) -> dict[str, Any]:
    """The document of `explain METRIC A B --json`."""
    definition = find_definition(registry, metric)
    key = metric if metric in definition.keys else next(iter(definition.keys))
    with open_reader(settings.db, notify=notify, guarded=True) as con:
        first = _end(con, key, runs[0], as_of[0])
        second = _end(con, key, runs[1], as_of[1])
        emptied = _emptied(con, first, second)
        with visible_catalogue(con, registry.helpers.values()) as store:
            _refuse_forgotten(con, store, key, (first, second), emptied)
            worlds = _worlds(con, store, key, first, second)
        names = dict(con.execute(f'select query_key, query_id from "{store}".raw.query_ids').fetchall())
    terms = _terms(first, second, worlds)
    return {
        "format": 1,
        "metric": key,
        "run_a": runs[0],
        "run_b": runs[1],
        "total": second.value - first.value,
        **terms,
        "a": _point(first, as_of[0]),
        "b": _point(second, as_of[1]),
        **_contributors(worlds, names, terms),
    }


def _point(end: _End, as_of: str | None) -> dict[str, Any]:
    return {
        "as_of": as_of,
        "value": end.value,
        "n": end.stored.n,
        "fingerprint": end.stored.fingerprint,
    }


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


def _emptied(con: Connection, first: _End, second: _End) -> dict[str, frozenset[str]]:
    """Run → the places behind it whose texts were forgotten."""
    golden_keys = [end.stored.golden_key for end in (first, second)]
    return {
        end.run.run_id: emptied_places(con, end.run.run_key, golden_keys=golden_keys)
        for end in (first, second)
    }


def _refuse_forgotten(
    con: Connection, store: str, key: str, ends: Sequence[_End], emptied: Mapping[str, frozenset[str]]
) -> None:
    """What was computed from texts cannot be computed again without them."""
    if not any(emptied.values()):
        return
    chains = [chain_of(con, store, end.stored.source, end.stored.fingerprint) or () for end in ends]
    read = {place for chain in chains for definition, _ in chain for place in read_here(definition)}
    for run_id, places in emptied.items():
        if read & places:
            raise RefusedError(
                f"{key} of {run_id} is frozen: it was computed from texts that were forgotten "
                f"({', '.join(sorted(read & places))}), and to split a movement it would have to be computed again. "
                f"The value itself stays: `eval-pipeline show {run_id}`"
            )


def _worlds(con: Connection, store: str, key: str, first: _End, second: _End) -> _Worlds:
    known: dict[tuple[str, int, int], Outcome] = {}

    def world(meaning: _End, labels: _End, rows: _End) -> Outcome:
        # Labels belong to a dataset: another dataset's run keeps its own.
        golden = labels if labels.dataset_key == rows.dataset_key else rows
        place = (meaning.stored.fingerprint, golden.stored.golden_key, rows.run.run_key)
        if place not in known:
            scope = Scope(rows.dataset_key, golden.stored.golden_key, [rows.run.run_key])
            outcome = compute_under(
                con,
                store,
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

    return _Worlds(
        w111=world(first, first, first),
        w112=world(first, first, second),
        w122=world(first, second, second),
        w212=world(second, first, second),
        w222=world(second, second, second),
    )


def _terms(first: _End, second: _End, worlds: _Worlds) -> dict[str, float]:
    total = second.value - first.value
    m111, m112, m122 = worlds.w111.mean, worlds.w112.mean, worlds.w122.mean
    m212, m222 = worlds.w212.mean, worlds.w222.mean
    if m111 is None or m112 is None or m122 is None or m212 is None or m222 is None:
        # Under one of the combinations the metric applies to no query: nothing can be held fixed.
        return {**dict.fromkeys(TERMS, 0.0), "interaction": total}
    data = (m111 - first.value) + (second.value - m222)
    system = m112 - m111
    formula = m222 - m122
    labels = m222 - m212
    rest = total - (data + system + formula + labels)
    return {
        "system": system,
        "formula": formula,
        "labels": labels,
        "data": data,
        "interaction": 0.0 if abs(rest) < 1e-12 else rest,
    }


def _contributors(worlds: _Worlds, names: Mapping[int, str], terms: Mapping[str, float]) -> dict[str, Any]:
    """Per term the queries that move it most, and how many do: a query's share of each mean, after less before.

    Of equal shares those come first that go where the term goes.
    """
    steps = {
        "system": (worlds.w112, worlds.w111),
        "formula": (worlds.w222, worlds.w122),
        "labels": (worlds.w222, worlds.w212),
    }
    shown: list[dict[str, Any]] = []
    counts: dict[str, int] = {}
    for term, (after, before) in steps.items():
        shares = {
            names[query]: _share(after, query) - _share(before, query)
            for query in {*after.values, *before.values}
        }
        moved = {query_id: change for query_id, change in shares.items() if change}
        ordered = sorted(
            moved, key=lambda name: (-round(abs(moved[name]), 12), moved[name] * terms[term] < 0, name)
        )
        shown += [{"query_id": name, "term": term, "change": moved[name]} for name in ordered[:CONTRIBUTORS]]
        counts[term] = len(moved)
    return {"contributors": shown, "n_contributors": counts}


def _share(outcome: Outcome, query: int) -> float:
    return outcome.values.get(query, 0.0) / len(outcome.values) if outcome.values else 0.0
