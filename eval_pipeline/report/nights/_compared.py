"""What a run came to beside others: the verdict, what it rests on, its numbers, where to look."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from shlex import quote

from eval_pipeline.report.links import Links
from eval_pipeline.report.pages._pair_first import _findings_of, _tile
from eval_pipeline.report.pages._widgets import linked, with_code
from eval_pipeline.report.pages.html import Child, Html, _data_text, _join, tag
from eval_pipeline.report.pages.material import NightCompared
from eval_pipeline.report.verdict import Verdict, verdict_on


def comparisons(compared: Sequence[NightCompared], links: Links) -> Iterator[Child]:
    """The verdict on each, with the numbers of the first."""
    for place, one in enumerate(compared):
        address = links.pair(one.run_a, one.run_b)
        name = tag("span", _data_text(one.run_a), class_="id")
        head = _join("Against ", one.against, ", ", linked(name, address), ". ")
        if one.document is None:
            command = f"eval-pipeline compare {quote(one.run_a)} {quote(one.run_b)}"
            why = tag(
                "p", head, "What changed is not known: ", with_code(one.why), ". ", tag("code", command)
            )
            yield why
            continue
        verdict = verdict_on(one.document)
        yield tag("p", head, _findings_of(verdict), class_="verdict")
        yield tag("p", f"Trust: {verdict.trust}.", class_="trust") if verdict.trust else None
        if place == 0 and verdict.tiles:
            yield tag("dl", [_tile(row, False) for row in verdict.tiles], class_="tiles first")
        yield _where(verdict, address, f"Where to look, against {one.against}")


def _where(verdict: Verdict, address: str | None, name: str) -> Html | None:
    """The questions behind it, where there is a page that lists them."""
    if address is None:
        return None
    links = [
        tag("li", tag("a", _data_text(place.words), href=f"{address}#{place.address}"))
        for place in verdict.places
    ]
    links.append(tag("li", tag("a", "the page of the two runs", href=address)))
    return tag(
        "nav",
        tag("p", "Where to look", class_="muted"),
        tag("ul", links),
        class_="where",
        aria_label=name,
    )
