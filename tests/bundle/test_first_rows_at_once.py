"""Two threads may read the first rows of a load at the same moment."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# A crash of the interpreter cannot be caught where it happens. In a copy of the process every round is a first time.
PROGRAM = """
import os, sys, threading
from eval_pipeline.bundle.results import read_result

ROW = {
    "query_id": "q",
    "hits_top_k": [{"chunk_id": "a", "doc_id": "d", "source_spans": [{"start": 0, "end": 3}]}],
    "answer": {"text": "x", "references": [{"chunk_id": "a"}]},
    "latency_ms": {"total": 3},
}
THREADS, ROUNDS = 4, 40
read = []

def read_one(together):
    together.wait()
    read.append(read_result(ROW)[0])

def read_at_once():
    together = threading.Barrier(THREADS)
    threads = [threading.Thread(target=read_one, args=(together,)) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [record.latency_ms.total for record in read] == [3.0] * THREADS

sys.setswitchinterval(1e-6)
ended = set()
for _ in range(ROUNDS):
    copy = os.fork()
    if copy == 0:
        os._exit(0 if read_at_once() else 1)
    ended.add(os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1]))
print(ended)
"""


@pytest.mark.needs_process
def test_threads_that_meet_a_kind_of_record_for_the_first_time_all_read_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "{0}\n"), done.stderr
