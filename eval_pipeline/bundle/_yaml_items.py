"""The items of a YAML list, each with its line and its text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eval_pipeline.bundle.files import open_unpacked
from eval_pipeline.bundle.guarded_yaml import Document, _line_of
from eval_pipeline.errors import InputRejected

if TYPE_CHECKING:
    import yaml


@dataclass(frozen=True)
class YamlItem:
    """One item of the list, or why it is none."""

    line: int
    text: str
    value: Any = None
    reason: str | None = None


def yaml_items(path: Path) -> Iterator[YamlItem]:
    """The items of the list (or of the list under the key `queries`), in order."""
    with open_unpacked(path) as stream:
        data = stream.read()
    document = Document(data)
    nodes = _list_of(document.root)
    if b"*" in data:
        document.check_size(nodes)
    lines = data.decode("utf-8", errors="replace").splitlines()
    shared = _shared_fields(document)
    for node in nodes:
        item = _item(document, node, lines)
        if isinstance(item.value, dict):
            item = replace(item, value=shared | item.value)
        yield item


def _shared_fields(document: Document) -> dict[str, Any]:
    """Return the fields beside `queries` that apply to every row."""
    import yaml

    root = document.root
    pairs = root.value if isinstance(root, yaml.MappingNode) else []
    return {key.value: document.value(value) for key, value in pairs if key.value == "chunker_version"}


def _list_of(node: yaml.Node | None) -> list[yaml.Node]:
    import yaml

    if isinstance(node, yaml.MappingNode):
        node = next((value for key, value in node.value if key.value == "queries"), node)
    if node is None:
        return []
    if not isinstance(node, yaml.SequenceNode):
        raise InputRejected("a golden set is a list of rows (or a mapping with the key `queries`)")
    return list(node.value)


def _item(document: Document, node: yaml.Node, lines: list[str]) -> YamlItem:
    first, last = _line_of(node) - 1, node.end_mark.line + (node.end_mark.column > 0)
    text = "\n".join(lines[first : max(last, first + 1)]).rstrip()
    try:
        return YamlItem(first + 1, text, document.value(node))
    except InputRejected as refused:
        return YamlItem(first + 1, text, reason=refused.reason)
