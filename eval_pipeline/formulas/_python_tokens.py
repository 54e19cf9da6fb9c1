"""A Python statement as text that changes when its meaning can."""

# Made from tokens and not from `ast.dump`, which differs between versions of Python. What the versions cut into tokens
# differently, a formatted string, is taken as it is written.

from __future__ import annotations

import ast
import bisect
import io
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_LEFT_OUT = frozenset((tokenize.COMMENT, tokenize.NL, tokenize.ENCODING, tokenize.ENDMARKER))
_LAYOUT = {tokenize.INDENT: "{", tokenize.DEDENT: "}", tokenize.NEWLINE: ";"}

Place = tuple[int, int]
Stretch = tuple[Place, Place]


@dataclass(frozen=True)
class ModuleText:
    """A module's lines, and its tokens with the line each begins on, ascending."""

    lines: list[str]
    tokens: list[tokenize.TokenInfo]
    starts: list[int]


def cut_into_tokens(text: str) -> ModuleText:
    """Every token but those that never carry meaning."""
    every = tokenize.generate_tokens(io.StringIO(text).readline)
    tokens = [token for token in every if token.type not in _LEFT_OUT]
    return ModuleText(text.splitlines(keepends=True), tokens, [token.start[0] for token in tokens])


def canonical_statement(
    module: ModuleText, statement: ast.stmt, nodes: Sequence[ast.AST], *, declaring: str
) -> str:
    """One statement of a module and its nodes; a decorator named `declaring` says nothing about what is computed."""
    docstrings = [_stretch(node, module.lines) for node in _docstrings(nodes)]
    whole = [_stretch(node, module.lines) for node in nodes if isinstance(node, ast.JoinedStr)]
    found: list[str] = []
    for token in _tokens_of(module, statement, declaring):
        if _inside(token.start, docstrings):
            continue
        stretch = _inside(token.start, whole)
        if stretch is None:
            found.append(_LAYOUT.get(token.type, token.string))
        elif token.start == stretch[0]:
            found.append(_text_of(stretch, module.lines))
    return " ".join(_without_empty_statements(_without_trailing_commas(found)))


def _tokens_of(module: ModuleText, statement: ast.stmt, declaring: str) -> list[tokenize.TokenInfo]:
    decorators = [one for one in getattr(statement, "decorator_list", []) if _called(one) != declaring]
    tokens: list[tokenize.TokenInfo] = []
    for node in (*decorators, statement):
        first = bisect.bisect_left(module.starts, node.lineno)
        last = bisect.bisect_right(module.starts, node.end_lineno or node.lineno)
        tokens += module.tokens[first:last]
    while tokens and tokens[0].type == tokenize.DEDENT:
        # The end of what stands above.
        tokens.pop(0)
    return tokens


def _called(decorator: ast.expr) -> str | None:
    function = decorator.func if isinstance(decorator, ast.Call) else decorator
    return function.id if isinstance(function, ast.Name) else None


def _docstrings(nodes: Sequence[ast.AST]) -> Iterator[ast.expr]:
    for node in nodes:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        first = node.body[0]
        value = first.value if isinstance(first, ast.Expr) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield value


def _stretch(node: ast.expr, lines: list[str]) -> Stretch:
    """Where a node stands, in characters; the syntax tree counts bytes."""
    end_line, end_column = node.end_lineno or node.lineno, node.end_col_offset or 0
    return (
        (node.lineno, _characters(lines[node.lineno - 1], node.col_offset)),
        (end_line, _characters(lines[end_line - 1], end_column)),
    )


def _characters(line: str, n_bytes: int) -> int:
    return len(line.encode()[:n_bytes].decode())


def _inside(place: Place, stretches: list[Stretch]) -> Stretch | None:
    """The widest of the stretches that holds the place."""
    if not stretches:
        return None
    holding = [stretch for stretch in stretches if stretch[0] <= place < stretch[1]]
    return min(holding, default=None)


def _text_of(stretch: Stretch, lines: list[str]) -> str:
    (first, start), (last, end) = stretch
    if first == last:
        return lines[first - 1][start:end]
    return "".join([lines[first - 1][start:], *lines[first : last - 1], lines[last - 1][:end]])


def _without_trailing_commas(tokens: list[str]) -> list[str]:
    """A comma before a closing bracket is layout, except the one that makes a tuple of a single value."""
    kept: list[str] = []
    opened: list[tuple[bool, int]] = []
    for place, text in enumerate(tokens):
        if text in ("(", "[", "{"):
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


def _without_empty_statements(tokens: list[str]) -> list[str]:
    """Where a docstring stood alone, its line's end would be left."""
    kept: list[str] = []
    for text in tokens:
        if text == ";" and kept[-1:] in ([";"], ["{"], []):
            continue
        kept.append(text)
    return kept
