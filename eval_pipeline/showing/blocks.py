"""The parts of a run's document about the whole run: speed, judge, extraction, indexing."""

# Numbers come from derived tables as they were computed; here they are only put into the document's form.

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from eval_pipeline.bundle.secrets import masked
from eval_pipeline.computing.derived import table_columns
from eval_pipeline.computing.history import (
    Point,
    Row,
    computed_parameters,
    delivered_rows,
    rows_at,
    run_file,
    still_stands,
)
from eval_pipeline.computing.judges import Setup, canaries, judgement_statuses, scorers
from eval_pipeline.config import Config
from eval_pipeline.documents import UNSET, UnsetType
from eval_pipeline.formulas.scores import PREFIX
from eval_pipeline.loading.cases import ExpectedCases
from eval_pipeline.metrics import EXTRACTION_FORMULA_VERSION
from eval_pipeline.records import LEXICAL_BASELINE
from eval_pipeline.showing.run_report import (
    Coverage,
    Extraction,
    ExtractionCase,
    FieldAccuracy,
    Indexing,
    JudgeCoverage,
    JudgeReliability,
    Latency,
    Performance,
    Rates,
    Tokens,
)
from eval_pipeline.showing.scores import Scorer, _judges_of_runs
from eval_pipeline.store.open import Connection, first_value
from eval_pipeline.store.project import Store
from eval_pipeline.store.runs import RunRow
from eval_pipeline.words import count, rounded

# What such a name stands for changes without notice, so that two runs under it cannot be compared.
MOVING_ALIAS = re.compile(
    r"(?:.*[-:@/_])?(?:latest|current|stable|default|main|master|head|nightly|preview)", re.IGNORECASE
)
NAMES = ("model", "version", "temperature", "prompt_version")
NOW = Point()
STAGES = ("folder_selection", "retrieval", "generation", "judge")
RATES = ("precision", "recall", "f1")
CASE_RATES = (*RATES, "recall_strict", "f1_strict")
CASE_COUNTS = ("true_positives", "false_positives", "false_negatives", "total_gt_fields", "correct_fields")
TOTALS = ("total_true_positives", "total_false_positives", "total_false_negatives", "eval_count")
OUTCOMES: Final = "facts.outcomes"
SPOT_CHECKS: Final = "facts.spot_checks"
# Of fewer pairs of scores κ says too little.
FEWEST_PAIRS: Final = 20
_HIGHEST_SCORE: Final = 5
_DELIVERED_SCORES: Final = "select first_score, second_score from raw.spot_checks where run_key = $run"
_SECOND_SCORES: Final = f"""
{_DELIVERED_SCORES}
union all
select v.score, p.score
from raw.judgements j
join facts.judgements p on p.run_key = j.run_key and p.judgement_no = j.judgement_no
join facts.verdicts v on v.run_key = j.run_key and v.query_key = j.query_key and v.ask = j.ask
where j.run_key = $run and j.purpose = 'spot_check'
"""
VERDICTS: Final = "facts.verdicts"
CASES: Final = "metrics.extraction"
VERSIONS = ("chunker_version", "embedding_model", "index_version")
COVERAGE = (
    *("docs_processed", "docs_with_0_chunks", "no_chunks_generated_rate", "chunks_attempted"),
    *("chunks_embedded", "chunks_skipped", "chunks_skipped_context_rate"),
)
# A judge whose spot check disagrees in more than this share is unstable (S2.28).
UNSTABLE_ABOVE: Final = 0.2


def judge_config_problems(config: Row | None, *, is_judged: bool) -> list[str]:
    """Short texts, each starting with the setting at fault; none where no judge is configured or was used.

    Whoever counts words in common is the same every night without a model and a temperature.
    """
    judge = (config or {}).get("judge")
    if (judge is None and not is_judged) or (judge or {}).get("version") == LEXICAL_BASELINE:
        return []
    return [problem for name in NAMES if (problem := _problem(name, (judge or {}).get(name)))]


def problems_of_setups(setups: Mapping[str, Setup]) -> list[str]:
    """Return the problems of the judges of these asks; a problem of some asks names them."""
    found: dict[str, list[str]] = {}
    judges = {ask: setup for ask, setup in setups.items() if not ask.startswith(PREFIX)}
    for ask, setup in judges.items():
        for problem in judge_config_problems({"judge": setup._asdict()}, is_judged=True):
            found.setdefault(problem, []).append(ask)
    return [
        problem if len(asks) == len(judges) else f"{problem} ({', '.join(asks)})"
        for problem, asks in found.items()
    ]


def _judge_problems(
    con: Connection, config: Config, runs: Mapping[int, tuple[str | None, Row | None, bool]]
) -> dict[int, list[str]]:
    """Run key → what is wrong with its judges, of runs with their suite, configuration and whether they were judged.

    Of a run with judgements it is those judges that count, and not what its run.json says.
    """
    known, changed = scorers(con, list(runs)), canaries(con, list(runs))
    found = {}
    for run_key, (suite, configured, is_judged) in runs.items():
        found[run_key] = (
            problems_of_setups({ask: one.setup for ask, one in known[run_key].items()})
            if any(one.judge for one in known.get(run_key, {}).values())
            else judge_config_problems(configured, is_judged=is_judged)
        )
        alarm = changed[run_key].problem(config.canary_alarm(suite)) if run_key in changed else None
        found[run_key] += [alarm] if alarm else []
    return found


def _problem(name: str, value: Any) -> str | None:
    if value is None or not str(value).strip():
        return f"{name} is missing"
    if name == "temperature":
        return None if value == 0 else f"temperature is {_as_said(value)}, not 0"
    if name == "version" and MOVING_ALIAS.fullmatch(value.strip()):
        return f"version {value!r} is a moving alias"
    return None


def _as_said(temperature: Any) -> str:
    return f"{temperature:g}" if isinstance(temperature, int | float) else str(temperature)


@dataclass(frozen=True)
class RunBlocks:
    """The parts of a run's document about the whole run; what is not known any more is undefined."""

    performance: Performance
    judge_coverage: JudgeCoverage
    judge_reliability: JudgeReliability
    judge_config_problems: list[str]
    judges: dict[str, Scorer] | UnsetType
    extraction: Extraction | None
    indexing: Indexing | None


def run_blocks(
    con: Connection,
    run: RunRow,
    point: Point = NOW,
    expected: ExpectedCases | None = None,
    config: Config | None = None,
) -> RunBlocks:
    """The blocks as they are or as they were; of the extraction also the cases that should be there."""
    judge = _only(rows_at(con, "aggregates.judge_summary", run, point))
    delivered = delivered_rows(con, run)
    document = run_file(con, run)
    asked = {run.run_key: (document.get("suite"), document.get("config"), judge.get("is_judged", False))}
    is_current = still_stands(con, VERDICTS, run, point)
    statuses = judgement_statuses(con, run) if is_current else {}
    judges = _judges_of_runs(con, [run.run_key]).get(run.run_key, {}) if is_current else {}
    return RunBlocks(
        performance=_performance(_only(rows_at(con, "aggregates.latency_summary", run, point)), judge),
        judge_coverage=JudgeCoverage(
            groundedness_n=judge.get("groundedness_n", 0),
            correctness_n=judge.get("correctness_n", 0),
            inconsistent_n=judge.get("inconsistent_n", 0),
            uncited_fives=_uncited_fives(con, run, point),
            judgements=statuses or UNSET,
        ),
        judge_reliability=_reliability(con, run, point, judge),
        judge_config_problems=_judge_problems(con, config or Config(), asked)[run.run_key],
        judges=judges or UNSET,
        extraction=_extraction(con, run, point, expected or ExpectedCases())
        if "extractions" in delivered
        else None,
        indexing=_indexing(con, run, point) if delivered.get("index_report") else None,
    )


def _reliability(con: Connection, run: RunRow, point: Point, judge: Row) -> JudgeReliability:
    """No table keeps κ: it is of the scores that stand there, and not said of a point with others."""
    n = judge.get("spot_check_n", 0)
    pairs_n = judge.get("spot_check_pairs") or n
    found = JudgeReliability(
        disagreement_rate=judge.get("disagreement_rate"),
        spot_check_n=n,
        spot_check_pairs=UNSET if pairs_n == n else pairs_n,
    )
    if pairs_n < FEWEST_PAIRS or not still_stands(con, SPOT_CHECKS, run, point):
        return found
    pairs = _second_scores(con, run)
    if len(pairs) < FEWEST_PAIRS:
        return found
    from eval_pipeline.stats import quadratic_kappa

    first, second = zip(*pairs, strict=True)
    kappa = quadratic_kappa(first, second, reach=_HIGHEST_SCORE)
    return msgspec.structs.replace(
        found, kappa=rounded(kappa.kappa), kappa_low=rounded(kappa.ci_low), kappa_high=rounded(kappa.ci_high)
    )


def _second_scores(con: Connection, run: RunRow) -> list[tuple[float, float]]:
    """The scores that a spot check holds beside each other, of answers that both sides scored."""
    statement = _SECOND_SCORES if table_columns(con, VERDICTS) else _DELIVERED_SCORES
    pairs = con.execute(statement, {"run": run.run_key}).fetchall()
    return [pair for pair in pairs if all(one is not None and 0 <= one <= _HIGHEST_SCORE for one in pair)]


def judge_lines(judges: Mapping[str, Scorer] | UnsetType) -> list[str]:
    """Return `groundedness: judge words, version 1, 89 scores` for every ask."""
    return [
        f"{ask}: {_in_words(entry)}" for ask, entry in (judges or {}).items() if not ask.startswith(PREFIX)
    ]


def _in_words(scorer: Scorer) -> str:
    known = msgspec.to_builtins(scorer).items()
    settings = [
        f"{name.replace('_', ' ')} {value}" for name, value in known if name != "n" and value is not None
    ]
    return ", ".join([*settings, count(scorer.n, "score")])


def kappa_words(reliability: JudgeReliability) -> str:
    """`, κ 0.82 (95 % from 0.60 to 0.95)`; nothing where there is none."""
    said = (reliability.kappa, reliability.kappa_low, reliability.kappa_high)
    known = [one for one in said if isinstance(one, float)]
    if len(known) < len(said):
        return ""
    kappa, low, high = known
    return f", κ {kappa:z.2f} (95 % from {low:z.2f} to {high:z.2f})"


def _uncited_fives(con: Connection, run: RunRow, point: Point) -> int | None:
    """Full scores for groundedness without one citation or reference of the answer, nor a context that a claim cites.

    An abstention needs none.

    No table keeps it: it is counted among the outcomes that stand there, and undefined at a point with others.
    """
    if not still_stands(con, OUTCOMES, run, point):
        return None
    if not table_columns(con, OUTCOMES):
        return 0
    judged = (
        f"(from {VERDICTS} where run_key = $1 and ask = 'groundedness' and status <> 'skipped')"
        if table_columns(con, VERDICTS)
        else "(select 0 as run_key, 0 as query_key, null as score, null as n_cited where false)"
    )
    n = first_value(
        con,
        f"select count(*) from (from {OUTCOMES} where run_key = $1) o left join {judged} v using (run_key, query_key) "
        f"where case when exists {judged} then v.score else groundedness_score end = 5 and has_answer "
        "and not is_error and not coalesce(is_abstained, false) and coalesce(v.n_cited, 0) = 0 "
        "and not exists (from raw.citations c where c.run_key = $1 and c.query_key = o.query_key) "
        'and not exists (from raw."references" r where r.run_key = $1 and r.query_key = o.query_key)',
        [run.run_key],
    )
    return int(n)


def _only(rows: Iterable[Row] | None) -> Row:
    return next(iter(rows or ()), {})


def _number_of(value: Any) -> int | float | None:
    """A number as JSON knows it: whole ones without a point, nothing for what is not finite."""
    if value is None or not math.isfinite(value):
        return None
    return int(value) if value == int(value) else float(value)


def _performance(latency: Row, judge: Row) -> Performance:
    return Performance(
        latency_ms=_latency(latency, "total"),
        latency_breakdown_ms={stage: _latency(latency, stage) for stage in STAGES},
        total_suite_ms=_number_of(latency.get("total_suite_ms")),
        judge_tokens=_number_of(judge.get("judge_tokens", 0)),
        judge_cost=judge.get("judge_cost"),
    )


def _latency(row: Row, stage: str) -> Latency:
    p50, p95, mean = (_number_of(row.get(f"{stage}_{name}_ms")) for name in ("p50", "p95", "mean"))
    return Latency(n=row.get(f"{stage}_n", 0), p50=p50, p95=p95, mean=mean)


def _extraction(con: Connection, run: RunRow, point: Point, expected: ExpectedCases) -> Extraction:
    """While a case that should be there is missing, no target is met or missed."""
    summary = _only(rows_at(con, "aggregates.extraction_summary", run, point))
    cases = rows_at(con, CASES, run, point) or []
    outcomes = rows_at(con, "facts.extraction_outcomes", run, point) or []
    fields = rows_at(con, "aggregates.field_accuracy", run, point) or []
    return Extraction(
        macro=_rates(summary, "macro"),
        micro=_rates(summary, "micro"),
        macro_strict=_rates(summary, "macro_strict"),
        micro_strict=_rates(summary, "micro_strict"),
        **{name: summary.get(name) for name in (*TOTALS, "target")},
        target_met=None if expected.in_words else summary.get("target_met"),
        cases={case["case_id"]: case_metrics(case) for case in cases if case["f1"] is not None},
        fields={
            row["field"]: FieldAccuracy(accuracy=row["accuracy"], n=row["n"])
            for row in sorted(fields, key=lambda row: str(row["field"]))
        },
        failed_cases=sorted(case["case_id"] for case in outcomes if case["has_failed"]),
        expected_cases=expected.n,
        missing_cases=expected.missing if isinstance(expected.missing, int) else list(expected.missing),
        expected_by=expected.said_by,
        missing_in_words=expected.in_words,
    )


def _rates(summary: Row, average: str) -> Rates:
    return Rates(**{rate: summary.get(f"{average}_{rate}") for rate in RATES})


def guide_version(store: Store, run: RunRow) -> str:
    """The version of the Metric Computation Guide that scored the run's cases; another reading of it says so.

    Of a run that none has scored yet: the one that would.
    """
    registry = store.definitions()
    would = registry.definitions[CASES].header.parameters if CASES in registry.definitions else {}
    policy = (computed_parameters(store.con, CASES, run) or would).get("fn_policy", "code")
    return EXTRACTION_FORMULA_VERSION + ("" if policy == "code" else f"+fn_policy={policy}")


def case_metrics(case: Row) -> ExtractionCase:
    """The metrics of one case, rounded as everything that is stored."""
    values: Row = {name: rounded(case[name]) for name in CASE_RATES}
    return ExtractionCase(**values, **{name: int(case[name]) for name in CASE_COUNTS})


def _indexing(con: Connection, run: RunRow, point: Point) -> Indexing:
    rows = rows_at(con, "aggregates.indexing_summary", run, point) or []
    whole = _coverage(_only(row for row in rows if row["doc_type"] is None))
    types = sorted((row for row in rows if row["doc_type"] is not None), key=lambda row: str(row["doc_type"]))
    return Indexing(
        **msgspec.structs.asdict(whole), by_doc_type={row["doc_type"]: _coverage(row) for row in types}
    )


def _coverage(row: Row) -> Coverage:
    reasons: Mapping[str, int] = row.get("skip_reasons") or {}
    low, high, mean, p95 = (_number_of(row.get(f"tokens_{name}")) for name in ("min", "max", "mean", "p95"))
    return Coverage(
        **{name: row.get(name) for name in COVERAGE},
        skip_reasons=dict(sorted(reasons.items())),
        tokens_per_chunk=Tokens(min=low, max=high, mean=mean, p95=p95),
        index_version_info=masked({name: row.get(name) for name in VERSIONS}),
    )
