"""One more run costs a known number of statements, whatever stands in the store."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench" / "statements.py"
MOST = 750


@pytest.mark.slow
def test_one_more_run_of_two_queries_takes_few_statements():
    """Every statement costs about as much as computing a formula for two queries."""
    done = subprocess.run([sys.executable, BENCH, "--json"], check=True, capture_output=True, text=True)
    assert 0 < json.loads(done.stdout)["statements"] <= MOST
