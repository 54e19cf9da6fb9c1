"""How long `view` takes to answer a pair of 1,000 questions, in units of computing the comparison.

    python -m bench.view [--queries 1000] [--rounds 5]

All in one process and in turns, the best round of each counts: the comparison alone, the request through the whole
application, from the address to the bytes of the page, and what that page then fetches (charts and questions). What
only the first request pays (imports) is left out.
"""

from __future__ import annotations

import argparse
import asyncio
import html
import re
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from bench.history import Shape, draw_questions, run_name, write_golden_set, write_runs
from eval_pipeline.comparing.compare import compare
from eval_pipeline.computing.measure import measure
from eval_pipeline.loading.load import load_bundles
from eval_pipeline.report.site.asked import served_policy
from eval_pipeline.settings import load_settings
from eval_pipeline.store.project import project_of
from eval_pipeline.view.guard import Guard, hosts_of
from eval_pipeline.view.pages import app_of

GOAL = 1.5
PORT = 80


def build_store(folder, shape):
    """A computed store of two runs of one history."""
    bundle = folder / "bundle"
    questions = draw_questions(shape)
    write_golden_set(bundle, shape, questions)
    write_runs(bundle, shape, questions, range(2))
    settings = load_settings({}, db=folder / "eval.duckdb")
    load_bundles([bundle], project_of(settings))
    measure(project_of(settings))
    return settings


def ask(app, address):
    """Status and bytes of one answer."""
    path, _, query = address.partition("?")
    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "query_string": query.encode(),
        "headers": [(b"host", b"localhost")],
        "server": ("127.0.0.1", PORT),
        "scheme": "http",
    }
    said = []

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        said.append(message)

    asyncio.run(app(scope, receive, send))
    return said[0]["status"], b"".join(one.get("body", b"") for one in said)


def rest_of(page):
    """The address that an answer says the rest is at."""
    return html.unescape(re.search(r'href="(/pair[^"]*whole=[^"]*)"', page.decode())[1])


def timed(work, best):
    """What comes of the work; `best` keeps the least seconds that it took, by the clock and of the processors."""
    started = time.perf_counter(), time.process_time()
    found = work()
    took = time.perf_counter() - started[0], time.process_time() - started[1]
    best[:] = [min(pair) for pair in zip(best or took, took, strict=True)]
    return found


def measured(app, settings, rounds):
    """The least seconds of each of the three, and the bytes of both answers; all in turns."""
    pair = (run_name(0), run_name(1))
    comparison, answer, rest = [], [], []
    for place in range(rounds + 1):
        timed(lambda: compare(project_of(settings), *pair), comparison)
        status, page = timed(partial(ask, app, f"/pair?a={pair[0]}&b={pair[1]}"), answer)
        assert status == 200, page
        _, whole = timed(partial(ask, app, rest_of(page)), rest)
        if place == 0:
            comparison, answer, rest = [], [], []
    return comparison, answer, rest, len(page), len(whole)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--queries", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        settings = build_store(Path(folder), Shape(runs=2, queries=options.queries, answers=True))
        make_project = partial(project_of, settings)
        app = Guard(app_of(make_project, notify=print), hosts=hosts_of(PORT), policy=served_policy())
        comparison, answer, rest, n_answer, n_rest = measured(app, settings, options.rounds)
    print(f"comparison of {options.queries:,} questions  {comparison[0] * 1000:7.0f} ms")
    for name, took, size in (("answer of view", answer, n_answer), ("what follows", rest, n_rest)):
        ratio, by_cpu = (ours / unit for ours, unit in zip(took, comparison, strict=True))
        print(
            f"{name:14}, {size / 1e6:.2f} MB  {took[0] * 1000:7.0f} ms  {ratio:.2f} times, {by_cpu:.2f} by CPU"
        )
    is_met = answer[0] <= GOAL * comparison[0]
    print(f"goal of the answer {GOAL}: {'met' if is_met else 'MISSED'}")
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
