"""What the benches share: rows of a table, steps in processes of their own, the machine, and the file of results."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from history import Shape

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Row:
    """One line of the table: by the clock and, for ratios, by the processors' time."""

    name: str
    value: float
    unit: str
    goal: float | None = None
    at_least: bool = False
    by_cpu: float | None = None

    @property
    def verdict(self) -> str:
        """Met or missed, by the clock."""
        if self.goal is None:
            return ""
        return "met" if (self.value >= self.goal if self.at_least else self.value <= self.goal) else "MISSED"

    def line(self) -> str:
        """80 columns at most."""
        goal = "" if self.goal is None else f"{'≥' if self.at_least else '≤'} {self.goal:g}"
        cpu = "" if self.by_cpu is None else f"{self.by_cpu:.1f}"
        return (
            f"{self.name:<44} {self.value:>9.2f} {self.unit:<4} {cpu:>6} {goal:>6} {self.verdict:<6}".rstrip()
        )


@dataclass(frozen=True)
class Step:
    """What a process of its own measured."""

    wall: dict[str, float]
    cpu: dict[str, float]
    peak_mb: float

    def ratio(self, above: tuple[str, ...], below: str) -> tuple[float, float]:
        """Sum of some times over another, by the clock and by the processors' time."""
        wall = sum(self.wall[name] for name in above) / self.wall[below]
        return wall, sum(self.cpu[name] for name in above) / self.cpu[below]


def run_step(script: str, name: str, *arguments: Path | str) -> Step:
    """One step of a script beside this one, in a process of its own."""
    print(f"… {name} {' '.join(Path(one).name for one in map(str, arguments))}", file=sys.stderr, flush=True)
    command = [sys.executable, "-W", "ignore", str(HERE / script), name, *map(str, arguments)]
    # As installed: what was compiled once is kept, also where the machine's default is another.
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": ""}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    return Step(**json.loads(done.stdout.splitlines()[-1]))


def machine() -> dict[str, Any]:
    """What it was measured on, and how busy that was."""
    return {
        "processors": os.cpu_count(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "load_average": os.getloadavg()[0],
    }


def parser(description: str | None, *, hits: int = 10) -> argparse.ArgumentParser:
    """The options that every bench has."""
    found = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    found.add_argument("--runs", type=int, default=1_000)
    found.add_argument("--queries", type=int, default=1_000)
    found.add_argument("--hits", type=int, default=hits)
    found.add_argument("--rounds", type=int, default=3)
    found.add_argument(
        "--work", type=Path, help="where to work; a temporary folder, removed afterwards, by default"
    )
    return found


def measure(
    name: str, shape: Shape, bench: Callable[[Path], Iterator[Row]], *, work: Path | None, **also: int
) -> None:
    """Print the rows of a bench as they come, and write them to its file of results."""
    folder = (work or Path(tempfile.mkdtemp(prefix="eval-pipeline-bench-"))).resolve()
    before = machine()
    print(f"{'':<44} {'measured':>14} {'by CPU':>6} {'goal':>6}")
    rows: list[Row] = []
    try:
        for row in bench(folder):
            rows.append(row)
            print(row.line(), flush=True)
    finally:
        if work is None:
            shutil.rmtree(folder, ignore_errors=True)
    if before["load_average"] > (os.cpu_count() or 1):
        print(
            f"Others kept the machine busy (load {before['load_average']:.1f}): trust the ratios by CPU more."
        )
    target = HERE / "results" / f"{name}.json"
    target.parent.mkdir(exist_ok=True)
    found = [asdict(row) | {"verdict": row.verdict} for row in rows]
    document = {"shape": asdict(shape), **also, "machine": before, "rows": found}
    target.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
