"""A span that ends before it starts rejects its row, or is left out alone where the configuration says so (A0.4)."""

from __future__ import annotations

import pytest

from eval_pipeline.config import load_config
from eval_pipeline.errors import InvalidConfig
from eval_pipeline.loading.quarantine import retry_quarantine
from tests.bundle_files import ask, day, load, settings_in, write_archive, write_golden, write_run
from tests.projects import project_of

GOOD = {"doc_id": "d", "start": 2, "end": 9}
INVERTED = {"doc_id": "d", "start": 9, "end": 2}
NEGATIVE = {"doc_id": "d", "start": -4, "end": 2}
SPANS = 'select "start", "end" from raw.hit_spans order by all'


@pytest.fixture
def bundle(tmp_path):
    folder = tmp_path / "bundle"
    write_golden(
        folder,
        [{"query_id": "q", "ground_truth_spans": [GOOD, INVERTED]}, {"query_id": "plain", "query": "?"}],
    )
    write_archive(folder, "v1", [{"chunk_id": "d#1", "doc_id": "d", "source_spans": [NEGATIVE, GOOD]}])
    hit = {"chunk_id": "d#1", "doc_id": "d", "source_spans": [GOOD, INVERTED, NEGATIVE]}
    write_run(folder, "r", [{"query_id": "q", "hits_top_k": [hit]}])
    return folder


def configured(folder, reading):
    (folder / "eval-pipeline.toml").write_text(f'[load]\ninverted_spans = "{reading}"\n', "utf-8")
    return settings_in(folder)


def test_by_default_the_rows_go_to_quarantine_with_the_span_named(tmp_path, bundle):
    settings = settings_in(tmp_path)
    report = load(settings, bundle)
    assert report.quarantined == 3
    assert {problem.field for problem in report.problems} == {
        "ground_truth_spans[1]",
        "source_spans[0]",
        "hits_top_k[0].source_spans[1]",
    }
    assert ask(settings, SPANS) == []


def test_dropped_the_rows_come_in_with_the_spans_that_are_left(tmp_path, bundle):
    settings = configured(tmp_path, "drop")
    assert load(settings, bundle).quarantined == 0
    for table in ("raw.hit_spans", "labels.spans", "raw.archive_spans"):
        assert ask(settings, f'select "start", "end" from {table}') == [(2, 9)], table


def test_what_was_rejected_comes_in_once_spans_are_dropped(tmp_path, bundle):
    load(settings_in(tmp_path), bundle)
    settings = configured(tmp_path, "drop")
    retry_quarantine(project_of(settings, now=day(3)))
    assert ask(settings, SPANS) == [(2, 9)]
    assert ask(settings, "select count(*) from quarantine where resolved_at is null") == [(0,)]


def test_an_unknown_word_is_refused_with_the_two_that_are_known(tmp_path):
    with pytest.raises(InvalidConfig, match=r'"error" .* or "drop"'):
        load_config(configured(tmp_path, "ignore").config)
