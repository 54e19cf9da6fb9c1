"""A process that asks a judge and writes the bundle of the run, to be killed in the middle of it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from eval_pipeline.evaluating.executor import interruptible
from eval_pipeline.evaluating.judging import ask_judges, judged_rows
from eval_pipeline.evaluating.run_bundle import COMPLETE, INCOMPLETE, Evaluation, begin_run, write_run
from eval_pipeline.settings import utc_now
from tests.evaluating.asking import a_judge, items, open_calls, questions


def main(folder: Path, url: str, n: int, concurrency: int, run_id: str) -> None:
    asked = questions(a_judge(url, concurrency=concurrency, identity="made up"), items(n), run_id)
    document = {"run_id": run_id, "dataset": "kb", "suite": "nightly", "created_at": "2026-11-01T00:00:00"}
    evaluations = folder / "evaluations"
    begin_run(evaluations, document)
    with open_calls(folder) as store, interruptible() as stop:
        counts = ask_judges(store, asked, run_id=run_id, clock=utc_now, stop=stop, backoff_s=0.01)
        rows = judged_rows(store, asked, run_id=run_id, failed=counts.failed)
        uncertain = sum(one.uncertain for one in store.totals())
        said = Evaluation(
            run_id=run_id,
            state=INCOMPLETE if counts.stopped else COMPLETE,
            stopped=counts.stopped and counts.stopped.text,
            bundle=str(evaluations / run_id),
            target_calls=0,
            judge_calls=counts.asked,
            cached=counts.cached,
            failed=len(counts.failed),
            uncertain=uncertain,
            usd=store.spent(run_id),
            waited_s=0.0,
        )
        write_run(evaluations, document, results=None, judged=rows, evaluation=said)
    print(json.dumps({"asked": counts.asked, "cached": counts.cached, "uncertain": uncertain}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
