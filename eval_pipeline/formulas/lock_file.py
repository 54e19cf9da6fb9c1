"""definitions.lock: the meaning of every definition as it was last agreed on, one line each, in git."""

from __future__ import annotations

from pathlib import Path

from eval_pipeline.formulas.definition import Definition
from eval_pipeline.formulas.registry import Registry
from eval_pipeline.settings import PACKAGE, Settings, shipped_sql

FILE = "definitions.lock"
HEADER = "# name, version, fingerprint: written by `eval-pipeline metrics --lock`\n"


def write_lock(registry: Registry, settings: Settings) -> list[Path]:
    """Write the lock file of every folder that holds definitions."""
    written: list[Path] = []
    for folder, definitions in _by_folder(registry, settings).items():
        path = folder / FILE
        lines = [f"{one.name} {one.header.version} {one.own_fingerprint}\n" for one in definitions]
        path.write_text(HEADER + "".join(sorted(lines)), "utf-8")
        written.append(path)
    return written


def moved_without_version(registry: Registry, settings: Settings) -> list[str]:
    """Definitions whose own meaning moved while their version stayed, in words."""
    found: list[str] = []
    for folder, definitions in _by_folder(registry, settings).items():
        locked = read_lock(folder / FILE)
        for one in definitions:
            version, fingerprint = locked.get(one.name, (0, ""))
            if not version:
                found.append(
                    f"{one.path}: {one.name} is not in {folder / FILE}: write it with `metrics --lock`"
                )
            elif fingerprint != one.own_fingerprint and version == one.header.version:
                found.append(
                    f"{one.path}: {one.name} means something else than version {version} did, and still says "
                    f"version {version}"
                )
            elif fingerprint != one.own_fingerprint or version != one.header.version:
                found.append(
                    f"{one.path}: {one.name} version {one.header.version} is not in {folder / FILE} yet"
                )
    return found


def read_lock(path: Path) -> dict[str, tuple[int, str]]:
    """name → (version, fingerprint)."""
    if not path.is_file():
        return {}
    rows = [
        line.split() for line in path.read_text("utf-8").splitlines() if line and not line.startswith("#")
    ]
    return {row[0]: (int(row[1]), row[2]) for row in rows if len(row) == 3 and row[1].isdigit()}


def _by_folder(registry: Registry, settings: Settings) -> dict[Path, list[Definition]]:
    """Definitions by the folder whose lock file they belong to; readings belong to the configuration."""
    found: dict[Path, list[Definition]] = {}
    for one in registry:
        if one.reading_of or one.short_name in registry.config.formulas:
            continue
        own = settings.own_sql
        is_own = own is not None and own in one.path.parents
        folder = own if is_own and own else shipped_sql()
        if is_own or PACKAGE in one.path.parents or shipped_sql() in one.path.parents:
            found.setdefault(folder, []).append(one)
    return found
