"""eval-pipeline metrics"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from eval_pipeline.cli.options import as_json, with_store
from eval_pipeline.cli.output import end_where_not_held, print_json, print_line, say, table
from eval_pipeline.words import count

if TYPE_CHECKING:
    from eval_pipeline.store.project import Project


@click.command("metrics")
@click.argument("words", nargs=-1, metavar="[NAME | new NAME]")
@click.option(
    "--check",
    is_flag=True,
    help="Instead: whether definitions hold. Each is read, bound to the store's tables, and computes its examples and "
    "the newest run; exit with 1 when one does not.",
)
@click.option(
    "--python", "in_python", is_flag=True, help="Of `new`: a function on Polars frames instead of SQL."
)
@click.option(
    "--history", is_flag=True, help="Every definition that this store has used under NAME, with what changed."
)
@click.option(
    "--lock", is_flag=True, help="Write every name, version and fingerprint to sql/definitions.lock."
)
@click.option(
    "--check-lock", is_flag=True, help="Exit with 1 when a fingerprint changed and its version did not."
)
@click.option(
    "--same-as",
    metavar="OLD",
    help="Note in definitions.lock that NAME, rewritten, means what it meant: its cells stay fresh. OLD is a file with "
    "the earlier text, or its fingerprint in --history. Both are computed first; exit with 1 when they differ.",
)
@with_store
@as_json
def command(
    words: tuple[str, ...],
    check: bool,
    in_python: bool,
    history: bool,
    lock: bool,
    check_lock: bool,
    same_as: str | None,
    project: Project,
    as_json: bool,
) -> None:
    """Show the catalogue of metrics, or everything about the one with this name or key.

    `metrics new NAME` writes a formula of your own to start from. Formulas of your own are checked whenever they are
    shown: one that does not hold is named, and the exit code is 1.
    """
    if words[:1] == ("new",):
        _write_new(project, words[1:], in_python=in_python)
        return
    if len(words) > 1:
        raise click.UsageError(f"one NAME, not {len(words)}; a formula to start from: `metrics new NAME`")
    name = words[0] if words else None
    if check:
        _check(project, name, as_json=as_json)
        return
    if lock or check_lock:
        _lock(project, write=lock)
        return
    if same_as is not None:
        _same_as(project, name, same_as)
        return
    if history:
        _print_history(project, name, as_json=as_json)
        return
    if name is not None:
        _print_named(project, name, as_json=as_json)
    else:
        _print_catalogue(project, as_json=as_json)


def _print_named(project: Project, name: str, *, as_json: bool) -> None:
    from eval_pipeline.formulas.catalogue import describe, find_definition

    registry = project.definitions()
    definition = find_definition(registry, name)
    if as_json:
        print_json({"format": 1, **describe(registry, definition)})
    else:
        _print_one(describe(registry, definition))
    if definition.is_own:
        end_where_not_held(project, definition.name)


def _print_catalogue(project: Project, *, as_json: bool) -> None:
    from eval_pipeline.comparing.options import comparison_options, describe_options
    from eval_pipeline.formulas.catalogue import describe, shown_key

    registry = project.definitions()
    comparison = describe_options(comparison_options(registry.config))
    if as_json:
        metrics = [describe(registry, one) for one in registry]
        print_json({"format": 1, "metrics": metrics, "comparison": comparison})
        end_where_not_held(project)
        return
    rows = [
        (shown_key(one, key), one.short_name, f"v{one.header.version}", meaning)
        for one in sorted(registry.metrics, key=lambda d: d.name)
        for key, meaning in one.keys.items()
    ]
    table(["metric", "formula", "", "what it is"], rows)
    print_line()
    table(
        ["comparison", "value", "or", "what it decides"],
        [(one["name"], _word(one["value"]), _others(one), one["meaning"]) for one in comparison],
    )
    say("`eval-pipeline metrics NAME` shows edge cases, parameters and examples.")
    end_where_not_held(project)


def _write_new(project: Project, names: tuple[str, ...], *, in_python: bool) -> None:
    from dataclasses import replace

    from eval_pipeline.computing.check_formulas import check_definitions
    from eval_pipeline.formulas.new_formula import write_new
    from eval_pipeline.settings import own_folder

    if len(names) != 1:
        raise click.UsageError("`metrics new` needs one NAME for the formula")
    path = write_new(project.definitions(), project.settings.own_sql, names[0], in_python=in_python)
    settings = replace(project.settings, own_sql=own_folder(path.parent.parent))
    if not all(one.ok for one in check_definitions(replace(project, settings=settings), only=names[0])):
        path.unlink()
        raise click.UsageError(
            f"no formula can be called {names[0]}: it is a word of SQL, YAML, Python or of the store's own; choose "
            "another name"
        )
    print_line(f"wrote {path}")
    say(
        f"It holds as it is. Next: change it, `eval-pipeline metrics --check {names[0]}` says whether it still does, "
        "`eval-pipeline run` computes it."
    )


def _check(project: Project, name: str | None, *, as_json: bool) -> None:
    from eval_pipeline.computing.check_formulas import check_definitions

    checked = check_definitions(project, only=name, on_newest_run=True)
    wrong = [one for one in checked if not one.ok]
    if as_json:
        print_json({"format": 1, "ok": not wrong, "definitions": [one.entry() for one in checked]})
    else:
        for one in wrong:
            for sentence in one.sentences():
                print_line(sentence)
        if not wrong:
            holds = "It holds" if name else f"All {count(len(checked), 'definition')} hold"
            print_line(f"{holds}: read, bound, and computed for every example and for the newest run.")
    if wrong:
        sys.exit(1)


def _word(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _others(parameter: dict[str, Any]) -> str:
    """What else it can be set to, under [comparison] in eval-pipeline.toml."""
    named = [choice for choice in parameter["choices"] if choice != parameter["value"]]
    return ", ".join(named) or "any other number"


def _print_one(found: dict[str, object]) -> None:
    from eval_pipeline.formulas.catalogue import as_text

    print_line(as_text(found))


def _print_history(project: Project, name: str | None, *, as_json: bool) -> None:
    from eval_pipeline.computing.definition_versions import find_history
    from eval_pipeline.formulas.catalogue import find_definition

    if name is None:
        raise click.UsageError("--history needs the NAME of a formula or metric")
    meanings = find_history(project, find_definition(project.definitions(), name))
    if as_json:
        print_json({"format": 1, "name": name, "meanings": meanings})
        return
    for meaning in meanings:
        print_line(
            f"version {meaning.version}  {meaning.fingerprint}  first used {meaning.first_used_at}, "
            f"now behind {count(meaning.runs, 'run')}"
        )
        if meaning.diff:
            print_line(meaning.diff.rstrip())


def _same_as(project: Project, name: str | None, old: str) -> None:
    from dataclasses import replace
    from pathlib import Path
    from tempfile import TemporaryDirectory

    from eval_pipeline.computing.same_meaning import compare_meanings, find_earlier
    from eval_pipeline.formulas.catalogue import find_definition
    from eval_pipeline.formulas.lock_file import require_locked_here, write_same_as
    from eval_pipeline.store.project import project_of

    if name is None:
        raise click.UsageError("--same-as needs the NAME of a formula or metric")
    with TemporaryDirectory(prefix="eval-pipeline-same-as-") as temporary:
        folder = Path(temporary)
        # The lock file holds definitions as they are written, whatever eval-pipeline.toml sets.
        as_written = project_of(replace(project.settings, config=folder / "none.toml"), notify=say)
        one = find_definition(as_written.definitions(), name)
        require_locked_here(as_written.definitions(), project.settings.own_sql, one)
        earlier = find_earlier(as_written, one, old, folder / "earlier")
        found = compare_meanings(as_written, one, earlier, folder)
    if found.differences:
        for line in found.differences:
            print_line(line)
        say(f"{one.name} means something else than {old}: its line in definitions.lock is left as it is.")
        sys.exit(1)
    path = write_same_as(project.settings.own_sql, one, earlier.definition.own_fingerprint)
    print_line(
        f"{count(found.rows, 'row')} of {found.bundles} bundles are the same bit for bit: wrote {path}, and what was "
        f"computed with {earlier.definition.own_fingerprint} stays fresh."
    )


def _lock(project: Project, *, write: bool) -> None:
    from eval_pipeline.formulas.lock_file import moved_without_version, write_lock

    registry = project.definitions()
    if write:
        print_line(f"wrote {write_lock(registry, project.settings.own_sql)}")
        return
    moved = moved_without_version(registry, project.settings.own_sql)
    for line in moved:
        say(line)
    if moved:
        say("Raise `version` in each header (or take the change back), then `eval-pipeline metrics --lock`.")
        sys.exit(1)
    print_line("Every definition stands in its lock file as it is.")
