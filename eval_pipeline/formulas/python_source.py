"""The meaning of a formula in Python: its source and all that it names in its own folder."""

# A formula may import the standard library, Polars, modules of its own folder and the product's own metric functions
# (`eval_pipeline.metrics`), whose source is part of its meaning. Whatever else could change what it computes without
# changing its source is refused, with the line.

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, wraps
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from eval_pipeline.errors import DefinitionError
from eval_pipeline.formulas._definition_text import read_definition
from eval_pipeline.formulas._python_tokens import ModuleText, canonical_statement, cut_into_tokens
from eval_pipeline.settings import PACKAGE, PYTHON, REFUSE, refuses_python, shipped_sql

FORBIDDEN_CALLS = frozenset(
    [
        "eval",
        "exec",
        "compile",
        "globals",
        "locals",
        "vars",
        "getattr",
        "setattr",
        "delattr",
        "__import__",
        "__builtins__",
        "open",
        "input",
        "breakpoint",
    ]
)
# The parts of the standard library whose results depend on nothing but what they are given.
COMPUTING_MODULES = frozenset(
    [
        *("__future__", "abc", "collections", "contextlib", "copy", "dataclasses", "enum", "types", "typing"),
        *("bisect", "functools", "heapq", "itertools", "operator"),
        *("cmath", "decimal", "fractions", "math", "numbers", "statistics"),
        *("base64", "binascii", "datetime", "difflib", "hashlib", "html", "json", "re", "string", "struct"),
        *("textwrap", "unicodedata", "warnings", "zlib"),
    ]
)
FOLLOWED = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign)
# What a frame is made of stands in `reads`; files would change the result behind the fingerprint's back.
FILE_METHODS = ("read_", "scan_", "sink_", "write_")
DECLARING = "eval_pipeline.formulas.decorator"
DECORATOR = "formula"
SHARED = "eval_pipeline.metrics"


@dataclass(frozen=True)
class _Source:
    path: Path
    text: str
    tree: ast.Module
    meanings: dict[ast.stmt, tuple[str, list[str], list[tuple[str, str]]]] = field(default_factory=dict)

    @cached_property
    def definitions(self) -> dict[str, list[ast.stmt]]:
        """Module-level names and the statements that bind them, in order."""
        found: dict[str, list[ast.stmt]] = {}
        for statement in self.tree.body:
            for name in _bound_names(statement):
                found.setdefault(name, []).append(statement)
        return found

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """The whole tree."""
        return list(ast.walk(self.tree))

    @cached_property
    def imports(self) -> list[ast.Import | ast.ImportFrom]:
        """Every import, also those inside a function."""
        return [node for node in self.nodes if isinstance(node, ast.Import | ast.ImportFrom)]

    @cached_property
    def module(self) -> ModuleText:
        """The text cut into tokens."""
        return cut_into_tokens(self.text)

    def meaning_of(self, statement: ast.stmt) -> tuple[str, list[str], list[tuple[str, str]]]:
        """The statement's own text, the names in it, and the attributes of names; looked for once."""
        if statement not in self.meanings:
            nodes = list(ast.walk(statement))
            text = canonical_statement(self.module, statement, nodes, declaring=DECORATOR)
            names = {node.id for node in nodes if isinstance(node, ast.Name)}
            attributes = {
                (node.value.id, node.attr)
                for node in nodes
                if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
            }
            self.meanings[statement] = text, sorted(names), sorted(attributes)
        return self.meanings[statement]


@dataclass(frozen=True)
class _Following:
    """The files read while a meaning is followed, and the names followed so far."""

    sources: dict[Path, _Source] = field(default_factory=dict)
    seen: set[tuple[Path, str]] = field(default_factory=set)

    def read(self, path: Path) -> _Source:
        """Each file once."""
        if path not in self.sources:
            self.sources[path] = _read(path)
        return self.sources[path]


def _bound_names(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return [statement.name]
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    if isinstance(statement, ast.AnnAssign):
        targets = [statement.target]
    return [node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]


def canonical_source(path: Path, function: str) -> str:
    """The function and everything it names in its folder, without comments, docstrings and decorators."""
    following = _Following()
    return "\n".join(_collect(following, following.read(path), function))


def _declaration(path: Path, function: str) -> dict[str, Any]:
    """What @formula(...) says, read without running the file."""
    statement = _read(path).definitions.get(function, [None])[-1]
    if isinstance(statement, ast.FunctionDef):
        for call in statement.decorator_list:
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == DECORATOR:
                return {str(keyword.arg): _literal(keyword, path) for keyword in call.keywords}
    raise DefinitionError(f"{path}: expected a function {function} with the decorator @formula(...)")


def _literal(keyword: ast.keyword, path: Path) -> Any:
    try:
        return ast.literal_eval(keyword.value)
    except ValueError as error:
        raise DefinitionError(
            f"{path}:{keyword.value.lineno}: {keyword.arg} is written out as a literal, so that it can be read "
            "without running the file"
        ) from error


def load_function(path: Path, source: str) -> Callable[..., Any]:
    """The function of this source, which is that of the file, or was once."""
    if refuses_python() and not _is_shipped(path.name, source):
        _refuse_python(path)
    module = ModuleType(f"eval_pipeline_formula_{path.stem}")
    module.__file__ = str(path)
    try:
        with _own_modules(path.parent):
            exec(compile(source, str(path), "exec", dont_inherit=True), module.__dict__)
    except Exception as error:
        raise DefinitionError(f"{path}: cannot be imported: {error}") from error
    found: Callable[..., Any] = getattr(module, path.stem)

    @wraps(found)
    def call(*frames: Any, **parameters: Any) -> Any:
        with _own_modules(path.parent):
            return found(*frames, **parameters)

    return call


def _is_shipped(name: str, source: str) -> bool:
    """Whether these very lines came with the product, wherever they are said to stand."""
    places = (PACKAGE / "formulas" / "polars", shipped_sql())
    name = f"{name.removesuffix('.py')}.py"
    return any(read_definition(file) == source for place in places for file in place.rglob(name))


def _refuse_python(path: Path) -> NoReturn:
    raise DefinitionError(
        f"{path}: a formula in Python is code that runs with your rights, and {PYTHON}={REFUSE} lets none run that did "
        "not come with eval-pipeline: write it in SQL, or unset the variable where you trust whoever wrote it"
    )


@contextmanager
def _own_modules(folder: Path) -> Iterator[None]:
    """Let a formula import modules of its folder, and forget them afterwards, so that the next import sees an edit."""
    writes_bytecode = sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.dont_write_bytecode = writes_bytecode
        sys.path.remove(str(folder))
        for path in folder.glob("*.py"):
            if getattr(sys.modules.get(path.stem), "__file__", None) == str(path):
                del sys.modules[path.stem]


def _read(path: Path) -> _Source:
    try:
        source = _parsed(path, read_definition(path))
    except SyntaxError as error:
        raise DefinitionError(f"{path}:{error.lineno}: not Python: {error.msg}") from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise DefinitionError(f"{path}: not Python: {error or 'nested too deeply'}") from error
    _check_imports(source)
    if not path.is_relative_to(_shared_folder()):
        _check_module_level(source)
        _check_calls(source)
    return source


@lru_cache(maxsize=128)
def _parsed(path: Path, text: str) -> _Source:
    """Several formulas name the same files, and every command reads them."""
    return _Source(path, text, ast.parse(text))


def _shared_folder() -> Path:
    return PACKAGE.parent.joinpath(*SHARED.split("."))


def _check_imports(source: _Source) -> None:
    for node in source.imports:
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
            _check_followed(source, node)
        else:
            names = [node.module or ""]
            _check_named(source, node)
        for name in names:
            _check_module(source, name, line=node.lineno)


def _check_followed(source: _Source, node: ast.Import) -> None:
    for alias in node.names:
        if _is_shared(alias.name) and alias.asname is None:
            raise DefinitionError(
                f"{source.path}:{node.lineno}: write `from {alias.name} import NAME`, so that what is called can be "
                "followed into the fingerprint"
            )


def _check_named(source: _Source, node: ast.ImportFrom) -> None:
    is_outside = not source.path.is_relative_to(_shared_folder())
    if is_outside and (node.level or any(alias.name == "*" for alias in node.names)):
        raise DefinitionError(
            f"{source.path}:{node.lineno}: write `from {node.module or 'MODULE'} import NAME`, without a dot before "
            "the module and with every name, so that what is called can be followed into the fingerprint"
        )


def _is_shared(module: str) -> bool:
    return module == SHARED or module.startswith(f"{SHARED}.")


def _check_module(source: _Source, name: str, *, line: int) -> None:
    root = name.split(".")[0]
    if name == DECLARING or root == "polars" or _is_shared(name):
        return
    if (source.path.parent / f"{name.rsplit('.', 1)[-1]}.py").is_file():
        return
    if root not in COMPUTING_MODULES:
        raise DefinitionError(
            f"{source.path}:{line}: a formula may import Polars, modules of its own folder, {SHARED} and the parts of "
            f"the standard library that only compute; not {name}"
        )


def _check_module_level(source: _Source) -> None:
    """Only statements whose effect is the names they bind can be followed."""
    for statement in source.tree.body:
        is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        is_inside = any(
            isinstance(node, ast.Subscript | ast.Attribute) for one in targets for node in ast.walk(one)
        )
        if not is_text and (is_inside or not isinstance(statement, FOLLOWED)):
            raise DefinitionError(
                f"{source.path}:{statement.lineno}: at the top of a formula file stand imports, functions, classes and "
                "constants; put anything else into a function"
            )


def _check_calls(source: _Source) -> None:
    for node in source.nodes:
        name = None
        if isinstance(node, ast.Name) and node.id in FORBIDDEN_CALLS:
            name = node.id
        elif isinstance(node, ast.Attribute) and node.attr.startswith(FILE_METHODS):
            name = node.attr
        if name and isinstance(node, ast.expr):
            raise DefinitionError(
                f"{source.path}:{node.lineno}: {name} cannot be followed, so its meaning has no fingerprint; "
                "name what is called"
            )


def _collect(following: _Following, source: _Source, name: str) -> list[str]:
    if (source.path, name) in following.seen:
        return []
    following.seen.add((source.path, name))
    if name not in source.definitions:
        return _collect_imported(following, source, name)
    pieces: list[str] = []
    for statement in source.definitions[name]:
        pieces += _meaning_of(following, source, statement)
    return pieces


def _meaning_of(following: _Following, source: _Source, statement: ast.stmt) -> list[str]:
    """The statement, and everything it names."""
    text, names, attributes = source.meaning_of(statement)
    pieces = [text]
    for used in names:
        if used in source.definitions:
            pieces += _collect(following, source, used)
        else:
            pieces += _collect_imported(following, source, used)
    for module, attribute in attributes:
        pieces += _collect_imported(following, source, module, attribute=attribute)
    return pieces


def _collect_imported(
    following: _Following, source: _Source, used: str, *, attribute: str | None = None
) -> list[str]:
    """Follow a name into another module of the folder, or into the product's metric functions."""
    for node in source.imports:
        for alias in node.names:
            if (alias.asname or alias.name) != used:
                continue
            if isinstance(node, ast.ImportFrom):
                inside = _imported_module(following, source, node.module or "")
                if inside:
                    return _collect(following, inside, alias.name)
            whole = _imported_module(following, source, alias.name) if attribute else None
            if whole and attribute:
                return _collect(following, whole, attribute)
    return []


def _imported_module(following: _Following, source: _Source, module: str) -> _Source | None:
    if _is_shared(module):
        place = PACKAGE.parent.joinpath(*module.split("."))
        return following.read(
            place / "__init__.py" if place.is_dir() else place.with_name(f"{place.name}.py")
        )
    path = source.path.parent / f"{module.rsplit('.', 1)[-1]}.py"
    return following.read(path) if module and path.is_file() else None
