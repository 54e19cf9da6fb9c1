"""What adapters read, written as a bundle: runs with their names, labels, archives, remarks."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, cast

import pyarrow as pa
import zstandard

from eval_pipeline.adapters._names import hash_of, usable_name
from eval_pipeline.adapters._values import NO_DOCUMENT, document_id
from eval_pipeline.adapters.mapped_rows import ScatteredRows
from eval_pipeline.adapters.tool import (
    ChunkRow,
    LabelRow,
    Named,
    Piece,
    ReadOptions,
    Remark,
    ResultRow,
    RunSaid,
    Tool,
    Unused,
)
from eval_pipeline.bundle.layout import ArchiveFile, Bundle, GoldenFile, Original, RunFolder
from eval_pipeline.bundle.packed_lines import PACKED
from eval_pipeline.bundle.problems import MOST_BAD_ROWS, Problem, shorten
from eval_pipeline.errors import InputRejected, UsageError
from eval_pipeline.words import count

Row = dict[str, Any]
RunKey = tuple[str, int]
MOST_RUNS, MOST_OPEN = 2_000, 100
SQLITE = b"SQLite format 3\x00"
# Which fields of a golden row are labels; the others say what was asked and where it belongs.
LABELS = frozenset(
    {
        *("expected_chunk_ids", "expected_doc_ids", "grades", "must_contain", "forbidden", "answerable"),
        *("reference", "expected_chunk_spans", "ground_truth_spans", "gold_supports"),
    }
)

_ENDINGS = re.compile(
    r"(\.(gz|zst|lz4|jsonl?|ndjson|csv|tsv|parquet|eval|run|trec|txt|qrels|sqlite3?|db))+\Z", re.IGNORECASE
)


# What reading raises where a value is of another kind than everywhere else: the file is refused, with the place.
_NOT_AS_EXPECTED = (
    *(TypeError, AttributeError, KeyError, ValueError, IndexError, OverflowError, RecursionError),
    *(pa.ArrowException, OSError),
)


# Made once: making it takes as long as writing a row.
_encoded = json.JSONEncoder(default=str).encode


class _IdsRepeat(Exception):
    """The ids of the file do not tell its queries apart."""


@dataclass(frozen=True)
class Wanted:
    """What somebody said of the delivery, and what is known of its dataset: ids by question, and what is asked.

    `asked` are the queries of a dataset whose golden set is there already; with `fill` those without a row of their
    own get an empty one.
    """

    run_id: str | None = None
    dataset: str | None = None
    said: Mapping[str, Any] = field(default_factory=dict)
    ids_of: Callable[[str], Mapping[str, str]] = lambda _dataset: {}
    asked: Callable[[str], frozenset[str]] = lambda _dataset: frozenset()
    fill: bool = False
    golden_only: bool = False
    relevant_from: Callable[[str], int] = lambda _dataset: 1


@dataclass
class Made:
    """The bundle that was written, and what should be said of it: counts, remarks, unused fields with their rows."""

    bundle: Bundle
    dataset: str
    runs: list[str] = field(default_factory=list)
    rows: int = 0
    labels: int = 0
    remarks: list[str] = field(default_factory=list)
    unused: Counter[str] = field(default_factory=Counter)
    shown: list[Row] = field(default_factory=list)
    # What its runs are called in the file.
    own_names: dict[str, str] = field(default_factory=dict)
    golden: list[Row] = field(default_factory=list)
    # The documents of hits that differ from the chunk id.
    documents: frozenset[str] = frozenset()


class _RunFile:
    """The results of one run while they are written, each on the line that its row came from."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True)
        self.path = path
        self.out: BinaryIO | None = None
        self.line = 0
        self.problems: list[Problem] = []
        self.ids: set[str] = set()

    def open(self) -> BinaryIO:
        """Where to write on: what was closed goes on behind what is there."""
        if self.out is None:
            packer = zstandard.ZstdCompressor(level=1, write_checksum=True)
            self.out = cast(BinaryIO, packer.stream_writer(self.path.open("ab")))
        return self.out

    def close(self) -> None:
        if self.out is not None:
            self.out.close()
            self.out = None

    def write(self, row: Row, number: int | None) -> None:
        blank = b"\n" * (number - self.line - 1) if number is not None else b""
        self.open().write(blank + _encoded(row).encode() + b"\n")
        self.line = max(self.line + 1, number or 0)


@dataclass
class _Writer:
    """One pass over the pieces of one file."""

    folder: Path
    source: Path
    wanted: Wanted
    stack: ExitStack
    by_question: bool
    runs: dict[RunKey, _RunFile] = field(default_factory=dict)
    # The runs whose files are open, those written to last at the end.
    written: dict[RunKey, _RunFile] = field(default_factory=dict)
    said: dict[str, Row] = field(default_factory=dict)
    golden: dict[str, Row] = field(default_factory=dict)
    named: Named = field(default_factory=Named)
    remarks: dict[str, None] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    unused: Counter[str] = field(default_factory=Counter)
    shown: list[Row] = field(default_factory=list)
    known: Mapping[str, str] | None = None
    chunks: dict[str | None, _RunFile] = field(default_factory=dict)
    # The documents of hits that differ from the chunk id, and whether some hit names its document itself.
    documents: set[str] = field(default_factory=set)
    names_documents: bool = False

    def take(self, piece: Piece) -> None:
        match piece:
            case ResultRow():
                self.take_result(piece)
            case LabelRow():
                self.take_labels(dict(piece.row))
            case RunSaid():
                self.said.setdefault(piece.run, {}).update(piece.document)
            case Unused():
                self.unused[piece.name] += 1
            case Remark():
                self.remarks[piece.words] = None
            case Named():
                self.named = replace(
                    self.named, **{name: value for name, value in vars(piece).items() if value is not None}
                )
            case ChunkRow():
                self.take_chunk(piece)

    def dataset(self) -> str:
        return self.wanted.dataset or self.named.dataset or ""

    def take_result(self, piece: ResultRow) -> None:
        run = self.run_of(piece)
        if piece.reason is not None:
            self.refuse(run, piece, piece.reason)
            return
        row = {"query_id": None, **piece.row}
        row["query_id"], how = self.id_of(row["query_id"], piece.question)
        self.counts[how] += 1
        if row["query_id"] in run.ids:
            has_own = piece.row.get("query_id") is not None and not self.by_question
            if has_own and piece.question is not None:
                raise _IdsRepeat
            if not has_own:
                self.refuse(
                    run, piece, "the same question stands in an earlier row, and no id tells the two apart"
                )
                return
        run.ids.add(str(row["query_id"]))
        for name in ("hits_top_k", "answer", "scores", "error", "judge"):
            self.counts[name] += bool(row.get(name))
        if "hits_top_k" in row:
            self.counts["lists"] += 1
            self.note_documents(row["hits_top_k"])
        run.write(row, piece.number)
        self.counts["rows"] += 1
        if len(self.shown) < 3:
            self.shown.append(row)

    def note_documents(self, hits: Any) -> None:
        for hit in hits if isinstance(hits, list) else ():
            chunk_id, doc_id = (
                (hit.get("chunk_id"), hit.get("doc_id")) if isinstance(hit, dict) else (hit, hit)
            )
            if not isinstance(chunk_id, str) or not isinstance(doc_id, str):
                continue
            if doc_id != chunk_id:
                self.documents.add(doc_id)
            self.names_documents = self.names_documents or doc_id != document_id(chunk_id)

    def run_of(self, piece: ResultRow) -> _RunFile:
        key = (piece.run, piece.epoch)
        if key not in self.runs:
            if len(self.runs) >= MOST_RUNS:
                raise InputRejected(f"the file holds more than {MOST_RUNS} runs: cut it into several files")
            path = self.folder / "unnamed" / str(len(self.runs)) / f"results{PACKED}"
            self.runs[key] = _RunFile(path)
            self.runs[key].open()
            self.stack.callback(self.runs[key].close)
        self.written[key] = self.written.pop(key, self.runs[key])
        if len(self.written) > MOST_OPEN:
            self.written.pop(next(iter(self.written))).close()
        return self.runs[key]

    def refuse(self, run: _RunFile, piece: ResultRow, reason: str) -> None:
        if len(run.problems) > MOST_BAD_ROWS:
            raise InputRejected(
                f"more than {MOST_BAD_ROWS:,} rows cannot be taken: the file is refused as a whole"
            )
        query = piece.row.get("query_id")
        run.problems.append(
            Problem(
                path=str(self.source),
                line=piece.number,
                query_id=query if isinstance(query, str) else None,
                reason=reason,
                text=shorten(piece.text),
            )
        )

    def id_of(self, own: Any, question: str | None) -> tuple[Any, str]:
        """The id of the file; where it tells nothing apart, that of the golden set, or a hash of the question.

        Beside it stands where it comes from.
        """
        if question is None or (own is not None and not self.by_question):
            return own, "as it is"
        if self.known is None:
            self.known = self.wanted.ids_of(self.dataset()) if self.dataset() else {}
        found = self.known.get(question)
        return (hash_of(question), "hashed") if found is None else (found, "known questions")

    def take_labels(self, row: Row) -> None:
        row["query_id"], _ = self.id_of(row.get("query_id"), row.get("query"))
        if row["query_id"] is None:
            return
        self.expect_relevant(row)
        known = self.golden.setdefault(str(row["query_id"]), row)
        if known is not row:
            for name, value in row.items():
                if name in known and known[name] != value:
                    self.counts["differing labels"] += 1
                known.setdefault(name, value)

    def expect_relevant(self, row: Row) -> None:
        """Of what is graded only that is expected which the dataset calls relevant."""
        lowest, grades = self.wanted.relevant_from(self.dataset()), row.get("grades") or {}
        for name in ("expected_chunk_ids", "expected_doc_ids") if grades and lowest > 1 else ():
            kept = [one for one in row.pop(name, []) if grades.get(one, lowest) >= lowest]
            if kept:
                row[name] = kept

    def take_chunk(self, piece: ChunkRow) -> None:
        if piece.chunker not in self.chunks:
            if len(self.chunks) >= MOST_OPEN:
                raise InputRejected(f"the file holds chunks of more than {MOST_OPEN} chunker versions")
            path = self.folder / "inventories" / str(len(self.chunks)) / f"archive{PACKED}"
            self.chunks[piece.chunker] = _RunFile(path)
            self.stack.callback(self.chunks[piece.chunker].close)
        self.chunks[piece.chunker].write(piece.row, None)


def write_bundle(tool: Tool, source: Path, options: ReadOptions, wanted: Wanted, folder: Path) -> Made:
    """The file as a bundle in this folder; it is read again where its rows turn out not to stand as they should."""
    chosen, by_question = options, False
    while True:
        target = folder / f"pass-{int(chosen.scattered)}{int(by_question)}"
        try:
            with ExitStack() as stack:
                writer = _Writer(target, source, wanted, stack, by_question)
                for piece in tool.read(source, chosen):
                    writer.take(piece)
            return _finished(writer, tool, chosen, folder)
        except ScatteredRows:
            if chosen.scattered:
                raise
            chosen = replace(chosen, scattered=True)
        except _IdsRepeat:
            by_question = True
        except _NOT_AS_EXPECTED as error:
            raise InputRejected(f"{source.name} is not built as {tool.page.title} is: {error!r}") from error


def _finished(writer: _Writer, tool: Tool, options: ReadOptions, folder: Path) -> Made:
    dataset = _dataset_of(writer)
    bundle = Bundle(folder.resolve())
    made = Made(bundle, dataset, remarks=list(writer.remarks), unused=writer.unused, shown=writer.shown)
    made.documents = frozenset(writer.documents)
    datasets = [dataset]
    if writer.runs and not writer.wanted.golden_only:
        _refuse_nothing(writer, tool)
        datasets = _place_runs(writer, made, folder)
    _place_labels(writer, made, folder)
    _place_archives(writer, made, folder, datasets, options.chunker)
    if not made.runs and not made.labels and not bundle.archives:
        raise UsageError(
            f"{writer.source} was taken for {tool.page.title}, and it holds "
            f"{'no labels' if writer.wanted.golden_only else 'neither results nor labels'}"
        )
    _name_original(writer, made)
    _remark_ids(writer, made)
    made.rows, made.dataset = writer.counts["rows"], ", ".join(datasets)
    return made


def _dataset_of(writer: _Writer) -> str:
    found = writer.wanted.dataset or (usable_name(writer.named.dataset) if writer.named.dataset else None)
    if not found:
        raise UsageError(
            f"{writer.source} does not say which dataset it is about: add --dataset DATASET "
            "(runs of one dataset are scored by one golden set)"
        )
    return found


def _refuse_nothing(writer: _Writer, tool: Tool) -> None:
    """Rows without hits, answers and scores would end as zeros that say nothing about anything."""
    counts = writer.counts
    if counts["rows"] and not any(
        counts[name] for name in ("hits_top_k", "lists", "answer", "scores", "error", "judge")
    ):
        seen = ", ".join(f"{name} ({count(rows, 'row')})" for name, rows in writer.unused.most_common(12))
        raise UsageError(
            f"{writer.source} was taken for {tool.page.title}, and neither hits nor answers nor "
            f"scores were recognised "
            f"in its {count(counts['rows'], 'row')}" + (f"; seen were {seen}" if seen else "")
        )


def _place_runs(writer: _Writer, made: Made, folder: Path) -> list[str]:
    """Each run in its folder; returns the datasets that they are of."""
    base = writer.wanted.run_id or (usable_name(writer.named.run_id) if writer.named.run_id else None)
    base = base or name_of_file(writer.source)
    names = _run_names(list(writer.runs), base, {} if writer.wanted.run_id else _own_names(writer))
    identity = identity_of(writer.source)
    datasets: dict[str, None] = {}
    for key, file in writer.runs.items():
        dataset = _dataset_of_run(writer, key[0], made.dataset)
        datasets[dataset] = None
        run_id = names[key]
        remark = _fill(writer, file, dataset)
        if remark:
            made.remarks.append(f"{run_id}: {remark}" if len(names) > 1 else remark)
        target = folder / "runs" / run_id
        target.parent.mkdir(parents=True, exist_ok=True)
        file.path.parent.replace(target)
        document = {**writer.said.get(key[0], {}), "run_id": run_id, "dataset": dataset}
        if key[0]:
            document = {**writer.said.get("", {}), **document}
        if names.get((key[0], 1), run_id) != run_id:
            document["replicate_of"] = names[(key[0], 1)]
        document["original"] = identity
        for name, value in writer.wanted.said.items():
            known = document.get(name)
            if isinstance(known, dict) and isinstance(value, dict):
                document[name] = {**known, **value}
            elif value is not None:
                document[name] = value
        (target / "run.json").write_text(json.dumps(document, ensure_ascii=False, default=str), "utf-8")
        named = {"run": writer.source, "results": writer.source}
        problems = [replace(one, run_id=run_id) for one in file.problems]
        parts = {"results": target / file.path.name}
        made.bundle.runs.append(RunFolder(target, parts, named, {"results": problems}))
        made.runs.append(run_id)
        made.own_names[run_id] = key[0]
    return list(datasets)


def _dataset_of_run(writer: _Writer, label: str, otherwise: str) -> str:
    """What somebody said, else what the file says of this run, else of all of them."""
    own = writer.said.get(label, {}).get("dataset")
    return writer.wanted.dataset or (usable_name(own) if own else None) or otherwise


def identity_of(path: Path) -> Row:
    """Which file the run was made from: its name, size and hash; of a folder those of all that lies in it.

    Of a database there is the name alone: it goes on changing, and runs that stand in it would all be new each time.
    """
    if _is_database(path):
        return {"name": path.name}
    files = Original(path).files()
    hashes = [_hash_of(file) for _, file in files]
    together = "".join(f"{digest}  {name}\n" for digest, (name, _) in zip(hashes, files, strict=True))
    digest = hashlib.sha256(together.encode()).hexdigest() if path.is_dir() else hashes[0]
    return {"name": path.name, "bytes": sum(file.stat().st_size for _, file in files), "sha256": digest}


def _hash_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _is_database(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(SQLITE)) == SQLITE


def _name_original(writer: _Writer, made: Made) -> None:
    """The file is kept with the first of its runs, or with the labels where it holds nothing else."""
    bundle, original = made.bundle, Original(writer.source, frozenset(made.runs))
    if bundle.runs:
        bundle.runs[0] = replace(bundle.runs[0], original=original)
    elif bundle.golden_sets:
        bundle.golden_sets[0] = replace(bundle.golden_sets[0], original=original)


def _own_names(writer: _Writer) -> dict[str, str]:
    """The names that runs have where they come from."""
    named = {label: said.get("run_id") for label, said in writer.said.items()}
    return {label: name for label, one in named.items() if one and (name := usable_name(one))}


def _run_names(keys: list[RunKey], base: str, own: Mapping[str, str]) -> dict[RunKey, str]:
    """Their own names; else `x` for the only run, `x.<label>` for several; `.e2` and so on for repeats."""
    labels = list(dict.fromkeys(label for label, _ in keys))
    stems: dict[str, str] = {}
    for number, label in enumerate(labels, start=1):
        name = own.get(label) or (base if len(labels) == 1 else f"{base}.{usable_name(label) or number}")
        stems[label] = name if name not in stems.values() else f"{name}.{number}"
    return {(label, epoch): stems[label] + (f".e{epoch}" if epoch > 1 else "") for label, epoch in keys}


def _fill(writer: _Writer, file: _RunFile, dataset: str) -> str | None:
    """Say which queries have no row at all, and where that is wanted write an empty one."""
    asked = set(writer.golden) or writer.wanted.asked(dataset)
    missing = sorted(asked - file.ids)
    if not missing:
        return None
    queries = count(len(missing), "query", plural="queries")
    if not writer.wanted.fill:
        return (
            f"{queries} of the golden set without a row: not scored "
            "(`load --missing empty`: they count as asked, with nothing found)"
        )
    if not asked & file.ids:
        return "none of its queries is in the golden set: the queries without a row were not taken as asked"
    packer = zstandard.ZstdCompressor(level=1, write_checksum=True)
    rows = "".join(json.dumps({"query_id": one, "hits_top_k": []}) + "\n" for one in missing)
    with file.path.open("ab") as out:
        out.write(packer.compress(rows.encode()))
    return f"{queries} without a row: taken as asked, nothing found"


def label_documents(made: Made, are_documents: Callable[[frozenset[str]], bool]) -> str | None:
    """Turn expected chunks into expected documents if the ids are documents of the hits; returns a remark."""
    ids = frozenset(chunk_id for row in made.golden for chunk_id in row.get("expected_chunk_ids") or ())
    if not ids or any(row.get("expected_doc_ids") for row in made.golden) or not are_documents(ids):
        return None
    n_graded = sum(row.pop("grades", None) is not None for row in made.golden)
    for row in made.golden:
        if "expected_chunk_ids" in row:
            row["expected_doc_ids"] = row.pop("expected_chunk_ids")
    _write_golden(made)
    lost = f"; grades of {count(n_graded, 'query', plural='queries')} are not used" if n_graded else ""
    return f"the expected ids are documents of the hits: they are expected documents{lost}"


def _write_golden(made: Made) -> None:
    (golden,) = made.bundle.golden_sets
    text = "".join(json.dumps(row, ensure_ascii=True, default=str) + "\n" for row in made.golden)
    golden.path.write_bytes(zstandard.ZstdCompressor(level=1, write_checksum=True).compress(text.encode()))


def _place_labels(writer: _Writer, made: Made, folder: Path) -> None:
    rows = [row for row in writer.golden.values() if LABELS & row.keys()]
    if not rows:
        return
    target = folder / "datasets" / made.dataset / f"queries{PACKED}"
    target.parent.mkdir(parents=True, exist_ok=True)
    made.bundle.golden_sets.append(GoldenFile(made.dataset, target, writer.source))
    made.labels, made.golden = len(rows), list(writer.golden.values())
    _write_golden(made)
    if writer.counts["differing labels"]:
        made.remarks.append(
            f"{count(writer.counts['differing labels'], 'label')} of the file contradict earlier ones "
            f"of the same query: "
            "the first counts"
        )


def _place_archives(
    writer: _Writer, made: Made, folder: Path, datasets: Sequence[str], said: str | None
) -> None:
    """The chunks of each chunker version, for every dataset that the runs of the file are of."""
    for own, file in writer.chunks.items():
        chunker = own or said
        for dataset in datasets if chunker else ():
            target = folder / "datasets" / dataset / "inventories" / f"{chunker}{PACKED}"
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file.path, target)
            made.bundle.archives.append(ArchiveFile(dataset, str(chunker), target))
        file.path.unlink()


def _remark_ids(writer: _Writer, made: Made) -> None:
    if writer.counts["hits_top_k"] and not writer.names_documents:
        made.remarks.append(NO_DOCUMENT)
    known, hashed = writer.counts["known questions"], writer.counts["hashed"]
    why = "The ids of the file repeat" if writer.by_question else "The file has no query ids"
    if known:
        made.remarks.append(
            f"{why}: {known:,} were named by the same question in the golden set of {made.dataset}"
        )
    if hashed:
        made.remarks.append(f"{why}: {hashed:,} are named by a hash of their question")


def name_of_file(path: Path) -> str:
    """A run is named like its file, without its endings."""
    return usable_name(_ENDINGS.sub("", path.name)) or usable_name(path.stem) or "run"
