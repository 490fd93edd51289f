"""What the rules say of every node, and what no rule can do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import onnx

from cmswitch.errors import InputError, listed
from cmswitch.graph.ir import Graph, Node, Shape, Unknown, Unsupported
from cmswitch.graph.names import title
from cmswitch.graph.network import HOST
from cmswitch.graph.rules import RULES, Mapped, Product, Vector, View
from cmswitch.naming import quantity

MOST_CHUNKS = 2**20
"""Chunks of one operator: dependences are found, and simulated, chunk by chunk."""


def apply_rules(graph: Graph) -> list[Mapped]:
    """What the rules say of every node. Raises InputError that lists every node that cannot be mapped.

    A node that fails only because an earlier one failed is not reported.
    """
    found: list[Mapped] = []
    problems: list[str] = []
    lost: set[str] = set()
    for node in graph.nodes:
        rule = RULES.get((node.domain, node.operator))
        try:
            if node.refusal is not None:
                raise node.refusal
            if rule is None:
                raise Unsupported("no rule for this operator", "express it with supported operators before export")
            mapped = _of_text(node, rule(node))
            _check(node, mapped)
            found.append(mapped)
        except (Unsupported, TypeError, ValueError, LookupError, ArithmeticError, AttributeError) as error:
            contradiction = Unsupported(f"its attributes contradict its shapes ({error})", "export the model again")
            problem = error if isinstance(error, Unsupported) else contradiction
            unmapped = rule is None and not isinstance(problem, Unknown)
            if unmapped or lost.isdisjoint(node.inputs):
                problems.append(f"{_describe(node)}: {problem.reason}; {problem.remedy}")
            lost.update(value for value in node.outputs if value and graph.values[value].shape is None)
    if problems:
        count = quantity(len(problems), "node")
        raise InputError("\n".join((f"{graph.name}: {count} cannot be mapped", *listed(problems))))
    return found


def _of_text(node: Node, mapped: Mapped) -> Mapped:
    """Only the host can handle text, whatever is done to it."""
    text = any(node.values[value].dtype == onnx.TensorProto.STRING for value in (*node.inputs, *node.outputs) if value)
    return replace(mapped, kind=HOST, columnwise=False) if text and isinstance(mapped, Vector) else mapped


def _check(node: Node, mapped: Mapped) -> None:
    """What no rule can do: further outputs that something reads, empty results, streaming of constants."""
    made = len(mapped.links) if isinstance(mapped, Vector) else 1
    if any(node.makes(index) for index in range(made, len(node.outputs))):
        raise Unsupported("more of its outputs are used than can be mapped", "remove the uses of the later outputs")
    runs = [i for i in range(made) if node.makes(i) and not node.values[node.outputs[i]].constant]
    if any(node.output_elements(i) == 0 for i in runs):
        raise Unsupported("it makes no elements", "bind the dimensions so that no tensor is empty")
    if isinstance(mapped, View) and node.output_elements() != prod(node.shape(0)):
        raise Unsupported("its output has another number of elements than its input", "correct the target shape")
    if isinstance(mapped, Product) and mapped.chunks > MOST_CHUNKS:
        raise Unsupported(
            f"it makes {mapped.chunks} rows or positions one by one, more than the {MOST_CHUNKS} that are timed",
            "bind smaller dimensions, or split the model",
        )
    streamed = mapped.matrix if isinstance(mapped, Product) else 0
    if not isinstance(mapped, Vector) and node.value(streamed).constant:
        raise Unsupported("a constant takes the place of its activation", "fold it before export")


def _describe(node: Node) -> str:
    def shapes(names: Sequence[str]) -> str:
        return ", ".join(_size(node.values[name].shape) if name else "-" for name in names)

    return f"{title(node.id, node.operator, node.domain, node.version)} [{shapes(node.inputs)}] -> [{shapes(node.outputs)}]"


def _size(shape: Shape | None) -> str:
    return "?" if shape is None else "x".join(map(str, shape)) or "scalar"
