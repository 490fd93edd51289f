"""Convolution and pooling: operators that slide a window over the spatial axes."""

from __future__ import annotations

from fractions import Fraction
from math import prod

from cmswitch.graph.ir import Node, Shape, Unsupported
from cmswitch.graph.rules.rule import RULES, Product, Vector, grouped
from cmswitch.graph.streams import SAME, Link, Window
from cmswitch.graph.table import INTERNAL
from cmswitch.naming import quantity

_PADDING = ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")
"""What auto_pad may be."""


def windows(node: Node, kernel: tuple[int, ...], inputs: Shape, outputs: Shape) -> tuple[Window, ...]:
    """One window per spatial axis, from strides, dilations, pads and auto_pad. Shapes are spatial only."""
    rank = len(kernel)
    strides = node.integers("strides") or (1,) * rank
    dilations = node.integers("dilations") or (1,) * rank
    extents = tuple(d * (k - 1) + 1 for k, d in zip(kernel, dilations, strict=True))
    mode = node.attributes.get("auto_pad", b"NOTSET").decode()
    if mode not in _PADDING:
        raise Unsupported(f"auto_pad is {mode!r}", f"use one of {', '.join(_PADDING)}")
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        totals = [max((o - 1) * s + e - i, 0) for i, o, s, e in zip(inputs, outputs, strides, extents, strict=True)]
        pads = tuple(t // 2 if mode == "SAME_UPPER" else t - t // 2 for t in totals)
    else:
        pads = (node.integers("pads") if mode == "NOTSET" else None) or (0,) * rank
    return tuple(Window(s, p, e) for s, p, e in zip(strides, pads[:rank], extents, strict=True))


def _agrees(node: Node, kernel: Shape, channels: int) -> None:
    """Raise Unsupported if the attributes of a convolution say anything else than the shapes of its weight and bias."""
    stated = node.integers("kernel_shape")
    if stated is not None and stated != tuple(kernel):
        raise Unsupported(
            f"its kernel_shape is {'x'.join(map(str, stated))}, but its weight is of {'x'.join(map(str, kernel))}",
            "correct the attribute `kernel_shape` or the weight",
        )
    if node.has(2) and node.shape(2) != (channels,):
        raise Unsupported(
            f"its bias has {quantity(prod(node.shape(2)), 'element')} for {quantity(channels, 'output channel')}",
            "correct the bias",
        )


def _link(found: tuple[Window, ...]) -> Link:
    link: dict[int, tuple[int, Window]] = {0: (0, SAME)}
    link.update({2 + i: (2 + i, window) for i, window in enumerate(found)})
    return link


@RULES.of("Conv")
def convolution(node: Node) -> Product:
    """Conv, 1-D to 3-D: rows = batch x output positions, inner = input channels of a group x kernel, chunks = output rows."""
    data, weight, out = node.shape(0), node.shape(1), node.output_shape()
    groups = node.integer("group", 1)
    if groups < 1 or data[1] % groups or weight[0] % groups or weight[1] * groups != data[1]:
        raise Unsupported(
            f"`group` {groups} does not divide {quantity(data[1], 'input channel')} and {quantity(weight[0], 'output channel')} "
            f"with {quantity(weight[1], 'input channel')} per group",
            "correct the attribute `group` or the weight's shape",
        )
    _agrees(node, weight[2:], weight[0])
    spatial = len(data) - 2
    if not 1 <= spatial <= 3:
        raise Unsupported(f"{spatial}-D convolution", "use 1-D to 3-D convolutions")
    rows, inner = out[0] * prod(out[2:]), weight[1] * prod(weight[2:])
    axes = (0, 2, 3) if spatial == 3 else (0, 2)
    return Product(
        rows=rows,
        inner=inner,
        columns=weight[0] // groups,
        groups=groups,
        matrix=0,
        operand=1,
        axes=axes,
        chunks=grouped(rows) if spatial == 1 else prod(out[a] for a in axes),
        link=_link(windows(node, weight[2:], data[2:], out[2:])),
        expanded=rows * inner * groups,
        sides=(2,) if node.has(2) and not node.value(2).constant else (),
    )


@RULES.of("TransposedProduct", domain=INTERNAL)
def transposed_product(node: Node) -> Product:
    """The product of a transposed convolution: rows = batch x input positions, inner = input channels of a group,
    columns = output channels of a group x kernel, chunks = input rows."""
    data, weight, groups = node.shape(0), node.shape(1), node.integer("group", 1)
    if groups < 1 or data[1] % groups or weight[0] != data[1]:
        raise Unsupported(
            f"`group` {groups} does not divide {quantity(data[1], 'input channel')}, of which the weight has {weight[0]}",
            "correct the attribute `group` or the weight's shape",
        )
    axes = (0, 2, 3) if len(data) == 5 else (0, 2)
    rows = data[0] * prod(data[2:])
    return Product(
        rows=rows,
        inner=data[1] // groups,
        columns=prod(weight[1:]),
        groups=groups,
        matrix=0,
        operand=1,
        axes=axes,
        chunks=grouped(rows) if len(data) == 3 else prod(data[a] for a in axes),
        link={axis: (axis, SAME) for axis in axes},
    )


@RULES.of("Col2Im")
@RULES.of("OverlapAdd", domain=INTERNAL)
def overlap_add(node: Node) -> Vector:
    """Every input position adds a window of elements to the output: output ``o`` reads the inputs whose windows cover it.

    Input and output are [batch, channels x kernel, positions] and [batch, channels, positions], their spatial axes alike
    (in Col2Im those of the input are flattened). A window that no other overlaps is copied, not added.
    """
    data, out, rank = node.shape(0), node.output_shape(), len(node.output_shape()) - 2
    kernel = node.integers("kernel_shape", 2) or ()
    strides, dilations = node.integers("strides") or (1,) * rank, node.integers("dilations") or (1,) * rank
    pads = node.integers("pads") or (0,) * (2 * rank)
    reach = [d * (k - 1) for k, d in zip(kernel, dilations, strict=True)]
    flat = len(data) < len(out)
    places = [(size + pads[i] + pads[rank + i] - reach[i] - 1) // strides[i] + 1 for i, size in enumerate(out[2:])]
    finer = prod(places[1:]) if flat else 1
    link: dict[int, tuple[int, Window]] = {0: (0, SAME)}
    for i in range(1 if flat else rank):
        stride = Fraction(finer, strides[i])
        link[2 + i] = (2 + i, Window(stride, stride * (reach[i] - pads[i]), stride * reach[i] + finer))
    apart = all(step > far or place == 1 for step, far, place in zip(strides, reach, places, strict=True))
    return Vector("copy" if apart else "add", prod(data), ((link, {}, {}),))


@RULES.of("GridSample")
@RULES.of("Sample", domain=INTERNAL)
def sampling(node: Node) -> Vector:
    """Reads the image (first input) at computed places: any output position may need all of it, but each only its own
    place (further inputs). ``corners`` elements are read for an output element, and one more to weigh the result."""
    out, spatial = node.output_shape(), node.integer("spatial", len(node.output_shape()) - 2)
    mode = node.attributes.get("mode", b"linear").decode()
    corners = {"nearest": 1, "cubic": 4**spatial, "bicubic": 4**spatial}.get(mode, 2**spatial)
    first = 1 if node.operator == "GridSample" else 2
    places: Link = {0: (0, SAME), **{2 + i: (first + i, SAME) for i in range(spatial)}}
    sides = tuple({0: (0, SAME)} if i == 0 else places for i in range(len(node.inputs)))
    return Vector("gather", prod(out) * (corners + (len(node.inputs) > 2)), (sides,))


@RULES.of("MaxPool", "AveragePool", "LpPool")
def pooling(node: Node) -> Vector:
    """MaxPool, AveragePool, LpPool: the window's elements per output."""
    data, out = node.shape(0), node.output_shape()
    kernel = node.integers("kernel_shape") or ()
    link = _link(windows(node, kernel, data[2:], out[2:]))
    return Vector("pool", prod(out) * prod(kernel), ((link,),) * len(node.outputs))


@RULES.of("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def global_pooling(node: Node) -> Vector:
    """Global pooling: everything of one image becomes one vector."""
    data = node.shape(0)
    return Vector("reduce", prod(data), ((_link(tuple(Window(1, 0, size) for size in data[2:])),),), columnwise=False)


@RULES.of("LRN")
def local_response(node: Node) -> Vector:
    """LRN: a window of ``size`` channels per output element."""
    data = node.shape(0)
    link = {axis: (axis, SAME) for axis in range(len(data)) if axis != 1}
    return Vector("pool", prod(data) * node.integer("size", 1), ((link,),), columnwise=False)
