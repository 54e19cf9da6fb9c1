"""Files of real tools loaded: what a tool printed as the mean of a score is the run's value of that metric."""

from __future__ import annotations

import pytest

from tests.adapters.taken import MADE, take
from tests.adapters.test_files_of_tools import PRINTED, SCORES
from tests.bundle_files import ask, compute, load, settings_in, write_golden, write_run

OF_SCORES = ("metrics.scores", "aggregates.run_metrics:metrics.scores")
# Both epochs of a log, which Inspect prints one number of.
INSPECT = {"graded": "graded.graded", "retrieval.rr": "retrieval.rr"}


@pytest.fixture(scope="module")
def values(tmp_path_factory):
    """(run, metric) → (value, n) of every file of a tool that prints scores."""
    folder = tmp_path_factory.mktemp("scores")
    for name in sorted({name for name, _ in SCORES} | {"inspect.eval"}):
        bundle = take(MADE / name)
        for run, rows in bundle.runs.items():
            dataset = f"of-{name}"
            write_golden(folder, [{"query_id": query_id} for query_id in rows], dataset=dataset)
            write_run(
                folder, f"{name}.{run}", rows.values(), dataset=dataset, **_scores_said(bundle.said[run])
            )
    settings = settings_in(folder)
    load(settings, folder)
    compute(settings, definitions=OF_SCORES)
    rows = ask(
        settings,
        "select run_id, metric, value, n from run_metrics where slice = '' and metric like 'scores.%'",
    )
    return {(run_id, metric): (value, n) for run_id, metric, value, n in rows}


def _scores_said(said):
    return {"scores": said["scores"]} if "scores" in said else {}


def of_file(values, name, score):
    """What the runs of the file have."""
    return {run: found for (run, metric), found in values.items() if run.startswith(name) and metric == score}


@pytest.mark.parametrize(("name", "score"), SCORES)
def test_what_the_tool_printed_is_the_runs_value(values, name, score):
    tool, printed = SCORES[name, score]
    ((value, n),) = of_file(values, name, f"scores.{score}").values()
    # A run's value is rounded to four decimals, as all of them are.
    assert value == pytest.approx(PRINTED[tool][printed], abs=5e-5)
    assert n > 0


@pytest.mark.parametrize("score", INSPECT)
def test_the_letters_of_inspect_count_as_inspect_counts_them(values, score):
    epochs = of_file(values, "inspect.eval", f"scores.{score}")
    assert len(epochs) == 2
    mean = sum(value * n for value, n in epochs.values()) / sum(n for _, n in epochs.values())
    assert mean == pytest.approx(PRINTED["inspect"][INSPECT[score]], abs=5e-5)


def test_what_a_log_says_of_the_whole_run_is_a_metric_of_the_run(values):
    said = take(MADE / "inspect.eval").said["inspect"]["scores"]
    assert said
    for name, score in said.items():
        number = score["value"] if isinstance(score, dict) else score
        ((value, n),) = [
            found
            for (run, metric), found in values.items()
            if run == "inspect.eval.inspect" and metric == f"scores.{name}"
        ]
        assert (value, n) == (pytest.approx(number, abs=5e-5), 1)
