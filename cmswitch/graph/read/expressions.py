"""Dimensions that exporters name by what they are, as in ``past_sequence_length + sequence_length``."""

from __future__ import annotations

import ast
import operator
import warnings
from collections.abc import Callable, Mapping

_OPERATIONS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}
LONGEST = 200
"""Characters of the longest name that is taken for an expression."""


def terms(name: str) -> frozenset[str]:
    """The names that ``name`` is computed from; none if it is no sum, difference, product or quotient of names and numbers."""
    tree = _tree(name)
    return frozenset(node.id for node in ast.walk(tree) if isinstance(node, ast.Name)) if tree else frozenset()


def value(name: str, sizes: Mapping[str, int]) -> int | None:
    """What ``name`` is if its terms have ``sizes``; None if one has none, or if there is no such number."""
    tree = _tree(name)
    try:
        return None if tree is None else _value(tree, sizes)
    except (KeyError, ZeroDivisionError):
        return None


def _tree(name: str) -> ast.BinOp | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about names that are no Python
            tree = ast.parse(name.strip(), mode="eval").body if len(name) <= LONGEST else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return tree if isinstance(tree, ast.BinOp) and _computable(tree) else None


def _computable(tree: ast.expr) -> bool:
    if isinstance(tree, ast.BinOp):
        return type(tree.op) in _OPERATIONS and _computable(tree.left) and _computable(tree.right)
    return isinstance(tree, ast.Name) or (isinstance(tree, ast.Constant) and type(tree.value) is int)


def _value(tree: ast.expr, sizes: Mapping[str, int]) -> int:
    if isinstance(tree, ast.BinOp):
        return _OPERATIONS[type(tree.op)](_value(tree.left, sizes), _value(tree.right, sizes))
    return int(sizes[tree.id] if isinstance(tree, ast.Name) else tree.value)  # type: ignore[attr-defined]
