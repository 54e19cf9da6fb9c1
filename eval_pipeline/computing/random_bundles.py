"""Bundles nobody has thought of: the example with its values mixed, cut, doubled and left out."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from random import Random
from typing import Any

import yaml

from eval_pipeline.computing.history import Row
from eval_pipeline.settings import PACKAGE

EXAMPLE = PACKAGE / "demo" / "bundle"
# Ids stay: everything else would only be turned away.
KEPT = frozenset(("query_id", "case_id"))
TAKEN_FROM_ANOTHER_ROW, SHAKEN, LENGTHENED, LEFT_OUT = 0.3, 0.3, 0.15, 0.05
# So many lists before a row's own one that it begins behind every usual cut-off.
MOST_LISTS_BEFORE = 12


def write_random_bundle(folder: Path, seed: int) -> Path:
    """The same bundle for the same seed."""
    random = Random(f"bundle {seed}")
    for path in sorted(EXAMPLE.rglob("*.*")):
        target = folder / path.relative_to(EXAMPLE)
        target.parent.mkdir(parents=True, exist_ok=True)
        rows = _rows_of(path)
        if rows is None:
            shutil.copyfile(path, target)
        else:
            lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in _mixed(rows, random))
            (target.parent / f"{path.name.split('.')[0]}.jsonl").write_text(lines, "utf-8")
    return folder


def _rows_of(path: Path) -> list[Row] | None:
    """The rows of a file; None for what is copied as it is: archives, and documents of one run."""
    if path.parent.name == "inventories" or path.suffix == ".json":
        return None
    if path.suffix == ".yaml":
        return list(yaml.safe_load(path.read_text("utf-8")))
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [json.loads(line) for line in data.splitlines()]


def _mixed(rows: list[Row], random: Random) -> list[Row]:
    """Every row with some values of others, some changed, and some left out."""
    fields = sorted({field for row in rows for field in row} - KEPT)
    found: list[Row] = []
    for row in rows:
        mixed = dict(row)
        for field in fields:
            source = random.choice(rows) if random.random() < TAKEN_FROM_ANOTHER_ROW else row
            mixed.pop(field, None)
            if field in source and random.random() >= LEFT_OUT:
                value = _lengthened(field, source, rows, random)
                mixed[field] = _shaken(value, random) if random.random() < SHAKEN else value
        found.append(mixed)
    return found


def _lengthened(field: str, row: Row, rows: list[Row], random: Random) -> Any:
    """Now and then a list comes behind those of other rows: more is expected than usual, and found further down."""
    if not isinstance(row[field], list) or random.random() >= LENGTHENED:
        return row[field]
    before = random.choices(rows, k=random.randint(1, MOST_LISTS_BEFORE))
    lists = [one[field] for one in before if isinstance(one.get(field), list)]
    return [item for values in (*lists, row[field]) for item in values]


def _shaken(value: Any, random: Random) -> Any:
    """A list in another order, shorter or with something twice; a number that is another; the rest from within."""
    if isinstance(value, list):
        kept = random.sample(value, random.randint(0, len(value)))
        return [*kept, *random.sample(kept, min(len(kept), random.randint(0, 2)))]
    if isinstance(value, dict):
        chosen = random.choice(sorted(value)) if value else None
        return {name: _shaken(inner, random) if name == chosen else inner for name, inner in value.items()}
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return random.choice([0, 1, value, value * 2, value + 1])
    return value
