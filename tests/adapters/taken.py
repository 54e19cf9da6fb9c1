"""A file of somebody else's taken for a bundle, and what the bundle holds."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import zstandard

from eval_pipeline.adapters.taking import recognise
from eval_pipeline.adapters.tool import ReadOptions
from eval_pipeline.adapters.writing import Wanted, write_bundle

MADE = Path(__file__).parent / "made"
Row = dict[str, Any]


@dataclass
class Bundle:
    """What was made of the file."""

    tool: str
    words: str
    runs: dict[str, dict[str, Row]] = field(default_factory=dict)
    said: dict[str, Row] = field(default_factory=dict)
    golden: dict[str, Row] = field(default_factory=dict)
    archive: list[Row] = field(default_factory=list)
    refused: list[tuple[int | None, str]] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    unused: dict[str, int] = field(default_factory=dict)

    @property
    def rows(self) -> dict[str, Row]:
        """The results of the only run."""
        (found,) = self.runs.values()
        return found


def take(path: Path, *, tool: str | None = None, wanted: Wanted | None = None, **options: Any) -> Bundle:
    """The bundle that loading this file would load."""
    taken = recognise(path, tool)
    with TemporaryDirectory() as folder:
        made = write_bundle(
            taken.tool, path, ReadOptions(**options), wanted or Wanted(dataset="demo"), Path(folder)
        )
        bundle = Bundle(taken.tool.name, taken.seen.words, remarks=made.remarks, unused=dict(made.unused))
        for run in made.bundle.runs:
            bundle.runs[run.path.name] = {row["query_id"]: row for row in _rows(run.parts["results"])}
            bundle.said[run.path.name] = json.loads(run.run_file.read_text("utf-8"))
            bundle.refused += [(one.line, one.reason) for one in run.problems["results"]]
        for golden in made.bundle.golden_sets:
            bundle.golden = {row["query_id"]: row for row in _rows(golden.path)}
        for archive in made.bundle.archives:
            bundle.archive += _rows(archive.path)
        return bundle


def _rows(path: Path) -> list[Row]:
    with path.open("rb") as file:
        data = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True).read()
    return [json.loads(line) for line in data.splitlines() if line.strip()]


def ids(row: Row) -> list[str]:
    return [hit["chunk_id"] for hit in row.get("hits_top_k", [])]


def number(score: Any) -> float | None:
    """The number of a score; letters as Inspect counts them."""
    value = score.get("value") if isinstance(score, dict) else score
    letters = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0, "yes": 1.0, "no": 0.0}
    return letters.get(value) if isinstance(value, str) else value if value is None else float(value)


def mean_score(rows: dict[str, Row], name: str) -> float:
    found = [number(row["scores"][name]) for row in rows.values() if name in row.get("scores", {})]
    known = [one for one in found if one is not None]
    return sum(known) / len(known)
