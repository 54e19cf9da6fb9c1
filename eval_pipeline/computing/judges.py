"""Who judged a run, what became of the answers, and whether a judge has changed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from eval_pipeline.bundle.secrets import masked
from eval_pipeline.computing.derived import table_columns
from eval_pipeline.formulas.scores import DELIVERED_SCORES
from eval_pipeline.formulas.scores import PREFIX as SCORE
from eval_pipeline.records import SCORED_ASKS
from eval_pipeline.store.open import Connection, first_value
from eval_pipeline.store.runs import RunRow
from eval_pipeline.words import common_value, count

_VERDICTS: Final = "facts.verdicts"
# Metrics that rest on a judge without bearing its name, where one was asked.
_ASK_OF: Final = {
    "abstention_accuracy": "abstention",
    "hallucination_rate_unanswerable": "abstention",
    "recency_conflict_ok": "conflict",
}
_PARSED: Final = "('ok', 'repaired')"


class Setup(NamedTuple):
    """The configuration of a judge or of another scorer. Scores of different configurations are not comparable.

    `judge` is a judge's name if no model is known.
    """

    model: Any = None
    version: Any = None
    temperature: Any = None
    prompt_version: Any = None
    judge: Any = None
    source: Any = None


class Scorer(NamedTuple):
    """The judge, rater or program whose scores count for a run; only judges have a name."""

    setup: Setup
    n: int
    judge: str | None = None
    season: str | None = None


def _has_judgements(con: Connection) -> bool:
    """Whether any run has judgements that were parsed: most stores hold none, and nothing more is asked of them."""
    return bool(first_value(con, "select 1 from ledger.judges_of_runs limit 1")) and bool(
        table_columns(con, _VERDICTS)
    )


# Of the settings of a run.json that speaks of the same model what a judgement does not say itself; all of them for asks
# of which a run with judgements has delivered scores alone.
_JUDGES: Final = f"""
select v.run_key, v.ask,
    list(distinct j.model order by j.model) filter (j.model is not null),
    list(distinct s.version order by s.version) filter (s.version is not null),
    list(distinct s.temperature order by s.temperature) filter (s.temperature is not null),
    list(distinct j.prompt_version order by j.prompt_version) filter (j.prompt_version is not null),
    list(distinct j.judge) filter (j.model is null),
    count(*) filter (v.status in {_PARSED}), any_value(j.judge), any_value(j.season)
from facts.verdicts v
join raw.judgements j on j.run_key = v.run_key and j.judgement_no = v.judgement_no
join raw.runs r on r.run_key = v.run_key
cross join lateral (
    select
        coalesce(j.version, case when r.judge_model = j.model then r.judge_version end) as version,
        coalesce(j.temperature, case when r.judge_model = j.model then r.judge_temperature end) as temperature
) s
where v.status <> 'skipped' and v.run_key in (select unnest($run_keys))
group by v.run_key, v.ask
union all
select r.run_key, d.ask, [r.judge_model], [r.judge_version], [r.judge_temperature], [r.judge_prompt_version], null,
    d.n, null, null
from (
    unpivot (
        select run_key, count(judge_groundedness) as groundedness, count(judge_correctness) as correctness
        from raw.results
        where run_key in (select run_key from facts.verdicts where status <> 'skipped')
            and run_key in (select unnest($run_keys))
        group by run_key
    ) on groundedness, correctness into name ask value n
) d
join raw.runs r on r.run_key = d.run_key
anti join facts.verdicts v on v.run_key = d.run_key and v.ask = d.ask and v.status <> 'skipped'
where d.n > 0
order by all
"""


def scorers(con: Connection, run_keys: Collection[int]) -> dict[int, dict[str, Scorer]]:
    """Return run → ask, or metric of a delivered score → the scorer that counts."""
    found: dict[int, dict[str, Scorer]] = {}
    rows = con.execute(_JUDGES, {"run_keys": list(run_keys)}).fetchall() if _has_judgements(con) else []
    for run_key, ask, *settings, n, judge, season in rows:
        setup = Setup(*masked(list(map(common_value, settings))))
        found.setdefault(run_key, {})[ask] = Scorer(setup, n, judge, season)
    rows = con.execute(DELIVERED_SCORES, {"run_keys": list(run_keys)}).fetchall() if run_keys else []
    for run_key, name, *settings, n, _, _ in rows:
        model, version, source = masked(list(map(common_value, settings)))
        setup = Setup(model=model, version=version, source=source)
        found.setdefault(run_key, {})[SCORE + name] = Scorer(setup, n)
    return found


def setups_of_run(delivered: Setup, known: Mapping[str, Scorer]) -> dict[str, Setup]:
    """Return ask → configuration; run.json's for asks without judgements."""
    return {**dict.fromkeys(SCORED_ASKS, delivered), **{ask: scorer.setup for ask, scorer in known.items()}}


def differing_asks(a: Mapping[str, Setup], b: Mapping[str, Setup]) -> list[str]:
    """Return the asks, and the delivered scores of both runs, whose scorers have different configurations."""
    return [
        ask
        for ask in dict.fromkeys([*a, *b])
        if a.get(ask) != b.get(ask) and (not ask.startswith(SCORE) or (ask in a and ask in b))
    ]


def asks_of(metric: str, differing: Sequence[str]) -> list[str]:
    """Those of these asks that stand behind a metric; a judge's own metric of none stands for all that it scores."""
    if metric.startswith(SCORE):
        return [ask for ask in differing if ask == metric]
    if not metric.startswith("judge_"):
        return [ask for ask in differing if _ASK_OF.get(metric) == ask]
    own = [ask for ask in SCORED_ASKS if metric.startswith(f"judge_{ask}")]
    return [ask for ask in differing if ask in (own or SCORED_ASKS)]


def judgement_statuses(con: Connection, run: RunRow) -> dict[str, dict[str, int]]:
    """Ask → status → how many of the judgements that score the run; with what was skipped stands why."""
    if not _has_judgements(con):
        return {}
    rows = con.execute(
        "select v.ask, v.status || case when v.status = 'skipped' and j.reason is not null "
        "then ' (' || j.reason || ')' else '' end as status, count(*) from facts.verdicts v "
        "join raw.judgements j on j.run_key = v.run_key and j.judgement_no = v.judgement_no "
        "semi join raw.results x on x.run_key = v.run_key and x.query_key = v.query_key "
        "where v.run_key = ? group by all order by v.ask, count(*) desc, status",
        [run.run_key],
    ).fetchall()
    found: dict[str, dict[str, int]] = {}
    for ask, status, n in rows:
        found.setdefault(ask, {})[status] = n
    return found


@dataclass(frozen=True)
class Canary:
    """The season's first answers judged once more: how many agree with what was said of them then."""

    n: int
    agreeing: int
    fingerprints: tuple[str, ...] = ()

    def problem(self, alarm: float) -> str | None:
        """Why the judge is not the one of the season's first night any more; None where it is."""
        if self.fingerprints:
            return (
                f"canary: answered by {self.fingerprints[1]}, at the season's first by {self.fingerprints[0]}"
            )
        if self.n and self.agreeing < (1 - alarm) * self.n:
            asked = count(self.n, "answer")
            return f"canary: {self.agreeing:,} of the season's first {asked} judged as then, under {1 - alarm:.0%}"
        return None


# Two verdicts agree as in a spot check (S2.26). The first answer is that of the first run of the season.
_CANARIES: Final = f"""
with asked as (
    select c.run_key, c.judgement_no, c.query_key, c.ask, c.judge, c.season, c.fingerprint, r.dataset_key,
        p.status, p.score, p.verdict
    from raw.judgements c
    join facts.judgements p on p.run_key = c.run_key and p.judgement_no = c.judgement_no
    join raw.runs r on r.run_key = c.run_key
    where c.purpose = 'canary' and c.run_key in (select unnest($run_keys))
),
firsts as (
    select m.query_key, m.ask, m.judge, m.season, m.fingerprint, o.dataset_key, p.score, p.verdict
    from raw.judgements m
    join facts.judgements p on p.run_key = m.run_key and p.judgement_no = m.judgement_no
    join ledger.runs_in_order o on o.run_key = m.run_key
    where m.purpose = 'main' and p.status in {_PARSED} and m.query_key in (select query_key from asked)
    qualify row_number() over (
        partition by o.dataset_key, m.query_key, m.ask, m.judge, m.season
        order by o.ordered_at, o.run_id, m.repeat, m.judgement_no
    ) = 1
)
select a.run_key,
    count(*) filter (a.status in {_PARSED}),
    count(*) filter (a.status in {_PARSED} and coalesce(abs(a.score - f.score) <= 1, a.verdict = f.verdict, false)),
    min((f.fingerprint, a.fingerprint)) filter (a.fingerprint <> f.fingerprint)
from asked a
join firsts f on f.dataset_key = a.dataset_key and f.query_key = a.query_key and f.ask = a.ask and f.judge = a.judge
    and f.season is not distinct from a.season
group by a.run_key
"""


def canaries(con: Connection, run_keys: Collection[int]) -> dict[int, Canary]:
    """Run → its canary, of those that have one."""
    if not run_keys or not _has_judgements(con):
        return {}
    rows = con.execute(_CANARIES, {"run_keys": list(run_keys)}).fetchall()
    return {run_key: Canary(n, agreeing, tuple(changed or ())) for run_key, n, agreeing, changed in rows}
