"""The types of the documents of `status`, `plan` and `explain`, with what each field says."""

from __future__ import annotations

from typing import Annotated

import msgspec

from eval_pipeline.documents import UNSET, Document, Help, UnsetType

Number = float | None


class CellCounts(Document, frozen=True):
    """How many cells there are in each state; a cell is one derived table of one run, or one comparison."""

    fresh: Annotated[int, Help("As today's definitions make them from today's data.")] = 0
    stale: Annotated[int, Help("Made by another definition or from other data.")] = 0
    missing: Annotated[int, Help("Not computed yet.")] = 0
    pinned: Annotated[int, Help("Left on an older definition on purpose.")] = 0
    frozen: Annotated[int, Help("Never computed again, because the texts behind them were forgotten.")] = 0


class AssetStatus(Document, frozen=True):
    """A derived table, or the comparisons, and how many of its cells are in each state."""

    name: Annotated[str, Help("The table.")]
    version: Annotated[int, Help("The version of its definition.")]
    fingerprint: Annotated[str, Help("What its definition means, as a fingerprint.")]
    fresh: Annotated[int, Help("Cells as today's definition makes them from today's data.")] = 0
    stale: Annotated[int, Help("Cells made by another definition or from other data.")] = 0
    missing: Annotated[int, Help("Cells that are not computed yet.")] = 0
    pinned: Annotated[int, Help("Cells left on an older definition on purpose.")] = 0
    frozen: Annotated[
        int, Help("Cells that are never computed again, because their texts were forgotten.")
    ] = 0
    reasons: Annotated[dict[str, int], Help("Reason: how many cells are stale for it.")] = msgspec.field(
        default_factory=dict
    )


class StatusReport(Document, frozen=True):
    """What is fresh, stale or missing, and why."""

    format: Annotated[int, Help("The version of this form.")]
    runs: Annotated[int, Help("How many runs the store has.")]
    cells: Annotated[CellCounts, Help("The cells of all tables by state.")]
    assets: Annotated[list[AssetStatus], Help("Every derived table, and the comparisons last.")]
    waiting: Annotated[
        list[str], Help("Runs whose dataset has no golden set: they are scored by what needs no label.")
    ]
    frozen_runs: Annotated[list[str], Help("Runs with frozen cells.")]
    incomplete: Annotated[
        list[str], Help("Runs in which golden queries are without a result, and unfinished ones.")
    ]
    superseded: Annotated[dict[str, str], Help("Run: the run that replaces it.")]
    quarantined: Annotated[int, Help("How many delivered rows are in quarantine.")]
    warnings: Annotated[int, Help("How many warnings `status --lint` has about labels and ranks.")]
    failed: Annotated[
        dict[str, str], Help("Table that could not be computed: `failed: …`, with run, query and error.")
    ] = msgspec.field(default_factory=dict)
    implausible: Annotated[
        dict[str, str],
        Help("Run whose ids nothing knows: why its label metrics are not shown, and what to do."),
    ] = msgspec.field(default_factory=dict)
    judge_calls: Annotated[
        int,
        Help(
            "Judgements of suites that today's prompt, model or season would ask otherwise: calls of a judge."
        ),
    ] = 0
    usd: Annotated[Number, Help("About what these calls cost; null where a judge has no price.")] = 0.0
    judged_runs: Annotated[list[str], Help("The runs whose answers would be judged again, in run order.")] = (
        msgspec.field(default_factory=list)
    )
    unfinished: Annotated[
        dict[str, str | None],
        Help(
            "Run that `evaluate` has not brought to its end: the command that goes on; null where it was begun "
            "elsewhere."
        ),
    ] = msgspec.field(default_factory=dict)


class PlannedAsset(Document, frozen=True):
    """A derived table, or the comparisons, with cells to compute."""

    name: Annotated[str, Help("The table.")]
    cells: Annotated[int, Help("How many of its cells would be computed.")]
    reasons: Annotated[dict[str, int], Help("Reason: how many of these cells are stale for it.")]
    old_version: Annotated[
        int | None, Help("The version that most stored cells have; null where none is stored.")
    ]
    new_version: Annotated[int, Help("The version of today's definition.")]
    old_fingerprint: Annotated[
        str | None, Help("What that version meant, as a fingerprint; null where that is not known.")
    ]
    new_fingerprint: Annotated[str, Help("What today's definition means, as a fingerprint.")]
    diff: Annotated[
        str, Help("What changed in the definition itself; empty where only what it reads changed.")
    ]
    because: Annotated[
        str | None, Help("Which version of the product replaced which; null where that is not why.")
    ] = None


class Movement(Document, frozen=True):
    """A run's aggregate before and after."""

    old: Annotated[Number, Help("The stored value; null where it is undefined.")]
    new: Annotated[Number, Help("The value that it would have; null where it would be undefined.")]


class Quantiles(Document, frozen=True):
    """Where changes lie, among the queries that are defined before and after."""

    p0: Annotated[float, Help("The smallest change.")]
    p25: Annotated[float, Help("A quarter of the changes are at most this.")]
    p50: Annotated[float, Help("The median.")]
    p75: Annotated[float, Help("Three quarters of the changes are at most this.")]
    p100: Annotated[float, Help("The largest change.")]


class MetricPreview(Document, frozen=True):
    """What the plan would do to one metric."""

    unit: Annotated[str, Help("What is counted: `queries` or `cases`.")]
    changed_queries: Annotated[int, Help("How many would have another value.")]
    newly_defined: Annotated[int, Help("How many of them have no value now.")]
    newly_undefined: Annotated[int, Help("How many of them would have none any more.")]
    change_quantiles: Annotated[
        Quantiles | None, Help("Where the changes lie; null where none is defined before and after.")
    ]
    order_flips: Annotated[
        list[list[str]], Help("Neighbouring runs of a suite whose order by this metric would turn round.")
    ]
    runs: Annotated[dict[str, Movement], Help("Run: its aggregate before and after.")]


class Flip(Document, frozen=True, kw_only=True):
    """A verdict on two runs that would turn round."""

    run_a: Annotated[str, Help("The run that is compared with.")]
    run_b: Annotated[str, Help("The run that is judged.")]
    kind: Annotated[str, Help("`gate`, or `comparison` for one metric of a comparison.")]
    metric: Annotated[str | UnsetType, Help("Only of a comparison: the metric.")] = UNSET
    old: Annotated[str | None, Help("The verdict now; null where there is none.")]
    new: Annotated[str | None, Help("The verdict that it would be; null where there would be none.")]
    reasons: Annotated[list[str] | UnsetType, Help("Only of a gate: why the new verdict is no pass.")] = UNSET


class Verdicts(Document, frozen=True):
    """What of the newest pairs of runs would be decided otherwise."""

    pairs: Annotated[int, Help("How many pairs were looked at, the newest ones.")]
    of: Annotated[int, Help("How many pairs the plan touches.")]
    flips: Annotated[list[Flip], Help("The verdicts that would turn round.")]


class Offer(Document, frozen=True):
    """A formula that came with a later version of the product."""

    name: Annotated[str, Help("The formula.")]
    runs: Annotated[
        int, Help("How many runs from before could be computed by it, where somebody asks for it.")
    ]


class PlanReport(Document, frozen=True):
    """What is stale and why, and what computing it would cost and change."""

    format: Annotated[int, Help("The version of this form.")]
    cells: Annotated[int, Help("How many cells would be computed.")]
    runs: Annotated[list[str], Help("The runs with something to compute, in run order.")]
    estimated_seconds: Annotated[float, Help("About how long that takes.")]
    judge_calls: Annotated[
        int,
        Help(
            "How many calls of a judge it would take to judge again what prompt, model or season have changed of; "
            "`apply` makes them with `--judge` alone."
        ),
    ]
    warnings: Annotated[
        list[str], Help("What looks wrong, such as a changed meaning under the same version.")
    ]
    assets: Annotated[list[PlannedAsset], Help("The tables with cells to compute, and the comparisons last.")]
    preview: Annotated[
        dict[str, MetricPreview] | UnsetType, Help("Only with `--preview`: metric: what would happen to it.")
    ] = UNSET
    verdicts: Annotated[
        Verdicts | UnsetType, Help("Only with `--preview`: what would be decided otherwise.")
    ] = UNSET
    offered: Annotated[
        list[Offer], Help("Formulas that are new, computed for older runs only where somebody asks for it.")
    ] = msgspec.field(default_factory=list)
    sampled_runs: Annotated[
        list[str] | UnsetType, Help("Only with `--sample`: the runs that the preview looked at.")
    ] = UNSET
    usd: Annotated[Number, Help("About what the judge calls cost; null where a judge has no price.")] = 0.0
    judged_runs: Annotated[list[str], Help("The runs whose answers would be judged again, in run order.")] = (
        msgspec.field(default_factory=list)
    )


class ExplainedPoint(Document, frozen=True):
    """One of the two points that a movement lies between."""

    as_of: Annotated[str | None, Help("The point that was asked for; null for now.")]
    value: Annotated[float, Help("The value that stood there, unrounded.")]
    n: Annotated[int, Help("How many queries it is over.")]
    fingerprint: Annotated[str, Help("The definition it was made by, as a fingerprint.")]


class Contributor(Document, frozen=True):
    """A query that moves a term."""

    query_id: Annotated[str, Help("The query.")]
    term: Annotated[str, Help("`system`, `scorer`, `formula` or `labels`.")]
    change: Annotated[float, Help("What it adds to the term, unrounded.")]


class ExplainReport(Document, frozen=True):
    """Why a metric moved: terms that add up to the whole movement, unrounded."""

    format: Annotated[int, Help("The version of this form.")]
    metric: Annotated[str, Help("The metric.")]
    run_a: Annotated[str, Help("The first run.")]
    run_b: Annotated[
        str, Help("The second run; the same as the first where two points of time are asked about.")
    ]
    total: Annotated[float, Help("The whole movement.")]
    system: Annotated[
        Number,
        Help("Because of other results from the system; null if another scorer gave the scores of run B."),
    ]
    scorer: Annotated[
        float,
        Help(
            "Because of another judge or evaluator, or another configuration of it, together with the system: the "
            "first scorer did not score run B."
        ),
    ]
    formula: Annotated[float, Help("Because of another definition.")]
    labels: Annotated[float, Help("Because of other labels.")]
    data: Annotated[float, Help("Because the same run was delivered anew, or other archives.")]
    interaction: Annotated[float, Help("Because of their combination alone.")]
    a: Annotated[ExplainedPoint, Help("Where the movement begins.")]
    b: Annotated[ExplainedPoint, Help("Where it ends.")]
    contributors: Annotated[list[Contributor], Help("Per term the queries that move it most, at most ten.")]
    n_contributors: Annotated[dict[str, int], Help("Term: how many queries move it.")]
