"""A BEIR dataset: corpus, queries and qrels in a folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from eval_pipeline.adapters._head import Head
from eval_pipeline.adapters._lines import rows_of
from eval_pipeline.adapters._values import as_id, as_text, graded
from eval_pipeline.adapters.from_qrels import _read_grades
from eval_pipeline.adapters.tool import (
    CERTAIN,
    ChunkRow,
    LabelRow,
    Named,
    Page,
    Piece,
    ReadOptions,
    Remark,
    Row,
    Seen,
    Tool,
    Unused,
)
from eval_pipeline.errors import InputRejected
from eval_pipeline.words import count

SPLITS = ("test", "dev", "train")


def recognise(head: Head) -> Seen | None:
    """queries.jsonl and a folder of qrels, also with a prefix."""
    queries, qrels = _of_names(head.names, "queries.jsonl"), _qrels(head.names)
    return (
        Seen(CERTAIN, f"a BEIR dataset, labels {qrels[0]}")
        if head.kind == "folder" and queries and qrels
        else None
    )


def _of_names(names: tuple[str, ...], end: str) -> list[str]:
    return [name for name in names if name == end or name.endswith((f"/{end}", f"-{end}"))]


def _qrels(names: tuple[str, ...]) -> list[str]:
    """The splits that are there, test before dev before train."""
    found = [
        name for name in names if name.endswith(".tsv") and PurePosixPath(name).parent.name.endswith("qrels")
    ]
    order = {split: place for place, split in enumerate(SPLITS)}
    return sorted(found, key=lambda name: (order.get(PurePosixPath(name).stem, len(SPLITS)), name))


def read(path: Path, options: ReadOptions) -> Iterator[Piece]:
    """A golden row per query that the first split labels, and the corpus as an archive where it has a name."""
    from eval_pipeline.adapters._head import look_at

    head = look_at(path)
    splits, queries = _qrels(head.names), _of_names(head.names, "queries.jsonl")
    if not splits or not queries:
        raise InputRejected(f"{path} has no queries.jsonl with qrels/*.tsv beside it")
    yield Named(dataset=path.resolve().name)
    grades, bad = _read_grades(path / splits[0])
    if bad:
        yield Remark(f"{count(bad, 'line')} of {splits[0]} could not be read as labels")
    if len(splits) > 1:
        yield Remark(
            f"labels are those of {splits[0]}; {', '.join(splits[1:])} were not read: load them as qrels"
        )
    unlabelled = 0
    for _, row in rows_of(path / queries[0]):
        query = as_id(row.get("_id")) if isinstance(row, dict) else None
        if query is None or not isinstance(row, dict):
            yield Unused("a line of queries.jsonl without _id")
            continue
        unlabelled += query not in grades
        labels = graded(grades.pop(query)) if query in grades else {}
        yield LabelRow({"query_id": query, **_about(row), **labels})
    for query, rest in grades.items():
        yield LabelRow({"query_id": query, **graded(rest)})
    if unlabelled:
        yield Remark(
            f"without a label in {splits[0]}: {count(unlabelled, 'query', plural='queries')} of queries.jsonl"
        )
    yield from _archive(path, head.names, options)


def _about(row: Row) -> Row:
    metadata: Any = row.get("metadata")
    found = {"query": as_text(row.get("text"))}
    if isinstance(metadata, dict):
        found |= {name: as_text(metadata.get(name)) for name in ("category", "difficulty", "lang")}
    return {name: value for name, value in found.items() if value is not None}


def _archive(path: Path, names: tuple[str, ...], options: ReadOptions) -> Iterator[Piece]:
    corpus = _of_names(names, "corpus.jsonl")
    if not corpus:
        return
    if options.chunker is None:
        yield Remark(
            "corpus.jsonl was not read: with `load --chunker NAME` it becomes the archive of that chunker version"
        )
        return
    for _, row in rows_of(path / corpus[0]):
        if isinstance(row, dict) and as_id(row.get("_id")):
            title, text = as_text(row.get("title")), as_text(row.get("text"))
            chunk: Row = {
                "chunk_id": as_id(row["_id"]),
                "doc_id": as_id(row["_id"]),
                "text": text,
                "heading_path": title,
            }
            yield ChunkRow({name: value for name, value in chunk.items() if value is not None})


PAGE = Page(
    title="a BEIR dataset",
    file="The folder of a dataset: `corpus.jsonl`, `queries.jsonl`, `qrels/test.tsv`.",
    gives=(
        "a golden set with questions and `grades`, of the split `test`, else `dev`, else `train`",
        "with `--chunker NAME` the corpus as the archive of that chunker version",
    ),
    cannot=("a run: that is a file of its own, as TREC or JSON of scores",),
    ids="`_id`",
    notes=("The dataset is named like its folder, unless `--dataset` says otherwise.",),
    options=("--chunker",),
    example="scifact/",
)
TOOL = Tool("beir", PAGE, recognise, read)
