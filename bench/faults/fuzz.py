"""Every reader over the kept corpus and what becomes of it by chance: rows or a refusal, soon and in little memory."""

from __future__ import annotations

import json
import random
import resource
import shutil
import signal
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.faults import mutations
from bench.faults.verdicts import Outcome
from bench.faults.world import World
from eval_pipeline.errors import EvalPipelineError

CORPUS = Path(__file__).with_name("corpus")
MOST_SECONDS = 2.0
MOST_BYTES = 2**30
# Whoever waits, for a pipe for example, uses no time of the processor.
KILLED_AFTER_SECONDS = 10
BATCH = 100
PACKED = ("gz", "zst")


@dataclass(frozen=True)
class Reader:
    """Which file it reads, how that is made wrong, and how it is read."""

    file: str
    wrong: Callable[[random.Random, bytes], bytes]
    read: Callable[[Path], Any]
    is_lines: bool = False


def _drain(rows: Iterable[Any]) -> None:
    for _ in rows:
        pass


def _results(path: Path) -> None:
    from eval_pipeline.bundle.results import read_results

    _drain(read_results(path, run_id="r"))


def _golden(path: Path) -> None:
    from eval_pipeline.bundle.golden import read_golden_set

    read_golden_set(path)


def _part(name: str) -> Callable[[Path], None]:
    def read(path: Path) -> None:
        from eval_pipeline.bundle import extractions, parts

        found = getattr(parts, name, None) or getattr(extractions, name)
        rows = found(path)
        _drain(rows if isinstance(rows, Iterator) else ())

    return read


def _mapping(path: Path) -> None:
    from eval_pipeline.adapters.mapped_rows import mapped_rows
    from eval_pipeline.adapters.mapping import read_mapping

    data = CORPUS / "results" / "full.jsonl"
    _drain(mapped_rows(data, read_mapping(path, data_file=data)))


def _proposal(path: Path) -> None:
    from eval_pipeline.adapters.proposal import propose_mapping

    propose_mapping(path)


def _registry(**environment: str) -> None:
    from eval_pipeline.formulas.registry import load_registry
    from eval_pipeline.settings import load_settings

    load_registry(load_settings(environment, db="e.duckdb"))


def _config(path: Path) -> None:
    from eval_pipeline.config import load_config

    load_config(path)
    _registry(EVAL_PIPELINE_CONFIG=str(path))


def _formula(path: Path) -> None:
    _registry(EVAL_PIPELINE_SQL=str(path.parents[1]))


def _lines(sign: str, values: tuple[str, ...]) -> Callable[[random.Random, bytes], bytes]:
    return lambda rng, data: mutations.wrong_lines(rng, data, sign, values)


JSON, YAML, TOML = mutations.wrong_json, _lines(":", mutations.IN_YAML), _lines("=", mutations.IN_TOML)
KINDS = {
    "results": Reader("results.jsonl", JSON, _results, is_lines=True),
    "golden": Reader("queries.jsonl", JSON, _golden, is_lines=True),
    "golden-yaml": Reader("queries.yaml", YAML, _golden),
    "archive": Reader("v1.jsonl", JSON, _part("read_archive"), is_lines=True),
    "extractions": Reader("extractions.jsonl", JSON, _part("read_extractions"), is_lines=True),
    "spot-checks": Reader("judge_spot_check.jsonl", JSON, _part("read_spot_checks"), is_lines=True),
    "run": Reader("r/run.json", JSON, _part("read_run")),
    "index-report": Reader("index_report.json", JSON, _part("read_index_report")),
    "mapping": Reader("mapping.toml", TOML, _mapping),
    "table": Reader("table.csv", mutations.wrong_bytes, _proposal),
    "config": Reader("eval-pipeline.toml", TOML, _config),
    "formula": Reader("sql/metrics/mine.sql", YAML, _formula),
}


def kept(kind: str) -> list[Path]:
    """The corpus of a reader, which its first cases read as it is."""
    return sorted((CORPUS / kind).iterdir())


def input_of(kind: str, number: int, *, seed: int, folder: Path) -> Path:
    """The file of one case: of the corpus as it is kept, then made wrong by seed and number."""
    reader, corpus = KINDS[kind], kept(kind)
    target = folder / reader.file
    if number < len(corpus):
        chosen = corpus[number]
        data = chosen.read_bytes()
        target = target.with_suffix(chosen.suffix)
    else:
        rng = random.Random(f"{seed} {kind} {number}")
        data = rng.choice(corpus).read_bytes()
        how = rng.choice(("plain", "plain", "plain", *PACKED, "parquet")) if reader.is_lines else "plain"
        target, data = _made_wrong(rng, reader, target, data, how)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)
    return target


def _made_wrong(
    rng: random.Random, reader: Reader, target: Path, data: bytes, how: str
) -> tuple[Path, bytes]:
    try:
        if how == "parquet":
            return target.with_suffix(".parquet"), mutations.wrong_parquet(rng, data)
        wrong = reader.wrong(rng, data)
    except (ValueError, ArithmeticError, TypeError, RecursionError):
        # What is kept because it once was too much need not be a document.
        wrong = mutations.wrong_bytes(rng, data)
    if how in PACKED:
        return target.with_name(f"{target.name}.{how}"), mutations.packed(rng, wrong, how)
    return target, wrong


def try_cases(world: World, cases: Iterable[tuple[str, int]], *, seed: int) -> Iterator[Outcome]:
    """Many in one copy of the prepared process; where one ends it, the next copy takes the rest."""
    waiting = list(cases)
    folder = world.folder / "fuzz"
    while waiting:
        # What a case leaves that ended its process would be read by the next one.
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        batch = waiting[:BATCH]
        copy = world.prepared.start(
            "bench.faults.fuzz:read_many", json.dumps(batch), seed, folder=folder, shipped=world.shipped
        )
        code = copy.wait()
        told = [json.loads(line) for line in copy.said.splitlines() if line.startswith('{"ending"')]
        for (kind, number), one in zip(batch, told, strict=False):
            yield _outcome(kind, number, seed, one)
        if len(told) < len(batch):
            kind, number = batch[len(told)]
            died = f"the process ended with {code}, which is no answer"
            yield _outcome(kind, number, seed, {"ending": "died", "difference": died})
        waiting = waiting[min(len(told) + 1, len(batch)) :]


def _outcome(kind: str, number: int, seed: int, told: dict[str, str]) -> Outcome:
    corpus = kept(kind)
    hit = f"corpus/{kind}/{corpus[number].name}" if number < len(corpus) else "made wrong by seed"
    differences = (told["difference"],) if told["difference"] else ()
    return Outcome(
        f"fuzz {kind}", f"fuzz --seed {seed} --only {kind}:{number}", hit, told["ending"], differences
    )


def read_many(cases: str, seed: int) -> None:
    """In a copy: a line for each case, before which it may be ended."""
    limit = MOST_BYTES * 2 + _bytes_mapped()
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    for kind, number in json.loads(cases):
        path = input_of(kind, number, seed=seed, folder=Path.cwd())
        print(json.dumps(_read(KINDS[kind], path)), flush=True)
        path.unlink()


def _bytes_mapped() -> int:
    pages = Path("/proc/self/statm").read_text("ascii").split()[0]
    return int(pages) * resource.getpagesize()


def _read(reader: Reader, path: Path) -> dict[str, str]:
    began, memory = time.process_time(), _most_bytes()
    signal.alarm(KILLED_AFTER_SECONDS)
    ending, difference = "rows", ""
    try:
        reader.read(path)
    except EvalPipelineError:
        ending = "refused"
    except Exception as error:
        ending, difference = "no answer", _told(error)
    signal.alarm(0)
    took, held = time.process_time() - began, _most_bytes() - memory
    if not difference and took > MOST_SECONDS:
        difference = f"{took:.1f} s of the processor"
    if not difference and held > MOST_BYTES:
        difference = f"{held / 2**30:.1f} GB of memory"
    return {"ending": ending, "difference": difference}


def _most_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _told(error: Exception) -> str:
    ours = [one for one in traceback.extract_tb(error.__traceback__) if "eval_pipeline" in one.filename]
    place = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else "?"
    return f"{type(error).__name__} at {place}: {str(error)[:200]}"
