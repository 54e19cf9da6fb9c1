"""Bits that flip, and files that are cut, emptied or gone: noticed and named, or without consequence."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from bench.faults import preload
from bench.faults.verdicts import Outcome, trace_in, views_differ, views_of
from bench.faults.world import DB, GOOD_CODES, World
from eval_pipeline.errors import EvalPipelineError

LOG = DB.with_name(DB.name + ".wal")
KEPT = DB.with_name(DB.name + ".deliveries")
HOME = Path("home")
# Flipped bits are what nobody sees; the others happen when files are copied.
WAYS = ("bit", "bit", "bit", "bit", "cut", "empty", "gone")


def try_case(world: World, of: str, number: int, *, seed: int) -> Outcome:
    """Damage one file of a store that was loaded, computed and loaded again."""
    rng = random.Random(f"{seed} {of} {number}")
    folder = _begin(world, of)
    path = rng.choice(sorted(_files(folder, of)))
    # Without its file or its log there is another store, which is no damage to be found in it.
    way = rng.choice(WAYS) if of in ("kept", "dagster") else "bit"
    _damage(rng, path, way)
    ending, differences = KINDS[of](world, folder, path)
    again = f"damage --seed {seed} --only {of}:{number}"
    return Outcome(f"damage {of}", again, f"{way} of {path.relative_to(folder)}", ending, tuple(differences))


def _begin(world: World, of: str) -> Path:
    if of == "log":
        return _with_log(world)
    if of == "dagster":
        return _with_home(world)
    world.twin("again")
    return world.begin("compact")


def _with_log(world: World) -> Path:
    """Killed after its last commit, before the log was written into the store."""
    operations = world.twin("again").operations
    last = max(number for number, one in enumerate(operations, 1) if one == f"write {LOG.name}")
    folder = world.begin("again")
    world.disturbed("again", folder, kind=preload.KINDS["kill"], number=last + 2)
    return folder


def _with_home(world: World) -> Path:
    """Something to compute, beside the files of an earlier `run`."""
    ready, folder = world.folder / "with-home", world.folder / "case"
    if not ready.exists():
        case = world.begin("compute", "making-home")
        for words in (["run", "--db", str(case / DB)], world.words("again", case)):
            ended = world.undisturbed(case, *words)
            if ended.code not in GOOD_CODES:
                raise RuntimeError(ended.said)
        case.rename(ready)
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ready, folder)
    return folder


def _files(folder: Path, of: str) -> Iterable[Path]:
    if of in ("store", "log"):
        return [folder / (DB if of == "store" else LOG)]
    below = (folder / (KEPT if of == "kept" else HOME)).rglob("*")
    return [path for path in below if path.is_file() and path.stat().st_size]


def _damage(rng: random.Random, path: Path, way: str) -> None:
    size = path.stat().st_size
    if way == "bit":
        place = rng.randrange(size)
        with path.open("r+b") as file:
            file.seek(place)
            byte = file.read(1)[0]
            file.seek(place)
            file.write(bytes([byte ^ (1 << rng.randrange(8))]))
    elif way == "gone":
        path.unlink()
    else:
        with path.open("r+b") as file:
            file.truncate(rng.randrange(size) if way == "cut" else 0)


def _store(world: World, folder: Path, _: Path) -> tuple[str, list[str]]:
    """The views are what they were, or reading is refused and the deliveries bring them back."""
    twin = world.twin("again")
    try:
        found = views_of(folder / DB)
    except EvalPipelineError:
        return "noticed", world.rebuilt_otherwise("again", folder)
    except Exception as error:
        return "no answer", [f"{type(error).__name__}: {error}"]
    return "no consequence", views_differ(twin.views, found, of="views, in silence")


def _log(world: World, folder: Path, _: Path) -> tuple[str, list[str]]:
    """Loading again ends with what the twin has, or is refused and the deliveries bring it back."""
    again = world.undisturbed(folder, *world.words("again", folder))
    if told := trace_in(again.said):
        return "no answer", [told]
    if again.code not in GOOD_CODES:
        return "noticed", world.rebuilt_otherwise("again", folder)
    return "no consequence", views_differ(world.twin("again").views, views_of(folder / DB), of="views")


def _kept(world: World, folder: Path, path: Path) -> tuple[str, list[str]]:
    """`rebuild` gives the same views, or names what it lost."""
    (folder / DB).unlink()
    ended = world.undisturbed(folder, "rebuild", "--yes", "--db", str(folder / DB))
    if told := trace_in(ended.said):
        return "no answer", [told]
    if ended.code and path.name in ended.said:
        return "named", []
    if not (folder / DB).is_file():
        return f"exit {ended.code}", [f"no store, and the file is not named: {ended.said[-300:]}"]
    silent = f"rebuild ends with {ended.code} and does not name the file"
    found = views_differ(world.twin("again").rebuilt, views_of(folder / DB), of=silent)
    return f"exit {ended.code}", found


def _dagster(world: World, folder: Path, _: Path) -> tuple[str, list[str]]:
    """Computing needs none of these files: it ends as without them, or names the file."""
    ended = world.undisturbed(folder, "run", "--db", str(folder / DB))
    if told := trace_in(ended.said):
        return "no answer", [told]
    return f"exit {ended.code}", [] if ended.code in (*GOOD_CODES, 2) else [ended.said[-300:]]


KINDS: dict[str, Callable[[World, Path, Path], tuple[str, list[str]]]] = {
    "store": _store,
    "log": _log,
    "kept": _kept,
    "dagster": _dagster,
}
