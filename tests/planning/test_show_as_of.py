"""What stood at an earlier time is never shown as if it were the present."""

from __future__ import annotations

import datetime as dt

import pytest
from click.testing import CliRunner

from eval_pipeline.cli.main import cli
from eval_pipeline.computing.history import parse_point

RANK = "metrics/reciprocal_rank.sql"
HALVED = (("cast(1 as double)", "cast(0.5 as double)"), ("-- version: 1", "-- version: 2"))


@pytest.fixture
def halved(world):
    """Computed on October 2nd, and on the 3rd by another definition of one formula."""
    world.overlay(RANK, *HALVED)
    world.compute(everything=True)
    return world


def shown(world, day: str) -> str:
    words = ["show", "--db", str(world.settings.db), "alpha-1", "--no-slices", "--as-of", day]
    own = {"EVAL_PIPELINE_SQL": str(world.own_sql), "COLUMNS": "200"}
    done = CliRunner().invoke(cli, words, env=own)
    assert done.exit_code == 0, done.output
    return done.output


def test_values_of_an_older_definition_are_shown_with_the_formulas_they_are_of(halved):
    assert "as of 2026-10-02; definitions: not the ones that hold now: reciprocal_rank\n" in shown(
        halved, "2026-10-02"
    )


def test_values_of_the_definitions_that_hold_now_are_said_to_be_that(halved):
    assert "as of 2026-10-03; definitions: the ones that hold now\n" in shown(halved, "2026-10-03")


def test_a_time_to_the_second_counts_what_was_computed_within_it():
    """Whoever notes the time right after computing asks for what was computed, whatever the clock's fraction was."""
    computed_at = dt.datetime(2026, 11, 19, 9, 45, 29, 800_000)
    for noted in ("2026-11-19T09:45:29Z", "2026-11-19T10:45:29+01:00"):
        moment = parse_point(noted).moment
        assert computed_at <= moment < dt.datetime(2026, 11, 19, 9, 45, 30)
    assert parse_point("2026-11-19T09:45:29.5Z").moment == dt.datetime(2026, 11, 19, 9, 45, 29, 500_000)
