"""A later version in which shipped definitions mean something else, or are new."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest

import eval_pipeline
from eval_pipeline.comparing.pairs import PAIRS
from eval_pipeline.computing.ledger import DATA_REASONS, DEFINITION_REASONS
from eval_pipeline.computing.measure import measure
from eval_pipeline.formulas.lock_file import FILE
from eval_pipeline.planning.plan import find_plan
from tests.called import call
from tests.few_definitions import shipping
from tests.versions import of_version

VERSION, LATER = eval_pipeline.__version__, "0.2.0"
BECAUSE = f"{LATER} replaced {VERSION}"
RANK = "metrics.reciprocal_rank"
MINE = "-- keys: {mine: hits}\n-- scale: count\n\nselect run_key, query_key, n_hits as mine from facts.outcomes\n"
PARAMETERS = "[formulas.reciprocal_rank]\ncutoff = 2\n"


@pytest.fixture
def world(small_world):
    """Computed by this version; what is called within runs as the later one."""
    with of_version(LATER):
        yield small_world


def released(world, relative, *changes):
    """The same store under a release that ships this file otherwise, or is the first to ship it."""
    shipped = world.folder / "shipped"
    if world.shipped != shipped:
        shutil.copytree(world.shipped, shipped)
    path = shipped / relative
    text = path.read_text("utf-8") if path.is_file() else ""
    for old, new in changes:
        assert old in text or not text, relative
        text = text.replace(old, new) if text else new
    path.write_text(text, "utf-8")
    found = replace(world, shipped=shipped, registries={})
    lines = [f"{one.name} {one.header.version} {one.written_fingerprint}\n" for one in found.registry]
    (shipped / FILE).write_text("".join(lines), "utf-8")
    return found


def with_another_rank(world):
    return released(world, "metrics/reciprocal_rank.sql", ("cast(1 as double)", "cast(2 as double)"))


def because(world):
    return {asset["name"]: asset["because"] for asset in find_plan(world.settings, world.registry)["assets"]}


def test_what_a_release_made_stale_says_so_and_so_does_what_rests_on_it(world):
    later = with_another_rank(world)
    assert because(later) == {RANK: BECAUSE, "aggregates.run_metrics": BECAUSE, PAIRS: None}
    assert list(find_plan(later.settings, later.registry)["assets"][0])[-1] == "because"
    with shipping(later.shipped):
        code, out, _ = call(["plan", "--db", str(later.settings.db)], later.folder, apart=True)
        _, text, _ = call(
            ["plan", "--format", "md", "--db", str(later.settings.db)], later.folder, apart=True
        )
    assert code == 0
    for said in (out, text):
        assert f"{RANK}, aggregates.run_metrics: because {BECAUSE}." in " ".join(said.split())


def test_what_somebody_changed_themselves_is_not_the_releases_doing(world):
    (world.folder / "eval-pipeline.toml").write_text(PARAMETERS)
    assert set(because(released(world, "metrics/hit_at_k.sql")).values()) == {None}
    (world.folder / "eval-pipeline.toml").unlink()
    world.overlay("metrics/reciprocal_rank.sql", ("cast(1 as double)", "cast(3 as double)"))
    assert set(because(world).values()) == {None}


def test_a_release_is_known_behind_parameters_that_were_set_all_along(world):
    (world.folder / "eval-pipeline.toml").write_text(PARAMETERS)
    with of_version(VERSION):
        world.compute(everything=True)
    later = with_another_rank(world)
    assert because(later)[RANK] == BECAUSE


def test_corrected_labels_are_no_upgrade(world):
    rows = json.loads(json.dumps(world.datasets["alpha"]))
    rows[0]["expected_chunk_ids"] = ["x0"]
    world.write_golden("alpha", rows)
    world.deliver()
    assert set(because(world).values()) == {None}


def test_what_the_later_version_computed_itself_is_not_stale_because_of_it(world):
    later = with_another_rank(world)
    later.compute(everything=True)
    assert later.plan() == {}
    other = released(later, "metrics/reciprocal_rank.sql", ("cast(2 as double)", "cast(3 as double)"))
    assert because(other)[RANK] is None


def test_reasons_without_the_upgrade_leave_its_cells_and_compute_the_rest(world):
    later = with_another_rank(world)
    later.own("metrics/mine.sql", MINE)
    done = measure(
        later.settings, later.registry, now=later.tomorrow(), reasons=DATA_REASONS | DEFINITION_REASONS
    )
    assert done.cells == {"metrics.mine": 5, "aggregates.run_metrics": 5}
    assert later.plan() == {RANK: {"formula": 5}, "aggregates.run_metrics": {"parent": 5}}
    assert later.compute(everything=True).cells == {RANK: 5, "aggregates.run_metrics": 5}
