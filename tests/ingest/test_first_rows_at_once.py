"""Two threads may read the first rows of a load at the same moment."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# A crash of the interpreter cannot be caught where it happens. Fresh classes make every round a first time.
PROGRAM = """
import importlib, sys, threading
from eval_pipeline import records
from eval_pipeline.bundle.lines import _to_record

ROW = {
    "query_id": "q",
    "hits_top_k": [{"chunk_id": "a", "doc_id": "d", "source_spans": [{"start": 0, "end": 3}]}],
    "answer": {"text": "x", "references": [{"chunk_id": "a"}]},
    "latency_ms": {"total": 3},
}
THREADS, ROUNDS = 4, 40
read = []

def read_one(kind, together):
    together.wait()
    read.append(_to_record(ROW, kind))

sys.setswitchinterval(1e-6)
for _ in range(ROUNDS):
    kind, together = importlib.reload(records).Result, threading.Barrier(THREADS)
    threads = [threading.Thread(target=read_one, args=(kind, together)) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print(len(read), {record.latency_ms.total for record in read})
"""


def test_threads_that_meet_a_kind_of_record_for_the_first_time_all_read_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "160 {3.0}\n"), done.stderr
