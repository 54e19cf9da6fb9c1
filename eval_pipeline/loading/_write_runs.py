"""Runs and their parts: written together, replaced as a whole, never half."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from eval_pipeline.bundle.columns import ResultsBlock
from eval_pipeline.bundle.layout import ADDED_PARTS
from eval_pipeline.bundle.parts import parse_day, parse_time
from eval_pipeline.bundle.problems import printable
from eval_pipeline.bundle.scores import score_rows, score_table
from eval_pipeline.errors import InputRejected
from eval_pipeline.formulas.definition import quoted
from eval_pipeline.loading._write_parts import (
    PartDelivery,
    ReplacedParts,
    record_parts,
    write_small_parts,
)
from eval_pipeline.loading.deliveries import _supersede_run_parts
from eval_pipeline.records import Run
from eval_pipeline.store.frozen import forget_no_longer, parts_without_texts
from eval_pipeline.store.keys import add_texts, keys_of
from eval_pipeline.store.open import Connection, first_row, first_value
from eval_pipeline.store.project import Store
from eval_pipeline.store.schema import TABLES_OF_PART, imply_golden_sets

_CONFIG_TEXTS = ("chunker_version", "embedding_model", "index_version", "prompt_version", "llm_model")
_JUDGE_TEXTS = {"judge_model": "model", "judge_version": "version", "judge_prompt_version": "prompt_version"}
GATHERED_HITS = 400_000
# What is stored as a key, or only said which result a row belongs to.
_KEYED_TEXTS = ("result", "query_id", "chunk_id", "doc_id")

_COUNTS = """
insert into ledger.run_counts
with counted as (
    select r.run_key, r.dataset_key, nullif(r.delivered_key, 0) as golden_key,
        coalesce(g.n_rows, i.n_rows, 0) as n_golden, d.delivered_at,
        p.run_key is null and e.run_key is not null as is_without_results
    from ledger.runs_in_order r
    left join ledger.golden_sets_in_force g on g.golden_key = r.delivered_key
    left join (
        select golden_key, count(*) as n_rows from labels.queries where golden_key < 0 group by golden_key
    ) i on i.golden_key = r.delivered_key
    left join raw.run_parts p on p.run_key = r.run_key and p.part = 'results'
    left join ledger.deliveries d on d.delivery_key = p.delivery_key
    left join raw.run_parts e on e.run_key = r.run_key and e.part = 'extractions'
    where r.run_key in (select unnest($keys))
),
asked as (
    select c.run_key,
        coalesce(max(v.golden_key) filter (where v.loaded_at <= c.delivered_at), min(v.golden_key)) as asked_key
    from counted c join labels.golden_sets v on v.dataset_key = c.dataset_key
    group by c.run_key
),
results as (
    from ledger.scored_results where run_key between $first and $last and run_key in (select unnest($keys))
),
answered as (
    select run_key, count(*) as n_results, count(*) filter (where is_failed) as n_failed
    from results
    group by run_key
),
later as (
    select c.run_key, count(*) as n_not_asked
    from counted c
    join asked a on a.run_key = c.run_key and a.asked_key <> c.golden_key
    join labels.queries q on q.golden_key = c.golden_key
    anti join labels.queries b on b.golden_key = a.asked_key and b.query_key = q.query_key
    anti join results x on x.run_key = c.run_key and x.query_key = q.query_key
    group by c.run_key
)
select c.run_key, c.golden_key, c.n_golden, coalesce(n.n_results, 0), coalesce(n.n_failed, 0),
    coalesce(l.n_not_asked, 0), c.is_without_results
from counted c
left join answered n on n.run_key = c.run_key
left join later l on l.run_key = c.run_key
"""


def count_runs(con: Connection, run_keys: Collection[int]) -> None:
    """Count these runs anew; call it inside the transaction that changed their results."""
    if not run_keys:
        return
    keys = sorted(run_keys)
    con.execute("delete from ledger.run_counts where run_key in (select unnest(?))", [keys])
    con.execute(_COUNTS, {"keys": keys, "first": keys[0], "last": keys[-1]})


def count_runs_of_dataset(con: Connection, dataset_key: int) -> None:
    """Count every run of a dataset anew; call it inside the transaction that changed its golden set."""
    rows = con.execute("select run_key from raw.runs where dataset_key = ?", [dataset_key]).fetchall()
    count_runs(con, [run_key for (run_key,) in rows])


@dataclass
class RunDelivery:
    """A run and those of its parts that are new or changed."""

    run: Run
    document: str
    parts: list[PartDelivery]
    place: int = 0


class RunRejected(Exception):
    """Found while writing: this run cannot be taken; the others of the batch can.

    Its files are kept beside the store if they `may_be_kept`.
    """

    def __init__(
        self, run_id: str, part: PartDelivery, rejected: InputRejected, *, may_be_kept: bool = True
    ) -> None:
        super().__init__(rejected.reason)
        self.run_id = run_id
        self.part = part
        self.rejected = rejected
        self.may_be_kept = may_be_kept


def result_counts(con: Connection) -> dict[str, int]:
    """The number of stored results of each run that has delivered results."""
    sql = "select run_id, n_rows from raw.run_parts join raw.runs using (run_key) where part = 'results'"
    return dict(con.execute(sql).fetchall())


def compare_result_counts(deliveries: Sequence[RunDelivery], stored: Mapping[str, int]) -> list[str]:
    """Raise RunRejected for results without a readable row that would replace stored ones; report fewer results.

    Rejected results are not kept: a rebuild would replay them.
    """
    remarks: list[str] = []
    for delivery in deliveries:
        run_id, known = delivery.run.run_id, stored.get(delivery.run.run_id, 0)
        for part in delivery.parts:
            if part.part != "results" or part.n_rows >= known:
                continue
            if not part.n_rows:
                first = f" (the first: {part.problems[0].reason})" if part.problems else ""
                reason = (
                    f"no row can be read{first}, so the {known:,} stored results of {run_id} were not replaced; "
                    f"`eval-pipeline forget {run_id}` removes them"
                )
                raise RunRejected(run_id, part, InputRejected(reason), may_be_kept=False)
            remarks.append(f"{run_id}: {part.n_rows:,} results replace {known:,}")
    return remarks


def known_parts(con: Connection, run_ids: Sequence[str] | None = None) -> dict[str, dict[str, str]]:
    """For every run, or these runs, the content hash of each part that was taken in.

    Where several deliveries of a part stand side by side each of them is there too, under a name of its own.
    """
    found: dict[str, dict[str, str]] = {}
    for run_id, part, content_hash in con.execute(
        "select runs.run_id, part, content_hash from raw.run_parts join raw.runs using (run_key)"
        + ("" if run_ids is None else " where runs.run_id in (select unnest(?))"),
        [] if run_ids is None else [[printable(run_id) for run_id in run_ids]],
    ).fetchall():
        found.setdefault(run_id, {})[part] = content_hash
    for run_id, part, content_hash in con.execute(
        "select run_id, part, content_hash from ledger.deliveries where superseded_at is null "
        "and list_contains($parts, part) and ($runs is null or list_contains($runs, run_id))",
        {"parts": list(ADDED_PARTS), "runs": None if run_ids is None else [*map(printable, run_ids)]},
    ).fetchall():
        found.setdefault(run_id, {})[f"{part} {content_hash}"] = content_hash
    for run_id, part in parts_without_texts(con):
        # Delivered again, the same bytes bring back what was forgotten: they are not what stands there.
        known = found.get(run_id, {})
        for name in [name for name in known if name.split(" ")[0] == part]:
            del known[name]
    return found


def beside(known: Mapping[str, str], part: str) -> list[str]:
    """The content hashes of a part's deliveries that stand side by side."""
    return [content_hash for name, content_hash in known.items() if name.startswith(f"{part} ")]


def known_datasets(con: Connection) -> dict[str, str]:
    """The dataset of every run."""
    return dict(
        con.execute(
            "select run_id, dataset_id from raw.runs join raw.datasets using (dataset_key)"
        ).fetchall()
    )


def other_dataset(run: Run) -> InputRejected:
    """Why a run that is known with another dataset cannot be taken."""
    reason = f"run {run.run_id!r} is known with another dataset; give the new run a name of its own"
    return InputRejected(reason, field="dataset", text=run.dataset)


def named_twice(query_id: str, lines: Sequence[int]) -> InputRejected:
    """Why results that hold a query more than once cannot be taken."""
    places = " and ".join(str(line) for line in lines[:3])
    return InputRejected(
        f"query_id {query_id!r} stands on lines {places}: one result per query",
        line=lines[1],
        field="query_id",
        text=query_id,
    )


def write_runs(store: Store, deliveries: Sequence[RunDelivery]) -> None:
    """Write a batch of runs; call it inside a transaction."""
    con = store.con
    keys = _write_run_rows(store, deliveries)
    replaced = _remove_replaced_rows(store, deliveries, keys)
    # Several threads would cut what comes from Arrow into small pieces and join them again; one takes a third of the
    # time, and the others are busy reading ahead.
    con.execute("set threads = 1")
    _write_run_scores(con, deliveries, keys)
    _write_results(con, deliveries, keys)
    con.execute("reset threads")
    write_small_parts(
        con,
        [
            (keys[delivery.run.run_id], part)
            for delivery in deliveries
            for part in delivery.parts
            if part.part != "results"
        ],
    )
    _reject_duplicate_queries(con, deliveries, keys)
    record_parts(store, deliveries, keys, replaced)
    # What they were asked may differ from what they were asked before.
    con.execute(
        "delete from ledger.implied_golden_sets where run_key in (select unnest(?))", [list(keys.values())]
    )
    imply_golden_sets(con)
    count_runs(con, keys.values())


def _write_run_rows(store: Store, deliveries: Sequence[RunDelivery]) -> dict[str, int]:
    """One row per run; a run that is known keeps its key and the time it was first seen."""
    con = store.con
    names = pa.array([delivery.run.dataset for delivery in deliveries], pa.string())
    dataset_keys = keys_of(con, "dataset", names).to_pylist()
    known = _known_runs(con, [delivery.run.run_id for delivery in deliveries])
    # The key of a run that was forgotten is not given out again: its history may still stand under it.
    next_key = first_value(
        con,
        "select coalesce(max(run_key), 0) + 1 from "
        "(select run_key from raw.runs union all select run_key from ledger.tombstones where scope = 'rows')",
    )
    keys: dict[str, int] = {}
    rows: list[dict[str, object]] = []
    for delivery, dataset_key in zip(deliveries, dataset_keys, strict=True):
        run = delivery.run
        run_key, known_dataset, loaded_at, place = known.get(
            run.run_id, (next_key, dataset_key, store.clock(), delivery.place)
        )
        if known_dataset != dataset_key:
            raise RunRejected(run.run_id, delivery.parts[0], other_dataset(run))
        next_key += run_key == next_key
        keys[run.run_id] = run_key
        rows.append(
            {"run_key": run_key, "run_id": run.run_id, "dataset_key": dataset_key, **_run_values(run)}
            | {"document": delivery.document, "first_loaded_at": loaded_at, "place_in_load": place}
        )
    if known:
        con.execute(
            "delete from raw.runs where run_key in (select unnest(?))", [[row[0] for row in known.values()]]
        )
    con.register("new_runs", pa.Table.from_pylist(rows, schema=_RUN_COLUMNS))
    con.execute("insert into raw.runs by name select * from new_runs")
    con.unregister("new_runs")
    return keys


def _known_runs(con: Connection, run_ids: list[str]) -> dict[str, tuple[int, int, dt.datetime, int]]:
    rows = con.execute(
        "select run_id, run_key, dataset_key, first_loaded_at, place_in_load from raw.runs "
        "where run_id in (select unnest(?))",
        [run_ids],
    ).fetchall()
    return {run_id: (run_key, *columns) for run_id, run_key, *columns in rows}


_RUN_COLUMNS = pa.schema(
    [
        ("run_key", pa.int32()),
        ("run_id", pa.string()),
        ("dataset_key", pa.int32()),
        ("suite", pa.string()),
        ("created_at", pa.timestamp("us")),
        ("night", pa.date32()),
        ("attempt", pa.int32()),
        ("replaces", pa.string()),
        ("replicate_of", pa.string()),
        ("commit_hash", pa.string()),
        ("suite_time_ms", pa.float64()),
        *((name, pa.string()) for name in _CONFIG_TEXTS),
        ("top_k", pa.int32()),
        ("folder_mode", pa.string()),
        ("judge_model", pa.string()),
        ("judge_version", pa.string()),
        ("judge_temperature", pa.float64()),
        ("judge_prompt_version", pa.string()),
        ("judge_price_prompt", pa.float64()),
        ("judge_price_completion", pa.float64()),
        ("document", pa.string()),
        ("first_loaded_at", pa.timestamp("us")),
        ("evaluation_state", pa.string()),
        ("place_in_load", pa.int32()),
    ]
)


def _run_values(run: Run) -> dict[str, object]:
    config = run.config
    judge = config.judge if config else None
    price = config.judge_price_per_1k if config else None
    return {
        "suite": run.suite,
        "created_at": parse_time(run.created_at) if run.created_at else None,
        "night": parse_day(run.night) if run.night else None,
        **{
            name: getattr(run, name)
            for name in ("attempt", "replaces", "replicate_of", "commit_hash", "suite_time_ms")
        },
        **{name: getattr(config, name, None) for name in (*_CONFIG_TEXTS, "top_k", "folder_mode")},
        **{name: getattr(judge, field, None) for name, field in _JUDGE_TEXTS.items()},
        "judge_temperature": judge.temperature if judge else None,
        "judge_price_prompt": price.prompt if price else None,
        "judge_price_completion": price.completion if price else None,
        "evaluation_state": run.evaluation.state if run.evaluation else None,
    }


def _remove_replaced_rows(
    store: Store, deliveries: Sequence[RunDelivery], keys: dict[str, int]
) -> ReplacedParts:
    """Make room for what is delivered; returns every part that these runs have had."""
    con = store.con
    known = {
        (run_key, part): (content_hash, times)
        for run_key, part, content_hash, times in con.execute(
            "select run_key, part, content_hash, times_read_again from raw.run_parts where run_key between ? and ?",
            [min(keys.values()), max(keys.values())],
        ).fetchall()
    }
    for delivery in deliveries:
        run_key = keys[delivery.run.run_id]
        replaced = [part.part for part in delivery.parts if (run_key, part.part) in known]
        whole = [part for part in replaced if part not in ADDED_PARTS]
        _supersede_run_parts(store, [(delivery.run.run_id, part) for part in whole])
        forget_no_longer(con, run_key, replaced)
        for part in replaced:
            for table in TABLES_OF_PART.get(part, ()) if part in whole else ():
                con.execute(f"delete from raw.{quoted(table)} where run_key = ?", [run_key])
            con.execute("delete from raw.run_parts where run_key = ? and part = ?", [run_key, part])
    return known


def _write_run_scores(con: Connection, deliveries: Sequence[RunDelivery], keys: dict[str, int]) -> None:
    """What is said of runs as a whole; it stands in the document of the run, which is written with every part."""
    con.execute("delete from raw.run_scores where run_key in (select unnest(?))", [list(keys.values())])
    rows = score_table(
        row for one in deliveries for row in score_rows(one.run.scores, result=keys[one.run.run_id])
    )
    if rows.num_rows:
        add_texts(con, rows["text"])
        _insert(con, _INSERT_RUN_SCORES, rows, {"run_key": rows["result"]})


def _write_results(con: Connection, deliveries: Sequence[RunDelivery], keys: dict[str, int]) -> None:
    """Insert the rows of many small files in few statements, and of a large file block by block."""
    waiting: list[tuple[int, ResultsBlock]] = []
    hits = 0
    for run_key, block in _blocks(deliveries, keys):
        waiting.append((run_key, block))
        hits += block.hits.num_rows + block.results.num_rows
        if hits >= GATHERED_HITS:
            _insert_blocks(con, waiting)
            waiting, hits = [], 0
    if waiting:
        _insert_blocks(con, waiting)


def _blocks(deliveries: Sequence[RunDelivery], keys: dict[str, int]) -> Iterator[tuple[int, ResultsBlock]]:
    for delivery in deliveries:
        for part in delivery.parts:
            if part.part != "results":
                continue
            part.n_rows = 0
            if not isinstance(part.blocks, list):
                part.problems = list(part.beforehand)
            try:
                for block in part.blocks:
                    part.n_rows += block.results.num_rows
                    if not isinstance(part.blocks, list):
                        part.problems.extend(block.problems)
                    yield keys[delivery.run.run_id], block
            except InputRejected as rejected:
                raise RunRejected(delivery.run.run_id, part, rejected) from rejected


def _insert_blocks(con: Connection, blocks: list[tuple[int, ResultsBlock]]) -> None:
    sizes = np.array([block.results.num_rows for _, block in blocks])
    offsets = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    results = pa.concat_tables([block.results for _, block in blocks])
    run_keys = np.repeat(np.array([run_key for run_key, _ in blocks], dtype=np.int32), sizes)
    query_keys = keys_of(con, "query", results["query_id"]).to_numpy(zero_copy_only=False).astype(np.int32)
    for name in ("answer_text", "judge_reasoning", "judge_input"):
        add_texts(con, results[name])
    own = {"run_key": pa.array(run_keys), "query_key": pa.array(query_keys)}
    _insert(con, _INSERT_RESULTS, results, own)
    for name, statement in _INSERT_CHILDREN.items():
        tables = [getattr(block, name) for _, block in blocks]
        owners = np.concatenate(
            [table["result"].to_numpy() + offset for table, offset in zip(tables, offsets, strict=True)]
        ).astype(np.int64)
        if not len(owners):
            continue
        rows = pa.concat_tables(tables)
        if "text" in rows.column_names:
            add_texts(con, rows["text"])
        own = {"run_key": pa.array(run_keys[owners]), "query_key": pa.array(query_keys[owners])}
        for kind in ("chunk", "doc"):
            if f"{kind}_id" in rows.column_names:
                own[f"{kind}_key"] = keys_of(con, kind, rows[f"{kind}_id"])
        _insert(con, statement, rows, own)


def _insert(con: Connection, statement: str, rows: pa.Table, own: dict[str, pa.Array]) -> None:
    rows = rows.select([name for name in rows.column_names if name not in _KEYED_TEXTS])
    for name, column in own.items():
        rows = rows.append_column(name, column)
    con.register("new_rows", rows.combine_chunks())
    con.execute(statement)
    con.unregister("new_rows")


_INSERT_RESULTS = """
insert into raw.results
select
    run_key, query_key, row_no, n_hits, error, timed_out, folder_mode, selected_folders, has_answer,
    md5_number(answer_text), answer_text_is_blank, grounded, abstained, judge_groundedness, supported_claims,
    unsupported_claims, judge_correctness, md5_number(judge_reasoning), judge_abstained, judge_acknowledged,
    judge_prompt_tokens, judge_completion_tokens, md5_number(judge_input), judge_scores_delivered,
    total_ms, folder_selection_ms, retrieval_ms, generation_ms, judge_ms
from new_rows
"""

_INSERT_RUN_SCORES = """
insert into raw.run_scores
select run_key, name, value, label, md5_number(text), source, model, version from new_rows
"""

_INSERT_CHILDREN = {
    "hits": """
insert into raw.hits
select
    run_key, query_key, rank, chunk_key, doc_key, delivered_rank, score, rel_path, heading_path, token_count,
    md5_number(text)
from new_rows
""",
    "hit_spans": """
insert into raw.hit_spans
select run_key, query_key, rank, span_no, doc_key, "start", "end" from new_rows
""",
    "scores": """
insert into raw.scores
select run_key, query_key, name, value, label, md5_number(text), source, model, version from new_rows
""",
    "citations": """
insert into raw.citations
select run_key, query_key, item_no, chunk_key, path from new_rows
""",
    "references": """
insert into raw."references"
select run_key, query_key, item_no, rel_path, heading_path, chunk_key, md5_number(text) from new_rows
""",
}


def _reject_duplicate_queries(
    con: Connection, deliveries: Sequence[RunDelivery], keys: dict[str, int]
) -> None:
    written = {
        keys[delivery.run.run_id]: (delivery, part)
        for delivery in deliveries
        for part in delivery.parts
        if part.part == "results"
    }
    if not written:
        return
    found = first_row(
        con,
        "select run_key, any_value(query_key), list(row_no order by row_no) from raw.results "
        "where run_key between ? and ? group by run_key, query_key having count(*) > 1 order by run_key limit 1",
        [min(written), max(written)],
    )
    if not found or found[0] not in written:
        return
    delivery, part = written[found[0]]
    query_id = first_value(con, "select query_id from raw.query_ids where query_key = ?", [found[1]])
    raise RunRejected(delivery.run.run_id, part, named_twice(query_id, found[2]))
