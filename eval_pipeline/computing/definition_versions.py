"""Every version a definition has had in this store, complete enough to be computed again."""

from __future__ import annotations

import datetime as dt
import difflib
import json
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from eval_pipeline.config import Config
from eval_pipeline.documents import Document, Help
from eval_pipeline.errors import UnknownName
from eval_pipeline.formulas.definition import Definition, Helper
from eval_pipeline.formulas.fingerprint import combined
from eval_pipeline.formulas.header import Header
from eval_pipeline.formulas.registry import (
    Registry,
    check_stored,
    reading_of_judgements,
    reading_with_labels,
)
from eval_pipeline.settings import product_version
from eval_pipeline.store.open import Connection, first_row
from eval_pipeline.store.project import Project, Store

COLUMNS = "name, fingerprint, own_fingerprint, version, header, body, reads, parents, helpers, language"


def _record_versions(store: Store) -> None:
    """Remember the meanings that were never used here before."""
    registry = store.definitions()
    known = set(store.con.execute("select name, fingerprint from ledger.definitions").fetchall())
    standing = ((one, registry.definitions) for one in registry)
    for one, read in (*standing, *Readings(registry).in_use(store.con)):
        if (one.name, one.fingerprint) in known:
            continue
        parents = {name: read[name].fingerprint for name in one.reads if name in read}
        store.con.execute(
            f"insert into ledger.definitions ({COLUMNS}, first_used_at, product_version) "
            "values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                one.name,
                one.fingerprint,
                one.own_fingerprint,
                one.header.version,
                json.dumps(_header(one), ensure_ascii=False),
                one.body,
                list(one.reads),
                json.dumps(parents),
                json.dumps(_helpers_behind(one, registry.helpers), ensure_ascii=False),
                "python" if one.is_python else "sql",
                store.clock(),
                product_version(),
            ],
        )


class Fingerprints(NamedTuple):
    """What a cell should be made with, where that is another than for most runs."""

    fingerprint: str
    own_fingerprint: str
    source_fingerprint: str


# What tells runs with one reading of a definition from those with another.
_Key = Hashable


@dataclass(frozen=True)
class Reading:
    """What some runs are made with otherwise than most: which runs, and with what. Of one `kind` they are the same."""

    kind: str
    runs: Callable[[Connection], list[tuple[Any, int]]]
    of: Callable[[Any], Fingerprints]


class Readings:
    """Which definitions runs are made with otherwise: those with scores of which [scores] says what their labels are
    worth, and those with judgements, by judges among whom [suites] chooses."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._judged: dict[Any, dict[str, Definition]] = {}

    def of(self, one: Definition) -> Reading | None:
        """Of a definition; None where all runs are made with the same."""
        registry = self._registry
        known = registry.config.labelled_scores
        if one.is_scored_by_name and known:
            return Reading(
                "labels",
                lambda con: _labelled_scores_of_runs(con, known),
                lambda names: _fingerprints_of(reading_with_labels(registry, one, names)),
            )
        if registry.rests_on_judgements(one):
            return Reading(
                "judgements",
                lambda con: _judged_runs(con, registry.config),
                lambda key: _fingerprints_of(self.judged(key)[one.name]),
            )
        return None

    def of_aggregates(self, one: Definition, formula: Definition) -> Reading | None:
        """Of what is averaged over a formula."""
        of_formula = self.of(formula)
        if of_formula is None:
            return None

        def of(key: _Key) -> Fingerprints:
            source = of_formula.of(key).fingerprint
            return Fingerprints(combined(one.fingerprint, source), one.own_fingerprint, source)

        return Reading(of_formula.kind, of_formula.runs, of)

    def judged(self, key: Any) -> dict[str, Definition]:
        """Every definition as it is read of runs with judgements; worked out once."""
        if key not in self._judged:
            self._judged[key] = reading_of_judgements(self._registry, *key)
        return self._judged[key]

    def in_use(self, con: Connection) -> Iterator[tuple[Definition, Mapping[str, Definition]]]:
        """Those that a run is made with, each with the definitions that it reads then."""
        registry = self._registry
        labelled = registry.config.labelled_scores
        for names in sorted(
            {names for names, _ in _labelled_scores_of_runs(con, labelled)} if labelled else ()
        ):
            for one in registry:
                if one.is_scored_by_name:
                    yield reading_with_labels(registry, one, names), registry.definitions
        for key in sorted({key for key, _ in _judged_runs(con, registry.config)}, key=repr):
            read = {**registry.definitions, **self.judged(key)}
            yield from ((one, read) for one in self.judged(key).values())


def _fingerprints_of(one: Definition) -> Fingerprints:
    return Fingerprints(one.fingerprint, one.own_fingerprint, "")


def _judged_runs(con: Connection, config: Config) -> list[tuple[tuple[str | None, tuple[str, ...]], int]]:
    """Runs with judgements: the judges among whom the configuration chooses, with the suite that names them.

    Where a run has judgements of one judge there is nothing to choose.
    """
    rows = con.execute(
        "select p.run_key, r.suite, list(j.judge) filter (j.judge is not null) from raw.run_parts p "
        "join raw.runs r on r.run_key = p.run_key left join ledger.judges_of_runs j on j.run_key = p.run_key "
        "where p.part = 'judgements' group by p.run_key, r.suite"
    ).fetchall()
    found = []
    for run_key, suite, judges in rows:
        named = [one for one in config.judges_of(suite) if one in (judges or ())]
        is_chosen = len(judges or ()) > 1 and named
        found.append(((suite, tuple(named)) if is_chosen else (None, ()), run_key))
    return found


def _labelled_scores_of_runs(con: Connection, names: Sequence[str]) -> list[tuple[tuple[str, ...], int]]:
    """Which of these scores a run has, and the run, of those that have any."""
    rows = con.execute(
        "select run_key, list(distinct name order by name) from ("
        "select run_key, name from raw.scores union all select run_key, name from raw.run_scores) "
        "where list_contains(?, name) group by run_key",
        [list(names)],
    ).fetchall()
    return [(tuple(found), run_key) for run_key, found in rows]


def _header(one: Definition) -> dict[str, Any]:
    return {
        "keys": dict(one.header.keys),
        "columns": list(one.columns),
        "parameters": dict(one.header.parameters),
        "applies": one.header.applies,
        "undefined": one.header.undefined,
        "aggregate": one.header.aggregate,
        "scale": one.header.scale,
        "grain": list(one.header.grain),
        "function": one.path.stem,
        **({"taken": one.taken} if one.taken else {}),
    }


def _helpers_behind(one: Definition, helpers: Mapping[str, Helper]) -> dict[str, Any]:
    """What it calls, however deep, by name."""
    from eval_pipeline.formulas.tokens import called_functions

    found: dict[str, Any] = {}
    waiting = [name for name in one.calls if name in helpers]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        helper = helpers[name]
        found[name] = {"arguments": list(helper.header.arguments), "body": helper.body}
        waiting += [other for other in called_functions(helper.body) if other in helpers]
    return found


def _find_version(
    store: Store, name: str, fingerprint: str
) -> tuple[Definition, dict[str, str], list[Helper]] | None:
    """A definition as it once was, with the fingerprints of what it read and the helpers it called.

    Raises for a text that is not allowed to run.
    """
    row = first_row(
        store.con,
        f"select {COLUMNS} from ledger.definitions where name = ? and fingerprint = ?",
        [name, fingerprint],
    )
    if row is None:
        return None
    _, _, own, version, header_text, body, reads, parents, helpers_text, language = row
    header = json.loads(header_text)
    path = Path(f"{name}@{fingerprint}", header.get("function", ""))
    definition = Definition(
        name=name,
        header=Header(
            keys=header["keys"],
            version=version,
            parameters=header["parameters"],
            applies=header["applies"],
            undefined=header["undefined"],
            aggregate=header["aggregate"],
            scale=header.get("scale", "fraction"),
            grain=tuple(header.get("grain", ())),
        ),
        body=body,
        path=path,
        reads=tuple(reads),
        is_python=language == "python",
        own_fingerprint=own,
        fingerprint=fingerprint,
        columns=tuple(header["columns"]),
        taken=tuple(tuple(columns) for columns in header.get("taken", ())),
    )
    helpers = [
        Helper(helper, Header(keys={}, arguments=tuple(entry["arguments"])), entry["body"], path, "")
        for helper, entry in json.loads(helpers_text).items()
    ]
    check_stored(store.definitions(), definition, helpers)
    return definition, json.loads(parents), helpers


def _find_earlier_version(
    project: Project, definition: Definition, fingerprint: str
) -> tuple[Definition, list[Helper]]:
    """The definition at a meaning that the store remembers, with the helpers it called; the beginning is enough."""
    with project.read() as store:
        known = [one.fingerprint for one in versions_of(store.con, [definition.name])]
        matching = [one for one in known if one.startswith(fingerprint)]
        found = _find_version(store, definition.name, matching[0]) if len(matching) == 1 else None
    if found is None:
        raise UnknownName(
            f"file or meaning of {definition.name}", fingerprint, known, hint=f"(in {project.settings.db})"
        )
    return found[0], found[2]


@dataclass(frozen=True)
class StoredVersion:
    """A meaning that stored values were computed with; the header is JSON."""

    name: str
    version: int
    fingerprint: str
    own_fingerprint: str
    header: str
    body: str
    first_used_at: dt.datetime

    @property
    def text(self) -> str:
        """What a diff compares."""
        return version_text(json.loads(self.header), self.body)


def versions_of(con: Connection, names: Iterable[str]) -> list[StoredVersion]:
    """The history of these definitions' meanings, oldest first."""
    rows = con.execute(
        "select name, version, fingerprint, own_fingerprint, header, body, first_used_at from ledger.definitions "
        "where list_contains(?, name) order by first_used_at, version, fingerprint",
        [list(names)],
    ).fetchall()
    return [StoredVersion(*row) for row in rows]


def version_text(header: Mapping[str, Any], body: str) -> str:
    """What a diff compares: everything that is part of the meaning, as text."""
    lines = []
    for name in ("parameters", "applies", "undefined", "aggregate"):
        value = header.get(name)
        if value:
            text = json.dumps(dict(value), ensure_ascii=False) if isinstance(value, Mapping) else value
            lines.append(f"{name}: {text}")
    return "\n".join(lines) + "\n\n" + body.strip() + "\n"


class PastVersion(Document, frozen=True):
    """An entry of `metrics NAME --history --json`."""

    name: Annotated[str, Help("The definition, as it was called then.")]
    version: Annotated[int, Help("The version that it said it was.")]
    fingerprint: Annotated[str, Help("What it meant, as a fingerprint.")]
    first_used_at: Annotated[str, Help("When values were first computed with it.")]
    runs: Annotated[int, Help("How many runs rest on it now.")]
    diff: Annotated[str, Help("How it differs from the meaning before; empty for the first one.")]


def find_history(project: Project, definition: Definition) -> list[PastVersion]:
    """Every meaning that stored values were computed with, oldest first."""
    names = [definition.name]
    if definition.header.was:
        names.append(f"{definition.schema}.{definition.header.was}")
    with project.read() as store:
        meanings = versions_of(store.con, names)
        runs = dict(
            store.con.execute(
                "select fingerprint, count(*) from ledger.cells where list_contains(?, definition) "
                "group by fingerprint",
                [names],
            ).fetchall()
        )
    texts = [one.text for one in meanings]
    return [
        PastVersion(
            name=one.name,
            version=one.version,
            fingerprint=one.fingerprint,
            first_used_at=one.first_used_at.isoformat(timespec="seconds"),
            runs=runs.get(one.fingerprint, 0),
            diff=_diff(before, one.text) if before else "",
        )
        for one, before in zip(meanings, ["", *texts], strict=False)
    ]


def _diff(before: str, after: str) -> str:
    return "".join(
        difflib.unified_diff(
            before.splitlines(keepends=True), after.splitlines(keepends=True), "before", "after"
        )
    )
