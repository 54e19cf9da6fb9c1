"""eval-pipeline forget"""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from eval_pipeline.cli.options import RunId, as_json, with_store
from eval_pipeline.cli.output import megabytes, print_json, print_line, progress_bar, say, table
from eval_pipeline.errors import UsageError
from eval_pipeline.words import count

if TYPE_CHECKING:
    from eval_pipeline.store.project import Project
    from eval_pipeline.store.tombstones import Kind
    from eval_pipeline.upkeep.forget import ForgetReport, ForgottenEntry, Request

SHOWN_RUNS = 5


@click.command("forget")
@click.argument("name", required=False, type=RunId(with_names=False), metavar="[RUN_ID|DATASET]")
@click.option("--text", is_flag=True, help="Only texts: ids, ranks, scores and what was computed stay.")
@click.option("--history", is_flag=True, help="Also the values that were replaced.")
@click.option("--kind", type=click.Choice(["run", "dataset"]), help="Where a run and a dataset share a name.")
@click.option("--dry-run", is_flag=True, help="Only show what would go.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option(
    "--lift", is_flag=True, help="Let deliveries of that name in again; brings nothing back by itself."
)
@click.option(
    "--no-compact", is_flag=True, help="Leave the file as it is: `compact` has to rewrite it afterwards."
)
@with_store
@as_json
def command(
    name: str | None,
    text: bool,
    history: bool,
    kind: Kind | None,
    dry_run: bool,
    yes: bool,
    lift: bool,
    no_compact: bool,
    project: Project,
    as_json: bool,
) -> None:
    """Remove a run or a dataset for good, or only its texts; without a name, list what was forgotten.

    Nothing is left of it in the store's file and in the kept deliveries. A tombstone keeps the inbox and `load` from
    bringing it back. Reports and exports made before, and Dagster's event log, are left as they are. @latest and the
    like are refused: what they are may change while somebody makes up their mind.
    """
    if name is not None and name.startswith("@"):
        raise UsageError(f"forget takes the run's own name, not {name}: `eval-pipeline runs` lists them")
    if name is None:
        _list(project, as_json=as_json)
    elif lift:
        _lift(project, name, kind, as_json=as_json)
    else:
        _forget(
            project,
            name,
            kind=kind,
            how={"text": text, "history": history},
            dry_run=dry_run,
            yes=yes,
            compacts=not no_compact,
            as_json=as_json,
        )


def _list(project: Project, *, as_json: bool) -> None:
    from eval_pipeline.upkeep.forget import list_forgotten

    found = list_forgotten(project)
    if as_json:
        print_json({"format": 1, "forgotten": found})
        return
    if not found:
        print_line("Nothing was forgotten here.")
        return
    table(
        ["kind", "name", "what", "when", "state"],
        [(one.kind, one.name, one.scope, one.forgotten_at, _state(one)) for one in found],
    )


def _state(tombstone: ForgottenEntry) -> str:
    if tombstone.lifted_at:
        return "lifted"
    if not tombstone.purged_at:
        return "unfinished: call forget again"
    return "stays out" if tombstone.compacted_at else "stays out; compact the file"


def _lift(project: Project, name: str, kind: Kind | None, *, as_json: bool) -> None:
    from eval_pipeline.upkeep.forget import lift_tombstones

    lifted = lift_tombstones(project, name, kind=kind)
    if as_json:
        print_json({"format": 1, "lifted": lifted})
    else:
        print_line(f"Deliveries of {', '.join(lifted)} are taken in again.")


def _forget(
    project: Project,
    name: str,
    *,
    kind: Kind | None,
    how: dict[str, bool],
    dry_run: bool,
    yes: bool,
    compacts: bool,
    as_json: bool,
) -> None:
    from eval_pipeline.upkeep.forget import find_request, forget

    request = find_request(project, name, kind=kind, **how)
    if dry_run or not yes:
        would = forget(project, request, dry_run=True)
        if dry_run and as_json:
            print_json(_document(would, dry_run=True))
            return
        _print(would, print if dry_run else say, verb="would go")
        if dry_run:
            return
        _ask(request)
    with progress_bar("copying bytes") as progress:
        report = forget(project, request, compacts=compacts, progress=progress)
    if as_json:
        print_json(_document(report, dry_run=False))
    else:
        _print(report, print, verb="gone")
        _print_end(report, compacts=compacts)


def _is_terminal() -> bool:
    return sys.stdin.isatty()


def _ask(request: Request) -> None:
    if not _is_terminal():
        raise UsageError(
            f"forgetting {request.name} cannot be undone: --yes does it, --dry-run shows what would go"
        )
    click.confirm("This cannot be undone. Forget it?", abort=True, err=True)


def _document(report: ForgetReport, *, dry_run: bool) -> dict[str, Any]:
    return {
        "format": 1,
        "kind": report.kind,
        "name": report.name,
        "scope": report.scope,
        "dry_run": dry_run,
        "runs": report.runs,
        "rows": report.removed.rows,
        "emptied": report.removed.emptied,
        "texts": report.removed.texts,
        "ids": report.removed.ids,
        "quarantined": report.removed.quarantine,
        "frozen": report.frozen,
        "kept_folders": report.kept,
        "compacted": asdict(report.compacted) if report.compacted else None,
        "beside": report.beside,
        "unreadable": report.unreadable,
        "calls": report.calls,
    }


def _print(report: ForgetReport, out: Any, *, verb: str) -> None:
    removed = report.removed
    what = "the texts of " if report.scope == "texts" else ""
    out(f"{what}{report.kind} {report.name}: {verb}")
    if report.kind == "dataset" and report.runs:
        shown = ", ".join(report.runs[:SHOWN_RUNS]) + (" …" if len(report.runs) > SHOWN_RUNS else "")
        out(f"  {count(len(report.runs), 'run')}: {shown}")
    rows = sum(removed.rows.values())
    lines = [
        (rows, f"{count(rows, 'row')} of {count(len(removed.rows), 'table')}"),
        (len(removed.emptied), f"texts in {', '.join(sorted(removed.emptied))}"),
        (removed.texts, f"{count(removed.texts, 'long text')} that nothing else uses"),
        (sum(removed.ids.values()), _ids(removed.ids)),
        (removed.quarantine, f"{count(removed.quarantine, 'row')} of the quarantine"),
        (report.kept, f"{count(report.kept, 'folder')} of the kept deliveries"),
        (report.calls, f"{count(report.calls, 'answer')} of targets and judges that no other run uses"),
    ]
    for n, line in lines:
        if n:
            out(f"  {line}")
    if not any(n for n, _ in lines):
        out("  nothing: it holds none of it any more")
    if report.frozen:
        out(f"  frozen, with the values they have: {', '.join(sorted(report.frozen))}")


def _ids(ids: dict[str, int]) -> str:
    return ", ".join(f"{n:,} {kind} ids" for kind, n in ids.items()) + " that nothing else uses"


def _print_end(report: ForgetReport, *, compacts: bool) -> None:
    if report.compacted:
        before, after = megabytes(report.compacted.bytes_before), megabytes(report.compacted.bytes_after)
        print_line(f"The file was written anew: {before} before, {after} now.")
    elif not compacts:
        say("The file still holds what was removed: `eval-pipeline compact` writes it anew.")
    for path in report.unreadable:
        say(f"{path} was kept and could not be read: it is removed, because nobody can say what it held.")
    for path in report.beside:
        say(f"{path} may still show it, and is yours to delete.")
    print_line(
        f"A delivery named {report.name} stays out from now on; `eval-pipeline forget {report.name} --lift` lets it in "
        "again."
    )
