"""A suite is evaluated by Dagster: asked, taken in, computed, compared, judged and published, and continued."""

from __future__ import annotations

import datetime as dt
import signal
import subprocess
import sys
import time
from pathlib import Path

import dagster as dg
import pytest

from eval_pipeline.defs.comparisons import COMPARISONS
from eval_pipeline.defs.evaluating.nights import MAKES
from eval_pipeline.defs.evaluating.suites import job_names
from eval_pipeline.defs.location import build_definitions
from eval_pipeline.defs.partitions import EVAL_RUN
from eval_pipeline.defs.processes import EVALUATES, runs_under_way
from tests.evaluating.faulty_server import Say, refusal, serving
from tests.few_definitions import shipping, write_few
from tests.projects import project_of

from .deliveries import CHANGED, deliver_golden, load
from .evaluating_process import JOB, settings_of

NEEDED = (CHANGED, "metrics.hit_at_k", "aggregates.run_metrics", "facts.found_chunks", "facts.outcomes")
CONFIG = """
[targets.kb]
url = "{url}/ask"
identity = "the knowledge base"
concurrency = 1
config = {{chunker_version = "c1"}}
[judges.words]
kind = "lexical-baseline"
asks = ["groundedness"]
[suites.small-one]
dataset = "kb"
target = "kb"
judges = ["words"]
at = "02:30"
timezone = "Europe/Berlin"
"""
ROOT = Path(__file__).resolve().parents[2]
RESPONSES, JUDGEMENTS = dg.AssetKey(["sources", "target_responses"]), dg.AssetKey(["sources", "judgements"])
RUN_METRICS = dg.AssetKey(["aggregates", "run_metrics"])


@pytest.fixture(autouse=True, scope="module")
def enough_definitions(tmp_path_factory):
    folder = write_few(tmp_path_factory.mktemp("enough") / "sql", *NEEDED)
    with shipping(folder):
        yield folder


class Kb:
    """A target that finds chunk a, or is told to refuse from some request on."""

    def __init__(self):
        self.refuses_after, self.n, self.finds = None, 0, ["a", "b"]
        self.hangs_at = None

    def __call__(self, seen):
        if self.refuses_after is not None and self.n >= self.refuses_after:
            return refusal(401)
        self.n += 1
        hits = [{"chunk_id": one, "doc_id": f"d{one}", "text": "one and two"} for one in self.finds]
        how = "hang" if self.n == self.hangs_at else "whole"
        return Say({"hits_top_k": hits, "answer": {"text": "one"}}, how=how)


@pytest.fixture
def kb():
    return Kb()


@pytest.fixture
def project(tmp_path, kb):
    with serving(kb) as server:
        settings = settings_of(tmp_path)
        settings.config.write_text(CONFIG.format(url=server.url))
        load(settings, deliver_golden(tmp_path / "bundle").parents[1])
        yield project_of(settings)


def evaluated(project, instance, night, **more):
    job = build_definitions(project).resolve_job_def(JOB)
    return job.execute_in_process(
        instance=instance, tags={MAKES: f"small-one-{night}"}, raise_on_error=False, **more
    )


def step_that_failed(found):
    return [one.step_key.rpartition("_")[2] for one in found.all_events if one.is_step_failure]


def asked(project, sql, *values):
    with project.read() as store:
        return store.con.execute(sql, list(values)).fetchall()


def test_a_night_is_asked_taken_in_computed_compared_and_published_unless_the_gate_fails(
    project, instance, kb
):
    with project.settings.config.open("a") as file:
        file.write(
            '[baselines]\nkb = "small-one-2026-09-01"\n[gate]\ndefaults = false\nevidence = "margin"\n'
        )
        file.write('[[gate.rules]]\nmetric = "hit@5"\nmargin = 0.02\nminimum_n = 1\n')
    assert evaluated(project, instance, "2026-09-01").success
    pages = set(project.settings.reports.rglob("*.html"))
    assert pages
    kb.finds = ["b"]
    failed = evaluated(project, instance, "2026-09-02")
    assert kb.n == 4, "last night's answer is not tonight's"
    runs = {"small-one-2026-09-01", "small-one-2026-09-02"}
    for key in (RESPONSES, JUDGEMENTS, RUN_METRICS, dg.AssetKey(["raw", "judgements"])):
        assert instance.get_materialized_partitions(key) == runs
    latest = instance.get_latest_materialization_event(RUN_METRICS).asset_materialization
    assert latest.metadata["why this partition ran"].value.startswith("computed by evaluate_")
    assert set(instance.get_dynamic_partitions(EVAL_RUN.name)) == runs
    assert step_that_failed(failed) == ["compares"]
    (check,) = failed.get_asset_check_evaluations()
    said = (check.asset_key, check.check_name, check.passed, check.severity, check.blocking)
    assert said == (COMPARISONS, "gate", False, dg.AssetCheckSeverity.ERROR, True)
    assert instance.get_latest_asset_check_evaluation_record(check.asset_check_key) is not None
    assert set(project.settings.reports.rglob("*.html")) == pages


@pytest.mark.slow
def test_a_night_that_stopped_fails_with_its_sentence_and_is_continued(project, instance, kb):
    kb.refuses_after = 1
    stopped = evaluated(project, instance, "2026-09-01")
    assert step_that_failed(stopped) == ["asks"]
    (failure,) = [one for one in stopped.all_events if one.is_step_failure]
    assert "not finished: " in failure.step_failure_data.user_failure_data.description
    kb.refuses_after = None
    assert evaluated(project, instance, "2026-09-01").success
    assert kb.n == 2, "what was answered is not asked again"
    assert evaluated(project, instance, "2026-09-01").success
    assert kb.n == 2, "a night that is whole is left as it is"
    assert asked(project, "select run_id from runs") == [("small-one-2026-09-01",)]


def repeated(project):
    text = project.settings.config.read_text()
    project.settings.config.write_text(text.replace('judges = ["words"]', 'judges = ["words"]\nrepeats = 2'))


WHOLE = [("small-one-2026-09-01", None, 2), ("small-one-2026-09-01.e2", "small-one-2026-09-01", 2)]
REPEATS = "select run_id, replicate_of, count(*) from raw.runs join raw.results using (run_key) group by all order by 1"


@pytest.mark.slow
def test_a_run_with_repeats_that_failed_is_executed_again_from_its_failure(project, instance, kb):
    repeated(project)
    kb.refuses_after = 3
    job = dg.build_reconstructable_job(
        "tests.defs.evaluating_process", "job_in", reconstructable_args=(str(project.settings.db.parent),)
    )
    tags = {MAKES: "small-one-2026-09-01"}
    with dg.execute_job(job, instance, tags=tags) as failed:
        assert not failed.success
    kb.refuses_after = None
    again = dg.ReexecutionOptions.from_failure(failed.run_id, instance)
    with dg.execute_job(job, instance, tags=tags, reexecution_options=again) as found:
        assert found.success
    assert kb.n == 4, "what was answered is not asked again"
    assert asked(project, REPEATS) == WHOLE


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_night_that_is_cancelled_or_killed_leaves_what_the_next_execution_goes_on_from(
    project, instance, kb, enough_definitions, number
):
    repeated(project)
    kb.hangs_at = 3
    words = [str(project.settings.db.parent), str(enough_definitions), "small-one-2026-09-01"]
    process = subprocess.Popen([sys.executable, "-m", "tests.defs.evaluating_process", *words], cwd=ROOT)
    end = time.monotonic() + 120
    while kb.n < 3:
        assert process.poll() is None and time.monotonic() < end, "nobody was asked"
        time.sleep(0.01)
    process.send_signal(number)
    assert process.wait(60) != 0
    found = evaluated(project, instance, "2026-09-01")
    assert found.success
    assert kb.n == 5, "only what was under way is asked again"
    assert asked(project, REPEATS) == WHOLE


def test_the_schedule_is_off_and_names_the_run_by_the_night_of_the_suite(project):
    (schedule,) = [one for one in build_definitions(project).schedules if one.name == JOB]
    assert (schedule.cron_schedule, schedule.execution_timezone) == ("30 2 * * *", "Europe/Berlin")
    assert schedule.default_status == dg.DefaultScheduleStatus.STOPPED
    context = dg.build_schedule_context(
        scheduled_execution_time=dt.datetime(2026, 8, 31, 22, 30, tzinfo=dt.UTC)
    )
    assert schedule(context).tags[MAKES] == "small-one-2026-09-01"


@pytest.mark.slow
def test_a_backfill_of_judgements_judges_its_runs_again_and_asks_no_target(project, instance, kb):
    for day in ("01", "02"):
        assert evaluated(project, instance, f"2026-09-{day}").success
    text = project.settings.config.read_text()
    project.settings.config.write_text(text.replace('["groundedness"]', '["groundedness", "correctness"]'))
    job = build_definitions(project).resolve_implicit_global_asset_job_def()
    tags = {
        "dagster/asset_partition_range_start": "small-one-2026-09-01",
        "dagster/asset_partition_range_end": "small-one-2026-09-02",
    }
    found = job.execute_in_process(instance=instance, tags=tags, asset_selection=[JUDGEMENTS])
    assert found.success and kb.n == 4
    said = asked(project, "select ask, count(*) from raw.judgements group by ask order by ask")
    assert said == [("correctness", 4), ("groundedness", 4)]


def test_nothing_waits_for_a_suite_that_is_evaluated(instance):
    for tags in (EVALUATES, {}):
        instance.add_run(dg.DagsterRun("any", tags=tags, status=dg.DagsterRunStatus.STARTED))
    assert runs_under_way(instance) == 1


def test_every_suite_has_a_job_of_its_own():
    names = job_names(["kb.small", "kb-small", "large"])
    assert names["large"] == "evaluate_large"
    assert len(set(names.values())) == 3
    assert all(name.replace("_", "").isalnum() for name in names.values())


@pytest.mark.slow
def test_without_suites_nothing_of_them_is_defined_and_nothing_is_imported_for_it(tmp_path):
    code = (
        "import sys\n"
        "from eval_pipeline.definitions import build_definitions\n"
        "from eval_pipeline.settings import load_settings\n"
        "from eval_pipeline.store.project import project_of\n"
        "build_definitions(project_of(load_settings({})))\n"
        "print([name for name in sys.modules if 'evaluating' in name or name == 'aiohttp'])\n"
    )
    said = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert said.stdout.splitlines()[-1] == "[]"
