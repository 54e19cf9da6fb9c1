"""What the store says of one pair of runs: values, queries, hits, labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from eval_pipeline.bundle.secrets import masked
from eval_pipeline.computing.derived import rank_rows
from eval_pipeline.computing.judges import Canary, Setup, canaries, scorers, setups_of_run
from eval_pipeline.formulas.definition import Definition, quoted
from eval_pipeline.showing.plausibility import Implausible, implausible_runs
from eval_pipeline.showing.scores import needed_scores
from eval_pipeline.store.open import Connection, first_row, first_value, own_table
from eval_pipeline.store.runs import find_run, is_without_results

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.int64]

UNFINISHED = "incomplete"
JUDGE = ("judge_model", "judge_version", "judge_temperature", "judge_prompt_version")


@dataclass(frozen=True)
class ComparedRun:
    """One of the two runs; `golden_key`, `delivered_key` and `labels_of` as in `RunRow`.

    `judges`: by what it was asked, each with its configuration.
    """

    run_key: int
    run_id: str
    dataset: str
    dataset_key: int
    golden_key: int
    delivered_key: int
    labels_of: Sequence[str] | None
    suite: str | None
    config: Mapping[str, Any]
    judges: Mapping[str, Setup]
    canary: Canary | None
    n_golden: int
    n_results: int
    n_quarantined: int
    is_without_results: bool
    is_unfinished: bool
    implausible: Implausible | None


class PairedQuery(NamedTuple):
    """A query that both runs answered, with what the facts say about its expected chunks."""

    query_id: str
    group: str | None
    error_a: bool
    error_b: bool
    n_expected: int | None
    rank_a: int | None
    rank_b: int | None
    has_facts: bool
    same_labels: bool


@dataclass(frozen=True, eq=False)
class MetricPairs:
    """One metric of both runs over the paired queries by their place; an undefined value stands as 0."""

    a: FloatArray
    b: FloatArray
    defined_a: BoolArray
    defined_b: BoolArray

    @property
    def on_both(self) -> BoolArray:
        return self.defined_a & self.defined_b

    def filled(self, unscored: tuple[BoolArray, BoolArray], a: float, b: float) -> MetricPairs:
        """The pairs with these values for the unscored answers of a and of b."""
        in_a, in_b = unscored
        return MetricPairs(
            np.where(in_a, a, self.a), np.where(in_b, b, self.b), self.defined_a | in_a, self.defined_b | in_b
        )


@dataclass(frozen=True)
class CellState:
    """What one kind of cell was made of for both runs; None where it was never computed."""

    version: int | None
    fingerprint: str
    labels_hash: str
    results_hash: str
    has_rows: bool


def find_compared_run(con: Connection, run_id: str) -> ComparedRun:
    """The run, or an error with the closest names."""
    run = find_run(con, run_id)
    names = ("chunker_version", "embedding_model", "prompt_version", "llm_model", "top_k", *JUDGE)
    row = first_row(
        con,
        f"select dataset_key, evaluation_state, suite, {', '.join(names)} from raw.runs where run_key = ?",
        [run.run_key],
    )
    counts = first_row(
        con,
        "select coalesce(sum(n_rows) filter (where part = 'results'), 0), "
        "coalesce(sum(n_quarantined) filter (where part = 'results'), 0) "
        "from raw.run_parts where run_key = ?",
        [run.run_key],
    )
    assert row is not None and counts is not None
    # The chunker's version finds its archives; nobody writes a user into it.
    chunker, *others = row[3:]
    config = dict(zip(names, (chunker, *masked(others)), strict=True))
    return ComparedRun(
        run_key=run.run_key,
        run_id=run.run_id,
        dataset=run.dataset,
        dataset_key=row[0],
        golden_key=run.golden_key,
        delivered_key=run.delivered_key,
        labels_of=run.labels_of,
        suite=row[2],
        config=config,
        judges=setups_of_run(
            Setup(*(config[name] for name in JUDGE)), scorers(con, [run.run_key]).get(run.run_key, {})
        ),
        canary=canaries(con, [run.run_key]).get(run.run_key),
        n_golden=_golden_size(con, run.golden_key),
        n_results=int(counts[0]),
        n_quarantined=int(counts[1]),
        is_without_results=is_without_results(con, run.run_key),
        is_unfinished=row[1] == UNFINISHED,
        implausible=implausible_runs(con, [run.run_key]).get(run.run_key),
    )


def _golden_size(con: Connection, golden_key: int) -> int:
    return int(first_value(con, "select count(*) from labels.queries where golden_key = ?", [golden_key]))


def _cells_of(con: Connection, run: ComparedRun) -> dict[tuple[str, str], CellState]:
    """(definition, source) → what the cell of this run was made of."""
    rows = con.execute(
        "select c.definition, c.source, d.version, c.fingerprint, c.labels_hash, c.results_hash, c.n_rows > 0 "
        "from (from ledger.cells where run_key = ?) c left join ledger.definitions d "
        "on d.name = c.definition and d.fingerprint = c.fingerprint",
        [run.run_key],
    ).fetchall()
    return {(row[0], row[1]): CellState(*row[2:]) for row in rows}


_PAIRS = """
with scored_a as (
    select q.query_key, q.query_no, q.query_group, coalesce(o.is_error, false) as is_error
    from labels.query_details q
    join (from raw.results where run_key = $a) r on r.query_key = q.query_key
    left join (from facts.outcomes where run_key = $a) o on o.query_key = q.query_key
    where q.golden_key = $golden_a
),
scored_b as (
    select q.query_key, q.query_no, q.query_group, coalesce(o.is_error, false) as is_error
    from labels.query_details q
    join (from raw.results where run_key = $b) r on r.query_key = q.query_key
    left join (from facts.outcomes where run_key = $b) o on o.query_key = q.query_key
    where q.golden_key = $golden_b
),
matched as (
    select coalesce(a.query_key, b.query_key) as query_key,
        coalesce(a.query_no, b.query_no) as query_no,
        coalesce(a.query_group, b.query_group) as query_group,
        a.query_key is not null as is_in_a, b.query_key is not null as is_in_b,
        a.is_error as error_a, b.is_error as error_b
    from scored_a a full join scored_b b on a.query_key = b.query_key
)
select *, case when is_in_a and is_in_b
    then cast(row_number() over (partition by is_in_a and is_in_b order by query_no, query_key) - 1 as integer)
    end as place
from matched
"""


@dataclass(frozen=True)
class BothRuns:
    """The scored queries of two runs, which the other questions start from; statements call them `table`.

    Queries in both runs have a `place`, counted from 0 in golden order.
    """

    con: Connection
    a: ComparedRun
    b: ComparedRun
    table: str

    @property
    def is_by_span(self) -> bool:
        """Whether both runs have one chunker and the labels name another, so that hits are matched by characters."""
        is_one = self.a.config["chunker_version"] == self.b.config["chunker_version"]
        return is_one and self.a.labels_of is not None and self.b.labels_of is not None


def _pair_queries(con: Connection, a: ComparedRun, b: ComparedRun) -> BothRuns:
    keys = {"a": a.run_key, "b": b.run_key, "golden_a": a.golden_key, "golden_b": b.golden_key}
    return BothRuns(con, a, b, own_table(con, "compared_queries", _PAIRS, keys))


def _unpaired_queries(both: BothRuns) -> tuple[list[str], list[str]]:
    """Ids of the queries that only a has, and only b."""
    rows = both.con.execute(
        f"select i.query_id, c.is_in_a from {both.table} c join raw.query_ids i using (query_key) "
        "where c.place is null"
    ).fetchall()
    return (
        sorted(query_id for query_id, is_in_a in rows if is_in_a),
        sorted(query_id for query_id, is_in_a in rows if not is_in_a),
    )


def _paired_queries(both: BothRuns) -> list[PairedQuery]:
    """The queries of both runs in golden order."""
    # Across chunkers ranks are found by document and span.
    ranks = rank_rows(both.con) if both.is_by_span else "facts.chunk_ranks"
    known = "0" if both.is_by_span else "e.n_expected"
    rows = both.con.execute(
        "select i.query_id, c.query_group, c.error_a, c.error_b, "
        f"coalesce(fa.n_expected, fb.n_expected, {known}), fa.first_rank, fb.first_rank, "
        "fa.run_key is not null and fb.run_key is not null, c.place "
        f"from {both.table} c join raw.query_ids i using (query_key) "
        f"left join (from {ranks} where run_key = $a) fa on fa.query_key = c.query_key "
        f"left join (from {ranks} where run_key = $b) fb on fb.query_key = c.query_key "
        "left join (from labels.expected_chunk_counts where golden_key = $golden) e on e.query_key = c.query_key "
        "where c.place is not null order by c.place",
        {"a": both.a.run_key, "b": both.b.run_key, "golden": both.a.delivered_key},
    ).fetchall()
    different = _differently_labelled(both)
    return [PairedQuery(*[*row[:-1], row[-1] not in different]) for row in rows]


def _differently_labelled(both: BothRuns) -> set[int]:
    """Places where the golden sets of two datasets expect different chunks."""
    golden_keys = [both.a.delivered_key, both.b.delivered_key]
    if golden_keys[0] == golden_keys[1]:
        return set()
    expected = (
        "select query_key, list(chunk_key order by chunk_key) as chunk_keys "
        "from labels.expected_chunks where golden_key = ? group by query_key"
    )
    rows = both.con.execute(
        f"select c.place from {both.table} c left join ({expected}) ea using (query_key) "
        f"left join ({expected}) eb using (query_key) "
        "where c.place is not null and ea.chunk_keys is distinct from eb.chunk_keys",
        golden_keys,
    ).fetchall()
    return {place for (place,) in rows}


_REGRESSED = """
with found_a as (
    select f.query_key, e.chunk_key
    from (from facts.found_chunks where run_key = $a) f
    join labels.expected_chunks e
        on e.golden_key = $golden_a and e.query_key = f.query_key and e.item_no = f.item_no
    where f.first_rank <= $k
),
found_b as (
    select f.query_key, e.chunk_key
    from (from facts.found_chunks where run_key = $b) f
    join labels.expected_chunks e
        on e.golden_key = $golden_b and e.query_key = f.query_key and e.item_no = f.item_no
    where f.first_rank <= $k
)
select c.place, i.chunk_id
from found_a
join {compared} c on c.query_key = found_a.query_key and c.place is not null
join raw.chunk_ids i on i.chunk_key = found_a.chunk_key
left join found_b on found_b.query_key = found_a.query_key and found_b.chunk_key = found_a.chunk_key
where found_b.chunk_key is null
"""


def _regressed_chunks(both: BothRuns, *, k: int) -> dict[int, list[str]]:
    """Place → expected chunks that a found among its first k hits and b did not, in code point order."""
    rows = both.con.execute(
        _REGRESSED.format(compared=both.table),
        {
            "a": both.a.run_key,
            "b": both.b.run_key,
            "golden_a": both.a.golden_key,
            "golden_b": both.b.golden_key,
            "k": k,
        },
    ).fetchall()
    found: dict[int, list[str]] = {}
    for place, chunk_id in rows:
        found.setdefault(place, []).append(chunk_id)
    return {place: sorted(chunk_ids) for place, chunk_ids in found.items()}


def _aggregates_of(con: Connection, run: ComparedRun) -> dict[str, float | None]:
    """The whole run's stored value of every metric."""
    return dict(
        con.execute(
            "select metric, value from aggregates.run_metrics where run_key = ? and slice = ''", [run.run_key]
        ).fetchall()
    )


def _slice_places(both: BothRuns) -> dict[tuple[str, str], IntArray]:
    """(slice, value) → the places of its queries among the paired ones."""
    con, golden_key = both.con, both.a.golden_key
    con.execute(
        "create or replace temp table numbered_slices as select slice, slice_value, "
        "cast(row_number() over (order by slice, slice_value) - 1 as integer) as slice_no "
        "from (select distinct slice, slice_value from labels.slices where golden_key = ? and golden_key > 0)",
        [golden_key],
    )
    names = con.execute("select slice, slice_value from temp.numbered_slices order by slice_no").fetchall()
    columns = con.execute(
        "select n.slice_no, c.place from labels.slices s "
        "join temp.numbered_slices n on n.slice = s.slice and n.slice_value = s.slice_value "
        f"join {both.table} c on c.query_key = s.query_key and c.place is not null "
        "where s.golden_key = ?",
        [golden_key],
    ).fetchnumpy()
    numbers, places = (np.asarray(columns[name], dtype=np.int64) for name in ("slice_no", "place"))
    order = np.lexsort((places, numbers))
    sizes = np.bincount(numbers, minlength=len(names))
    parts = np.split(places[order], np.cumsum(sizes)[:-1]) if names else []
    return {name: part for name, part in zip(names, parts, strict=True) if part.size}


def _formulas_in_store(con: Connection, formulas: Sequence[Definition]) -> list[Definition]:
    """Those formulas whose table is there, with all of their keys."""
    columns: dict[str, set[str]] = {}
    for table, column in con.execute(
        "select table_name, column_name from duckdb_columns() "
        "where schema_name = 'metrics' and database_name = current_database()"
    ).fetchall():
        columns.setdefault(table, set()).add(column)
    return [one for one in formulas if set(one.keys) <= columns.get(one.short_name, set())]


def _metric_pairs(both: BothRuns, formula: Definition) -> dict[str, MetricPairs]:
    """Every key of a formula for both runs, over the paired queries by their place."""
    keys = list(formula.keys)
    values = ", ".join(
        f"{side}.{quoted(key)} as {side}{number}" for number, key in enumerate(keys) for side in ("a", "b")
    )
    table = f"metrics.{quoted(formula.short_name)}"
    columns = both.con.execute(
        f"select {values} from {both.table} c "
        f"left join (from {table} where run_key = $a) a on a.query_key = c.query_key "
        f"left join (from {table} where run_key = $b) b on b.query_key = c.query_key "
        "where c.place is not null order by c.place",
        {"a": both.a.run_key, "b": both.b.run_key},
    ).fetchnumpy()
    return {
        key: _value_pairs(columns[f"a{number}"], columns[f"b{number}"]) for number, key in enumerate(keys)
    }


def _hidden_pairs(pairs: MetricPairs, *, in_a: bool, in_b: bool) -> MetricPairs:
    """The same without the values of a run in which they say nothing."""
    nothing = np.zeros_like(pairs.defined_a)
    return MetricPairs(
        pairs.a, pairs.b, nothing if in_a else pairs.defined_a, nothing if in_b else pairs.defined_b
    )


def _named_pairs(both: BothRuns, formulas: Mapping[str, Definition], *, n: int) -> dict[str, MetricPairs]:
    """The same of metrics that rows name themselves: one question, however many there are."""
    found = {key: _undefined_pairs(n) for key in formulas}
    stored = set(
        both.con.execute("select table_name from duckdb_tables() where schema_name = 'metrics'").fetchall()
    )
    tables = {one.short_name for one in formulas.values()} & {name for (name,) in stored}
    for side, run in (("a", both.a), ("b", both.b)):
        for table in tables:
            rows = both.con.execute(
                f"select m.metric, list(c.place order by c.place), list(m.value order by c.place) "
                f"from {both.table} c join (from metrics.{quoted(table)} where run_key = ?) m "
                "on m.query_key = c.query_key where c.place is not null and m.value is not null group by m.metric",
                [run.run_key],
            ).fetchall()
            for metric, places, values in rows:
                if metric in found:
                    getattr(found[metric], side)[places] = values
                    getattr(found[metric], f"defined_{side}")[places] = True
    return found


def _undefined_pairs(n: int) -> MetricPairs:
    """A metric that neither run defines for any of the n paired queries."""
    return MetricPairs(np.zeros(n), np.zeros(n), np.zeros(n, dtype=np.bool_), np.zeros(n, dtype=np.bool_))


def _value_pairs(a: Any, b: Any) -> MetricPairs:
    sides = [(np.ma.filled(side, 0.0).astype(np.float64), ~np.ma.getmaskarray(side)) for side in (a, b)]
    # A number that is none, from a formula of one's own, is as good as undefined.
    (values_a, known_a), (values_b, known_b) = (
        (np.where(np.isfinite(values), values, 0.0), known & np.isfinite(values)) for values, known in sides
    )
    return MetricPairs(values_a, values_b, known_a, known_b)


def _unscored_answers(
    both: BothRuns, formulas: Mapping[str, Definition], *, n: int
) -> dict[str, tuple[BoolArray, BoolArray]]:
    """Metric → the paired answers of a, and of b, that need a score and lack one."""
    found: dict[str, tuple[BoolArray, BoolArray]] = {}
    for side, run in enumerate((both.a, both.b)):
        rows = both.con.execute(
            f"select s.metric, list(c.place) from ({needed_scores(both.con, formulas)}) s "
            f"join {both.table} c using (query_key) where c.place is not null and not s.is_scored group by s.metric",
            {"run": run.run_key},
        ).fetchall()
        for metric, places in rows:
            arrays = found.setdefault(metric, (np.zeros(n, dtype=np.bool_), np.zeros(n, dtype=np.bool_)))
            arrays[side][places] = True
    return found


_STALE_LABELS = """
with inventories as (
    select archive_key from ledger.archives_in_force
    where dataset_key = $dataset and chunker_version = $chunker and is_newest
),
listed as (select distinct chunk_key from raw.archive_chunks where archive_key in (from inventories))
select count(*) from (
    select distinct chunk_key from labels.expected_chunks
    where golden_key = $golden and exists (from inventories) and chunk_key not in (from listed)
)
"""


def _count_stale_labels(con: Connection, run: ComparedRun) -> int:
    """How many expected chunks are not in the newest inventory of the run's chunker; 0 where there is none."""
    rows = con.execute(
        _STALE_LABELS,
        {
            "chunker": run.config["chunker_version"],
            "dataset": run.dataset_key,
            "golden": run.golden_key,
        },
    ).fetchall()
    return int(rows[0][0])
