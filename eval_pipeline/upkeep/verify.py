"""Kept deliveries held against what is known of them: every file that is damaged or missing, by name."""

from __future__ import annotations

import datetime as dt
import tempfile
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from eval_pipeline.bundle.files import content_hash, stem_of
from eval_pipeline.bundle.layout import ORIGINAL
from eval_pipeline.bundle.texts import write_without_passages
from eval_pipeline.errors import InputRejected, StoreError
from eval_pipeline.records import CASES
from eval_pipeline.store.kept import KeptDelivery, KeptFile
from eval_pipeline.store.open import Connection
from eval_pipeline.upkeep._deliveries import PACKED, describe

MANIFEST = "manifest.json"
WHOLE, UNKNOWN = "whole", "unknown"

Problem = Literal["damaged", "missing", "unreadable"]
# What one delivered part is called.
Name = tuple[str | None, ...]


@dataclass(frozen=True)
class KeptFinding:
    """A kept file that is not what was delivered. `file` is None where what describes the delivery is broken."""

    path: Path
    problem: Problem
    delivery: KeptDelivery
    file: KeptFile | None = None

    @property
    def is_of_original(self) -> bool:
        """Whether it is about the file of another tool, from which nothing is computed."""
        return self.file is not None and self.file.part == ORIGINAL


@dataclass
class KeptCheck:
    """What was found; of the deliveries that are `unchecked`, of earlier versions, not every checksum is known.

    `not_loaded` are the runs, golden sets and archives of each delivery that are not in the store.
    """

    deliveries: int = 0
    files: int = 0
    unchecked: int = 0
    findings: list[KeptFinding] = field(default_factory=list)
    not_loaded: dict[Path, list[str]] = field(default_factory=dict)


def verify_kept(db: Path, con: Connection | None = None) -> KeptCheck:
    """Read every kept file and compare it with its delivery's manifest; reads only.

    With a connection to the store the ledger is asked, too: for files without a manifest, and for what is missing.
    """
    check = KeptCheck()
    ledger = _read_ledger(con) if con else None
    seen: set[Name] = set()
    for delivery in KeptDelivery.all(db):
        check.deliveries += 1
        try:
            listed = delivery.files() or []
        except StoreError:
            check.findings.append(KeptFinding(delivery.path / MANIFEST, "damaged", delivery))
            listed = []
        if delivery.has_lost_manifest:
            check.findings.append(KeptFinding(delivery.path / MANIFEST, "missing", delivery))
        unlisted = list(_described(delivery, {one.name for one in listed}))
        check.files += len(listed) + len(unlisted)
        seen = seen.union(*map(_names_of, [*listed, *unlisted]))
        for one in listed:
            check.findings += _compared(delivery, one)
        names = _not_in_ledger(delivery, listed, ledger) if ledger else []
        if names and not delivery.is_being_placed:
            check.not_loaded[delivery.path] = names
        answers = [_asked(delivery, one, ledger) for one in unlisted]
        check.unchecked += UNKNOWN in answers
        for known in (one for one in answers if isinstance(one, _Damaged)):
            check.findings.append(KeptFinding(delivery.path / known.name, "damaged", delivery, known.file))
            seen |= _names_of(known.file)
    if ledger is not None:
        check.findings += _missing(db, ledger, seen)
    check.findings += _without_document(db, check.findings, ledger)
    return check


def _not_in_ledger(delivery: KeptDelivery, listed: Sequence[KeptFile], ledger: _Ledger) -> list[str]:
    """Name what was delivered, and was not loaded, quarantined or forgotten since."""
    quarantined = {file.owner for file in listed if file.content_hash in ledger.quarantined}
    names: dict[str, None] = {}
    for file in listed:
        # The document of a run is kept with each of its deliveries, also if it is not new.
        if file.part in ("run", ORIGINAL) or file.owner in quarantined or delivery.time is None:
            continue
        is_known = _names_of(file) & ledger.files.keys() or (_name_of(file), delivery.time) in ledger.at
        if not is_known and not ledger.was_forgotten_since(file, delivery.time):
            source = f"{file.part.replace('_', ' ')} {file.dataset or file.chunker_version}"
            names[f"run {file.run_id}" if file.run_id else source] = None
    return list(names)


@dataclass(frozen=True)
class _Damaged:
    """A file that is not what it was; `file` is what it was, as far as that is known."""

    name: str
    file: KeptFile


def _compared(delivery: KeptDelivery, one: KeptFile) -> Iterator[KeptFinding]:
    """While `forget` writes a file anew nothing is known of its bytes."""
    path = delivery.path / one.name
    if one.hash is not None and (problem := _problem(path, one)):
        yield KeptFinding(path, problem, delivery, one)


def _problem(path: Path, one: KeptFile) -> Problem | None:
    """A pipe or a device is no file, and reading it might never end."""
    try:
        if not path.is_file():
            return "damaged" if path.exists() else "missing"
        return None if one.measured(path) == one else "damaged"
    except FileNotFoundError:
        return "missing"
    except OSError:
        return "unreadable"


def _described(delivery: KeptDelivery, listed: Collection[str]) -> Iterator[KeptFile]:
    """What lies there beside the files of the manifest, or without one."""
    for path in sorted(delivery.path.rglob("*")):
        is_listed = path.relative_to(delivery.path).as_posix() in listed
        if not is_listed and path.is_file() and (found := describe(delivery.path, path)):
            yield found


def _names_of(one: KeptFile) -> set[Name]:
    """What the ledger may call the file: after the bytes that were delivered, or those that were written instead."""
    return {(*_name_of(one), content) for content in (one.content_hash, one.written_instead_of) if content}


def _name_of(one: KeptFile) -> Name:
    return (one.part, one.run_id) if one.run_id else (one.part, one.dataset, one.chunker_version)


@dataclass(frozen=True)
class _Ledger:
    """Everything that was delivered, by its name and bytes and by name and time; and what was forgotten when."""

    files: dict[Name, tuple[KeptFile, dt.datetime]]
    at: dict[tuple[Name, dt.datetime], KeptFile]
    runs_at: frozenset[tuple[str | None, dt.datetime]]
    standing: dict[Name, KeptFile]
    forgotten: dict[tuple[str, str], dt.datetime]
    quarantined: frozenset[str]

    def was_forgotten_since(self, one: KeptFile, time: dt.datetime) -> bool:
        """Whether `forget` has written the file anew, or removed it."""
        names = [("run", one.run_id), ("dataset", one.dataset)]
        times = (self.forgotten.get((kind, name)) for kind, name in names if name)
        return any(found is not None and found >= time for found in times)


def _read_ledger(con: Connection) -> _Ledger:
    ledger = _Ledger({}, {}, frozenset(), {}, {}, frozenset())
    runs_at = set()
    for part, dataset, run_id, version, content, time, stands in con.execute(
        "select part, dataset_id, run_id, chunker_version, content_hash, delivered_at, superseded_at is null "
        "from ledger.deliveries order by delivery_key"
    ).fetchall():
        name = _usual_name(part, dataset, run_id, version)
        one = KeptFile(part, name, content, "", 0, dataset, run_id, version)
        ledger.files[(*_name_of(one), content)] = (one, time)
        ledger.at[_name_of(one), time] = one
        runs_at.add((run_id, time))
        if stands:
            ledger.standing[_name_of(one)] = one
    for kind, name, time in con.execute(
        "select kind, name, max(forgotten_at) from ledger.tombstones group by all"
    ).fetchall():
        ledger.forgotten[kind, name] = time
    rows = con.execute("select distinct content_hash from ledger.quarantine").fetchall()
    return replace(ledger, runs_at=frozenset(runs_at), quarantined=frozenset(content for (content,) in rows))


def _usual_name(part: str, dataset: str | None, run_id: str | None, version: str | None) -> str:
    if part in ("run", "index_report"):
        return f"runs/{run_id}/{part}.json"
    if run_id:
        return f"runs/{run_id}/{part}.jsonl.zst"
    if part == "archive":
        inventory = f"inventories/{version}.jsonl.zst"
        return f"datasets/{dataset}/{inventory}" if dataset else inventory
    return f"datasets/{dataset}/{CASES if part == CASES else 'queries'}.jsonl.zst"


def _asked(delivery: KeptDelivery, one: KeptFile, ledger: _Ledger | None) -> _Damaged | str:
    """What the ledger says of a file without a manifest.

    It knows nothing of a run that was rejected, and not the bytes of what was written without its texts.
    """
    name, time = _name_of(one), delivery.time
    if ledger is None or time is None:
        return UNKNOWN if one.content_hash else _Damaged(one.name, one)
    if _names_of(one) & ledger.files.keys():
        return WHOLE
    delivered = ledger.at.get((name, time))
    if delivered is None and (not one.content_hash or (one.run_id, time) in ledger.runs_at):
        delivered = ledger.standing.get(name)
    if one.content_hash and (
        delivered is None
        or ledger.was_forgotten_since(delivered, time)
        or _is_without_texts(delivery.path / one.name, one)
    ):
        return UNKNOWN
    return _Damaged(one.name, replace(delivered, name=one.name) if delivered else one)


def _is_without_texts(path: Path, one: KeptFile) -> bool:
    """Whether taking the passages out leaves the file as it is."""
    if one.part in ("run", "index_report"):
        return False
    with tempfile.TemporaryDirectory(prefix="eval-pipeline-") as scratch:
        emptied = Path(scratch) / ("rows" + PACKED)
        try:
            write_without_passages(one.part, path, emptied)
            return content_hash(emptied) == one.content_hash
        except InputRejected:
            return False


def _missing(db: Path, ledger: _Ledger, seen: set[Name]) -> Iterator[KeptFinding]:
    """What was delivered and lies nowhere; what was superseded may have been forgotten."""
    for name, (one, time) in ledger.files.items():
        stands = ledger.standing.get(_name_of(one)) == one
        if name in seen or (not stands and ledger.was_forgotten_since(one, time)):
            continue
        delivery = next(iter(KeptDelivery.at(db, time)), None) or KeptDelivery.next(db, time)
        path = delivery.path / one.name
        # What lies there has bytes of which nobody can say whether they are these.
        if not any(describe(delivery.path, other) for other in path.parent.glob(f"{stem_of(path)}.*")):
            yield KeptFinding(path, "missing", delivery, one)


def _without_document(db: Path, findings: Sequence[KeptFinding], ledger: _Ledger | None) -> list[KeptFinding]:
    """Every delivery of a run has its run.json; without one nothing in the folder is taken in."""
    lost = {found.path for found in findings}
    folders = {
        found.path.parent: found.delivery
        for found in findings
        if found.file and found.file.run_id and not found.is_of_original
    }
    for delivery in KeptDelivery.all(db):
        folders |= {path: delivery for path in delivery.path.glob("runs/*") if path.is_dir()}
    found = []
    for folder, delivery in sorted(folders.items(), key=lambda one: one[0]):
        path = folder / "run.json"
        if path in lost or path.exists():
            continue
        name = ("run", folder.name)
        file = KeptFile("run", f"runs/{folder.name}/run.json", "", "", 0, run_id=folder.name)
        found.append(
            KeptFinding(path, "missing", delivery, ledger.standing.get(name, file) if ledger else file)
        )
    return found
