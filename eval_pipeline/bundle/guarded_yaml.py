"""YAML that may mean harm, of golden sets and headers: read, or refused in milliseconds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from eval_pipeline.errors import InputRejected

if TYPE_CHECKING:
    import yaml

MOST_ALIASES = 1000
MOST_VALUES = 5_000_000
DEEPEST = 100
LONGEST_NUMBER = 100
TOO_DEEP = "nested too deeply to be read"
_TAG = "tag:yaml.org,2002:"
# What YAML's own constructors of single values raise for a text that is none of theirs.
_NO_VALUE = (ValueError, OverflowError, KeyError, IndexError, AttributeError, TypeError)


class Document:
    """One document whose structure is known to be harmless; values are made of its nodes one by one."""

    def __init__(self, data: bytes | str) -> None:
        with _refusing():
            self._loader = _loader_class()(data)
            _check_structure(data, type(self._loader))
            self.root: yaml.Node | None = self._loader.get_single_node()

    def check_size(self, nodes: Iterable[yaml.Node], *, most_values: int = MOST_VALUES) -> None:
        """Refuse aliases that contain themselves or multiply into more values than anybody could have meant."""
        sizes: dict[int, int | None] = {}
        total = 0
        with _refusing():
            for node in nodes:
                total += _size(node, sizes)
                if total > most_values:
                    raise InputRejected(
                        f"YAML aliases multiply into more than {most_values:,} values: write the rows out"
                    )

    def value(self, node: yaml.Node) -> Any:
        """What the node holds."""
        loader = self._loader
        try:
            with _refusing():
                return loader.construct_document(node)
        except InputRejected:
            # What was half built must not be taken for a part of the next value.
            loader.constructed_objects, loader.recursive_objects, loader.state_generators = {}, {}, []
            loader.deep_construct = False
            raise


@contextmanager
def _refusing() -> Iterator[None]:
    """Whatever the parser says against a text, as a refusal with its line."""
    import yaml

    try:
        yield
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        reason = " ".join(str(error).split())
        raise InputRejected(f"not YAML: {reason}", line=mark.line + 1 if mark else None) from error
    except UnicodeDecodeError as error:
        raise InputRejected(f"cannot be read as YAML: {error}") from error
    except RecursionError as error:
        raise InputRejected(TOO_DEEP) from error


@lru_cache(maxsize=1)
def _loader_class() -> type[Any]:
    """YAML's safe loader, in C where there is one, whose single values are refused and never fail otherwise."""
    import yaml

    base = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    found: type[Any] = type("GuardedLoader", (base,), {})
    for name in ("bool", "int", "float", "timestamp", "binary"):
        construct = base.yaml_constructors[_TAG + name]
        found.add_constructor(_TAG + name, _refusing_texts(name, construct))
    return found


def _refusing_texts(name: str, construct: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    import yaml

    def guarded(loader: Any, node: Any) -> Any:
        text = str(node.value)[: LONGEST_NUMBER + 1]
        try:
            if name in ("int", "float") and len(text) > LONGEST_NUMBER:
                raise ValueError
            return construct(loader, node)
        except _NO_VALUE as error:
            problem = f"{text[:40]!r} is no {name}; put it in quotes"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark) from error

    return guarded


def _check_structure(data: bytes | str, loader_class: Any) -> None:
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
            raise InputRejected(TOO_DEEP, line=_line_of(event))
        if aliases > MOST_ALIASES:
            raise InputRejected(f"more than {MOST_ALIASES} YAML aliases: write the rows out")


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
    size = 1 + sum(_size(child, sizes) for child in _children(node))
    sizes[id(node)] = size
    return size


def _children(node: yaml.Node) -> Sequence[yaml.Node]:
    import yaml

    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _line_of(node: yaml.Node | yaml.Event) -> int:
    """Counted from 1."""
    return node.start_mark.line + 1 if node.start_mark else 1


def read_mapping_once(text: str, *, most_values: int) -> Any:
    """The one value of a text; a name given twice in a mapping is refused."""
    document = Document(text)
    if document.root is None:
        return None
    document.check_size([document.root], most_values=most_values)
    _refuse_repeated_names(document.root)
    return document.value(document.root)


def _refuse_repeated_names(root: yaml.Node) -> None:
    import yaml

    waiting, seen = [root], set[int]()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            names: set[str] = set()
            for key, _ in node.value:
                if isinstance(key, yaml.ScalarNode):
                    if key.value in names:
                        raise InputRejected(f"not YAML: {key.value!r} is given twice", line=_line_of(key))
                    names.add(key.value)
        waiting += _children(node)
