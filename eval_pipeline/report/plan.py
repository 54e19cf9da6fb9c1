"""A plan in words: the sentences that the terminal and a pull request share, and the Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import astuple

from eval_pipeline.documents import UNSET
from eval_pipeline.planning.reports import Flip, MetricPreview, PlannedAsset, PlanReport, StatusReport
from eval_pipeline.words import count, decimal, signed, usd

SHOWN_RUNS = 5
SHOWN_FLIPS = 10
SINGULAR = {"queries": "query", "cases": "case"}
IN_WORDS = {"not shown": "no significant change", None: "not judged"}


def as_markdown(plan: PlanReport) -> str:
    """The plan for a pull request."""
    judgements = [judgement_sentence(plan)] if plan.judged_runs else []
    if not plan.cells:
        return "\n\n".join([*(judgements or ["Nothing is stale."]), *offer_sentences(plan)]) + "\n"
    cells, runs = plan.cells, len(plan.runs)
    lines = [
        f"**{count(cells, 'cell')} of {count(runs, 'run')} {'is' if cells == 1 else 'are'} stale**, "
        f"about {plan.estimated_seconds:.1f} s to compute, {count(plan.judge_calls, 'judge call')}.",
        "",
        "| table | cells | why | version |",
        "|---|---:|---|---|",
    ]
    for asset in plan.assets:
        why = ", ".join(f"{n:,} {reason}" for reason, n in asset.reasons.items())
        lines.append(f"| `{asset.name}` | {asset.cells:,} | {why} | {versions(asset)} |")
    lines += [f"\n{sentence}" for sentence in [*because_sentences(plan), *judgements]]
    if plan.preview is not UNSET:
        lines += _preview_lines(plan)
    for asset in plan.assets:
        if asset.diff:
            lines += ["", "```diff", asset.diff.rstrip(), "```"]
    lines += [f"\n{sentence}" for sentence in offer_sentences(plan)]
    lines += [f"\n> {warning}" for warning in plan.warnings]
    return "\n".join(lines) + "\n"


def versions(asset: PlannedAsset) -> str:
    """From which version to which; one where the definition itself is as it was."""
    old, new = asset.old_version, asset.new_version
    if old == new and not asset.diff:
        return f"v{new}"
    return f"v{old or '–'} → v{new}"


def judgement_sentence(found: PlanReport | StatusReport) -> str:
    """What judging again would take, and how it is asked for."""
    runs = found.judged_runs
    shown = ", ".join(runs[:SHOWN_RUNS]) + (", …" if len(runs) > SHOWN_RUNS else "")
    return (
        f"Judged by another prompt, model or season than today's: {count(len(runs), 'run')} ({shown}). Judging again "
        f"takes {count(found.judge_calls, 'judge call')}, about {usd(found.usd)}: `eval-pipeline apply --judge` asks, "
        "nothing else does."
    )


def because_sentences(plan: PlanReport) -> Iterator[str]:
    """What is stale because another version of the product came."""
    tables: dict[str, list[str]] = {}
    for asset in plan.assets:
        if asset.because:
            tables.setdefault(asset.because, []).append(asset.name)
    for because, names in tables.items():
        yield f"{', '.join(names)}: because {because}."


def offer_sentences(plan: PlanReport) -> Iterator[str]:
    """What is new, and computed for older runs where somebody asks for it."""
    for one in plan.offered:
        yield (
            f"{one.name} is new: it is computed for new runs, and for the {count(one.runs, 'run')} from before "
            f"by `eval-pipeline apply --only {one.name}`."
        )


def changed_metrics(plan: PlanReport) -> dict[str, MetricPreview]:
    """The metric keys that would change, and how."""
    return {key: entry for key, entry in (plan.preview or {}).items() if entry.changed_queries}


def unchanged_sentence(plan: PlanReport) -> str:
    """The metric keys that were computed anew and would stay what they are; empty when there are none."""
    same = [key for key, entry in (plan.preview or {}).items() if not entry.changed_queries]
    return f"Nothing changes in {', '.join(same)}." if same else ""


def sample_sentence(plan: PlanReport) -> str:
    """Which runs the preview looked at, where that is not all of them."""
    sampled = plan.sampled_runs
    if sampled is UNSET:
        return ""
    return (
        f"Preview of the newest {count(len(sampled), 'run')} only, of {len(plan.runs):,}: {_listed(sampled)}."
    )


def what_changes(entry: MetricPreview) -> str:
    """How many queries or cases change, become defined or undefined."""
    n = count(entry.changed_queries, SINGULAR[entry.unit], plural=entry.unit)
    defined, undefined = entry.newly_defined, entry.newly_undefined
    return f"{n} would change, {defined:,} become defined, {undefined:,} become undefined"


def spread_sentence(entry: MetricPreview) -> str:
    """Where the changes lie; empty when nothing is defined before and after."""
    spread = entry.change_quantiles
    if not spread:
        return ""
    if spread.p0 == spread.p100:
        return f"each by {signed(spread.p0)}"
    least, lower, median, upper, most = (signed(change) for change in astuple(spread))
    return f"changes from {least} over {median} (median; half of them between {lower} and {upper}) to {most}"


def order_sentences(entry: MetricPreview) -> Iterator[str]:
    """The neighbouring runs whose order turns round."""
    flips = entry.order_flips
    for first, second in flips[:SHOWN_FLIPS]:
        yield f"the order of {first} and {second} turns round"
    if len(flips) > SHOWN_FLIPS:
        yield f"… and that of {len(flips) - SHOWN_FLIPS:,} more pairs of neighbours"


def verdict_sentences(plan: PlanReport) -> Iterator[str]:
    """Gates and comparisons that would be decided otherwise, and how many were looked at."""
    verdicts = plan.verdicts
    if not verdicts or not verdicts.pairs:
        return
    for flip in verdicts.flips:
        yield _flip_sentence(flip)
    looked_at = f"the newest {verdicts.pairs:,} of {verdicts.of:,} pairs of runs"
    if verdicts.pairs == verdicts.of:
        looked_at = count(verdicts.pairs, "pair") + " of runs"
    yield f"{'Looked at' if verdicts.flips else 'No verdict turns round in'} {looked_at}."


def _flip_sentence(flip: Flip) -> str:
    old, new = (IN_WORDS.get(verdict, verdict) for verdict in (flip.old, flip.new))
    if flip.kind == "gate":
        why = f" ({flip.reasons[0]})" if flip.reasons else ""
        return f"the gate of {flip.run_b} against {flip.run_a}: {old} → {new}{why}"
    return f"{flip.metric} from {flip.run_a} to {flip.run_b}: {old} → {new}"


def _preview_lines(plan: PlanReport) -> list[str]:
    lines = ["", *([sample_sentence(plan), ""] if plan.sampled_runs is not UNSET else [])]
    for key, entry in changed_metrics(plan).items():
        spread = spread_sentence(entry)
        lines += [f"**{key}**: {what_changes(entry)}{f'; {spread}' if spread else ''}.", ""]
        moved = moved_runs(entry)
        if moved:
            lines += ["| run | old | new |", "|---|---:|---:|"]
            lines += [f"| {run} | {_number(old)} | {_number(new)} |" for run, old, new in moved[-SHOWN_RUNS:]]
            if len(moved) > SHOWN_RUNS:
                lines.append(f"| … {len(moved) - SHOWN_RUNS:,} earlier | | |")
            lines.append("")
        lines += [f"- {sentence}" for sentence in order_sentences(entry)]
    lines += [unchanged_sentence(plan), ""] if unchanged_sentence(plan) else []
    return lines + [f"- {sentence}" for sentence in verdict_sentences(plan)]


def moved_runs(entry: MetricPreview) -> list[tuple[str, float | None, float | None]]:
    """The runs whose aggregate would be another, in run order."""
    return [(run, v.old, v.new) for run, v in entry.runs.items() if v.old != v.new]


def _number(value: float | None) -> str:
    return "–" if value is None else decimal(value)


def _listed(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= SHOWN_RUNS else f"{names[0]} … {names[-1]}"
