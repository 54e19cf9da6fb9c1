"""The store looked at as it lies there: of any version that can be read, and nothing is put beside it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from eval_pipeline.store.checkpoint import _log_of
from eval_pipeline.store.damage import is_there
from eval_pipeline.store.durable import copy_durably
from eval_pipeline.store.lock import PATIENCE_SECONDS, Holder, _is_locked_here, holders, reader_lock
from eval_pipeline.store.open import Connection, _connect, _end_checkpoint, says_what_failed
from eval_pipeline.store.project import Project
from eval_pipeline.store.schema import _applied_numbers, _known_numbers
from eval_pipeline.store.versions import FIRST, _writers


@dataclass(frozen=True)
class Inspection:
    """A connection for reading, who else used the store when it was asked for, and which versions wrote to it."""

    con: Connection
    holders: tuple[Holder, ...]
    schema: int
    known_schema: int
    writers: tuple[str, ...]
    db: Path

    def copy_to(self, copy: Path) -> None:
        """Copy the store's file and its log; nobody writes meanwhile."""
        copy_durably(self.db, copy)
        if _log_of(self.db).exists():
            copy_durably(_log_of(self.db), _log_of(copy))


@contextmanager
def inspecting(project: Project, *, patience: float = PATIENCE_SECONDS) -> Iterator[Inspection | None]:
    """The store for reading, not brought up to date; None where there is none."""
    db = project.settings.db
    with ExitStack() as stack:
        stack.enter_context(says_what_failed(db))
        if not is_there(db):
            yield None
            return
        before = tuple(holders(db))
        # Where nobody ever locked there is nobody to wait for; DuckDB's own lock keeps out whoever comes now.
        if _is_locked_here(db):
            _end_checkpoint(db, project.clock, project.notify, patience)
            stack.enter_context(reader_lock(db, project.clock, notify=project.notify, patience=patience))
        con = stack.enter_context(_connect(db, read_only=True, patience=patience))
        yield Inspection(
            con,
            before,
            max(_applied_numbers(con), default=0),
            max(_known_numbers()),
            tuple(_writers(con) or [FIRST]),
            db,
        )
