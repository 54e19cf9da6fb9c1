"""Lists of the cases that runs should hold: taken in, and held against the runs."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from typing import Final

import pyarrow as pa

from eval_pipeline.bundle.extractions import truth_hash
from eval_pipeline.config import Config
from eval_pipeline.loading.cases import FILE, expected_cases
from eval_pipeline.loading.deliveries import Delivery, _add_delivery
from eval_pipeline.loading.lint import Finding, _named, _replace_findings
from eval_pipeline.records import CASES, FORGOTTEN, ExpectedCase
from eval_pipeline.store.keys import key_of, keys_of
from eval_pipeline.store.open import Connection
from eval_pipeline.store.project import Store
from eval_pipeline.words import count

MISSING: Final = "missing_cases"
DIFFERENT: Final = "ground_truth_differs"


def current_list_hash(con: Connection, dataset: str) -> str | None:
    """Content hash of the list that holds now; None where what stood in its cases was forgotten since."""
    rows = con.execute(
        "select content_hash from ledger.deliveries where part = $part and dataset_id = $dataset "
        "and superseded_at is null and not exists (from ledger.expected_cases e "
        "join raw.datasets d using (dataset_key) where d.dataset_id = $dataset and e.ground_truth_hash = '')",
        {"part": CASES, "dataset": dataset},
    ).fetchall()
    return rows[0][0] if rows else None


def write_case_list(store: Store, delivery: Delivery, cases: Sequence[ExpectedCase]) -> None:
    """Make these the cases that runs of the dataset should hold; call it inside a transaction."""
    con = store.con
    assert delivery.dataset_id is not None
    _add_delivery(store, delivery)
    dataset_key = key_of(con, "dataset", delivery.dataset_id)
    con.execute("delete from ledger.expected_cases where dataset_key = ?", [dataset_key])
    table = pa.table(
        {
            "dataset_key": pa.array([dataset_key] * len(cases), pa.int32()),
            "case_key": keys_of(con, "case", pa.array([case.case_id for case in cases], pa.string())),
            "case_no": pa.array(range(1, len(cases) + 1), pa.int32()),
            "ground_truth_hash": pa.array([truth_hash(case.ground_truth) for case in cases], pa.string()),
        }
    )
    con.register("new_cases", table)
    con.execute("insert into ledger.expected_cases select * from new_cases")
    con.unregister("new_cases")


def note_cases(store: Store, *, run_ids: Collection[str], datasets: Collection[str]) -> list[Finding]:
    """Hold these runs, and all runs of these datasets, against the lists of cases, and keep what was found."""
    con = store.con
    rows = con.execute(
        "select r.run_id from raw.runs r join raw.datasets d using (dataset_key) "
        "where list_contains($datasets, d.dataset_id) or (r.run_id in (select unnest(cast($run_ids as varchar[]))) "
        "and exists (from ledger.expected_cases e where e.dataset_key = r.dataset_key))",
        {"datasets": list(datasets), "run_ids": list(run_ids)},
    ).fetchall()
    touched = sorted(run_id for (run_id,) in rows)
    if not touched:
        return []
    found = [*_missing(con, touched), *_different(con, touched)]
    _replace_findings(store, found, rules=(MISSING, DIFFERENT), run_ids=touched)
    return found


def _missing(con: Connection, run_ids: Sequence[str]) -> Iterator[Finding]:
    for run_id, expected in expected_cases(con, Config(), run_ids).items():
        if expected.said_by == FILE and not isinstance(expected.missing, int) and expected.missing:
            words = f"lacks {_cases_of(expected.missing)} of {expected.n:,} that {FILE} expects"
            yield Finding(MISSING, None, words, "A1.3", run_id=run_id)


def _different(con: Connection, run_ids: Sequence[str]) -> Iterator[Finding]:
    rows = con.execute(
        "select r.run_id, i.case_id, c.ground_truth, e.ground_truth_hash from raw.runs r "
        "join raw.extraction_cases c using (run_key) join raw.case_ids i using (case_key) "
        "join ledger.expected_cases e on e.dataset_key = r.dataset_key and e.case_key = c.case_key "
        "where r.run_id in (select unnest($run_ids)) and c.ground_truth is not null and e.ground_truth_hash <> '' "
        # Taken in without its texts: what it says nobody can tell.
        "and not contains(c.ground_truth, $mark) order by r.run_id, c.row_no",
        {"run_ids": list(run_ids), "mark": f'"{FORGOTTEN}"'},
    ).fetchall()
    differing: dict[str, list[str]] = {}
    for run_id, case_id, ground_truth, expected in rows:
        if truth_hash(json.loads(ground_truth)) != expected:
            differing.setdefault(run_id, []).append(case_id)
    for run_id, ids in differing.items():
        words = f"has another ground_truth than {FILE} for {_cases_of(ids)}"
        yield Finding(DIFFERENT, None, words, "A1.3", run_id=run_id)


def _cases_of(ids: Sequence[str]) -> str:
    return f"{count(len(ids), 'case')} ({_named(ids)})"
