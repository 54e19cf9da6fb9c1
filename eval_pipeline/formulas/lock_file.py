"""definitions.lock: the fingerprint of every definition as last agreed on, one line each, in git."""

from __future__ import annotations

from pathlib import Path

from eval_pipeline.formulas.definition import Definition
from eval_pipeline.formulas.registry import Registry
from eval_pipeline.settings import Settings, shipped_sql

FILE = "definitions.lock"
HEADER = "# name, version, fingerprint: written by `eval-pipeline metrics --lock`\n"


def write_lock(registry: Registry, settings: Settings) -> Path:
    """Write the lock file of one's own folder, or of the shipped one where there is no own."""
    path = _folder(settings) / FILE
    lines = [
        f"{one.name} {one.header.version} {one.own_fingerprint}\n" for one in _locked_here(registry, settings)
    ]
    path.write_text(HEADER + "".join(sorted(lines)), "utf-8")
    return path


def moved_without_version(registry: Registry, settings: Settings) -> list[str]:
    """Definitions whose own meaning moved while their version stayed, in words."""
    path = _folder(settings) / FILE
    locked = read_lock(path)
    found: list[str] = []
    for one in _locked_here(registry, settings):
        version, fingerprint = locked.get(one.name, (0, ""))
        if not version:
            found.append(f"{one.path}: {one.name} is not in {path}: write it with `metrics --lock`")
        elif fingerprint != one.own_fingerprint and version == one.header.version:
            found.append(
                f"{one.path}: {one.name} means something else than version {version} did, and still says "
                f"version {version}"
            )
        elif fingerprint != one.own_fingerprint or version != one.header.version:
            found.append(f"{one.path}: {one.name} version {one.header.version} is not in {path} yet")
    return found


def read_lock(path: Path) -> dict[str, tuple[int, str]]:
    """name → (version, fingerprint)."""
    if not path.is_file():
        return {}
    rows = [
        line.split() for line in path.read_text("utf-8").splitlines() if line and not line.startswith("#")
    ]
    return {row[0]: (int(row[1]), row[2]) for row in rows if len(row) == 3 and row[1].isdigit()}


def _folder(settings: Settings) -> Path:
    return settings.own_sql or shipped_sql()


def _locked_here(registry: Registry, settings: Settings) -> list[Definition]:
    """The definitions of that folder as they are written; readings belong to the configuration."""
    own = settings.own_sql
    return [
        one
        for one in registry
        if one.variant_of is None
        and one.short_name not in registry.config.formulas
        and (own in one.path.parents if own else True)
    ]
