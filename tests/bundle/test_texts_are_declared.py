"""Every text of a record is an id, a name, or declared as a text with the column that holds it."""

from __future__ import annotations

import typing

import pytest

from eval_pipeline.formulas.text_columns import TEXT_COLUMNS
from eval_pipeline.records import KINDS, Record, Text, text_columns_of_records, texts_of
from eval_pipeline.settings import utc_now
from eval_pipeline.store.frozen import MARKED
from eval_pipeline.store.open import open_in_memory

RECORDS = Record.__subclasses__()
PLAIN = {"id", "name"}


def undeclared(hint):
    """What of a field may hold a text and does not say so."""
    said = [one for one in getattr(hint, "__metadata__", ()) if isinstance(one, Text) or one in PLAIN]
    if said:
        return []
    if hint in (str, typing.Any):
        return [hint]
    return [found for part in typing.get_args(hint) for found in undeclared(part)]


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.__name__)
def test_every_text_of_a_record_says_what_it_is(kind):
    hints = typing.get_type_hints(kind, include_extras=True)
    # The keys of a mapping are ids, too.
    assert {name: found for name, hint in hints.items() if (found := undeclared(hint))} == {}


def test_a_field_that_is_not_declared_is_found():
    assert undeclared(list[str] | None) == [str]
    assert undeclared(dict[str, typing.Any]) == [str, typing.Any]


def test_the_column_of_every_text_is_in_the_store_and_forgotten_with_it():
    with open_in_memory(utc_now) as con:
        columns = {
            ".".join(row)
            for row in con.execute(
                "select schema_name, table_name, column_name from duckdb_columns()"
            ).fetchall()
        }
    declared = text_columns_of_records()
    assert set(declared) <= columns
    forgotten = {f"{table}.{column}" for table, named in TEXT_COLUMNS.items() for column in named}
    # Of the listed cases the ledger holds hashes alone; in run.json keys of one's own may be texts.
    assert forgotten ^ set(declared) == {"raw.runs.document", "ledger.expected_cases.ground_truth_hash"}
    assert all(declared[place].stays == "mark" for place in MARKED)


def test_each_kind_of_text_is_there():
    assert {text.kind for kind in RECORDS for text in texts_of(kind).values()} == set(KINDS)
