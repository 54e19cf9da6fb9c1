"""What to know of a range's deliveries: rows that were rejected, labels and ranks that look odd."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from eval_pipeline.pipeline.lint import Finding, all_findings
from eval_pipeline.store.connect import Connection

REASONS_NAMED = 3

Faults = Mapping[str, str]


def quarantined_rows(con: Connection, run_ids: Collection[str] | None) -> dict[str, dict[str, str]]:
    """Part → run → how many of its rows are in quarantine and why, the most frequent reason first."""
    rows = con.execute(_QUARANTINED, {"run_ids": None if run_ids is None else sorted(run_ids)}).fetchall()
    reasons: dict[tuple[str, str], list[tuple[str, int]]] = {}
    for part, run_id, reason, n in rows:
        reasons.setdefault((part, run_id), []).append((reason, n))
    found: dict[str, dict[str, str]] = {}
    for (part, run_id), counted in reasons.items():
        found.setdefault(part, {})[run_id] = _in_words(counted)
    return found


# Rows stand in the part whose bytes they came from; a part that was rejected as a whole is told by its name.
_QUARANTINED = """
select
    coalesce(
        p.part,
        nullif(regexp_extract(q.path, '(extractions|judge_spot_check|index_report)[.][^/]*$', 1), ''),
        'results'
    ) as part,
    q.run_id,
    coalesce(q.field || ': ', '') || q.reason as reason,
    count(*) as n
from ledger.quarantine q
left join raw.runs r on r.run_id = q.run_id
left join raw.run_parts p on p.run_key = r.run_key and p.content_hash = q.content_hash
where q.resolved_at is null and q.run_id is not null
    and ($run_ids is null or list_contains($run_ids, q.run_id))
group by 1, 2, 3
order by part, q.run_id, n desc, reason
"""


def _in_words(counted: list[tuple[str, int]]) -> str:
    total = sum(n for _, n in counted)
    named = "; ".join(f"{reason} ({n:,})" for reason, n in counted[:REASONS_NAMED])
    more = len(counted) - REASONS_NAMED
    rows = "1 row" if total == 1 else f"{total:,} rows"
    return f"{rows} in quarantine: {named}" + (f"; and {more:,} more reasons" if more > 0 else "")


def odd_labels(con: Connection, datasets: Collection[str] | None) -> Faults:
    """Dataset → what looks odd in its golden set."""
    found: dict[str, list[Finding]] = {}
    for finding in all_findings(con, datasets=None if datasets is None else sorted(datasets)):
        if finding.dataset is not None:
            found.setdefault(finding.dataset, []).append(finding)
    return {dataset: _findings_in_words(own) for dataset, own in found.items()}


def _findings_in_words(found: list[Finding]) -> str:
    named = "; ".join(f"{one.query_id!r} {one.words}" for one in found[:REASONS_NAMED])
    more = len(found) - REASONS_NAMED
    return named + (f"; and {more:,} more (`eval-pipeline status --lint`)" if more > 0 else "")
