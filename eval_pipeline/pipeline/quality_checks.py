"""Checks of what a range of runs says about itself: the judge, the target of extraction, labels gone stale.

Nothing here is wrong with the numbers; each is something to know before believing them.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Final

from eval_pipeline.formulas.registry import Registry
from eval_pipeline.pipeline.judge_config import judge_config_problems
from eval_pipeline.pipeline.run_checks import Faults
from eval_pipeline.store.connect import Connection
from eval_pipeline.store.derived import table_columns
from eval_pipeline.store.run_labels import stale_label_counts

JUDGE: Final = "aggregates.judge_summary"
EXTRACTION: Final = "aggregates.extraction_summary"
# More than this share of a spot check disagreeing is an unstable judge (S2.28); a whole number of hundredths is exact.
UNSTABLE_ABOVE_PERCENT: Final = 20


def badly_configured_judges(con: Connection, registry: Registry, run_ids: Collection[str] | None) -> Faults:
    """Runs whose judge is not pinned to one model, prompt and temperature 0 (S2.16)."""
    if not table_columns(con, JUDGE):
        return {}
    rows = con.execute(_JUDGES, {"run_ids": asked(run_ids)}).fetchall()
    found = {
        run_id: judge_config_problems(json.loads(document).get("config"), is_judged=is_judged)
        for run_id, document, is_judged in rows
    }
    return {run_id: "; ".join(problems) for run_id, problems in found.items() if problems}


_JUDGES = """
select r.run_id, r.document, j.is_judged
from aggregates.judge_summary j
join raw.runs r using (run_key)
where $run_ids is null or list_contains($run_ids, r.run_id)
order by r.run_id
"""


def unstable_judges(con: Connection, registry: Registry, run_ids: Collection[str] | None) -> Faults:
    """Runs whose spot check disagrees with the judge too often (S2.28)."""
    if not table_columns(con, JUDGE):
        return {}
    rows = con.execute(
        _UNSTABLE, {"run_ids": asked(run_ids), "most_percent": UNSTABLE_ABOVE_PERCENT}
    ).fetchall()
    return {
        run_id: f"{disagreeing} of {pairs} re-judged items disagree, which is more than {UNSTABLE_ABOVE_PERCENT} %"
        for run_id, disagreeing, pairs in rows
    }


_UNSTABLE = """
select r.run_id, j.n_disagreeing, j.spot_check_n
from aggregates.judge_summary j
join raw.runs r using (run_key)
where ($run_ids is null or list_contains($run_ids, r.run_id)) and j.n_disagreeing * 100 > j.spot_check_n * $most_percent
order by r.run_id
"""


def missed_extraction_targets(con: Connection, registry: Registry, run_ids: Collection[str] | None) -> Faults:
    """Runs whose extraction does not reach its target, held against the unrounded macro F1 (S1.17)."""
    if not table_columns(con, EXTRACTION):
        return {}
    rows = con.execute(_MISSED, {"run_ids": asked(run_ids)}).fetchall()
    return {
        run_id: _missed(f1, n, target=target) if n else "no case was scored" for run_id, f1, n, target in rows
    }


def _missed(f1: float, n: int, *, target: float) -> str:
    cases = "1 case" if n == 1 else f"{n:,} cases"
    return f"macro F1 {f1:.4f} over {cases} does not reach {target:g} before rounding"


_MISSED = """
select r.run_id, e.macro_f1, e.eval_count, e.target
from aggregates.extraction_summary e
join raw.runs r using (run_key)
where ($run_ids is null or list_contains($run_ids, r.run_id)) and not e.target_met
order by r.run_id
"""


def stale_labels(con: Connection, run_ids: Collection[str] | None) -> Faults:
    """Runs whose golden set expects chunks that the newest inventory of their chunker does not have (A3.23)."""
    counts = stale_label_counts(con, asked(run_ids))
    return {
        run_id: f"{n} expected chunk {'id is' if n == 1 else 'ids are'} not in the inventory of {chunker!r}"
        for run_id, chunker, n in counts
    }


def asked(run_ids: Collection[str] | None) -> list[str] | None:
    return None if run_ids is None else sorted(run_ids)
