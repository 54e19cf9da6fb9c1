"""The items of a YAML list, each with its line and its text, from a file that may mean harm."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eval_pipeline.bundle.files import open_unpacked
from eval_pipeline.errors import InputRejected

if TYPE_CHECKING:
    import yaml

MOST_ALIASES = 1000
MOST_VALUES = 5_000_000
DEEPEST = 100


@dataclass(frozen=True)
class YamlItem:
    """One item of the list, or why it is none."""

    line: int
    text: str
    value: Any = None
    reason: str | None = None


def yaml_items(path: Path) -> Iterator[YamlItem]:
    """The items of the list (or of the list under the key `queries`), in order."""
    import yaml

    with open_unpacked(path) as stream:
        data = stream.read()
    try:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(data)
        _check_structure(data, type(loader))
        nodes = _list_of(loader.get_single_node())
        if b"*" in data:
            _check_size(nodes)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        reason = " ".join(str(error).split())
        raise InputRejected(f"not YAML: {reason}", line=mark.line + 1 if mark else None) from error
    except UnicodeDecodeError as error:
        raise InputRejected(f"cannot be read as YAML: {error}") from error
    lines = data.decode("utf-8", errors="replace").splitlines()
    for node in nodes:
        yield _item(loader, node, lines)


def _list_of(node: yaml.Node | None) -> list[yaml.Node]:
    import yaml

    if isinstance(node, yaml.MappingNode):
        node = next((value for key, value in node.value if key.value == "queries"), node)
    if node is None:
        return []
    if not isinstance(node, yaml.SequenceNode):
        raise InputRejected("a golden set is a list of rows (or a mapping with the key `queries`)")
    return list(node.value)


def _item(loader: Any, node: yaml.Node, lines: list[str]) -> YamlItem:
    import yaml

    first, last = _line_of(node) - 1, node.end_mark.line + (node.end_mark.column > 0)
    text = "\n".join(lines[first : max(last, first + 1)]).rstrip()
    try:
        return YamlItem(first + 1, text, loader.construct_document(node))
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        # What was half built must not be taken for a part of the next item.
        loader.constructed_objects, loader.recursive_objects, loader.state_generators = {}, {}, []
        loader.deep_construct = False
        return YamlItem(first + 1, text, reason=f"not YAML: {' '.join(str(error).split())}")


def _check_structure(data: bytes, loader_class: Any) -> None:
    """Refuse what would overflow the stack of everything that comes after the events."""
    import yaml

    depth = aliases = 0
    for event in yaml.parse(data, loader_class):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        aliases += isinstance(event, yaml.AliasEvent)
        if depth > DEEPEST:
            raise InputRejected("nested too deeply to be read")
        if aliases > MOST_ALIASES:
            raise InputRejected(f"more than {MOST_ALIASES} YAML aliases: write the rows out")


def _check_size(nodes: list[yaml.Node]) -> None:
    """Refuse aliases that contain themselves or multiply into more values than a golden set could have."""
    sizes: dict[int, int | None] = {}
    total = 0
    for node in nodes:
        total += _size(node, sizes)
        if total > MOST_VALUES:
            raise InputRejected(
                f"YAML aliases multiply into more than {MOST_VALUES:,} values: write the rows out"
            )


def _line_of(node: yaml.Node) -> int:
    """Counted from 1."""
    return int(node.start_mark.line) + 1


def _size(node: yaml.Node, sizes: dict[int, int | None]) -> int:
    import yaml

    if isinstance(node, yaml.ScalarNode):
        return 1
    if id(node) in sizes:
        known = sizes[id(node)]
        if known is None:
            raise InputRejected("a YAML alias contains itself", line=_line_of(node))
        return known
    sizes[id(node)] = None
    children = node.value
    if isinstance(node, yaml.MappingNode):
        children = [part for pair in node.value for part in pair]
    size = 1 + sum(_size(child, sizes) for child in children)
    sizes[id(node)] = size
    return size
