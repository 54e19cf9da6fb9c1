"""Results are opened once and parsed once: what is hashed, taken in and kept are the same bytes."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from eval_pipeline.bundle import results
from eval_pipeline.bundle.files import line_blocks
from tests.bundle_files import ask, hits, load, settings_in, write_run


def test_a_results_file_is_opened_once(tmp_path, monkeypatch):
    write_run(tmp_path / "bundle", "nightly-1", [{"query_id": "q1", "hits_top_k": hits("a/1")}])
    settings = settings_in(tmp_path)
    opened = []
    open_file = Path.open

    def noted(path, *arguments, **options):
        opened.append(path.name)
        return open_file(path, *arguments, **options)

    monkeypatch.setattr(Path, "open", noted)
    assert load(settings, tmp_path / "bundle").runs == ["nightly-1"]
    assert opened.count("results.jsonl") == 1
    assert ask(settings, "select count(*) from raw.hits") == [(1,)]
    assert [path.name for path in tmp_path.glob("*.deliveries/*/runs/nightly-1/results*")] == [
        "results.jsonl.zst"
    ]


def test_packed_results_that_prove_too_large_for_memory_are_parsed_once(tmp_path, monkeypatch):
    rows = [{"query_id": f"q{number}", "hits_top_k": hits("a/1")} for number in range(40)]
    rows[30]["answer"] = 3
    run = write_run(tmp_path / "bundle", "nightly-1", [])
    packed = gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode())
    (run / "results.jsonl").unlink()
    (run / "results.jsonl.gz").write_bytes(packed)
    monkeypatch.setitem(line_blocks.__kwdefaults__, "block_bytes", 1_000)
    monkeypatch.setattr("eval_pipeline.loading.runs.IN_MEMORY_BYTES", len(packed))
    parsed = []

    def noted(block, read=results.read_fast):
        parsed.append(block.first_line)
        return read(block)

    monkeypatch.setattr(results, "read_fast", noted)
    settings = settings_in(tmp_path)
    report = load(settings, tmp_path / "bundle")
    assert (report.results, report.quarantined) == (39, 1)
    assert len(parsed) > 2
    assert len(parsed) == len(set(parsed))
    assert ask(settings, "select count(*), count(distinct query_id) from hits") == [(39, 39)]
    assert ask(settings, "select line from quarantine") == [(31,)]
