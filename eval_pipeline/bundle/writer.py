"""A bundle written row by row, each checked as by a load: at the end the run is there, or nothing."""

from __future__ import annotations

import datetime as dt
import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TextIO

from eval_pipeline.bundle.files import SUFFIXES
from eval_pipeline.bundle.golden import read_golden_row
from eval_pipeline.bundle.lines import _read_line
from eval_pipeline.bundle.parts import _read_archive_chunk, name_fault, read_run
from eval_pipeline.bundle.results import ERROR, read_result
from eval_pipeline.errors import InputRejected, UsageError
from eval_pipeline.records import Run

Row = dict[str, Any]
Read = Callable[[Row], object]
PLAIN = ".jsonl"
YAML = (".yaml", ".yml")


class _Part:
    """One file of the bundle beside its place, until the run is whole."""

    def __init__(self, target: Path, run_id: str, read: Read, key: str) -> None:
        self.target, self._read, self._key = target, read, key
        stem = target.name.removesuffix(PLAIN)
        others = [stem + suffix for suffix in (*SUFFIXES, *YAML) if suffix != PLAIN]
        if there := [name for name in others if (target.parent / name).exists()]:
            raise UsageError(
                f"{target.parent / there[0]} is there already, and a part is one file: remove it first"
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        self.unfinished = target.with_name(f".{target.name}.{run_id}.part")
        self._file: TextIO = self.unfinished.open("w", encoding="utf-8", newline="")
        self._ids: set[str] = set()

    def add(self, row: Row) -> None:
        name = row[self._key]
        text = json.dumps({key: one for key, one in row.items() if one is not None}, default=_plain)
        line = _read_line(text.encode(), len(self._ids) + 1, self._read, is_last=False)
        if line.record is None:
            where = f" {line.field}" if line.field else ""
            raise UsageError(f"{self._key} {name!r} cannot be taken:{where}: {line.reason}")
        if name in self._ids:
            raise UsageError(f"{self._key} {name!r} was written already: {self.target.name} names each once")
        self._ids.add(name)
        self._file.write(text + "\n")

    def close(self) -> None:
        """All of it is on the disk."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def drop(self) -> None:
        self._file.close()
        self.unfinished.unlink(missing_ok=True)


def _plain(value: Any) -> Any:
    """Numbers of NumPy and the like, sets and times, as JSON knows them."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, Iterable):
        return list(value)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


class BundleWriter:
    """One run written as a bundle that `load` takes in, from the program that makes it.

    Every row is checked when it is given: what `load` would put into quarantine raises UsageError here. The files take
    their places when the block is left, run.json as the last of them; when an exception leaves it, what stood there
    before is all that stands there.

    >>> with BundleWriter("results", run_id="monday", dataset="shop", config={"llm_model": "small"}) as bundle:
    ...     bundle.golden("reset", query="How do I reset my password?", expected_chunk_ids=["account#2"])
    ...     bundle.result("reset", hits=["login#1", "account#2"], answer="Choose Forgot password.", latency_ms=310)
    >>> sorted(path.name for path in Path("results").rglob("*.json*"))
    ['queries.jsonl', 'results.jsonl', 'run.json']
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        run_id: str,
        dataset: str,
        config: Mapping[str, Any] | None = None,
        **run: Any,
    ) -> None:
        """`run` is what else run.json knows: suite, created_at, night, attempt, replaces, replicate_of, …"""
        for what, name in (("run_id", run_id), ("dataset", dataset)):
            if fault := name_fault(name):
                raise UsageError(f"{what}: {fault}")
        if unknown := run.keys() - set(Run.__struct_fields__):
            known = ", ".join(sorted(Run.__struct_fields__))
            raise UsageError(f"run.json has no {', '.join(sorted(unknown))}; there is: {known}")
        self._folder, self._run_id, self._dataset = Path(folder), run_id, dataset
        self._document = {"run_id": run_id, "dataset": dataset, "config": config and dict(config), **run}
        self._chunker = (config or {}).get("chunker_version")
        self._parts: dict[str, _Part] = {}
        self._is_open = False

    def __enter__(self) -> Self:
        self._is_open = True
        try:
            self._write_run()
            self._part("results", self._run_folder / f"results{PLAIN}", read_result)
        except BaseException:
            self._leave()
            raise
        return self

    def result(
        self,
        query_id: str,
        *,
        hits: Iterable[str | Mapping[str, Any]] | None = None,
        answer: str | Mapping[str, Any] | None = None,
        latency_ms: float | Mapping[str, float | None] | None = None,
        **more: Any,
    ) -> None:
        """What the system did with a query: hits in rank order (chunk ids, or hits), its answer, its time.

        A hit that is a text is the chunk and the document of that id. `more` is what else a result has: error,
        timed_out, judge, folder_mode, …
        """
        taken = {
            "hits_top_k": None if hits is None else list(hits),
            "answer": {"text": answer} if isinstance(answer, str) else answer,
            "latency_ms": latency_ms
            if latency_ms is None or isinstance(latency_ms, Mapping)
            else {"total": latency_ms},
        }
        self._part("results").add({"query_id": query_id, **taken, **more})

    def golden(self, query_id: str, *, query: str | None = None, **labels: Any) -> None:
        """A row of the golden set: the question, and expected_chunk_ids, expected_doc_ids, must_contain, category, …

        All of them together take the place of the dataset's golden set.
        """
        place = self._folder / "datasets" / self._dataset / f"queries{PLAIN}"
        self._part("golden", place, read_golden_row).add({"query_id": query_id, "query": query, **labels})

    def archive(self, chunk_id: str, *, doc_id: str, text: str | None = None, **more: Any) -> None:
        """A chunk of the archive of the run's chunker version, with its source_spans, heading_path, …"""
        if not self._chunker:
            raise UsageError('an archive is that of a chunker version: give config={"chunker_version": …}')
        place = self._folder / "datasets" / self._dataset / "inventories" / f"{self._chunker}{PLAIN}"
        part = self._part("archive", place, _read_chunk, key="chunk_id")
        part.add({"chunk_id": chunk_id, "doc_id": doc_id, "text": text, **more})

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._finish()
        finally:
            self._leave()

    @property
    def _run_folder(self) -> Path:
        return self._folder / "runs" / self._run_id

    @property
    def _unfinished_run(self) -> Path:
        return self._run_folder / ".run.json.part"

    def _part(
        self, name: str, place: Path | None = None, read: Read | None = None, key: str = "query_id"
    ) -> _Part:
        if not self._is_open:
            raise UsageError("a bundle is written inside of `with BundleWriter(…) as bundle:`")
        if name not in self._parts and place is not None and read is not None:
            self._parts[name] = _Part(place, self._run_id, read, key)
        return self._parts[name]

    def _write_run(self) -> None:
        self._run_folder.mkdir(parents=True, exist_ok=True)
        document = {name: value for name, value in self._document.items() if value is not None}
        with self._unfinished_run.open("w", encoding="utf-8") as file:
            json.dump(document, file, ensure_ascii=False, indent=2, default=_plain)
            file.flush()
            os.fsync(file.fileno())
        try:
            read_run(self._unfinished_run)
        except InputRejected as rejected:
            raise UsageError(f"run.json {rejected.field or ''}: {rejected.reason}") from rejected

    def _finish(self) -> None:
        """An earlier run.json goes first and the new one comes last: between them nobody takes the run for whole."""
        for part in self._parts.values():
            part.close()
        run_file = self._run_folder / "run.json"
        run_file.unlink(missing_ok=True)
        _keep_names(self._run_folder)
        for part in self._parts.values():
            part.unfinished.replace(part.target)
            _keep_names(part.target.parent)
        self._unfinished_run.replace(run_file)
        for folder in (self._run_folder, self._run_folder.parent, self._folder):
            _keep_names(folder)

    def _leave(self) -> None:
        self._is_open = False
        for part in self._parts.values():
            part.drop()
        self._unfinished_run.unlink(missing_ok=True)
        _remove_if_empty(self._run_folder)


def _read_chunk(row: Row) -> object:
    return _read_archive_chunk(row, inverted_spans=ERROR)


def _keep_names(folder: Path) -> None:
    """What the folder lists stays, also when the power goes."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove_if_empty(folder: Path) -> None:
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
