"""Power cuts, impatient operators, the kernel short of memory: a process may die at any moment and spoil nothing."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from eval_pipeline.planning.status import find_status
from tests.bundle_files import ask, derived_tables, load, settings_in
from tests.faults.killed_at import load_and_compute
from tests.few_definitions import shipping, write_few
from tests.prepared import Copy, Prepared, wait_until
from tests.projects import open_reader, open_writer, project_of
from tests.reference.bundles import random_bundle, write_bundle

ROOT = Path(__file__).resolve().parents[2]
FEW = ("metrics.hit_at_k", "metrics.answer_strings", "metrics.reciprocal_rank", "aggregates.run_metrics")
# Where to be killed, as a share of all steps: while the store is made, loading, computing, at the very end.
MOMENTS = (0.01, 0.3, 0.7, 0.97)
DOZENS = [number / 60 for number in range(1, 60)]


@pytest.fixture(scope="module", autouse=True)
def definitions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What is killed is the same for few definitions as for all of them; here and in every process they are the shipped ones."""
    folder = write_few(tmp_path_factory.mktemp("few") / "sql", *FEW)
    with shipping(folder):
        yield folder


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("delivered")
    write_bundle(random_bundle(11, queries=6, runs=3), folder)
    return folder


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory, bundle: Path, definitions: Path) -> Path:
    """A store that nobody was killed over."""
    folder = tmp_path_factory.mktemp("untouched")
    load_and_compute(settings_in(folder), bundle)
    return folder


def environment(folder: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return kept | {"PYTHONPATH": str(ROOT), "DAGSTER_HOME": str(folder / "home")}


@pytest.fixture(scope="module")
def drive(prepared: Prepared, definitions: Path, bundle: Path) -> Callable[[Path, int], Copy]:
    """Load and compute in a folder, until the step with this number."""

    def start(folder: Path, step: int) -> Copy:
        return prepared.start(
            "tests.faults.killed_at:load_and_compute_until",
            *(folder, bundle, step),
            folder=folder,
            shipped=definitions,
            environment=environment(folder),
        )

    return start


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory, drive: Callable[[Path, int], Copy]) -> int:
    whole = drive(tmp_path_factory.mktemp("counted"), 0)
    assert whole.wait() == 0, whole.said
    return int(whole.said)


def raw_tables(folder: Path) -> dict[str, list[tuple[object, ...]]]:
    """What was delivered, without the times of loading and the numbers of deliveries."""
    left_out = ("loaded_at", "delivery_key", "first_loaded_at", "superseded_at")
    with open_reader(folder / "e.duckdb") as con:
        names = con.execute(
            "select schema_name, table_name, list(column_name order by column_index) from duckdb_columns() "
            "where schema_name in ('raw', 'labels') and not internal and column_name not in (select unnest(?)) "
            "group by all order by all",
            [list(left_out)],
        ).fetchall()
        found = {}
        for schema, table, columns in names:
            listed = ", ".join(f'"{column}"' for column in columns)
            rows = con.execute(f'select {listed} from {schema}."{table}"').fetchall()
            found[f"{schema}.{table}"] = sorted(rows, key=repr)
        return found


def no_run_is_half_there(folder: Path) -> bool:
    """Every part that a run is said to have has as many rows as it is said to have."""
    rows = ask(
        settings_in(folder),
        "select p.n_rows, (select count(*) from raw.results r where r.run_key = p.run_key) "
        "from raw.run_parts p where p.part = 'results'",
    )
    return all(said == found for said, found in rows)


@pytest.fixture
def killed_and_called_again(tmp_path, bundle, untouched, steps, drive) -> Callable[[float], None]:
    """Kill at a moment, call the same commands again, and compare everything."""

    def do(moment: float) -> None:
        dead = drive(tmp_path, max(1, int(steps * moment)))
        assert dead.wait() == -signal.SIGKILL, dead.said
        if (tmp_path / "e.duckdb").is_file() and moment > 0.05:
            assert no_run_is_half_there(tmp_path)
        load_and_compute(settings_in(tmp_path), bundle)
        assert derived_tables(settings_in(tmp_path)) == derived_tables(settings_in(untouched))
        assert raw_tables(tmp_path) == raw_tables(untouched)

    return do


@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_at_any_step_the_same_commands_end_with_the_same_tables(moment, killed_and_called_again):
    killed_and_called_again(moment)


@pytest.mark.parametrize(
    ("words", "number"), [("create or replace view main.", 3), ("commit", 1), ("os.rename", 1)]
)
def test_a_new_store_is_there_with_all_its_views_or_not_at_all(tmp_path, prepared, words, number):
    dead = prepared.start(
        "tests.faults.killed_at:make_until",
        *(tmp_path, words, number),
        folder=tmp_path,
        environment=environment(tmp_path),
    )
    assert dead.wait() == -signal.SIGKILL, dead.said
    settings = settings_in(tmp_path)
    if settings.db.exists():
        assert ask(settings, "from runs") == []
    with open_writer(settings.db):
        pass
    assert ask(settings, "from runs") == []
    assert not list(tmp_path.glob("*.making*"))


@pytest.mark.slow
@pytest.mark.parametrize("moment", DOZENS)
def test_killed_at_many_more_steps_they_do_so_too(moment, killed_and_called_again):
    killed_and_called_again(moment)


@pytest.fixture
def home(tmp_path: Path, new_home: Path) -> None:
    """Dagster's home in the folder of the test."""
    shutil.copytree(new_home, tmp_path / "home")


@pytest.fixture
def command(tmp_path: Path, prepared: Prepared, definitions: Path) -> Callable[..., Copy]:
    """A command in the folder of the test, with the few definitions."""

    def start(*words: str | Path) -> Copy:
        return prepared.start(
            "tests.prepared:command_line",
            *(*words, "--db", tmp_path / "e.duckdb"),
            folder=tmp_path,
            shipped=definitions,
            environment=environment(tmp_path),
            dagster="run" in words,
        )

    return start


def test_run_killed_in_the_middle_of_its_dagster_run_is_finished_by_the_next_one(
    tmp_path, bundle, untouched, home, command
):
    settings = settings_in(tmp_path)
    load(settings, bundle)
    running = command("run")

    def has_begun() -> bool:
        return bool(ask(settings, "select count(*) > 3 from ledger.cells")[0][0])

    wait_until(has_begun, running)
    running.kill()
    assert running.wait() == -signal.SIGKILL
    second = command("run")
    assert second.wait() == 0, second.said
    cells = find_status(project_of(settings))["cells"]
    assert (cells["missing"], cells["stale"]) == (0, 0)
    assert derived_tables(settings) == derived_tables(settings_in(untouched))


def test_loading_computing_and_reading_at_once_all_succeed(tmp_path, untouched, bundle, home, command):
    load(settings_in(tmp_path), *(bundle / "datasets").iterdir())
    at_once = [command("load", folder) for folder in sorted((bundle / "runs").iterdir())]
    at_once += [command("load", bundle), command("run")]
    at_once += [command("query", "from runs"), command("status")]
    ended = [(one.wait(), one.said) for one in at_once]
    assert [code for code, _ in ended if code not in (0, 3)] == [], ended
    last = command("run")
    assert last.wait() == 0, last.said
    # Runs and queries have their keys in the order in which they came.
    question = "select run_id, query_id, metric, value from per_query_metrics order by all"
    assert ask(settings_in(tmp_path), question) == ask(settings_in(untouched), question)
