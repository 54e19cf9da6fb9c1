"""The table of runs, of which two may be chosen to be compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from eval_pipeline.report.nights.trends import _chunker_of
from eval_pipeline.report.numbers import NOTHING
from eval_pipeline.report.pages._widgets import Column, badge, data_table, linked
from eval_pipeline.report.pages.html import Child, Html, _data_text, _join, json_block, tag
from eval_pipeline.report.pages.material import SuiteMaterial, SuiteRun
from eval_pipeline.words import count

# A site has a page of a run and the one before it; that of two attempts lies a little farther back.
LOOKED_BACK: Final = 5


def runs_section(suite: SuiteMaterial, prefix: str) -> list[Child]:
    """Every run, with what leads to the comparison of two."""
    return [_choice(suite, prefix), _run_table(suite, prefix)]


def _choice(suite: SuiteMaterial, prefix: str) -> Html:
    """Shown by the page's script, without which nothing can be chosen."""
    form = tag(
        "form",
        tag("span", "Check two runs below. "),
        tag("button", "Compare them", type="submit", name="compare", disabled=True),
        tag("output", "", name="told"),
        class_="choice",
        hidden=True,
        data_table=f"{prefix}runs-table",
        data_pairs=f"{prefix}pairs",
        aria_label="Two runs to compare",
    )
    return _join(form, json_block(f"{prefix}pairs", _addresses(suite)))


def _addresses(suite: SuiteMaterial) -> dict[str, object]:
    """Where the page of two runs is, by their places in the table; or how any two are addressed."""
    anywhere = suite.links.any_pair()
    if anywhere is not None:
        return {"any": anywhere}
    ids = [run.facts.run_id for run in reversed(suite.runs)]
    baseline = [ids.index(suite.baseline)] if suite.baseline in ids else []
    found = {}
    for later, run_b in enumerate(ids):
        for earlier in {*range(later + 1, min(later + 1 + LOOKED_BACK, len(ids))), *baseline}:
            address = suite.links.pair(ids[earlier], run_b)
            if address is not None:
                found[f"{earlier} {later}"] = address
    return {"known": found}


def _run_table(suite: SuiteMaterial, prefix: str) -> Html:
    numbers = ("results", "missing", "failed", "in quarantine")
    columns = [
        Column("night", style="short"),
        Column("run"),
        Column("compare", style="pick"),
        Column("attempt", is_number=True),
        Column("state"),
        Column("gate"),
    ]
    columns += [Column(name, is_number=True) for name in numbers]
    columns += [Column(name, style="short") for name in ("chunker", "commit")]
    runs = list(reversed(suite.runs))
    rows = [_run_row(suite, run) for run in runs]
    return data_table(f"{prefix}runs", _caption(suite, runs), columns, rows)


def _caption(suite: SuiteMaterial, runs: Sequence[SuiteRun]) -> str:
    said = f"The newest first, on {suite.dataset}."
    if suite.n_left_out:
        every = count(len(runs) + suite.n_left_out, "run")
        said += f" {len(runs):,} of {every}; {suite.n_left_out:,} older ones are left out."
    return said


def _pick(run: SuiteRun) -> Html:
    return tag("input", type="checkbox", value=run.facts.run_id, aria_label=f"compare {run.facts.run_id}")


def _run_row(suite: SuiteMaterial, run: SuiteRun) -> list[Child]:
    facts = run.facts
    commit = facts.commit_hash
    return [
        run.night.isoformat(),
        linked(tag("span", _data_text(facts.run_id), class_="id"), suite.links.run(facts.run_id)),
        _pick(run),
        NOTHING if facts.attempt is None else str(facts.attempt),
        _state(run),
        _gate(run),
        f"{run.n_results:,} of {run.n_golden:,}",
        f"{run.n_missing:,}" if run.n_missing else "·",
        f"{run.n_failed:,}" if run.n_failed else "·",
        f"{run.n_quarantined:,}" if run.n_quarantined else "·",
        _data_text(_chunker_of(run) or NOTHING, most=60),
        tag("span", _data_text(commit[:12]), class_="id") if commit else NOTHING,
    ]


def _gate(run: SuiteRun) -> Child:
    if run.gate is None:
        return NOTHING
    kind = {"pass": "good", "fail": "bad"}.get(run.gate.verdict)
    mark = badge(run.gate.verdict, kind) if kind else badge(run.gate.verdict)
    return _join(mark, " against ", tag("span", _data_text(run.gate.baseline), class_="id"))


def _state(run: SuiteRun) -> Html:
    badges = []
    if run.is_implausible:
        badges.append(badge("implausible: nothing knows its ids", "bad"))
    if run.is_complete:
        badges.append(badge("complete", "good"))
    elif run.n_golden == 0:
        badges.append(badge("no results", "bad"))
    else:
        badges.append(badge("incomplete", "bad"))
    if run.is_unlabelled:
        badges.append(badge("no golden set"))
    if run.replaced_by is not None:
        badges.append(badge("replaced"))
    elif not run.is_shown:
        badges.append(badge("not the last attempt"))
    if run.n_stale:
        badges.append(badge(f"{run.n_stale:,} stale", "bad"))
    return _join(*(piece for one in badges for piece in (one, " ")))
