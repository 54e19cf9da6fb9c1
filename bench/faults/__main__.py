"""Try cases by the dozen or the thousand, and say how many there were and how to have each difference again.

python -m bench.faults kill --cases 1000 --seed 1
python -m bench.faults power --only first:203
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from bench.faults import crowd, damage, fuzz, operations
from bench.faults.preload import KINDS, NoCompiler
from bench.faults.verdicts import Outcome
from bench.faults.world import COMMANDS, World, world_in

OF = {
    **{kind: tuple(COMMANDS) for kind in KINDS},
    "crowd": tuple(crowd.KINDS),
    "damage": tuple(damage.KINDS),
    "fuzz": tuple(fuzz.KINDS),
}
# As one would say it in the plural.
OTHER_NAMES = {"kills": "kill"}
CASES = {"crowd": 2, "fuzz": 1000}


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser("python -m bench.faults", description=__doc__)
    made.add_argument("what", choices=[*OF, *OTHER_NAMES])
    made.add_argument("--cases", type=int, help="how many, drawn by seed  [30; crowd 2, fuzz 1000]")
    made.add_argument("--seed", type=int, default=1)
    made.add_argument("--of", help="only these, separated by commas: commands, or what is damaged or read")
    made.add_argument("--only", metavar="NAME:NUMBER", help="this one case, as a difference names it")
    made.add_argument("--processes", type=int, default=50, help="of a crowd  [50]")
    made.add_argument("--folder", type=Path, help="where to work: an empty folder, best in memory")
    return made


def outcomes(world: World, what: str, asked: argparse.Namespace) -> Iterator[Outcome]:
    """Each case that was asked for, once it has been tried."""
    names = asked.of.split(",") if asked.of else list(OF[what])
    unknown = [name for name in names if name not in OF[what]]
    if unknown:
        raise SystemExit(f"{what} knows no {', '.join(unknown)}: there is {', '.join(OF[what])}")
    wanted = asked.cases or CASES.get(what, 30)
    if what in KINDS:
        yield from _of_operations(world, what, asked, names=names, wanted=wanted)
    elif what == "fuzz":
        yield from fuzz.try_cases(world, _numbered(asked, names, wanted), seed=asked.seed)
    else:
        for name, number in _numbered(asked, names, wanted):
            if what == "crowd":
                yield crowd.try_case(world, name, number, seed=asked.seed, processes=asked.processes)
            else:
                yield damage.try_case(world, name, number, seed=asked.seed)


def _of_operations(
    world: World, kind: str, asked: argparse.Namespace, *, names: list[str], wanted: int
) -> Iterator[Outcome]:
    if asked.only:
        cases = [operations.Case(kind, *_named(asked.only))]
    else:
        cases = operations.draw(operations.cases_of(world, kind, commands=names), wanted, seed=asked.seed)
    for case in cases:
        yield operations.try_case(world, case)


def _named(only: str) -> tuple[str, int]:
    name, _, number = only.partition(":")
    return name, int(number)


def _numbered(asked: argparse.Namespace, names: list[str], wanted: int) -> list[tuple[str, int]]:
    """Names in turns, each with numbers from 0 on."""
    if asked.only:
        return [_named(asked.only)]
    return [(names[number % len(names)], number // len(names)) for number in range(wanted)]


def tell(found: Iterator[Outcome]) -> int:
    """Print each difference at once, and the counts at the end; how many differences there were."""
    counted: Counter[str] = Counter()
    endings: dict[str, Counter[str]] = {}
    differing: Counter[str] = Counter()
    for one in found:
        counted[one.counted_as] += 1
        endings.setdefault(one.counted_as, Counter())[one.ending] += 1
        if one.differences:
            differing[one.counted_as] += 1
            print(f"python -m bench.faults {one.again}\n    {one.hit}")
            for difference in one.differences:
                print(f"    {difference}", flush=True)
    for name in sorted(counted):
        ended = ", ".join(f"{ending} {times}" for ending, times in sorted(endings[name].items()))
        print(f"{name:<24} {counted[name]:>6} cases {differing[name]:>6} differences   {ended}")
    print(f"{counted.total()} cases, {differing.total()} differences")
    return differing.total()


def main() -> None:
    asked = parser().parse_args()
    what = OTHER_NAMES.get(asked.what, asked.what)
    with tempfile.TemporaryDirectory(prefix="faults-") as made:
        try:
            with world_in(asked.folder or Path(made)) as world:
                differences = tell(outcomes(world, what, asked))
        except NoCompiler as error:
            print(f"skipped: {error}")
            return
    sys.exit(1 if differences else 0)


if __name__ == "__main__":
    main()
