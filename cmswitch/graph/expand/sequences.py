"""Sequences and optionals of known structure: they vanish, and whoever reads an element reads the value itself."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import helper

from cmswitch.graph.expand.parts import EXPANSIONS, MOST_VALUES, Part, Parts
from cmswitch.graph.ir import Node, Unknown, Unsupported


def sequence(items: Sequence[str], output: str) -> Part:
    """A part that makes ``output`` the sequence of the values ``items``."""
    return Part(helper.make_node("SequenceConstruct", list(items), [output], output), items=tuple(items))


def items_of(node: Node, index: int) -> tuple[str, ...]:
    """The values that input number ``index``, a sequence, holds. Raises Unsupported if they are not known."""
    items = node.value(index).items
    if items is None:
        raise Unknown(
            f"what the sequence {node.inputs[index]!r} holds does not follow from constants",
            "replace the sequence by tensors before export",
        )
    return items


def _position(node: Node, index: int, last: int) -> int:
    """The place that input number ``index`` names, ``last`` if it is left out."""
    found = node.integers("position", index)
    place = found[0] if found else last
    return place if place >= 0 else place + len(items_of(node, 0))


@EXPANSIONS.of("SequenceConstruct", "SequenceEmpty")
def construct(node: Node) -> list[Part]:
    """SequenceConstruct, SequenceEmpty."""
    return [sequence(node.inputs, node.outputs[0])]


@EXPANSIONS.of("Identity")
def identity(node: Node) -> list[Part] | None:
    """Identity of a sequence."""
    items = node.value(0).items
    return None if items is None else [sequence(items, node.outputs[0])]


@EXPANSIONS.of("SequenceAt")
def at(node: Node) -> list[Part]:
    """SequenceAt: one of the elements."""
    parts = Parts(node)
    parts.add("Identity", items_of(node, 0)[_position(node, 1, -1)], output=node.outputs[0])
    return parts.list


@EXPANSIONS.of("SequenceInsert")
def insert(node: Node) -> list[Part]:
    """SequenceInsert: at the end unless a position is given."""
    items = list(items_of(node, 0))
    items.insert(_position(node, 2, len(items)), node.inputs[1])
    return [sequence(items, node.outputs[0])]


@EXPANSIONS.of("SequenceErase")
def erase(node: Node) -> list[Part]:
    """SequenceErase: the last element unless a position is given."""
    items = list(items_of(node, 0))
    del items[_position(node, 1, -1)]
    return [sequence(items, node.outputs[0])]


@EXPANSIONS.of("SequenceLength")
def length(node: Node) -> list[Part]:
    """SequenceLength."""
    return _constant(node, len(items_of(node, 0)), np.int64)


@EXPANSIONS.of("ConcatFromSequence")
def concat(node: Node) -> list[Part]:
    """ConcatFromSequence: along an axis of the elements, or a new one."""
    parts, items, axis = Parts(node), list(items_of(node, 0)), node.integer("axis", 0)
    if node.integer("new_axis", 0):
        items = [parts.add("Unsqueeze", item, parts.constant([axis])) for item in items]
    parts.add("Concat", *items, output=node.outputs[0], axis=axis)
    return parts.list


@EXPANSIONS.of("SplitToSequence")
def split(node: Node) -> list[Part]:
    """SplitToSequence: slices of the given sizes, or single ones without their axis."""
    data = node.shape(0)
    axis = node.integer("axis", 0) % len(data)
    size = data[axis]
    given = node.value(1).data
    if node.has(1) and given is None:
        raise Unsupported(f"its sizes {node.inputs[1]!r} are computed at run time", "make them a constant of the file")
    if given is None:
        _pieces(size)
        sizes = [1] * size
    elif given.ndim:
        sizes = [int(share) for share in given]
    else:
        share = int(given)
        _pieces(-(-size // share))
        sizes = [min(share, size - start) for start in range(0, size, share)]
    parts, items, start = Parts(node), [], 0
    for share in sizes:
        bounds = [parts.constant([n]) for n in (start, start + share, axis)]
        item = parts.add("Slice", node.inputs[0], *bounds)
        if given is None and not node.integer("keepdims", 1):
            item = parts.add("Squeeze", item, bounds[2])
        items.append(item)
        start += share
    return [*parts.list, sequence(items, node.outputs[0])]


def _pieces(count: int) -> None:
    if count > MOST_VALUES:
        raise Unsupported(
            f"it makes {count} pieces, more than the {MOST_VALUES} that are written out",
            "bind a shorter sequence, or cut it into fewer pieces",
        )


@EXPANSIONS.of("Optional", "OptionalGetElement")
def element(node: Node) -> list[Part] | None:
    """Optional of something, OptionalGetElement: what is in it."""
    if not node.has(0):
        return None
    parts = Parts(node)
    parts.add("Identity", node.inputs[0], output=node.outputs[0])
    return parts.list


@EXPANSIONS.of("OptionalHasElement")
def has_element(node: Node) -> list[Part] | None:
    """OptionalHasElement, where that is known."""
    if node.has(0) and node.value(0).shape is None and node.value(0).items is None:
        return None
    return _constant(node, node.has(0), np.bool_)


def _constant(node: Node, value: int, kind: type) -> list[Part]:
    parts = Parts(node)
    parts.add("Identity", parts.constant(value, kind), output=node.outputs[0])
    return parts.list
