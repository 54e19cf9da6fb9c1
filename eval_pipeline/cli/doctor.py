"""eval-pipeline doctor"""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from eval_pipeline.cli.options import as_json, with_store
from eval_pipeline.cli.output import filled, print_json, print_line
from eval_pipeline.words import count

if TYPE_CHECKING:
    from eval_pipeline.store.project import Project


@click.command("doctor")
@with_store
@as_json
def command(project: Project, as_json: bool) -> None:
    """Find what is wrong with this installation and store, and say what mends it; nothing is changed.

    Looks at versions, settings, who holds the store, every block of it, every kept delivery, Dagster's files and the
    room that is left. Exit code 1 when something was found.
    """
    from eval_pipeline.upkeep.doctor import diagnose

    found = diagnose(project)
    if as_json:
        findings = [asdict(one) for one in found.findings]
        print_json({"ok": found.ok, "findings": findings, "environment": found.environment})
    else:
        print_line(", ".join(f"{name} {value}" for name, value in found.environment.items()))
        for one in found.findings:
            print_line(f"\n{one.level}: {one.where}")
            print_line(filled(f"  {one.what}"))
            print_line(filled(f"  mend: {one.mend}"))
        print_line(f"\n{count(len(found.findings), 'finding')}" if found.findings else "Nothing is wrong.")
    sys.exit(0 if found.ok else 1)
