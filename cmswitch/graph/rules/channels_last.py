"""Convolution and pooling of data whose channels are the last axis: the rules for channels first, with axes renumbered."""

from __future__ import annotations

from dataclasses import replace

from cmswitch.graph.ir import Node, Shape
from cmswitch.graph.rules.rule import RULES, Product, Rule, Vector, View
from cmswitch.graph.rules.windows import convolution, global_pooling, pooling
from cmswitch.graph.streams import Link
from cmswitch.graph.table import INTERNAL


def channels_first(shape: Shape) -> Shape:
    """The same shape with the channels behind the batch."""
    return (shape[0], shape[-1], *shape[1:-1])


def _channels_last(rule: Rule) -> Rule:
    def turned(node: Node) -> Product | Vector | View:
        ends = {node.inputs[0]: node.shape(0), node.outputs[0]: node.output_shape()}
        values = {name: replace(node.values[name], shape=channels_first(shape)) for name, shape in ends.items()}
        given = {name: node.values[name] for name in node.inputs[1:] if name}
        found = rule(replace(node, values={**given, **values}))
        last = len(node.output_shape()) - 1
        if isinstance(found, Product):
            return replace(found, axes=tuple(_axis(axis, last) for axis in found.axes), link=_link(found.link, last))
        if isinstance(found, Vector):
            return replace(found, links=tuple(tuple(_link(link, last) for link in links) for links in found.links))
        return found

    return turned


def _axis(axis: int, last: int) -> int:
    """Number of an axis with the channels last, given the one with the channels first."""
    return {0: 0, 1: last}.get(axis, axis - 1)


def _link(link: Link, last: int) -> Link:
    return {_axis(axis, last): (_axis(source, last), window) for axis, (source, window) in link.items()}


for _operator, _rule in (
    ("ChannelsLastConv", convolution),
    ("ChannelsLastAveragePool", pooling),
    ("ChannelsLastGlobalAveragePool", global_pooling),
):
    RULES.of(_operator, domain=INTERNAL)(_channels_last(_rule))
