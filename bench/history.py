"""A made-up history of evaluation runs, as bundle folders: seeded, and written as fast as the disk takes it.

    python bench/history.py FOLDER [--runs 1000] [--queries 1000] [--hits 10] [--seed 7]
                            [--answers] [--spans 1] [--supports] [--one-file FOLDER]

Every query has a pool of candidate chunks that is the same in all runs, its expected chunks among them; a run ranks
the pool by relevance plus noise and keeps the best. So runs resemble each other, some chunks come back twice, expected
documents show up in several chunks, and about 70 % of the queries find an expected chunk among ten hits.

Ids and numbers have fixed widths: a result line is a template whose digits NumPy paints for all queries at once.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

DATASET = "bench"
CHUNKER = "window-1"
DOCUMENTS = 2_000
CHUNKS_PER_DOCUMENT = 8
EXPECTED_AT_MOST = 3
UNANSWERABLE_SHARE = 0.04
EXPECTED_ADVANTAGE = 0.50
CATEGORIES = ("factual", "reasoning", "multi_hop", "general", "adversarial")
DIFFICULTIES = ("easy", "medium", "hard")
VAULTS = ("personal", "work")
TAGS = (
    "billing",
    "code",
    "contracts",
    "health",
    "hiring",
    "incidents",
    "kitchen",
    "network",
    "policy",
    "research",
    "travel",
    "visitors",
)
FIRST_NIGHT = dt.datetime(2024, 1, 1, 2, 0, 0)

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Shape:
    """How large a history is and what its rows carry beside the hits."""

    runs: int = 1_000
    queries: int = 1_000
    hits: int = 10
    seed: int = 7
    answers: bool = False
    spans: int = 0
    supports: bool = False

    @property
    def pool(self) -> int:
        """Candidates per query: somewhat more than come back."""
        return max(24, self.hits + self.hits // 2)


@dataclass(frozen=True)
class Questions:
    """The golden set as numbers: per query its pool of chunks, the first `n_expected` of which are expected."""

    pool: Numbers
    n_expected: Numbers


def draw_questions(shape: Shape) -> Questions:
    """Pools of chunk numbers; some of the other candidates come from the expected documents."""
    generator = np.random.default_rng([shape.seed, 0])
    n_chunks = DOCUMENTS * CHUNKS_PER_DOCUMENT
    pool = generator.integers(0, n_chunks, size=(shape.queries, shape.pool))
    siblings = generator.random(pool.shape) < 0.15
    siblings[:, :EXPECTED_AT_MOST] = False
    first_document = pool[:, :1] - pool[:, :1] % CHUNKS_PER_DOCUMENT
    neighbours = first_document + generator.integers(0, CHUNKS_PER_DOCUMENT, size=pool.shape)
    pool = np.where(siblings, neighbours, pool)
    n_expected = generator.integers(1, EXPECTED_AT_MOST + 1, size=shape.queries)
    n_expected[generator.random(shape.queries) < UNANSWERABLE_SHARE] = 0
    return Questions(pool, n_expected)


def draw_hits(shape: Shape, questions: Questions, run: int) -> tuple[Numbers, Numbers]:
    """Chunk numbers of one run in rank order, and their scores in ten-thousandths."""
    generator = np.random.default_rng([shape.seed, 1, run])
    relevance = generator.random(questions.pool.shape)
    places = np.arange(questions.pool.shape[1])
    advantage = EXPECTED_ADVANTAGE + 0.1 * np.sin(run / 40)
    is_near = (places < questions.n_expected[:, None]) & (generator.random(questions.pool.shape) < advantage)
    relevance = np.where(is_near, np.sqrt(relevance), relevance * 0.97)
    is_far = (places < questions.n_expected[:, None]) & ~is_near
    relevance = np.where(is_far, relevance * 0.35, relevance)
    order = np.argsort(-relevance, axis=1)[:, : shape.hits]
    scores = 1_000 + (np.take_along_axis(relevance, order, axis=1) * 8_999).astype(np.int64)
    return np.take_along_axis(questions.pool, order, axis=1), scores


class Template:
    """A line of JSON with places of fixed width, painted for many rows at once."""

    def __init__(self) -> None:
        self._text = bytearray()
        self._places: list[tuple[int, int, str]] = []

    def add(self, text: str) -> None:
        """Fixed text."""
        self._text += text.encode()

    def add_number(self, name: str, width: int) -> None:
        """A place for a number of exactly this many digits."""
        self._places.append((len(self._text), width, name))
        self._text += b"0" * width

    def add_choice(self, name: str, options: tuple[str, str]) -> None:
        """A place for one of two texts, the shorter padded with a space."""
        width = max(len(option) for option in options)
        padded = "\x00".join(option.ljust(width) for option in options)
        self._places.append((len(self._text), width, f"{name}\x00{padded}"))
        self._text += b" " * width

    def paint(self, values: dict[str, Numbers], rows: int) -> bytes:
        """All rows, one after the other."""
        page = np.empty((rows, len(self._text)), dtype=np.uint8)
        page[:] = np.frombuffer(bytes(self._text), dtype=np.uint8)
        for start, width, name in self._places:
            if "\x00" in name:
                name, *options = name.split("\x00")
                letters = np.array([list(option.encode()) for option in options], dtype=np.uint8)
                page[:, start : start + width] = letters[values[name]]
                continue
            rest = values[name]
            for place in range(start + width - 1, start - 1, -1):
                page[:, place] = 48 + rest % 10
                rest = rest // 10
        return page.tobytes()


def result_template(shape: Shape, *, run_in_query_id: bool = False) -> Template:
    """The result line of this shape."""
    line = Template()
    line.add('{"query_id":"q-')
    if run_in_query_id:
        line.add_number("run", 5)
        line.add("-")
    line.add_number("query", 7)
    line.add('","hits_top_k":[')
    for rank in range(1, shape.hits + 1):
        line.add("," if rank > 1 else "")
        _add_hit(line, shape, rank)
    line.add("]")
    if shape.answers:
        line.add(',"answer":{"text":"The passage d')
        line.add_number("doc 1", 4)
        line.add(" settles it: fact ")
        line.add_number("fact", 4)
        line.add('.","grounded":')
        line.add_choice("grounded", ("false", "true"))
        line.add(',"citations":[{"citation":"d')
        line.add_number("doc 1", 4)
        line.add("-c")
        line.add_number("chunk 1", 1)
        line.add('"}]}')
    line.add(',"latency_ms":{"total":')
    line.add_number("latency", 3)
    line.add(".")
    line.add_number("tenths", 1)
    line.add("}}\n")
    return line


def _add_hit(line: Template, shape: Shape, rank: int) -> None:
    line.add('{"chunk_id":"d')
    line.add_number(f"doc {rank}", 4)
    line.add("-c")
    line.add_number(f"chunk {rank}", 1)
    line.add('","doc_id":"d')
    line.add_number(f"doc {rank}", 4)
    line.add(f'","rank":{rank},"score":0.')
    line.add_number(f"score {rank}", 4)
    if shape.supports:
        line.add(',"rel_path":"notes/d')
        line.add_number(f"doc {rank}", 4)
        line.add('.md","heading_path":"Part > Section ')
        line.add_number(f"chunk {rank}", 1)
        line.add('"')
    if shape.spans:
        line.add(',"source_spans":[')
        for number in range(shape.spans):
            line.add("," if number else "")
            line.add('{"start":')
            line.add_number(f"start {rank} {number}", 5)
            line.add(',"end":')
            line.add_number(f"end {rank} {number}", 5)
            line.add("}")
        line.add("]")
    line.add("}")


def result_lines(shape: Shape, questions: Questions, run: int, template: Template) -> bytes:
    """The results of one run as JSON Lines."""
    chunks, scores = draw_hits(shape, questions, run)
    generator = np.random.default_rng([shape.seed, 2, run])
    documents, parts = chunks // CHUNKS_PER_DOCUMENT, chunks % CHUNKS_PER_DOCUMENT
    numbers = np.arange(shape.queries)
    is_right = generator.random(shape.queries) < 0.8
    values: dict[str, Numbers] = {
        "run": np.full(shape.queries, run),
        "query": numbers,
        "latency": generator.integers(100, 1_000, size=shape.queries),
        "tenths": generator.integers(0, 10, size=shape.queries),
        "fact": np.where(is_right, numbers, numbers + 1) % 10_000,
        "grounded": (generator.random(shape.queries) < 0.9).astype(np.int64),
    }
    for rank in range(1, shape.hits + 1):
        values[f"doc {rank}"] = documents[:, rank - 1]
        values[f"chunk {rank}"] = parts[:, rank - 1]
        values[f"score {rank}"] = scores[:, rank - 1]
        for number in range(shape.spans):
            start, end = span_of(parts[:, rank - 1], number, shape)
            values[f"start {rank} {number}"], values[f"end {rank} {number}"] = start, end
    return template.paint(values, shape.queries)


def span_of(parts: Numbers, number: int, shape: Shape) -> tuple[Numbers, Numbers]:
    """Where a chunk's text lies: chunks of a document overlap by a fifth."""
    width = 1_000 // max(shape.spans, 1)
    start = 10_000 + parts * 800 + number * width
    return start, start + width


def golden_rows(shape: Shape, questions: Questions) -> Iterator[dict[str, object]]:
    """The golden set, row by row."""
    generator = np.random.default_rng([shape.seed, 3])
    for number in range(shape.queries):
        expected = questions.pool[number, : questions.n_expected[number]]
        documents = [int(chunk) // CHUNKS_PER_DOCUMENT for chunk in expected]
        row: dict[str, object] = {
            "query_id": f"q-{number:07}",
            "query": f"What does note {number} say?",
            "expected_chunk_ids": [chunk_id(int(chunk)) for chunk in expected],
            "expected_doc_ids": list(dict.fromkeys(f"d{document:04}" for document in documents)),
            "category": CATEGORIES[generator.integers(len(CATEGORIES))],
            "difficulty": DIFFICULTIES[generator.integers(len(DIFFICULTIES))],
            "tags": generator.choice(TAGS, size=generator.integers(1, 4), replace=False).tolist(),
            "vault": VAULTS[generator.integers(len(VAULTS))],
        }
        if shape.answers:
            row["must_contain"] = [f"fact {number % 10_000:04}"]
        if shape.spans:
            row["ground_truth_spans"] = [_golden_span(int(chunk)) for chunk in expected]
        if shape.supports and len(expected):
            row["gold_supports"] = [_golden_support(int(chunk)) for chunk in expected]
            if row["category"] == "multi_hop":
                row["required_support_groups"] = [list(range(len(expected)))]
        yield row


def chunk_id(chunk: int) -> str:
    """The id of a chunk number."""
    return f"d{chunk // CHUNKS_PER_DOCUMENT:04}-c{chunk % CHUNKS_PER_DOCUMENT}"


def _golden_span(chunk: int) -> dict[str, object]:
    start = 10_000 + chunk % CHUNKS_PER_DOCUMENT * 800 + 150
    return {"doc_id": f"d{chunk // CHUNKS_PER_DOCUMENT:04}", "start": start, "end": start + 400}


def _golden_support(chunk: int) -> dict[str, object]:
    heading = ["Part", f"Section {chunk % CHUNKS_PER_DOCUMENT}"]
    return {"rel_path": f"notes/d{chunk // CHUNKS_PER_DOCUMENT:04}.md", "heading_path": heading}


def run_document(run: int, run_id: str) -> str:
    """The run.json of a run: a night each."""
    night = FIRST_NIGHT + dt.timedelta(days=run)
    document = {
        "run_id": run_id,
        "dataset": DATASET,
        "suite": "nightly",
        "created_at": night.isoformat() + "Z",
        "night": night.date().isoformat(),
        "config": {"chunker_version": CHUNKER, "embedding_model": "bench-embed", "top_k": 10},
    }
    return json.dumps(document)


def run_name(run: int) -> str:
    """The id of a run number."""
    return f"run-{run:05}"


def write_golden_set(folder: Path, shape: Shape, questions: Questions) -> None:
    """The bundle's datasets folder."""
    target = folder / "datasets" / DATASET
    target.mkdir(parents=True, exist_ok=True)
    with (target / "queries.jsonl").open("w", encoding="utf-8") as file:
        for row in golden_rows(shape, questions):
            file.write(json.dumps(row) + "\n")


def write_runs(folder: Path, shape: Shape, questions: Questions, runs: range) -> None:
    """One folder per run: results.jsonl and run.json, each a bundle in its own right."""
    template = result_template(shape)
    for run in runs:
        target = folder / "runs" / run_name(run)
        target.mkdir(parents=True, exist_ok=True)
        (target / "results.jsonl").write_bytes(result_lines(shape, questions, run, template))
        (target / "run.json").write_text(run_document(run, target.name), encoding="utf-8")


def write_one_file(folder: Path, shape: Shape, questions: Questions) -> None:
    """The same rows as a single run; its query ids carry the number of the run they came from."""
    template = result_template(shape, run_in_query_id=True)
    target = folder / "runs" / "all-runs"
    target.mkdir(parents=True, exist_ok=True)
    with (target / "results.jsonl").open("wb") as file:
        for run in range(shape.runs):
            file.write(result_lines(shape, questions, run, template))
    (target / "run.json").write_text(run_document(0, target.name), encoding="utf-8")


def write_history(folder: Path, shape: Shape) -> None:
    """Golden set and runs."""
    questions = draw_questions(shape)
    write_golden_set(folder, shape, questions)
    write_runs(folder, shape, questions, range(shape.runs))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--queries", type=int, default=1_000)
    parser.add_argument("--hits", type=int, default=10)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--answers", action="store_true", help="an answer with a citation per result")
    parser.add_argument("--spans", type=int, default=0, help="source spans per hit")
    parser.add_argument("--supports", action="store_true", help="paths and headings, and gold supports")
    parser.add_argument("--one-file", type=Path, help="also the same rows as one run of one file, in here")
    options = parser.parse_args()
    shape = Shape(
        options.runs,
        options.queries,
        options.hits,
        options.seed,
        options.answers,
        options.spans,
        options.supports,
    )
    write_history(options.folder, shape)
    if options.one_file:
        write_one_file(options.one_file, shape, draw_questions(shape))


if __name__ == "__main__":
    main()
