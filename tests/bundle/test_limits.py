"""Input that means harm, or is simply too much: refused with the limit it broke, and never a memory that grows."""

from __future__ import annotations

import gzip
import json
import tracemalloc

import pytest
import zstandard

from eval_pipeline.bundle import files, problems
from eval_pipeline.bundle.files import content_hash, line_blocks
from eval_pipeline.bundle.golden import read_golden_set
from eval_pipeline.bundle.parts import read_archive
from eval_pipeline.bundle.results import read_results
from eval_pipeline.errors import InputRejected
from tests.bundle_files import ask, load, settings_in, write_lines, write_run

PACK = {".jsonl.gz": gzip.compress, ".jsonl.zst": zstandard.ZstdCompressor().compress}


def read_all(path):
    return list(read_results(path, run_id="r"))


@pytest.mark.parametrize("suffix", PACK)
def test_a_bomb_is_refused_by_how_much_it_unpacks_to(tmp_path, monkeypatch, suffix):
    monkeypatch.setattr(files, "HONEST_BYTES", 1 << 20)
    path = tmp_path / f"results{suffix}"
    path.write_bytes(PACK[suffix](b'{"query_id": "a"}\n' + b" " * (8 << 20) + b"\n"))
    for read in (content_hash, read_all):
        with pytest.raises(InputRejected, match="500 times its size"):
            read(path)


@pytest.mark.parametrize("suffix", PACK)
def test_what_unpacks_to_more_than_any_part_may_have_is_refused_with_that_limit(
    tmp_path, monkeypatch, suffix
):
    monkeypatch.setattr(files, "UNPACKED_BYTES", 3 << 20)
    path = tmp_path / f"results{suffix}"
    path.write_bytes(PACK[suffix](b"".join(b'{"query_id": "%d"}\n' % number for number in range(250_000))))
    with pytest.raises(InputRejected, match="more than 3 MiB"):
        content_hash(path)


def test_parts_that_are_held_in_memory_have_a_smaller_limit(tmp_path, monkeypatch):
    monkeypatch.setattr("eval_pipeline.bundle.parts.HELD_BYTES", 1 << 10)
    monkeypatch.setattr("eval_pipeline.bundle.golden.HELD_BYTES", 1 << 10)
    archive = write_lines(tmp_path / "v1.jsonl", [{"chunk_id": f"c{n}", "doc_id": "d"} for n in range(100)])
    golden = write_lines(tmp_path / "queries.jsonl", [{"query_id": f"q{n}"} for n in range(100)])
    for read in (lambda: list(read_archive(archive)), lambda: read_golden_set(golden)):
        with pytest.raises(InputRejected, match="unpacks to more than"):
            read()


def test_a_bomb_costs_no_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "HONEST_BYTES", 64 << 20)
    path = tmp_path / "results.jsonl.zst"
    path.write_bytes(PACK[".jsonl.zst"](bytes(256 << 20)))
    tracemalloc.start()
    try:
        with pytest.raises(InputRejected, match="500 times"):
            content_hash(path)
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def test_a_line_of_ten_megabytes_is_read_and_one_past_the_limit_refused(tmp_path, monkeypatch):
    long = "x" * (10 << 20)
    path = write_lines(
        tmp_path / "results.jsonl", [{"query_id": "a", "answer": {"text": long}}, {"query_id": "b"}]
    )
    (block,) = read_all(path)
    assert block.results["answer_text"].to_pylist() == [long, None]
    monkeypatch.setattr(files, "LINE_BYTES", 1 << 20)
    with pytest.raises(InputRejected, match="a line is longer than 1 MiB"):
        list(line_blocks(path, block_bytes=1 << 16))


@pytest.mark.parametrize("depth", [200, 5_000, 200_000])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_deep_nesting_costs_at_most_its_own_row(tmp_path, depth, opening, closing):
    deep = opening * depth + "1" + closing * depth
    path = write_lines(
        tmp_path / "results.jsonl", ['{"query_id": "a", "x": ' + deep + "}", {"query_id": "b"}]
    )
    (block,) = read_all(path)
    taken = [row["query_id"] for row in block.results.to_pylist()]
    assert taken in (["a", "b"], ["b"])
    assert len(taken) + len(block.problems) == 2
    assert all("deep" in problem.reason for problem in block.problems)


@pytest.mark.parametrize("number", ["1e400", "-1e400", "NaN", "Infinity", "9" * 400, "9" * 5000])
def test_a_number_beyond_all_bounds_costs_its_own_row(tmp_path, number):
    rows = ['{"query_id": "a", "latency_ms": {"total": ' + number + "}}", {"query_id": "b"}]
    (block,) = read_all(write_lines(tmp_path / "results.jsonl", rows))
    assert [row["query_id"] for row in block.results.to_pylist()] == ["b"]
    assert [problem.line for problem in block.problems] == [1]


def test_a_part_of_nothing_but_bad_rows_is_refused_as_a_whole_with_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(problems, "MOST_BAD_ROWS", 50)
    settings = settings_in(tmp_path)
    folder = write_run(tmp_path / "bundle", "hopeless", [])
    for name in ("results", "extractions", "judge_spot_check"):
        write_lines(folder / f"{name}.jsonl", [*(["[]"] * 60), "{}"])
    write_run(tmp_path / "bundle", "fine", [{"query_id": "a"}])
    monkeypatch.setattr("eval_pipeline.bundle.files.BLOCK_BYTES", 64)
    report = load(settings, tmp_path / "bundle")
    assert (report.runs, report.rejected) == (["fine"], ["hopeless"])
    assert "more than 50 rows" in report.problems[0].reason
    assert ask(settings, "select count(*) from quarantine") == [(1,)]


def test_of_very_many_bad_rows_all_are_on_record_and_few_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("eval_pipeline.loading.context.SHOWN_PROBLEMS", 3)
    settings = settings_in(tmp_path)
    write_run(tmp_path / "bundle", "run-1", [*[{"query_id": n} for n in range(20)], {"query_id": "a"}])
    report = load(settings, tmp_path / "bundle")
    assert (report.quarantined, len(report.problems)) == (20, 3)
    assert ask(settings, "select count(*) from quarantine") == [(20,)]


def test_hostile_names_of_files_and_ids_are_stored_or_refused_as_they_are(tmp_path):
    settings = settings_in(tmp_path)
    hostile = [
        "'; drop table raw.results; --",
        "../../etc/passwd",
        "\u202egnp.exe",
        "a\nb",
        "\ufeff",
        " ",
        "{}",
        "%s",
    ]
    rows = [{"query_id": one, "hits_top_k": [{"chunk_id": one, "doc_id": one}]} for one in hostile]
    write_run(tmp_path / "bundle", "run-1", rows)
    (tmp_path / "bundle" / "runs" / "it's; a 'name'").mkdir()
    (tmp_path / "bundle" / "runs" / "it's; a 'name'" / "run.json").write_text(
        json.dumps({"run_id": "it's; a 'name'", "dataset": "kb"})
    )
    report = load(settings, tmp_path / "bundle")
    assert report.runs == ["run-1"]
    stored = ask(settings, "select query_id, chunk_id, doc_id from hits order by query_id")
    assert stored == sorted((one, one, one) for one in hostile)
    assert "cannot be a name" in ask(settings, "select reason from quarantine")[0][0]
