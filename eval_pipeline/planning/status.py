"""The state of every derived table and run, and of every pair of runs: fresh or not, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from eval_pipeline.comparing.pairs import PAIRS, VERSION, count_pairs, find_pairs, own_fingerprint
from eval_pipeline.computing.states import states_of_cells
from eval_pipeline.loading.deliveries import count_problems
from eval_pipeline.loading.lint import Finding, all_findings, count_findings
from eval_pipeline.planning.reports import AssetStatus, CellCounts, StatusReport
from eval_pipeline.planning.stale_judgements import _find_stale_judgements
from eval_pipeline.showing.plausibility import implausible_runs
from eval_pipeline.store.open import Connection, first_value
from eval_pipeline.store.project import Project
from eval_pipeline.store.runs import attempts
from eval_pipeline.words import failed_sentence

StateCount = tuple[str, str | None, int]
STATES = ("fresh", "stale", "missing", "pinned", "frozen")


def find_status(project: Project) -> StatusReport:
    """What is fresh, stale and missing of everything that there should be."""
    registry = project.definitions()
    with project.read() as store:
        states = states_of_cells(store)
        rows = states.counts()
        pairs = [(state, reason, 1) for state, reason in count_pairs(find_pairs(store, states))]
        runs = int(first_value(store.con, "select count(*) from raw.runs"))
        frozen = states.frozen_runs()
        failures = states.failures()
        known = attempts(store.con).values()
        warnings = count_findings(store.con)
        quarantined = count_problems(store.con)
        unknown = implausible_runs(store.con)
        unfinished = _unfinished(store.con)
    judgements = _find_stale_judgements(project)
    counted: dict[str, list[StateCount]] = {}
    for name, state, reason, n in rows:
        counted.setdefault(name, []).append((state, reason, n))
    assets = [
        _asset(one.name, one.header.version, one.fingerprint, counted.get(one.name, ())) for one in registry
    ]
    assets.append(_asset(PAIRS, VERSION, own_fingerprint(registry), pairs))
    return StatusReport(
        format=1,
        runs=runs,
        cells=CellCounts(**{state: sum(getattr(one, state) for one in assets) for state in STATES}),
        assets=assets,
        waiting=[run.run_id for run in known if not run.has_golden_set],
        frozen_runs=frozen,
        incomplete=[run.run_id for run in known if run.has_golden_set and not run.is_complete],
        superseded={run.run_id: run.superseded_by for run in known if run.superseded_by},
        quarantined=quarantined,
        warnings=warnings,
        failed={name: failed_sentence(failed) for name, failed in failures.items()},
        implausible={run.run_id: unknown[run.run_key].sentence for run in known if run.run_key in unknown},
        judge_calls=judgements.calls,
        usd=judgements.usd,
        judged_runs=list(judgements.runs),
        unfinished=_commands_that_go_on(project, unfinished),
    )


def _unfinished(con: Connection) -> list[str]:
    """The runs whose evaluation has not come to its end, in run order."""
    rows = con.execute(
        "select o.run_id from ledger.runs_in_order o join raw.runs r using (run_key) "
        "where r.evaluation_state = 'incomplete' order by o.ordered_at, o.run_id"
    ).fetchall()
    return [run_id for (run_id,) in rows]


def _commands_that_go_on(project: Project, run_ids: Sequence[str]) -> dict[str, str | None]:
    if not run_ids:
        return {}
    from eval_pipeline.planning.evaluate import _command_that_goes_on

    return {run_id: _command_that_goes_on(project, run_id) for run_id in run_ids}


def _asset(name: str, version: int, fingerprint: str, counted: Iterable[StateCount]) -> AssetStatus:
    cells: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    for state, reason, n in counted:
        cells[state] += n
        if reason and state == "stale":
            reasons[reason] += n
    return AssetStatus(
        name=name,
        version=version,
        fingerprint=fingerprint,
        **{state: cells[state] for state in STATES},
        reasons=dict(reasons),
    )


def find_lint(project: Project) -> list[Finding]:
    """What looks odd in the golden sets and in the runs, as `status --lint` shows it."""
    with project.read() as store:
        return list(all_findings(store.con))
