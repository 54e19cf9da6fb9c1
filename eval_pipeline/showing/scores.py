"""Scores of judges and other tools: their names as metrics, and how many answers have them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Annotated, Final

import msgspec

from eval_pipeline.bundle.secrets import masked
from eval_pipeline.computing.derived import table_columns
from eval_pipeline.computing.history import Row
from eval_pipeline.computing.judges import Setup, scorers
from eval_pipeline.documents import UNSET, Document, Help, ScoreCoverage, UnsetType
from eval_pipeline.formulas.definition import Definition
from eval_pipeline.formulas.registry import Registry
from eval_pipeline.formulas.scores import DELIVERED_SCORES, PREFIX, Delivered, score_metric
from eval_pipeline.records import SCORED_ASKS
from eval_pipeline.store.open import Connection
from eval_pipeline.store.project import Store
from eval_pipeline.store.runs import RunRow
from eval_pipeline.words import common_value

_OF_JUDGES: Final = tuple(f"judge_{ask}" for ask in SCORED_ASKS)
_VERDICTS: Final = "facts.verdicts"
# Failed queries, empty answers and abstentions need no score, but a score that they have counts. If no result of the
# run has an answer, the scores are about its hits.
_NEEDED: Final = """
with results as (
    select s.query_key, s.is_failed, coalesce(r.abstained, r.judge_abstained, false) as is_abstained,
        r.has_answer and not coalesce(r.answer_is_blank, true) as is_answered
    from ledger.scored_results s join raw.results r using (run_key, query_key)
    where run_key = $run
),
given as (
    select query_key, metric, bool_or(is_scored) as is_scored, bool_or(is_skipped) as is_skipped
    from ({given}) as delivered(run_key, query_key, metric, is_scored, is_skipped)
    where run_key = $run and query_key is not null
    group by query_key, metric
),
metrics as (select metric from given group by metric having not bool_and(is_skipped))
select query_key, metric, coalesce(is_scored, false) as is_scored
from (from results cross join metrics) left join given using (query_key, metric)
where is_scored or not (is_failed or is_abstained or coalesce(is_skipped, false)
    or (not is_answered and (select bool_or(is_answered) from results)))
"""


class Scorer(Document, frozen=True, kw_only=True):
    """The judge, rater or program that gave scores of a run; null is not recorded."""

    judge: Annotated[str | UnsetType | None, Help("Only of judges: the name of the judge.")] = UNSET
    model: Annotated[str | None, Help("Its model.")]
    version: Annotated[str | None, Help("Its version.")]
    prompt_version: Annotated[str | UnsetType | None, Help("Only of judges: its prompt.")] = UNSET
    season: Annotated[str | UnsetType | None, Help("Only of judges: its season.")] = UNSET
    temperature: Annotated[float | str | UnsetType | None, Help("Only of judges: its temperature.")] = UNSET
    source: Annotated[str | UnsetType | None, Help("Only of others: `judge`, `human` or `code`.")] = UNSET
    n: Annotated[int, Help("How many scores it gave.")]


def metrics_of(store: Store, run_keys: Collection[int] | None = None) -> Registry:
    """The definitions, with the scores that these runs (without a word: all) have values of as metrics of their own.

    Whoever asks which metrics there are, and on which scale, asks here.
    """
    registry = store.definitions()
    by_name = next((one for one in registry if one.is_scored_by_name), None)
    if by_name is None:
        return registry
    return replace(registry, scores=_score_metrics(store, by_name, run_keys))


def _score_metrics(
    store: Store, by_name: Definition, run_keys: Collection[int] | None
) -> dict[str, Definition]:
    wanted = None if run_keys is None else list(run_keys)
    rows = store.con.execute(DELIVERED_SCORES, {"run_keys": wanted}).fetchall()
    found: dict[str, Delivered] = {}
    for _, name, *_, is_binary, has_numbers in rows:
        known = found.get(name, Delivered(is_binary=True, has_numbers=False))
        found[name] = Delivered(known.is_binary and is_binary, known.has_numbers or has_numbers)
    registry = store.definitions()
    return {PREFIX + name: score_metric(registry, by_name, name, of=of) for name, of in sorted(found.items())}


def _judges_of_runs(con: Connection, run_keys: Collection[int]) -> dict[int, dict[str, Scorer]]:
    """Return run → ask, or metric of a delivered score → the scorer that counts, if anything is recorded of it."""
    found: dict[int, dict[str, Scorer]] = {}
    for run_key, known in scorers(con, run_keys).items():
        for ask, scorer in known.items():
            setup = scorer.setup
            if ask.startswith(PREFIX) and setup == Setup():
                continue
            names = ("source",) if ask.startswith(PREFIX) else ("temperature", "prompt_version")
            settings = {name: getattr(setup, name) for name in ("model", "version", *names)}
            judge = {} if ask.startswith(PREFIX) else {"judge": scorer.judge, "season": scorer.season}
            found.setdefault(run_key, {})[ask] = Scorer(n=scorer.n, **settings, **judge)
    return found


def scored_configs(con: Connection, documents: Mapping[int, Row]) -> dict[int, Row]:
    """Return run → configuration of its run.json, but with the judges that score the run now; secrets masked."""
    known = _judges_of_runs(con, list(documents))
    return {
        run_key: masked(document.get("config") or {}) | _config_of_judges(known.get(run_key, {}))
        for run_key, document in documents.items()
    }


def _config_of_judges(known: Mapping[str, Scorer]) -> Row:
    judges = [scorer for ask, scorer in known.items() if not ask.startswith(PREFIX)]
    names = ("model", "version", "temperature", "prompt_version")
    settings = {name: common_value(getattr(scorer, name) for scorer in judges) for name in names}
    judge = {name: value for name, value in settings.items() if value is not None}
    return ({"judge": judge} if judges else {}) | ({"judges": msgspec.to_builtins(known)} if known else {})


def _unscored_of(store: Store, run: RunRow) -> dict[str, int]:
    """Metric → how many of the scores that were delivered under its name hold no number, where some do."""
    tables = [one.name for one in store.definitions() if one.is_scored_by_name]
    if not tables or not table_columns(store.con, tables[0]):
        return {}
    rows = store.con.execute(
        f"select metric, count(*) from {tables[0]} where run_key = ? and value is null group by metric order by metric",
        [run.run_key],
    ).fetchall()
    return dict(rows)


def needed_scores(con: Connection, formulas: Mapping[str, Definition]) -> str:
    """The statement for the scores that answers of `$run` need: query_key, metric, is_scored."""
    given = [
        f"select run_key, query_key, '{metric}', true, false from {one.name} where {metric} is not null"
        for metric, one in formulas.items()
        if metric in _OF_JUDGES and metric in table_columns(con, one.name)
    ]
    if given and table_columns(con, _VERDICTS):
        given.append(
            f"select run_key, query_key, 'judge_' || ask, false, status = 'skipped' from {_VERDICTS} "
            f"where 'judge_' || ask in {_OF_JUDGES}"
        )
    by_name = {one.name for metric, one in formulas.items() if metric.startswith(PREFIX)}
    given += [
        f"select run_key, query_key, metric, value is not null, false from {name}"
        for name in by_name
        if table_columns(con, name)
    ]
    return _NEEDED.format(given=" union all ".join(given or ["select 0, 0, '', true, true where false"]))


def score_coverage(store: Store, run_key: int) -> dict[str, ScoreCoverage]:
    """Metric → coverage, for the metrics for which answers of the run lack scores."""
    rows = store.con.execute(
        "select metric, count(*) filter (where is_scored), count(*) "
        f"from ({needed_scores(store.con, metrics_of(store, [run_key]).keys())}) "
        "group by metric having not bool_and(is_scored) order by metric",
        {"run": run_key},
    ).fetchall()
    return {metric: ScoreCoverage(scored=scored, needed=needed) for metric, scored, needed in rows}
