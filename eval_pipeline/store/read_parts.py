"""Questions about the parts of one run, answered from one reading connection."""

from __future__ import annotations

import json
from typing import Any

from eval_pipeline.formulas.definition import quoted
from eval_pipeline.store.connect import Connection, first_value
from eval_pipeline.store.derived import table_columns
from eval_pipeline.store.read import RunRow

Row = dict[str, Any]


def computed_rows(con: Connection, name: str, run: RunRow) -> list[Row]:
    """What stands in a derived table for the run, with the case ids of cases; nothing before it was ever computed."""
    schema, table = name.split(".", 1)
    known = table_columns(con, name)
    if not known:
        return []
    source = f"from {schema}.{quoted(table)} computed"
    if "case_key" in known:
        source += (
            " join raw.case_ids using (case_key) left join (select case_key, row_no from raw.extraction_cases "
            "where run_key = $run_key) delivered using (case_key)"
        )
    ordered = " order by row_no nulls last, case_key" if "case_key" in known else ""
    cursor = con.execute(
        f"select * {source} where computed.run_key = $run_key{ordered}", {"run_key": run.run_key}
    )
    columns = [column[0] for column in cursor.description or ()]
    return [dict(zip(columns, values, strict=True)) for values in cursor.fetchall()]


def delivered_rows(con: Connection, run: RunRow) -> dict[str, int]:
    """Part → how many of its rows were taken in."""
    return dict(
        con.execute("select part, n_rows from raw.run_parts where run_key = ?", [run.run_key]).fetchall()
    )


def computed_parameters(con: Connection, name: str, run: RunRow) -> Row | None:
    """The parameters that the run's rows of a derived table were computed with."""
    header = first_value(
        con,
        "select d.header from ledger.cells c join ledger.definitions d "
        "on d.name = c.definition and d.fingerprint = c.fingerprint "
        "where c.definition = ? and c.source = '' and c.run_key = ?",
        [name, run.run_key],
    )
    return None if header is None else dict(json.loads(header)["parameters"])


def run_file(con: Connection, run: RunRow) -> Row:
    """run.json as it was delivered."""
    document: Row = json.loads(
        first_value(con, "select document from raw.runs where run_key = ?", [run.run_key])
    )
    return document
