"""The inbox's sensor leaves what was forgotten where it lies, and says so."""

from __future__ import annotations

import pytest

from eval_pipeline.defs.jobs import make_jobs
from eval_pipeline.defs.partitions import registered_runs
from eval_pipeline.defs.sensors import new_runs
from eval_pipeline.upkeep.forget import Request, forget
from tests.projects import project_of

from .deliveries import compute, deliver_golden, deliver_run, load
from .ticks import NAMES, Watch

pytestmark = pytest.mark.usefixtures("few_definitions")


def test_a_forgotten_run_in_the_inbox_is_skipped_and_named(instance, store, settings):
    deliver_golden(settings.inbox)
    for number, run_id in enumerate(("told", "kept"), start=1):
        deliver_run(settings.inbox, run_id, day=number)
    load(settings, settings.inbox)
    compute(settings)
    forget(project_of(settings), Request("run", "told"))
    watch = Watch(new_runs(make_jobs(), NAMES), instance, store)
    for _ in range(3):
        requests, reason = watch.tick()
        if not requests:
            break
    assert "told" not in registered_runs(instance)
    assert all("told" not in str(request.tags) for request in requests)
    if not requests:
        assert "forgotten on purpose (told)" in reason and "--lift" in reason
