"""Every document that the product makes of its example, each by the call that makes it."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from eval_pipeline.cli.main import cli
from eval_pipeline.demo import BUNDLE_FOLDER
from tests.called import BEGAN, EXAMPLE, PRINTED, call, working_in
from tests.without_dagster import without_dagster

from .plain_words import digest, outline, without_what_differs

KEPT = Path(__file__).parent / "kept"
ROOT = Path(__file__).parents[2]
# The example as it is, with a formula changed, and with that change applied to two runs.
COMPUTED, CHANGED, APPLIED = EXAMPLE, "changed", "applied"
CHANGE = "[formulas.reciprocal_rank]\ncutoff = 3\n"
FOUND_BY_APPLY = "apply.json"
HEAD_LINES = 20
MAPPED = "results.jsonl"

FIRST, BUG, BEFORE, LAST = (f"nightly-2026-09-{day}" for day in ("07", "17", "15", "18"))
HEADINGS, WINDOWS = "nightly-2026-09-11", "nightly-2026-09-14"
# Two runs are computed anew, the others stay on what they were computed with.
APPLY = ("apply", "--runs", BEFORE, "--runs", LAST, "--pin", "--reason", "try three", "--json")


@dataclass(frozen=True)
class Example:
    """A folder with the example in its states, and where this document's own files go."""

    folder: Path
    out: Path

    @property
    def began(self) -> dt.datetime:
        return dt.datetime.fromisoformat((self.folder / BEGAN).read_text("utf-8"))

    def call(self, state: str, words: Iterable[str]) -> tuple[int, str, str]:
        places = {word: str(place) for place, word in self.places.items()}
        filled = [self._filled(state, word, places) for word in words]
        return call(filled, self.folder / state, apart=True)

    def _filled(self, state: str, word: str, places: dict[str, str]) -> str:
        if word == "MEANING":
            _, printed, _ = self.call(state, ["metrics", "mrr", "--history", "--json"])
            return str(json.loads(printed)["meanings"][0]["fingerprint"])
        for name, place in places.items():
            word = word.replace(name, place)
        return word

    @property
    def places(self) -> dict[Path, str]:
        return {
            self.out: "{out}",
            BUNDLE_FOLDER: "{bundle}",
            **{self.folder / state: "{example}" for state in (COMPUTED, CHANGED, APPLIED)},
            ROOT: "{project}",
        }

    def plain(self, text: str) -> str:
        return without_what_differs(text, self.places, began=self.began)


Make = Callable[[Example], str]


def prepare(folder: Path, demo: Path) -> None:
    """The states of the example, from what `make_demo` has made."""
    shutil.copytree(demo, folder, dirs_exist_ok=True)
    said = (demo / PRINTED).read_text("utf-8")
    (folder / PRINTED).write_text(said.replace(str(demo / COMPUTED), str(folder / COMPUTED)), "utf-8")
    for state in (CHANGED, APPLIED):
        shutil.copytree(folder / COMPUTED, folder / state)
        (folder / state / "eval-pipeline.toml").write_text(CHANGE, "utf-8")
    with without_dagster():
        code, out, err = call(APPLY, folder / APPLIED, apart=True)
    assert code == 0, err
    (folder / FOUND_BY_APPLY).write_text(out, "utf-8")


# ------------------------------------------------------------------ kinds of documents


def printed(*words: str, state: str = COMPUTED) -> Make:
    """What one call prints as data."""

    def make(example: Example) -> str:
        _, out, err = example.call(state, words)
        assert out, err
        return out

    return make


def session(*calls: str | tuple[str, ...], state: str = COMPUTED) -> Make:
    """Calls one after the other as on a terminal, with what they remark and their exit codes."""

    def make(example: Example) -> str:
        parts = []
        for one in calls:
            words = tuple(one.split()) if isinstance(one, str) else one
            code, out, err = example.call(state, words)
            shown = " ".join(f'"{word}"' if " " in word else word for word in words)
            remarks = f"remarks:\n{err}" if err else ""
            parts.append(f"$ eval-pipeline {shown}\n{out}{remarks}exit code {code}\n")
        return "\n".join(parts)

    return make


def written(file: str, *words: str, state: str = COMPUTED) -> Make:
    """A file that a call writes below {out}."""

    def make(example: Example) -> str:
        code, _, err = example.call(state, words)
        assert code == 0, err
        return (example.out / file).read_text("utf-8")

    return make


def page(*words: str) -> Make:
    """The outline of a page that `report` writes."""

    def make(example: Example) -> str:
        text = written("page.html", "report", *words, "--output", "{out}/page.html")(example)
        return outline(example.plain(text))

    return make


def in_short(make: Make) -> Make:
    """The hash of what is long and hardly differs from another document, and how it begins."""

    def head(example: Example) -> str:
        text = example.plain(make(example))
        return f"{digest(text)}\n" + "".join(text.splitlines(keepends=True)[:HEAD_LINES])

    return head


def rows(sql: str, *, state: str = COMPUTED) -> Make:
    return printed("query", sql, "--json", state=state)


def from_file(name: str) -> Make:
    return lambda example: (example.folder / name).read_text("utf-8")


def with_a_file(make: Make) -> Make:
    """With a file of the example's results that somebody has beside them."""

    def prepared(example: Example) -> str:
        shutil.copyfile(BUNDLE_FOLDER / "runs" / "nightly-2026-09-10" / "results.jsonl", example.out / MAPPED)
        return make(example)

    return prepared


def per_query_table(example: Example) -> str:
    import polars as pl

    example.call(COMPUTED, ["export", LAST, "--to", "{out}"])
    return pl.read_parquet(example.out / "per_query.parquet").write_csv()


def aggregate(example: Example) -> str:
    from eval_pipeline.api import compute_aggregate

    with working_in(example.folder / COMPUTED):
        return as_json(compute_aggregate(LAST))


def dagster_location(example: Example) -> str:
    from eval_pipeline.definitions import definitions
    from tests.dagster_left_alone import nothing_left_of_dagster

    with working_in(example.folder / COMPUTED), nothing_left_of_dagster():
        found = definitions()
        graph = found.resolve_asset_graph()
        repository = found.get_repository_def()
    nodes = {key.to_user_string(): graph.get(key) for key in sorted(graph.get_all_asset_keys())}
    return as_json(
        {
            "assets": {name: asset_document(node) for name, node in nodes.items()},
            "checks": sorted(
                f"{key.asset_key.to_user_string()}: {key.name}" for key in graph.asset_check_keys
            ),
            "jobs": {job.name: job.description for job in found.jobs},
            "sensors": {one.name: one.description for one in repository.sensor_defs},
            "schedules": {one.name: one.cron_schedule for one in repository.schedule_defs},
        }
    )


def without_code(description: str | None) -> str | None:
    """Without the statement below it, which is its file."""
    return description and description.partition("\n\n```")[0]


def asset_document(node: Any) -> dict[str, Any]:
    return {
        "group": node.group_name,
        "kinds": sorted(node.kinds),
        "code_version": node.code_version,
        "partitions": node.partitions_def.name if node.partitions_def else None,
        "reads": sorted(key.to_user_string() for key in node.parent_keys),
        "description": without_code(node.description),
    }


def as_json(document: Any) -> str:
    return json.dumps(document, ensure_ascii=False, indent=2) + "\n"


# ------------------------------------------------------------------ the documents

TABLES = (
    "select table_schema, table_name, string_agg(column_name || ' ' || data_type, ', ' order by ordinal_position) "
    "as columns from information_schema.columns group by all order by all"
)
QUERIES = {
    "runs": "from runs order by run_id",
    "run_nights": "from run_nights order by all",
    "run_metrics": "from run_metrics where slice = '' and n < 60 order by all",
    "queries": "from queries order by all limit 10",
    "hits": f"from hits where run_id = '{LAST}' order by all limit 15",
    "per_query_metrics": f"from per_query_metrics where run_id = '{BEFORE}' order by all limit 40",
    "comparison_queries": "from comparison_queries order by all limit 20",
    "formula_history": f"from formula_history where run_id = '{LAST}' order by all limit 30",
    "deliveries": "from deliveries order by all",
    "quarantine": "from quarantine order by all",
    "lint": "from lint order by all",
}
FORGET = ("forget", "nightly-2026-09-16", "--dry-run")
LOAD_FILE = ("load", f"{{out}}/{MAPPED}", "--run-id", "mine", "--dataset", "handbook", "--dry-run")

DOCUMENTS: dict[str, Make] = {
    "demo.txt": from_file(PRINTED),
    "help.txt": session("--help", *(f"{name} --help" for name in cli.list_commands(click.Context(cli)))),
    "mistakes.txt": session(
        "shwo",
        "show nightly-2026-09-19",
        "metrics mmr",
        f"compare {LAST} nightly",
        f"compare --strict-chunker-version {HEADINGS} {WINDOWS}",
        f"explain hit@5 {LAST}",
        f"gate {LAST}",
        "load {out}/nowhere",
        "forget nightly-2026-09-16",
        ("query", "select * from nothing"),
        ("query", "delete from runs"),
    ),
    # One run
    "show.txt": session(f"show {LAST}"),
    "show.json": printed("show", LAST, "--json"),
    "show-the-night-with-the-bug.txt": session(f"show {BUG} --no-slices"),
    # Every value of it stands in export-per-query.csv.
    "show-per-query.jsonl": in_short(printed("show", LAST, "--per-query")),
    "show-as-of.txt": session(("show", LAST, "--no-slices", "--as-of", "MEANING"), state=APPLIED),
    "aggregate.json": aggregate,
    "export.json": printed("export", LAST, "--to", "{out}", "--json"),
    "export-metrics.txt": in_short(written("metrics.json", "export", BUG, "--to", "{out}")),
    "export-config.json": written("config.json", "export", LAST, "--to", "{out}"),
    "export-eval-results.json": written("eval-results.json", "export", LAST, "--to", "{out}"),
    "export-per-query.csv": per_query_table,
    # Two runs
    "compare.txt": session(f"compare {BEFORE} {LAST}"),
    "compare.json": printed("compare", BEFORE, LAST, "--json"),
    "compare.md": printed("compare", BEFORE, LAST, "--format", "md"),
    "compare-across-chunkers.txt": session(f"compare {HEADINGS} {WINDOWS}"),
    "compare-across-chunkers.json": printed("compare", HEADINGS, WINDOWS, "--json"),
    "compare-across-chunkers.md": printed("compare", HEADINGS, WINDOWS, "--format", "md"),
    "compare-identical-runs.txt": session(f"compare {FIRST} nightly-2026-09-08"),
    "gate.txt": session(f"gate {BUG} --baseline {BEFORE} --no-store"),
    "gate.json": printed("gate", BUG, "--baseline", BEFORE, "--no-store", "--json"),
    "gate.md": printed("gate", BUG, "--baseline", BEFORE, "--no-store", "--format", "md"),
    "gate-junit.xml": printed("gate", BUG, "--baseline", BEFORE, "--no-store", "--format", "junit"),
    "gate-of-a-good-night.txt": session(f"gate {LAST} --baseline {BEFORE} --no-store"),
    "explain.txt": session(f"explain mrr {HEADINGS} {LAST}"),
    "explain.json": printed("explain", "mrr", HEADINGS, LAST, "--json"),
    # Pages
    "report-of-a-run.txt": page(LAST),
    "report-of-a-run-without-texts.txt": page(BUG, "--no-text"),
    "report-of-a-pair.txt": page(BEFORE, LAST),
    "report-of-a-pair-across-chunkers.txt": page(HEADINGS, WINDOWS),
    "report-of-all-nights.txt": page(),
    # Formulas
    "metrics.txt": session("metrics"),
    "metrics.json": printed("metrics", "--json"),
    "metrics-mrr.txt": session("metrics mrr"),
    "metrics-mrr.json": printed("metrics", "mrr", "--json"),
    "metrics-check-lock.txt": session("metrics --check-lock"),
    # What is stale
    "runs.txt": session("runs", "runs @latest", "diff @previous @latest", "runs --last 2"),
    "runs.json": printed("runs", "--last", "4", "--json"),
    "runs-of-one.json": printed("runs", LAST, "--json"),
    "diff.json": printed("diff", BEFORE, LAST, "--json"),
    "status.txt": session("status"),
    "status.json": printed("status", "--json"),
    "status-lint.txt": session("status --lint"),
    "status-lint.json": printed("status", "--lint", "--json"),
    "plan-of-nothing.txt": session("plan"),
    "status-of-a-change.txt": session("status --check", state=CHANGED),
    "status-of-a-change.json": printed("status", "--json", state=CHANGED),
    "plan.txt": session("plan", state=CHANGED),
    "plan.json": printed("plan", "--json", state=CHANGED),
    "plan.md": printed("plan", "--format", "md", state=CHANGED),
    "plan-of-two-runs.txt": session(f"plan --runs {LAST} --runs {BUG}", state=CHANGED),
    "plan-preview.txt": session("plan --preview --sample 3", state=CHANGED),
    "plan-preview.json": printed("plan", "--preview", "--json", state=CHANGED),
    "plan-preview.md": printed("plan", "--preview", "--sample", "3", "--format", "md", state=CHANGED),
    "apply.json": from_file(FOUND_BY_APPLY),
    "status-after-apply.txt": session("status", state=APPLIED),
    "metrics-history.txt": session("metrics mrr --history", state=APPLIED),
    "metrics-history.json": printed("metrics", "mrr", "--history", "--json", state=APPLIED),
    "explain-a-change.txt": session(("explain", "mrr", LAST, "--as-of", "MEANING"), state=APPLIED),
    "explain-a-change.json": printed("explain", "mrr", LAST, "--as-of", "MEANING", "--json", state=APPLIED),
    "show-a-pinned-run.txt": session(f"show {BUG} --no-slices", state=APPLIED),
    "compare-with-a-pinned-run.md": printed("compare", HEADINGS, LAST, "--format", "md", state=APPLIED),
    "query-formula_history-after-apply.json": rows(
        "from formula_history where metric = 'mrr' order by all", state=APPLIED
    ),
    # Taking in, and removing
    "load.txt": session(
        *(
            f"{words} --db {{out}}/new.duckdb"
            for words in ("load {bundle}", "load {bundle} --dry-run", "status")
        )
    ),
    "load-dry-run.json": printed("load", "{bundle}", "--db", "{out}/new.duckdb", "--dry-run", "--json"),
    "load-a-file-dry-run.json": with_a_file(printed(*LOAD_FILE, "--json")),
    "init.txt": with_a_file(session(f"init {{out}}/{MAPPED} --output {{out}}/mapping.toml")),
    "init.json": with_a_file(
        printed("init", f"{{out}}/{MAPPED}", "--output", "{out}/mapping.toml", "--json")
    ),
    "init-mapping.toml": with_a_file(
        written("mapping.toml", "init", f"{{out}}/{MAPPED}", "--output", "{out}/mapping.toml")
    ),
    "quarantine.txt": session("quarantine", "quarantine --resolved", f"quarantine --run {LAST}"),
    "quarantine.json": printed("quarantine", "--json"),
    "forget-dry-run.txt": session(FORGET, (*FORGET, "--text"), ("forget", "handbook", "--dry-run"), "forget"),
    "forget-dry-run.json": printed(*FORGET, "--json"),
    "forget-texts-dry-run.json": printed(*FORGET, "--text", "--json"),
    "forget-dataset-dry-run.json": printed("forget", "handbook", "--dry-run", "--json"),
    # The store, and Dagster
    "tables.json": rows(TABLES),
    "query.txt": session(
        ("query", "select run_id, suite, results, golden_queries from runs order by run_id")
    ),
    **{f"query-{name}.json": rows(sql) for name, sql in QUERIES.items()},
    "dagster.json": dagster_location,
}


def text_of(name: str, example: Example) -> str:
    """The document as it is kept."""
    shutil.rmtree(example.out, ignore_errors=True)
    example.out.mkdir(parents=True)
    text = example.plain(DOCUMENTS[name](example))
    return unindented(text) if name.endswith(".json") else text


def unindented(text: str) -> str:
    """A line per key, without what only shows how deep it stands: a third of the largest documents."""
    return "\n".join(line.lstrip(" ") for line in text.split("\n"))
