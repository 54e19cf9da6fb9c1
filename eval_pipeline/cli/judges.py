"""eval-pipeline judges"""

from __future__ import annotations

import shlex
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from eval_pipeline.cli.asking import not_finished, progress_line
from eval_pipeline.cli.options import as_json, with_store
from eval_pipeline.cli.output import number, print_json, print_line, say, table
from eval_pipeline.errors import UsageError
from eval_pipeline.report.pages.html import in_line
from eval_pipeline.words import count, rounded_usd, usd

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from eval_pipeline.config import Config
    from eval_pipeline.evaluating.executor import Counts
    from eval_pipeline.evaluating.known import JudgeCheck
    from eval_pipeline.planning.asking_reports import JudgeCheckReport, JudgeSetup, TriedAnswer
    from eval_pipeline.store.project import Project


@click.command("judges")
@click.argument("judge", required=False, metavar="[JUDGE]")
@click.option(
    "--try", "tries", is_flag=True, help="Ask it once: the answer as it came, the score, the price."
)
@click.option("--check", is_flag=True, help="Hold it against forty answers whose judgement is known.")
@with_store
@as_json
def command(judge: str | None, tries: bool, check: bool, project: Project, as_json: bool) -> None:
    """Show the judges of eval-pipeline.toml, and which variables of the environment they lack.

    --try and --check really ask: JUDGE may be left out where there is only one. --check asks for what is not kept
    already, and says how often the judge is right, Cohen's κ with quadratic weights, what could not be read, and what
    it cost.
    """
    from eval_pipeline.config import load_config

    config = load_config(project.settings.config)
    if not tries and not check:
        _show(config, judge, as_json=as_json)
        return
    if tries and check:
        raise UsageError("--try asks once, --check forty times: give one of them")
    named = judge or _only(config)
    if tries:
        _try(project, config, named, as_json=as_json)
    else:
        _check(project, config, named, as_json=as_json)


def _only(config: Config) -> str:
    if len(config.judges) != 1:
        raise UsageError(f"name the judge; there is: {', '.join(config.judges) or 'none yet'}")
    return next(iter(config.judges))


def _show(config: Config, judge: str | None, *, as_json: bool) -> None:
    from eval_pipeline.planning.asking_reports import JudgesReport

    found = [_setup(config, name) for name in ([judge] if judge else config.judges)]
    if as_json:
        print_json(JudgesReport(format=1, judges=found))
        return
    if not found:
        print_line("There is no judge yet: [judges.NAME] in eval-pipeline.toml says who judges.")
        return
    rows = [(one.judge, one.kind, one.model, one.season, ", ".join(one.asks)) for one in found]
    table(["judge", "kind", "model", "season", "asks"], rows)
    for one in found:
        for name in one.missing:
            say(f"{one.judge} wants the variable {name}, which is not set: export {name}=…")


def _setup(config: Config, name: str) -> JudgeSetup:
    from eval_pipeline.evaluating.setup import missing_variables, read_judge, unset
    from eval_pipeline.planning.asking_reports import JudgeSetup, TokenPrice
    from eval_pipeline.settings import variable

    # The set-up is shown also where a variable is missing.
    one = read_judge(config, name, unset)
    return JudgeSetup(
        judge=name,
        kind=one.kind,
        model=one.model,
        version=one.version,
        season=one.season,
        asks=list(one.asks),
        endpoint=one.identity,
        price_per_1m=None if one.price is None else TokenPrice(**vars(one.price)),
        missing=missing_variables(config, name, variable),
    )


def _try(project: Project, config: Config, name: str, *, as_json: bool) -> None:
    from eval_pipeline.evaluating.executor import interruptible
    from eval_pipeline.evaluating.known import try_judge
    from eval_pipeline.evaluating.setup import read_judge
    from eval_pipeline.planning.asking_reports import JudgeTrial
    from eval_pipeline.planning.evaluate import open_calls, prompts_of
    from eval_pipeline.settings import variable

    judge = read_judge(config, name, variable)
    with interruptible() as stop, open_calls(project) as calls:
        rows, counts = try_judge(calls, judge, prompts_of(config), clock=project.clock, stop=stop)
    tried = [_tried(row) for row in rows]
    if as_json:
        print_json(JudgeTrial(format=1, judge=name, answers=tried))
    for one in [] if as_json else tried:
        print_line(one.raw or f"error: {one.reason}")
        print_line(f"{one.status}: {_said(one)}; {_costs(one)}")
    _end_where_stopped(counts, ["judges", name, "--try"])


def _tried(row: Mapping[str, Any]) -> TriedAnswer:
    """The answer as it came, with what is read in it and what would be right."""
    from eval_pipeline.evaluating.known import known_answers
    from eval_pipeline.formulas.polars.facts.judgements import parse_judgement
    from eval_pipeline.planning.asking_reports import Tokens, TriedAnswer

    parsed = parse_judgement(row["ask"], row["raw"])
    known = (one for one in known_answers() if one.material.query_id == row["query_id"])
    cost = row["usd"]
    return TriedAnswer(
        ask=row["ask"],
        status=parsed.status,
        score=parsed.score if parsed.verdict is None else float(parsed.verdict),
        right=next((one.right for one in known if one.ask == row["ask"]), None),
        raw=row["raw"],
        reason=row.get("reason"),
        model=row["model"],
        fingerprint=row["fingerprint"],
        prompt_version=row["prompt_version"],
        usage=None if row["usage"] is None else Tokens(**row["usage"]),
        usd=None if cost is None else rounded_usd(cost),
        latency_ms=row["latency_ms"],
    )


def _said(one: TriedAnswer) -> str:
    said = "nothing that could be read" if one.score is None else f"{one.score:g}"
    return said if one.right is None else f"{said}, where {one.right:g} is right"


def _costs(one: TriedAnswer) -> str:
    if one.usage is None or one.usage.prompt is None:
        return "no tokens reported"
    price = "" if one.usd is None else f", {usd(one.usd)}"
    return f"{one.usage.prompt:,} tokens in, {one.usage.completion or 0:,} out{price}"


def _check(project: Project, config: Config, name: str, *, as_json: bool) -> None:
    from eval_pipeline.evaluating.executor import interruptible
    from eval_pipeline.evaluating.known import check_judge
    from eval_pipeline.evaluating.setup import read_judge
    from eval_pipeline.planning.evaluate import open_calls, prompts_of
    from eval_pipeline.settings import variable

    judge = read_judge(config, name, variable)
    with interruptible() as stop, open_calls(project) as calls, progress_line() as tell:
        found = check_judge(
            calls,
            judge,
            prompts_of(config),
            clock=project.clock,
            stop=stop,
            progress=tell and (lambda progress: tell("judging", progress)),
        )
    if as_json:
        print_json(_check_document(found))
    else:
        _print_check(found)
    _end_where_stopped(found.counts, ["judges", name, "--check"])


def _check_document(found: JudgeCheck) -> JudgeCheckReport:
    import msgspec

    from eval_pipeline.planning.asking_reports import JudgeCheckReport

    said = {name: value for name, value in asdict(found).items() if name != "counts"}
    return msgspec.convert({"format": 1, **said}, JudgeCheckReport)


def _print_check(found: JudgeCheck) -> None:
    rows = [
        (
            one.ask,
            f"{one.judged} of {one.n}",
            _share(one.exact),
            _share(one.within_one),
            number(one.kappa),
            one.kappa_reason if one.kappa is None else f"[{number(one.kappa_low)}, {number(one.kappa_high)}]",
        )
        for one in [*found.asks, found.scores, found.verdicts]
        if one.n
    ]
    table(["ask", "judged", "exact", "within 1", "κ", "95 %"], rows, numbers=["exact", "within 1", "κ"])
    statuses = ", ".join(f"{n} {status}" for status, n in found.statuses.items())
    print_line(f"Read: {statuses or 'nothing'}.")
    print_line(f"{found.cached:,} kept, {found.asked:,} asked now: {usd(found.usd)}.")
    for one in found.wrong[:5]:
        print_line(
            in_line(f"  {one['query_id']} ({one['ask']}): {one['said']:g}, where {one['right']:g} is right")
        )
    if len(found.wrong) > 5:
        print_line(f"  and {count(len(found.wrong) - 5, 'other')}")


def _share(value: float | None) -> str:
    return "—" if value is None else f"{value:.0%}"


def _end_where_stopped(counts: Counts, words: list[str]) -> None:
    why = counts.stopped.text if counts.stopped else next(iter(counts.failed.values()), None)
    if why is not None:
        raise not_finished(why, shlex.join(["eval-pipeline", *words]))
