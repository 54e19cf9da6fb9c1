"""Every exception this package raises on purpose.

EvalPipelineError
├── UsageError               wrong arguments, unknown names                    exit code 2
│   ├── UnknownName          a run, dataset or definition that is not there
│   └── InvalidConfig        eval-pipeline.toml says something impossible
├── DefinitionError          a formula file that cannot be used                exit code 2
│   └── FormulaFailed        a formula that raises, or has no value where it applies   exit code 1
├── RefusedError             strict mode: the answer would mislead             exit code 5
├── StoreError               the DuckDB file cannot be used                    exit code 2
│   ├── StoreBusy            somebody else held it for too long
│   ├── StoreMissing         there is no store yet
│   │   └── StoreLost        the store is missing, and deliveries to it are kept    exit code 5, as RefusedError
│   ├── StoreDamaged         the file is no DuckDB file, or is broken
│   └── StoreForeign         another program's database, or one of another version
│       ├── NotAStore        another program's, or of another format: every command leaves it alone
│       └── StoreNewer       a newer version of this program wrote it          exit code 5, as RefusedError
├── ServersFailed            a server ends again and again: somebody has to look   exit code 70
├── CallStoreError           the file of paid answers cannot be used          exit code 2
├── NotFinished              asking has stopped, and all paid for is kept      exit code 6
└── InputRejected            a whole part of a bundle cannot be taken in       becomes a quarantine row
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from pathlib import Path


class EvalPipelineError(Exception):
    """What, where, what is allowed, what to try; `exit_code` is what the command line returns."""

    exit_code = 2


class UsageError(EvalPipelineError):
    """The call cannot be understood as it stands."""


class UnknownName(UsageError):
    """A name that does not exist, with the closest ones that do, by their spelling where `near` does not say which."""

    def __init__(
        self, kind: str, name: str, known: Iterable[str], *, hint: str = "", near: Sequence[str] = ()
    ) -> None:
        names = sorted(known)
        close = list(near) or difflib.get_close_matches(name, names, n=3, cutoff=0.5)
        if close:
            advice = "did you mean " + " or ".join(close) + "?"
        elif names:
            shown = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
            advice = f"there is: {shown}"
        else:
            advice = f"there is no {kind} yet"
        super().__init__(f"no {kind} named {name!r}: {advice}" + (f" {hint}" if hint else ""))
        self.kind = kind
        self.name = name
        self.close_names = close


class InvalidConfig(UsageError):
    """eval-pipeline.toml cannot be used."""


class DefinitionError(EvalPipelineError):
    """A definition file cannot be used; the message starts with its path and line."""


class FormulaFailed(DefinitionError):
    """A definition that raises, or gives no value where it applies; `text` says so without its file.

    `is_everywhere`: it does whatever it is given. `lacks_values`: it gave none where it applies.
    """

    exit_code = 1

    def __init__(
        self, path: Path, text: str, *, is_everywhere: bool = False, lacks_values: bool = False
    ) -> None:
        super().__init__(f"{path}: {text}")
        self.path = path
        self.text = text
        self.is_everywhere = is_everywhere
        self.lacks_values = lacks_values


class RefusedError(EvalPipelineError):
    """The answer would mislead, so there is none."""

    exit_code = 5


class StoreError(EvalPipelineError):
    """The store cannot be used."""


class StoreBusy(StoreError):
    """The store was held by somebody else for longer than we wait."""


class StoreMissing(StoreError):
    """There is no store at this path."""


class StoreLost(StoreMissing, RefusedError):
    """The store is missing although deliveries to it are kept: an empty one would hide that."""


class StoreDamaged(StoreError):
    """The file at this path is no readable store."""


class StoreForeign(StoreError):
    """The file at this path is somebody else's: another program's, or a newer version's."""


class NotAStore(StoreForeign):
    """What lies at this path is another program's or of another format: every command leaves it alone."""


class StoreNewer(StoreForeign, RefusedError):
    """A newer version of this program wrote the store: what it says would be misread."""


class ServersFailed(EvalPipelineError):
    """A supervised server ended again and again, so all are ended: somebody has to look."""

    exit_code = 70


class CallStoreError(EvalPipelineError):
    """The file in which answers that were paid are kept cannot be used."""


class NotFinished(EvalPipelineError):
    """Asking targets or judges stopped before its end: all that was paid is kept, and the same command goes on."""

    exit_code = 6


class InputRejected(EvalPipelineError):
    """A part of a bundle cannot be taken in as a whole."""

    def __init__(
        self, reason: str, *, line: int | None = None, field: str | None = None, text: str = ""
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line
        self.field = field
        self.text = text
