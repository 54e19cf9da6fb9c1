"""The pictures of two runs side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from eval_pipeline.report.figures import Chart, altair, specification_of
from eval_pipeline.report.movements import SIGNIFICANT
from eval_pipeline.report.run_charts import label_of
from eval_pipeline.report.svg import COLOURS

NOT_FOUND: Final = "not found"
BETTER: Final = "better"
WORSE: Final = "worse"
UNCLEAR: Final = "not shown"


@dataclass(frozen=True)
class Difference:
    """One metric's difference as it is drawn."""

    metric: str
    delta: float
    low: float | None
    high: float | None
    band: tuple[float, float] | None
    verdict: str


def verdict_of(delta: float | None, p_adjusted: float | None, direction: str, *, in_band: bool | None) -> str:
    """Better or worse, where the test says so after the adjustment and it is more than what moves by itself."""
    is_shown = delta and p_adjusted is not None and p_adjusted < SIGNIFICANT and not in_band
    if not is_shown or delta is None or direction == "none":
        return UNCLEAR
    return BETTER if (delta > 0) == (direction == "higher") else WORSE


def forest_chart(differences: Sequence[Difference], *, name: str, title: str) -> Chart:
    """Differences with their intervals, beside what identical runs differ by."""
    alt = altair()

    rows = [
        {
            "metric": label_of(one.metric),
            "delta": one.delta,
            "low": one.delta if one.low is None else one.low,
            "high": one.delta if one.high is None else one.high,
            "bandlow": one.band[0] if one.band else None,
            "bandhigh": one.band[1] if one.band else None,
            "verdict": one.verdict,
        }
        for one in differences
    ]
    colour = alt.Color(
        "verdict:N",
        scale=alt.Scale(
            domain=[BETTER, WORSE, UNCLEAR], range=[COLOURS["accent"], COLOURS["worse"], COLOURS["muted"]]
        ),
        legend=None,
    )
    base = alt.Chart(alt.Data(values=rows)).encode(
        y=alt.Y(
            "metric:N",
            title=None,
            sort=[row["metric"] for row in rows],
            axis=alt.Axis(labelColor=COLOURS["ink"], grid=False),
        )
    )
    layers: list[Any] = []
    if any(one.band for one in differences):
        layers.append(
            base.transform_filter("isValid(datum.bandlow)")
            .mark_bar(color=COLOURS["soft"], height=16)
            .encode(x=alt.X("bandlow:Q"), x2="bandhigh:Q")
        )
    zero = alt.Chart(alt.Data(values=[{"zero": 0}]))
    layers += [
        zero.mark_rule(color=COLOURS["ink"], strokeWidth=1).encode(x=alt.X("zero:Q")),
        base.mark_rule(strokeWidth=2).encode(
            x=alt.X("low:Q", title="b − a, with its 95 % interval", axis=alt.Axis(tickCount=6)),
            x2="high:Q",
            color=colour,
        ),
        base.mark_point(filled=True, size=90, opacity=1).encode(
            x="delta:Q",
            color=colour,
            shape=alt.Shape(
                "verdict:N",
                scale=alt.Scale(
                    domain=[BETTER, WORSE, UNCLEAR], range=["triangle-right", "triangle-left", "circle"]
                ),
                legend=None,
            ),
        ),
    ]
    chart = alt.layer(*layers).properties(width=520, height={"step": 23})
    return Chart(name, title, _said(differences), specification_of(chart))


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


def rank_chart(per_query: Sequence[Mapping[str, Any]], ranks: int) -> Chart:
    """Where the first expected chunk stood in a, and where it stands in b."""
    alt = altair()

    counts = rank_pairs(per_query)
    order = [*(str(rank) for rank in range(1, ranks + 1)), NOT_FOUND]
    rows = [
        {"a": _place(a), "b": _place(b), "n": n, "move": _move(a, b)}
        for (a, b), n in sorted(counts.items(), key=str)
    ]
    axis = {"labelAngle": 0, "grid": True}
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("a:N", sort=order, title="rank in a", scale=alt.Scale(domain=order), axis=alt.Axis(**axis)),
        y=alt.Y("b:N", sort=order, title="rank in b", scale=alt.Scale(domain=order), axis=alt.Axis(**axis)),
    )
    bubbles = base.mark_circle(opacity=1).encode(
        size=alt.Size("n:Q", scale=alt.Scale(type="sqrt", range=[150, 900]), legend=None),
        color=alt.Color(
            "move:N",
            scale=alt.Scale(
                domain=[BETTER, WORSE, "same"], range=[COLOURS["accent"], COLOURS["worse"], COLOURS["soft"]]
            ),
            legend=None,
        ),
    )
    numbers = base.mark_text(fontSize=11, fontWeight="bold").encode(
        text="n:Q",
        color=alt.Color(
            "move:N",
            scale=alt.Scale(
                domain=[BETTER, WORSE, "same"], range=[COLOURS["paper"], COLOURS["paper"], COLOURS["ink"]]
            ),
            legend=None,
        ),
    )
    chart = (
        alt.layer(bubbles, numbers)
        .resolve_scale(color="independent")
        .properties(width={"step": 38}, height={"step": 32})
    )
    same, better, worse = (
        sum(n for (a, b), n in counts.items() if _move(a, b) == move) for move in ("same", BETTER, WORSE)
    )
    return Chart(
        "ranks",
        "Rank of the first expected chunk",
        f"Of {sum(counts.values()):,} queries {better:,} moved up or were found anew, {worse:,} moved down or were "
        f"lost, {same:,} stayed where they were.",
        specification_of(chart),
    )


def rank_pairs(per_query: Sequence[Mapping[str, Any]]) -> Counter[tuple[int | None, int | None]]:
    """How many comparable queries went from which rank to which."""
    return Counter(
        (entry["a_hit_rank"], entry["b_hit_rank"])
        for entry in per_query
        if entry["kind"] not in ("not_applicable", "not_comparable")
    )


def _place(rank: int | None) -> str:
    return NOT_FOUND if rank is None else str(rank)


def _move(a: int | None, b: int | None) -> str:
    if a == b:
        return "same"
    return BETTER if a is None or (b is not None and b < a) else WORSE
