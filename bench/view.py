"""How long `view` takes to answer a pair of 1,000 questions, in units of computing the comparison.

    python -m bench.view [--queries 1000] [--rounds 5]

Both in one process and in turns, the best round of each counts: the comparison alone, and the request through the whole
application, from the address to the bytes of the page. What only the first request pays (imports) is left out.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--queries", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        settings = build_store(Path(folder), Shape(runs=2, queries=options.queries, answers=True))
        pair = (run_name(0), run_name(1))
        app = Guard(
            app_of(lambda: project_of(settings), notify=print), hosts=hosts_of(PORT), policy=served_policy()
        )
        address = f"/pair?a={pair[0]}&b={pair[1]}"
        status, page = ask(app, address)
        assert status == 200, page
        best = {"comparison": float("inf"), "page": float("inf")}
        for _ in range(options.rounds):
            for name, work in (
                ("comparison", lambda: compare(project_of(settings), *pair)),
                ("page", lambda: ask(app, address)),
            ):
                start = time.perf_counter()
                work()
                best[name] = min(best[name], time.perf_counter() - start)
    ratio = best["page"] / best["comparison"]
    print(f"comparison of {options.queries:,} questions  {best['comparison'] * 1000:7.0f} ms")
    print(f"answer of view, {len(page) / 1e6:.2f} MB       {best['page'] * 1000:7.0f} ms")
    print(f"ratio {ratio:.2f}, goal {GOAL}: {'met' if ratio <= GOAL else 'MISSED'}")
    return 0 if ratio <= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
