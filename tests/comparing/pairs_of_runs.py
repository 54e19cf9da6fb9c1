"""A store with runs to compare, written by hand."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from eval_pipeline.comparing.compare import compare
from eval_pipeline.settings import Settings
from tests.bundle_files import Row, compute, hits, load, settings_in, write_golden, write_run
from tests.projects import project_of

SAME_CHUNKER = {"chunker_version": "v1", "top_k": 10}


def ranked(*chunk_ids: str, **rest: Any) -> Row:
    """A result's hits in rank order."""
    return {"hits_top_k": hits(*chunk_ids), **rest}


def answered(found: bool, **rest: Any) -> Row:
    """A result that found the only expected chunk at rank 1, or did not."""
    return ranked("doc/1" if found else "doc/x", **rest)


def expecting_one(n: int, **labels: Any) -> list[Row]:
    """n queries that all expect the same chunk."""
    return [
        {"query_id": f"q{number:04}", "expected_chunk_ids": ["doc/1"], "expected_doc_ids": ["doc"], **labels}
        for number in range(n)
    ]


def store_of(
    folder: Path,
    golden: Sequence[Row],
    runs: Mapping[str, Mapping[str, Row]],
    *,
    config: Mapping[str, Mapping[str, Any]] | None = None,
    described: Mapping[str, Mapping[str, Any]] | None = None,
    definitions: Collection[str] | None = None,
) -> Settings:
    """Load and compute runs given as query id → result; `config` and `described` add to each run.json.

    `definitions`: those that are computed, where not all are looked at.
    """
    bundle = folder / "bundle"
    write_golden(bundle, golden)
    for number, (run_id, results) in enumerate(runs.items()):
        write_run(
            bundle,
            run_id,
            [{"query_id": query_id, **result} for query_id, result in results.items()],
            config={**SAME_CHUNKER, **(config or {}).get(run_id, {})},
            **{
                "suite": "nightly",
                "created_at": f"2026-09-{number + 1:02}T02:00:00Z",
                **(described or {}).get(run_id, {}),
            },
        )
    settings = settings_in(folder)
    load(settings, bundle)
    compute(settings, definitions=definitions)
    return settings


def compared(settings: Settings, a: str = "run-a", b: str = "run-b", **options: Any) -> dict[str, Any]:
    return compare(project_of(settings), a, b, **options)


def query(document: Mapping[str, Any], query_id: str) -> dict[str, Any]:
    """The entry of one query."""
    (entry,) = [one for one in document["per_query"] if one["query_id"] == query_id]
    return entry


def copied(settings: Settings, folder: Path) -> Settings:
    """The same store once more, for a test that changes it."""
    copy = settings_in(folder)
    shutil.copy(settings.db, copy.db)
    return copy
