"""The pictures of two runs side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from eval_pipeline.comparing.documents import BETTER, UNCLEAR, WORSE, CompareReport, QueryVerdict
from eval_pipeline.report.pages.figures import COLOURS, Chart, _altair, _specification_of
from eval_pipeline.report.pages.run_charts import _label_of, labels_of

NOT_FOUND: Final = "not found"
SAME: Final = "same"


@dataclass(frozen=True)
class Difference:
    """One metric's difference as it is drawn; `allowed` are the losses that the gate lets pass."""

    metric: str
    delta: float
    low: float | None
    high: float | None
    band: tuple[float, float] | None
    verdict: str
    allowed: tuple[float, float] | None = None


def forest_chart(differences: Sequence[Difference], *, name: str, title: str) -> Chart:
    """Differences with their intervals, beside what identical runs differ by."""
    alt = _altair()
    labels = labels_of([one.metric for one in differences])
    rows = [_forest_row(one, labels[one.metric]) for one in differences]
    base = alt.Chart(alt.Data(values=rows)).encode(
        y=alt.Y(
            "metric:N",
            title=None,
            sort=list(labels.values()),
            axis=alt.Axis(labelColor=COLOURS["ink"], grid=False),
        )
    )
    layers = _forest_layers(
        alt,
        base,
        has_bands=any(one.band for one in differences),
        has_gate=any(one.allowed for one in differences),
    )
    chart = alt.layer(*layers).properties(width=520, height={"step": 23})
    return Chart(name, title, _said(differences), _specification_of(chart))


def _forest_row(one: Difference, label: str) -> dict[str, str | float | None]:
    low, high = one.band or (None, None)
    lowest, highest = one.allowed or (None, None)
    return {
        "metric": label,
        "delta": one.delta,
        "low": one.delta if one.low is None else one.low,
        "high": one.delta if one.high is None else one.high,
        "bandlow": low,
        "bandhigh": high,
        "gatelow": lowest,
        "gatehigh": highest,
        "verdict": one.verdict,
    }


def _forest_layers(alt: Any, base: Any, *, has_bands: bool, has_gate: bool) -> list[Any]:
    """What the gate lets pass, the noise bands, the line of no difference, the intervals, the differences."""
    verdicts = [BETTER, WORSE, UNCLEAR]
    colour = _by(alt.Color, "verdict", verdicts, [COLOURS[name] for name in ("accent", "worse", "muted")])
    shape = _by(alt.Shape, "verdict", verdicts, ["triangle-up", "triangle-down", "circle"])
    span = alt.X("low:Q", title="change, with its 95 % interval", axis=alt.Axis(tickCount=6))
    zero = alt.Chart(alt.Data(values=[{"zero": 0}]))
    allowed = base.transform_filter("isValid(datum.gatelow)").mark_bar(
        filled=False, stroke=COLOURS["muted"], strokeWidth=1, strokeDash=[3, 2], height=20
    )
    bands = base.transform_filter("isValid(datum.bandlow)").mark_bar(color=COLOURS["soft"], height=14)
    return [
        *([bands.encode(x="bandlow:Q", x2="bandhigh:Q")] if has_bands else []),
        *([allowed.encode(x="gatelow:Q", x2="gatehigh:Q")] if has_gate else []),
        zero.mark_rule(color=COLOURS["ink"], strokeWidth=1).encode(x="zero:Q"),
        base.mark_rule(strokeWidth=2).encode(x=span, x2="high:Q", color=colour),
        base.mark_point(filled=True, size=90, opacity=1).encode(x="delta:Q", color=colour, shape=shape),
    ]


def _by(channel: Any, field: str, names: Sequence[str], looks: Sequence[str]) -> Any:
    """A look for each name, without a legend: the words beside a chart say what they mean."""
    return channel(f"{field}:N", scale={"domain": list(names), "range": list(looks)}, legend=None)


def _said(differences: Sequence[Difference]) -> str:
    parts = []
    for verdict in (BETTER, WORSE):
        named = [f"{one.metric} {one.delta:+.3f}" for one in differences if one.verdict == verdict]
        if named:
            parts.append(f"{verdict}: {', '.join(named)}")
    rest = sum(one.verdict == UNCLEAR for one in differences)
    if rest:
        parts.append(f"{rest} of {len(differences)} differences may be chance")
    return ("; ".join(parts) or "no difference") + "."


def rank_chart(document: CompareReport, ranks: int) -> Chart:
    """Where the first expected chunk stood in one run, and where it stands in the other."""
    alt = _altair()
    counts = rank_pairs(document.per_query)
    order = [*(str(rank) for rank in range(1, ranks + 1)), NOT_FOUND]
    rows = [
        {"a": _place(a), "b": _place(b), "n": n, "move": _move(a, b)}
        for (a, b), n in sorted(counts.items(), key=str)
    ]
    look = {"sort": order, "scale": {"domain": order}, "axis": {"labelAngle": 0, "grid": True}}
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("a:N", title=f"rank in {_label_of(document.run_a)}", **look),
        y=alt.Y("b:N", title=f"rank in {_label_of(document.run_b)}", **look),
    )
    moves = [BETTER, WORSE, SAME]
    bubbles = base.mark_circle(opacity=1).encode(
        size=alt.Size("n:Q", scale={"type": "sqrt", "range": [150, 900]}, legend=None),
        color=_by(alt.Color, "move", moves, [COLOURS[name] for name in ("accent", "worse", "soft")]),
    )
    numbers = base.mark_text(fontSize=11, fontWeight="bold").encode(
        text="n:Q", color=_by(alt.Color, "move", moves, [COLOURS[name] for name in ("paper", "paper", "ink")])
    )
    chart = alt.layer(bubbles, numbers).resolve_scale(color="independent")
    chart = chart.properties(width={"step": 38}, height={"step": 32})
    title = "Rank of the first expected chunk"
    return Chart("ranks", title, _moves_in_words(counts), _specification_of(chart))


def _moves_in_words(counts: Counter[tuple[int | None, int | None]]) -> str:
    same, better, worse = (
        sum(n for (a, b), n in counts.items() if _move(a, b) == move) for move in (SAME, BETTER, WORSE)
    )
    return (
        f"Of {sum(counts.values()):,} queries {better:,} moved up or were found anew, {worse:,} moved down or were "
        f"lost, {same:,} stayed where they were."
    )


def rank_pairs(per_query: Sequence[QueryVerdict]) -> Counter[tuple[int | None, int | None]]:
    """How many comparable queries went from which rank to which."""
    return Counter(
        (entry.a_hit_rank, entry.b_hit_rank)
        for entry in per_query
        if entry.kind not in ("not_applicable", "not_comparable")
    )


def _place(rank: int | None) -> str:
    return NOT_FOUND if rank is None else str(rank)


def _move(a: int | None, b: int | None) -> str:
    if a == b:
        return SAME
    return BETTER if a is None or (b is not None and b < a) else WORSE
