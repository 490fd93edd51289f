"""Which quantisation nodes the chip's own requantisation does already (``docs/machine-model.md``, "Quantised networks")."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from cmswitch.graph.ir import Graph, Node
from cmswitch.graph.rules import Mapped, Product, Vector, View

COMMUTING = frozenset({"Relu", "Clip", "MaxPool"})
"""Operators that do the same to integers as to the numbers that they stand for: they pick or clip elements."""


def without_requantization(graph: Graph, mapped: Sequence[Mapped], absorbed: frozenset[str]) -> list[Mapped]:
    """``mapped`` with a view for every quantisation node that is no vector work of its own.

    These are QuantizeLinear on what only came from a product, whose outputs are requantised anyway, and DequantizeLinear of
    what only goes to products and QuantizeLinear, which take integers; scale and zero point are constants. Operators
    that commute with quantisation may stand between, and the nodes ``absorbed`` by products.
    """
    free = {*_after_products(graph, mapped, absorbed), *_before_integers(graph, mapped)}
    return [View() if node.id in free else rule for node, rule in zip(graph.nodes, mapped, strict=True)]


def _after_products(graph: Graph, mapped: Sequence[Mapped], absorbed: frozenset[str]) -> Iterator[str]:
    uses = Counter(value for node in graph.nodes for value in node.inputs)
    uses.update(graph.outputs)
    results: set[str] = set()
    for node, rule in zip(graph.nodes, mapped, strict=True):
        alone = node.has(0) and node.inputs[0] in results and uses[node.inputs[0]] == 1
        if isinstance(rule, Product) or (alone and (node.id in absorbed or _commutes(node, rule))):
            results.add(node.outputs[0])
        elif alone and node.operator == "QuantizeLinear" and _fixed(node):
            yield node.id


def _before_integers(graph: Graph, mapped: Sequence[Mapped]) -> Iterator[str]:
    numbers = set(graph.outputs)  # values of which something needs the numbers that the integers stand for
    for node, rule in zip(reversed(graph.nodes), reversed(mapped), strict=True):
        if isinstance(rule, Product):
            integers = {node.inputs[rule.matrix], node.inputs[rule.operand]}
        elif node.operator == "QuantizeLinear" or (_commutes(node, rule) and numbers.isdisjoint(node.outputs)):
            integers = {node.inputs[0]}
        else:
            integers = set()
        numbers.update(value for value in node.inputs if value not in integers)
        if node.operator == "DequantizeLinear" and _fixed(node) and numbers.isdisjoint(node.outputs):
            yield node.id


def _commutes(node: Node, rule: Mapped) -> bool:
    """Whether the node does the same before and after quantisation: it clips, picks or moves elements of one activation."""
    if node.operator in COMMUTING or isinstance(rule, View):
        return True
    activations = sum(not node.value(i).constant for i, value in enumerate(node.inputs) if value)
    return isinstance(rule, Vector) and rule.kind == "copy" and activations == 1


def _fixed(node: Node) -> bool:
    """Whether scale and zero point are constants."""
    return all(node.value(i).constant for i in range(1, len(node.inputs)) if node.has(i))
