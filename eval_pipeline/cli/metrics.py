"""eval-pipeline metrics"""

from __future__ import annotations

import sys
from typing import Any

import click

from eval_pipeline.cli.options import as_json, with_store
from eval_pipeline.cli.output import print_json, print_line, say, table
from eval_pipeline.formulas.registry import Registry
from eval_pipeline.settings import Settings
from eval_pipeline.words import count


@click.command("metrics")
@click.argument("name", required=False)
@click.option(
    "--history", is_flag=True, help="Every definition that this store has used under NAME, with what changed."
)
@click.option(
    "--lock", is_flag=True, help="Write every name, version and fingerprint to sql/definitions.lock."
)
@click.option(
    "--check-lock", is_flag=True, help="Exit with 1 when a fingerprint changed and its version did not."
)
@with_store
@as_json
def command(
    name: str | None, history: bool, lock: bool, check_lock: bool, settings: Settings, as_json: bool
) -> None:
    """Show the catalogue of metrics, or everything about the one with this name or key."""
    from eval_pipeline.comparing.options import comparison_options, describe_options
    from eval_pipeline.formulas.catalogue import describe, find_definition
    from eval_pipeline.formulas.registry import load_registry

    registry = load_registry(settings)
    if lock or check_lock:
        _lock(settings, write=lock)
        return
    if history:
        _print_history(settings, registry, name, as_json=as_json)
        return
    if name is not None:
        definition = find_definition(registry, name)
        if as_json:
            print_json({"format": 1, **describe(registry, definition)})
        else:
            _print_one(describe(registry, definition))
        return
    comparison = describe_options(comparison_options(registry.config))
    if as_json:
        metrics = [describe(registry, one) for one in registry]
        print_json({"format": 1, "metrics": metrics, "comparison": comparison})
        return
    rows = [
        (key, one.short_name, f"v{one.header.version}", meaning)
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


def _word(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _others(parameter: dict[str, Any]) -> str:
    """What else it can be set to, under [comparison] in eval-pipeline.toml."""
    named = [choice for choice in parameter["choices"] if choice != parameter["value"]]
    return ", ".join(named) or "any other number"


def _print_one(found: dict[str, object]) -> None:
    from eval_pipeline.formulas.catalogue import as_text

    print_line(as_text(found))


def _print_history(settings: Settings, registry: Registry, name: str | None, *, as_json: bool) -> None:
    from eval_pipeline.computing.definition_versions import find_history
    from eval_pipeline.formulas.catalogue import find_definition

    if name is None:
        raise click.UsageError("--history needs the NAME of a formula or metric")
    meanings = find_history(settings, find_definition(registry, name), notify=say)
    if as_json:
        print_json({"format": 1, "name": name, "meanings": meanings})
        return
    for meaning in meanings:
        print_line(
            f"version {meaning['version']}  {meaning['fingerprint']}  first used {meaning['first_used_at']}, "
            f"now behind {count(meaning['runs'], 'run')}"
        )
        if meaning["diff"]:
            print_line(meaning["diff"].rstrip())


def _lock(settings: Settings, *, write: bool) -> None:
    from eval_pipeline.formulas.lock_file import moved_without_version, write_lock
    from eval_pipeline.formulas.registry import load_registry

    registry = load_registry(settings)
    if write:
        print_line(f"wrote {write_lock(registry, settings)}")
        return
    moved = moved_without_version(registry, settings)
    for line in moved:
        say(line)
    if moved:
        say("Raise `version` in each header (or take the change back), then `eval-pipeline metrics --lock`.")
        sys.exit(1)
    print_line("Every definition stands in its lock file as it is.")
