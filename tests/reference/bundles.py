"""Random bundles that are valid by the contract and as awkward as it allows, and their files."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from .bundle_labels import random_golden_rows
from .bundle_parts import random_extractions, random_index_report, random_run, random_spot_checks
from .bundle_results import random_results, similar_results
from .bundle_texts import chance
from .bundle_world import ARCHIVED_VERSIONS, UNARCHIVED_VERSION, Row, World, random_archives, random_world
from .chunkers import labels_for

DATASET_IDS = ("kb", "Notes.v2:prod@eu")
YAML_HEADER = "# Golden set. An empty list of expected_doc_ids means that the system should refuse.\n"
# JSON may hold these raw, YAML reads them as line breaks or refuses them.
NOT_PRINTABLE_IN_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


@dataclass(frozen=True)
class Bundle:
    """One delivery as plain rows.

    `datasets`: golden rows by dataset id. `archives`: `{"dataset_id", "chunker_version", "states"}`, oldest
    state first, without a dataset id when shared. `runs`: by run id, `{"run", "results", "extractions",
    "index_report", "spot_checks"}`, the last three None where the part is not delivered.
    """

    seed: int
    datasets: dict[str, list[Row]]
    archives: list[Row]
    runs: dict[str, Row]


def random_bundle(seed: int, *, queries: int = 12, runs: int = 3) -> Bundle:
    """The same seed and sizes always give the same bundle."""
    rng = Random(f"bundle {seed}")
    taken_ids: set[str] = set()
    worlds = {
        dataset_id: random_world(rng, documents=rng.randint(2, 4), taken_ids=taken_ids)
        for dataset_id in DATASET_IDS
    }
    datasets = {
        dataset_id: random_golden_rows(rng, world, queries=queries) for dataset_id, world in worlds.items()
    }
    archives = random_archives(rng, worlds)
    return Bundle(seed, datasets, archives, random_runs(rng, worlds, datasets, runs=runs))


def random_runs(
    rng: Random, worlds: dict[str, World], datasets: dict[str, list[Row]], *, runs: int
) -> dict[str, Row]:
    """The first two runs are alike, the third has another chunker; from the fourth on anything goes."""
    parts: dict[str, Row] = {}
    previous: list[Row] = []
    for number in range(1, runs + 1):
        dataset_id = DATASET_IDS[0] if number <= 3 else rng.choice(DATASET_IDS)
        version: str | None = ARCHIVED_VERSIONS[number == 3]
        if number > 3:
            version = rng.choice([*ARCHIVED_VERSIONS, UNARCHIVED_VERSION, None])
        world, golden_rows = worlds[dataset_id], datasets[dataset_id]
        results = random_results(rng, world, golden_rows, version=version)
        if number == 2:
            results = similar_results(rng, previous)
        if number > 4 and chance(rng, 0.1):
            results = []
        previous = results
        run = random_run(rng, number=number, dataset_id=dataset_id, version=version)
        parts[run["run_id"]] = {
            "run": run,
            "results": results,
            "extractions": random_extractions(rng) if chance(rng, 0.6) else None,
            "index_report": random_index_report(rng, world, version=version) if chance(rng, 0.6) else None,
            "spot_checks": random_spot_checks(rng, golden_rows) if chance(rng, 0.6) else None,
        }
    return parts


def labels_of_run(bundle: Bundle, run_id: str) -> list[Row]:
    """The golden rows that score a run, without ids of another chunker's chunks."""
    run = bundle.runs[run_id]["run"]
    dataset = run["dataset"]
    runs = [parts for parts in bundle.runs.values() if parts["run"]["dataset"] == dataset]
    return labels_for(
        run, bundle.datasets[dataset], archives=archive_states(bundle, dataset), runs=in_order(runs)
    )


def in_order(runs: Sequence[Row]) -> list[Row]:
    return sorted(runs, key=lambda parts: (parts["run"].get("created_at") or "9999", parts["run"]["run_id"]))


def archive_states(bundle: Bundle, dataset_id: str) -> list[Row]:
    """Every state a dataset may look into, oldest first, as `score_query` and `compare` take them.

    A shared archive serves a dataset that has none of its own for that chunker version.
    """
    own = [archive for archive in bundle.archives if archive["dataset_id"] == dataset_id]
    own_versions = {archive["chunker_version"] for archive in own}
    shared = [
        archive
        for archive in bundle.archives
        if archive["dataset_id"] is None and archive["chunker_version"] not in own_versions
    ]
    return [
        {"chunker_version": archive["chunker_version"], "lines": lines}
        for archive in [*own, *shared]
        for lines in archive["states"]
    ]


def write_bundle(bundle: Bundle, folder: Path) -> None:
    """The folder layout of a bundle with every archive in its newest state; each run.json comes last."""
    rng = Random(f"files {bundle.seed}")
    for number, (dataset_id, golden_rows) in enumerate(bundle.datasets.items()):
        dataset_folder = folder / "datasets" / dataset_id
        if (bundle.seed + number) % 2:
            write_text(dataset_folder / "queries.jsonl", json_lines(rng, golden_rows))
        else:
            write_text(dataset_folder / "queries.yaml", yaml_text(golden_rows))
    for archive in bundle.archives:
        write_archive(rng, archive, folder, lines=archive["states"][-1])
    for run_id, parts in bundle.runs.items():
        write_run_parts(rng, parts, folder / "runs" / run_id)
    for run_id, parts in bundle.runs.items():
        write_text(
            folder / "runs" / run_id / "run.json", json.dumps(parts["run"], ensure_ascii=False, indent=1)
        )


def write_earlier_archives(bundle: Bundle, folder: Path) -> list[Path]:
    """Folders, to be loaded in this order before the bundle, that deliver the earlier archive states."""
    rng = Random(f"earlier files {bundle.seed}")
    most = max((len(archive["states"]) for archive in bundle.archives), default=1)
    deliveries = []
    for steps_back in range(most, 1, -1):
        delivery = folder / f"earlier-{steps_back - 1}"
        for archive in bundle.archives:
            if len(archive["states"]) >= steps_back:
                write_archive(rng, archive, delivery, lines=archive["states"][-steps_back])
        deliveries.append(delivery)
    return deliveries


def write_archive(rng: Random, archive: Row, folder: Path, *, lines: Sequence[Row]) -> None:
    owner = archive["dataset_id"]
    base = folder if owner is None else folder / "datasets" / owner
    write_text(base / "inventories" / f"{archive['chunker_version']}.jsonl", json_lines(rng, lines))


def write_run_parts(rng: Random, parts: Row, folder: Path) -> None:
    results = json_lines(rng, parts["results"])
    if chance(rng, 0.3):
        write_bytes(folder / "results.jsonl.gz", gzip.compress(results.encode(), mtime=0))
    else:
        write_text(folder / "results.jsonl", results)
    if parts["extractions"] is not None:
        write_text(folder / "extractions.jsonl", json_lines(rng, parts["extractions"]))
    if parts["index_report"] is not None:
        write_text(folder / "index_report.json", json.dumps(parts["index_report"], ensure_ascii=False))
    if parts["spot_checks"] is not None:
        write_text(folder / "judge_spot_check.jsonl", json_lines(rng, parts["spot_checks"]))


def json_lines(rng: Random, rows: Sequence[Row]) -> str:
    """One object a line, escaped or raw; the last line may lack its line break."""
    lines = [json.dumps(row, ensure_ascii=chance(rng, 0.5), allow_nan=False) for row in rows]
    return "\n".join(lines) + ("\n" if lines and chance(rng, 0.8) else "")


def yaml_text(rows: Sequence[Row]) -> str:
    """A YAML list of flow mappings, which is JSON with a few characters escaped."""
    if not rows:
        return YAML_HEADER + "[]\n"
    return YAML_HEADER + "".join(f"- {yaml_flow(row)}\n" for row in rows)


def yaml_flow(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return NOT_PRINTABLE_IN_YAML.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def write_text(path: Path, text: str) -> None:
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
