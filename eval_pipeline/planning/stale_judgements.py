"""Judgements of suites that today's prompt, model or season would ask otherwise, and their price."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from eval_pipeline.config import Config
from eval_pipeline.store.open import Connection
from eval_pipeline.store.project import Project

if TYPE_CHECKING:
    from eval_pipeline.evaluating.setup import Judge
    from eval_pipeline.planning.evaluate import PromptOf


@dataclass(frozen=True)
class StaleJudgements:
    """The runs, in run order, and the calls that judging them again would take; `usd` is None without a price."""

    runs: tuple[str, ...] = ()
    calls: int = 0
    usd: float | None = 0.0


# One request stands for all that was delivered with it: a delivery replaces them together.
_ASKED = """
with newest as (
    select o.run_id, o.ordered_at, r.suite, j.run_key, j.judge, j.ask, j.season, j.prompt_version, j.request
    from raw.judgements j
    join raw.runs r using (run_key)
    join ledger.runs_in_order o using (run_key)
    where r.suite is not null and list_contains($suites, r.suite) and j.purpose = 'main' and j.request is not null
        and ($run_ids is null or list_contains($run_ids, o.run_id))
        and ($since is null or o.ordered_at >= cast($since as timestamp))
    qualify row_number() over (partition by j.run_key, j.judge, j.ask, j.season order by j.judgement_no) = 1
)
select n.run_id, n.suite, n.judge, n.ask, n.season, n.prompt_version, t.text is not null,
    json_extract_string(t.text, '$.model')
from newest n
left join raw.judge_requests b on b.run_key = n.run_key and b.request = n.request
left join raw.texts t on t.text_key = b.body_key and json_valid(t.text)
order by n.ordered_at, n.run_id
"""


def _find_stale_judgements(
    project: Project, *, run_ids: Collection[str] | None = None, since: str | None = None
) -> StaleJudgements:
    """What is stale; of suites that are not configured nothing is known, and nothing is looked at."""
    config = project.definitions().config
    if not any(config.judges_of(suite) for suite in config.suites):
        return StaleJudgements()
    runs = _stale_runs(project, config, run_ids, since)
    if not runs:
        return StaleJudgements()
    from eval_pipeline.planning.rejudge import plan_rejudging

    planned = plan_rejudging(project, runs)
    return StaleJudgements(tuple(runs), planned.calls, planned.usd)


def _stale_runs(
    project: Project, config: Config, run_ids: Collection[str] | None, since: str | None
) -> list[str]:
    with project.read() as store:
        rows = _asked(store.con, config, run_ids, since)
    if not rows:
        return []
    from eval_pipeline.evaluating.setup import read_judge, unset
    from eval_pipeline.planning.evaluate import prompts_of

    prompt = prompts_of(config)
    judges = {
        name: read_judge(config, name, unset) for name in {row[2] for row in rows} if name in config.judges
    }
    of_cells: dict[tuple[str, str, str], list[Any]] = {}
    for run_id, suite, judge, ask, *asked in rows:
        if judge in judges and judge in config.judges_of(suite) and ask in judges[judge].asks:
            of_cells.setdefault((run_id, judge, ask), []).append(asked)
    stale = [
        run_id
        for (run_id, judge, ask), asked in of_cells.items()
        if not _is_as_today(asked, judges[judge], ask, prompt)
    ]
    return list(dict.fromkeys(stale))


def _asked(
    con: Connection, config: Config, run_ids: Collection[str] | None, since: str | None
) -> list[tuple[Any, ...]]:
    from eval_pipeline.bundle.parts import parse_day

    return con.execute(
        _ASKED,
        {
            "suites": sorted(config.suites),
            "run_ids": None if run_ids is None else sorted(run_ids),
            "since": None if since is None else parse_day(since).isoformat(),
        },
    ).fetchall()


def _is_as_today(asked: Iterable[Any], judge: Judge, ask: str, prompt: PromptOf) -> bool:
    """Whether one of the seasons is today's, and was asked by today's prompt and model."""
    return any(
        season == judge.season and version == prompt(ask).version and (not has_body or model == judge.model)
        for season, version, has_body, model in asked
    )
