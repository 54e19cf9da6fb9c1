"""Web server, daemon and code server, each killed so many times in mid-backfill: how long until everything has ended.

    python -m bench.servers_killed [--times 10]

Each backfill is of three tables over the eleven runs of the example; the kill comes between its launch and its end. A
row is a kill (the first: of nothing): when it came, after how long the backfill and every run that was under way were
done or failed, as what, and after how long `/healthz` said 200. The last line is a night laid into the inbox. It ends
with 1 where something took longer than a minute.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from pathlib import Path

from tests.called import EXAMPLE, make_demo
from tests.serving.served import SERVERS, Served, serving, until
from tests.serving.test_kills_in_mid_backfill import (
    ASSETS,
    NEXT,
    PATIENCE,
    environment_in,
    lay_into_the_inbox,
)

LIMIT = 60.0
MOMENTS = ("asked for", "QUEUED", "STARTING", "STARTED")


def kill_in_a_backfill(served: Served, name: str | None, moment: str) -> float:
    """Start one, kill (None: nothing), and tell; returns how long it took until everything had ended."""
    backfill = served.start_backfill(ASSETS, served.partitions(ASSETS[1]))
    if moment == MOMENTS[0]:
        time.sleep(random.uniform(0, 3))
    else:
        later = {*MOMENTS[MOMENTS.index(moment) :], "SUCCESS"}
        until(lambda: any(run.status in later for run in served.runs_of(backfill)), moment, seconds=PATIENCE)
    under_way = [run_id for run_id, run in served.runs().items() if run.is_under_way]
    if name:
        served.kill(name)
    try:
        took = until(
            lambda: served.has_ended(backfill, under_way), f"the end, {name} killed", seconds=PATIENCE
        )
    except AssertionError:
        print(served.backfills()[backfill], *(served.runs()[run_id] for run_id in under_way), sep="\n")
        raise
    healthy = until(lambda: served.is_healthy, "everything answers again", seconds=PATIENCE)
    runs = ", ".join(run.status for run in served.runs_of(backfill))
    print(
        f"{name or 'nothing':12} {moment:10} {took:6.1f} s  backfill {served.backfills()[backfill]:18} run {runs:8} "
        f"healthy after {took + healthy:5.1f} s",
        flush=True,
    )
    return took


def next_night(served: Served, folder: Path) -> float:
    """Lay one into the inbox; returns how long it took until it was computed."""
    lay_into_the_inbox(folder)

    def is_computed() -> bool:
        return any(
            run.job == "nightly_evaluation" and run.status == "SUCCESS" and NEXT in run.tags.values()
            for run in served.runs().values()
        )

    return until(is_computed, "the next night is computed", seconds=PATIENCE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--times", type=int, default=10)
    times = parser.parse_args().times
    with tempfile.TemporaryDirectory() as temporary:
        make_demo(Path(temporary) / "made")
        folder = Path(temporary) / "made" / EXAMPLE
        (folder / "inbox").mkdir(exist_ok=True)
        with serving(environment_in(folder), folder) as served:
            until(lambda: served.is_healthy, "everything answers", seconds=PATIENCE)
            kill_in_a_backfill(served, None, MOMENTS[0])
            took = [
                kill_in_a_backfill(served, name, MOMENTS[(place + turn) % len(MOMENTS)])
                for turn in range(times)
                for place, name in enumerate(SERVERS)
            ]
            print(f"{len(took)} kills: at most {max(took):.1f} s")
            print(f"next night   computed after {next_night(served, folder):.1f} s")
    raise SystemExit(max(took) > LIMIT)


if __name__ == "__main__":
    main()
