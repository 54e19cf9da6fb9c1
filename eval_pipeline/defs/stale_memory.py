"""What the sensor stale_metrics remembers between two looks, and what it may launch."""

# Two code locations may have one store and different definitions, and a person may compute with yet others. If each of
# them computed whatever does not hold for its own files, they would undo each other's work forever. So a change of
# definitions is launched by the location whose files changed: once what its files mean is computed, it takes cells of
# another meaning for somebody else's later choice, says so, and leaves them.

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Final

from eval_pipeline.computing.ledger import DATA_REASONS, DEFINITION_REASONS
from eval_pipeline.computing.progress import StaleRun
from eval_pipeline.config import Config
from eval_pipeline.defs.launches import Launch
from eval_pipeline.formulas.registry import Registry
from eval_pipeline.loading.inbox import digest
from eval_pipeline.settings import product_version

NOTHING_STALE: Final = "nothing is stale that was not tried"
SHOWN_LAUNCHES: Final = 5
SHOWN_TABLES: Final = 4


@dataclass(frozen=True)
class Memory:
    """The sensor's cursor: what it saw last, what its definitions meant when all was computed, and what it said."""

    seen: str = ""
    meaning: str = ""
    said: str = ""

    def text(self) -> str:
        """As a cursor."""
        return json.dumps(asdict(self))


def _read_memory(cursor: str | None) -> Memory:
    """Of a cursor that another version wrote, what is known; what is no memory says nothing."""
    try:
        said = json.loads(cursor or "{}")
        return Memory(**{one.name: said[one.name] for one in fields(Memory) if one.name in said})
    except (TypeError, ValueError):
        return Memory()


def _meaning_of(registry: Registry) -> str:
    """Changes when any definition of these files and this configuration means something else."""
    return digest(sorted(f"{one.name} {one.fingerprint}" for one in registry))


def _free_reasons(memory: Memory, meaning: str) -> frozenset[str]:
    """For which reasons cells may be launched; none of them is an upgrade, which is somebody's to `apply`."""
    return DATA_REASONS if meaning == memory.meaning else DATA_REASONS | DEFINITION_REASONS


def _what_is_left(n_cells: int, n_upgraded: int) -> str:
    """Why nothing is launched."""
    found = []
    if n_upgraded:
        found.append(
            f"{n_upgraded:,} cells are stale because {product_version()} replaced an earlier version: after an upgrade "
            "they are only planned"
        )
    if n_cells:
        found.append(
            f"{n_cells:,} cells were computed with other definitions after the ones here: they are left as they are"
        )
    if not found:
        return NOTHING_STALE
    return (
        f"{'; '.join(found)}. `eval-pipeline plan` shows them, `eval-pipeline apply` computes them with these "
        "definitions"
    )


def _only_planned(config: Config, launches: Sequence[Launch], due: Mapping[str, StaleRun]) -> str | None:
    """Why nothing is launched and what would be, where it is only planned: told so, or it would take too long.

    While nothing was ever computed there is nothing to predict by, and it is launched: that measures it.
    """
    seconds, most = sum(run.seconds for run in due.values()), config.stale_metrics_most_seconds
    if config.only_plans:
        why = "[dagster] stale_metrics"
    elif launches and seconds > most:
        why = f"it would take about {seconds:,.0f} s, more than [dagster] stale_metrics_most_seconds = {most}"
    else:
        return None
    if not launches:
        return NOTHING_STALE
    n_cells = sum(run.n_cells for run in due.values())
    shown = "; ".join(
        f"{_some(sorted(one.assets))} for {one.first} … {one.last} ({one.why})"
        for one in launches[:SHOWN_LAUNCHES]
    )
    more = len(launches) - SHOWN_LAUNCHES
    return (
        f"only planned ({why}): would compute {n_cells:,} cells of {len(due):,} runs in {len(launches):,} Dagster "
        f"runs, about {seconds:,.1f} s: {shown}{f'; and {more:,} more' if more > 0 else ''}. "
        "`eval-pipeline plan` shows it, `eval-pipeline apply` does it"
    )


def _some(names: Iterable[str]) -> str:
    first, more = list(names)[:SHOWN_TABLES], len(list(names)) - SHOWN_TABLES
    return ", ".join(first) + (f" and {more} more" if more > 0 else "")
