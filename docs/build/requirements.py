"""The page of requirements: every statement that was asked for, from docs/build/requirements.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from docs.build.pages import NOTICE, SCHEMAS, anchor_of, table_lines
from eval_pipeline.formulas.definition import Definition
from eval_pipeline.formulas.registry import Registry

INTRODUCTION = (
    "The product brings together four systems that were described apart from each other, and was to be made in a "
    "certain way. This page goes through all of it, statement by statement and in brief: what is asked, where the "
    "product has it, how what was left open was decided, and which test fails when it is not so. A test is named by "
    "its sentence; the link leads to its file."
)


@dataclass(frozen=True, kw_only=True)
class Statement:
    """One thing that is asked for, and where it is."""

    id: str
    says: str
    where: Mapping[str, Sequence[str]]
    test: Sequence[str]
    decision: Sequence[str] = field(default_factory=tuple)
    not_yet: str = ""


@dataclass(frozen=True, kw_only=True)
class System:
    """What is described together; its statements begin with its letter."""

    letter: str
    title: str
    about: str


def read_requirements(root: Path) -> tuple[list[System], list[Statement]]:
    """The systems and all their statements, as they are written down."""
    document = tomllib.loads((root / "docs/build/requirements.toml").read_text("utf-8"))
    return (
        [System(**one) for one in document["system"]],
        [Statement(**one) for one in document["statement"]],
    )


def requirements_page(registry: Registry, root: Path) -> str:
    """One table per system; what the product does not do is counted at the top."""
    systems, statements = read_requirements(root)
    places = Places(registry, root)
    lines = ["# Requirements", "", INTRODUCTION, "", *_count_lines(systems, statements)]
    for system in systems:
        lines += ["", f"## {system.title}", "", system.about, ""]
        rows = (_row(one, places) for one in statements if one.id.startswith(system.letter))
        lines += table_lines(["id", "what is asked", "where", "decided", "test"], rows)
    return NOTICE + "\n".join(lines) + "\n"


def _count_lines(systems: Sequence[System], statements: Sequence[Statement]) -> Iterator[str]:
    open_ones = [one for one in statements if one.not_yet]
    links = ", ".join(f"[{one.id}](#{one.id.lower()})" for one in open_ones)
    yield (
        f"{len(statements)} statements. Of {len(open_ones)} the row says plainly **not yet**, "
        f"and what there is instead: {links}."
    )
    yield ""
    rows = []
    for system in systems:
        own = [one for one in statements if one.id.startswith(system.letter)]
        link = f"[{system.title}](#{system.title.lower().replace(' ', '-')})"
        rows.append((link, str(len(own)), str(sum(bool(one.not_yet) for one in own))))
    yield from table_lines(["", "statements", "not yet"], rows)


def _row(one: Statement, places: Places) -> Sequence[str]:
    says = f"{one.says}. **Not yet.** {one.not_yet}" if one.not_yet else one.says
    return (
        f'<a id="{one.id.lower()}"></a>{one.id}',
        says,
        ", ".join(places.written(one.where)),
        ", ".join(places.decision(decision) for decision in one.decision),
        "<br>".join(_test_link(test) for test in one.test),
    )


def _test_link(test: str) -> str:
    path, _, name = test.partition("::")
    return f"[{name.removeprefix('test_').replace('_', ' ')}](../{path})"


class Places:
    """How the places of a statement are written, each with a link to where it is described."""

    def __init__(self, registry: Registry, root: Path) -> None:
        self.root = root
        self.definitions = {one.name: one for one in registry}
        self.short_names = {one.short_name: one for one in registry}
        self.keys = {key: one for one in registry if one.schema == "metrics" for key in one.keys}

    def written(self, where: Mapping[str, Iterable[str]]) -> Iterator[str]:
        writers = {
            "key": self._key,
            "parameter": self._parameter,
            "table": self._table,
            "command": _command,
            "field": _field,
            "document": _document,
            "file": _file,
            "function": "`{}`".format,
        }
        for kind, names in where.items():
            write = writers.get(kind, f"{kind} `{{}}`".format)
            yield from (write(name) for name in names)

    def decision(self, name: str) -> str:
        if not name.startswith("ADR "):
            return f"[{name}](decisions.md#{name.lower().replace('.', '-')})"
        (path,) = (self.root / "docs/adr").glob(f"{int(name.removeprefix('ADR ')):04}-*.md")
        return f"[{name}](adr/{path.name})"

    def _key(self, name: str) -> str:
        return f"key {_link(f'`{name}`', _definition_place(self.keys[name]))}"

    def _parameter(self, name: str) -> str:
        formula, _, parameter = name.partition(".")
        return _link(f"`{parameter}`", _definition_place(self.short_names[formula])) + f" of {formula}"

    def _table(self, name: str) -> str:
        schema, _, rest = name.partition(".")
        table = rest.partition(".")[0]
        if f"{schema}.{table}" in self.definitions:
            return _link(f"`{name}`", _definition_place(self.definitions[f"{schema}.{table}"]))
        return _link(f"`{name}`", f"reference/tables.md#{schema}{table if schema in SCHEMAS else ''}")


def _link(text: str, place: str) -> str:
    return f"[{text}]({place})"


def _definition_place(one: Definition) -> str:
    return f"reference/metrics.md#{anchor_of(one)}"


def _command(name: str) -> str:
    words = [word for word in name.split() if not word.startswith("-")]
    # The commands of `kb` stand once, under the name that `eval-pipeline` has for them.
    heading = words if words[0] == "eval-pipeline" else words[:2]
    return _link(f"`{name}`", f"reference/commands.md#{'-'.join(heading)}")


def _field(name: str) -> str:
    record, _, attribute = name.partition(".")
    return _link(f"`{attribute}`", f"bundle.md#{record.lower()}") + f" of {record}"


def _document(name: str) -> str:
    file, _, key = name.partition(" ")
    return f"`{key}` in {file}"


def _file(name: str) -> str:
    place = name.removeprefix("docs/") if name.startswith("docs/") else f"../{name}"
    return _link(name, place)
