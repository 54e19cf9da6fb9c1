"""How fast judges are asked: beside a bare client, at the limit of an endpoint, and a hundred thousand calls.

`python -m bench.judges [rate|limit|growth]`; without a word all three. The endpoint is a process of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from eval_pipeline.config import Config
from eval_pipeline.evaluating.asked import Item, Panel, Questions
from eval_pipeline.evaluating.calls import CallStore
from eval_pipeline.evaluating.executor import Progress
from eval_pipeline.evaluating.judging import ask_judges
from eval_pipeline.evaluating.prompt_files import Prompt
from eval_pipeline.evaluating.setup import Judge, read_judge
from eval_pipeline.settings import utc_now

ROOT = Path(__file__).resolve().parents[1]
SAID = json.dumps({"score": 4, "supported_claims": [], "unsupported_claims": [], "reasoning": "because " * 8})
PROMPT = Prompt("correctness", "bench", {"type": "object", "properties": {}}, "{query} {answer}")


class Endpoint:
    """Answers after `latency`, and refuses what is over `limit` a second: a bucket that holds one second."""

    def __init__(self, latency: float, limit: float) -> None:
        self.latency, self.limit = latency, limit
        self.level, self.at = limit, time.monotonic()
        self.answered = self.refused = 0
        self.first = self.last = 0.0

    def takes(self) -> bool:
        if not self.limit:
            return True
        now = time.monotonic()
        self.level = min(self.limit, self.level + (now - self.at) * self.limit)
        self.at = now
        if self.level < 1:
            return False
        self.level -= 1
        return True

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        message = {"role": "assistant", "content": SAID}
        said: dict[str, Any] = {"model": "bench", "choices": [{"finish_reason": "stop", "message": message}]}
        body = json.dumps(said | {"usage": {"prompt_tokens": 90, "completion_tokens": 30}}).encode()
        good = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        bad = b"HTTP/1.1 429 X\r\nRetry-After: 1\r\nContent-Length: 2\r\n\r\n{}"
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    int(line[15:])
                    for line in head.split(b"\r\n")
                    if line.lower().startswith(b"content-length:")
                )
                await reader.readexactly(length)
                if head.startswith(b"POST /told"):
                    told = json.dumps(
                        {
                            "answered": self.answered,
                            "refused": self.refused,
                            "seconds": self.last - self.first,
                        }
                    )
                    writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {len(told)}\r\n\r\n{told}".encode())
                    continue
                self.first = self.first or time.monotonic()
                if not self.takes():
                    self.refused += 1
                    writer.write(bad)
                    continue
                await asyncio.sleep(self.latency)
                self.answered += 1
                self.last = time.monotonic()
                writer.write(good)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


async def serve(latency: float, limit: float) -> None:
    server = await asyncio.start_server(Endpoint(latency, limit).talk, "127.0.0.1", 0, backlog=2048)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextmanager
def endpoint(latency: float, limit: float = 0.0) -> Iterator[str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.judges", "serve", "--latency", str(latency), "--limit", str(limit)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.kill()
        process.wait()


def told(url: str) -> dict[str, Any]:
    """What the endpoint counted."""
    import urllib.request

    with urllib.request.urlopen(urllib.request.Request(f"{url}/told", data=b"{}"), timeout=30) as answer:
        found: dict[str, Any] = json.loads(answer.read())
        return found


def judge_at(url: str, concurrency: int) -> Judge:
    entries = {"base_url": url, "model": "bench", "asks": ["correctness"], "concurrency": concurrency}
    return read_judge(Config(judges={"bench": entries}), "bench", lambda name: None)


def questions_of(n: int, judge: Judge) -> Questions:
    def items() -> Iterator[Item]:
        for number in range(n):
            name = f"q{number}"
            result = {"query_id": name, "answer": {"text": f"It is {number}."}}
            yield Item({"query_id": name, "query": f"What is {number}?"}, result)

    return Questions([Panel(judge, (PROMPT,))], items, run_id="bench")


def asked(url: str, n: int, concurrency: int, progress: Any = None) -> tuple[float, float, int]:
    """Ask n questions: seconds by the clock, seconds of the processor, bytes of the file."""
    judge = judge_at(url, concurrency)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "calls.sqlite"
        with CallStore(path, clock=utc_now) as store:
            began, cpu = time.perf_counter(), time.process_time()
            counts = ask_judges(
                store, questions_of(n, judge), run_id="bench", clock=utc_now, progress=progress
            )
            took = time.perf_counter() - began, time.process_time() - cpu
        assert counts.asked == n, counts
        return *took, path.stat().st_size


async def bare(url: str, n: int, concurrency: int) -> float:
    """The same requests by a client that does nothing else."""
    import aiohttp

    judge = judge_at(url, concurrency)
    bodies = iter([json.dumps(one.body).encode() for one in questions_of(n, judge)])
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=concurrency)) as session:

        async def work() -> None:
            for body in bodies:
                async with session.post(f"{url}/chat/completions", data=body) as answer:
                    await answer.read()

        began = time.perf_counter()
        await asyncio.gather(*(work() for _ in range(concurrency)))
        return time.perf_counter() - began


def rate(rounds: int) -> dict[str, float]:
    """64 at a time, each answered after half a second, in turns with the bare client: the best round of both."""
    ours, theirs = [], []
    n = 64 * 15
    with endpoint(0.5) as url:
        asked(url, 64, 64)
        for _ in range(rounds):
            theirs.append(n / asyncio.run(bare(url, n, 64)))
            ours.append(n / asked(url, n, 64)[0])
    return {"ours a second": max(ours), "bare client a second": max(theirs), "share": max(ours) / max(theirs)}


def limit(limit: float) -> dict[str, float]:
    """An endpoint that takes so many a second and asks to wait for one second otherwise."""
    n = int(limit * 25)
    with endpoint(0.05, limit) as url:
        asked(url, n, 16)
        counted = told(url)
    return {
        "limit": limit,
        "share of the limit": counted["answered"] / counted["seconds"] / limit,
        "refused share": counted["refused"] / (counted["refused"] + counted["answered"]),
    }


def growth(n: int) -> dict[str, float]:
    """What is held in memory, from the fifth of a hundred on to the end."""
    early: list[int] = []

    def look(progress: Progress) -> None:
        if not early and progress.done >= n // 20:
            early.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)

    with endpoint(0.0) as url:
        took, cpu, size = asked(url, n, 32, look)
    last = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "calls": n,
        "calls a second": n / took,
        "processor ms a call": cpu / n * 1000,
        "growth in memory, MB": (last - early[0]) / 1024,
        "file, MB": size / 1e6,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="?", choices=["rate", "limit", "growth", "serve"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--latency", type=float, default=0.05)
    parser.add_argument("--limit", type=float, default=0.0)
    given = parser.parse_args()
    if given.what == "serve":
        asyncio.run(serve(given.latency, given.limit))
        return
    benches = {
        "rate": [lambda: rate(given.rounds)],
        "limit": [lambda: limit(20), lambda: limit(60)],
        "growth": [lambda: growth(given.calls)],
    }
    found = []
    for name in [given.what] if given.what else list(benches):
        for bench in benches[name]:
            found.append({"bench": name, **bench()})
            print(
                json.dumps(
                    {key: round(one, 3) if isinstance(one, float) else one for key, one in found[-1].items()}
                ),
                flush=True,
            )
    target = Path(__file__).with_name("results") / "judges.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
