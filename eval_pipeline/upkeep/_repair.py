"""Kept files that are damaged or missing: set aside, and written anew from the store's rows."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

from eval_pipeline.bundle.files import stem_of
from eval_pipeline.computing.history import Row
from eval_pipeline.errors import StoreError
from eval_pipeline.records import CASES
from eval_pipeline.store.durable import place_durably
from eval_pipeline.store.kept import KeptFile
from eval_pipeline.store.open import Connection, StatementError
from eval_pipeline.upkeep._deliveries import PACKED, _write, describe
from eval_pipeline.upkeep._from_rows import Rows, n_quarantined, rows_of
from eval_pipeline.upkeep.verify import KeptFinding
from eval_pipeline.words import count

ASIDE = ".damaged"


@dataclass(frozen=True)
class Repaired:
    """What became of a kept file that was not what was delivered; `lost` is what does not come back."""

    path: str
    problem: str
    is_written_anew: bool
    lost: str
    set_aside: str | None = None

    @property
    def in_words(self) -> str:
        """A sentence about it."""
        aside = f" (set aside as {self.set_aside})" if self.set_aside else ""
        if self.is_written_anew:
            return f"{self.path} was {self.problem}{aside}: written anew from what is left; lost: {self.lost}"
        return f"{self.path} was {self.problem}{aside}: it is left out; lost: {self.lost}"


def repair(con: Connection | None, finding: KeptFinding) -> Repaired:
    """Put it right as far as the store has its rows; the damaged file is set aside and taken for nothing."""
    if finding.is_of_original:
        return _without_original(finding)
    if finding.problem == "unreadable":
        raise StoreError(
            f"{finding.path} cannot be read, so that nobody can say whether it is whole: give this user the right to "
            "read it, or move it away, which lets it count as missing; then call `eval-pipeline rebuild` again"
        )
    aside = _set_aside(finding.path) if finding.problem == "damaged" else None
    if finding.file is None:
        known = _described(finding)
        finding.delivery.write(known)
        return _repaired(finding, True, "what it said of files that are missing", aside)
    rows, lost = _rows_left(con, finding.file)
    if rows is None:
        return _repaired(finding, False, "all that stood in it, because no rows of it could be read", aside)
    _write_anew(finding, finding.file, rows)
    return _repaired(finding, True, lost, aside)


def _without_original(finding: KeptFinding) -> Repaired:
    """Nothing is made from the file that another tool wrote: what is there of it stays, and nothing waits for it."""
    lost = "the file as its tool wrote it; the rows that were made from it are kept"
    if finding.problem == "unreadable" or finding.file is None:
        return _repaired(finding, False, lost, None)
    aside = _set_aside(finding.path) if finding.problem == "damaged" else None
    known = finding.delivery.files() or []
    finding.delivery.write(one for one in known if one.name != finding.file.name)
    return _repaired(finding, False, lost, aside)


def _repaired(finding: KeptFinding, is_written_anew: bool, lost: str, aside: Path | None) -> Repaired:
    return Repaired(str(finding.path), finding.problem, is_written_anew, lost, str(aside) if aside else None)


def _set_aside(path: Path) -> Path:
    """The damaged bytes stay, under a name that no bundle reads."""
    number = 1
    aside = path.with_name(path.name + ASIDE)
    while aside.exists():
        number += 1
        aside = path.with_name(f"{path.name}{ASIDE}-{number}")
    try:
        return path.rename(aside)
    except OSError as error:
        raise StoreError(f"{path} is damaged and cannot be renamed: {error.strerror or error}") from error


def _described(finding: KeptFinding) -> list[KeptFile]:
    delivery = finding.delivery.path
    paths = sorted(path for path in delivery.rglob("*") if path.is_file())
    return [found for path in paths if (found := describe(delivery, path, with_hash=True))]


def _rows_left(con: Connection | None, file: KeptFile) -> tuple[Rows | Row | None, str]:
    if con is None or not file.content_hash:
        return None, ""
    try:
        rejected = n_quarantined(con, file)
        rows = rows_of(con, file)
    except StatementError:
        # The store is broken where these rows stand.
        return None, ""
    if file.part == "run":
        return rows, "nothing"
    lost = "what is in the cases" if file.part == CASES else "keys that the store does not know"
    return rows, f"{lost}, {count(rejected, 'rejected row')}" if rejected else lost


def _write_anew(finding: KeptFinding, file: KeptFile, rows: Rows | Row) -> None:
    delivery = finding.delivery
    folder = finding.path.parent
    folder.mkdir(parents=True, exist_ok=True)
    is_document = isinstance(rows, dict)
    target = folder / (finding.path.name if is_document else stem_of(finding.path) + PACKED)
    unfinished = target.with_name(target.name + ".part")
    if isinstance(rows, dict):
        unfinished.write_text(json.dumps(rows, ensure_ascii=False), "utf-8")
    else:
        _write(unfinished, iter(rows))
    place_durably(unfinished, target)
    found = describe(delivery.path, target, with_hash=True)
    if found is None:
        raise AssertionError(f"{target} is no part of a delivery")
    others = [one for one in delivery.files() or [] if (one.owner, one.part) != (found.owner, found.part)]
    delivery.write([*others, replace(found, dataset=file.dataset, written_instead_of=file.content_hash)])
