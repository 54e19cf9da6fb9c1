"""What a command pays for the definitions: reading all files, and reading the copy that was kept of them.

    python -m bench.definitions [--rounds 9]

Processor time, the best of several processes; each reads once, after the engine was imported, as a command does.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile

GOAL_MS = 5
ONCE = """
import time
import duckdb
from eval_pipeline.formulas.registry import load_registry
from eval_pipeline.settings import load_settings
settings = load_settings()
started = time.process_time()
load_registry(settings).keys()
print((time.process_time() - started) * 1000)
"""


def best(rounds: int, cache: str) -> float:
    """Milliseconds; a folder that cannot be is no cache."""
    environment = os.environ | {"XDG_CACHE_HOME": cache}
    command = [sys.executable, "-c", ONCE]
    return min(
        float(subprocess.run(command, check=True, capture_output=True, env=environment).stdout)
        for _ in range(rounds)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="What a command pays for the definitions.")
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as cache:
        print(f"read from their files {best(rounds, os.devnull):8.1f} ms")
        best(1, cache)
        again = best(rounds, cache)
    print(f"read from the copy    {again:8.1f} ms, goal {GOAL_MS}: {'met' if again <= GOAL_MS else 'MISSED'}")


if __name__ == "__main__":
    main()
