"""Whose text the page of a run shows for a chunk that was retrieved or expected."""

from __future__ import annotations

from pathlib import Path

from eval_pipeline.report.pages.collect import run_page
from tests.bundle_files import (
    compute,
    hits,
    load,
    settings_in,
    write_archive,
    write_golden,
    write_run,
)
from tests.projects import project_of


def test_the_datasets_own_archive_is_shown_over_a_shared_one_that_came_later(tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    write_golden(bundle, [{"query_id": "q", "expected_chunk_ids": ["doc/1"]}])
    own = [{"chunk_id": name, "doc_id": "doc", "text": f"own words of {name}"} for name in ("doc/1", "doc/2")]
    write_archive(bundle, "v1", own)
    write_run(
        bundle, "run", [{"query_id": "q", "hits_top_k": hits("doc/2")}], config={"chunker_version": "v1"}
    )
    shared = [{**chunk, "text": f"shared words of {chunk['chunk_id']}"} for chunk in own]
    write_archive(tmp_path / "later", "v1", shared, dataset=None)
    settings = settings_in(tmp_path)
    load(settings, bundle)
    load(settings, tmp_path / "later", on=2)
    compute(settings, on=3)

    page = run_page(project_of(settings), "run")

    assert "own words of doc/1" in page and "own words of doc/2" in page
    assert "shared words" not in page
