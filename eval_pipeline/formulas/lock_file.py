"""definitions.lock: the fingerprint of every definition as last agreed on, one line each, in git."""

# A line may end in `same_as=` and the fingerprints that the definition had before it was rewritten without another
# meaning, the oldest first. The definition keeps that one, so that whatever was computed with it stays fresh.

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from eval_pipeline.errors import DefinitionError, UsageError
from eval_pipeline.formulas.definition import Definition
from eval_pipeline.settings import shipped_sql

if TYPE_CHECKING:
    from eval_pipeline.formulas.registry import Registry

FILE = "definitions.lock"
HEADER = "# name, version, fingerprint: written by `eval-pipeline metrics --lock`\n"
SAME_AS = "same_as="


class Locked(NamedTuple):
    """What a line says of a definition: its version, the fingerprint of its text, and those of its earlier texts."""

    version: int
    fingerprint: str
    same_as: tuple[str, ...] = ()


def write_lock(registry: Registry, own_sql: Path | None) -> Path:
    """Write the lock file of one's own folder, or of the shipped one where there is no own."""
    path = _folder(own_sql) / FILE
    before = read_lock(path)
    return _write(path, {one.name: _locked(one, before) for one in _locked_here(registry, own_sql)})


def _locked(one: Definition, before: Mapping[str, Locked]) -> Locked:
    """A text that moved is no longer known to mean what earlier ones did."""
    known = before.get(one.name)
    is_same = known is not None and known.fingerprint == one.written_fingerprint
    return Locked(one.header.version, one.written_fingerprint, known.same_as if known and is_same else ())


def _write(path: Path, locked: Mapping[str, Locked]) -> Path:
    lines = []
    for name, (version, fingerprint, same_as) in locked.items():
        lines.append(
            f"{name} {version} {fingerprint}{f' {SAME_AS}' + ','.join(same_as) if same_as else ''}\n"
        )
    path.write_text(HEADER + "".join(sorted(lines)), "utf-8")
    return path


def write_same_as(own_sql: Path | None, one: Definition, earlier: str) -> Path:
    """Note that the text that stands there means what the text of an earlier fingerprint meant."""
    path = _folder(own_sql) / FILE
    locked = read_lock(path)
    known = locked.get(one.name, Locked(0, earlier))
    meant = [*known.same_as, known.fingerprint]
    if earlier not in meant:
        if known.same_as:
            raise UsageError(
                f"{path} says that {one.name} means what {known.same_as[0]} meant, and that is not {earlier}: name one "
                f"of {', '.join(meant)}, or take `{SAME_AS}` out of its line first"
            )
        meant = [earlier]
    same_as = tuple(fingerprint for fingerprint in meant if fingerprint != one.written_fingerprint)
    return _write(path, locked | {one.name: Locked(one.header.version, one.written_fingerprint, same_as)})


def require_locked_here(registry: Registry, own_sql: Path | None, one: Definition) -> None:
    """Raise for a definition that the lock file of one's own folder, or else the shipped one, does not hold."""
    if one.name not in {own.name for own in _locked_here(registry, own_sql)}:
        raise UsageError(
            f"{one.name} has no line in {_folder(own_sql) / FILE}: it is a shipped definition beside a folder of your "
            "own, or a reading of eval-pipeline.toml"
        )


def _first_fingerprints(folder: Path) -> dict[tuple[str, str], str]:
    """(name, fingerprint of its text) → the first fingerprint of that meaning, where it had another before."""
    return {
        (name, fingerprint): one.same_as[0]
        for name, one in read_lock(folder / FILE).items()
        for fingerprint in (one.fingerprint, *one.same_as)
        if one.same_as
    }


def is_locked(one: Definition) -> bool:
    """Whether the lock file of its folder, or else the shipped one, holds the definition as it is written."""
    locked = read_lock(one.path.parent.parent / FILE) or read_lock(shipped_sql() / FILE)
    return one.name in locked and locked[one.name].fingerprint == one.written_fingerprint


def moved_without_version(registry: Registry, own_sql: Path | None) -> list[str]:
    """Definitions whose own meaning moved while their version stayed, in words."""
    path = _folder(own_sql) / FILE
    locked = read_lock(path)
    found: list[str] = []
    for one in _locked_here(registry, own_sql):
        version, fingerprint, _ = locked.get(one.name, Locked(0, ""))
        if not version:
            found.append(f"{one.path}: {one.name} is not in {path}: write it with `metrics --lock`")
        elif fingerprint != one.written_fingerprint and version == one.header.version:
            found.append(
                f"{one.path}: {one.name} means something else than version {version} did, and still says "
                f"version {version} (where it does not, `metrics {one.short_name} --same-as` says so)"
            )
        elif fingerprint != one.written_fingerprint or version != one.header.version:
            found.append(f"{one.path}: {one.name} version {one.header.version} is not in {path} yet")
    return found


def read_lock(path: Path) -> dict[str, Locked]:
    """What every line says, by the definition's name."""
    if not path.is_file():
        return {}
    try:
        lines = path.read_text("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise DefinitionError(
            f"{path}: not UTF-8 at byte {error.start}; take it from git or write it anew with `metrics --lock`"
        ) from error
    rows = [line.split() for line in lines if line and not line.startswith("#")]
    return {
        row[0]: Locked(int(row[1]), row[2], _earlier(row[3:]))
        for row in rows
        if len(row) >= 3 and row[1].isdigit()
    }


def _earlier(fields: list[str]) -> tuple[str, ...]:
    said = [field.removeprefix(SAME_AS) for field in fields if field.startswith(SAME_AS)]
    return tuple(fingerprint for one in said for fingerprint in one.split(",") if fingerprint)


def _folder(own_sql: Path | None) -> Path:
    return own_sql or shipped_sql()


def _locked_here(registry: Registry, own_sql: Path | None) -> list[Definition]:
    """The definitions of that folder as they are written; readings belong to the configuration."""
    return [
        one
        for one in registry
        if one.variant_of is None
        and one.short_name not in registry.config.formulas
        and (own_sql in one.path.parents if own_sql else True)
    ]
