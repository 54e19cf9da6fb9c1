"""All definitions: the shipped folder, your own folder over it, and eval-pipeline.toml."""

from __future__ import annotations

import re
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from eval_pipeline.config import COMPLETE, JUDGED, Config, load_config
from eval_pipeline.errors import DefinitionError, InvalidConfig, RefusedError, UnknownName
from eval_pipeline.formulas._allowed_sql import _refuse_sql
from eval_pipeline.formulas._definition_text import definition_files, read_definition
from eval_pipeline.formulas._kept_copy import find_kept, keep, key_of
from eval_pipeline.formulas.definition import PER_QUERY, Definition, Helper, render
from eval_pipeline.formulas.fingerprint import _full_fingerprint, _helper_fingerprint, own_fingerprint
from eval_pipeline.formulas.header import Header, _body_line, _header_of, _parse_header, _split_file
from eval_pipeline.formulas.lock_file import FILE, _first_fingerprints
from eval_pipeline.formulas.python_source import _declaration, _refuse_python, canonical_source
from eval_pipeline.formulas.tokens import (
    _parameter_names,
    _qualified_names,
    called_functions,
    canonical,
)
from eval_pipeline.formulas.variants import with_variants
from eval_pipeline.settings import PACKAGE, Settings, check_places, refuses_python, shipped_sql

DERIVED = ("facts", "metrics", "aggregates", "comparisons")
SCHEMAS = frozenset(("raw", "labels", *DERIVED))
NAME = re.compile(r"[a-z][a-z0-9_]{0,62}\Z")
ALL_FORMULAS = "metrics.formula"
# The parameter that holds which texts of scores stand for which numbers.
LABELS = "labels"
# The parameter that holds whose judgements score the runs of which suite.
JUDGES = "judges"
# What judges were asked and said: a run without such a delivery has no rows of what is made of these tables alone.
JUDGEMENTS = "raw.judgements"
_OF_JUDGEMENTS = frozenset((JUDGEMENTS, "raw.judge_requests", "raw.suites_of_runs"))
CHUNK_LABELS = frozenset(("labels.expected_chunks", "labels.grades"))
PER_RUN = ("run_key",)
_DATASET_FIELDS = ("formulas", "extraction_cases", "relevant_from", "labels", "labels_of")


@dataclass(frozen=True)
class Registry:
    """Every definition by name, parents before children, and the helpers they call."""

    definitions: Mapping[str, Definition]
    helpers: Mapping[str, Helper]
    config: Config
    # Metrics of which only the store knows that there are any: the scores of others by their keys.
    scores: Mapping[str, Definition] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Definition]:
        return iter(self.definitions.values())

    def get(self, name: str) -> Definition:
        """A definition by its full or short name."""
        found = self.definitions.get(name)
        if found is None:
            short = [one for one in self if one.short_name == name]
            found = short[0] if len(short) == 1 else None
        if found is None:
            known = [*self.definitions, *(one.short_name for one in self)]
            raise UnknownName("definition", name, known)
        return found

    @property
    def metrics(self) -> list[Definition]:
        """The definitions of the schema metrics, whatever their rows are about."""
        return [one for one in self if one.schema == "metrics"]

    @property
    def formulas(self) -> list[Definition]:
        """Those of them that score queries: what run_metrics averages and slices and per_query_metrics shows."""
        return [one for one in self if one.is_scored_per_query]

    @property
    def times(self) -> list[Definition]:
        """The definitions that record times of every query."""
        timed = (metric for metric in self.metrics if metric.header.scale == "ms")
        return [metric for metric in timed if metric.grain == PER_QUERY and not metric.is_scored_per_query]

    @property
    def averaged(self) -> list[Definition]:
        """What run_metrics averages: these formulas, and those whose rows name their metric themselves."""
        return [one for one in self if one.is_scored_per_query or one.is_scored_by_name]

    @property
    def summaries(self) -> list[Definition]:
        """What is measured over a whole run at once, and not from the formulas that score queries."""
        return [one for one in self if one.schema == "aggregates" and ALL_FORMULAS not in one.reads]

    def keys(self) -> dict[str, Definition]:
        """Every key that a query is scored by, in catalogue order, with the formula that yields it."""
        fixed = {key: one for one in sorted(self.formulas, key=lambda d: d.name) for key in one.keys}
        return fixed | {key: one for key, one in self.scores.items() if key not in fixed}

    def headline_of(self, one: Definition) -> str | None:
        """The key that asks for it: its own, that of what it is another reading of, or the likest of its family."""
        if one.headline:
            return one.headline[0]
        base = self.definitions.get(one.variant_of or "")
        if base is not None:
            return self.headline_of(base)
        asking = [other for other in self if other.family == one.family and other.headline]
        return max(asking, key=lambda other: self._likeness(one, other)).headline[0] if asking else None

    def _likeness(self, one: Definition, other: Definition) -> float:
        """How much of what the two are computed from, and of their parameters, they have in common."""
        a, b = ({*self.inputs_of(each), *each.header.parameters} for each in (one, other))
        return len(a & b) / len(a | b)

    def inputs_of(self, definition: Definition) -> tuple[str, ...]:
        """Every raw and label table behind a definition, however deep."""
        found: dict[str, None] = {}
        for name in definition.reads:
            if name in self.definitions:
                found |= dict.fromkeys(self.inputs_of(self.definitions[name]))
            elif name != ALL_FORMULAS:
                found[name] = None
        return tuple(sorted(found))

    def compares_chunk_ids(self, definition: Definition) -> bool:
        """Whether the definition compares hits with chunk ids in labels, however deep.

        A fact with one row per run does not: it only records which fields the hits carry.
        """
        return definition.grain != PER_RUN and any(
            name in CHUNK_LABELS
            or (name in self.definitions and self.compares_chunk_ids(self.definitions[name]))
            for name in definition.reads
        )

    def rests_on_judgements(self, definition: Definition) -> bool:
        """Whether judgements are among what the definition is computed from, however deep."""
        return JUDGEMENTS in self.inputs_of(definition)

    def applies_to(self, definition: Definition, dataset: str) -> bool:
        """Whether a dataset wants this definition: everything, unless it says which formulas score its queries."""
        wanted = self.config.datasets.get(dataset, {}).get("formulas")
        return not definition.is_scored_per_query or wanted is None or definition.short_name in wanted


def load_registry(settings: Settings, *, broken: dict[str, DefinitionError] | None = None) -> Registry:
    """Every definition that holds for these settings, read anew where a byte of any file has changed.

    With `broken` a file that cannot be read is left out, with what reads it, and its error is put there by its name.
    """
    check_places(settings)
    takes_python = not refuses_python()
    config = load_config(settings.config)
    folders = [shipped_sql(), *([settings.own_sql] if settings.own_sql else [])]
    places = list(_places_read(folders)) if settings.cache else []
    key = key_of(places, config) if settings.cache else None
    kept = find_kept(settings.cache, key)
    if kept and (takes_python or not any(one.is_python and one.is_own for one in kept.definitions.values())):
        return Registry(kept.definitions, kept.helpers, config)
    registry = _read_registry(folders, config, takes_python=takes_python, broken=broken)
    if broken:
        return registry
    # A file that changed while it was read may be in there under the hash of another text.
    if key is not None and key == key_of(places, config):
        keep(settings.cache, key, registry.definitions, registry.helpers)
    return registry


def _places_read(folders: Sequence[Path]) -> Iterator[Path]:
    """Every file and folder that the definitions come from, and the code that reads them."""
    for folder in (*folders, PACKAGE / "formulas" / "polars"):
        yield from (folder, folder / "functions", *(folder / schema for schema in DERIVED), folder / FILE)
    yield from (PACKAGE / "metrics", PACKAGE / "formulas", PACKAGE / "bundle" / "guarded_yaml.py")


def _read_registry(
    folders: Sequence[Path],
    config: Config,
    *,
    takes_python: bool,
    broken: dict[str, DefinitionError] | None = None,
) -> Registry:
    helpers: dict[str, Helper] = {}
    drafts: dict[str, Definition] = {}
    for folder in folders:
        for helper in _read_helpers(folder):
            helpers[helper.name] = replace(helper, is_own=folder != folders[0])
        for draft in _drafts_of(folder, broken, is_own=folder != folders[0], takes_python=takes_python):
            _check_overlay(draft, drafts)
            drafts[draft.name] = draft
    helpers = _resolve_helpers(helpers)
    if broken:
        _leave_out_readers(drafts, broken)
    drafts = with_variants(drafts, config)
    _check_keys(drafts)
    _check_datasets(config, drafts)
    ordered = {name: drafts[name] for name in _parents_first(drafts)}
    first = {text: meaning for folder in folders for text, meaning in _first_fingerprints(folder).items()}
    return Registry(_with_labels(_fingerprinted(ordered, helpers, first), config), helpers, config)


def _drafts_of(
    folder: Path, broken: dict[str, DefinitionError] | None, *, is_own: bool, takes_python: bool
) -> list[Definition]:
    found = list(_read_folder(folder, broken))
    if not is_own:
        return found + _read_shipped_python()
    _check_python(found, is_taken=takes_python)
    return [replace(draft, is_own=True) for draft in found]


def _check_python(own: Sequence[Definition], *, is_taken: bool) -> None:
    for one in own:
        if one.is_python and not is_taken:
            _refuse_python(one.path)


def _read_folder(folder: Path, broken: dict[str, DefinitionError] | None) -> Iterator[Definition]:
    for schema in DERIVED:
        for path in (*definition_files(folder / schema, ".sql"), *_python_files(folder / schema)):
            try:
                is_python = path.suffix == ".py"
                yield (
                    _read_python(path, schema)
                    if is_python
                    else _read_sql(path, schema, read_definition(path))
                )
            except DefinitionError as error:
                if broken is None:
                    raise
                broken[f"{schema}.{path.stem}"] = error


def _leave_out_readers(drafts: dict[str, Definition], broken: dict[str, DefinitionError]) -> None:
    """What reads a table that no file makes any more cannot be computed either."""
    while lost := {
        name: parent
        for name, one in drafts.items()
        for parent in one.reads
        if parent in broken and parent not in drafts
    }:
        for name, parent in lost.items():
            broken[name] = DefinitionError(f"{drafts.pop(name).path}: reads {parent}, which cannot be read")
            broken[name].__cause__ = broken[parent]


def _read_shipped_python() -> list[Definition]:
    """Formulas of metrics stand in the folder itself, the other schemas' definitions in a folder of their own."""
    folder = PACKAGE / "formulas" / "polars"
    places = {schema: folder if schema == "metrics" else folder / schema for schema in DERIVED}
    return [_read_python(path, schema) for schema, place in places.items() for path in _python_files(place)]


def _python_files(folder: Path) -> list[Path]:
    """Formula files; a module without the decorator is one that formulas import."""
    return [
        path
        for path in definition_files(folder, ".py")
        if path.name != "__init__.py" and "@formula" in read_definition(path)
    ]


@lru_cache(maxsize=512)
def _read_sql(path: Path, schema: str, text: str) -> Definition:
    """Read once per process, and again when the file has changed."""
    name = _name(path, schema)
    head, body = _split_file(text)
    header = _parse_header(head, path=path)
    _refuse_sql(body, path=path, first_line=_body_line(text))
    _refuse_applies(header, text, path=path)
    _check_parameters(header, body, path=path)
    rendered = render(body, header.parameters, path=path)
    render(header.applies or "", header.parameters, path=path)
    reads = tuple(table for table in _qualified_names(rendered, SCHEMAS) if table != name)
    if not reads:
        raise DefinitionError(f"{path}: the statement reads no table of {', '.join(sorted(SCHEMAS))}")
    calls = called_functions(rendered) | called_functions(header.applies or "")
    return Definition(name, header, body, path, reads, calls=tuple(sorted(calls)))


def _refuse_applies(header: Header, text: str, *, path: Path) -> None:
    """The condition of the header is SQL as well; its line is that of the field."""
    lines = text.splitlines()
    line = next((number for number, one in enumerate(lines, 1) if re.search(r"\bapplies\s*[:=]", one)), 1)
    _refuse_sql(" ".join((header.applies or "").split()), path=path, first_line=line)


def _name(path: Path, schema: str) -> str:
    if not NAME.match(path.stem):
        raise DefinitionError(
            f"{path}: a definition's name is lower case letters, digits and _, not {path.stem!r}"
        )
    return f"{schema}.{path.stem}"


def _check_parameters(header: Header, text: str, *, path: Path) -> None:
    texts = (text, header.applies or "", header.undefined or "", *header.keys)
    used = {name for one in texts for name in _parameter_names(one)}
    for name in header.parameters:
        if name not in used and name.removesuffix("s") not in used:
            raise DefinitionError(f"{path}: parameter {name} is declared and never used as ${name}")


def _read_python(path: Path, schema: str) -> Definition:
    name = _name(path, schema)
    declared = _declaration(path, path.stem)
    reads, taken = _tables_read(declared.pop("reads", None), path=path)
    lines = [f"- {example}" for example in declared.pop("examples", ())]
    shown = _parse_header("\n".join(["examples:", *lines]), path=path) if lines else None
    header = _header_of(declared, examples=shown.examples if shown else (), path=path)
    text = read_definition(path)
    _refuse_applies(header, text, path=path)
    calls = tuple(sorted(called_functions(header.applies or "")))
    return Definition(name, header, text, path, reads, calls=calls, is_python=True, taken=taken)


def _tables_read(reads: Any, *, path: Path) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """The tables, and beside each the columns that arrive of it where they are named."""
    is_named = isinstance(reads, dict) and all(
        isinstance(columns, list | tuple) and columns and all(isinstance(name, str) for name in columns)
        for columns in reads.values()
    )
    if not reads or not (is_named or isinstance(reads, list | tuple)):
        raise DefinitionError(
            f'{path}: @formula names the tables it reads: reads=["facts.chunk_ranks"], or each with the columns it '
            'needs: reads={"facts.chunk_ranks": ["run_key", "query_key", "first_rank"]}'
        )
    return tuple(reads), tuple(tuple(columns) for columns in reads.values()) if is_named else ()


def _read_helpers(folder: Path) -> Iterator[Helper]:
    for path in definition_files(folder / "functions", ".sql"):
        yield _read_helper(path, read_definition(path))


@lru_cache(maxsize=512)
def _read_helper(path: Path, text: str) -> Helper:
    head, body = _split_file(text)
    header = _parse_header(head, path=path)
    _refuse_sql(body, path=path, first_line=_body_line(text))
    return Helper(path.stem, header, body.strip().rstrip(";"), path, "")


def _resolve_helpers(helpers: Mapping[str, Helper]) -> dict[str, Helper]:
    """Helpers with their fingerprints, the called before the calling."""
    done: dict[str, Helper] = {}

    def resolve(name: str, path: tuple[str, ...]) -> None:
        if name in done:
            return
        if name in path:
            raise DefinitionError(
                f"{helpers[name].path}: helpers call each other in a circle: {' → '.join((*path, name))}"
            )
        helper = helpers[name]
        called = sorted(called_functions(helper.body) & set(helpers))
        for other in called:
            resolve(other, (*path, name))
        known = [(other, done[other].fingerprint) for other in called]
        done[name] = replace(helper, fingerprint=_helper_fingerprint(helper.header, helper.body, known))

    for name in sorted(helpers):
        resolve(name, ())
    return done


def _check_overlay(draft: Definition, known: Mapping[str, Definition]) -> None:
    replaced = draft.header.replaces
    if replaced and (draft.name not in known or replaced not in (draft.name, draft.short_name)):
        raise DefinitionError(
            f"{draft.path}: says `replaces: {replaced}` and is {draft.name}; a file replaces the shipped one of its "
            "own schema and name"
        )
    if draft.name in known and draft.header.replaces not in (draft.name, draft.short_name):
        raise DefinitionError(
            f"{draft.path}: {draft.name} exists already at {known[draft.name].path}; "
            f"give the file another name, or say `replaces: {draft.short_name}` in its header"
        )


def _check_keys(definitions: Mapping[str, Definition]) -> None:
    owners: dict[str, Definition] = {}
    for one in definitions.values():
        if one.schema != "metrics":
            continue
        if not one.keys:
            raise DefinitionError(f'{one.path}: a formula names its keys: `keys: {{name: "what it means"}}`')
        for key in one.keys:
            if key in owners:
                raise DefinitionError(f"{one.path}: the key {key!r} is taken by {owners[key].path}")
            owners[key] = one


def _check_datasets(config: Config, definitions: Mapping[str, Definition]) -> None:
    known = [one.short_name for one in definitions.values() if one.schema == "metrics"]
    for dataset, entry in config.datasets.items():
        place = f"{config.path}: datasets.{dataset}"
        unknown = sorted(set(entry) - set(_DATASET_FIELDS))
        if unknown:
            raise InvalidConfig(
                f"{place}: unknown field {unknown[0]!r}; there is: {', '.join(_DATASET_FIELDS)}"
            )
        _check_labels(entry, place)
        cases = entry.get("extraction_cases", 1)
        if not isinstance(cases, int) or isinstance(cases, bool) or cases < 1:
            raise InvalidConfig(
                f"{place}: extraction_cases is {cases!r}; it is how many cases every run should hold, from 1"
            )
        names = entry.get("formulas", [])
        if not isinstance(names, list):
            raise InvalidConfig(f"{place}: formulas is a list of names, not {names!r}")
        for name in names:
            if name not in known:
                raise UnknownName("formula", str(name), known, hint=f"(in {place})")


def _check_labels(entry: Mapping[str, Any], place: str) -> None:
    lowest = entry.get("relevant_from", 1)
    if not isinstance(lowest, int) or isinstance(lowest, bool) or lowest < 1:
        raise InvalidConfig(
            f"{place}: relevant_from is {lowest!r}; it is the lowest grade of what is relevant, from 1"
        )
    chunker = entry.get("labels_of", "?")
    if not isinstance(chunker, str) or not chunker.strip():
        raise InvalidConfig(
            f'{place}: labels_of is {chunker!r}; it is the chunker version whose ids the labels hold: labels_of = "v1"'
        )
    if entry.get("labels", JUDGED) not in (COMPLETE, JUDGED):
        raise InvalidConfig(
            f'{place}: labels is {entry["labels"]!r}; it is "{COMPLETE}" (what no label names is not relevant) or '
            f'"{JUDGED}" (it is unknown)'
        )


def _parents_first(drafts: Mapping[str, Definition]) -> list[str]:
    done: list[str] = []

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in done:
            return
        if name in path:
            raise DefinitionError(
                f"{drafts[name].path}: definitions read each other in a circle: {' → '.join((*path, name))}"
            )
        for parent in drafts[name].reads:
            if parent in drafts:
                visit(parent, (*path, name))
            elif parent.split(".")[0] in DERIVED and parent != ALL_FORMULAS:
                raise DefinitionError(f"{drafts[name].path}: reads {parent}, and there is no such definition")
        done.append(name)

    for schema in DERIVED:
        for name in sorted(drafts):
            if drafts[name].schema == schema:
                visit(name, ())
    return done


def _fingerprinted(
    drafts: Mapping[str, Definition],
    helpers: Mapping[str, Helper],
    first: Mapping[tuple[str, str], str],
) -> dict[str, Definition]:
    """Of a run without judgements: what is made of these alone has no rows there, and moves no fingerprint."""
    done: dict[str, Definition] = {}
    of_judgements: set[str] = set()
    for name, draft in drafts.items():
        written = _written_fingerprint(draft, helpers)
        own = first.get((name, written), written)
        if of_judgements.union(_OF_JUDGEMENTS).issuperset(draft.reads):
            of_judgements.add(name)
        absent = () if name in of_judgements else of_judgements
        read = {
            table: done[table].fingerprint for table in draft.reads if table in done and table not in absent
        }
        full = _full_fingerprint(own, read)
        done[name] = replace(draft, own_fingerprint=own, fingerprint=full, written_fingerprint=written)
    return done


def _with_labels(definitions: dict[str, Definition], config: Config) -> dict[str, Definition]:
    """What [scores] says of labels, and [suites] of judges, goes into the text.

    It moves the fingerprint of those runs alone that it is about.
    """
    for name, one in definitions.items():
        if config.suites and _chooses_judges(one):
            definitions[name] = _with_judges(one, config.judges_of_suites())
        if config.scores and one.is_scored_by_name and LABELS in one.header.parameters:
            parameters = {**one.header.parameters, LABELS: config.score_labels()}
            definitions[name] = replace(one, header=replace(one.header, parameters=parameters))
    return definitions


def reading_with_labels(registry: Registry, one: Definition, names: Collection[str]) -> Definition:
    """The definition with the labels of these scores alone, under the fingerprint that it has then."""
    if not names:
        return one
    parameters = {**one.header.parameters, LABELS: registry.config.score_labels(names)}
    draft = replace(one, header=replace(one.header, parameters=parameters))
    own = _written_fingerprint(draft, registry.helpers)
    read = {
        name: registry.definitions[name].fingerprint for name in one.reads if name in registry.definitions
    }
    return replace(
        draft, own_fingerprint=own, fingerprint=_full_fingerprint(own, read), written_fingerprint=own
    )


def check_stored(registry: Registry, stored: Definition, helpers: Sequence[Helper]) -> None:
    """Raise if a definition from a store is not allowed to run: it has to pass the checks for files.

    A body in Python also has to be the text of a shipped file or of a file of this project. A store is data, and other
    people may have written it.
    """
    path = stored.path
    tables = [table.rpartition(".") for table in stored.reads]
    names = [name for _, _, name in tables]
    names += [name for helper in helpers for name in (helper.name, *helper.header.arguments)]
    names += [path.name] if stored.is_python else []
    if unknown := [schema for schema, _, _ in tables if schema not in SCHEMAS]:
        raise DefinitionError(f"{path}: the store names the schema {unknown[0]!r}, which does not exist")
    if invalid := [name for name in names if not NAME.match(name)]:
        raise DefinitionError(f"{path}: the store contains the invalid name {invalid[0]!r}")
    for text in (stored.header.applies or "", *(helper.body for helper in helpers)):
        _refuse_sql(text, path=path)
    if not stored.is_python:
        _refuse_sql(stored.body, path=path)
    elif stored.body not in {other.body for other in registry if other.is_python}:
        raise RefusedError(
            f"{stored.name} cannot be computed as {stored.fingerprint}: its text in Python is only in the store, and "
            "Python from a store is not run. Use a formula folder that contains the file with this text."
        )


def _chooses_judges(one: Definition) -> bool:
    return JUDGEMENTS in one.reads and JUDGES in one.header.parameters


def _with_judges(one: Definition, judges: str) -> Definition:
    return replace(one, header=replace(one.header, parameters={**one.header.parameters, JUDGES: judges}))


def reading_of_judgements(
    registry: Registry, suite: str | None, judges: Sequence[str]
) -> dict[str, Definition]:
    """What definitions mean for a run of this suite with judgements of these judges, by name.

    `judges` are those among whom the configuration chooses, in its order. Definitions that judgements are no part of
    are not there.
    """
    found: dict[str, Definition] = {}
    for one in registry:
        if not registry.rests_on_judgements(one) or ALL_FORMULAS in one.reads:
            continue
        own = one.own_fingerprint
        if judges and _chooses_judges(one):
            one = _with_judges(one, registry.config.judges_of_suites(suite, judges))
            own = _written_fingerprint(one, registry.helpers)
        read = {
            name: found.get(name, registry.definitions[name]).fingerprint
            for name in one.reads
            if name in registry.definitions
        }
        full = _full_fingerprint(own, read)
        found[one.name] = replace(one, own_fingerprint=own, fingerprint=full)
    return found


def _written_fingerprint(draft: Definition, helpers: Mapping[str, Helper]) -> str:
    body = canonical(draft.body)
    if draft.is_python:
        body = f"reads {' '.join(_as_declared(draft))}\n{canonical_source(draft.path, draft.path.stem)}"
    called = [(helper, helpers[helper].fingerprint) for helper in draft.calls if helper in helpers]
    return own_fingerprint(draft.header, body, called)


def _as_declared(draft: Definition) -> list[str]:
    """Table by table, each with its columns where they are named."""
    if not draft.taken:
        return list(draft.reads)
    return [f"{table}({','.join(columns)})" for table, columns in zip(draft.reads, draft.taken, strict=True)]


def with_other_text(registry: Registry, one: Definition, file: Path, folder: Path) -> Definition:
    """The definition as another file has it, in SQL or in Python; its text goes to `folder`."""
    place = folder / one.schema
    shutil.copytree(one.path.parent, place)
    suffix = file.suffix if file.suffix in (".py", ".sql") else one.path.suffix
    path = place / f"{one.short_name}{suffix}"
    path.write_text(read_definition(file), "utf-8")
    draft = (
        _read_python(path, one.schema)
        if suffix == ".py"
        else _read_sql(path, one.schema, read_definition(path))
    )
    written = _written_fingerprint(draft, registry.helpers)
    return replace(draft, own_fingerprint=written, written_fingerprint=written)
