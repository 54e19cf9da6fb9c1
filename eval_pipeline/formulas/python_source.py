"""The meaning of a formula written in Python: its source and that of everything it names in its own folder.

A formula may import the standard library, Polars and modules of its own folder. Whatever else could change what it
computes without changing its source is refused, with the line.
"""

from __future__ import annotations

import ast
import importlib.util
import io
import sys
import tokenize
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval_pipeline.errors import DefinitionError

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
        "__import__",
        "open",
        "input",
        "breakpoint",
    ]
)
FORBIDDEN_MODULES = frozenset(
    ["importlib", "os", "sys", "subprocess", "socket", "random", "time", "urllib", "http", "ctypes", "pickle"]
)
DECLARING = "eval_pipeline.formulas.decorator"


@dataclass(frozen=True)
class _Source:
    path: Path
    text: str
    tree: ast.Module

    def definitions(self) -> dict[str, ast.stmt]:
        """Module-level names and the statements that bind them."""
        found: dict[str, ast.stmt] = {}
        for statement in self.tree.body:
            if isinstance(statement, ast.FunctionDef | ast.ClassDef):
                found[statement.name] = statement
            elif isinstance(statement, ast.Assign):
                for target in statement.targets:
                    if isinstance(target, ast.Name):
                        found[target.id] = statement
            elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                found[statement.target.id] = statement
        return found


def canonical_source(path: Path, function: str) -> str:
    """The function and everything it names in its folder, without comments, docstrings and decorators."""
    return "\n".join(_collect(_read(path), function, seen=set()))


def declaration(path: Path, function: str) -> dict[str, Any]:
    """What @formula(...) says, read without running the file."""
    statement = _read(path).definitions().get(function)
    if isinstance(statement, ast.FunctionDef):
        for call in statement.decorator_list:
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "formula":
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


def load_function(path: Path, function: str) -> Callable[..., Any]:
    """Import the file and give out its function."""
    spec = importlib.util.spec_from_file_location(f"eval_pipeline_formula_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise DefinitionError(f"{path}: cannot be imported")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise DefinitionError(f"{path}: cannot be imported: {error}") from error
    found: Callable[..., Any] = getattr(module, function)
    return found


def _read(path: Path) -> _Source:
    text = path.read_text("utf-8")
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise DefinitionError(f"{path}:{error.lineno}: not Python: {error.msg}") from error
    source = _Source(path, text, tree)
    _check_imports(source)
    _check_calls(source)
    return source


def _check_imports(source: _Source) -> None:
    for node in ast.walk(source.tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        for name in names:
            _check_module(source, name, line=getattr(node, "lineno", 0))


def _check_module(source: _Source, name: str, *, line: int) -> None:
    root = name.split(".")[0]
    if name == DECLARING or root == "polars":
        return
    if (source.path.parent / f"{name.rsplit('.', 1)[-1]}.py").is_file():
        return
    if root not in sys.stdlib_module_names or root in FORBIDDEN_MODULES:
        raise DefinitionError(
            f"{source.path}:{line}: a formula may import Polars, modules of its own folder and the parts of the "
            f"standard library that only compute; not {name}"
        )


def _check_calls(source: _Source) -> None:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Name) and node.id in FORBIDDEN_CALLS:
            raise DefinitionError(
                f"{source.path}:{node.lineno}: {node.id} cannot be followed, so its meaning has no fingerprint; "
                "name what is called"
            )


def _collect(source: _Source, name: str, *, seen: set[tuple[Path, str]]) -> list[str]:
    if (source.path, name) in seen:
        return []
    seen.add((source.path, name))
    definitions = source.definitions()
    if name not in definitions:
        return []
    statement = definitions[name]
    pieces = [_canonical_statement(source, statement)]
    for used in sorted({node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}):
        if used in definitions:
            pieces += _collect(source, used, seen=seen)
        else:
            pieces += _collect_imported(source, used, seen=seen)
    for module, attribute in sorted(_module_attributes(statement)):
        pieces += _collect_imported(source, module, attribute=attribute, seen=seen)
    return pieces


def _module_attributes(statement: ast.stmt) -> set[tuple[str, str]]:
    return {
        (node.value.id, node.attr)
        for node in ast.walk(statement)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    }


def _collect_imported(
    source: _Source, used: str, *, seen: set[tuple[Path, str]], attribute: str | None = None
) -> list[str]:
    """Follow a name into another module of the folder."""
    for node in source.tree.body:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if (alias.asname or alias.name) != used:
                    continue
                module = (node.module or "").rsplit(".", 1)[-1]
                inside = _neighbour(source, module)
                if inside:
                    return _collect(inside, alias.name, seen=seen)
                whole = _neighbour(source, alias.name)
                if whole and attribute:
                    return _collect(whole, attribute, seen=seen)
        elif isinstance(node, ast.Import) and attribute:
            for alias in node.names:
                if (alias.asname or alias.name) == used:
                    whole = _neighbour(source, alias.name.rsplit(".", 1)[-1])
                    if whole:
                        return _collect(whole, attribute, seen=seen)
    return []


def _neighbour(source: _Source, module: str) -> _Source | None:
    path = source.path.parent / f"{module}.py"
    return _read(path) if module and path.is_file() else None


def _canonical_statement(source: _Source, statement: ast.stmt) -> str:
    """Tokens of the statement without comments, docstrings, layout and decorators."""
    skipped = _docstring_lines(statement)
    lines = source.text.splitlines(keepends=True)[statement.lineno - 1 : statement.end_lineno]
    kept = ["\n" if statement.lineno + number in skipped else line for number, line in enumerate(lines)]
    dropped = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.ENDMARKER}
    blocks = {tokenize.INDENT: "{", tokenize.DEDENT: "}"}
    tokens = tokenize.generate_tokens(io.StringIO("".join(kept)).readline)
    return " ".join(
        _without_trailing_commas([blocks.get(t.type, t.string) for t in tokens if t.type not in dropped])
    )


def _without_trailing_commas(tokens: list[str]) -> list[str]:
    """A comma before a closing bracket is layout, except the one that makes a tuple of a single value."""
    kept: list[str] = []
    opened: list[tuple[bool, int]] = []
    for place, text in enumerate(tokens):
        if text in "([{" and text:
            before = tokens[place - 1] if place else ""
            is_call = text != "(" or before[-1:].isidentifier() or before in (")", "]")
            opened.append((is_call, 0))
        elif text in (")", "]", "}") and opened:
            is_call, commas = opened.pop()
            if kept[-1:] == [","] and (is_call or commas > 1):
                kept.pop()
        elif text == "," and opened:
            opened[-1] = (opened[-1][0], opened[-1][1] + 1)
        kept.append(text)
    return kept


def _docstring_lines(statement: ast.stmt) -> set[int]:
    lines: set[int] = set()
    for node in ast.walk(statement):
        if not isinstance(node, ast.FunctionDef | ast.ClassDef) or len(node.body) < 2:
            continue
        first = node.body[0]
        if (
            isinstance(first, ast.Expr)
            and isinstance(first.value, ast.Constant)
            and isinstance(first.value.value, str)
        ):
            lines.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return lines
