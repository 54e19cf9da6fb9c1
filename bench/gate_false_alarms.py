"""How often the gate fails nights on which nothing changed: eight correlated rules, 60 to 1,000 queries.

    python bench/gate_false_alarms.py [--nights 400] [--queries 60 200 1000] [--most 0.08]

Each night is compared with the one before it, both drawn from the same system. Every failure is a false alarm; the
promise is at most 8 % of nights. Exits with 1 when a size breaks it.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from eval_pipeline.formulas.registry import load_registry
from eval_pipeline.settings import load_settings
from tests.comparing.nights_without_change import RULES, false_alarm_share


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nights", type=int, default=400)
    parser.add_argument("--queries", type=int, nargs="+", default=[60, 200, 1_000])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--most", type=float, default=0.08)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        formulas = load_registry(load_settings({}, db=Path(folder) / "none.duckdb")).keys()
    print(f"{len(RULES)} rules, {options.nights} nights each, no true change")
    broken = False
    for queries in options.queries:
        start = time.perf_counter()
        share = false_alarm_share(formulas, queries=queries, nights=options.nights, seed=options.seed)
        error = math.sqrt(share * (1 - share) / options.nights)
        broken |= share > options.most
        seconds = time.perf_counter() - start
        print(f"  {queries:>5,} queries: {share:6.1%} ± {error:.1%} of nights failed   ({seconds:.0f} s)")
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
