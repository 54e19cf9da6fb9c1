"""Two small runs with a secret in every place that can hold a text, and ways to look for it afterwards."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from eval_pipeline.settings import Settings
from tests.bundle_files import hits, settings_in, write_archive, write_golden, write_lines, write_run
from tests.projects import open_reader

SECRET = "ZEPHYRINE-7731"
SHARED = "a passage that both runs retrieved"
# A formula of ranks, and one of texts.
TWO_FORMULAS = {
    "aggregates.run_metrics:metrics.hit_at_k",
    "aggregates.run_metrics:metrics.answer_strings",
}
# In a column of one of these no text can stand.
NUMBERS = ["BIGINT", "BOOLEAN", "DOUBLE", "INTEGER", "TIMESTAMP"]


def write_secret_bundle(bundle: Path) -> Path:
    """`told` and `kept` on the dataset `kb`; the secret stands in the texts of `told` and of the golden set."""
    write_golden(
        bundle,
        [
            {
                "query_id": "q1",
                "query": f"who is {SECRET}?",
                "expected_chunk_ids": ["d1/1"],
                "expected_doc_ids": ["d1"],
                "must_contain": [f"{SECRET} itself"],
                "gold_supports": [{"rel_path": "d1.md", "snippets": [f"snippet {SECRET}"]}],
                "tags": ["people"],
            },
            {
                "query_id": "q2",
                "query": "what else?",
                "expected_chunk_ids": ["d2/1"],
                "expected_doc_ids": ["d2"],
            },
            {"query_id": "q3", "query": f"both {SECRET}", "question": "differ"},
        ],
    )
    write_archive(
        bundle,
        "v1",
        [{"chunk_id": "d1/1", "doc_id": "d1", "text": f"archived {SECRET}", "rel_path": "d1.md"}],
    )
    write_told(bundle)
    write_run(
        bundle,
        "kept",
        [
            {
                "query_id": "q1",
                "hits_top_k": [hits("d1/1")[0] | {"text": SHARED}],
                "answer": {"text": "somebody"},
            }
        ],
        created_at="2026-08-02T00:00:00Z",
        config={"chunker_version": "v1"},
    )
    return bundle


def write_told(bundle: Path, *, run_id: str = "told") -> Path:
    hit = hits("d1/1")[0] | {"text": f"hit {SECRET}", "rel_path": "d1.md"}
    folder = write_run(
        bundle,
        run_id,
        [
            {
                "query_id": "q1",
                "hits_top_k": [hit, hits("d9/1")[0] | {"text": SHARED}],
                "answer": {
                    "text": f"{SECRET} itself, as was said",
                    "grounded": True,
                    "citations": [{"citation": "d1/1"}, {"citation": f"letter of {SECRET}"}],
                    "references": [{"rel_path": "d1.md", "text": f"reference {SECRET}"}],
                },
                "judge": {
                    "groundedness": {"score": 4, "supported_claims": [f"claim {SECRET}"]},
                    "correctness": {"score": f"four, says {SECRET}", "reasoning": f"because {SECRET}"},
                    "input": {"prompt": f"judge {SECRET}"},
                },
            },
            {"query_id": "q2", "error": f"timeout while asking for {SECRET}", "hits_top_k": hits("d2/1")},
            json.dumps({"query_id": 7, "answer": {"text": f"rejected {SECRET}"}}),
            {"query_id": f"only of {SECRET}"},
        ],
        created_at="2026-08-01T00:00:00Z",
        config={"chunker_version": "v1", "prompt": f"you know {SECRET}", "seed": 3},
        operator=f"{SECRET}",
    )
    write_lines(
        folder / "extractions.jsonl",
        [
            {
                "case_id": "c1",
                "ground_truth": {"name": SECRET, "rooms": 3},
                "extracted": {"name": "x", "rooms": 3},
            },
            {"case_id": "c2", "ground_truth": {"name": SECRET}, "error": f"crashed on {SECRET}"},
        ],
    )
    write_lines(
        folder / "judge_spot_check.jsonl",
        [{"query_id": "q1", "first": {"score": f"high: {SECRET}"}, "second": {"score": 4}}],
    )
    return folder


def own_copy(folder: Path, tmp_path: Path) -> tuple[Settings, Path]:
    """A copy of a store and of its bundle that a test may change."""
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    return settings_in(tmp_path), tmp_path / "bundle"


def places_with(settings: Settings, secret: str = SECRET) -> list[str]:
    """Where the secret can still be read: bytes beside the store, values in any column that holds texts."""
    return [*_files_with(settings, secret), *_columns_with(settings, secret)]


def _files_with(settings: Settings, secret: str) -> Iterator[str]:
    for path in sorted(settings.db.parent.rglob("*")):
        if path.is_file() and path.relative_to(settings.db.parent).parts[0] != "bundle":
            data = path.read_bytes()
            if path.suffix == ".zst":
                data += pa.CompressedInputStream(pa.OSFile(str(path)), "zstd").read()
            if secret.encode() in data:
                yield str(path.relative_to(settings.db.parent))


def _columns_with(settings: Settings, secret: str) -> Iterator[str]:
    with open_reader(settings.db) as con:
        tables = con.execute(
            "select schema_name, table_name, list(column_name order by column_name) from duckdb_columns() c "
            "semi join duckdb_tables() using (database_name, schema_name, table_name) "
            "where database_name = current_database() and data_type not in (select unnest(?)) "
            "group by all order by all",
            [NUMBERS],
        ).fetchall()
        for schema, table, columns in tables:
            counts = ", ".join(
                f'count(*) filter (contains(cast("{name}" as varchar), $secret))' for name in columns
            )
            found = con.execute(f'select {counts} from {schema}."{table}"', {"secret": secret}).fetchall()
            for column, n in zip(columns, found[0], strict=True):
                if n:
                    yield f"{schema}.{table}.{column}"
