"""A forget that is killed, wherever it stands, has done a step as a whole or not at all, and goes on when called again."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from eval_pipeline.formulas.registry import load_registry
from eval_pipeline.upkeep.forget import Request, forget
from tests.bundle_files import ask, day, load
from tests.store.forgettable import places_with

KILLED = """
import os, signal, sys
from pathlib import Path
from eval_pipeline.formulas.registry import load_registry
from eval_pipeline.upkeep import forget as forgetting
from eval_pipeline.store import compact
from eval_pipeline.upkeep import _rows as removing
from tests.bundle_files import day, settings_in

module, name, moment = sys.argv[2:5]
module = {"forget": forgetting, "compact": compact, "remove": removing}[module]
real = getattr(module, name)

def killed(*arguments, **named):
    if moment == "after":
        real(*arguments, **named)
    os.kill(os.getpid(), signal.SIGKILL)

setattr(module, name, killed)
settings = settings_in(Path(sys.argv[1]))
request = forgetting.Request("run", "told", text=sys.argv[5] == "texts")
forgetting.forget(settings, load_registry(settings), request, now=day(3))
"""

STEPS = [
    ("remove", "remove_unused_ids", "before", False),
    ("forget", "write_mirror", "before", True),
    ("forget", "remove_kept", "before", True),
    ("forget", "remove_kept", "after", True),
    ("compact", "_copy", "after", True),
    ("compact", "_check_copy", "after", True),
    ("forget", "note_compacted", "before", True),
]


@pytest.mark.parametrize(("module", "name", "moment", "is_committed"), STEPS)
def test_a_killed_forget_is_finished_by_the_next_call(secrets_in_part, module, name, moment, is_committed):
    settings, bundle = secrets_in_part
    killed(settings, module, name, moment, "rows")
    assert ask(settings, "select run_id from runs order by all") == [
        ("kept",),
        *([] if is_committed else [("told",)]),
    ]
    assert ask(settings, "select count(*) from ledger.tombstones") == [(int(is_committed),)]
    if is_committed:
        assert load(settings, bundle, on=4).forgotten == ["told"]
    report = forget(settings, load_registry(settings), Request("run", "told"), now=day(5))
    assert report.was_unfinished is is_committed
    assert not [
        place for place in places_with(settings) if "told" in place or place.startswith("raw.results")
    ]
    assert ask(settings, "select count(*) from ledger.tombstones where compacted_at is null") == [(0,)]
    assert not list(settings.db.parent.glob("*.compacting*"))


def test_a_killed_forget_of_texts_is_finished_too(secrets_in_part):
    settings, _ = secrets_in_part
    killed(settings, "forget", "empty_kept", "before", "texts")
    assert any(place.endswith("told/results.jsonl.zst") for place in places_with(settings))
    forget(settings, load_registry(settings), Request("run", "told", text=True), now=day(5))
    found = [place for place in places_with(settings) if "told" in place]
    # What stays is the id of a query that carries the word.
    assert found == ["e.duckdb.deliveries/20260902T000000.000000/runs/told/results.jsonl.zst"]


def killed(settings, module, name, moment, scope):
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(settings.db.parent), module, name, moment, scope],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr[-2000:]
