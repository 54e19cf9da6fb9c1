"""A working folder as a user has it: files are written, commands are run, and their output is read."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from eval_pipeline.cli.main import cli
from eval_pipeline.computing.measure import measure
from eval_pipeline.errors import EvalPipelineError
from eval_pipeline.loading.load import load_bundles
from eval_pipeline.settings import load_settings
from tests.bundle_files import Row, write_archive, write_golden, write_lines, write_run
from tests.projects import project_of

PREFIXES = ("EVAL_PIPELINE", "DAGSTER")


@dataclass(frozen=True)
class Output:
    """The output of one command."""

    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        return json.loads(self.stdout)

    @property
    def text(self) -> str:
        """Both streams with all white space folded, so that line breaks do not matter."""
        return " ".join(f"{self.stdout} {self.stderr}".split())


@dataclass(frozen=True)
class Desk:
    """A folder with a store in `data/eval.duckdb`; commands run in this process."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)

    def __call__(self, *words: str | Path) -> Output:
        """Run a command in the folder: `desk("show", "monday", "--json")`."""
        with self._as_working_folder():
            done = CliRunner().invoke(cli, [str(word) for word in words])
        if isinstance(done.exception, EvalPipelineError):
            return Output(done.exception.exit_code, done.stdout, f"{done.stderr}error: {done.exception}\n")
        return Output(done.exit_code, done.stdout, done.stderr)

    def must(self, *words: str | Path) -> Output:
        """Run a command that has to succeed."""
        output = self(*words)
        assert output.code == 0, f"{words}: exit code {output.code}\n{output.stdout}\n{output.stderr}"
        return output

    def load(self, bundle: str = "bundle") -> None:
        """Load a bundle, as `load` does, and compute what is due without the cost of Dagster."""
        with self._as_working_folder():
            settings = load_settings(os.environ)
            load_bundles([self.folder / bundle], project_of(settings))
            measure(project_of(settings))

    def golden(self, rows: Iterable[Row], *, bundle: str = "bundle", dataset: str = "kb") -> Path:
        return write_golden(self.folder / bundle, rows, dataset=dataset)

    def inventory(
        self, chunker: str, rows: Iterable[Row], *, bundle: str = "bundle", dataset: str = "kb"
    ) -> Path:
        return write_archive(self.folder / bundle, chunker, rows, dataset=dataset)

    def run(self, run_id: str, results: Iterable[Any], *, bundle: str = "bundle", **run: Any) -> Path:
        """Write the folder of a run; other keywords are fields of run.json."""
        return write_run(self.folder / bundle, run_id, results, **run)

    def lines(self, path: str, rows: Iterable[Any]) -> Path:
        return write_lines(self.folder / path, rows)

    def text(self, path: str, text: str) -> Path:
        place = self.folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, "utf-8")
        return place

    def value(self, run_id: str, metric: str) -> float | None:
        """The value of a metric over the whole run; None if it is undefined."""
        sql = (
            f"select value from run_metrics where run_id = '{run_id}' and metric = '{metric}' and slice = ''"
        )
        rows = self.must("query", sql, "--json").json
        return rows[0]["value"] if rows else None

    def per_query(self, run_id: str, metric: str) -> dict[str, float | None]:
        sql = (
            f"select query_id, value from per_query_metrics where run_id = '{run_id}' and metric = '{metric}'"
        )
        return {row["query_id"]: row["value"] for row in self.must("query", sql, "--json").json}

    @contextlib.contextmanager
    def _as_working_folder(self) -> Iterator[None]:
        before = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith(PREFIXES)}
        added = {"DAGSTER_HOME": str(self.folder / "dagster_home"), **self.environment}
        os.environ.update(added)
        try:
            with contextlib.chdir(self.folder):
                yield
        finally:
            for name in added:
                os.environ.pop(name, None)
            os.environ.update(before)

    def copy(self, folder: Path) -> Desk:
        """The same folder in another place, for a test that changes it."""
        shutil.copytree(self.folder, folder, dirs_exist_ok=True)
        return Desk(folder, dict(self.environment))
