"""A forget that is killed, wherever it stands, has done a step as a whole or not at all, and goes on when called again."""

from __future__ import annotations

import signal

import pytest

from eval_pipeline.upkeep.forget import Request, forget
from tests.bundle_files import ask, day, load
from tests.projects import project_of
from tests.upkeep.forgettable import own_copy, places_with

# Before which step, the so-manyth of its kind, and whether the store has forgotten by then.
STEPS = [
    ("commit", 1, False),
    ("os.rename", 1, True),  # The list of what was forgotten is about to be there beside the store,
    ("shutil.rmtree", 1, True),  # the kept delivery to go,
    ("os.rename", 2, True),  # it is gone,
    ("detach fresh", 1, True),  # the copy is written,
    ("os.rename", 3, True),  # and about to take the store's place,
    ("e.duckdb.tmp", 1, True),  # it has.
]
DOZENS = [number / 60 for number in range(1, 60)]


@pytest.fixture
def killed(secrets_in_part, prepared):
    """Kill a forget of `told` in a process of its own."""
    settings, _ = secrets_in_part

    def kill(function, scope, *step):
        folder = settings.db.parent
        dead = prepared.start(
            f"tests.upkeep.forgetting_until:{function}", folder, scope, *step, folder=folder
        )
        assert dead.wait() == -signal.SIGKILL, dead.said

    return kill


@pytest.mark.parametrize(("words", "number", "is_committed"), STEPS)
def test_a_killed_forget_is_finished_by_the_next_call(secrets_in_part, killed, words, number, is_committed):
    settings, bundle = secrets_in_part
    killed("forget_until", "rows", words, number)
    assert ask(settings, "select run_id from runs order by all") == [
        ("kept",),
        *([] if is_committed else [("told",)]),
    ]
    assert ask(settings, "select count(*) from ledger.tombstones") == [(int(is_committed),)]
    if is_committed:
        assert load(settings, bundle, on=4).forgotten == ["told"]
    report = forget(project_of(settings, now=day(5)), Request("run", "told"))
    assert report.was_unfinished is is_committed
    assert_told_is_gone(settings)


def assert_told_is_gone(settings):
    assert not [
        place for place in places_with(settings) if "told" in place or place.startswith("raw.results")
    ]
    assert ask(settings, "select count(*) from ledger.tombstones where compacted_at is null") == [(0,)]
    assert not list(settings.db.parent.glob("*.compacting*"))


def test_a_killed_forget_of_texts_is_finished_too(secrets_in_part, killed):
    settings, _ = secrets_in_part
    killed("forget_until", "texts", "os.rename", 2)
    assert any(place.endswith("told/results.jsonl.zst") for place in places_with(settings))
    forget(project_of(settings, now=day(5)), Request("run", "told", text=True))
    assert_texts_of_told_are_gone(settings)


def assert_texts_of_told_are_gone(settings):
    found = [place for place in places_with(settings) if "told" in place]
    # What stays is the id of a query that carries the word.
    assert found == ["e.duckdb.deliveries/d0000001.20260902T000000.000000/runs/told/results.jsonl.zst"]


@pytest.fixture(scope="module")
def count(computed_in_part_once, tmp_path_factory, prepared):
    """How many steps it takes to forget."""

    def steps(scope):
        folder = tmp_path_factory.mktemp("counted")
        own_copy(computed_in_part_once, folder)
        whole = prepared.start(
            "tests.upkeep.forgetting_until:forget_until_step", folder, scope, 0, folder=folder
        )
        assert whole.wait() == 0, whole.said
        return int(whole.said)

    return {scope: steps(scope) for scope in ("rows", "texts")}


@pytest.mark.slow
@pytest.mark.parametrize("moment", DOZENS)
@pytest.mark.parametrize("scope", ["rows", "texts"])
def test_killed_at_dozens_of_steps_the_next_call_finishes_it(secrets_in_part, killed, count, scope, moment):
    settings, _ = secrets_in_part
    killed("forget_until_step", scope, max(1, int(count[scope] * moment)))
    forget(project_of(settings, now=day(5)), Request("run", "told", text=scope == "texts"))
    {"rows": assert_told_is_gone, "texts": assert_texts_of_told_are_gone}[scope](settings)
