"""Whether labels, archives or earlier runs know a run's ids; else its label metrics say nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from eval_pipeline.formulas.definition import Definition, quoted
from eval_pipeline.formulas.registry import Registry
from eval_pipeline.showing.run_report import Plausibility
from eval_pipeline.showing.undefined import NO_RESULTS, NO_VALUE, NOT_COMPUTED, undefined_of
from eval_pipeline.store.open import Connection
from eval_pipeline.store.project import Project, Store
from eval_pipeline.store.runs import RunRow, query_ids_of
from eval_pipeline.words import count

IMPLAUSIBLE: Final = "implausible"
# Who is asked, and in which groups: neither says anything about what is right.
_BESIDE_LABELS: Final = frozenset({"labels.queries", "labels.query_details", "labels.slices"})
OTHER_CHUNKER: Final = ", by document or path alone: labels name the chunks of another chunker"
_ID_SHOWN: Final = 24
_EXAMPLES: Final = 2
_TOLD_ONE_BY_ONE: Final = 3
_NOTHING_LACKS: Final = (NO_RESULTS, NOT_COMPUTED, NO_VALUE)

# What labels name: chunks, documents, and paths, which answers refer to as well.
_NAMED: Final = """
named_chunks as (
    select chunk_key from labels.expected_chunks where golden_key = $golden
    union select chunk_key from labels.expected_chunk_spans where golden_key = $golden
    union select chunk_key from labels.grades where golden_key = $golden
),
named_documents as (
    select doc_key from labels.expected_documents where golden_key = $golden
    union select doc_key from labels.expected_chunk_spans where golden_key = $golden
    union select doc_key from labels.spans where golden_key = $golden
),
named_paths as (select distinct rel_path from labels.supports where golden_key = $golden)
"""
_IS_NAMED: Final = (
    "(chunk_key in (from named_chunks) or doc_key in (from named_documents) "
    "or coalesce(rel_path in (from named_paths), false))"
)

# The hits of the first rank nearly always decide, and are a fraction of all.
_KNOWN: Final = """
with {named},
archived as (
    select a.chunk_key, a.doc_key from raw.archive_chunks a
    semi join (from ledger.archives_in_force where dataset_key = $dataset) using (archive_key)
)
select distinct run_key from raw.hits
where run_key between $first and $last and run_key in (select unnest($runs)) and ({ranks}) and (
    {is_named} or chunk_key in (select chunk_key from archived) or doc_key in (select doc_key from archived)
)
union
select distinct run_key from raw."references"
where run_key between $first and $last and run_key in (select unnest($runs)) and rel_path in (from named_paths)
"""

_FOLLOWS: Final = """
select exists(
    from raw.hits where run_key = $run and (
        chunk_key in (select chunk_key from raw.hits where run_key in (select unnest($earlier)))
        or doc_key in (select doc_key from raw.hits where run_key in (select unnest($earlier)))
    )
)
"""

_COUNTS: Final = """
with {named}, retrieved as (
    select chunk_key, bool_or({is_named}) as is_named from raw.hits where run_key = $run group by chunk_key
)
select count(*), count(*) filter (where is_named) from retrieved
"""


@dataclass(frozen=True)
class Implausible:
    """Why a run's label metrics are not shown; the sentence gives examples, and what to do about it."""

    why: str
    sentence: str


@dataclass(frozen=True)
class _Run:
    """A run whose ids are held against what is known of its dataset, in run order."""

    run_key: int
    run_id: str
    dataset: str
    dataset_key: int
    golden_key: int
    n_known_queries: int
    is_other_chunker: bool

    @property
    def has_known_queries(self) -> bool:
        return self.n_known_queries > 0


def implausible_runs(con: Connection, run_keys: Collection[int] | None = None) -> dict[int, Implausible]:
    """run_key → why its label metrics say nothing, of these runs (None: of all)."""
    asked = _scored_runs(con, run_keys)
    anchored = _anchored(con, asked)
    suspects = _with_hits(con, [run for run in asked if run.run_key not in anchored])
    datasets = {run.dataset_key for run in suspects if run.has_known_queries}
    found = _unknown_in(con, datasets) if datasets else set()
    return {
        run.run_key: _judged(con, run)
        for run in suspects
        if not run.has_known_queries or run.run_key in found
    }


@dataclass(frozen=True)
class HeldAgainst:
    """A run's ids held against what is known: which metrics are not shown, how many ids labels name, and in words."""

    hidden: Mapping[str, str]
    counts: Plausibility | None = None
    words: str | None = None


def _held_against_labels(store: Store, run_key: int) -> HeldAgainst:
    """Of a run without a golden set there is nothing to say."""
    con = store.con
    for run in _scored_runs(con, [run_key]):
        hidden = hidden_metrics(store, [run_key]).get(run_key, {})
        retrieved, named = _counts(con, run)
        counts = Plausibility(
            retrieved_ids=retrieved,
            named_by_labels=named,
            query_ids=_n_queries(con, run),
            in_golden=run.n_known_queries,
        )
        words = None
        if hidden:
            words = _judged(con, run).sentence
        elif retrieved:
            words = _calmly(con, run, retrieved, named)
        return HeldAgainst(hidden, counts, words)
    return HeldAgainst({})


def ids_in_words(project: Project, run_ids: Collection[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Run → a line about its ids and the labels: of the implausible runs, and of the others."""
    with project.read() as store:
        runs = {run_key: run_id for run_id, run_key in _keys(store.con, run_ids)}
        unknown = implausible_runs(store.con, list(runs))
        told = words_about_ids(store.con, list(runs)) if len(runs) <= _TOLD_ONE_BY_ONE else {}
    odd = {runs[run_key]: one.sentence for run_key, one in unknown.items()}
    return odd, {runs[run_key]: line for run_key, line in told.items() if run_key not in unknown}


def _keys(con: Connection, run_ids: Collection[str]) -> list[tuple[str, int]]:
    return con.execute(
        "select run_id, run_key from raw.runs where run_id in (select unnest(?)) order by run_id",
        [list(run_ids)],
    ).fetchall()


def words_about_ids(con: Connection, run_keys: Collection[int]) -> dict[int, str]:
    """run_key → a line about its ids and the labels, of the runs that have both."""
    scored = _with_hits(con, _scored_runs(con, run_keys))
    unknown = implausible_runs(con, [run.run_key for run in scored])
    return {
        run.run_key: unknown[run.run_key].sentence
        if run.run_key in unknown
        else _calmly(con, run, *_counts(con, run))
        for run in scored
    }


def _calmly(con: Connection, run: _Run, retrieved: int, named: int) -> str:
    ids = count(retrieved, "retrieved id")
    if not _names_anything(con, run.golden_key):
        return f"labels of {run.dataset} name no ids that the {ids} could be held against"
    rest = "" if named else "; an archive or an earlier run knows some of them"
    where = OTHER_CHUNKER if named and run.is_other_chunker else ""
    return f"{named:,} of {ids} {_are(retrieved)} named by a label of {run.dataset}{rest}{where}"


def hidden_metrics(store: Store, run_keys: Collection[int] | None) -> dict[int, dict[str, str]]:
    """run_key → metric → why its stored value is not shown; without the runs whose ids are known."""
    found = implausible_runs(store.con, run_keys)
    hidden = label_metrics(store.definitions()) if found else []
    return {run_key: dict.fromkeys(hidden, one.why) for run_key, one in found.items()}


def shown_per_query(
    store: Store, run: RunRow, formulas: Sequence[Definition]
) -> dict[str, Mapping[str, float | None]]:
    """query id → metric → value, for the scored queries in golden order, as far as they are shown."""
    values = _per_query_values(store.con, run, formulas)
    hidden = dict.fromkeys(hidden_metrics(store, [run.run_key]).get(run.run_key, ()))
    if not hidden:
        return values
    return {
        query_id: {key: None if key in hidden else value for key, value in metrics.items()}
        for query_id, metrics in values.items()
    }


def _per_query_values(
    con: Connection, run: RunRow, formulas: Sequence[Definition]
) -> dict[str, Mapping[str, float | None]]:
    """query id → metric → value, for the scored queries in golden order."""
    scored, _, _ = query_ids_of(con, run)
    found: dict[str, dict[str, float | None]] = {query_id: {} for query_id in scored}
    tables = {
        name
        for (name,) in con.execute(
            "select table_name from duckdb_tables() where schema_name = 'metrics'"
        ).fetchall()
    }
    named = [one for one in formulas if one.is_scored_by_name]
    for one in formulas:
        if one in named:
            continue
        keys = list(one.keys)
        for values in found.values():
            values.update(dict.fromkeys(keys))
        if one.short_name not in tables:
            continue
        listed = ", ".join(f"m.{quoted(key)}" for key in keys)
        for query_id, *numbers in con.execute(
            f"select i.query_id, {listed} from metrics.{quoted(one.short_name)} m "
            "join raw.query_ids i using (query_key) where m.run_key = ?",
            [run.run_key],
        ).fetchall():
            found.setdefault(query_id, {}).update(zip(keys, numbers, strict=True))
    if named and named[0].short_name in tables:
        _add_named_values(con, run, named, found)
    return dict(found)


def _add_named_values(
    con: Connection, run: RunRow, named: Sequence[Definition], found: dict[str, dict[str, float | None]]
) -> None:
    """A query that another has a score of and it has not has none of that name."""
    keys = [key for one in named for key in one.keys]
    rows = con.execute(
        f"select i.query_id, m.metric, m.value from metrics.{quoted(named[0].short_name)} m "
        "join raw.query_ids i using (query_key) where m.run_key = ?",
        [run.run_key],
    ).fetchall()
    of_queries = {metric for _, metric, _ in rows}
    for values in found.values():
        values.update(dict.fromkeys(key for key in keys if key in of_queries))
    for query_id, metric, value in rows:
        found.setdefault(query_id, {})[metric] = value


def why_undefined(
    store: Store, run: RunRow, keys: Sequence[str], hidden: Mapping[str, str]
) -> dict[str, str]:
    """Metric → why it has no value in this run, or why that is not shown, of these, which have none.

    What the golden set or the run lacks is the reason also where ids are known.
    """
    found = undefined_of(store, run, keys)
    return {
        key: hidden[key] if key in hidden and found[key].startswith(_NOTHING_LACKS) else found[key]
        for key in keys
    }


def label_metrics(registry: Registry) -> list[str]:
    """The metrics that hold a run against labels."""
    return [key for one in registry.formulas if _reads_labels(registry, one) for key in one.keys]


def _reads_labels(registry: Registry, one: Definition) -> bool:
    """Whether the definition reads more of a golden set than which queries it asks."""
    return any(
        table.startswith("labels.") and table not in _BESIDE_LABELS for table in registry.inputs_of(one)
    )


def _scored_runs(con: Connection, run_keys: Collection[int] | None) -> list[_Run]:
    """In run order; what has no golden set is held against nothing."""
    rows = con.execute(
        "select r.run_key, r.run_id, d.dataset_id, r.dataset_key, r.golden_key, c.n_results, r.labels_of is not null "
        "from ledger.runs_in_order r join raw.datasets d using (dataset_key) "
        "join ledger.run_counts c using (run_key) "
        "where r.golden_key > 0 and ($runs is null or list_contains($runs, r.run_key)) "
        "order by r.ordered_at, r.run_id",
        {"runs": None if run_keys is None else list(run_keys)},
    ).fetchall()
    return [_Run(*row) for row in rows]


def _anchored(con: Connection, runs: Sequence[_Run]) -> set[int]:
    """Those of the runs that answer queries of their golden set and retrieve what it or an archive knows."""
    asked = [run for run in runs if run.has_known_queries]
    found: set[int] = set()
    for golden_key, dataset_key in sorted({(run.golden_key, run.dataset_key) for run in asked}):
        if not _names_anything(con, golden_key):
            found |= {run.run_key for run in asked if run.golden_key == golden_key}
        for ranks in ("rank = 1", "true"):
            left = [run.run_key for run in asked if run.golden_key == golden_key and run.run_key not in found]
            if left:
                statement = _KNOWN.format(named=_NAMED, is_named=_IS_NAMED, ranks=ranks)
                values = {"golden": golden_key, "dataset": dataset_key, "runs": left}
                rows = con.execute(statement, {**values, "first": min(left), "last": max(left)}).fetchall()
                found |= {run_key for (run_key,) in rows}
    return found


def _names_anything(con: Connection, golden_key: int) -> bool:
    """Labels that name no chunk, document or path cannot tell which ids are theirs."""
    ((found,),) = con.execute(
        f"with {_NAMED} select exists(from named_chunks) or exists(from named_documents) "
        "or exists(from named_paths)",
        {"golden": golden_key},
    ).fetchall()
    return bool(found)


def _with_hits(con: Connection, runs: Sequence[_Run]) -> list[_Run]:
    if not runs:
        return []
    keys = [run.run_key for run in runs]
    rows = con.execute(
        "select distinct run_key from raw.hits where run_key between ? and ? and run_key in (select unnest(?))",
        [min(keys), max(keys), keys],
    ).fetchall()
    found = {run_key for (run_key,) in rows}
    return [run for run in runs if run.run_key in found]


def _unknown_in(con: Connection, datasets: Collection[int]) -> set[int]:
    """The runs of these datasets that retrieve nothing that labels, archives or plausible runs before them know."""
    everything = [run for run in _scored_runs(con, None) if run.dataset_key in datasets]
    anchored = _anchored(con, everything)
    known: dict[int, list[int]] = {dataset_key: [] for dataset_key in datasets}
    found = set()
    for run in everything:
        earlier = known[run.dataset_key]
        if run.run_key in anchored or (run.has_known_queries and _follows(con, run, earlier)):
            earlier.append(run.run_key)
        else:
            found.add(run.run_key)
    return found


def _follows(con: Connection, run: _Run, earlier: Sequence[int]) -> bool:
    if not earlier:
        return False
    ((found,),) = con.execute(_FOLLOWS, {"run": run.run_key, "earlier": list(earlier)}).fetchall()
    return bool(found)


def _counts(con: Connection, run: _Run) -> tuple[int, int]:
    """(distinct ids retrieved, how many of them labels name: the chunk, its document or its path)."""
    statement = _COUNTS.format(named=_NAMED, is_named=_IS_NAMED)
    ((retrieved, named),) = con.execute(statement, {"golden": run.golden_key, "run": run.run_key}).fetchall()
    return int(retrieved), int(named)


def _n_queries(con: Connection, run: _Run) -> int:
    ((found,),) = con.execute("select count(*) from raw.results where run_key = ?", [run.run_key]).fetchall()
    return int(found)


def _judged(con: Connection, run: _Run) -> Implausible:
    if not run.has_known_queries:
        return _with_unknown_queries(con, run)
    retrieved, named = _counts(con, run)
    why = (
        f"{named:,} of {count(retrieved, 'retrieved id')} {_are(retrieved)} named by a label of {run.dataset}"
    )
    return Implausible(
        f"{IMPLAUSIBLE}: {why}",
        f"{why} (labels: {_examples(con, _LABELLED, run)}; hits: {_examples(con, _RETRIEVED, run)}): label metrics "
        "would be 0 and are not shown. Fix: load results with the ids that the labels name, labels that name these "
        f"ids, or the chunk archive that lists them (datasets/{run.dataset}/inventories/)",
    )


def _with_unknown_queries(con: Connection, run: _Run) -> Implausible:
    asked = _n_queries(con, run)
    why = f"0 of {count(asked, 'query id')} {_are(asked)} in the golden set of {run.dataset}"
    return Implausible(
        f"{IMPLAUSIBLE}: {why}",
        f"{why} (golden set: {_examples(con, _ASKED, run)}; results: {_examples(con, _ANSWERED, run)}): there is "
        "nothing to score. Fix: load results with the query ids of the golden set, or say with --dataset which one "
        "they belong to",
    )


def _are(n: int) -> str:
    return "is" if n == 1 else "are"


# By the ids themselves: the same run says the same, however its rows lie.
_LABELLED: Final = (
    f"with {_NAMED} select chunk_id from named_chunks join raw.chunk_ids using (chunk_key) "
    "union all select doc_id from named_documents join raw.doc_ids using (doc_key) "
    "where not exists(from named_chunks) union all select rel_path from named_paths "
    "where not exists(from named_chunks) and not exists(from named_documents)"
)
_RETRIEVED: Final = (
    "select chunk_id from (select distinct chunk_key from raw.hits where run_key = $run) "
    "join raw.chunk_ids using (chunk_key)"
)
_ASKED: Final = (
    "select query_id from labels.queries join raw.query_ids using (query_key) where golden_key = $golden"
)
_ANSWERED: Final = (
    "select query_id from raw.results join raw.query_ids using (query_key) where run_key = $run"
)


def _examples(con: Connection, statement: str, run: _Run) -> str:
    """The first ids of a statement, of which there may be many more."""
    values = {"golden": run.golden_key, "run": run.run_key}
    ids = con.execute(
        f"select * from ({statement}) as found(id) order by id limit {_EXAMPLES + 1}",
        {name: value for name, value in values.items() if f"${name}" in statement},
    ).fetchall()
    return _listed(one for (one,) in ids)


def _listed(ids: Iterable[str]) -> str:
    shown = [one if len(one) <= _ID_SHOWN else f"{one[:_ID_SHOWN]}…" for one in ids]
    return ", ".join(shown[:_EXAMPLES]) + (", …" if len(shown) > _EXAMPLES else "")
