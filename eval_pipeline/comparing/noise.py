"""How far metrics and queries move between identical runs of the recent past."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

from eval_pipeline.comparing.documents import FlakyQuery, IdenticalPairs, NoiseBand
from eval_pipeline.comparing.pair_rows import JUDGE, ComparedRun
from eval_pipeline.computing.derived import rank_rows
from eval_pipeline.computing.judges import Setup, scorers, setups_of_run
from eval_pipeline.formulas.definition import Definition, quoted
from eval_pipeline.showing.plausibility import implausible_runs
from eval_pipeline.stats import RunSpread, noise_band, pairs_needed_for_band, run_spread
from eval_pipeline.store.open import Connection, first_value
from eval_pipeline.words import rounded

NIGHT_ORDER = "(n.effective_night, n.ordered_at, n.run_id)"
CONFIDENCE: Final = 0.95
LOOKED_AT: Final = 60
RunPair = tuple[int, int]


@dataclass(frozen=True)
class RecentRun:
    """A complete run of the same suite and dataset that nothing replaced; `is_last_complete`: it stands for its night.

    `configuration` is its whole configuration as stable text.
    """

    run_key: int
    run_id: str
    night: dt.date
    commit_hash: str | None
    replicate_of: str | None
    is_last_complete: bool
    chunker_version: str | None
    configuration: str
    judges: Mapping[str, Setup] = field(hash=False)


@dataclass(frozen=True)
class StoredValue:
    """A run's aggregate with the definition and labels it was computed with."""

    value: float
    made_with: tuple[str, str]


def recent_runs(
    con: Connection,
    run: ComparedRun,
    *,
    until: Sequence[ComparedRun],
    most: int,
    only_answers: bool = False,
) -> list[RecentRun]:
    """The last runs of the run's suite and dataset, no later than the latest of `until`, oldest first.

    Of what is incomplete or superseded only the runs of `until` are among them, and with `only_answers` of what does
    not stand for its night.
    """
    wanted = "n.is_last_complete" if only_answers else "n.is_complete and n.superseded_by is null"
    asked = [one.run_key for one in until]
    last = first_value(
        con,
        f"select max({NIGHT_ORDER}) from main.run_nights n where n.run_key in (select unnest(?))",
        [asked],
    )
    rows = con.execute(
        "select n.run_key, n.run_id, n.effective_night, r.commit_hash, r.replicate_of, n.is_last_complete, "
        f"r.chunker_version, {', '.join(f'r.{name}' for name in JUDGE)}, r.document "
        "from main.run_nights n join raw.runs r using (run_key) "
        "where n.dataset_key = $dataset and n.suite is not distinct from $suite "
        f"and ({wanted} or list_contains($asked, n.run_key)) "
        f"and {NIGHT_ORDER} <= ($night, $at, $id) order by {NIGHT_ORDER} desc limit $most",
        {
            "dataset": run.dataset_key,
            "suite": run.suite,
            "asked": asked,
            **dict(zip(("night", "at", "id"), last, strict=True)),
            "most": most,
        },
    ).fetchall()
    # Zeros that say nothing would pass for runs that do not move.
    unknown = implausible_runs(con, [row[0] for row in rows]).keys() - asked
    known = scorers(con, [row[0] for row in rows])
    return [
        _recent_run(row[:-5], row[-1], setups_of_run(Setup(*row[-5:-1]), known.get(row[0], {})))
        for row in reversed(rows)
        if row[0] not in unknown
    ]


def _recent_run(columns: Sequence[Any], document: str, judges: Mapping[str, Setup]) -> RecentRun:
    """Return the run with its configuration, its scorers among it, as text that is the same for any order of keys."""
    config = json.loads(document).get("config") or {}
    whole = json.dumps({**config, "judgements": judges}, sort_keys=True)
    return RecentRun(*(*columns, whole, judges))


def _stored_values(
    con: Connection, run_keys: Sequence[int], sources: Mapping[str, str]
) -> dict[tuple[str, int], StoredValue]:
    """(metric, run) → the whole run's value; `sources` names the formula of each metric."""
    made_with = {
        (source, run_key): (fingerprint, labels_hash)
        for source, run_key, fingerprint, labels_hash in con.execute(
            "select source, run_key, fingerprint, labels_hash from ledger.cells "
            "where definition = 'aggregates.run_metrics' and run_key between ? and ? "
            "and run_key in (select unnest(?))",
            [*_bounds(run_keys), list(run_keys)],
        ).fetchall()
    }
    return {
        (metric, run_key): StoredValue(value, made_with[sources[metric], run_key])
        for metric, run_key, value in con.execute(
            "select metric, run_key, value from aggregates.run_metrics where slice = '' "
            "and run_key between ? and ? and run_key in (select unnest(?)) and value is not null",
            [*_bounds(run_keys), list(run_keys)],
        ).fetchall()
        if metric in sources and (sources[metric], run_key) in made_with
    }


def _count_flips(
    con: Connection, pairs: Sequence[tuple[int, int]], *, golden_key: int, k: int
) -> list[tuple[str, int, int]]:
    """(query id, flips, pairs) for every query that was found by one run of an identical pair and not by the other."""
    if not pairs:
        return []
    run_keys = [key for pair in pairs for key in pair]
    rows = con.execute(
        "with ranks as (select run_key, query_key, coalesce(first_rank <= $k, false) as is_found "
        f"from {rank_rows(con)} where run_key between $first and $last "
        "and run_key in (select unnest($run_keys)) and n_expected > 0), "
        "pairs as (select unnest($older) as older, unnest($newer) as newer), "
        "compared as (select x.query_key, count(*) as pairs, "
        "count(*) filter (where x.is_found <> y.is_found) as flips "
        "from pairs join ranks x on x.run_key = pairs.older "
        "join ranks y on y.run_key = pairs.newer and y.query_key = x.query_key group by x.query_key) "
        "select i.query_id, compared.flips, compared.pairs from compared "
        "join labels.queries q on q.golden_key = $golden and q.query_key = compared.query_key "
        "join raw.query_ids i on i.query_key = compared.query_key where compared.flips > 0",
        {
            "k": k,
            "first": min(run_keys),
            "last": max(run_keys),
            "run_keys": run_keys,
            "older": [older for older, _ in pairs],
            "newer": [newer for _, newer in pairs],
            "golden": golden_key,
        },
    ).fetchall()
    return sorted(rows, key=lambda row: (-row[1], row[0]))


def _bounds(run_keys: Sequence[int]) -> tuple[int, int]:
    return min(run_keys), max(run_keys)


@dataclass(frozen=True)
class Noise:
    """Per metric the band that identical runs stay in, and the queries that flip between them.

    `times` is the spread of the logarithm of a run's geometric mean time between runs of one configuration.
    """

    bands: dict[str, NoiseBand | None]
    pairs: IdenticalPairs
    flaky_queries: list[FlakyQuery]
    times: RunSpread | None = None


def find_noise(
    con: Connection,
    a: ComparedRun,
    b: ComparedRun,
    *,
    sources: Mapping[str, str],
    k: int,
    latency: Definition | None = None,
) -> Noise:
    """Look at the last runs of b's suite and dataset, up to the later of the two; the pair itself does not count.

    Repetitions within a night are what this measures, so every complete run that nothing replaced takes part.
    """
    runs = recent_runs(con, b, until=[a, b], most=LOOKED_AT)
    groups = identical_runs(runs)
    pairs = [pair for keys in groups for pair in pairwise(keys) if set(pair) != {a.run_key, b.run_key}]
    values = _stored_values(con, sorted({key for pair in pairs for key in pair}), sources) if pairs else {}
    flips = _count_flips(con, pairs, golden_key=b.golden_key, k=k)
    return Noise(
        bands={metric: _band(_movements(metric, pairs, values)) for metric in sources},
        pairs=IdenticalPairs(n=len(pairs), needed=pairs_needed_for_band(CONFIDENCE)),
        flaky_queries=[
            FlakyQuery(query_id=query_id, flips=flips_of, pairs=n) for query_id, flips_of, n in flips
        ],
        times=_spread_of_times(con, groups, latency, but={a.run_key, b.run_key}) if latency else None,
    )


def _spread_of_times(
    con: Connection, groups: Sequence[Sequence[int]], latency: Definition, *, but: Collection[int]
) -> RunSpread | None:
    """Return the spread between all runs `but` the compared ones, which must not define their own test."""
    key = quoted(latency.headline[0])
    levels = dict(
        con.execute(
            f"select run_key, avg(ln({key})) from metrics.{quoted(latency.short_name)} "
            f"where {key} > 0 and run_key in (select unnest(?)) group by run_key",
            [[run_key for keys in groups for run_key in keys if run_key not in but]],
        ).fetchall()
    )
    return run_spread([[levels[run_key] for run_key in keys if run_key in levels] for keys in groups])


def identical_runs(runs: Sequence[RecentRun]) -> list[list[int]]:
    """The repetitions of each system, oldest first."""
    root = {run.run_id: run.run_id for run in runs}
    first_of: dict[tuple[str, str], str] = {}

    def find(run_id: str) -> str:
        while root[run_id] != run_id:
            run_id = root[run_id]
        return run_id

    for run in runs:
        if run.replicate_of in root:
            root[find(run.run_id)] = find(str(run.replicate_of))
        if run.commit_hash:
            twin = first_of.setdefault((run.commit_hash, run.configuration), run.run_id)
            root[find(run.run_id)] = find(twin)
    members: dict[str, list[int]] = {}
    for run in runs:
        members.setdefault(find(run.run_id), []).append(run.run_key)
    return list(members.values())


def _movements(
    metric: str, pairs: Iterable[RunPair], values: Mapping[tuple[str, int], StoredValue]
) -> list[float]:
    """How far the metric moved in each pair, where both were computed with the same definition and labels."""
    found = []
    for older, newer in pairs:
        before, after = values.get((metric, older)), values.get((metric, newer))
        if before and after and before.made_with == after.made_with:
            found.append(after.value - before.value)
    return found


def _band(movements: Sequence[float]) -> NoiseBand | None:
    band = noise_band(movements, confidence=CONFIDENCE)
    if band is None:
        return None
    return NoiseBand(low=rounded(band.low) or 0.0, high=rounded(band.high) or 0.0, pairs=band.pairs)
