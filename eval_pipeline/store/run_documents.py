"""The knowledge base's summary of one run: computed anew from its stored results, or put into the store."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from eval_pipeline.formulas.definition import Definition, Helper, quoted
from eval_pipeline.store.aggregates import DOCUMENT_KEYS, PLAIN_KEYS, read_documents
from eval_pipeline.store.connect import Connection, first_value, transaction
from eval_pipeline.store.read import RunRow
from eval_pipeline.store.visible import Scope, visible_catalogue
from eval_pipeline.store.whatif import evaluate, scratch


def compute_document(
    con: Connection,
    run: RunRow,
    *,
    definitions: Sequence[Definition],
    helpers: Mapping[str, Helper],
    rounding: str,
    as_stored: Collection[str] = (),
) -> dict[str, Any]:
    """The summary under these definitions, parents first; nothing is written. The run's golden set has to be there.

    The keys `as_stored` keep the values that stand in the store.
    """
    dataset_key = first_value(con, "select dataset_key from raw.runs where run_key = ?", [run.run_key])
    assert run.golden_key is not None
    scope = Scope(dataset_key, run.golden_key, [run.run_key])
    with visible_catalogue(con, helpers.values()) as store:
        evaluate(con, store, definitions, scope)
        values = {
            key: _mean(con, one, key, rounding=rounding)
            for one in definitions
            for key in one.keys
            if key in DOCUMENT_KEYS
        }
        document = read_documents(con, store, [run.run_key])[run.run_key]

    def value(key: str, stored: float | None) -> float | None:
        return stored if key in as_stored else values.get(key)

    return document | {
        "hit_at_k": {k: value(f"hit@{k}", old) for k, old in document["hit_at_k"].items()},
        "recall_at_k_doc": {
            k: value(f"recall@{k}_doc", old) for k, old in document["recall_at_k_doc"].items()
        },
        **{key: value(key, document[key]) for key in PLAIN_KEYS},
    }


def _mean(con: Connection, formula: Definition, key: str, *, rounding: str) -> float | None:
    found: float | None = first_value(
        con,
        f"select rounded_by(exact_sum({quoted(key)}) / nullif(count({quoted(key)}), 0), ?) "
        f"from {scratch(formula.name)}",
        [rounding],
    )
    return found


def put_document(con: Connection, run: RunRow, text: str) -> None:
    """Make this the run's aggregate_json; the same text again writes nothing."""
    known = first_value(
        con, "select aggregate_json from aggregates.run_documents where run_key = ?", [run.run_key]
    )
    if known == text:
        return
    with transaction(con):
        con.execute("delete from aggregates.run_documents where run_key = ?", [run.run_key])
        con.execute("insert into aggregates.run_documents values (?, ?)", [run.run_key, text])
