"""How well fields were extracted, run by run."""

from __future__ import annotations

from dataclasses import dataclass

from eval_pipeline.store.connect import Connection, first_value


@dataclass(frozen=True)
class ExtractionScores:
    """The F1 of every case that was scored, in no particular order."""

    case_f1: tuple[float, ...]


def extraction_scores(con: Connection, run_key: int) -> ExtractionScores | None:
    """None when the run delivered no extraction cases, or they were not computed yet."""
    delivered = first_value(
        con, "select count(*) from raw.run_parts where run_key = ? and part = 'extractions'", [run_key]
    )
    computed = first_value(
        con,
        "select count(*) from ledger.cells where run_key = ? and definition = 'metrics.extraction'",
        [run_key],
    )
    if not delivered or not computed:
        return None
    rows = con.execute(
        "select f1 from metrics.extraction where run_key = ? and f1 is not null", [run_key]
    ).fetchall()
    return ExtractionScores(tuple(f1 for (f1,) in rows))
