"""Results are opened once: what is hashed, taken in and kept are the same bytes."""

from __future__ import annotations

from pathlib import Path

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
