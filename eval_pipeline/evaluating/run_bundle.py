"""The bundle of a run that is asked for: begun, continued, and whole when its run.json says so."""

# Below data/evaluations/<run_id>/ stand `begun.json`, what the run is called and when it began, and the bundle. Written
# anew from the store of calls each time: an interrupted run that was continued equals one that never was.

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import portalocker

from eval_pipeline.bundle.parts import name_fault
from eval_pipeline.errors import RefusedError, UsageError
from eval_pipeline.evaluating.judging import JudgedRow
from eval_pipeline.settings import SAFE_NAME

COMPLETE, INCOMPLETE = "complete", "incomplete"
_BEGUN: Final = "begun.json"
_RUN: Final = "run.json"
_JUDGEMENTS: Final = "judgements.jsonl"
_LEVEL: Final = 3
_ALONE: Final = portalocker.LockFlags.EXCLUSIVE | portalocker.LockFlags.NON_BLOCKING


@dataclass(frozen=True)
class Evaluation:
    """What came of a run: the document of `evaluate --json`, and `evaluation` of run.json."""

    run_id: str
    state: str
    stopped: str | None
    bundle: str
    target_calls: int
    judge_calls: int
    cached: int
    failed: int
    uncertain: int
    usd: float
    waited_s: float


def run_folder(evaluations: Path, run_id: str) -> Path:
    """The bundle of a run."""
    if fault := name_fault(run_id):
        raise UsageError(f"run_id: {fault}")
    return evaluations / run_id


def begin_run(evaluations: Path, document: Mapping[str, Any]) -> Path:
    """Put down what run.json will say, before anything is asked; the folder of the bundle."""
    folder = run_folder(evaluations, str(document["run_id"]))
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / _BEGUN, [json.dumps(dict(document), ensure_ascii=False, indent=2).encode()])
    return folder


def finish_run(evaluations: Path, run_id: str) -> None:
    """Nothing is left to do for the run: whoever evaluates its suite next begins another."""
    (run_folder(evaluations, run_id) / _BEGUN).unlink(missing_ok=True)


def begun_run(evaluations: Path, run_id: str) -> dict[str, Any] | None:
    """The run as it was begun; None where it was not, or has come to its end."""
    return _document(run_folder(evaluations, run_id) / _BEGUN)


def unfinished_runs(evaluations: Path, suite: str) -> list[dict[str, Any]]:
    """The runs of the suite that were begun and have not come to their end, as they were begun, the newest first."""
    found = [
        document
        for path in sorted(evaluations.glob(f"*/{_BEGUN}"))
        if (document := _document(path)) is not None and document.get("suite") == suite
    ]
    return sorted(found, key=lambda one: (str(one.get("created_at")), str(one.get("run_id"))), reverse=True)


def unfinished_run(evaluations: Path, suite: str) -> dict[str, Any] | None:
    """The newest of them of which not everything was asked."""
    found = unfinished_runs(evaluations, suite)
    return next((one for one in found if not is_complete(evaluations, str(one.get("run_id")))), None)


def evaluation_of(evaluations: Path, run_id: str) -> Evaluation | None:
    """What came of the run, as its bundle says; None where there is none."""
    document = _document(run_folder(evaluations, run_id) / "runs" / run_id / _RUN)
    said = (document or {}).get("evaluation")
    try:
        return Evaluation(**said) if isinstance(said, dict) else None
    except TypeError:
        return None


def is_complete(evaluations: Path, run_id: str) -> bool:
    """Whether everything of the run was asked."""
    evaluation = evaluation_of(evaluations, run_id)
    return evaluation is not None and evaluation.state == COMPLETE


@contextmanager
def hold_suite(evaluations: Path, suite: str, what: str = "suite") -> Iterator[None]:
    """Keep others from running the suite for the length of the block, also if this process is killed in it."""
    evaluations.mkdir(parents=True, exist_ok=True)
    with (evaluations / f".{SAFE_NAME.sub('-', suite)}.lock").open("a", encoding="utf-8") as file:
        try:
            portalocker.lock(file, _ALONE)
        except (portalocker.AlreadyLocked, portalocker.LockException) as error:
            raise RefusedError(f"the {what} {suite!r} is running already: wait for it, or end it") from error
        yield


def write_run(
    evaluations: Path,
    document: Mapping[str, Any],
    *,
    results: Iterable[Mapping[str, Any]] | None,
    judged: Iterable[JudgedRow],
    evaluation: Evaluation,
) -> Path:
    """Write the bundle of a run, run.json last: whoever looks finds all of it, or a run that is not there yet."""
    bundle = run_folder(evaluations, evaluation.run_id)
    folder = bundle / "runs" / evaluation.run_id
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _RUN).unlink(missing_ok=True)
    # The results come last, since they contain the times that the judgements took.
    _write_judged(folder, judged)
    if results is not None:
        _write(folder / "results.jsonl", map(_line, results))
    said = {**document, "evaluation": asdict(evaluation)}
    _write(folder / _RUN, [json.dumps(said, ensure_ascii=False, indent=2).encode()])
    return bundle


def skipped_judgements(found: Evaluation) -> dict[str, int]:
    """Why how many of the judgements in the run's bundle were asked of nobody."""
    path = Path(found.bundle) / "runs" / found.run_id / _JUDGEMENTS
    if not path.is_file():
        return {}
    with path.open("rb") as lines:
        rows = (json.loads(line) for line in lines if b'"skipped"' in line)
        return dict(Counter(row["reason"] for row in rows if row["status"] == "skipped"))


def write_judged_again(evaluations: Path, run_id: str, document: bytes, judged: Iterable[JudgedRow]) -> Path:
    """The bundle of a run whose stored answers were judged again: its run.json as it was, and the judgements."""
    bundle = run_folder(evaluations, run_id)
    folder = bundle / "runs" / run_id
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _RUN).unlink(missing_ok=True)
    _write_judged(folder, judged)
    _write(folder / _RUN, [document])
    return bundle


def _write_judged(folder: Path, judged: Iterable[JudgedRow]) -> None:
    """Both parts in one pass, so that neither has to fit into memory."""
    import zstandard

    names = [folder / _JUDGEMENTS, folder / "requests.jsonl.zst"]
    parts = [name.with_name(f".{name.name}.part") for name in names]
    count = 0
    with parts[0].open("wb") as rows, parts[1].open("wb") as packed:
        with zstandard.ZstdCompressor(level=_LEVEL).stream_writer(packed, closefd=False) as requests:
            for one in judged:
                count += 1
                rows.write(_line(one.judgement))
                if one.request is not None:
                    requests.write(_line(one.request))
        for file in (rows, packed):
            _settle(file.fileno(), file)
    for part, name in zip(parts, names, strict=True):
        if count:
            part.replace(name)
        else:
            part.unlink()
            name.unlink(missing_ok=True)


def _line(row: Mapping[str, Any]) -> bytes:
    """One form for one row: no spaces, and what UTF-8 cannot hold is written as JSON does."""
    text = json.dumps(row, ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError:
        return json.dumps(row, separators=(",", ":")).encode() + b"\n"


def _write(target: Path, pieces: Iterable[bytes]) -> None:
    part = target.with_name(f".{target.name}.part")
    with part.open("wb") as file:
        for piece in pieces:
            file.write(piece)
        _settle(file.fileno(), file)
    part.replace(target)


def _settle(descriptor: int, file: Any) -> None:
    file.flush()
    os.fsync(descriptor)


def _document(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
