"""The types of the documents of `evaluate`, `rejudge`, `judges` and `calls`."""

from __future__ import annotations

from typing import Annotated

import msgspec

from eval_pipeline.documents import UNSET, Document, Help, UnsetType

Format = Annotated[int, Help("The version of this form.")]
State = Annotated[str, Help("`complete`, or `incomplete` where something stopped it.")]
Stopped = Annotated[str | None, Help("Why it stopped; null where it came to its end.")]
TargetCalls = Annotated[int, Help("Calls of the target that were answered or came to nothing.")]
JudgeCalls = Annotated[int, Help("Calls of judges that were answered or came to nothing.")]
Cached = Annotated[int, Help("Judgements that had been paid before.")]
Failed = Annotated[int, Help("Calls and replies that came to nothing.")]
Uncertain = Annotated[int, Help("Calls that were under way when a process ended: they may be paid twice.")]
Paid = Annotated[float, Help("USD that this cost, as far as tokens and a price say so.")]
Waited = Annotated[float, Help("Seconds that were waited for because an endpoint asked for it.")]
Skipped = Annotated[
    dict[str, int], Help("Why nobody was asked for a judgement, such as `no context`: how many.")
]
DryRun = Annotated[bool, Help("True: nobody was asked.")]
Judge = Annotated[str, Help("The judge, by its name in eval-pipeline.toml.")]
Ask = Annotated[str, Help("What is asked, such as `groundedness`.")]


class Computed(Document, frozen=True):
    """What was computed afterwards."""

    runs: Annotated[list[str], Help("The runs.")]
    cells: Annotated[dict[str, int], Help("Table: how many of its cells.")]
    failed: Annotated[dict[str, str], Help("Table that could not be computed: why.")]


class AskedRun(Document, frozen=True):
    """What came of asking about one run; also `evaluation` of its run.json."""

    run_id: Annotated[str, Help("The run.")]
    state: State
    stopped: Stopped
    bundle: Annotated[str, Help("The folder of the bundle.")]
    target_calls: TargetCalls
    judge_calls: JudgeCalls
    cached: Cached
    failed: Failed
    uncertain: Uncertain
    usd: Paid
    waited_s: Waited


class EvaluateReport(Document, frozen=True):
    """What came of evaluating a suite; with repeats the sums of all of its runs."""

    format: Format
    run_id: Annotated[str, Help("The run, or the first of its repeats.")]
    state: State
    stopped: Stopped
    bundle: Annotated[str, Help("The folder of the run's bundle.")]
    target_calls: TargetCalls
    judge_calls: JudgeCalls
    cached: Cached
    failed: Failed
    uncertain: Uncertain
    usd: Paid
    waited_s: Waited
    repeats: Annotated[
        list[AskedRun] | UnsetType, Help("Only of a suite with repeats: each of its runs, the first as well.")
    ] = UNSET
    computed: Annotated[
        Computed | UnsetType | None,
        Help("Not with `--no-load`: what was computed; null where it did not come so far."),
    ] = UNSET
    skipped: Skipped = msgspec.field(default_factory=dict)


class EvaluatePlan(Document, frozen=True):
    """With `--dry-run`: the calls that evaluating a suite would make at most."""

    format: Format
    dry_run: DryRun
    run_id: Annotated[str, Help("The run that would be made or continued.")]
    target_calls: Annotated[int, Help("Calls of the target.")]
    judge_calls: Annotated[int, Help("Calls of judges, at most.")]
    cached: Annotated[int, Help("Judgements that are paid already.")]
    usd: Annotated[
        float | None, Help("About what they cost; null where nothing was asked yet that could say it.")
    ]
    most_usd: Annotated[
        float | None,
        Help(
            "The most that they cost: the budget, or what they cost where no answer with its passages is longer than "
            "8,000 bytes; null where a judge has no price."
        ),
    ]


class RejudgeReport(Document, frozen=True):
    """What came of judging stored answers again: the sums, and each run."""

    format: Format
    state: State
    stopped: Stopped
    target_calls: Annotated[int, Help("Always 0: no target is called.")]
    judge_calls: JudgeCalls
    cached: Cached
    failed: Failed
    uncertain: Uncertain
    usd: Paid
    waited_s: Waited
    runs: Annotated[list[AskedRun], Help("The runs in the order in which they were judged.")]
    computed: Annotated[Computed | None, Help("What was computed; null where no run was judged to its end.")]
    skipped: Skipped


class RejudgePlan(Document, frozen=True):
    """With `--dry-run`: the calls that judging again would take."""

    format: Format
    dry_run: DryRun
    runs: Annotated[list[str], Help("The runs that would be judged.")]
    target_calls: Annotated[int, Help("Always 0: no target is called.")]
    judge_calls: Annotated[int, Help("Calls of judges.")]
    cached: Annotated[int, Help("Judgements that are paid already.")]
    usd: Annotated[float | None, Help("About what they cost; null where a judge has no price.")]
    skipped: Skipped


class TokenPrice(Document, frozen=True):
    """USD for a million tokens."""

    prompt: Annotated[float, Help("Of what is sent.")]
    completion: Annotated[float, Help("Of what is answered.")]


class JudgeSetup(Document, frozen=True):
    """A judge as eval-pipeline.toml names it; no key is ever shown."""

    judge: Judge
    kind: Annotated[str, Help("`openai`, `anthropic`, `command`, `python` or `lexical-baseline`.")]
    model: Annotated[str | None, Help("The model; null where there is none.")]
    version: Annotated[str | None, Help("Its version, as far as one is said.")]
    season: Annotated[str | None, Help("The season that its requests belong to.")]
    asks: Annotated[list[str], Help("What it is asked.")]
    endpoint: Annotated[str, Help("Whom a request is known to go to.")]
    price_per_1m: Annotated[TokenPrice | None, Help("Its price; null where none is said.")]
    missing: Annotated[list[str], Help("Variables of the environment that it wants and that are not set.")]


class JudgesReport(Document, frozen=True):
    """The judges that there are."""

    format: Format
    judges: Annotated[list[JudgeSetup], Help("Each judge.")]


class Tokens(Document, frozen=True):
    """Tokens as the endpoint counts them; null where it does not say."""

    prompt: Annotated[int | None, Help("Of what was sent.")]
    completion: Annotated[int | None, Help("Of what was answered.")]


class TriedAnswer(Document, frozen=True):
    """An answer as it came, and what is read in it."""

    ask: Ask
    status: Annotated[str, Help("How it could be read: `ok`, `repaired`, `unparsed` and so on.")]
    score: Annotated[float | None, Help("What it says; yes and no are 1 and 0.")]
    right: Annotated[float | None, Help("What would be right.")]
    raw: Annotated[str | None, Help("The answer as it came; null where none came.")]
    reason: Annotated[str | None, Help("Why none came.")]
    model: Annotated[str | None, Help("The model that says to have answered.")]
    fingerprint: Annotated[str | None, Help("The fingerprint of the system that it names.")]
    prompt_version: Annotated[str, Help("The prompt, by its version.")]
    usage: Annotated[Tokens | None, Help("The tokens of the call.")]
    usd: Annotated[float | None, Help("What it cost; null without tokens or price.")]
    latency_ms: Annotated[float | None, Help("How long it took.")]


class JudgeTrial(Document, frozen=True):
    """With `--try`: one question, asked once."""

    format: Format
    judge: Judge
    answers: Annotated[list[TriedAnswer], Help("What came; two where the first could not be read.")]


class Agreement(Document, frozen=True):
    """How a judge does on answers whose judgement is known."""

    ask: Annotated[str, Help("What was asked; `scores` and `verdicts` are all of a kind together.")]
    n: Annotated[int, Help("How many answers are known.")]
    judged: Annotated[int, Help("How many of its judgements could be read.")]
    exact: Annotated[float | None, Help("The share of these that are right.")]
    within_one: Annotated[float | None, Help("The share that is at most one point off.")]
    kappa: Annotated[float | None, Help("Cohen's κ with quadratic weights; null where it says nothing.")]
    kappa_low: Annotated[float | None, Help("Where its 95 % interval begins.")]
    kappa_high: Annotated[float | None, Help("Where it ends.")]
    kappa_reason: Annotated[str | None, Help("Why there is no κ.")]


class WrongJudgement(Document, frozen=True):
    """A known answer that was judged otherwise."""

    query_id: Annotated[str, Help("The known answer.")]
    ask: Ask
    right: Annotated[float, Help("What is right.")]
    said: Annotated[float, Help("What the judge said.")]


class JudgeCheckReport(Document, frozen=True):
    """With `--check`: a judge held against answers whose judgement is known."""

    format: Format
    judge: Judge
    asks: Annotated[list[Agreement], Help("What it is asked, one by one.")]
    scores: Annotated[Agreement, Help("Groundedness and correctness together.")]
    verdicts: Annotated[Agreement, Help("Abstention and conflict together.")]
    statuses: Annotated[dict[str, int], Help("How its answers could be read: how many.")]
    usd: Annotated[float | None, Help("What was asked now cost; null without tokens or price.")]
    wrong: Annotated[list[WrongJudgement], Help("What it judged otherwise.")]
    asked: Annotated[int, Help("How many of its answers were asked for now.")]
    cached: Annotated[int, Help("How many were kept from before.")]


class PaidCalls(Document, frozen=True):
    """What was asked of somebody."""

    party: Annotated[str, Help("`target NAME` or `judge NAME`.")]
    answered: Annotated[int, Help("Calls with an answer.")]
    prompt_tokens: Annotated[int, Help("Tokens that were sent, as far as they were counted.")]
    completion_tokens: Annotated[int, Help("Tokens that were answered, as far as they were counted.")]
    usd: Annotated[float, Help("What they cost, as far as tokens and a price say so.")]
    failed: Annotated[int, Help("Calls that came to nothing.")]
    open_claims: Annotated[int, Help("Calls that are under way, or were when a process ended.")]
    uncertain: Uncertain


class FailedCall(Document, frozen=True):
    """A call that came to nothing."""

    request: Annotated[str, Help("What it is known by.")]
    party: Annotated[str, Help("`target NAME` or `judge NAME`.")]
    run_id: Annotated[str, Help("The run that asked.")]
    reason: Annotated[str, Help("Why it came to nothing.")]
    http_status: Annotated[int | None, Help("The status of the last reply; null where none came.")]
    attempts: Annotated[int, Help("How often it was tried.")]
    failed_at: Annotated[str, Help("When, in UTC.")]


class CallsReport(Document, frozen=True):
    """What was asked and paid."""

    format: Format
    run_id: Annotated[str | None, Help("The run that was asked about; null for all.")]
    calls: Annotated[list[PaidCalls], Help("By who was asked.")]
    failures: Annotated[list[FailedCall], Help("What came to nothing, newest first.")]


class PruneReport(Document, frozen=True):
    """With `--prune`: what was removed."""

    format: Format
    pruned: Annotated[int, Help("How many answers were removed.")]
