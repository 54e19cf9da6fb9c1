"""Which extraction cases a run should hold, and what of them is missing."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from eval_pipeline.config import Config
from eval_pipeline.records import CASES
from eval_pipeline.store.open import Connection

FILE: Final = "cases.jsonl"
NUMBER: Final = "extraction_cases"
EARLIER: Final = "earlier runs"
NAMED: Final = 5


@dataclass(frozen=True)
class ExpectedCases:
    """How many cases a run should hold, which of them (or how many) it lacks, and what says so; None: nothing does."""

    n: int | None = None
    missing: Sequence[str] | int = ()
    said_by: str | None = None

    @property
    def n_missing(self) -> int:
        return self.missing if isinstance(self.missing, int) else len(self.missing)

    @property
    def in_words(self) -> str | None:
        """The missing cases, which leave the target undecided; None if no case is missing."""
        if not self.n_missing or self.n is None:
            return None
        ids = () if isinstance(self.missing, int) else self.missing
        listed = f": {', '.join(ids[:NAMED])}{' …' if len(ids) > NAMED else ''}" if ids else ""
        verb = "is" if self.n_missing == 1 else "are"
        if self.said_by != EARLIER:
            return f"{self.n_missing:,} of {self.n:,} expected cases {verb} missing{listed}"
        return (
            f"{self.n_missing:,} of {self.n:,} cases of earlier runs {verb} missing{listed}; declare the expected "
            "cases in cases.jsonl, or their number as `extraction_cases` under [datasets.<id>] in eval-pipeline.toml"
        )


_EXPECTED = """
with asked as (
    select r.run_key, r.run_id, r.dataset_key, r.suite, r.ordered_at, d.dataset_id
    from ledger.runs_in_order r
    join raw.datasets d using (dataset_key)
    semi join (from raw.run_parts where part = 'extractions') p on p.run_key = r.run_key
    where $run_ids is null or r.run_id in (select unnest(cast($run_ids as varchar[])))
),
first_seen as (
    select r.dataset_key, r.suite, c.case_key, min((r.ordered_at, r.run_id)) as at
    from raw.extraction_cases c
    join ledger.runs_in_order r using (run_key)
    where r.dataset_key in (select dataset_key from asked)
    group by r.dataset_key, r.suite, c.case_key
),
expected as (
    select a.run_key, e.case_key, true as is_listed
    from asked a join ledger.expected_cases e using (dataset_key)
    union all
    select a.run_key, s.case_key, false as is_listed
    from asked a
    join first_seen s
        on s.dataset_key = a.dataset_key and s.suite is not distinct from a.suite
        and s.at < (a.ordered_at, a.run_id)
),
held as (
    select e.run_key, e.is_listed, i.case_id, c.case_key is null as is_missing
    from expected e
    join raw.case_ids i using (case_key)
    left join raw.extraction_cases c on c.run_key = e.run_key and c.case_key = e.case_key
),
counted as (
    select run_key,
        count(*) filter (where is_listed) as n_listed,
        list(case_id order by case_id) filter (where is_listed and is_missing) as missing,
        count(*) filter (where not is_listed) as n_earlier,
        list(case_id order by case_id) filter (where not is_listed and is_missing) as missing_of_earlier
    from held
    group by run_key
)
select a.run_id, a.dataset_id, (select count(*) from raw.extraction_cases c where c.run_key = a.run_key),
    coalesce(n.n_listed, 0), coalesce(n.missing, []), coalesce(n.n_earlier, 0), coalesce(n.missing_of_earlier, [])
from asked a
left join counted n on n.run_key = a.run_key
order by a.ordered_at, a.run_id
"""


def expected_cases(
    con: Connection, config: Config, run_ids: Collection[str] | None
) -> dict[str, ExpectedCases]:
    """Of every run that delivered extraction cases what it should hold: by the dataset's list, else by the number in
    eval-pipeline.toml, else by the runs of its suite before it."""
    rows = con.execute(_EXPECTED, {"run_ids": None if run_ids is None else list(run_ids)}).fetchall()
    found: dict[str, ExpectedCases] = {}
    for run_id, dataset, n_held, n_listed, missing, n_earlier, missing_of_earlier in rows:
        number = config.extraction_cases_of(dataset)
        if n_listed:
            found[run_id] = ExpectedCases(n_listed, missing, FILE)
        elif number is not None:
            found[run_id] = ExpectedCases(number, max(0, number - n_held), NUMBER)
        elif n_earlier:
            found[run_id] = ExpectedCases(n_earlier, missing_of_earlier, EARLIER)
        else:
            found[run_id] = ExpectedCases()
    return found


def held_cases(con: Connection, run_key: int) -> dict[str, bool] | None:
    """Every case of a run in its order, and whether it failed to run; None of a run that delivered no cases."""
    delivered = con.execute(
        "select 1 from raw.run_parts where run_key = ? and part = 'extractions'", [run_key]
    ).fetchall()
    if not delivered:
        return None
    return dict(
        con.execute(
            "select i.case_id, c.has_failed from raw.extraction_cases c join raw.case_ids i using (case_key) "
            "where c.run_key = ? order by c.row_no",
            [run_key],
        ).fetchall()
    )


def forget_what_is_expected(con: Connection, dataset: str, *, until: dt.datetime) -> int:
    """Forget what stands in the listed cases, of a list that was delivered until then; they stay expected."""
    n = con.execute(
        "update ledger.expected_cases set ground_truth_hash = '' where coalesce(ground_truth_hash, '') <> '' "
        "and dataset_key in (select dataset_key from raw.datasets where dataset_id = $dataset) "
        "and exists (from ledger.deliveries where part = $part and dataset_id = $dataset "
        "and superseded_at is null and delivered_at <= $until)",
        {"dataset": dataset, "part": CASES, "until": until},
    ).fetchall()
    return int(n[0][0])
