"""The call store: every answer that came back, kept before anything else is asked in its place."""

from __future__ import annotations

import datetime as dt
import secrets
import sqlite3
import time
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Literal, Self

import portalocker

from eval_pipeline.errors import CallStoreError

Clock = Callable[[], dt.datetime]
Claimed = Literal["mine", "answered", "others"]
FORMAT: Final = 1
_BUSY_SECONDS: Final = 60.0
_RETRY_SECONDS: Final = 0.02
_AT_ONCE: Final = 500
_ALONE: Final = portalocker.LockFlags.EXCLUSIVE | portalocker.LockFlags.NON_BLOCKING
# `run_id` is the run that paid. A claim is what a process asks just now; `deaths` counts the processes that ended while
# they did, so that the answer may have been paid and never seen. A bound is the most that a sent request can cost; its
# row is removed when the actual cost is known.
_SCHEMA: Final = """
create table if not exists calls(
  request blob not null unique, party text not null, run_id text not null, http_status integer not null,
  body blob not null, raw blob not null, model text, fingerprint text, prompt_tokens integer,
  completion_tokens integer, usd real, latency_ms real not null, attempts integer not null,
  uncertain integer not null, answered_at text not null);
create table if not exists claims(
  request blob primary key, owner text not null, party text not null, run_id text not null,
  deaths integer not null) without rowid;
create table if not exists failures(
  request blob primary key, party text not null, run_id text not null, reason text not null, http_status integer,
  attempts integer not null, uncertain integer not null, failed_at text not null) without rowid;
create table if not exists bounds(request blob not null, run_id text not null, usd real not null);
create index if not exists bounds_of_runs on bounds(run_id);
"""


class _Owner:
    """This process, by a name that no other has: a file that stays locked for as long as the process lives."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.name = secrets.token_hex(8)
        self._folder = folder
        self._file: IO[str] = (folder / self.name).open("w", encoding="utf-8")
        portalocker.lock(self._file, _ALONE)

    def is_dead(self, other: str) -> bool:
        """Whether the process of this name has ended, however it did."""
        if other == self.name:
            return False
        try:
            with (self._folder / other).open("r+", encoding="utf-8") as file:
                portalocker.lock(file, _ALONE)
                portalocker.unlock(file)
        except FileNotFoundError:
            return True
        except (portalocker.AlreadyLocked, portalocker.LockException):
            return False
        return True

    def bury(self, other: str) -> None:
        """Remove what a dead process left, when nothing is claimed by it any more."""
        (self._folder / other).unlink(missing_ok=True)

    def leave(self, *, has_claims: bool) -> None:
        """Let go; with claims the name stays, so that whoever takes them over knows of a death."""
        self._file.close()
        if not has_claims:
            self.bury(self.name)


@dataclass(frozen=True)
class Answered:
    """An answer as it came back, and what it cost."""

    http_status: int
    body: bytes
    raw: str
    model: str | None = None
    fingerprint: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    usd: float | None = None
    latency_ms: float = 0.0
    attempts: int = 1


@dataclass(frozen=True)
class Kept(Answered):
    """The same, as it lies in the store; `run_id` is the run that paid it."""

    run_id: str = ""
    uncertain: int = 0


@dataclass(frozen=True)
class OldCall:
    """An answer that could be removed: whose, and which run paid it."""

    request: str
    party: str
    run_id: str


@dataclass(frozen=True)
class Failure:
    """A call that came to nothing: it is asked again by whoever needs it."""

    request: str
    party: str
    run_id: str
    reason: str
    http_status: int | None
    attempts: int
    failed_at: str


@dataclass(frozen=True)
class Total:
    """What was asked of somebody, in one run or in all."""

    party: str
    answered: int
    prompt_tokens: int
    completion_tokens: int
    usd: float
    failed: int
    open_claims: int
    uncertain: int


def _write_ahead(con: sqlite3.Connection) -> None:
    """Of several who turn a new file to this at once some are refused without waiting: they ask again."""
    ends = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            con.execute("pragma journal_mode = wal")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > ends:
                raise
        time.sleep(_RETRY_SECONDS)


class CallStore:
    """One SQLite file that several processes use at once; every change is a transaction of its own."""

    def __init__(self, path: Path, *, clock: Clock) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path, self._clock = path, clock
        try:
            self._con = self._opened(path)
        except sqlite3.DatabaseError as error:
            raise CallStoreError(
                f"{path} cannot be used as the store of calls: {error}. Put a backup in its place, or name another "
                "file in EVAL_PIPELINE_CALLS; what kept deliveries hold is not lost."
            ) from error
        self._owner = _Owner(path.with_name(f"{path.name}.owners"))

    def _opened(self, path: Path) -> sqlite3.Connection:
        con = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)
        _write_ahead(con)
        con.execute("pragma synchronous = normal")
        # What is forgotten is overwritten.
        con.execute("pragma secure_delete = on")
        (found,) = con.execute("pragma user_version").fetchone()
        if found > FORMAT:
            con.close()
            raise CallStoreError(f"{path} was written by a newer version of this program")
        con.executescript(f"begin immediate; {_SCHEMA} pragma user_version = {FORMAT}; commit")
        return con

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Claims of calls that were cut off stay: whoever takes them over counts them as uncertain."""
        mine = self._con.execute(
            "select 1 from claims where owner = ? limit 1", (self._owner.name,)
        ).fetchone()
        self._con.close()
        self._owner.leave(has_claims=mine is not None)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        try:
            self._con.execute("begin immediate")
            yield self._con
            self._con.execute("commit")
        except BaseException as error:
            if self._con.in_transaction:
                self._con.execute("rollback")
            if isinstance(error, sqlite3.Error):
                raise CallStoreError(f"{self.path} cannot be written: {error}") from error
            raise

    def answered(self, requests: Iterable[str]) -> set[str]:
        """Which of these have an answer."""
        return {
            row[0].hex()
            for keys in _blocks(requests)
            for row in self._con.execute(f"select request from calls where request in ({_marks(keys)})", keys)
        }

    def kept(self, request: str) -> Kept | None:
        """The answer of a request, where there is one."""
        row = self._con.execute(
            "select http_status, body, raw, model, fingerprint, prompt_tokens, completion_tokens, usd, latency_ms, "
            "attempts, run_id, uncertain from calls where request = ?",
            (bytes.fromhex(request),),
        ).fetchone()
        if row is None:
            return None
        status, body, raw, *rest = row
        return Kept(status, zlib.decompress(body), zlib.decompress(raw).decode("utf-8"), *rest)

    def claim(self, request: str, *, party: str, run_id: str) -> Claimed:
        """Say that this process asks it now, unless it is answered or another living process does."""
        key = bytes.fromhex(request)
        with self._transaction() as con:
            if con.execute("select 1 from calls where request = ?", (key,)).fetchone():
                return "answered"
            before = con.execute("select owner, deaths from claims where request = ?", (key,)).fetchone()
            owner, deaths = before or (self._owner.name, 0)
            is_others = owner != self._owner.name
            if is_others and not self._owner.is_dead(owner):
                return "others"
            con.execute(
                "insert or replace into claims values (?, ?, ?, ?, ?)",
                (key, self._owner.name, party, run_id, deaths + is_others),
            )
            if is_others and not con.execute("select 1 from claims where owner = ?", (owner,)).fetchone():
                self._owner.bury(owner)
        return "mine"

    def keep(self, request: str, answer: Answered, *, party: str, run_id: str) -> None:
        """The answer, in a transaction of its own; with it the claim goes."""
        key = bytes.fromhex(request)
        row = (
            *(key, party, run_id, answer.http_status),
            *(zlib.compress(answer.body), zlib.compress(answer.raw.encode("utf-8", errors="replace"))),
            *(answer.model, answer.fingerprint, answer.prompt_tokens, answer.completion_tokens, answer.usd),
            *(answer.latency_ms, answer.attempts),
        )
        with self._transaction() as con:
            con.execute(
                f"insert or ignore into calls values ({_marks(row)}, {_DEATHS}, ?)",
                (*row, key, key, self._now()),
            )
            con.execute("delete from claims where request = ?", (key,))
            con.execute("delete from failures where request = ?", (key,))

    def fail(
        self, request: str, reason: str, *, http_status: int | None, attempts: int, party: str, run_id: str
    ) -> None:
        """It came to nothing: said, and free to be asked again."""
        key = bytes.fromhex(request)
        row = (key, party, run_id, reason, http_status, attempts)
        with self._transaction() as con:
            con.execute(
                f"insert or replace into failures values ({_marks(row)}, {_DEATHS}, ?)",
                (*row, key, key, self._now()),
            )
            con.execute("delete from claims where request = ?", (key,))

    def give_back(self, request: str) -> None:
        """A call that was not sent: nobody has claimed it."""
        self._con.execute(
            "delete from claims where request = ? and owner = ?", (bytes.fromhex(request), self._owner.name)
        )

    def failure(self, request: str) -> Failure | None:
        """Why a request has no answer, where it was tried."""
        found = self._failures("where request = ?", (bytes.fromhex(request),))
        return found[0] if found else None

    def failures(self, run_id: str | None = None) -> list[Failure]:
        """What came to nothing, in a run or in all, newest first."""
        condition = "" if run_id is None else "where run_id = ?"
        return self._failures(
            f"{condition} order by failed_at desc, request", () if run_id is None else (run_id,)
        )

    def _failures(self, condition: str, values: tuple[Any, ...]) -> list[Failure]:
        rows = self._con.execute(
            f"select request, party, run_id, reason, http_status, attempts, failed_at from failures {condition}",
            values,
        )
        return [Failure(row[0].hex(), *row[1:]) for row in rows]

    def totals(self, run_id: str | None = None) -> list[Total]:
        """Per party what was asked, paid and is uncertain, in a run or in all."""
        only, values = ("", ()) if run_id is None else ("where run_id = ?", (run_id,) * 3)
        rows = self._con.execute(
            f"""select party, sum(answered), sum(prompt), sum(completion), sum(usd), sum(failed), sum(claimed),
                  sum(uncertain) from (
                  select party, 1 as answered, coalesce(prompt_tokens, 0) as prompt,
                    coalesce(completion_tokens, 0) as completion, coalesce(usd, 0.0) as usd, 0 as failed, 0 as claimed,
                    uncertain from calls {only}
                  union all select party, 0, 0, 0, 0.0, 1, 0, uncertain from failures {only}
                  union all select party, 0, 0, 0, 0.0, 0, 1, deaths from claims {only})
                group by party order by party""",
            values,
        )
        return [Total(*row) for row in rows]

    def spent(self, run_id: str) -> float:
        """USD that a run has paid so far."""
        (found,) = self._con.execute("select sum(usd) from calls where run_id = ?", (run_id,)).fetchone()
        return float(found or 0.0)

    def add_bound(self, request: str, run_id: str, usd: float) -> int:
        """Record the most that a request can cost before it is sent; return the number of the row."""
        with self._transaction() as con:
            row = con.execute("insert into bounds values (?, ?, ?)", (bytes.fromhex(request), run_id, usd))
        return row.lastrowid or 0

    def remove_bound(self, number: int) -> None:
        """Remove the bound of a request whose cost is known."""
        with self._transaction() as con:
            con.execute("delete from bounds where rowid = ?", (number,))

    def budgeted(self, run_id: str) -> float:
        """USD that a run has used of its budget: reported costs, and the bounds of calls with an unknown cost."""
        (found,) = self._con.execute("select sum(usd) from bounds where run_id = ?", (run_id,)).fetchone()
        return self.spent(run_id) + float(found or 0.0)

    def unfinished(self, run_id: str) -> float:
        """USD that the calls of a run without a reply can have cost at most."""
        sql = "select sum(usd) from bounds where run_id = ? and request not in (select request from calls)"
        (found,) = self._con.execute(sql, (run_id,)).fetchone()
        return float(found or 0.0)

    def payers(self) -> list[str]:
        """The runs that have paid, tried or begun anything."""
        rows = self._con.execute(
            " union ".join(f"select run_id from {table}" for table in ("calls", "claims", "failures"))
        )
        return [run_id for (run_id,) in rows]

    def paid_by(self, run_id: str) -> set[str]:
        """The requests that a run has paid, tried or begun."""
        rows = self._con.execute(
            " union all ".join(
                f"select request from {table} where run_id = ?1" for table in ("calls", "claims", "failures")
            ),
            (run_id,),
        )
        return {row[0].hex() for row in rows}

    def forget(self, requests: Iterable[str]) -> int:
        """Remove these answers, so that the file holds them no more; how many there were."""
        gone = 0
        for keys in _blocks(requests):
            with self._transaction() as con:
                for table in ("failures", "claims", "bounds"):
                    con.execute(f"delete from {table} where request in ({_marks(keys)})", keys)
                gone += con.execute(f"delete from calls where request in ({_marks(keys)})", keys).rowcount
        self._con.execute("pragma wal_checkpoint(truncate)")
        return gone

    def prune(self, before: dt.datetime, held: Callable[[Sequence[OldCall]], Collection[str]]) -> int:
        """Remove what is older and what `held` says a kept delivery holds; how many there were."""
        rows = self._con.execute(
            "select request, party, run_id from calls where answered_at < ?", (before.isoformat(),)
        )
        old = [OldCall(row[0].hex(), *row[1:]) for row in rows]
        safe = [one for at in range(0, len(old), _AT_ONCE) for one in held(old[at : at + _AT_ONCE])]
        gone = self.forget(set(safe))
        self._con.execute("vacuum")
        return gone

    def _now(self) -> str:
        return self._clock().isoformat(timespec="microseconds")


# How many processes died while they asked it, now and in what came to nothing before.
_DEATHS: Final = (
    "coalesce((select deaths from claims where request = ?), 0) "
    "+ coalesce((select uncertain from failures where request = ?), 0)"
)


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))


def _blocks(requests: Iterable[str]) -> Iterator[list[bytes]]:
    keys = [bytes.fromhex(one) for one in requests]
    for at in range(0, len(keys), _AT_ONCE):
        yield keys[at : at + _AT_ONCE]
