"""A Python module as top-level symbols, each with its normalised text and the names that it mentions."""

from __future__ import annotations

import ast
import hashlib
from dataclasses import dataclass, field

WHOLE = "*"
"""The name that stands for everything in a module."""


@dataclass
class Symbol:
    """One top-level name: the hashes of the statements that bind it, and what they mention."""

    digests: list[str] = field(default_factory=list)
    chains: set[tuple[str, ...]] = field(default_factory=set)
    """Dotted names that are read, such as ``("cuda", "vector_add")``."""
    strings: set[str] = field(default_factory=set)
    imports: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Names bound by imports inside the statement: local name to (module, symbol or `WHOLE`)."""


@dataclass
class PythonModule:
    """The symbols of a module, its imports, and the statements that act without binding a name."""

    symbols: dict[str, Symbol]
    imports: dict[str, tuple[str, str]]
    effects: Symbol


def parse_module(text: str, module: str, *, is_package: bool) -> PythonModule:
    """Split `text`, the source of `module`, into symbols.

    Raises:
        SyntaxError: the text is not Python.
    """
    tree = ast.parse(text)
    package = module if is_package else module.rpartition(".")[0]
    parsed = PythonModule({}, {}, Symbol())
    for statement in _without_docstring(tree.body):
        if isinstance(statement, ast.Import | ast.ImportFrom):
            parsed.imports.update(_imports(statement, package))
            continue
        names = _bound_names(statement)
        targets = [parsed.symbols.setdefault(name, Symbol()) for name in names] or [parsed.effects]
        described = _describe(statement, package)
        for target in targets:
            target.digests += described.digests
            target.chains |= described.chains
            target.strings |= described.strings
            target.imports |= described.imports
        if isinstance(statement, ast.If | ast.Try | ast.With):
            for inner in ast.walk(statement):
                if isinstance(inner, ast.Import | ast.ImportFrom):
                    parsed.imports.update(_imports(inner, package))
    return parsed


def _describe(statement: ast.stmt, package: str) -> Symbol:
    normal = _DocstringRemover().visit(statement)  # nobody needs its docstrings
    symbol = Symbol(digests=[hashlib.sha256(_written_out(normal).encode()).hexdigest()])
    inner_of_chain: set[ast.AST] = set()
    for node in ast.walk(normal):
        if isinstance(node, ast.Attribute) and node not in inner_of_chain:
            chain: list[str] = []
            current: ast.expr = node
            while isinstance(current, ast.Attribute):
                chain.insert(0, current.attr)
                current = current.value
                inner_of_chain.add(current)
            if isinstance(current, ast.Name):
                symbol.chains.add((current.id, *chain))
        elif isinstance(node, ast.Name) and node not in inner_of_chain:
            symbol.chains.add((node.id,))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            symbol.strings.add(node.value)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            symbol.imports.update(_imports(node, package))
    return symbol


def _imports(node: ast.Import | ast.ImportFrom, package: str) -> dict[str, tuple[str, str]]:
    found: dict[str, tuple[str, str]] = {}
    if isinstance(node, ast.Import):
        for alias in node.names:
            if alias.asname:
                found[alias.asname] = (alias.name, WHOLE)
            else:  # `import a.b.c` binds `a`; the chain a.b.c.f is resolved step by step
                found[alias.name.partition(".")[0]] = (alias.name.partition(".")[0], WHOLE)
        return found
    base = node.module or ""
    if node.level:
        parts = package.split(".")
        parts = parts[: len(parts) - (node.level - 1)]
        base = ".".join([*parts, base] if base else parts)
    for alias in node.names:
        found[alias.asname or alias.name] = (base, alias.name)
    return found


def _bound_names(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [statement.name]
    if isinstance(statement, ast.Assign):
        return [name for target in statement.targets for name in _target_names(target)]
    if isinstance(statement, ast.AnnAssign | ast.AugAssign):
        return _target_names(statement.target)
    if isinstance(statement, ast.If | ast.Try | ast.With | ast.For):
        bodies = [getattr(statement, part, []) for part in ("body", "orelse", "finalbody")]
        bodies += [handler.body for handler in getattr(statement, "handlers", [])]
        return [name for body in bodies for inner in body for name in _bound_names(inner)]
    return []


def _target_names(target: ast.expr) -> list[str]:
    if isinstance(target, ast.Name):
        return [target.id]
    if isinstance(target, ast.Tuple | ast.List):
        return [name for element in target.elts for name in _target_names(element)]
    if isinstance(target, ast.Starred):
        return _target_names(target.value)
    if isinstance(target, ast.Subscript | ast.Attribute):  # TABLE["x"] = …, op.field = …: part of TABLE, of op
        return _target_names(target.value)
    return []


def _written_out(node: object) -> str:
    """A syntax tree as text, the same in every version of Python: `ast.dump` shows fields that come and go."""
    if isinstance(node, ast.AST):
        fields = ((name, getattr(node, name, None)) for name in node._fields if name not in ("ctx", "kind"))
        inside = ",".join(f"{name}={_written_out(value)}" for name, value in fields if value not in (None, []))
        return f"{type(node).__name__}({inside})"
    if isinstance(node, list):
        return f"[{','.join(map(_written_out, node))}]"
    return repr(node)


class _DocstringRemover(ast.NodeTransformer):
    def _strip(self, node):
        self.generic_visit(node)
        node.body = _without_docstring(node.body) or [ast.Pass()]
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = visit_Module = _strip


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    """Drop every bare string: docstrings, and the strings under attributes that serve as theirs."""
    return [
        statement
        for statement in body
        if not (
            isinstance(statement, ast.Expr)
            and isinstance(statement.value, ast.Constant)
            and isinstance(statement.value.value, str)
        )
    ]
